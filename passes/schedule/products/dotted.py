"""The plan for contractions of few rows whose columns are consecutive along the reduction (x Wᵀ, as layers with W[out, in] have it): nothing is copied, tiles of sums in lanes.

    for j.0 parallel                                          4 columns, whose memory is read once (where there are more rows, a block of the reduction of them, which stays in the first cache)
      for i.0                                                 4 rows at a time, which stay in the caches
        lanes[0 .. 4, 0 .. 4, 0 .. 16] = 0
        for p.0 reduce:
          for i.1 unroll: for j.1 unroll:
            lanes[i.1, j.1, 0 .. 16] add= X[4·i.0 + i.1, p.0 · 16 + 0 .. 16] * W[4·j.0 + j.1, p.0 · 16 + 0 .. 16]
        sums of the lanes, folded side by side

Packing W so that vectors lie along columns would move it twice more through memory, for few products an element.

Few columns (a matrix times one vector, or a few, whose number is known at run time only) are the same with the parts exchanged: the rows of X lie along the reduction, and the columns do too or are turned over once.

    for i.0 parallel: …              B.turned[j, p] = B[p, j]
      acc += A[i, p] * B[p, j]   →   for i.0 parallel: … lanes[j.1, i.1, 0 .. 16] add= A[4·i.0 + i.1, p.0 · 16 + 0 .. 16] * B.turned[j, p.0 · 16 + 0 .. 16]
"""

from __future__ import annotations

from ....ir.expr import TRUE, ZERO, Expr, both, call, const, mod
from ....ir.instructions import Dot
from ....ir.kernel import Block, Loop
from ....ir.record import replace
from ....ir.simplify import simplify
from .. import cost, roles
from ..affine import step_within, stride
from ..plan import Plan
from ..roles import Contraction
from ..rows.side_by_side import summed
from ..steps.dots import Factor, factors
from ..tree import all_loops, find, reads
from .direct import far, in_place, tried_where


def dotted(plan: Plan, found: Contraction, blocks: bool, most: int = cost.DOTTED_ROWS) -> Expr | None:
    """Schedule such a contraction of at most so many rows: the condition on the sizes; None (and an unchanged plan) where it is none.  With `blocks` of the reduction, columns stay in the first cache for more rows."""
    width = _along(plan, found)
    if not width:
        return None
    (row,), (deep,) = found.rows, found.reduced
    condition = plan.loop(row).stop.le(const(cost.rows_dotted(plan.target, found.accumulator.dtype.bytes) if blocks else most))
    held = ", a block of it in the first cache" if blocks else ""
    reason = f"few rows: columns are read along the reduction as they lie, {cost.rows_together(plan.target)} at a time{held}"
    return tried_where(plan, condition, reason, lambda: tiles_in_lanes(plan, found, row, deep, width, blocks))


def any_rows(plan: Plan, found: Contraction) -> bool:
    """Schedule such a contraction of however many rows, of which threads share blocks; False (and an unchanged plan) where it is none, or registers hold no tiles of four rows: with two, as much is loaded as without tiles."""
    width = _along(plan, found)
    if not width or cost.rows_together(plan.target) != cost.ACCUMULATORS:
        return False
    (row,), (deep,) = found.rows, found.reduced
    with plan.attempt() as attempt:
        plan.do("split", row, cost.DOTTED_TILES)
        tiles_in_lanes(plan, found, f"{row}.1", deep, width, False)
    return not attempt.refused


def _along(plan: Plan, found: Contraction) -> int:
    """The lanes of vectors along the reduction, where all that moves with it is consecutive; else 0."""
    nest = find(plan.kernel, found.reduced[-1])
    width = cost.lanes(plan.target, roles.widest(nest.body))
    if len(found.rows) != 1 or len(found.reduced) != 1 or width < 2 or not cost.first_lanes(plan.target):
        return 0
    addresses = [a for a in roles.accesses(nest.body, plan.facts.buffers) if nest.axis in a.names]
    moving = [step for a in addresses if (step := step_within(a, nest, width, plan.facts.known)) != 0]
    return width if moving and all(step == 1 for step in moving) else 0


