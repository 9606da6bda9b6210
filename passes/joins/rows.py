"""Kernels as rows, and how two kernels that walk the same rows become one.

    for i in 0 .. M parallel:        for i in 0 .. M parallel:
      a(i)                             a(i)
    for r in 0 .. M parallel:   →      b(i)
      b(r)

A kernel *walks rows* where it is a chain of parallel loops around something (of none, where it has one result).  Two walk the same rows where the loops of both have the same extents and everything
that one writes and the other touches is read and written, in both, at the row's own position in the leading axes: then iterations of the joined loop touch what no other does.

Which kernels want to be one is for the passes to say (`join_rows`, `join`).  One moves to the other past those between where it does not touch what they write, nor they what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from ...ir.expr import ONE, ZERO, Expr, var
from ...ir.kernel import (
    Block,
    Buffer,
    Check,
    If,
    Kernel,
    Let,
    Loop,
    Module,
    Store,
    accesses,
    map_expressions,
    nested,
    perfect,
    reads,
    statements,
    written,
)
from ...ir.record import record, replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.walks import rewrite

Index = tuple[Expr, ...]


@record
class Rows:
    """A kernel as rows and what is done for each."""

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    sizes: frozenset[str]

    @cached_property
    def few(self) -> tuple[Expr, Block] | None:
        """A condition on sizes under which something else is done than to walk rows, and what."""
        match self.kernel.body:
            case (If(condition, block, orelse),) if orelse and not condition.names - set(self.sizes) and not condition.buffers:
                return condition, block
        return None

    @cached_property
    def body(self) -> Block:
        """The rows, and the scalars before them."""
        (s, *_) = self.kernel.body
        return s.orelse if self.few is not None and isinstance(s, If) else self.kernel.body

    @cached_property
    def before(self) -> Block:
        """Scalars of no row, made of sizes and scalars alone."""
        found = tuple(s for s in self.body if isinstance(s, Let) and not s.value.buffers)
        return found if found == self.body[: len(found)] else ()

    @cached_property
    def chain(self) -> tuple[Loop, ...]:
        """The parallel loops around everything."""
        found, _ = perfect(self.body[len(self.before) :], lambda x: x.kind == "parallel" and x.start is ZERO and x.step is ONE)
        return tuple(found)

    def inside(self, depth: int) -> Block:
        """What is done inside so many loops of the chain."""
        return self.chain[depth - 1].body if depth else self.body[len(self.before) :]

    @cached_property
    def accesses(self) -> dict[str, list[Index]]:
        """The positions at which the rows read and write each global buffer."""
        found: dict[str, list[Index]] = {name: [] for name in self.kernel.buffers}
        for name, index in accesses(self.body):
            if name in found:
                found[name].append(index)
        return found

    @cached_property
    def written(self) -> frozenset[str]:
        return frozenset(written(self.kernel.body)) & self.accesses.keys()

    @cached_property
    def read(self) -> frozenset[str]:
        loads = {n.attr for n in reads(self.kernel.body)}
        added_to = {s.buffer for s in statements(self.kernel.body) if isinstance(s, Store) and s.combiner}
        return frozenset(loads | added_to) & self.accesses.keys()

    @cached_property
    def looks(self) -> bool:
        """Whether it only looks at positions that data decides: what reads there comes behind it (`checks_first.py`)."""
        return not self.written and any(isinstance(s, Check) for s in statements(self.kernel.body))

    def passes(self, other: Rows) -> bool:
        """Whether this may as well run after the other."""
        return self.written.isdisjoint(other.accesses) and self.read.isdisjoint(other.written)

    def by_row(self, name: str, depth: int) -> bool:
        """Whether a buffer is touched at the row's own position alone."""
        rows = tuple(var(x.axis) for x in self.chain[:depth])
        return not self.buffers[name].strides and all(index[:depth] == rows for index in self.accesses[name])


def common_depth(a: Rows, b: Rows) -> int:
    """How many outer loops have the same extents in both."""
    depth = 0
    for x, y in zip(a.chain, b.chain, strict=False):
        if x.stop is not y.stop:
            break
        depth += 1
    return depth


def one_after_the_other(a: Rows, b: Rows, depth: int) -> Rows:
    """What `a` does for a row, a point of `depth` loops, then what `b` does for it."""
    names = Names((*a.sizes, *a.buffers, *defined(a.kernel.body)))
    b = replace(b, kernel=replace(b.kernel, body=unique_locals(b.kernel.body, names.fresh)))
    rows = {var(y.axis): var(x.axis) for x, y in zip(a.chain[:depth], b.chain, strict=False)}
    rest = map_expressions(b.inside(depth), lambda e: rewrite(e, rows.get)) if rows else b.inside(depth)
    body: Block = (*a.before, *b.before, *nested(a.chain[:depth], (*a.inside(depth), *rest)))
    few = a.few or b.few
    if few is not None:
        each = [r.few[1] if r.few else unique_locals(r.body, names.fresh) for r in (a, b)]
        body = (If(few[0], (*each[0], *each[1]), body),)
    touched = {*a.kernel.buffers, *b.kernel.buffers}
    notes = dict.fromkeys((*a.kernel.notes, *b.kernel.notes))
    return replace(a, kernel=Kernel(b.kernel.name, tuple(n for n in a.buffers if n in touched), body, notes=tuple(notes)))


def rows_of(ir: Module) -> list[Rows]:
    """The kernels as rows."""
    buffers = {name: ir.buffer(name) for name in (*(p.name for p in ir.ports), *(t.name for t in ir.temps))}
    sizes = frozenset(s.name for s in ir.sizes)
    return [Rows(kernel, buffers, sizes) for kernel in ir.kernels]


def joined(kernels: list[Rows], joint: Callable[[Rows, Rows], Rows | None]) -> list[Rows]:
    """The kernels with those that `joint` makes one of joined: each with those before it, the nearest first; one that looks at positions alone is before whatever it was before."""
    done: list[Rows] = []
    for current in kernels:
        place = len(done)
        done.append(current)
        for k in reversed(range(place)):
            between = done[k + 1 : place]
            down = all(done[k].passes(other) for other in between)
            if not down and not all(done[place].passes(other) and not other.looks for other in between):
                continue
            if done[k].looks or done[place].looks:
                continue
            one = joint(done[k], done[place])
            if one is None:
                continue
            del done[place if not down else k]
            place = place - 1 if down else k
            done[place] = one
    return done
