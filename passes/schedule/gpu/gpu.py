"""The plan for a GPU: kept axes to the grid, and what stands inside of them to the threads of a block.

    reuse in two directions       a block computes a tile of the result, its threads pieces in registers (`gpu_tiles.py`)
    loops inside, along memory    a block works on one row: its threads take neighbouring positions and put their sums together (`cooperate`)
    loops inside, across memory   32 threads beside one another over the last kept axis, and eight such lines of threads share what is inside
    anything else                 all kept axes are one axis, 256 consecutive positions a block

How many threads share a row goes by its length: by one variant each, which the entry chooses where the length is not known.  All blocks lie along `block.x`,
whose extent is limited by 2^31 only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, const, maximum, mod, product, var
from ....ir.kernel import Let, Loop, statements
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.text.expressions import show_expr
from ....ir.walks import leaves, substitute
from .. import cost, roles
from ..affine import constant_extent, extent, upper
from ..plan import Plan
from ..steps import variants
from ..tree import StepError, all_loops, fresh, names_taken, reads
from . import gpu_cascade, gpu_matrix, gpu_tiles

SHARED = ("parallel", "reduce")


def grid(plan: Plan) -> None:
    form = roles.shape(plan.kernel)
    if not form.chain:
        with plan.attempt("no parallel axis on the outside: one thread"):
            _one_block(plan)
            plan.note("no parallel axis on the outside: one block")
        return
    if _first(plan, [gpu_cascade.cascade]):
        return
    for length, arrays in gpu_cascade.sums(plan.kernel).items():
        if reason := plan.tried("portion", gpu_cascade.SIDE, *arrays):  # no thread has an array whose length is a size
            plan.note(f"not by portions of {show_expr(length)}: {reason}")
    found = roles.contraction(plan.kernel, plan.facts)
    inner = any(isinstance(s, Loop) for s in form.body)
    attempts: list[Callable[[Plan], Parts]] = [] if plan.options.level < 2 else [_cooperating] if inner else [_turned, _few_each]
    if found is not None and found.rows:
        attempts = [_tiles, *attempts, _cells] if plan.options.level >= 2 else [_cells]
    if not _first(plan, attempts):
        _apart(plan)


def _first(plan: Plan, attempts: Sequence[Callable[[Plan], Parts]]) -> bool:
    """The first of some plans that can be carried out."""
    for attempt in attempts:
        part = plan.another()
        with plan.attempt(f"not {attempt.__name__.strip('_')}"):
            parts = attempt(part)
            if not parts:
                continue
            _choose(part, parts)
            plan.take(part)
            return True
    return False


def _one_block(plan: Plan) -> None:
    """All of a kernel that has no parallel axis on the outside by as many threads as a block has."""
    if plan.options.level < 2:
        raise StepError("they share what is inside at -O2")
    axis = fresh("all", names_taken(plan.kernel))
    plan.do("whole", axis)
    plan.do("bind", axis, "block.x")
    plan.do("cooperate", axis, plan.target.max_threads)


Parts = Sequence[tuple[Expr | None, Callable[[Plan], None]]]  # the condition on the sizes for each schedule but the last


def _choose(plan: Plan, parts: Parts) -> None:
    """One variant for each condition that may hold, the last for where no other does."""
    made: list[tuple[Expr | None, Plan]] = []
    for condition, schedule in parts:
        asked = None if condition is None else simplify(condition, plan.facts.known)
        if asked is FALSE:
            continue
        part = plan.another()
        schedule(part)
        made.append((None if asked is TRUE else asked, part))
        if asked is TRUE:
            break
    kernels = [(c, replace(part.kernel, notes=plan.kernel.notes)) for c, part in made]
    plan.kernel = variants.choose(plan.kernel, kernels) if len(kernels) > 1 else kernels[0][1]
    plan.note(*dict.fromkeys(note for _, part in made for note in part.notes))


def _tiles(plan: Plan) -> Parts:
    """A contraction by tiles; by smaller ones where the others would leave processors without work, and by rows where there are few."""
    found = roles.contraction(plan.kernel, plan.facts)
    assert found is not None
    form = roles.shape(plan.kernel)
    extents = {x.axis: extent(x) for x in form.chain}
    if any(not e.names <= plan.facts.sizes.keys() or e.buffers for e in extents.values()):
        raise StepError("the extents are not those of sizes")
    few = product([extents[a] for a in found.rows]).lt(cost.FEW_ROWS + 1)
    by_warps = gpu_matrix.fits(plan, found)
    shapes: Sequence[gpu_tiles.Shape] = (
        gpu_matrix.shapes(plan) if by_warps else gpu_tiles.SHAPES if found.accumulator.dtype.bytes <= 4 else gpu_tiles.SHAPES[:1]
    )

    def of_shapes(shapes: Sequence[gpu_tiles.Shape], where: Expr | None) -> Parts:
        parts: list[tuple[Expr | None, Callable[[Plan], None]]] = []
        for shape, larger in zip(shapes, (*shapes[1:], None), strict=True):
            little = None
            if larger is not None:  # whose tiles would leave processors without work, or be half empty
                little = product(list(extents.values())).lt(plan.target.cores * larger.each * larger.rows * larger.columns)
                for axis, side in ((found.rows[-1], larger.rows), (found.column, larger.columns)):
                    little = call("bit_or", little, extents[axis].lt(side // 2 + 1))
            parts.append((both(where, little), lambda part, shape=shape: _tile(part, found, shape, by_warps)))
        return parts

    uneven = _uneven(plan, found) if by_warps and plan.target.copies_ahead else None
    few_rows = [(both(few, c), schedule) for c, schedule in _cooperating(plan, found.column_operands)]
    return [*few_rows, *(of_shapes(gpu_matrix.UNEVEN, uneven) if uneven is not None else ()), *of_shapes(shapes, None)]


def _uneven(plan: Plan, found: roles.Contraction) -> Expr | None:
    """Whether rows of operands begin at no multiple of what is copied at once; None where none do."""
    steps = dict.fromkeys(e for b in (*found.row_operands, *found.column_operands) for e in plan.facts.buffers[b].steps if e is not ONE)
    asked = [
        ZERO.lt(mod(e, const(gpu_tiles.AT_ONCE))) for e in steps if e.op != "mul" or steps.keys().isdisjoint(e.args)
    ]  # others are multiples of these
    return reduce(lambda a, b: call("bit_or", a, b), asked) if asked else None


def _tile(plan: Plan, found: roles.Contraction, shape: gpu_tiles.Shape, by_warps: bool) -> None:
    """By tensor cores where the target's do what is done here."""
    if by_warps:
        part = plan.another()
        with plan.attempt("not by tensor cores"):
            gpu_matrix.tile(part, found, shape)
            plan.take(part)
            return
    gpu_tiles.tile(plan, found, next(s for s in reversed(gpu_tiles.SHAPES) if s.rows <= shape.rows and s.columns <= shape.columns))


