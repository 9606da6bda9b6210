"""A kernel in blocks: what it does for some of the positions along one axis of the tensors that it shares with others.

    for i in 0 .. H: for j in 0 .. W: A[0, W·i + j] = …        a *row* is W positions, and the loop over i is the chain: the kernel walks rows
    for p in 0 .. 6: for k in 0 .. H·W: D[p, k] = … A[p, k]    the loop over k *carries* the positions: it is as long as they are many
    for i: for j: Y[i, j] = D[0, W·i + j] + D[1, W·i + j]

A block is some consecutive rows.  `blocked` is what a kernel does for one: the chain runs over its rows, a loop that carries over its positions, and what is shared has the block's positions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from ...ir import polynomial as pl
from ...ir.expr import ONE, ZERO, Expr, floordiv, load, mod, product, var
from ...ir.kernel import Alloc, Block, Buffer, Let, Loop, Stmt, Store, with_parts
from ...ir.record import record
from ...ir.simplify import prove_equal
from ...ir.walks import postorder, rewrite, substitute
from .rows import Rows

Axes = Mapping[str, int]  # of each shared tensor, the axis that is cut in blocks


@record
class Form:
    """How a kernel goes through the positions."""

    kernel: Rows
    depth: int  # of the chain of loops that are rows; 0 where loops carry the positions
    unit: Expr  # positions of such a row
    carriers: frozenset[str]

    @property
    def rows(self) -> Expr:
        return product(x.stop for x in self.kernel.chain[: self.depth])


@record
class Cut:
    """One block: its first row, how many rows it has, and how many positions a row has."""

    first: Expr
    count: Expr
    unit: Expr


def form_of(kernel: Rows, axes: Axes, length: Expr, unit: Expr | None = None) -> Form | None:
    """How a kernel goes through `length` positions along the axes of the tensors in `axes` that it touches, in rows of `unit` positions where that is given; None where it does not."""
    if kernel.few is not None or kernel.before:
        return None
    carriers = _carriers(kernel, axes, length)
    if carriers:
        return Form(kernel, 0, ONE, carriers)
    for depth in range(len(kernel.chain), 0, -1):
        found = _unit(kernel, axes, depth, unit)
        if found is not None and prove_equal(found * product(x.stop for x in kernel.chain[:depth]), length):
            return Form(kernel, depth, found, frozenset())
    return None


def _touched(block: Block, loops: tuple[Loop, ...] = ()) -> Iterator[tuple[str, tuple[Expr, ...], tuple[Loop, ...], bool]]:
    """Each access: the buffer, the position, the loops around it, and whether it is a store."""
    for s in block:
        for n in postorder(*s.expressions()):
            if n.op == "load":
                yield n.attr, n.args, loops, False
        if isinstance(s, Store):
            yield s.buffer, s.index, loops, True
        for inside in s.blocks():
            yield from _touched(inside, (*loops, s) if isinstance(s, Loop) else loops)


def _carriers(kernel: Rows, axes: Axes, length: Expr) -> frozenset[str]:
    """The loops over all positions, one around every store, by which alone what is shared, and what the kernel keeps for all of them, is read and written."""
    carriers: set[str] = set()
    along = dict(axes)  # also of what is kept, the axis that carriers go along
    touched = list(_touched(kernel.body))
    while True:
        for name, index, loops, _ in touched:
            if name in along:
                at = index[along[name]]
                found = [x for x in loops if at is var(x.axis)]
                if not found or found[0].kind != "parallel" or found[0].start is not ZERO or found[0].step is not ONE or found[0].stop is not length:
                    return frozenset()
                carriers.add(found[0].axis)
        outside = {
            n for n in {name for name, *_ in touched} - along.keys() if n not in kernel.kernel.buffers and not _inside(kernel.body, n, carriers)
        }
        kept = {
            n: k for n in outside for name, index, loops, _ in touched if name == n for k, e in enumerate(index) if any(e is var(c) for c in carriers)
        }
        if not kept:
            break
        along |= kept
    alone = all(sum(x.axis in carriers for x in loops) == 1 for _, _, loops, stored in touched if stored)
    return frozenset(carriers) if alone and not outside - along.keys() else frozenset()


def _inside(block: Block, name: str, carriers: set[str], within: bool = False) -> bool:
    """Whether a local buffer is allocated inside a carrier."""
    for s in block:
        if isinstance(s, Alloc) and s.buffer.name == name:
            return within
        if any(_inside(b, name, carriers, within or (isinstance(s, Loop) and s.axis in carriers)) for b in s.blocks()):
            return True
    return False


def _unit(kernel: Rows, axes: Axes, depth: int, wanted: Expr | None) -> Expr | None:
    """How many positions a row of so many loops has, where each touches its own alone."""
    found = wanted
    for name, index, loops, _ in _touched(kernel.body):
        if name not in axes:
            continue
        coefficient, rest = pl.coefficient(pl.poly(index[axes[name]]), var(kernel.chain[depth - 1].axis))
        unit = pl.expr(coefficient)
        found = found or unit
        at = unit * position(kernel.chain[:depth]) + pl.expr(_behind(rest, kernel.chain[:depth]))
        if pl.poly(unit) != pl.poly(found) or pl.poly(at) != pl.poly(index[axes[name]]):
            return None
        behind = pl.expr(_behind(rest, kernel.chain[:depth]))
        inner = [x for x in loops[depth:] if behind is var(x.axis)]
        one = behind is ZERO and unit is ONE
        if not one and not (inner and inner[0].start is ZERO and pl.poly(inner[0].stop) == pl.poly(unit)):
            return None
    return found


def _behind(p: pl.Poly, chain: tuple[Loop, ...]) -> pl.Poly:
    """The terms without the loops of a chain."""
    axes = {x.axis for x in chain}
    return {m: c for m, c in p.items() if not any(a.names & axes for a in m)}


def position(chain: tuple[Loop, ...]) -> Expr:
    """The number of the row at a point of its loops."""
    found = ZERO
    for x in chain:
        found = found * x.stop + var(x.axis)
    return found


def substitute_around(e: Expr, mapping: dict[Expr, Expr], own: Container[str], kept: Callable[[Expr], Expr]) -> Expr:
    """An expression with some of its parts replaced, but for what it loads from the buffers in `own`: what `kept` gives for such a load stands there as it is."""
    here: dict[Expr, Expr] = {}

    def rule(n: Expr) -> Expr | None:
        if n.op != "load" or n.attr not in own:
            return None
        there = kept(n)
        here[placeholder := var(f"{n.attr}@{len(here)}", n.dtype)] = there
        return placeholder

    return substitute(substitute(rewrite(e, rule), mapping), here)


def blocked(form: Form, cut: Cut, axes: Axes, own: Mapping[str, Buffer], row: str) -> Block:
    """What a kernel does for one block, the tensors in `own` being the block's.  `row` is a free name for the loop over its rows."""
    at_rows = form.depth > 0
    shift = {var(c): var(c) + cut.unit * cut.first for c in form.carriers}

    def moved(name: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        k = axes[name]
        e = index[k]
        if at_rows:
            chain = form.kernel.chain[: form.depth]
            e = cut.unit * var(row) + pl.expr(_behind(pl.poly(e), chain))
        others = [expr(x) for x in index]
        return (*others[:k], e, *others[k + 1 :])

    def expr(e: Expr) -> Expr:
        """Loads of what is the block's at the block's positions; everything else where the carriers stand in all of them."""
        return substitute_around(e, shift, own, lambda n: load(own[n.attr].name, n.dtype, *moved(n.attr, n.args)))

    def stmt(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer in own:
            return Store(own[s.buffer].name, moved(s.buffer, s.index), expr(s.value), s.combiner, s.span, s.stream)
        if isinstance(s, Loop):
            carried = s.axis in form.carriers
            return Loop(s.axis, expr(s.start), cut.unit * cut.count if carried else expr(s.stop), walk(s.body), s.kind, s.step, s.span)
        return None

    def walk(block: Block) -> Block:
        return tuple(stmt(s) or with_parts(s, expr, walk) for s in block)

    if not at_rows:
        return walk(form.kernel.body)
    chain = form.kernel.chain[: form.depth]
    lets: list[Stmt] = []
    rest = cut.first + var(row)
    for k, x in enumerate(chain):
        inner = product(y.stop for y in chain[k + 1 :])
        e = rest if inner is ONE else floordiv(rest, inner)
        lets.append(Let(x.axis, e if k == 0 else mod(e, x.stop)))
    return (Loop(row, ZERO, cut.count, (*lets, *walk(chain[-1].body)), "parallel"),)
