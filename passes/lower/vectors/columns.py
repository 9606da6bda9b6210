"""Rows of a few elements, one in each lane: whole vectors are loaded and stored, and their lanes put into columns and back.

    for l in 0 .. 4 vector:                      a, b, c = vload.4 X[0], vload.4 X[4], vload.4 X[8]
      … X[3·l] … X[3·l + 1] … X[3·l + 2]    →    … pick(pick(a, b, 0 3 6 _), c, 0 1 2 5) …

A column of rows of n elements, for a prime p of n: of each p vectors every p-th lane, which are n / p vectors with rows of n / p elements. What several columns take first is the same expression.
Rows are put together in the opposite order. A gather takes an access to memory for each lane, and no vector stores every third element.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtypes import DType
from ....ir.expr import INDEX, Expr, const, pick
from ....ir.program import Block, Define, StoreTo
from ...schedule.cost import columns_in_lanes
from ..affine import difference
from .axis import Axis


def column(vectors: Sequence[Expr], number: int) -> Expr:
    """Of rows with as many elements as there are vectors, which hold them one after the other: this element of each row."""
    if len(vectors) == 1:
        return vectors[0]
    p = _prime(len(vectors))
    lanes = vectors[0].dtype.lanes
    thinned = [_picked(vectors[k : k + p], [divmod(number % p + p * lane, lanes) for lane in range(lanes)]) for k in range(0, len(vectors), p)]
    return column(thinned, number // p)


def rows(columns: Sequence[Expr]) -> list[Expr]:
    """The vectors that hold the rows of these columns, one after the other."""
    if len(columns) == 1:
        return [*columns]
    p = _prime(len(columns))
    lanes = columns[0].dtype.lanes
    parts = [rows(columns[r::p]) for r in range(p)]
    return [
        _picked(together, [(place % p, place // p) for place in range(k * lanes, (k + 1) * lanes)])
        for together in zip(*parts, strict=True)
        for k in range(p)
    ]


def _prime(n: int) -> int:
    return next(p for p in range(2, n + 1) if n % p == 0)


def _picked(vectors: Sequence[Expr], places: list[tuple[int, int]]) -> Expr:
    """The lanes (vector, lane) of several vectors."""
    used = sorted({k for k, _ in places})
    found = vectors[used[0]]
    lanes = found.dtype.lanes
    if len(used) == 1:
        return pick(found, found, tuple([lane for _, lane in places]))
    for k in used[1:]:
        first = k == used[1]  # after it, lanes are where they belong; those that come later are any for now
        found = pick(
            found, vectors[k], tuple([lanes + lane if v == k else lane if first and v == used[0] else j for j, (v, lane) in enumerate(places)])
        )
    return found


def is_row(step: Expr | None, d: DType, lanes: int) -> bool:
    """Whether lanes are so far apart as the rows are that are taken apart here."""
    return step is not None and step.is_const and d.kind != "bool" and columns_in_lanes(step.attr, d.bytes, lanes)


def row_start(axis: Axis, n: Expr, length: int) -> int | None:
    """How far before a load's element the row begins whose first and last element the loop loads in any case; None where it does not."""
    offsets = [far.attr for address in axis.loaded().get(n.attr, ()) if (far := difference(address, n.args[0])).is_const]
    return next((-k for k in sorted(offsets) if -length < k <= 0 and k + length - 1 in offsets), None)


def stored_rows(axis: Axis, block: Block) -> dict[int, list[StoreTo]]:
    """By their places, of which the last has all of them: stores that fill rows, from the first element to the last, between which nothing of theirs is read and nothing is set that they mention."""
    by_buffer: dict[str, list[int]] = {}
    for k, s in enumerate(block):
        if isinstance(s, StoreTo):
            by_buffer.setdefault(s.buffer, []).append(k)
    found: dict[int, list[StoreTo]] = {}
    for places in by_buffer.values():
        stores = [s for k in places if isinstance(s := block[k], StoreTo)]
        length = const(len(stores), INDEX)
        if not is_row(length, stores[0].value.dtype, axis.lanes) or any(axis.slope(s.address) is not length or s.count is not None for s in stores):
            continue
        offsets = [difference(s.address, stores[0].address) for s in stores]
        if not all(o.is_const for o in offsets):
            continue
        order = sorted(range(len(stores)), key=lambda k: offsets[k].attr)
        if [offsets[k].attr - offsets[order[0]].attr for k in order] != list(range(len(stores))):
            continue
        between = block[places[0] : places[-1] + 1]
        changed = {s.buffer for s in between if isinstance(s, StoreTo)}
        if all(isinstance(s, StoreTo) or (isinstance(s, Define) and not s.mutable) for s in between) and all(
            e.buffers.isdisjoint(changed) for s in between for e in s.expressions()
        ):
            found |= {k: [] for k in places} | {places[-1]: [stores[k] for k in order]}
    return found