def dotted_words(plan: Plan, found: Contraction, dot: Dot, most: int) -> Expr | None:
    """The same of at most so many rows with an instruction that multiplies neighbours along the reduction, where that is whole vectors of words: a product of these is one vector of sums.

    for p.0 reduce: lanes[i.1, j.1, 0 .. 16] = ins.dot4_u8_i8(lanes[…], words of X[4·i.0 + i.1, 64·p.0 …], words of W[4·j.0 + j.1, 64·p.0 …])
    """
    if len(found.rows) != 1 or len(found.reduced) != 1 or not cost.first_lanes(plan.target):
        return None
    (row,), (deep,) = found.rows, found.reduced
    lanes = plan.target.lanes(dot.result)
    addresses = roles.accesses(find(plan.kernel, deep).body, plan.facts.buffers)
    if any(stride(a, deep) != 1 for a in addresses if deep in a.names):
        return None
    rows, depth = plan.loop(row).stop, plan.loop(deep).stop
    whole = mod(depth, const(lanes * dot.neighbours)).eq(ZERO)
    condition = both(rows.le(const(most)), simplify(whole, plan.facts.known)) or TRUE
    facts, plan.facts = plan.facts, replace(plan.facts, assumed=None if condition is TRUE else condition)

    def steps() -> None:
        plan.do("decide")
        sums = signs(plan, dot, row, deep)
        plan.do("dot", deep, dot.name)
        tiles_in_lanes(plan, found, row, deep, lanes, False, clamped=True)
        in_vectors(plan, sums)  # now that all copies of what is reduced have names

    reason = f"few rows: columns are read along the reduction as they lie, {dot.neighbours} neighbours at a time multiplied by {dot.name}"
    done = tried_where(plan, condition, reason, steps)
    plan.facts = facts
    return done


def signs(plan: Plan, dot: Dot, row: str, deep: str) -> list[str]:
    """Where both operands have a sign and the instruction wants one without, the column operand is moved; what that adds depends on the row, and is the sums along these axes.  So are zeros taken out of the sum."""
    _, _, *sides = factors(plan.kernel, deep, zeros=True)
    added: list[str] = []

    def offset(moved: Factor) -> None:
        earlier = plan.kernel
        plan.do("offset", deep, min(moved.element.buffers))
        added.extend(plan.added(earlier)[-1:])

    for f in sides:
        if f.zero is not None:
            offset(f)
    _, _, a, b = factors(plan.kernel, deep)
    if a.dtype is b.dtype and dot.left is not dot.right:
        row_side = [f for f in (a, b) if row in f.element.names]
        offset(b if row_side and row_side[0] is a else a)
    return added


def in_vectors(plan: Plan, axes: list[str]) -> None:
    from ..rows.vectors import vectors_inside

    vectors_inside(plan, [plan.loop(x) for x in axes])


def turned(plan: Plan, found: Contraction, dot: Dot | None = None, tiles: bool = False) -> Expr | None:
    """Schedule a contraction of few columns, whose rows lie along the reduction: the condition on the sizes; None (and an unchanged plan) where it is none.  Columns that lie along it too need no turning.

    With an instruction that multiplies neighbours, where the reduction is whole vectors of words; `tiles`: another multiplies them in tiles."""
    width = cost.lanes(plan.target, roles.widest(find(plan.kernel, found.reduced[-1]).body)) if dot is None else plan.target.lanes(dot.result)
    if len(found.rows) != 1 or len(found.reduced) != 1 or len(found.column_operands) != 1 or plan.extent(found.column) is not None:
        return None
    other = roles.contraction(plan.kernel, plan.facts, found.rows[0])
    if other is None or other.batch != found.batch or other.rows != (found.column,) or width < 2 or not cost.first_lanes(plan.target):
        return None
    (deep,), (row,), (buffer,) = other.reduced, other.rows, found.column_operands
    across = [b for b, a in _reading(plan, find(plan.kernel, deep).body) if deep in a.names and stride(a, deep) != 1]
    if across and (found.batch or set(across) != {buffer} or not in_place(plan, found)):
        return None
    count, depth, rows = (plan.loop(axis).stop for axis in (row, deep, found.rows[0]))
    most = cost.TURNED_TILES if tiles else cost.TURNED_WORDS if across and dot is not None else cost.TURNED_COLUMNS
    limits = ((count, const(most)), (const(cost.TURNED_DEPTH), depth), (count * cost.TURNED_ROWS, rows))
    narrow = cost.turned_columns(plan.target, width)
    beside = TRUE if dot is not None or not across or narrow >= most else call("bit_or", count.le(const(narrow)), far(plan, found))
    whole = TRUE if dot is None else mod(depth, const(width * dot.neighbours)).eq(ZERO)
    few = simplify(both(*(a.le(b) for a, b in limits), whole, beside) or TRUE, plan.facts.known)
    facts = plan.facts
    if dot is not None:
        plan.facts = replace(facts, assumed=None if few is TRUE else few)

    def steps() -> None:
        if dot is not None:
            plan.do("decide")
        if across:
            earlier = plan.kernel
            plan.do("stage", buffer, row, deep, space="shared", order=f"{deep},{row}", plain="" if dot is None else 1)
            for axis in plan.added(earlier):
                plan.do("serial", axis)
        sums: list[str] = []
        if dot is not None:
            sums = signs(plan, dot, row, deep)
            plan.do("dot", deep, dot.name)
        tiles_in_lanes(plan, other, row, deep, width, False, few=True, clamped=True)
        in_vectors(plan, sums)

    reason = "they are turned over, and rows" if across else "they and the rows"
    done = tried_where(plan, few, f"few columns: {reason} are read along the reduction as they lie", steps)
    plan.facts = facts
    return done


