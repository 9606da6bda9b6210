"""kernels → kernels: a sum over many rows is made of the sums of pieces of them, which the threads share.

    for j in 0 .. N parallel:                for c in 0 .. ceil(M / L) parallel:
      acc = 0                                  for j in 0 .. N parallel:
      for i in 0 .. M: acc add= X[i, j]          part = 0
      C[j] = acc                      →          for r in 0 .. min(L, M - L·c): part add= X[L·c + r, j]
                                                 parts[c, j] = part
                                             for j in 0 .. N parallel:
                                               acc = 0
                                               for c in 0 .. ceil(M / L): acc add= parts[c, j]
                                               C[j] = acc

By its columns alone such a sum is shared unevenly where they are few, and each thread jumps from row to row; piece by piece a thread reads whole rows, memory from one end to the other.

It is done to kernels that `join_columns` would call *by columns* and leaves alone: one reduction, into scalars, over the rows of a matrix, or of a part of it, or several one after the other for each column (`column_stages.py`: a maximum, then a
sum of exponentials).  Those are taken apart where the matrix comes from memory; where it stays near, the later ones read what the first has brought there.  It pays where a row of sums stays in the second cache and is
some vectors long or in a few vectors whole, the matrix does not fit in the second, and there are some pieces; the sizes decide at run time.  L = 64·ceil(M / 1024): up to 16 pieces (more for a target of more than four cores), which are added up in their
order, so the bits are the same for any number of threads; --strict forbids it for float sums and products.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.bounds import Known
from ..ir.expr import FALSE, TRUE, ZERO, Expr, both, call, ceildiv, const, load, maximum, minimum, product, var
from ..ir.kernel import Alloc, Buffer, If, Kernel, Let, Loop, Module, Stmt, Store, identity_of, map_block, nested, statements
from ..ir.polynomial import poly
from ..ir.record import replace
from ..ir.renaming import Names, defined, unique_locals
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from .join_columns import CHUNK, LEAST, Member, by_columns, combined, either, own, parts_of
from .joins.column_stages import column_stages
from .joins.rows import Rows, rows_of
from .schedule.cost import ACCUMULATORS, first_lanes, stream_bytes

# Enough to be shared evenly by as many threads as read memory at its full speed, four for each core; each costs a row of sums that is cleared, stored and read again.  (Zen 4, two threads, memory at 100 GB/s, sixteen beside
# sixty-four: 4096² floats 0.91 to 0.93, 2048 × 8192 0.91 to 0.97 of the time, 30000 × 500 as long.)
LEAST_PIECES, MOST_PIECES = 16, 64
# Of the second cache the part that a row of sums may take.  (Zen 4, 1 MiB, two threads, against tiles of columns, of which the last leaves one thread alone: 4096 × 4100 floats 2.1, 4100 × 5000 1.7, 4096 × 8192 1.3, 3000 × 30000
# 1.4 times as fast, 1000 × 6000, which the last cache holds, 0.95.)
SUMS = 8
# Bytes of a row of which the beginning and the end are not most of the work; or a row is in a few vectors, which are its sums.  (Zen 4, one thread, two: 300000 × 13 floats by AVX2 0.57 and 0.26, by AVX-512 0.5 and 0.54,
# 10^6 × 1 0.76 and 0.38, 300000 × 8 0.7, 200000 × 20 0.6 and 0.7 of the time; by AVX2 200000 × 33, which is in between, 1.15.)
NARROW = 256
# (Zen 4, AVX-512, where several sums follow one another for each column, softmax and a norm along columns, one thread and two: 2048² floats 0.79 and 0.57, 0.61 and 0.68, 4096 × 1024 0.54 and 0.49, 0.62 and 0.63, 8000 × 2000 0.55 and
# 0.55, 0.58 and 0.64 of the time; apart below 12 MiB: 600² 1.17 and 1.31, 1400² 1.04, 1.1 of it.)
TOGETHER = "several sums of each column are taken one after the other where the matrix stays near, and in pieces of the rows, one after the other, where it comes from memory"


def split_columns(ir: Module, target: Target, options: Options) -> Module:
    if target.gpu or target.cores < 2:
        return ir
    kernels: list[Kernel] = []
    temps: list[Buffer] = []
    for rows in rows_of(ir):
        stages, handed = column_stages(rows, [b.name for b in temps])
        found = [_member(stage, options.strict) for stage in stages]
        members = [m for m in found if m is not None]
        fits = _condition(members, ir, target) if len(members) == len(stages) else FALSE
        if fits is FALSE:
            kernels.append(rows.kernel)
            continue
        temps += [_where(fits, b) for b in handed]
        for m in members:
            (first, last), parts = _split(m, fits, min(MOST_PIECES, max(LEAST_PIECES, 4 * target.cores)), [b.name for b in temps])
            if len(members) > 1 and fits is not TRUE:  # what the last of them does instead, it does for all
                other = rows.kernel.body if m is members[-1] else ()
                (choice,) = last.body
                assert isinstance(choice, If)
                names = Names((*m.rows.sizes, *m.rows.buffers, *(b.name for b in temps), *defined((*choice.body, *other))))
                last = replace(
                    last, body=(If(fits, unique_locals(choice.body, names.fresh), other),), notes=(*last.notes, TOGETHER) if other else last.notes
                )
            kernels += [first, last]
            temps += parts
    if not temps:
        return ir
    numbered = tuple(replace(k, name=f"{ir.name}_{n}") for n, k in enumerate(kernels))
    return replace(ir, temps=(*ir.temps, *temps)).with_kernels(numbered)


def _member(rows: Rows, strict: bool) -> Member | None:
    return next((m for m in by_columns(rows, strict) if len(m.kept) == 1 and _of_a_matrix(m)), None)


def _condition(members: list[Member], ir: Module, target: Target) -> Expr:
    """The sizes for which it pays; several reductions of a column, of which the later ones read from the second cache what the first has brought there, are taken apart only where the matrix comes from memory."""
    fits = [_fits(m, target) for m in members]
    least = stream_bytes(target)
    if len(members) > 1:
        fits += [const(least).le(product((m.axis.stop, *(x.stop for x in m.kept))) * _read(m)) if least else FALSE for m in members]
    return simplify(both(*fits) or TRUE, assuming(Known(ir.size_info()), both(*ir.requires)))


def _read(m: Member) -> int:
    """Bytes of an element of the matrix."""
    return min(m.rows.buffers[name].dtype.bytes for name in _matrices(m))


def _of_a_matrix(m: Member) -> bool:
    """Whether all that moves with the columns is read row by row, beside the column's own position."""
    assert m.sum is not None
    (kept,) = m.kept
    moved = [n for n in m.sum.loads() if kept.axis in n.names]
    return len(m.sum.loops) == 1 and bool(moved) and all(n.attr in _matrices(m) and _step(n.args[-1], kept.axis) == 1 for n in moved)