def _turned(plan: Plan) -> Parts:
    """What lies along another axis than the result goes through shared memory, square by square; nothing where all lies alike."""
    form = roles.shape(plan.kernel)
    stored = roles.stored(form, plan.facts)
    column = roles.vector_axis(form.axes, stored)
    buffers = {b: plan.facts.buffers[b] for b in dict.fromkeys(n.attr for n in reads(form.body)) if b in plan.facts.buffers}
    across: dict[str, str] = {}
    for b in buffers:
        found = roles.accesses(form.body, {b: buffers[b]})
        row = roles.vector_axis(form.axes, found)
        if row is not None and row != column and roles.units(found, column or "") == 0 and roles.moving(found, column or "") > 0:
            across[b] = row
    if column is None or len(set(across.values())) != 1:
        return []
    row = next(iter(across.values()))
    extents = {x.axis: extent(x) for x in form.chain}
    narrow = call("bit_or", *(extents[axis].lt(cost.ALONE + 1) for axis in (row, column)))
    if not narrow.names <= plan.facts.sizes.keys() or narrow.buffers:
        return []

    def schedule(part: Plan) -> None:
        outer = part.ordered(row, column)
        tiles: list[str] = []
        for axis in (row, column):
            before = part.kernel
            part.do("split", axis, cost.TURN_SIDE, tail="pad")
            tiles += part.added(before)
        part.do("reorder", *outer, tiles[0], tiles[2], tiles[1], tiles[3])
        for b in across:
            part.do("stage", b, tiles[3], tiles[1], at=tiles[2], space="shared", spare=1)
        block = part.collapsed([*outer, tiles[0], tiles[2]])
        part.do("bind", block, "block.x")
        part.do("cooperate", block, cost.THREADS)
        for s in all_loops(part.kernel):
            length = constant_extent(s)
            if s.kind == "serial" and s.step is ONE and length is not None and length <= gpu_tiles.UNROLLED:
                part.do("unroll", s.axis)
        part.note(f"{', '.join(across)} lies along `{row}`, the result along `{column}`: squares of {cost.TURN_SIDE} through shared memory")

    return [(narrow, _apart), (None, schedule)]


def _cells(plan: Plan) -> Parts:
    """A thread for each element of a contraction's result."""
    return [(None, _each_cell)]


def _each_cell(plan: Plan) -> None:
    found = roles.contraction(plan.kernel, plan.facts)
    assert found is not None
    row, column = found.rows[-1], found.column
    others = plan.ordered(row, column)
    plan.do("tile", row, column, cost.TILE, cost.TILE)
    plan.do("bind", f"{row}.1", "thread.y")
    plan.do("bind", f"{column}.1", "thread.x")
    plan.note(f"reuse along `{row}` and `{column}`: blocks of {cost.TILE}×{cost.TILE} threads")
    outer = (*others, f"{row}.0", f"{column}.0")
    plan.do("bind", _one(plan, outer), "block.x")


