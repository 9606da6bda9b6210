"""kernels → kernels: kernels that work off the same rows, one on what another has made of each, become one; a row that nobody else wants stays in the cache.

    for i in 0 .. M parallel:                          for i in 0 .. M parallel:
      …                                                  alloc temp: f32[N] private
      for j: temp[i, j] = exp(X[i, j] - m) / l           …
    for r in 0 .. M parallel:                    →       for j: temp[j] = exp(X[i, j] - m) / l
      for p: best max= temp[r, p]                        for p: best max= temp[p]
      Y[r] = best                                        Y[i] = best

So a softmax and a choice of its largest are one kernel, however the choice is written: as reductions, as scans or as loops that stayed loops.

1. A kernel *walks rows* where it is a chain of parallel loops around something.  Two walk the same rows where the loops of both have the same extents and everything that one writes and the other
   touches is read and written, in both, at the row's own position in the leading axes: then iterations of the joined loop touch what no other does.
2. They are joined where the one reads what the other writes, and something is left to do inside a row: two pointwise kernels are as well side by side.
3. Not where rows share operands of a reduction (a matrix product): such a kernel is tiled over rows, which it must be alone for.  Nor where a row takes a `while` (a sort, a transform in log N
   rounds): beside as much work the traffic is little, and what is done for all rows at once has more parallel loops than rows.
4. Where few long rows are worked off in another way (`split_cascade`), the kernels follow one another there as they were, and what is between them is in memory.
5. A kernel moves down to the one that it is joined with, past those between that do not touch what it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..ir.expr import ONE, ZERO, Expr, call, load, var
from ..ir.kernel import (
    Alloc,
    Block,
    Buffer,
    If,
    Kernel,
    Loop,
    Module,
    Stmt,
    Store,
    While,
    expressions,
    map_block,
    map_expressions,
    statements,
)
from ..ir.renaming import defined, unique_locals
from ..ir.target import Options, Target
from ..ir.walks import postorder, rewrite
from .nest_body import Names

Index = tuple[Expr, ...]
AXES = 2  # of a row, not counting those of constant extent: one with more leaves the cache, and its loops are better shared by threads


def join_rows(ir: Module, target: Target, options: Options) -> Module:
    if target.gpu or len(ir.kernels) < 2:
        return ir  # a thread of a GPU has no memory for a row
    buffers = {name: ir.buffer(name) for name in (*(p.name for p in ir.ports), *(t.name for t in ir.temps))}
    sizes = frozenset(s.name for s in ir.sizes)
    done: list[_Rows] = []
    for kernel in ir.kernels:
        current = _Rows(kernel, buffers, sizes)
        for k in reversed(range(len(done))):
            depth = _common(done[k], current)
            if depth and all(done[k].passes(other) for other in done[k + 1 :]):
                current = _joined(done.pop(k), current, depth)
        done.append(current)
    if len(done) == len(ir.kernels):
        return ir
    return _local_rows(ir, [r.kernel for r in done])


@dataclass(frozen=True)
class _Rows:
    """A kernel as rows and what is done for each."""

    kernel: Kernel
    buffers: dict[str, Buffer]
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
        """The rows."""
        (s, *_) = self.kernel.body
        return s.orelse if self.few is not None and isinstance(s, If) else self.kernel.body

    @cached_property
    def chain(self) -> tuple[Loop, ...]:
        """The parallel loops around everything."""
        found: list[Loop] = []
        body = self.body
        while len(body) == 1 and isinstance(s := body[0], Loop) and s.kind == "parallel" and s.start is ZERO and s.step is ONE:
            found.append(s)
            body = s.body
        return tuple(found)

    @cached_property
    def accesses(self) -> dict[str, list[Index]]:
        """The positions at which the rows read and write each global buffer."""
        found: dict[str, list[Index]] = {name: [] for name in self.kernel.buffers}
        for name, index in _accesses(self.body):
            if name in found:
                found[name].append(index)
        return found

    @cached_property
    def written(self) -> frozenset[str]:
        return frozenset(s.buffer for s in statements(self.kernel.body) if isinstance(s, Store)) & self.accesses.keys()

    @cached_property
    def read(self) -> frozenset[str]:
        loads = {n.attr for s in statements(self.kernel.body) for n in postorder(*expressions(s)) if n.op == "load"}
        added_to = {s.buffer for s in statements(self.kernel.body) if isinstance(s, Store) and s.combiner}
        return frozenset(loads | added_to) & self.accesses.keys()

    def passes(self, other: _Rows) -> bool:
        """Whether this may as well run after the other."""
        return self.written.isdisjoint(other.accesses) and self.read.isdisjoint(other.written)

    def by_row(self, name: str, depth: int) -> bool:
        """Whether a buffer is touched at the row's own position alone."""
        rows = tuple(var(x.axis) for x in self.chain[:depth])
        return not self.buffers[name].strides and all(index[:depth] == rows for index in self.accesses[name])

    @cached_property
    def alone(self) -> bool:
        """Whether rows, or what is inside of them, have operands of a reduction in common, or take nobody knows how long."""
        return any(isinstance(s, While) for s in statements(self.body)) or any(True for _ in _contractions(self.body, ()))


def _accesses(block: Block) -> Iterator[tuple[str, Index]]:
    for s in statements(block):
        yield from ((n.attr, n.args) for n in postorder(*expressions(s)) if n.op == "load")
        if isinstance(s, Store):
            yield s.buffer, s.index


