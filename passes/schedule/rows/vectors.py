"""The plan for everything without reuse: vectors along the axis in which memory is consecutive, threads over the outermost parallel axis.

pointwise        the axis with which most operands move by one element is split by a vector, with a scalar tail
rows             the loops inside each row become vectors; a reduction keeps several of them and folds them once at the end of the row
                 a reduction inside of one of them that is consecutive along that one is done for a vector of it at a time
column           the consecutive axis is a kept one: it is split, its accumulators are expanded to vectors, and the reduction runs outside of them
transposition    store and loads are consecutive along different axes: square tiles, in them square blocks that are turned over in registers
"""

from __future__ import annotations

from ....ir.expr import ZERO, Expr, var
from ....ir.kernel import Alloc, Block, Let, Loop, Store, perfect, statements
from ....ir.simplify import simplify
from ....ir.target import LINE, PAGE
from .. import cost, roles
from ..affine import divides, inside_for, same_position, taken_apart
from ..plan import Plan
from ..steps.chains import candidates as candidates_to_hold
from ..steps.tables import candidates
from ..tree import StepError, all_loops, around, find, reads
from .abreast import WAITING, in_lanes, takes_turns
from .beside import bare, gathered, in_pieces, some_apart
from .columns_inside import columns_inside, expanded, strips
from .in_registers import halves, in_registers, padded, shorter
from .joined_axes import joined, positions_as_data
from .joined_passes import joined_passes
from .lines import aligned, chooses, shifted
from .longer_rows import longest
from .partial_rows import computed_long, confined, own_vector, stored_in_part
from .parts import parted
from .several_rows import several_rows
from .side_by_side import rows_side_by_side
from .spread import spread
from .traffic import asked_ahead, prefetched, streamed, threads
from .transpositions import along_stores, squares, turned, turning, turns_over


def vectors(plan: Plan) -> None:
    """Schedule a kernel for memory traffic.  What a step refuses stays as it is; the reason is noted."""
    tabulated(plan)
    parted(plan)
    spread(plan)
    joined_passes(plan)
    form = roles.shape(plan.kernel)
    addresses = roles.positions(form, plan.facts)
    inner = roles.innermost(form.body)
    if not inner:
        _pointwise(plan, form, addresses)
    else:
        column = by_columns(plan)
        if column is not None and _column(plan, column):
            return
        again = form.chain and any(x.kind == "reduce" for x in inner)  # there are loops that read rows again, and may ask for the next
        vectors_inside(plan, confined(plan, inner) if form.chain else chunks(plan), strips=cost.ACCUMULATORS if again else 1)
    if several_rows(plan, cost.rows_together(plan.target)):
        return
    prefetched(plan)
    threads(plan)
    streamed(plan)


def vectors_inside(
    plan: Plan, loops: list[Loop] | None = None, side_by_side: int = cost.MOST_ACCUMULATORS, strips: int = 1, lines: bool = True
) -> None:
    """Vectors along some innermost loops (by default all), at most so many of them side by side in reductions, and in long loops that are none, or along what is around them; these begin at `lines`."""
    for x in roles.innermost(plan.kernel.body) if loops is None else loops:
        if columns_inside(plan, x):
            continue
        for rest in rows_side_by_side(plan, x, _width(plan, x.body, x.axis)):
            vectors_along(plan, rest, side_by_side if rest is x else 1, strips, lines)


def _width(plan: Plan, body: Block, along: str = "") -> int:
    return cost.lanes(plan.target, roles.widest(body, along))


def tabulated(plan: Plan) -> None:
    """What several loops over a short range compute is computed once."""
    for axes in candidates(plan.kernel):
        refused = plan.tried("tabulate", *axes)
        plan.note(
            f"{', '.join(axes)} each compute their values: {refused}" if refused else f"what {', '.join(axes)} share is computed once, in a table"
        )


# ---- pointwise


