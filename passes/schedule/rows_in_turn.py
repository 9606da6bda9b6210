"""Rows that come from memory and go back there: the passes over a row run side by side, each on a row of its own (`pipelines.py`)."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr, both, const
from ...ir.kernel import If, Kernel, Loop, statements, written
from ...ir.record import replace
from ...ir.simplify import simplify
from . import cost, roles
from .affine import upper
from .plan import Plan
from .traffic import streamed, threads
from .tree import StepError, all_loops, reads
from .vectors import by_columns, tabulated, vectors_inside


def in_turn(plan: Plan) -> tuple[Expr | None, Kernel] | None:
    """The kernel with its passes side by side, and the condition on the sizes under which that pays; None where it never does."""
    condition = _long(plan)
    if condition is None:
        return None
    part = Plan(plan.kernel, replace(plan.facts, assumed=condition), plan.target, plan.options)
    try:
        _side_by_side(part)
    except StepError as e:
        plan.note(f"passes over a row one after the other: {e}")
        return None
    plan.note(*part.notes)
    return condition, part.kernel


def _long(plan: Plan) -> Expr | None:
    form = roles.shape(plan.kernel)
    least = cost.stream_bytes(plan.target)
    if not plan.alone or not least or not cost.first_lanes(plan.target) or not form.chain or form.chain[-1].start is not ZERO or by_columns(plan):
        return None
    stored = sorted(written(form.body) & plan.facts.buffers.keys())
    if len(stored) != 1:
        return None
    held = plan.facts.buffers[stored[0]]
    bounds = [const(least).le(held.elements * held.dtype.bytes)]
    bounds += [s.condition for s in form.body if isinstance(s, If)]
    found = simplify(both(*reversed(bounds)), plan.facts.known)
    return None if found.is_const and not found.attr else found


def _side_by_side(plan: Plan) -> None:
    plan.do("decide")
    tabulated(plan)
    form = roles.shape(plan.kernel)
    row = form.axes[-1]
    loops = [s for s in form.body if isinstance(s, Loop)]
    if len(loops) < 2 or any(x.start is not ZERO or x.step is not ONE or all_loops(x.body) for x in loops):
        raise StepError("not every loop of a row is a pass over it")
    first = next((b for n in reads((loops[0],)) if (b := n.attr) in plan.facts.buffers), "")
    vectors_inside(plan, side_by_side=cost.ACCUMULATORS, strips=cost.ACCUMULATORS)
    if any(x.kind not in ("vector", "unroll") for x in roles.innermost(plan.loop(row).body)):
        raise StepError("a loop of a row stays scalar")
    plan.do("split", row, cost.ROWS_IN_TURN)
    if first:
        plan.tried("prefetch", first, f"{loops[0].axis}.0", f"{row}.1", places=cost.PLACES_IN_TURN, cache=cost.NEXT_ROW_CACHE)
    plan.do("pipeline", f"{row}.1", *(f"{x.axis}.0" for x in loops))
    threads(plan)
    streamed(plan)
    plan.note(f"the passes over `{row}` side by side, each on a row of its own, {cost.ROWS_IN_TURN} rows a block")