def _few_each(plan: Plan) -> Parts:
    """Four positions for each thread, a block's width from one another: as many reads are on their way at once."""

    def schedule(part: Plan) -> None:
        axis = _one(part, roles.shape(part.kernel).axes)
        before = part.kernel
        part.do("split", axis, cost.EACH * cost.THREADS, tail="pad")
        block, inner = part.added(before)
        before = part.kernel
        part.do("split", inner, cost.THREADS)
        turn, thread = part.added(before)
        part.do("reorder", block, thread, turn)
        part.do("bind", thread, "thread.x")
        part.do("bind", block, "block.x")
        part.do("unroll", turn)
        part.note(f"{cost.EACH} times {cost.THREADS} consecutive positions a block")

    return [(None, schedule)]


def _apart(plan: Plan) -> None:
    """A thread for each position of the kept axes."""
    axis = _one(plan, roles.shape(plan.kernel).axes)
    plan.do("split", axis, cost.THREADS)
    plan.do("bind", f"{axis}.1", "thread.x")
    plan.do("bind", f"{axis}.0", "block.x")
    plan.note(f"{cost.THREADS} consecutive positions a block")


def _length(form: roles.Shape, names: Sequence[Let]) -> Expr | None:
    """Iterations of the longest outermost loop among those that threads can share; None where there is none, or where data decides.  `names`: what the kernel names around the form."""
    found: list[Expr] = []

    def walk(block: Sequence[object]) -> None:
        for s in block:
            if isinstance(s, Loop) and s.kind in SHARED:
                found.append(extent(s))
            elif isinstance(s, Loop):
                walk(s.body)

    walk(form.body)
    outer = {var(s.axis): ZERO for s in (*form.chain, *(s for s in statements(form.body) if isinstance(s, Loop)))}
    for s in names:
        outer[var(s.name, s.value.dtype)] = substitute(s.value, outer)
    lengths = list(dict.fromkeys(substitute(e, outer) for e in found))
    if not lengths or any(e.buffers or leaves(e, "var") for e in lengths):
        return None
    result = lengths[0]
    for e in lengths[1:]:
        result = maximum(result, e)
    return result


def _cooperating(plan: Plan, most_read: Sequence[str] = ()) -> Parts:
    """What is inside the kept axes shared by threads: so many for each class of lengths; StepError where there is nothing to share.  `most_read`: the buffers to go by; all where none is named."""
    form = roles.shape(plan.kernel)
    length = _length(form, [s for s in plan.kernel.body if isinstance(s, Let)])
    if length is None:
        raise StepError("no loop inside is as long as sizes say")

    def rows(threads: int, most: int | None) -> Callable[[Plan], None]:
        def schedule(part: Plan) -> None:
            axis = _one(part, form.axes)
            part.do("bind", axis, "block.x")
            part.do("cooperate", axis, threads)
            part.note(f"{threads} threads share each of `{', '.join(form.axes)}`" + (f" where it has at most {most} elements" if most else ""))

        return schedule

    short = (length.lt(cost.ALONE + 1), _apart)
    if _across(plan, form, most_read):
        # a line of threads across memory is as fast for any length from a few on
        return [short, (None, _lines)]
    return [short, (length.lt(cost.WARP_ROW + 1), rows(cost.WARP, cost.WARP_ROW)), (None, rows(_threads(plan, form), None))]


def _threads(plan: Plan, form: roles.Shape) -> int:
    """How many share a long row: each has so much to reduce that putting the sums together costs little beside it."""
    most = [upper(extent(s), plan.facts.known) for s in statements(form.body) if isinstance(s, Loop) and s.kind == "reduce"]
    shortest = min((n for n in most if n is not None), default=None)
    result = cost.ROW_THREADS
    while shortest is not None and result > cost.WARP and shortest < result * cost.ROW_WORK:
        result //= 2
    return result


def _across(plan: Plan, form: roles.Shape, most_read: Sequence[str]) -> bool:
    """Whether neighbours along the last kept axis lie side by side in more of what the loops inside read than neighbours along these loops do."""
    if plan.extent(form.axes[-1]) is not None and (plan.extent(form.axes[-1]) or 0) < cost.WARP:
        return False
    inner = [s for s in statements(form.body) if isinstance(s, Loop)]
    buffers = {b: plan.facts.buffers[b] for b in most_read} or plan.facts.buffers
    found = [a for s in inner if s.kind in SHARED for a in roles.accesses(s.body, buffers)]
    return roles.units(found, form.axes[-1]) > max(roles.units(found, s.axis) for s in inner)


def _lines(plan: Plan) -> None:
    """32 neighbours along the last kept axis, and as many threads for each as there are lines."""
    axes = roles.shape(plan.kernel).axes
    column = axes[-1]
    plan.do("split", column, cost.WARP)
    plan.do("bind", f"{column}.1", "thread.x")
    plan.do("bind", _one(plan, (*axes[:-1], f"{column}.0")), "block.x")
    plan.do("cooperate", f"{column}.1", cost.LINES)
    plan.note(f"{cost.WARP} neighbours along `{column}` a block, {cost.LINES} threads share each")


def _one(plan: Plan, axes: tuple[str, ...]) -> str:
    """The axes collapsed into one."""
    for _ in axes[1:]:
        plan.do("collapse", *roles.shape(plan.kernel).axes[:2])
    return roles.shape(plan.kernel).axes[0]
