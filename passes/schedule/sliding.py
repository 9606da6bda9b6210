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
from math import lcm

from ...ir.expr import TRUE, Expr, both, call, const, product, var
from ...ir.kernel import If, Loop, Store, expressions, statements
from ...ir.walks import postorder
from . import cost, roles
from .affine import stride
from .cost import blocking
from .plan import Plan
from .roles import Reduction, Sliding
from .tiles import RegisterTile, consecutive
from .tree import StepError, local_buffers


def panels(plan: Plan) -> Expr | None:
    """Schedule a reduction through windows, with vectors along an axis that the windows miss: the condition on the sizes; None (and an unchanged plan) where it is no such thing."""
    return _tried(plan, _panels)


def one_row(plan: Plan) -> Expr | None:
    """As `short_rows`, where there are many columns and few taps: the register tile holds one row and twice the columns, so that none is empty where rows are an odd number."""
    return _tried(plan, _one_row)


def short_rows(plan: Plan) -> Expr | None:
    """As `panels`, where a register tile of one row would be empty for the most part: it holds two, or more of those that are known to be shorter."""
    return _tried(plan, _short_rows)


def along(plan: Plan) -> Expr | None:
    """Schedule a reduction through windows, with vectors along the axis on which they move: TRUE; None (and an unchanged plan) where it is no such thing."""
    return _tried(plan, _along)


def _tried(plan: Plan, steps: Callable[[Plan, Reduction, Sliding], Expr | None]) -> Expr | None:
    saved, notes = plan.kernel, len(plan.notes)
    condition = None
    try:
        _parts(plan)
        found = roles.reduction(plan.kernel, plan.facts)
        slides = found and roles.sliding(found)
        if found and slides and found.accumulator.dtype.is_float | found.accumulator.dtype.is_integer:
            condition = steps(plan, found, slides)
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
    for n in postorder(*(e for s in statements(form.body) for e in expressions(s))):
        if n.op == "floordiv" and n.args[0] in loops and n.args[1].op == "floordiv":
            loop, (length, count) = loops[n.args[0]], n.args[1].args
            if length is loop.stop and count.is_const and not plan.tried("part", loop.axis, count.attr):
                return