def _reading(plan: Plan, body: Block) -> list[tuple[str, Expr]]:
    """The buffers that a body reads, and where."""
    return [(n.attr, plan.facts.buffers[n.attr].address(n.args)) for n in reads(body) if n.attr in plan.facts.buffers]


def tiles_in_lanes(
    plan: Plan, found: Contraction, row: str, deep: str, width: int, blocks: bool, few: bool = False, clamped: bool = False, narrow: bool = False
) -> None:
    """`few`: few tiles for few rows; `clamped`: the last columns again in place of a rest; `narrow`: a vector reads so few bytes that some turns ahead are in the same line."""
    column, many = found.column, cost.rows_together(plan.target)
    batch = plan.collapsed(plan.ordered(column, row))
    length, outer = plan.extent(deep), ()
    if blocks and (length is None or length > cost.DOTTED_DEPTH):
        plan.do("split", deep, cost.DOTTED_DEPTH)
        plan.do("accumulate", f"{deep}.0", into=found.output, outside=row)
        outer, deep = (f"{deep}.0",), f"{deep}.1"
    plan.do("split", column, many, tail="clamp" if clamped else "cut")
    plan.do("reorder", *outer, row, f"{column}.1")
    left, sums = row, []
    for rows in (2, 1) if few else (many, 1) if blocks else (many, many // 2, 1):  # what one tile leaves, the next takes
        if plan.has(left):
            inner = left
            if rows > 1:
                plan.do("split", left, rows, tail="cut")
                inner = f"{left}.1"
            (columns,) = (x for x in plan.loop(inner).body if isinstance(x, Loop))
            along = next(x.axis for x in all_loops(columns.body) if x.kind == "reduce")
            sums.append(((inner, columns.axis) if rows > 1 else (columns.axis,), along))
            left = f"{left}.t"
    for rows, along in sums:
        summed(plan, rows, along, width)
    if plan.has(f"{column}.t"):
        from ..rows.vectors import vectors_inside

        vectors_inside(plan, [x for x in roles.innermost(plan.loop(f"{column}.t").body) if x.kind == "reduce"])
    for buffer in () if blocks else found.column_operands:
        for _, along in sums:
            plan.tried("prefetch", buffer, f"{along}.0", f"{along}.0", **({"near": cost.NEAR} if narrow else {"trips": cost.TURNS_AHEAD}))
    rest, loops = f"{column}.t", (f"{column}.0",)
    if batch:
        if plan.has(rest):
            known = {x.axis for x in all_loops(plan.kernel)}
            plan.do("fission", batch)
            plan.do("parallel", next(x.axis for x in all_loops(plan.kernel) if x.axis not in known))
        loops = (batch, *loops)
    elif plan.has(rest):
        plan.do("serial", rest)
    plan.do("parallel", plan.collapsed(loops))
