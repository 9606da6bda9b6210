"""Short reductions along rows, for the neighbours of a loop around them: as many side by side as a vector has lanes, put together by one fold for all.

    for p in 0 .. N parallel:                            for p.0 in 0 .. N // 16:
      acc[] = 0                                            acc.lanes[0 .. 16, 0 .. 16] = 0
      for w in 0 .. D reduce:                     →        for w.0 in 0 .. D / 16:
        acc[] add= Q[w] * K[p, w]                            for p.1 in 0 .. 16 unroll:
      tile[p] = f(acc[])                                       acc.lanes[p.1, 0 .. 16] add= Q[w.0 · 16 + 0 .. 16] * K[p.0 · 16 + p.1, w.0 · 16 + 0 .. 16]
                                                           acc[0 .. 16] = sums of acc.lanes, turned over in registers
                                                           tile[p.0 · 16 + 0 .. 16] = f(acc[0 .. 16])

What is loaded for neighbours serves several rows around them, where these share it (scores of several queries with one cache): rows in the lanes (`rows_in_lanes.py`), or where what is loaded is converted,
and for the rows that are left, a tile of 4 × 4 sums or of 2 × 8, as many as a vector has lanes.  So a tile stays in registers until one fold has put together all of it.  For a row alone, sums are accumulated for eight neighbours at a time, whose addresses stay in registers.

One after the other, each would put its lanes together by a chain of shuffles, the loop over a length that nobody knows would be left after a few trips, and what does not move with p would be loaded for
each of them.  It pays where what is loaded for one serves all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.expr import ZERO
from ....ir.kernel import Alloc, Loop, Store, statements
from ....ir.places import homes_in
from .. import cost, roles
from ..affine import stride
from ..plan import Plan
from ..tree import all_loops, find, loads_in, loop_around

if TYPE_CHECKING:
    from .rows_in_lanes import RowsInLanes


def rows_side_by_side(plan: Plan, x: Loop, width: int) -> list[Loop]:
    """Schedule such a reduction.  The loops that are left: its copy in what is less than a vector of the loop around it, or itself, and nothing done, where it is none."""
    from .rows_in_lanes import RowsInLanes

    around = loop_around(plan.kernel, x)
    if around is None or not _suits(plan, around, x, width):
        return [x]
    row, deep = around.axis, x.axis
    above, moving = sharing(plan, around, x), moving_with(plan, around, x)
    tiles = cost.tiles_of_scores(plan.target, width) if above is not None and plan.extent(above) != 1 else ()
    lanes: RowsInLanes | None = None
    sums: list[tuple[tuple[str, ...], str]] = [((f"{row}.1",), deep)]  # the rows of each sum, and along what it is
    with plan.attempt(f"`{deep}` for one `{row}` after the other") as attempt:
        plan.do("split", row, width, tail="cut")
        if above is not None:  # what is read once for all of these rows stays in the first cache
            if len(find(plan.kernel, above).body) > 1:
                plan.do("fission", above)
            plan.do("reorder", f"{row}.0", above)
            if tiles:
                lanes = RowsInLanes.of(plan, above, width)
                above = above if lanes is None else lanes.rest
                few = tuple(t for t in tiles if lanes is None or t[0] < lanes.fewer)  # what is left of longer tiles is shorter
                sums = _tiled(plan, above, few) if above else []
        for rows, along in sums:
            summed(plan, rows, along, width)
        if lanes is not None:
            lanes.schedule()
    if attempt.refused:
        return [x]
    plan.note(f"`{deep}` for {width} of `{row}` side by side, folded together")
    for rows, along in sums:
        together = plan.extent(rows[0]) or 1 if len(rows) > 1 else 1
        for buffer in moving:
            if not plan.tried("prefetch", buffer, f"{along}.0", f"{row}.0", near=cost.NEAR):
                plan.note(f"`{along}.0` asks for what stands {cost.NEAR >> 10} KiB behind what it reads of `{buffer}`")
                plan.tried("prefetch", buffer, f"{along}.0", f"{row}.0", **cost.far_hints(plan.target, together))
    return roles.innermost(find(plan.kernel, f"{row}.t").body) if plan.has(f"{row}.t") else []


def _tiled(plan: Plan, above: str, tiles: tuple[tuple[int, int], ...]) -> list[tuple[tuple[str, ...], str]]:
    """Cut the loop `above` in rows of tiles, and what is left of it in those of the next ones, the neighbours inside it in their columns.  The loops of each kind of tile, and along what it sums."""
    sums: list[tuple[tuple[str, ...], str]] = []
    for rows, columns in tiles:
        if (plan.extent(above) or rows) < rows:
            continue
        plan.do("split", above, rows, tail="cut")
        (inner,) = (s.axis for s in plan.loop(f"{above}.1").body if isinstance(s, Loop))
        plan.do("split", inner, columns, tail="perfect")
        plan.do("reorder", f"{inner}.0", f"{above}.1")
        sums += [((f"{above}.1", f"{inner}.1"), s.axis) for s in plan.loop(f"{inner}.1").body if isinstance(s, Loop)]
        above = f"{above}.t"
        if not plan.has(above):
            return sums
    (rest,) = (s for s in plan.loop(above).body if isinstance(s, Loop))
    sums += [((rest.axis,), s.axis) for s in rest.body if isinstance(s, Loop)]
    return sums


def summed(plan: Plan, rows: tuple[str, ...], deep: str, width: int) -> None:
    """The sums for neighbours along the last of the `rows`, in lanes that are folded together; what is loaded for them serves all iterations of the loop before it, where there is one: a register tile."""
    plan.do("split", deep, width, tail="pad")
    plan.do("rfactor", f"{deep}.1")
    held = [s.buffer.name for s in find(plan.kernel, rows[-1]).body if isinstance(s, Alloc)]
    tile = rows[0] != rows[-1]
    for name in held:
        plan.do("expand", name, *rows)
    known = homes_in(plan.kernel).keys() - {rows[0]}
    plan.do("fission", *rows)
    pieces: list[Loop] = []
    for s in all_loops(plan.kernel):
        if s.axis not in known:
            pieces.append(s)
            known |= {x.axis for x in all_loops(s.body)}
    for piece in pieces:
        above = [piece.axis] if tile else []
        row = next(s for s in piece.body if isinstance(s, Loop)) if above else piece
        inner = row.body[0]
        if not isinstance(inner, Loop):
            _in_one(plan, row.axis, width)
        elif inner.axis != f"{deep}.0":
            _unrolled(plan, row.axis, inner.axis)
        else:
            above = _accumulated(plan, above, row.axis, inner.axis, f"{deep}.1")
        for axis in above:
            plan.do("unroll", axis)


def _accumulated(plan: Plan, above: list[str], row: str, deep: str, lanes: str) -> list[str]:
    """The reduction outside of its rows, of as many at a time as there are registers for their addresses.  The loops that are left to unroll."""
    whole: list[str] = []
    extent = plan.extent(row) or 0
    if extent > cost.POINTERS:
        plan.do("split", row, max(n for n in range(1, cost.POINTERS + 1) if extent % n == 0), tail="perfect")
        whole, row = [f"{row}.0"], f"{row}.1"
    plan.do("reorder", *whole, deep, *above, row)
    earlier = plan.kernel
    plan.tried("peel", deep)
    _unrolled(plan, row, lanes)
    last = plan.added(earlier)
    if last:
        _unrolled(plan, *last[-2:])
    return [*last[1:-2], *whole, *above]


def sharing(plan: Plan, around: Loop, x: Loop) -> str | None:
    """The loop around both, where what moves with both of them is the same in all of its iterations."""
    outer = loop_around(plan.kernel, around)
    if outer is None or outer.kind != "parallel" or len(outer.body) > 1 or outer.axis in roles.shape(plan.kernel).axes:
        return None
    both = [n for s in x.body for n in loads_in(*s.expressions()) if {around.axis, x.axis} <= n.names]
    return None if any(outer.axis in n.names for n in both) else outer.axis


def moving_with(plan: Plan, around: Loop, x: Loop) -> tuple[str, ...]:
    """The buffers in memory that move with both of these loops."""
    both = [n.attr for s in x.body for n in loads_in(*s.expressions()) if {around.axis, x.axis} <= n.names]
    return tuple(dict.fromkeys(b for b in both if b in plan.facts.buffers))


def _in_one(plan: Plan, row: str, width: int) -> None:
    """The rows as one vector, of which perhaps only the first lanes are there."""
    extent = plan.extent(row) or 0
    if extent & (extent - 1):
        plan.do("split", row, width, tail="pad")
        row = f"{row}.1"
    plan.do("vectorize", row)


def _unrolled(plan: Plan, rows: str, lanes: str) -> None:
    plan.do("vectorize", lanes)
    plan.do("unroll", rows)


def _suits(plan: Plan, around: Loop, x: Loop, width: int) -> bool:
    """Whether memory is consecutive along the reduction, what it makes along the loop around it, and something that is loaded serves all of that one's iterations."""
    if x.kind != "reduce" or around.kind != "parallel" or around.axis in roles.shape(plan.kernel).axes or not 2 <= width <= cost.TURNED:
        return False
    if x.start is not ZERO or x.stop.names & {around.axis} or 2 * width > plan.target.vector_registers or not cost.first_lanes(plan.target):
        return False
    if any(isinstance(s, Loop) and s is not x for s in around.body):
        return False
    buffers = {**plan.facts.buffers, **{s.buffer.name: s.buffer for s in statements(plan.kernel.body) if isinstance(s, Alloc)}}
    inner = [buffers[n.attr].address(n.args) for s in x.body for n in loads_in(*s.expressions()) if n.attr in buffers]
    stores = [buffers[s.buffer].address(s.index) for s in around.body if isinstance(s, Store) and buffers[s.buffer].shape]
    moving = [a for a in inner if x.axis in a.names]
    return (
        all(stride(a, x.axis) == 1 for a in moving)
        and any(around.axis not in a.names for a in moving)
        and any(around.axis in a.names for a in moving)
        and bool(stores)
        and all(stride(a, around.axis) == 1 for a in stores)
    )
