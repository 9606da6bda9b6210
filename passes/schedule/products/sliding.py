"""The plan for contractions that read an operand through windows: convolutions of any rank, and whatever else is one.

    pack the column operand (workshare)                  panels [batch, column.0, reduced…, columns], shared, once
    for blocks of panels, batch, blocks of the axes that slide (workshare)
      copy what the block's windows read                 each element once, zeros where there is padding; one a thread
      for column.0, block rows, tiles of a row
        acc[row, columns] in registers
        for the reduced axes
          acc[row, columns] += window[…, row · stride + tap · dilation] · panel[column.0, …, columns]
        turned over in registers, where the output is consecutive along the row

A packed panel of rows would hold each element once for each tap.  The window is the image itself, read as scalars: any stride and dilation costs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.expr import FALSE, TRUE, Expr, both, ceildiv, const, product, var
from ....ir.kernel import If, Loop, Store, statements
from ....ir.simplify import simplify
from ....ir.walks import postorder
from .. import cost, roles
from ..affine import stride
from ..cost import VECTORS, blocking
from ..plan import Plan
from ..roles import Reduction, Sliding
from ..steps.copies import tile_cost
from ..tree import StepError, local_buffers
from .halos import moving, own_window, shared_window, step, turned, zeros_between
from .one_position import one_position as of_one_position, window_axes
from .tiles import RegisterTile, consecutive


def panels(plan: Plan) -> Expr | None:
    """Schedule a reduction through windows, with vectors along an axis that the windows miss: the condition on the sizes; None (and an unchanged plan) where it is no such thing."""
    return _tried(plan, _panels)


def one_vector(plan: Plan) -> Expr | None:
    """As `panels`, where all columns fit in one vector, as those of a group often do: tiles of two would be empty for one half (two threads, AVX-512: 64 channels to 12 at 112 × 112 1.5, to 16 at 14 × 14 1.7, 64 to 128 in
    eight groups at 56 × 56 1.45 times as fast)."""
    return _tried(plan, _one_vector)


def even_rows(plan: Plan) -> Expr | None:
    """As `panels`, in tiles of a power of two of positions, where rows are that long or some times so: longer tiles would be empty for a part."""
    return _tried(plan, _even_rows)


def one_row(plan: Plan) -> Expr | None:
    """As `panels`, where rows are short and there are many columns and few taps: the register tile is half as long and holds twice the columns, so that little of it is empty."""
    return _tried(plan, _one_row)


def few_positions(plan: Plan) -> Expr | None:
    """As `panels`, where the results are known to be so few positions that a register tile holds all of them, or several whole rows: of the taps of a filter, whose gradient this is."""
    return _tried(plan, _few_positions)


def along(plan: Plan) -> Expr | None:
    """Schedule a reduction through windows, with vectors along the axis on which they move: TRUE; None (and an unchanged plan) where it is no such thing."""
    return _tried(plan, lambda plan, found, slides: _along(plan, found, slides, 1, _lanes(plan, found) * VECTORS))


def along_rows(plan: Plan) -> Expr | None:
    """As `along`, in tiles of several rows, where there are so many."""
    return _tried(plan, lambda plan, found, slides: _along(plan, found, slides, cost.ALONG_TILE, _lanes(plan, found) * VECTORS))


def along_short_rows(plan: Plan) -> Expr | None:
    """As `along_rows`, where a row is one vector at most: tiles of two would be empty for one half."""

    def steps(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
        lanes, narrow = _lanes(plan, found), _narrow(plan, found, slides)
        return _along_rows_of(plan, found, slides, narrow + 1, lanes, lanes)

    return _tried(plan, steps)


def along_narrow_rows(plan: Plan) -> Expr | None:
    """As `along_short_rows`, in tiles of half a vector, where these leave less empty."""

    def steps(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
        narrow = _narrow(plan, found, slides)
        return _along_rows_of(plan, found, slides, 1, 3 * narrow, narrow) if narrow else None

    return _tried(plan, steps)


def _along_rows_of(plan: Plan, found: Reduction, slides: Sliding, least: int, most: int, columns: int) -> Expr | None:
    """In tiles of so many columns, where rows are no shorter and no longer."""
    length = plan.loop(slides.along[-1]).stop
    short = simplify(both(const(least).le(length) if least > 1 else None, length.le(const(most))) or TRUE, plan.facts.known)
    if short is FALSE:
        return None
    condition = _along(plan, found, slides, cost.ALONG_TILE * VECTORS, columns)
    return condition and (both(condition, short) or TRUE)


def _lanes(plan: Plan, found: Reduction) -> int:
    return blocking(plan.target, found.accumulator.dtype).columns // VECTORS


def _narrow(plan: Plan, found: Reduction, slides: Sliding) -> int:
    """The columns of a narrow tile, where a vector has more and products with taps are summed, nothing else; else 0."""
    sums = any(isinstance(s, Store) and s.combiner == "add" for s in found.body) and len(found.operands) > 1
    return cost.NARROW_ROW if sums and len(roles.taps(found, slides)) == len(found.reduced) and _lanes(plan, found) > cost.NARROW_ROW else 0


def one_position(plan: Plan) -> Expr | None:
    """The reduction of rows that is left where windows and images have one element."""
    return _tried(plan, lambda plan, found, slides: of_one_position(plan, window_axes(found, slides)))


def through_windows(plan: Plan) -> bool:
    """Whether there may be a reduction through windows, which each attempt asks first."""
    part = plan.another()
    try:
        return _windows(part) is not None
    except StepError:
        return True  # the attempts say why it is none


ATTEMPTS = (one_row, few_positions, one_vector, even_rows, panels, along_short_rows, along_narrow_rows, along_rows, along)  # in this order


def _windows(plan: Plan) -> tuple[Reduction, Sliding] | None:
    _parts(plan)
    found = roles.reduction(plan.kernel, plan.facts)
    slides = found and roles.sliding(found)
    return (found, slides) if found and slides and found.accumulator.dtype.is_float | found.accumulator.dtype.is_integer else None


def _tried(plan: Plan, steps: Callable[[Plan, Reduction, Sliding], Expr | None]) -> Expr | None:
    saved, notes = plan.kernel, len(plan.notes)
    condition = None
    try:
        windows = _windows(plan)
        condition = windows and steps(plan, *windows)
    except StepError as e:
        condition = None
        del plan.notes[notes:]
        plan.note(f"no windows: {e}")
    if condition is None:
        plan.kernel = saved
    return condition


def _parts(plan: Plan) -> None:
    """An axis that an operand sees as i // n, as groups of channels do, is cut in its groups."""
    form = roles.shape(plan.kernel)
    loops = {var(x.axis): x for x in form.chain}
    for n in postorder(*(e for s in statements(form.body) for e in s.expressions())):
        if n.op == "floordiv" and n.args[0] in loops and n.args[1].op == "floordiv":
            loop, (length, count) = loops[n.args[0]], n.args[1].args
            if length is loop.stop and count.is_const and not plan.tried("part", loop.axis, count.attr):
                return


