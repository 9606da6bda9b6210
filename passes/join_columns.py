"""kernels → kernels: what goes through the same rows, one row by row and another over all of them, goes through them once.

    for i in 0 .. M parallel:                for c in 0 .. ceil(M / 64) parallel:
      acc = 0                                  for j in 0 .. N parallel: parts[c, j] = 0
      for p in 0 .. N: acc add= X[i, p]        for r in 0 .. min(64, M - 64·c):
      R[i] = acc                                 acc = 0
    for j in 0 .. N parallel:           →        for p in 0 .. N: acc add= X[64·c + r, p]
      acc = 0                                    R[64·c + r] = acc
      for i in 0 .. M: acc add= X[i, j]          for j in 0 .. N parallel: parts[c, j] add= X[64·c + r, j]
      C[j] = acc                             for j in 0 .. N parallel:
                                               acc = 0
                                               for c in 0 .. ceil(M / 64): acc add= parts[c, j]
                                               C[j] = acc

The row is in the first cache when the sums over rows read it, so memory moves it once: a gradient and the sum of its columns, sums in both directions and the total, a matrix times one vector and its transpose times another.

1. A kernel takes part *by rows* where its outermost loop is the first index of something that it touches; *by columns* where it is one reduction, into scalars, over that index.  At least one is by columns.
2. What one of them writes and another touches is touched at the row's own position in both, and is written by rows: then a chunk of rows needs nothing of another.
3. The sums of a chunk are a row of a temporary, which moves 3/64 of what is saved.  It pays where they stay in the second cache; where rows are stored too, in the first, with these (4096² floats, a
   softmax's gradient and its bias: two thirds of the speed beyond).  The sizes decide at run time; otherwise kernels are as they were.
4. Chunks are of 64 rows and are added up in their order: the bits are the same for any number of threads.  --strict forbids it for float sums and products.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ..ir.bounds import Known
from ..ir.expr import FALSE, TRUE, ZERO, Expr, both, call, ceildiv, const, load, minimum, product, var
from ..ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Module, Store, identity_of, map_block, nested, substitute_block
from ..ir.record import record, replace
from ..ir.renaming import Names, defined, unique_locals
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from .joins.join_loops import Sum, is_reused, reduction, with_joined_loops
from .joins.rows import Rows, rows_of

CHUNK = 64  # rows: their sums are written and read again once, which is little beside so many rows
LEAST = 8  # chunks: fewer are shared unevenly


def join_columns(ir: Module, target: Target, options: Options) -> Module:
    if target.gpu or len(ir.kernels) < 2:
        return ir  # a thread of a GPU has no memory for a row of sums
    rows = rows_of(ir)
    for group in _groups(rows, options.strict):
        fits = simplify(_fits(group, target), assuming(Known(ir.size_info()), both(*ir.requires)))
        if fits is not FALSE:
            kernels, temps = _joined(group, fits, target.vector_registers)
            last = max(rows.index(m.rows) for m in group)
            place = {m.rows.kernel.name for m in group}
            kept = [[k] if k.name not in place else [] for k in ir.kernels]
            kept[last] = kernels
            numbered = [replace(k, name=f"{ir.name}_{n}") for n, k in enumerate(k for some in kept for k in some)]
            return replace(ir, temps=(*ir.temps, *temps)).with_kernels(tuple(numbered))
    return ir


@record
class Member:
    """A kernel that goes through rows: the axis that they are, and what it reduces over them (None where it works them off one by one)."""

    rows: Rows
    axis: Loop
    sum: Sum | None = None

    @cached_property
    def kept(self) -> tuple[Loop, ...]:
        """The axes of a row of sums."""
        return self.rows.chain if self.sum else ()

    @cached_property
    def first(self) -> dict[str, bool]:
        """The buffers that it touches at its row in some place, and whether it does nowhere else."""
        at = {name: [bool(i) and i[0] is var(self.axis.axis) for i in found] for name, found in self.rows.accesses.items()}
        return {name: all(places) for name, places in at.items() if any(places) and not self.rows.buffers[name].strides}

    def matrices(self) -> set[str]:
        """Those with more than one element a row."""
        return {name for name in self.first if len(self.rows.buffers[name].shape) > 1}


def _groups(rows: list[Rows], strict: bool) -> Iterator[list[Member]]:
    """Kernels of which each goes through rows of what the first one by columns does."""
    for b in rows:
        for lead in by_columns(b, strict):
            found = [lead if r is b else _beside(r, lead, strict) for r in rows]
            group = [m for m in found if m is not None]
            if len(group) > 1 and _independent(group, rows):
                yield group


def _beside(r: Rows, lead: Member, strict: bool) -> Member | None:
    """The kernel as one that goes through the rows of something that another one does."""
    members = [*by_columns(r, strict), *_by_rows(r)]
    return next((m for m in members if m.axis.stop is lead.axis.stop and m.matrices() & lead.matrices()), None)


def _by_rows(r: Rows) -> Iterator[Member]:
    if r.chain and not r.few and not r.kernel.schedule and _only_sums(r.body, frozenset()):
        yield Member(r, r.chain[0])


def _only_sums(block: Block, kept: frozenset[str]) -> bool:
    """Whether all that is reduced is reduced into scalars, and none of it wants tiles."""
    for s in block:
        if isinstance(s, Loop) and s.kind == "reduce":
            found = reduction(s)
            if found is None or is_reused(found, kept):
                return False
        elif isinstance(s, Loop):
            if s.kind != "parallel" or not _only_sums(s.body, kept | {s.axis}):
                return False
        elif not isinstance(s, (Alloc, Store, Let)):
            return False
    return True


def by_columns(r: Rows, strict: bool) -> Iterator[Member]:
    body = r.inside(len(r.chain))
    loops = [s for s in body if not isinstance(s, (Alloc, Store, Let))]
    found = reduction(loops[0]) if len(loops) == 1 else None
    if found is None or r.few or r.kernel.schedule or is_reused(found, {x.axis for x in r.chain}) or any(x.start is not ZERO for x in found.loops):
        return
    for s in found.body:
        if isinstance(s, Store):
            starts = [t for t in body if isinstance(t, Store) and t.buffer == s.buffer]
            ordered = strict and s.value.dtype.is_float and s.combiner in ("add", "mul")
            if len(starts) != 1 or starts[0].value is not identity_of(s.combiner, s.value.dtype) or ordered or len(found.stores(s.buffer)) > 1:
                return
    for axis in found.loops:
        if not any(x.stop.names & {axis.axis} for x in found.loops):
            yield Member(r, axis, found)


def _independent(group: list[Member], rows: list[Rows]) -> bool:
    """Whether they can run side by side, chunk by chunk, where the last of them is."""
    places = [rows.index(m.rows) for m in group]
    for n, (m, place) in enumerate(zip(group, places, strict=True)):
        if not all(m.rows.passes(r) for k, r in enumerate(rows[place + 1 : places[-1]], place + 1) if k not in places):
            return False
        for other in group[n + 1 :]:
            for name in {*m.rows.accesses} & {*other.rows.accesses}:
                if name in m.rows.written | other.rows.written:
                    by_columns = (m.sum and name in m.rows.written) or (other.sum and name in other.rows.written)
                    if by_columns or not m.first.get(name) or not other.first.get(name):
                        return False
    return True


def _fits(group: list[Member], target: Target) -> Expr:
    """The condition under which the sums of all, and what they are made of, stay in the cache that serves them, and there are rows enough."""
    held = ZERO
    for m in group:
        for s in m.sum.body if m.sum else ():
            if isinstance(s, Store):
                held = held + product(tuple(x.stop for x in m.kept)) * s.value.dtype.bytes
    most = target.l2 // 4
    if any(
        m.sum is None and m.rows.written & m.matrices() for m in group
    ):  # rows that are stored push those that are read again out of the first cache
        moved = {name: m.rows.buffers[name] for m in group for name in sorted(m.matrices())}
        for b in moved.values():
            held = held + product(b.shape[1:]) * b.dtype.bytes
        most = target.l1 // 2
    return both(const(CHUNK * LEAST).le(group[0].axis.stop), held.le(const(most))) or TRUE


def _joined(group: list[Member], fits: Expr, registers: int) -> tuple[list[Kernel], list[Buffer]]:
    """The kernel that goes through the rows, those that put the sums of its chunks together, and what is between them."""
    from .joins.join_siblings import with_joined_siblings

    first = group[0].rows
    names = Names((*first.sizes, *first.buffers, *(n for m in group for n in defined(m.rows.kernel.body))))
    chunk, row = names.fresh("c"), names.fresh("r")
    count = ceildiv(group[0].axis.stop, CHUNK)
    position = var(chunk) * CHUNK + var(row)
    before, start, each, finish = [], [], [], []
    temps: list[Buffer] = []
    after: list[Kernel] = []
    orelse: Block = ()
    for m in group:
        if m.sum is None:
            mine = replace(m.rows, kernel=replace(m.rows.kernel, body=unique_locals(m.rows.kernel.body, names.fresh)))
            before += mine.before
            each += substitute_block(mine.inside(1), {var(mine.chain[0].axis): position})
            orelse = (*orelse, *unique_locals(m.rows.kernel.body, names.fresh))
            continue
        parts = {s.buffer: parts_of(names, s, m, count) for s in m.sum.body if isinstance(s, Store)}
        temps += [replace(b, shape=(call("where", fits, count, ZERO), *b.shape[1:])) if fits is not TRUE else b for b in parts.values()]
        begun, summed, done = _chunk_sums(m, parts, var(chunk), position, names)
        before += [s for s in m.rows.before if s not in before]
        start += begun
        each += summed
        finish += done
        after.append(combined(m, parts, count, fits, names))
    inner = Loop(row, ZERO, minimum(const(CHUNK), group[0].axis.stop - var(chunk) * CHUNK), tuple(each), "serial")
    body: Block = (*before, Loop(chunk, ZERO, count, (*start, inner, *finish), "parallel"))
    touched = {*(n for m in group for n in m.rows.kernel.buffers), *(t.name for t in temps)}
    order = tuple(n for n in (*first.buffers, *(t.name for t in temps)) if n in touched)
    note = f"what goes through the same rows goes through them once, {CHUNK} at a time, where a row of sums stays in the cache"
    notes = tuple(dict.fromkeys((*(n for m in group for n in m.rows.kernel.notes), note)))
    kernel = Kernel(group[0].rows.kernel.name, order, either(fits, body, orelse), notes=notes)
    taken = (*first.sizes, *first.buffers)
    return [with_joined_siblings(with_joined_loops(kernel, taken, registers), taken), *after], temps


def either(condition: Expr, body: Block, orelse: Block) -> Block:
    return body if condition is TRUE else (If(condition, body, orelse),)


def parts_of(names: Names, s: Store, m: Member, count: Expr) -> Buffer:
    return Buffer(names.fresh("parts"), s.value.dtype, (count, *(x.stop for x in m.kept)))


def _chunk_sums(m: Member, parts: dict[str, Buffer], chunk: Expr, position: Expr, names: Names) -> tuple[Block, Block, Block]:
    """What is done for a chunk before its rows, for each row, and after them, for the sums of the chunk to be in `parts`."""
    assert m.sum is not None
    body = m.rows.inside(len(m.rows.chain))
    lets = tuple(s for s in body[: next(k for k, s in enumerate(body) if isinstance(s, Loop))] if isinstance(s, Let))
    others = tuple(x for x in m.sum.loops if x is not m.axis)
    stores = [s for s in m.sum.body if isinstance(s, Store)]
    scalars = {s.buffer: Buffer(names.fresh("part"), s.value.dtype, (), "register") for s in stores}
    allocs = [t for s in stores for t in (Alloc(scalars[s.buffer]), Store(scalars[s.buffer].name, (), identity_of(s.combiner, s.value.dtype)))]
    index = (chunk, *(var(x.axis) for x in m.kept))
    to_scalars = map_block(m.sum.body, lambda s: (replace(s, buffer=scalars[s.buffer].name),) if isinstance(s, Store) else None)
    results = [Store(parts[s.buffer].name, index, load(scalars[s.buffer].name, s.value.dtype)) for s in stores]
    if not m.kept:
        each = (*lets, *nested(others, to_scalars))
        return tuple(allocs), own(each, position, m, names), tuple(results)
    if others:
        each = (*lets, *allocs, *nested(others, to_scalars), *(replace(r, combiner=s.combiner) for r, s in zip(results, stores, strict=True)))
    else:
        to_parts = map_block(m.sum.body, lambda s: (replace(s, buffer=parts[s.buffer].name, index=index),) if isinstance(s, Store) else None)
        each = (*lets, *to_parts)
    zero = nested(m.kept, tuple(Store(parts[s.buffer].name, index, identity_of(s.combiner, s.value.dtype)) for s in stores))
    return unique_locals(zero, names.fresh), own(nested(m.kept, each), position, m, names), ()


def own(block: Block, position: Expr, m: Member, names: Names) -> Block:
    """The block at a position along the rows, with names of its own."""
    return unique_locals(substitute_block(block, {var(m.axis.axis): position}), names.fresh)


def combined(m: Member, parts: dict[str, Buffer], count: Expr, fits: Expr, names: Names) -> Kernel:
    """The kernel with the sums of the chunks instead of what it summed."""
    chunk = names.fresh("c")
    index = (var(chunk), *(var(x.axis) for x in m.kept))
    assert m.sum is not None
    adds = tuple(replace(s, value=load(parts[s.buffer].name, s.value.dtype, *index)) for s in m.sum.body if isinstance(s, Store))
    loop = Loop(chunk, ZERO, count, adds, "reduce")
    depth = len(m.rows.chain)
    inside = tuple(loop if isinstance(s, Loop) else s for s in m.rows.inside(depth))
    body: Block = (*m.rows.before, *nested(m.rows.chain, inside))
    kernel = m.rows.kernel
    if fits is not TRUE:
        body = (If(fits, unique_locals(body, names.fresh), kernel.body),)
    return replace(kernel, buffers=(*kernel.buffers, *(b.name for b in parts.values())), body=body)
