"""What part each axis plays in a kernel, read off the accesses: which operands miss it, where it moves by one element, what is reused.

Nothing here knows an operation by name.  A kernel is looked at as its *chain*, the perfect nest of parallel loops on the outside, and the *body* inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from ...ir.bounds import Known
from ...ir.dtypes import INDEX, DType
from ...ir.expr import ONE, ZERO, Expr, both, var
from ...ir.kernel import Alloc, Block, Buffer, Kernel, Let, Loop, Store, perfect, statements, written
from ...ir.polynomial import poly
from ...ir.simplify import assuming, simplify
from ...ir.walks import substitute
from .affine import divides, inside, stride, taken_apart
from .tree import Facts, around, loads_in, local_buffers, reads


class Shape(NamedTuple):
    """The chain of parallel loops and what is inside it."""

    chain: tuple[Loop, ...]
    body: Block

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(x.axis for x in self.chain)


def shape(kernel: Kernel) -> Shape:
    """The chain and the body; lets before the outermost loop do not count."""
    chain, body = perfect(tuple(s for s in kernel.body if not isinstance(s, Let)), lambda x: x.kind == "parallel" and x.step is ONE)
    return Shape(tuple(chain), body)


def innermost(block: Block) -> list[Loop]:
    """The loops that hold no other, in order."""
    return [s for s in statements(block) if isinstance(s, Loop) and not any(isinstance(t, Loop) for t in statements(s.body))]


def keeps_nan(loop: Loop) -> bool:
    """Whether a loop holds a maximum or minimum of floats: two instructions an element, and each result waits for both."""
    return any(isinstance(s, Store) and s.combiner in ("max", "min") and s.value.dtype.is_float for s in loop.body)


def accesses(block: Block, buffers: Mapping[str, Buffer]) -> list[Expr]:
    """The flat addresses of everything that the block loads and stores in the given buffers, in order."""
    found: list[Expr] = []
    for s in statements(block):
        found += [buffers[n.attr].address(n.args) for n in loads_in(*s.expressions()) if n.attr in buffers]
        if isinstance(s, Store) and s.buffer in buffers:
            found.append(buffers[s.buffer].address(s.index))
    return found


def seen_through(addresses: Iterable[Expr], block: Block) -> list[Expr]:
    """Addresses with what the names in them, that the block gives, stand for: rows that data chooses move with the loop in which they are chosen."""
    values: dict[Expr, Expr] = {}
    for s in statements(block):
        if isinstance(s, Let) and s.value.dtype is INDEX:
            values[var(s.name)] = substitute(s.value, values)
    return [substitute(a, values) for a in addresses] if values else list(addresses)


def positions(form: Shape, facts: Facts) -> list[Expr]:
    """The same of a kernel's body; pieces of one position, (x // N)·N + x % N, are x."""
    return _put_together(accesses(form.body, facts.buffers), form, facts)


def along(kernel: Kernel, loop: Loop, facts: Facts) -> list[Expr]:
    """What a loop accesses; what `collapse` leaves, and a reshape, (x // N)·N + x % N, is x."""
    found = accesses(loop.body, facts.buffers)
    if not any(taken_apart(a, loop.axis) for a in found):
        return found
    known = touching(loop.body, facts, inside(around(kernel, loop.axis), facts.known))
    return [simplify(a, known) if taken_apart(a, loop.axis) else a for a in found]


def stored(form: Shape, facts: Facts) -> list[Expr]:
    """The same of what it stores."""
    found = [facts.buffers[s.buffer].address(s.index) for s in statements(form.body) if isinstance(s, Store) and s.buffer in facts.buffers]
    return _put_together(found, form, facts)


def _put_together(addresses: list[Expr], form: Shape, facts: Facts) -> list[Expr]:
    if not any(divides(a, form.axes) for a in addresses):
        return addresses
    known = touching(form.body, facts, inside(form.chain, facts.known))
    return [simplify(a, known) if divides(a, form.axes) else a for a in addresses]


def touching(block: Block, facts: Facts, known: Known) -> Known:
    """What is known where a block touches an element: no extent of what it touches is 0."""
    touched = {n.attr for n in reads(block)} | written(block)
    return assuming(known, both(*(ONE.le(e) for b in sorted(touched & facts.buffers.keys()) for e in facts.buffers[b].shape if not e.is_const)))


