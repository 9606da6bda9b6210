"""The plan for a GPU: every kept axis to the grid, reductions serial in each thread.

With reuse in two directions, a block is 16×16 threads over a row and a column axis, so that what the block reads is shared in the cache; otherwise all kept
axes are one axis, 256 consecutive positions a block.  All blocks lie along `block.x`, whose extent is limited by 2^31 only.
"""

from __future__ import annotations

from . import cost, roles
from .plan import Plan


def grid(plan: Plan) -> None:
    form = roles.shape(plan.kernel)
    if not form.chain:
        plan.note("no parallel axis on the outside: one thread")
        return
    found = roles.contraction(plan.kernel, plan.facts)
    if found is not None and found.rows:
        row, column = found.rows[-1], found.column
        order = (*(a for a in form.axes if a not in (row, column)), row, column)
        if order != form.axes:
            plan.do("reorder", *order)
        plan.do("tile", row, column, cost.TILE, cost.TILE)
        plan.do("bind", f"{row}.1", "thread.y")
        plan.do("bind", f"{column}.1", "thread.x")
        plan.note(f"reuse along `{row}` and `{column}`: blocks of {cost.TILE}×{cost.TILE} threads")
        outer = (*order[:-2], f"{row}.0", f"{column}.0")
        plan.do("bind", _one(plan, outer), "block.x")
        return
    axis = _one(plan, form.axes)
    plan.do("split", axis, cost.THREADS)
    plan.do("bind", f"{axis}.1", "thread.x")
    plan.do("bind", f"{axis}.0", "block.x")
    plan.note(f"{cost.THREADS} consecutive positions a block")


def _one(plan: Plan, axes: tuple[str, ...]) -> str:
    """The axes collapsed into one."""
    for _ in axes[1:]:
        plan.do("collapse", *roles.shape(plan.kernel).axes[:2])
    return roles.shape(plan.kernel).axes[0]
