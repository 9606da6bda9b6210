"""How rows and columns of a tile are dealt out to warps and their threads, which the step `matrix` then lets multiply together."""

from __future__ import annotations

from ....ir.warps import HALF
from ..plan import Plan

ROWS, COLUMNS = 16, 8  # of a tile of the instruction
PAIR = 2  # columns side by side that a thread has


def rows(plan: Plan, axis: str, warps: int) -> tuple[str, str, str, str]:
    """An axis of a constant extent split into the warp, the tile of 16 rows, the half of that, and the thread's row of eight."""
    warp, inner = _split(plan, axis, (plan.extent(axis) or 0) // warps)
    tile, inner = _split(plan, inner, ROWS)
    return (warp, tile, *_split(plan, inner, HALF))


def columns(plan: Plan, axis: str, warps: int) -> tuple[str, str, str, str]:
    """An axis of a constant extent split into the warp, the tile of 8 columns, the thread's pair of these, and which of the two."""
    warp, inner = _split(plan, axis, (plan.extent(axis) or 0) // warps)
    tile, inner = _split(plan, inner, COLUMNS)
    return (warp, tile, *_split(plan, inner, PAIR))


def _split(plan: Plan, axis: str, factor: int) -> tuple[str, str]:
    before = plan.kernel
    plan.do("split", axis, factor, tail="perfect")
    outer, inner = plan.added(before)
    return outer, inner