def divided(kernel: Kernel, facts: Facts) -> bool:
    """Whether a position that the kernel touches is a quotient or a remainder of where a loop is; pieces of one position, (x // N)·N + x % N, are x."""
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    axes = [x.axis for x in loops]
    found = [a for a in accesses(kernel.body, facts.buffers) if divides(a, axes)]
    if not found:
        return False
    known = touching(kernel.body, facts, inside(loops, facts.known))
    return any(divides(simplify(a, known), axes) for a in found)


def units(addresses: Iterable[Expr], axis: str) -> int:
    """How many of the addresses move by exactly one element with the axis."""
    return sum(stride(a, axis) == 1 for a in addresses)


def moving(addresses: Iterable[Expr], axis: str) -> int:
    """How many of the addresses depend on the axis."""
    return sum(axis in a.names for a in addresses)


def widest(block: Block, along: str = "") -> DType | None:
    """The largest dtype that the block loads or stores (the first of them, a number before a truth); not what is the same all `along` an axis, as the index of a row."""
    moving, loaded, stored = {along}, list[DType](), list[DType]()
    for s in statements(block):
        found = loads_in(*s.expressions())
        loaded += [n.dtype for n in found if not along or not n.names.isdisjoint(moving)]
        if isinstance(s, Let) and not s.value.names.isdisjoint(moving):
            moving.add(s.name)
        if isinstance(s, Store):
            stored.append(s.value.dtype)
    return max((*loaded, *stored), key=lambda d: (d.bits, d.kind != "bool"), default=None)


class Contraction(NamedTuple):
    """A reduction whose operands each miss kept axes that others have: what is loaded once can be used many times.

    C[batch, rows, column] = f(Σ over `reduced` of A[batch, rows, reduced] ∘ B[batch, reduced, column])
    """

    batch: tuple[str, ...]  # kept axes that all operands have, or that cannot be blocked
    rows: tuple[str, ...]  # kept axes that the column operands miss
    column: str  # the kept axis that becomes the vector; the row operands miss it
    reduced: tuple[str, ...]  # outermost first
    row_operands: tuple[str, ...]  # buffers
    column_operands: tuple[str, ...]
    accumulator: Buffer
    output: str


class Reduction(NamedTuple):
    """One scalar reduction inside parallel loops, and one store of what becomes of it."""

    kept: tuple[str, ...]
    reduced: tuple[str, ...]  # outermost first
    body: Block  # of the innermost reduction loop
    accumulator: Buffer
    store: Store

    @property
    def operands(self) -> list[Expr]:
        """What is read on the way to the sum, once."""
        return [n for n in loads_in(*(e for s in self.body for e in s.expressions())) if n.attr != self.accumulator.name]


def reduction(kernel: Kernel, facts: Facts) -> Reduction | None:
    """The kernel as one scalar reduction; None where it is something else."""
    form = shape(kernel)
    local = local_buffers(kernel)
    loops = [s for s in form.body if isinstance(s, Loop)]
    if not form.chain or len(local) != 1 or len(loops) != 1 or any(x.start is not ZERO for x in form.chain):
        return None
    (acc,) = local.values()
    reduced, inner = _reduction(loops[0])
    stores = [s for s in form.body if isinstance(s, Store) and s.buffer != acc.name]
    if acc.shape or not reduced or len(stores) != 1 or stores[0].buffer not in facts.buffers or not _plain(form.body):
        return None
    if any(x.stop.names & {*form.axes, *(r.axis for r in reduced)} for x in (*form.chain, *reduced)):
        return None
    found = Reduction(form.axes, tuple(x.axis for x in reduced), inner, acc, stores[0])
    return None if any(n.attr == stores[0].buffer for n in found.operands) else found