def _pointwise(plan: Plan, form: roles.Shape, addresses: list[Expr]) -> None:
    if not form.chain:
        return
    over = turning(plan, form, addresses)
    if over is not None:
        joined(plan)
        form = roles.shape(plan.kernel)
        addresses = roles.positions(form, plan.facts)
        over = turning(plan, form, addresses)
    if over is not None and squares(plan, *over, _width(plan, form.body)):
        return
    axis = along_rows(plan)
    if not axis:
        return
    width = _width(plan, form.body, axis)
    if stored_in_part(plan, axis, width) and computed_long(form.body):
        width = cost.NARROW_LANES
    if stored_in_part(plan, axis, width):
        plan.note(f"`{axis}` stays scalar: what is stored of its rows is no whole row of at most {cost.COLUMNS_IN_LANES} elements")
        return
    strip(plan, axis, width)
    asked_ahead(plan, axis, sorted({n.attr for n in reads(form.body) if n.attr in plan.facts.buffers and n.names >= set(form.axes)}))


def along_rows(plan: Plan) -> str:
    """The loops in the order of what is stored, and one where all operands are consecutive over all of them: the innermost ("" where they cannot be)."""
    form = roles.shape(plan.kernel)
    axis = along_stores(plan, form, roles.positions(form, plan.facts))
    order = (*(a for a in form.axes if a != axis), axis)
    if order != form.axes and plan.tried("reorder", *order):
        return ""
    # as they are written: what is one position only when simplified would be divided again
    if len(form.chain) > 1 and all(_identity(a, form, plan) for a in roles.accesses(form.body, plan.facts.buffers)) and not positions_as_data(form):
        for _ in form.chain[1:]:
            plan.do("collapse", *roles.shape(plan.kernel).axes[-2:])
        plan.note("all operands are consecutive over all axes: one long axis")
    return roles.shape(plan.kernel).axes[-1]


def _identity(address: Expr, form: roles.Shape, plan: Plan) -> bool:
    """Whether an address is the row-major position in the iteration domain."""
    expected = ZERO
    for loop in form.chain:
        expected = expected * loop.stop + var(loop.axis)
    same = same_position(address, expected) or same_position(simplify(address, plan.facts.known), simplify(expected, plan.facts.known))
    return same and all(loop.start is ZERO for loop in form.chain)