def _contractions(block: Block, around: tuple[str, ...]) -> Iterator[Loop]:
    """The reductions in which one operand misses a kept axis that another has."""
    for s in block:
        if isinstance(s, Loop) and s.kind == "reduce" and not any(isinstance(t, Loop) for t in statements(s.body)):
            moving = [n.names & set(around) for t in statements(s.body) for n in postorder(*expressions(t)) if n.op == "load" and s.axis in n.names]
            if any(m != moving[0] for m in moving):
                yield s
        elif isinstance(s, Loop):
            yield from _contractions(s.body, (*around, s.axis) if s.kind == "parallel" else around)
        elif isinstance(s, If):
            yield from _contractions((*s.body, *s.orelse), around)


def _common(a: _Rows, b: _Rows) -> int:
    """Over how many outer loops the two kernels walk the same rows and want to be one; 0 where they do not."""
    if not a.written & b.read or a.alone or b.alone or (a.few and b.few and a.few[0] is not b.few[0]):
        return 0
    shared = [n for n in a.accesses if n in b.accesses and (n in a.written or n in b.written)]
    depth = 0
    for x, y in zip(a.chain, b.chain, strict=False):
        if x.stop is not y.stop:
            break
        depth += 1
    while depth and not all(r.by_row(n, depth) for r in (a, b) for n in shared):
        depth -= 1
    if depth and any(_deepest(r.chain[depth - 1].body) > AXES for r in (a, b)):
        return 0
    inside = any(isinstance(s, Loop) for r in (a, b) if depth for s in statements(r.chain[depth - 1].body))
    return depth if inside else 0


def _deepest(block: Block) -> int:
    """How many parallel loops of no constant extent are inside of one another."""
    found = 0
    for s in block:
        if isinstance(s, Loop) and s.kind == "parallel":
            constant = s.start.is_const and s.stop.is_const
            found = max(found, _deepest(s.body) + (0 if constant else 1))
        elif isinstance(s, If):
            found = max(found, _deepest((*s.body, *s.orelse)))
    return found


def _joined(a: _Rows, b: _Rows, depth: int) -> _Rows:
    """What `a` does for a row, then what `b` does for it."""
    names = Names((*a.kernel.buffers, *b.kernel.buffers, *defined(a.kernel.body)))
    b = replace(b, kernel=replace(b.kernel, body=unique_locals(b.kernel.body, names.fresh)))
    rows = {var(y.axis): var(x.axis) for x, y in zip(a.chain[:depth], b.chain, strict=False)}
    rest = map_expressions(b.chain[depth - 1].body, lambda e: rewrite(e, rows.get))
    body: Block = _around(a.chain[:depth], (*a.chain[depth - 1].body, *rest))
    few = a.few or b.few
    if few is not None:
        each = [r.few[1] if r.few else unique_locals(r.body, names.fresh) for r in (a, b)]
        body = (If(few[0], (*each[0], *each[1]), body),)
    touched = {*a.kernel.buffers, *b.kernel.buffers}
    notes = dict.fromkeys((*a.kernel.notes, *b.kernel.notes))
    return replace(a, kernel=Kernel(b.kernel.name, tuple(n for n in a.buffers if n in touched), body, notes=tuple(notes)))


def _around(chain: tuple[Loop, ...], body: Block) -> Block:
    for x in reversed(chain):
        body = (replace(x, body=body),)
    return body


def _local_rows(ir: Module, kernels: list[Kernel]) -> Module:
    """The kernels numbered anew; a temporary that was between kernels and is now inside of one, row by row, is that row's own."""
    temps = {t.name: t for t in ir.temps}
    for k, kernel in enumerate(kernels):
        rows = _Rows(kernel, {n: ir.buffer(n) for n in kernel.buffers}, frozenset(s.name for s in ir.sizes))
        inside = [t for t in ir.temps if [t.name in other.buffers for other in kernels] == [j == k for j in range(len(kernels))]]
        inside = [t for t in inside if rows.accesses[t.name] and sum(t.name in other.buffers for other in ir.kernels) > 1]
        inside = [t for t in inside if rows.by_row(t.name, len(rows.chain))]
        if inside:
            kernel = _with_own(rows, inside)
        for t in inside:
            if t.name not in kernel.buffers:
                del temps[t.name]
            elif rows.few is not None:
                temps[t.name] = replace(t, shape=(call("where", rows.few[0], t.shape[0], ZERO), *t.shape[1:]))
        kernels[k] = replace(kernel, name=f"{ir.name}_{k}")
    return replace(ir, temps=tuple(temps.values())).with_kernels(tuple(kernels))


def _with_own(rows: _Rows, inside: list[Buffer]) -> Kernel:
    """The kernel with buffers of one row instead of those of all; where few rows are worked off in another way, those of all are left."""
    depth, few = len(rows.chain), rows.few
    names = Names((*rows.kernel.buffers, *defined(rows.kernel.body)))
    own = {t.name: replace(t, name=names.fresh("row"), shape=t.shape[depth:], space="private" if t.shape[depth:] else "register") for t in inside}

    def read(e: Expr) -> Expr | None:
        return load(own[e.attr].name, e.dtype, *e.args[depth:]) if e.op == "load" and e.attr in own else None

    def stored(s: Stmt) -> Block | None:
        return (replace(s, buffer=own[s.buffer].name, index=s.index[depth:]),) if isinstance(s, Store) and s.buffer in own else None

    body = map_block(map_expressions(rows.chain[-1].body, lambda e: rewrite(e, read)), stored)
    body = _around(rows.chain, (*(Alloc(b) for b in own.values()), *body))
    note = f"kernels that work off the same rows are one: a row of what was {len(own)} tensor{'s' * (len(own) > 1)} in memory stays in the cache"
    kept = rows.kernel.buffers if few else tuple(n for n in rows.kernel.buffers if n not in own)
    return replace(rows.kernel, buffers=kept, body=(If(*few, body),) if few else body, notes=(*rows.kernel.notes, note))