def contraction(kernel: Kernel, facts: Facts, column: str | None = None) -> Contraction | None:
    """The roles of the axes where the kernel is one scalar reduction with reuse in two directions.  `column` is the axis of the vectors, where it is chosen already."""
    found = reduction(kernel, facts)
    if found is None or len(found.kept) < 2:
        return None
    kept, store = found.kept, found.store
    operands = [(n.attr, n.names & set(kept)) for n in found.operands]
    column = column or _column(kept, operands, simplify(facts.buffers[store.buffer].address(store.index), facts.known))
    if column is None:
        return None
    column_side = [(b, axes) for b, axes in operands if column in axes]
    rows = tuple(a for a in kept if a != column and all(a not in axes for _, axes in column_side) and any(a in axes for _, axes in operands))
    row_side = [(b, axes) for b, axes in operands if axes & set(rows)]
    batch = tuple(a for a in kept if a != column and a not in rows)
    row_operands, column_operands = (tuple(dict.fromkeys(b for b, _ in side)) for side in (row_side, column_side))
    return Contraction(batch, rows, column, found.reduced, row_operands, column_operands, found.accumulator, store.buffer)


class Sliding(NamedTuple):
    """An operand of a reduction that is read through windows: kept and reduced axes add up to its positions, so neighbours read the same elements."""

    operand: str
    along: tuple[str, ...]  # the kept axes along which windows move, outermost first
    missed: tuple[str, ...]  # the kept axes that the operand misses
    column: str  # the innermost of them that another operand has; "" where none has


def sliding(found: Reduction) -> Sliding | None:
    """The one operand that is read through windows, if there is one; an axis that another operand has too, as groups of channels are, moves both, and no window along it is used twice."""
    kept, folded = set(found.kept), set(found.reduced)
    along: dict[str, set[str]] = {}
    having: dict[str, set[str]] = {}
    for n in found.operands:
        having.setdefault(n.attr, set()).update(n.names & kept)
        for index in n.args:
            if index.names & folded:  # g · size + p is no window: it moves by whole rows of the operand
                along.setdefault(n.attr, set()).update(a for a in index.names & kept if all(len(m) == 1 for m in poly(index) if var(a) in m))
    along = {operand: axes.difference(*(others for other, others in having.items() if other != operand)) for operand, axes in along.items()}
    along = {operand: axes for operand, axes in along.items() if axes}
    if len(along) != 1:
        return None
    ((operand, moved),) = along.items()
    missed = tuple(a for a in found.kept if a not in having[operand])
    columns = [a for a in missed if any(a in axes for axes in having.values())]
    return Sliding(operand, tuple(a for a in found.kept if a in moved), missed, columns[-1] if columns else "")


def taps(found: Reduction, slides: Sliding) -> tuple[str, ...]:
    """The reduced axes that move a window, outermost first."""
    read = [index.names for n in found.operands if n.attr == slides.operand for index in n.args if not index.names.isdisjoint(slides.along)]
    return tuple(a for a in found.reduced if any(a in names for names in read))


def _reduction(loop: Loop) -> tuple[list[Loop], Block]:
    """A perfect nest of reduction loops from 0 and its innermost body; no loops where it is none."""
    loops, body = perfect((loop,), lambda x: x.kind == "reduce" and x.start is ZERO and x.step is ONE)
    good = all(isinstance(s, (Store, Let)) for s in body) and sum(isinstance(s, Store) for s in body) == 1
    return (loops, body) if good else ([], ())


def _plain(body: Block) -> bool:
    return all(isinstance(s, (Alloc, Store, Let, Loop)) for s in body)


def _column(kept: tuple[str, ...], operands: Sequence[tuple[str, Set[str]]], output: Expr) -> str | None:
    """The best axis for the vectors: some operand has it, another misses it while having an axis that the first misses; the output moves by one element with it."""
    candidates = []
    for axis in kept:
        having = [axes for _, axes in operands if axis in axes]
        missing = [axes for _, axes in operands if axis not in axes]
        reused = set.intersection(*(set(kept) - axes for axes in having)) if having else set()
        if any(axes & reused for axes in missing):
            candidates.append(axis)
    unit = [a for a in candidates if stride(output, a) == 1]
    found = unit or candidates
    return found[-1] if found else None


def vector_axis(axes: tuple[str, ...], addresses: list[Expr]) -> str | None:
    """The axis with which most addresses move by one element, an inner one before an outer; None where none does."""
    best, count = None, 0
    for axis in axes:
        n = units(addresses, axis)
        if n >= count and n:
            best, count = axis, n
    return best
