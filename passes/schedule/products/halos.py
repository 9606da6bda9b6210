"""How the axes of a reduction through windows are cut in blocks, each of which copies what its windows read."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod

from ....ir.kernel import Store, statements
from .. import cost
from ..plan import Plan
from ..roles import Reduction, Sliding
from .tiles import consecutive


def step(found: Reduction, slides: Sliding) -> int:
    """How far apart in the copy two neighbours on the row read."""
    from ..steps.windows import forms

    row = slides.along[-1]
    for n in found.operands:
        terms = forms(n, (row, *found.reduced)) if n.attr == slides.operand else []
        for form in terms if isinstance(terms, list) else []:
            if row in dict(form.terms):
                return abs(dict(form.terms)[row])
    return 0


def is_last(found: Reduction, slides: Sliding) -> bool:
    """Whether neighbours on the row read neighbours in memory: a tile's elements are read from one address then, and constant distances."""
    return all(slides.along[-1] in n.args[-1].names for n in found.operands if n.attr == slides.operand)


def moving(slides: Sliding) -> str:
    return f"`{slides.operand}` is read through windows that move along {', '.join(f'`{a}`' for a in slides.along)}"


def zeros_between(plan: Plan, found: Reduction, slides: Sliding) -> dict[str, int]:
    """The kept axes whose positions add up only every so-many-th position of the reductions (zeros stand between the elements of the operand), and in how many classes of positions they fall."""
    from ..steps.residues import comb

    result: dict[str, int] = {}
    for axis in found.reduced if not plan.facts.strict else ():
        every = comb(plan.loop(axis))
        for kept, count in every.strides().items() if every is not None else ():
            if kept in slides.along and count > 1:
                result[kept] = lcm(result.get(kept, 1), count)
    return result


def own_window(
    plan: Plan,
    found: Reduction,
    slides: Sliding,
    panels: tuple[str, ...],
    inside: tuple[str, ...],
    lane: tuple[str, ...],
    tile: tuple[int, ...],
    rows: int = cost.WINDOW_ROWS,
) -> tuple[list[str], str, str, list[str]]:
    """Cut the axes in blocks, each of which copies what its windows read: the axes of the blocks; inside, the axis before the row, and the row; and those of a copy that may be `turned`.

    Outermost is what says which panels are used, with `panels`, the blocks of them: threads have panels of their own where there are blocks enough, which stay in their second caches while they go through images
    and rows, and as many rows each, of which a few blocks are not shared evenly (14 × 14, 256 channels to 256 by 3 × 3: two threads 1.5 times as fast as through all panels for each four rows, one 1.02 times).
    There is room for whole tiles, so long along the row (and along the axis before it).  Inside a block the axes are `inside`, those along which windows move, and `lane`.
    """
    *above, row = slides.along[-2:]  # of the axis before the row a block has a few positions, which share what they read
    apart = zeros_between(plan, found, slides)
    along = cost.WINDOW_TILES // rows if above and rows < cost.WINDOW_TILES else cost.WINDOW_TILES
    blocks = {a: 1 for a in slides.along if a in apart} | dict.fromkeys(above, rows) | {row: tile[0] * along}
    alone = [a for a in found.kept if a not in blocks and plan.has(a) and a not in inside]
    elsewhere = {a for n in found.operands if n.attr != slides.operand for a in n.names}
    outer = [*(a for a in alone if a in elsewhere), *panels, *(a for a in alone if a not in elsewhere)]
    if apart:
        same = ", ".join(f"every {n} positions along `{a}`" for a, n in apart.items())
        plan.note(f"zeros stand between the elements of `{slides.operand}`: the same taps count for {same}, and no others are multiplied")
    classes: list[str] = []
    within: dict[str, str] = {}
    for axis, length in blocks.items():
        if axis in above and axis not in apart and panels:
            plan.do("share", axis, length, multiple=min(plan.target.cores, cost.EVENLY))
        else:
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
    copy = _copied(plan, found, slides, [*outer, *within.values()][-1], (row, *above), tile, last=row if lane and not is_last(found, slides) else "")
    return outer, above[0] if above else "", row, copy