def _panels(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    block = blocking(plan.target, found.accumulator.dtype)
    least = cost.FEW_COLUMNS if _step(found, slides) == 1 else cost.FEWER_COLUMNS
    return _tiles(plan, found, slides, 1, block.rows, least, block.columns)


def _one_row(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if len(slides.along) < 2 or _apart(plan, found, slides):
        return None
    block, row = blocking(plan.target, found.accumulator.dtype), slides.along[-1]
    length, columns = block.rows // 2, block.columns * 2
    if plan.extent(row) not in (None, length):  # a tile of several rows is as full
        return None
    taps = product(plan.loop(axis).stop for axis in found.reduced[1:])
    few = both(call("less_equal", plan.loop(row).stop, const(length)), call("less_equal", taps, const(cost.TURN_TAPS))) or TRUE
    if few.is_const and not few.attr:
        return None
    least = columns * max(cost.TURN_PANELS, plan.target.cores)  # a panel is one thread's
    condition = _tiles(plan, found, slides, 1, length, least, columns, in_turn=cost.TURN_DEPTH)
    return condition and (both(condition, few) or TRUE)


def _short_rows(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    if len(slides.along) < 2:
        return None
    apart = _apart(plan, found, slides)
    block = blocking(plan.target, found.accumulator.dtype)
    rows, length = 2, block.rows // 2
    width, height = plan.extent(slides.along[-1]), plan.extent(slides.along[-2])
    if width is not None and width < length and height is not None and not apart:  # as of the taps of a filter, whose gradient this is
        rows, length = -(-height // -(-height // (block.rows // width))), width
    fits = call("less_equal", plan.loop(slides.along[-1]).stop, const(length * apart.get(slides.along[-1], 1)))
    if fits.is_const and not fits.attr:
        return None
    taps = [plan.extent(axis) for axis in found.reduced[1:]]
    depth = cost.TURN_LONG if None in taps else cost.TURN_DEPTH
    condition = _tiles(plan, found, slides, rows, length, cost.FEW_COLUMNS, block.columns, in_turn=0 if apart else depth)
    return condition and (both(condition, fits) or TRUE)


def _tiles(plan: Plan, found: Reduction, slides: Sliding, rows: int, length: int, least: int, columns: int, in_turn: int = 0) -> Expr | None:
    """Register tiles of so many rows of this length and so many columns, where there are at least so many columns.  `in_turn`: the panels are packed one after the other, each by the thread that
    multiplies with it, so much of the reduction at a time."""
    contraction = roles.contraction(plan.kernel, plan.facts, slides.column) if slides.column else None
    if contraction is None or contraction.row_operands != (slides.operand,):
        return None
    condition = call("less_equal", const(least), plan.loop(slides.column).stop)
    if condition.is_const and not condition.attr:
        return None
    column, acc = slides.column, found.accumulator.name
    plan.do("split", column, columns, tail="pad")
    if in_turn:
        outer, above, row = _shared_window(plan, found, slides, (length, rows))
    else:
        for buffer in contraction.column_operands:
            _panel(plan, found, buffer, column)
        plan.do("split", f"{column}.0", cost.COLUMN_TILES)
        outer, above, row = _window(plan, found, slides, (f"{column}.0.0",), (f"{column}.0.1",), (f"{column}.1",), (length, rows))
    plan.do("split", row, length, tail="pad")
    lane = f"{row}.1"
    if rows > 1:
        plan.do("split", above, rows, tail="pad")
        plan.do("reorder", f"{above}.0", f"{row}.0", f"{above}.1", lane)
        lane = plan.collapsed([f"{above}.1", lane])
    if in_turn:
        found = _in_turn(plan, found, contraction.column_operands, column, in_turn)
    plan.do("expand", acc, lane, f"{column}.1")
    plan.do("fission", lane, f"{column}.1")
    tile = RegisterTile(plan, acc, row, column, found.reduced[-1])
    plan.do("reorder", *found.reduced, *tile.compute())
    _finish(plan, tile)
    if in_turn:
        for axis in outer:
            plan.do("serial", axis)
    else:
        plan.shared(outer)
    plan.do("region")
    plan.note(
        f"{_moving(slides)}: a block copies what it reads once, vectors are along `{column}`, register tile {f'{rows}·' * (rows > 1)}{length}×{columns}"
        + f"; {', '.join(contraction.column_operands)} is packed panel by panel, each by the thread that multiplies with it" * bool(in_turn)
    )
    return condition


def _in_turn(plan: Plan, found: Reduction, operands: Sequence[str], column: str, depth: int) -> Reduction:
    """Cut the reduction in pieces so deep, for each of which a piece of the panel is packed and used for all tiles while it is in the near caches: the reduction inside a piece.

    Of a piece that is short whatever the sizes the next one is asked for; one that is packed line by line, as prefetchers follow, is not (7 × 7 positions, 512 channels to 512 by 3 × 3: 0.95 times as fast with hints).
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
        _panel(plan, found, buffer, column, at=f"{deep}.0")
        copying = plan.copying(plan.newest(before), before)
        if depth == cost.TURN_LONG:
            plan.tried("prefetch", buffer, copying[-3 if len(copying) > 2 else 0], f"{deep}.0")
    return found


def _step(found: Reduction, slides: Sliding) -> int:
    """How far apart in the copy two neighbours on the row read."""
    from .windows import forms

    row = slides.along[-1]
    for n in found.operands:
        terms = forms(n, (row, *found.reduced)) if n.attr == slides.operand else []
        for form in terms if isinstance(terms, list) else []:
            if row in dict(form.terms):
                return abs(dict(form.terms)[row])
    return 0


def _is_last(found: Reduction, slides: Sliding) -> bool:
    """Whether neighbours on the row read neighbours in memory: a tile's elements are read from one address then, and constant distances."""
    return all(slides.along[-1] in n.args[-1].names for n in found.operands if n.attr == slides.operand)


def _along(plan: Plan, found: Reduction, slides: Sliding) -> Expr | None:
    row, acc = slides.along[-1], found.accumulator
    if stride(plan.facts.buffers[found.store.buffer].address(found.store.index), row) != 1:
        return None
    if _step(found, slides) != 1 and not slides.column:  # a copy would be gathered from, as the operand itself is, and nobody else uses it
        return None
    columns = blocking(plan.target, acc.dtype).columns
    if _few_taps(plan, found, row):
        plan.note(f"`{row}` is shorter than half a vector: vectors are along `{found.reduced[-1]}`")
        return None
    outer, _, row = _window(plan, found, slides, (), slides.missed, (), (columns,))
    plan.do("split", row, columns, tail="pad")
    plan.do("expand", acc.name, f"{row}.1")
    plan.do("fission", f"{row}.1")
    (lane,) = plan.summing(acc.name, found.reduced[-1], 1)
    plan.do("reorder", *found.reduced, lane)
    for loops in plan.around_store(acc.name) + plan.around_store(found.store.buffer):
        plan.do("vectorize", loops[-1].axis)
    plan.shared(outer)
    plan.do("region")
    plan.note(f"{_moving(slides)}: a block copies what it reads once, vectors are along `{slides.along[-1]}`")
    return TRUE


def _few_taps(plan: Plan, found: Reduction, row: str) -> bool:
    """Whether most lanes along a row of results would stay empty, where what is summed for each is consecutive: the gradient of a filter, each channel by itself."""
    length, lanes, deep = plan.extent(row), plan.target.lanes(found.accumulator.dtype), found.reduced[-1]
    if length is None or length * 2 > lanes or (plan.extent(deep) or lanes) < lanes:
        return False
    addresses = [plan.facts.buffers[n.attr].address(n.args) for n in found.operands if n.attr in plan.facts.buffers]
    return all(stride(a, deep) == 1 for a in addresses)


def _moving(slides: Sliding) -> str:
    return f"`{slides.operand}` is read through windows that move along {', '.join(f'`{a}`' for a in slides.along)}"


def _window(
    plan: Plan, found: Reduction, slides: Sliding, panels: tuple[str, ...], inside: tuple[str, ...], lane: tuple[str, ...], tile: tuple[int, ...]
) -> tuple[list[str], str, str]:
    """Cut the axes in blocks, each of which copies what its windows read: the axes of the blocks; inside, the axis before the row, and the row.

    Outermost is what says which panels are used, with `panels`, the blocks of them: threads have panels of their own where there are blocks enough, which stay in their second caches while they go through images
    and rows, and as many rows each, of which a few blocks are not shared evenly (14 × 14, 256 channels to 256 by 3 × 3: two threads 1.5 times as fast as through all panels for each four rows, one 1.02 times).
    There is room for whole tiles, so long along the row (and along the axis before it).  Inside a block the axes are `inside`, those along which windows move, and `lane`.
    """
    *above, row = slides.along[-2:]  # of the axis before the row a block has a few positions, which share what they read
    apart = _apart(plan, found, slides)
    blocks = {a: 1 for a in slides.along if a in apart} | dict.fromkeys(above, cost.WINDOW_ROWS) | {row: tile[0] * cost.WINDOW_TILES}
    alone = [a for a in found.kept if a not in blocks and plan.has(a) and a not in inside]
    elsewhere = {a for n in found.operands if n.attr != slides.operand for a in n.names}
    outer = [*(a for a in alone if a in elsewhere), *panels, *(a for a in alone if a not in elsewhere)]
    if apart:
        same = ", ".join(f"every {n} positions along `{a}`" for a, n in apart.items())
        plan.note(f"zeros stand between the elements of `{slides.operand}`: the same taps count for {same}, and no others are multiplied")
    classes: list[str] = []
    within: dict[str, str] = {}
    for axis, length in blocks.items():
        plan.do("split", axis, length * apart.get(axis, 1))
        outer.append(f"{axis}.0")
        within[axis] = f"{axis}.1"
        if axis in apart:
            plan.do("deal", within[axis], apart[axis])
            classes.append(f"{axis}.1.0")
            within[axis] = f"{axis}.1.1"
    above, row = [within.pop(a) for a in above], within.pop(row)
    plan.do("reorder", *outer, *classes, *within.values(), *inside, *above, row, *lane)
    outer += classes
    for axis in found.reduced if apart else ():
        plan.tried("sieve", axis)
    _copied(plan, found, slides, [*outer, *within.values()][-1], (row, *above), tile, last=row if lane and not _is_last(found, slides) else "")
    return outer, above[0] if above else "", row


def _shared_window(plan: Plan, found: Reduction, slides: Sliding, tile: tuple[int, ...]) -> tuple[list[str], str, str]:
    """Cut all axes but the column in blocks, for each of which the threads together copy what it reads: the axes of the blocks, and inside them the axis before the row, and the row.

    Inside a block, `column.0` comes first: what is packed for one of its positions is used for the whole block, and stays in the second cache.
    """
    *above, row = slides.along[-2:]
    column = slides.column
    rest = [a for a in found.kept if plan.has(a) and a not in (*above, row)]
    elsewhere = {a for n in found.operands if n.attr != slides.operand for a in n.names}
    images = [a for a in rest if a not in elsewhere and a not in slides.missed][-1:]
    many = cost.TURN_IMAGES
    if (
        tile[0] * 2 < blocking(plan.target, found.accumulator.dtype).rows
    ):  # all taps of a filter: of more filters, or a panel would be used for them alone
        many *= max(1, cost.TURN_ROWS // (plan.extent(above[0]) or 1))
    blocks = dict.fromkeys(images, many) | dict.fromkeys(above, cost.TURN_ROWS) | {row: tile[0]}  # which holds the whole row
    for axis, length in blocks.items():
        plan.do("split", axis, length)
    outer = [a for a in rest if a not in images] + [f"{a}.0" for a in blocks]
    plan.do("reorder", *outer, f"{column}.0", *(f"{a}.1" for a in blocks), f"{column}.1")
    above, row = [f"{a}.1" for a in above], f"{row}.1"
    _copied(
        plan,
        found,
        slides,
        outer[-1],
        (row, *above),
        tile,
        images=[f"{a}.1" for a in images],
        space="shared",
        last="" if _is_last(found, slides) else row,
    )
    return outer, above[0] if above else "", row


def _copied(
    plan: Plan,
    found: Reduction,
    slides: Sliding,
    at: str,
    axes: tuple[str, ...],
    tile: tuple[int, ...],
    images: Sequence[str] = (),
    space: str = "",
    last: str = "",
) -> None:
    """What the windows read inside the loop `at`, copied in vectors; what the threads copy together is cut along an axis that is no block."""
    before = plan.kernel
    lanes = plan.target.lanes(found.accumulator.dtype)
    plan.do("window", slides.operand, *axes, *found.reduced, *images, at=at, multiple=",".join(map(str, tile)), lanes=lanes, space=space, last=last)
    copy = plan.newest(before)
    copying = plan.copying(copy, before)
    long = [a for a in copying[:-1] if plan.loop(a).stop.names <= plan.facts.sizes.keys()] if images else []
    if long:
        plan.do("reorder", long[0], *(a for a in copying if a != long[0]))
    if consecutive(plan, copy, copying[-1]):
        plan.do("split", copying[-1], lanes, tail="perfect")
        plan.do("vectorize", f"{copying[-1]}.1")


def _apart(plan: Plan, found: Reduction, slides: Sliding) -> dict[str, int]:
    """The kept axes whose positions add up only every so-many-th position of the reductions (zeros stand between the elements of the operand), and in how many classes of positions they fall."""
    from .residues import comb

    result: dict[str, int] = {}
    for axis in found.reduced if not plan.facts.strict else ():
        every = comb(plan.loop(axis))
        for kept, count in every.strides().items() if every is not None else ():
            if kept in slides.along and count > 1:
                result[kept] = lcm(result.get(kept, 1), count)
    return result


def _panel(plan: Plan, found: Reduction, buffer: str, column: str, at: str = "") -> None:
    """Panels of a column operand, packed once by all threads (or one for each iteration of `at`): in squares that are turned over in registers, where it is consecutive along the reduction."""
    moving = {a for n in found.operands if n.attr == buffer for a in n.names}
    before = plan.kernel
    panels = () if at else (*(a for a in found.kept if a in moving and a != column), f"{column}.0")
    plan.do("stage", buffer, *panels, *found.reduced, f"{column}.1", at=at, space="private" if at else "shared")
    packed = plan.newest(before)
    *around, c = plan.copying(packed, before)
    blocks, deep = around[: -len(found.reduced)], plan.collapsed(around[-len(found.reduced) :])
    lanes = plan.target.lanes(found.accumulator.dtype)
    if lanes > cost.TURNED or not consecutive(plan, packed, deep):
        plan.collapsed([*blocks, deep])
        return
    plan.do("split", deep, lanes, tail="pad")
    plan.do("split", c, lanes, tail="perfect")
    plan.do("reorder", f"{deep}.0", f"{c}.0", f"{deep}.1", f"{c}.1")
    plan.tried("interior", f"{deep}.1", f"{c}.1")
    plan.do("unroll", f"{deep}.1")
    plan.do("vectorize", f"{c}.1")
    plan.collapsed([*blocks, f"{deep}.0"])


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