def strip(plan: Plan, axis: str, width: int, side_by_side: int = 1, lines: bool = True) -> None:
    """Vectors along a parallel loop, so many in an iteration, and a scalar tail."""
    extent = plan.extent(axis)
    if width < 2 or (extent is not None and extent < width):
        if (lanes := own_vector(plan.loop(axis).body, extent or 0, width)) and _last_lanes(plan, axis, lanes):
            plan.note(f"`{axis}` is one vector of {lanes}")
        return
    # what is read in pieces of a vector is read at places that are known only where the vectors begin at 0; a collapsed axis reads at (x // N)·N + x % N, which is x
    path, read = around(plan.kernel, axis), roles.accesses(plan.loop(axis).body, plan.facts.buffers)
    divided = any(taken_apart(simplify(a, inside_for(path, plan.facts.known, a)) if divides(a, [axis]) else a, axis) for a in read)
    # a piece that another piece follows begins where that ends, and is often short: where lines begin would be worked out for each
    piece = f"part {axis.removesuffix('.1')}" in plan.kernel.schedule
    if lines and not divided and not piece and (head := aligned(plan, axis)) is not None:
        _last_lanes(plan, head, width)
        (stored,) = {s.buffer for s in statements(plan.loop(axis).body) if isinstance(s, Store) and s.buffer in plan.facts.buffers}
        side_by_side = max(side_by_side, LINE // plan.facts.buffers[stored].dtype.bytes // width)  # whole lines
    elif lines and not divided and not piece and (head := shifted(plan, axis)) is not None:
        _last_lanes(plan, head, width)
    axis = _taken_in_turn(plan, axis, width)
    if not plan.has(axis):
        return
    if (most := plan.at_most(axis)) is not None and extent is None and most <= cost.FEW_VECTORS * width and _last_lanes(plan, axis, width):
        plan.note(f"vectors of {width} along `{axis}`")
        return
    if takes_turns(plan.loop(axis)):
        side_by_side = max(side_by_side, WAITING)
    plan.do("split", axis, width * side_by_side, tail="cut")
    with plan.attempt(f"`{axis}` stays scalar") as attempt:
        in_lanes(plan, f"{axis}.1")
    if not attempt.refused:
        plan.note(f"vectors of {width} along `{axis}`")
        _last_lanes(plan, f"{axis}.t", width)


def _taken_in_turn(plan: Plan, axis: str, width: int) -> str:
    """What a long chain of operations is made of, each part in a loop of its own over a strip of the axis.  The axis of what is left of it."""
    held, extent = candidates_to_hold(plan.loop(axis)), plan.extent(axis)
    if not held or (extent is not None and extent < cost.HELD):
        return axis
    strip = f"{axis}.1"
    with plan.attempt(f"`{axis}` computes its values in one go") as attempt:
        plan.do("split", axis, cost.HELD, tail="cut")
        for operator, which in held:
            before = plan.kernel
            plan.do("hold", strip, operator, which)
            plan.do("expand", plan.newest(before), strip)
        earlier = plan.kernel
        plan.do("fission", strip)
        for piece in (strip, *plan.added(earlier)):
            plan.do("split", piece, width, tail="perfect")
            plan.do("vectorize", f"{piece}.1")
    if attempt.refused:
        return axis
    plan.note(
        f"{', '.join(o for o, _ in reversed(held))} of {cost.HELD} elements along `{axis}` in loops of their own: together they are more than a core looks ahead"
    )
    return f"{axis}.t"


def _in_reduction(plan: Plan, axis: str) -> bool:
    """Whether the loop is all that a reduction around it holds: one piece, that one's lanes are folded once."""
    outer = around(plan.kernel, axis)[-2:-1]
    return any(isinstance(x, Loop) and x.kind == "reduce" and len(x.body) == 1 for x in outer)


def _last_lanes(plan: Plan, axis: str, width: int) -> bool:
    """What is left of an axis that was cut in vectors, less than one: a vector of which the first lanes are there, where one instruction stores them.  Whether it is one."""
    if not plan.has(axis) or not cost.first_lanes(plan.target) or chooses(plan.loop(axis)):
        return False
    with plan.attempt(f"`{axis}` stays scalar") as attempt:
        plan.do("split", axis, width, tail="pad")
        in_lanes(plan, f"{axis}.1")
    return not attempt.refused


# ---- rows


def _up_to_the_end(plan: Plan, axis: str, width: int) -> None:
    """Vectors along a loop whose positions are kept from running over an end: consecutive up to there, gathered where it is reached."""
    with plan.attempt(f"`{axis}` stays scalar") as attempt:
        plan.do("split", axis, width, tail="cut")
        earlier = plan.kernel
        plan.do("peel", f"{axis}.0", clamps=1)
        plan.do("vectorize", f"{axis}.1")
        added = plan.added(earlier)
        for x in [x for x in roles.innermost(plan.kernel.body) if x.axis in added]:
            plan.tried("vectorize", x.axis)
    if not attempt.refused:
        plan.note(f"vectors of {width} along `{axis}`, gathered only where an end is reached")


def vectors_along(plan: Plan, loop: Loop, side_by_side: int = cost.MOST_ACCUMULATORS, strips: int = 1, lines: bool = True) -> None:
    """Vectors along an innermost loop inside a row."""
    axis, width = loop.axis, _width(plan, loop.body, loop.axis)
    extent = plan.extent(axis)
    addresses = roles.along(plan.kernel, loop, plan.facts)
    if width < 2 or (extent is not None and extent < width):
        return
    if (rows := turns_over(plan, loop)) and turned(plan, rows, axis, cost.square(plan.target, width)):
        return
    if roles.units(addresses, axis) < roles.moving(addresses, axis) - sum(in_pieces(a, axis, width) for a in addresses):
        if loop.kind == "reduce" and (gathered(loop, addresses) or all(some_apart(a, axis) for a in addresses if axis in a.names)):
            _fold(plan, axis, width, side_by_side)
        elif loop.kind == "parallel" and extent is None:
            bared = [bare(a, axis) for a in addresses]
            if roles.units(bared, axis) == roles.moving(bared, axis):
                _up_to_the_end(plan, axis, width)
    elif loop.kind == "parallel":
        most = plan.at_most(axis)
        # what such a loop asks for of the next row is worked out once for several vectors (RMS norm of 4096² 1.15, layer norm of rows of 2048 in the second cache 1.1 to 1.2 times as fast)
        long = not _counted_by_data(plan, loop) if most is None else most * plan.target.vector_bytes > width * PAGE
        strip(plan, axis, width, strips if long else 1, lines)
    elif loop.kind == "reduce":
        if not plan.tried("search", axis, cost.SEARCHED):
            plan.note(f"`{axis}` looks for a first position, {cost.SEARCHED} at a time, up to where it is")
            axis = f"{axis}.1"
            width = _width(plan, plan.loop(axis).body, axis)
        _fold(plan, axis, width, side_by_side)


def _counted_by_data(plan: Plan, loop: Loop) -> bool:
    """Nobody knows then how long the loop is: as likely as not it has fewer vectors than stand side by side elsewhere."""
    data: set[str] = set()
    for s in statements(plan.kernel.body):
        if isinstance(s, Let) and (s.value.buffers or not data.isdisjoint(s.value.names)):
            data.add(s.name)
    return bool(loop.stop.buffers) or not data.isdisjoint(loop.stop.names)


def _fold(plan: Plan, axis: str, width: int, side_by_side: int) -> None:
    """Several vectors accumulate along a reduction; what is left over by one vector, of which only the first lanes are there, or (where no instruction loads these) by scalars."""
    saved = plan.kernel
    if (
        side_by_side > 1
        and cost.first_lanes(plan.target)
        and _in_reduction(plan, axis)
        and plan.at_most(axis) is None
        and not plan.tried("short", axis, width)
    ):
        plan.note(f"where `{axis}` has at most {width} elements, one vector accumulates")
        _fold(plan, f"{axis}.s", width, 1)
        saved = plan.kernel
    sums = [s for s in plan.loop(axis).body if isinstance(s, Store) and s.combiner]
    extent, most = plan.extent(axis), plan.at_most(axis)
    slow = roles.keeps_nan(plan.loop(axis))
    lanes = most_lanes = width * min(side_by_side, cost.accumulators(plan.target, [s.value.dtype for s in sums], width, slow, most))
    while extent is not None and extent < lanes:
        lanes //= 2
    short = extent is None and most is not None and cost.FEW_VECTORS * width < most <= 2 * lanes
    if extent is None and most is not None and most <= 2 * lanes:
        lanes = width  # a short loop: what several vectors save, putting them together costs
    try:
        masked = cost.first_lanes(plan.target) and not chooses(plan.loop(axis))
        inside = masked and _in_reduction(plan, axis)
        combining = ""
        while lanes >= width:
            plan.do("split", axis, lanes, tail="pad" if inside or (masked and lanes == width) else "cut")
            earlier = plan.kernel
            plan.do("rfactor", f"{axis}.1", skip="" if combining or lanes > width or inside or extent is not None else 1, into=combining)
            new = plan.added(earlier)
            combining = new[-1] if new else combining
            for name in (*new, f"{axis}.1"):
                plan.do("vectorize", name)
            if short and masked:
                plan.tried("peel", f"{axis}.0")  # whole vectors ask nothing
            plan.note(f"{lanes // width} vectors of {width} accumulate along `{axis}`")
            if not plan.has(f"{axis}.t"):
                return
            axis, lanes = f"{axis}.t", width if lanes > width else 0
    except StepError as e:
        plan.note(f"`{axis}` stays scalar: {e}")
        if lanes == most_lanes:
            plan.kernel = saved


# ---- one result


def chunks(plan: Plan, around: tuple[str, ...] = ()) -> list[Loop]:
    """Reductions that no parallel loop holds, inside these serial ones, are cut in pieces for the threads.  The innermost loops of all but the loops that combine the pieces."""

    def reductions() -> list[Loop]:
        block = plan.loop(around[-1]).body if around else plan.kernel.body
        return [s for s in block if isinstance(s, Loop) and s.kind == "reduce"]

    combining: set[str] = set()
    for axis in [x.axis for x in reductions()]:
        most = plan.at_most(axis)
        least = cost.PIECE if not all_loops(plan.loop(axis).body) else 1
        if most is not None and most <= least:
            continue
        earlier = plan.kernel
        refused = plan.tried("split_reduction", axis, cost.PIECES, least=least)
        plan.note(f"`{axis}` is one piece: {refused}" if refused else f"at most {cost.PIECES} pieces of `{axis}`, whatever the number of threads")
        combining |= {x.axis for x in reductions()} & {*plan.added(earlier)}
    return [x for x in roles.innermost(plan.kernel.body) if x.axis not in combining]


# ---- columns


def by_columns(plan: Plan) -> str | None:
    """The kept axis along which fewer vectors are gathered than along the innermost loops, or as many and more are consecutive; what only a row touches, once, is gathered at little cost."""
    form = roles.shape(plan.kernel)
    addresses = roles.seen_through(roles.positions(form, plan.facts), form.body)
    column = roles.vector_axis(form.axes, addresses)
    if column is None:
        return None
    folded = {x.axis for x in all_loops(form.body)}
    often = [a for a in addresses if a.names & folded]
    along = [(roles.seen_through(roles.along(plan.kernel, x, plan.facts), x.body), x.axis) for x in roles.innermost(form.body)]
    # elements some apart are in the same few lines, rows are not
    strided = sum(axis in e.names and not some_apart(e, axis) for a, axis in along for e in a)
    across = roles.moving(often, column) - roles.units(often, column)
    better = across < strided or (across == strided and roles.units(addresses, column) > sum(roles.units(a, axis) for a, axis in along))
    return column if better else None


def _column(plan: Plan, axis: str) -> bool:
    """The consecutive axis is kept: vectors of accumulators, the reduction outside of them.  False, and nothing done, where the nest has no such form."""
    form = roles.shape(plan.kernel)
    width = _width(plan, form.body, axis)
    extent = plan.extent(axis)
    once = len(roles.innermost(form.body)) == 1
    if width < 2 or (once and extent is not None and extent < width):
        return False
    with plan.attempt(f"`{axis}` is consecutive, but") as attempt:
        plan.ordered(axis)
        axis = longest(plan, axis)
        for x in roles.innermost(roles.shape(plan.kernel).body):
            longest(plan, x.axis, near=False)
        extent, form = plan.extent(axis), roles.shape(plan.kernel)
        columns = cost.columns(plan.target, [s.buffer.dtype for s in form.body if isinstance(s, Alloc)], shared=len(form.axes) == 1)
        if once and (extent is None or extent > columns):
            if extent is None and cost.first_lanes(plan.target):
                in_registers(plan, axis, width)
            plan.do("split", axis, columns)
            for piece in expanded(plan, f"{axis}.1"):
                _rows(plan, piece, width)
            plan.note(f"rows are read {columns} columns at a time along the kept axis `{axis}`: a page or more of memory in order")
            plan.do("parallel", form.axes[0] if len(form.axes) > 1 else f"{axis}.0")
            return True
        if not once and extent is not None and extent < width:
            raise StepError(f"`{axis}` is less than a vector")
        factor = width * cost.ACCUMULATORS
        if once and extent is not None and extent <= factor and cost.first_lanes(plan.target):
            strips(plan, axis, width << (-(-extent // width) - 1).bit_length(), pad=True)
        else:
            while extent is not None and extent < factor:
                factor //= 2
            _blocks(plan, axis, factor, width)
    if attempt.refused:
        return False
    if not once and (outer := roles.shape(plan.kernel).axes):
        plan.tried("fission", *outer)
    for s in [s for s in plan.kernel.body if isinstance(s, Loop) and s.kind == "parallel"]:
        inner, _ = perfect((s,), lambda x: x.kind == "parallel")
        plan.do("parallel", s.axis if once else plan.collapsed([x.axis for x in inner]))
    return True


def _blocks(plan: Plan, axis: str, factor: int, width: int) -> None:
    """Vectors of accumulators along a kept axis; what is left by so many that one of them holds it: each goes through memory once more."""
    if not cost.first_lanes(plan.target) or factor == width:
        return strips(plan, axis, factor, *([width] if factor > width else []), pad=cost.first_lanes(plan.target))
    extent = plan.extent(axis)
    strips(plan, axis, factor)
    if not plan.has(rest := f"{axis}.t"):
        return None
    if extent is not None:
        return strips(plan, rest, min(n for n in halves(factor, width) if n >= extent % factor), pad=True)
    return padded(plan, [(rest, factor), *shorter(plan, rest, halves(factor // 2, width))])


def _asked_ahead(plan: Plan, buffer: str, axis: str, row: str, width: int) -> None:
    """What rows side by side read comes from memory before: short rows one after the other, long ones each a little ahead."""
    far = {"least": cost.streams(plan.target).least, "cache": cost.NEXT_ROW_CACHE}
    earlier = plan.kernel
    if not plan.tried("prefetch_block", buffer, axis, row, most=cost.BLOCK_AHEAD, **far):
        loops = [x for x in plan.added(earlier) if plan.loop(x).kind not in ("unroll", "vector")]
        if not loops:
            return
        axis = loops[0]  # the same for long rows
    trips = cost.SIDE_AHEAD // (width * plan.facts.buffers[buffer].dtype.bytes)
    plan.tried("prefetch", buffer, axis, axis, trips=max(1, trips), **far)


def _rows(plan: Plan, axis: str, width: int) -> None:
    """Vectors along `axis`; where a reduction runs around it, several of its rows at once: so many streams of memory, and accumulators that are loaded once for all."""
    streams = cost.streams(plan.target)
    path = around(plan.kernel, axis)
    outer = path[-2] if len(path) > 1 else None
    if not isinstance(outer, Loop) or outer.kind != "reduce" or len(outer.body) != 1 or (plan.extent(outer.axis) or streams.rows) < streams.rows:
        strip(plan, axis, width)
        return
    row = outer.axis
    plan.do("split", row, streams.rows, tail="cut")
    plan.do("reorder", axis, f"{row}.1")
    plan.do("split", axis, width, tail="cut")
    plan.do("reorder", f"{row}.1", f"{axis}.1")
    plan.do("unroll", f"{row}.1")
    plan.do("vectorize", f"{axis}.1")
    for n in reads(plan.loop(f"{axis}.0").body) if streams.least else ():
        if n.attr in plan.facts.buffers and {f"{row}.1", f"{axis}.1"} <= n.names:
            _asked_ahead(plan, n.attr, f"{axis}.0", f"{row}.0", width)
    rest = find(plan.kernel, f"{row}.t").body if plan.has(f"{row}.t") else ()
    for s in rest:
        if isinstance(s, Loop):
            strip(plan, s.axis, width)