def shared_window(plan: Plan, found: Reduction, slides: Sliding, tile: tuple[int, ...]) -> tuple[list[str], str, str, list[str]]:
    """Cut all axes but the column in blocks, for each of which the threads together copy what it reads: the axes of the blocks, inside them the axis before the row, and the row; and those of a copy that may be `turned`.

    Inside a block, `column.0` comes first: what is packed for one of its positions is used for the whole block, and stays in the second cache.
    """
    *above, row = slides.along[-2:]
    column = slides.column
    rest = [a for a in found.kept if plan.has(a) and a not in (*above, row)]
    elsewhere = {a for n in found.operands if n.attr != slides.operand for a in n.names}
    images = [a for a in rest if a not in elsewhere and a not in slides.missed][-1:]
    many = cost.TURN_IMAGES
    positions = [n for n in map(plan.extent, (*above, row)) if n is not None]
    if len(positions) > len(above):  # as of a filter whose gradient this is
        many = cost.images(plan.target, found.accumulator.dtype, prod(positions))
    blocks = dict.fromkeys(images, many) | dict.fromkeys(above, cost.TURN_ROWS) | {row: tile[0]}  # which holds the whole row
    for axis, length in blocks.items():
        plan.do("split", axis, length)
    outer = [a for a in rest if a not in images] + [f"{a}.0" for a in blocks]
    plan.do("reorder", *outer, f"{column}.0", *(f"{a}.1" for a in blocks), f"{column}.1")
    above, row = [f"{a}.1" for a in above], f"{row}.1"
    copy = _copied(
        plan,
        found,
        slides,
        outer[-1],
        (row, *above),
        tile,
        images=[f"{a}.1" for a in images],
        space="shared",
        last="" if is_last(found, slides) else row,
    )
    return outer, above[0] if above else "", row, copy


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
) -> list[str]:
    """What the windows read inside the loop `at`, copied in vectors; what the threads copy together is cut along an axis that is no block.  Where it is not consecutive along the last axis: the axes.

    Rows are innermost, so that which lanes are inside is found out once for all of them.
    """
    before = plan.kernel
    lanes = plan.target.lanes(found.accumulator.dtype)
    plan.do("window", slides.operand, *axes, *found.reduced, *images, at=at, multiple=",".join(map(str, tile)), lanes=lanes, space=space, last=last)
    copy = plan.newest(before)
    copying = plan.copying(copy, before)
    long = [a for a in copying[:-1] if plan.loop(a).stop.names <= plan.facts.sizes.keys()] if images else []
    if long:
        copying = [long[0], *(a for a in copying if a != long[0])]
        plan.do("reorder", *copying)
    if consecutive(plan, copy, copying[-1]):
        plan.do("split", copying[-1], lanes, tail="perfect")
        plan.do("vectorize", f"{copying[-1]}.1")
        around = [a for a in copying[:-1] if a not in long[:1]]
        if around and around[-1] not in long and len(axes) > 1 and len(tile) > 1:
            plan.do("reorder", f"{copying[-1]}.0", around[-1])
        return []
    return copying


def turned(plan: Plan, copying: Sequence[str], lanes: int) -> None:
    """What is consecutive along another axis of its copy than the last is turned over in registers, in squares; what is left of that axis is copied one by one.

    In a loop of its own, where threads do not share that axis (three channels: with a test in the loop 1.07 times as long).
    """
    *others, row = copying
    copy = next(s.buffer for s in statements((plan.loop(row),)) if isinstance(s, Store))
    across = next((a for a in reversed(others) if consecutive(plan, copy, a)), "")
    if not across or not 4 <= lanes <= cost.TURNED:
        return
    with plan.attempt(f"`{copy}` is not turned over in registers"):
        alone = across == others[-1]
        plan.do("split", across, lanes, tail="cut" if alone else "pad")
        plan.do("split", row, lanes, tail="perfect")
        if alone:
            plan.do("reorder", f"{across}.0", f"{row}.0", f"{across}.1", f"{row}.1")
        else:
            plan.do("reorder", *(f"{a}.0" if a == across else a for a in others), f"{row}.0", f"{across}.1", f"{row}.1")
            plan.do("interior", f"{across}.1")
        plan.do("unroll", f"{across}.1")
        plan.do("vectorize", f"{row}.1")