def _matrices(m: Member) -> set[str]:
    """What is read row by row, or some rows apart, as a part of a tensor is that begins further on or leaves some out."""
    assert m.sum is not None
    axis, found = m.axis.axis, dict[str, bool]()
    for n in m.sum.loads():
        buffer = m.rows.buffers.get(n.attr)
        if buffer is not None and axis in n.names:
            steady = (
                len(buffer.shape) > 1 and not buffer.strides and (_step(n.args[0], axis) or 0) > 0 and not any(axis in e.names for e in n.args[1:])
            )
            found[n.attr] = steady and found.get(n.attr, True)
    return {name for name, steady in found.items() if steady}


def _step(e: Expr, axis: str) -> int | None:
    """How far a position moves with an axis; None where that is no number."""
    moving = {m: c for m, c in poly(e).items() if any(axis in a.names for a in m)}
    return moving.get((var(axis),)) if len(moving) == 1 else None


def _fits(m: Member, target: Target) -> Expr:
    """The condition under which a row of sums stays in the second cache, what is read does not fit in the second, and there are pieces enough."""
    assert m.sum is not None
    row = product(tuple(x.stop for x in m.kept))
    sums = sum(s.value.dtype.bytes for s in m.sum.body if isinstance(s, Store))
    read = _read(m)
    wide = const(NARROW // read).le(row)
    if first_lanes(target):
        wide = call("bit_or", row.le(const(ACCUMULATORS * target.vector_bytes // read)), wide)
    enough = both(const(CHUNK * LEAST).le(m.axis.stop), wide)
    return both(enough, (row * sums).le(const(target.l2 // SUMS)), const(target.l2).le(m.axis.stop * row * read)) or TRUE


def _split(m: Member, fits: Expr, pieces: int, others: Sequence[str]) -> tuple[list[Kernel], list[Buffer]]:
    """The kernel that sums up the pieces, the one that puts their sums together, and what is between them, by other names than what stands between those of `others`."""
    assert m.sum is not None
    kernel = m.rows.kernel
    names = Names((*m.rows.sizes, *m.rows.buffers, *defined(kernel.body), *others))
    chunk, row = names.fresh("c"), names.fresh("r")
    length = maximum(const(CHUNK), ceildiv(m.axis.stop, CHUNK * pieces) * CHUNK)
    count = ceildiv(m.axis.stop, length)
    stores = [s for s in m.sum.body if isinstance(s, Store)]
    parts = {s.buffer: parts_of(names, s, m, count) for s in stores}
    scalars = {s.buffer: Buffer(names.fresh("part"), s.value.dtype, (), "register") for s in stores}
    start = [t for s in stores for t in (Alloc(scalars[s.buffer]), Store(scalars[s.buffer].name, (), identity_of(s.combiner, s.value.dtype)))]
    body = map_block(m.sum.body, lambda s: (replace(s, buffer=scalars[s.buffer].name),) if isinstance(s, Store) else None)
    piece = Loop(row, ZERO, minimum(length, m.axis.stop - var(chunk) * length), own(body, var(chunk) * length + var(row), m, names), "reduce")
    index = (var(chunk), *(var(x.axis) for x in m.kept))
    finish = [Store(parts[s.buffer].name, index, load(scalars[s.buffer].name, s.value.dtype)) for s in stores]
    lets: list[Stmt] = []
    wanted = {n for s in (piece, *statements(piece.body)) for e in s.expressions() for n in e.names}
    for s in reversed(m.rows.inside(len(m.rows.chain))):
        if isinstance(s, Let) and s.name in wanted:
            lets.insert(0, s)
            wanted |= s.value.names
    nest = unique_locals(nested(m.kept, (*lets, *start, piece, *finish)), names.fresh)
    shared = (*m.rows.before, Loop(chunk, ZERO, count, nest, "parallel"))
    touched = (*kernel.buffers, *(b.name for b in parts.values()))  # and what it does not touch is taken off the list
    note = f"up to {pieces} pieces of the rows, whose sums are added up in their order: threads read whole rows"
    first = Kernel(kernel.name, touched, either(fits, shared, ()), notes=(*kernel.notes, note))
    return [first, combined(m, parts, count, fits, names)], [_where(fits, b) for b in parts.values()]


def _where(fits: Expr, b: Buffer) -> Buffer:
    """The buffer, empty where it does not fit."""
    return b if fits is TRUE else replace(b, shape=(call("where", fits, b.shape[0], ZERO), *b.shape[1:]))