def _least(found: Reduction, slides: Sliding) -> int:
    """Columns from which on vectors of them do more than vectors along the row, which are gathered where windows lie apart."""
    return cost.FEW_COLUMNS if step(found, slides) == 1 else cost.FEWER_COLUMNS


def _panels(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if _fuller(plan, found, slides)[1] is TRUE:
        return None
    block = blocking(plan.target, found.accumulator.dtype)
    return _tiles(plan, found, slides, 1, block.rows, _least(found, slides), block.columns)


def _even_rows(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    rows, fuller = _fuller(plan, found, slides)
    if fuller is FALSE or not slides.column:
        return None
    condition = _tiles(plan, found, slides, 1, rows, _least(found, slides), blocking(plan.target, found.accumulator.dtype).columns)
    return condition and (both(condition, fuller) or TRUE)


def _fuller(plan: Plan, found: Reduction, slides: Sliding) -> tuple[int, Expr]:
    """Fewer positions than registers allow, and whether less of tiles of so many is empty: of a row whose length is known as many as fill it best, else a power of two.

    (Granite Rapids, two threads, 3 × 3, against tiles of 8: rows of 17 in tiles of 9, 20 of 10, 24 of 12, 33 of 11, 34 and 36 of 12, 128 or 256 channels, 0.74, 0.84, 0.91, 0.84, 0.92 and 0.91 of the time; 32 of 11 0.97, 16 of 9 and more 1.1.)"""
    row, rows = slides.along[-1], blocking(plan.target, found.accumulator.dtype).rows
    if rows <= cost.EVEN_ROWS:
        return rows, FALSE
    positions = simplify(ceildiv(plan.loop(row).stop, zeros_between(plan, found, slides).get(row, 1)), plan.facts.known)
    fewer = cost.EVEN_ROWS
    if positions.is_const:
        fewer = min(range(fewer, rows), key=lambda n: (tile_cost(positions, n).attr, -n))
    return fewer, simplify(tile_cost(positions, fewer).lt(tile_cost(positions, rows)), plan.facts.known)


def _one_vector(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if not slides.column:
        return None
    block = blocking(plan.target, found.accumulator.dtype)
    lanes = block.columns // VECTORS
    few = simplify(plan.loop(slides.column).stop.le(const(lanes)), plan.facts.known)
    if few.is_const and not few.attr:
        return None
    length = block.rows if block.rows >= cost.IN_FLIGHT else block.rows * VECTORS
    condition = _tiles(plan, found, slides, 1, length, _least(found, slides), lanes)
    return condition and (both(condition, few) or TRUE)


def _one_row(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if len(slides.along) < 2 or zeros_between(plan, found, slides):
        return None
    block, row = blocking(plan.target, found.accumulator.dtype), slides.along[-1]
    length, columns = block.rows // 2, block.columns * 2
    if plan.extent(row) not in (None, length):  # a tile of several rows is as full
        return None
    taps = product(plan.loop(axis).stop for axis in found.reduced[1:])
    limits = ((plan.loop(row).stop, const(length)), (const(2), taps), (taps, const(cost.TURN_TAPS)))
    few = both(*(simplify(a.le(b), plan.facts.known) for a, b in limits)) or TRUE
    if few.is_const and not few.attr:
        return None
    least = columns * max(cost.TURN_PANELS, plan.target.cores)  # a panel is one thread's
    condition = _tiles(plan, found, slides, 1, length, least, columns, in_turn=cost.TURN_DEPTH)
    return condition and (both(condition, few) or TRUE)


def _few_positions(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if len(slides.along) < 2 or zeros_between(plan, found, slides):
        return None
    block = blocking(plan.target, found.accumulator.dtype)
    height, width = map(plan.extent, slides.along[-2:])
    if width is None or height is None or width > block.rows or width * height > cost.TURN_TAPS:
        return None
    rows, length, columns = cost.few_positions(height, width, block)
    taps_known = all(plan.extent(axis) is not None for axis in found.reduced[1:])
    return _tiles(plan, found, slides, rows, length, cost.FEW_COLUMNS, columns, in_turn=cost.TURN_DEPTH if taps_known else cost.TURN_LONG)


def _tiles(plan: Plan, found: Reduction, slides: Sliding, rows: int, length: int, least: int, columns: int, in_turn: int = 0) -> Expr | None:
    """Register tiles of so many rows of this length and so many columns, where there are at least so many columns.  `in_turn`: the panels are packed one after the other, each by the thread that
    multiplies with it, so much of the reduction at a time."""
    contraction = roles.contraction(plan.kernel, plan.facts, slides.column) if slides.column else None
    if contraction is None or contraction.row_operands != (slides.operand,):
        return None
    condition = const(least).le(plan.loop(slides.column).stop)
    if condition.is_const and not condition.attr:
        return None
    column, acc = slides.column, found.accumulator.name
    order = _order(plan, found, slides)
    plan.do("split", column, columns, tail="pad")
    if in_turn:
        outer, above, row, copy = shared_window(plan, found, slides, (length, rows))
    else:
        for buffer in contraction.column_operands:
            _panel(plan, found, buffer, column, order)
        plan.do("split", f"{column}.0", cost.COLUMN_TILES)
        outer, above, row, copy = own_window(plan, found, slides, (f"{column}.0.0",), (f"{column}.0.1",), (f"{column}.1",), (length, rows))
    plan.do("split", row, length, tail="pad")
    lane = f"{row}.1"
    if rows > 1:
        plan.do("split", above, rows, tail="pad")
        plan.do("reorder", f"{above}.0", f"{row}.0", f"{above}.1", lane)
        lane = plan.collapsed([f"{above}.1", lane])
    if copy:  # now that it is known to be there for whole tiles
        turned(plan, copy, plan.target.lanes(found.accumulator.dtype))
    if in_turn:
        found = _in_turn(plan, found, contraction.column_operands, column, in_turn)
        order = found.reduced
    plan.do("expand", acc, lane, f"{column}.1")
    plan.do("fission", lane, f"{column}.1")
    tile = RegisterTile(plan, acc, row, column, found.reduced[-1])
    plan.do("reorder", *order, *tile.compute())
    _finish(plan, tile)
    if in_turn:
        for axis in outer:
            plan.do("serial", axis)
    else:
        plan.shared(outer)
    plan.do("region")
    plan.note(
        f"{moving(slides)}: a block copies what it reads once, vectors are along `{column}`, register tile {f'{rows}·' * (rows > 1)}{length}×{columns}"
        + f"; {', '.join(contraction.column_operands)} is packed panel by panel, each by the thread that multiplies with it" * bool(in_turn)
    )
    return condition


def _order(plan: Plan, found: Reduction, slides: Sliding) -> tuple[str, ...]:
    """The reduced axes as a tile goes through them, and as its panels are packed: the taps outside, where they are known to be the shorter ones.

    A loop over three taps ends before it has begun, and cannot stand twice (`unroll.py`), for neighbouring taps read the same elements.  Where the number of taps is free, a panel in that order takes two divisions for each
    vector, and one in the operand's is read in strides (28 × 28, 128 channels: 0.96 times as fast as with the taps inside).
    """
    taps = roles.taps(found, slides)
    others = [a for a in found.reduced if a not in taps]
    known = [n for n in map(plan.extent, taps) if n is not None]
    deep = plan.extent(others[-1]) if others else 0
    if len(known) < len(taps) or (deep is not None and deep < max(known, default=0)) or zeros_between(plan, found, slides):
        return found.reduced
    return (*taps, *others)


def _in_turn(plan: Plan, found: Reduction, operands: Sequence[str], column: str, depth: int) -> Reduction:
    """Cut the reduction in pieces so deep, for each of which a piece of the panel is packed and used for all tiles while it is in the near caches: the reduction inside a piece.

    The next piece is asked for into the second cache, while this one is packed (Zen 4, 7 × 7 positions, 512 channels to 512 by 3 × 3: 0.97 of the time, with two threads 0.95).
    """
    deep, *others = found.reduced
    plan.do("split", deep, depth)
    inside = plan.loop(f"{column}.0").body[0]
    assert isinstance(inside, Loop)
    plan.do("accumulate", f"{deep}.0", outside=inside.axis, space="private")
    reduced = (f"{deep}.1", *others)
    found = found._replace(reduced=reduced, body=plan.loop(reduced[-1]).body)
    for buffer in operands:
        before = plan.kernel
        _panel(plan, found, buffer, column, found.reduced, at=f"{deep}.0")
        copying = plan.copying(plan.newest(before), before)
        plan.tried("prefetch", buffer, copying[-3 if len(copying) > 2 else 0], f"{deep}.0", cache=cost.NEXT_ROW_CACHE)
    return found


def _along(plan: Plan, found: Reduction, slides: Sliding, rows: int, columns: int) -> Expr | None:
    """In register tiles of so many rows and columns; of several rows where more than half of a tile is there."""
    *above, row = slides.along[-2:]
    acc = found.accumulator
    there = const(rows // 2 + 1).le(plan.loop(above[0]).stop) if above else (TRUE if rows == 1 else FALSE)
    if there.is_const and not there.attr:
        return None
    if stride(plan.facts.buffers[found.store.buffer].address(found.store.index), row) != 1:
        return None
    if step(found, slides) > 2 and not slides.column:  # a copy would be gathered from, as the operand itself is, and nobody else uses it
        return None
    if _few_taps(plan, found, row):
        plan.note(f"`{row}` is shorter than half a vector: vectors are along `{found.reduced[-1]}`")
        return None
    outer, above, row, _ = own_window(plan, found, slides, (), slides.missed, (), (columns, rows) if rows > 1 else (columns,), cost.ALONG_ROWS)
    plan.do("split", row, columns, tail="pad")
    lanes = [f"{row}.1"]
    if rows > 1:
        plan.do("split", above, rows, tail="pad")
        plan.do("reorder", f"{above}.0", f"{row}.0", f"{above}.1", f"{row}.1")
        lanes.insert(0, f"{above}.1")
    plan.do("expand", acc.name, *lanes)
    plan.do("fission", *lanes)
    plan.do("reorder", *found.reduced, *plan.summing(acc.name, found.reduced[-1], len(lanes)))
    for loops in plan.around_store(acc.name) + plan.around_store(found.store.buffer):
        plan.do("vectorize", loops[-1].axis)
        if rows > 1:
            plan.do("unroll", loops[-2].axis)
    taps = roles.taps(found, slides)
    if found.reduced[-len(taps) :] == taps:
        plan.tried("version", cost.USUAL_TAPS, *taps)
    plan.shared(outer)
    plan.do("region")
    plan.note(
        f"{moving(slides)}: a block copies what it reads once, vectors are along `{slides.along[-1]}`" + f", {rows} rows at a time" * (rows > 1)
    )
    return there if rows > 1 else TRUE


def _few_taps(plan: Plan, found: Reduction, row: str) -> bool:
    """Whether most lanes along a row of results would stay empty, where what is summed for each is consecutive: the gradient of a filter, each channel by itself."""
    length, lanes, deep = plan.extent(row), plan.target.lanes(found.accumulator.dtype), found.reduced[-1]
    if length is None or length * 2 > lanes or (plan.extent(deep) or lanes) < lanes:
        return False
    addresses = [plan.facts.buffers[n.attr].address(n.args) for n in found.operands if n.attr in plan.facts.buffers]
    return all(stride(a, deep) == 1 for a in addresses)


def _panel(plan: Plan, found: Reduction, buffer: str, column: str, order: tuple[str, ...], at: str = "") -> None:
    """Panels of a column operand, which a tile reads in the `order` of the reduced axes, packed once by all threads (or one for each iteration of `at`): in squares that are turned over in registers, where it is consecutive
    along the reduction, or along its last axes.

    A few columns to their end, as prefetchers follow, before the next few (Zen 4, 7 × 7 positions, 512 channels to 512 by 3 × 3: 0.85 of the time of all columns square by square).
    """
    moving = {a for n in found.operands if n.attr == buffer for a in n.names}
    before = plan.kernel
    panels = () if at else (*(a for a in found.kept if a in moving and a != column), f"{column}.0")
    plan.do("stage", buffer, *panels, *order, f"{column}.1", at=at, space="private" if at else "shared")
    packed = plan.newest(before)
    *blocks, c = plan.copying(packed, before)
    copied = dict(zip(order, blocks[-len(order) :], strict=True))
    blocks = blocks[: -len(order)]
    if order != found.reduced:
        plan.do("reorder", *(copied[a] for a in found.reduced))
    along, lanes = [copied[a] for a in found.reduced], plan.target.lanes(found.accumulator.dtype)
    deep = _in_one_run(plan, packed, along) if lanes <= cost.TURNED else ""
    if not deep:
        plan.collapsed([*blocks, plan.collapsed(along)])
        return
    blocks += [a for a in along if plan.has(a) and a != deep]
    plan.do("split", deep, lanes, tail="pad")
    plan.do("split", c, lanes, tail="perfect")
    plan.do("reorder", f"{c}.0", f"{deep}.0", f"{deep}.1", f"{c}.1")
    plan.tried("interior", f"{deep}.1", f"{c}.1")
    plan.do("unroll", f"{deep}.1")
    plan.do("vectorize", f"{c}.1")
    if not at:
        plan.collapsed([*blocks, f"{c}.0", f"{deep}.0"])


def _in_one_run(plan: Plan, copy: str, axes: Sequence[str]) -> str:
    """As many of the axes of a copy as one, the innermost, as what is copied is consecutive along: its name, or "" (and an unchanged plan) where it is so along none."""
    saved = plan.kernel
    for k in range(len(axes)):
        run = plan.collapsed(axes[k:])
        if consecutive(plan, copy, run):
            return run
        plan.kernel = saved
    return ""


def _finish(plan: Plan, tile: RegisterTile) -> None:
    """Unroll the tile's rows and make vectors of its columns; results that are consecutive along the row are turned over."""
    acc = tile.accumulator
    for outer, inner in tile.nests(acc):
        if isinstance(inner.body[0], If):  # the first piece of the reduction, or the last
            plan.tried("unswitch", outer.axis)
    for outer, inner in tile.nests(acc):
        stores = [
            plan.facts.buffers[s.buffer].address(s.index) for s in statements(inner.body) if isinstance(s, Store) and s.buffer in plan.facts.buffers
        ]
        if any(stride(a, inner.axis) != 1 for a in stores):
            lanes = plan.target.lanes(local_buffers(plan.kernel)[acc].dtype)
            plan.do("spill", acc, outer.axis, turned=lanes)
            plan.do("split", inner.axis, lanes, tail="perfect")
            plan.do("unroll", f"{inner.axis}.1")
            plan.do("vectorize", outer.axis)
        else:
            plan.do("vectorize", inner.axis)
            plan.do("unroll", outer.axis)
    for outer, inner in tile.nests(acc):  # which the spill has made
        plan.do("vectorize", inner.axis)
        plan.do("unroll", outer.axis)
