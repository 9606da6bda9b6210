"""Where lines of the cache begin: a loop whose results go past the caches stores them whole."""

from __future__ import annotations

from ...ir.kernel import Alloc, Loop, Store, expressions, statements
from ...ir.walks import postorder
from . import cost
from .plan import Plan
from .tree import reads


def aligned(plan: Plan, axis: str) -> str | None:
    """What a loop streams begins at a line: the axis of the elements before it, or None where nothing is aligned."""
    least = cost.stream_bytes(plan.target)
    stored = sorted(
        {s.buffer for s in statements(plan.loop(axis).body) if isinstance(s, Store)} & plan.facts.buffers.keys() - (plan.elsewhere or frozenset())
    )
    sums = {s.buffer.name for s in statements(plan.kernel.body) if isinstance(s, Alloc) and s.buffer.space == "register"}
    if not sums.isdisjoint(n.attr for n in reads(plan.loop(axis).body) if axis in n.names):  # a tile of sums begins at a line itself
        return None
    if not least or len(stored) != 1 or not cost.first_lanes(plan.target) or chooses(plan.loop(axis)):
        return None
    saved = plan.kernel
    refused = plan.tried("stream_store", stored[0], least=least)
    plan.kernel = saved
    if refused or plan.tried("align", axis, stored[0], least=least):
        return None
    plan.note(f"along `{axis}` lines of `{stored[0]}` are stored whole")
    return plan.added(saved)[0]


def chooses(loop: Loop) -> bool:
    """Whether some loads of the loop are performed in some iterations only: such lanes are not the first ones."""
    return any(n.op == "where" and (n.args[1].buffers or n.args[2].buffers) for s in statements(loop.body) for n in postorder(*expressions(s)))
