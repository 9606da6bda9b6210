"""Results that several neighbours share (the mean of a group of channels, `m[c // 8]`), spread out over those who read them before the loop that reads them again and again.

    for j in 0 .. P parallel:                            for k.0 in 0 .. ceil(C / 1024):
      for k in 0 .. C parallel:                            alloc m.packed: f32[1024] stack
        Y[i, j, k] = X[i, j, k] - m[k // (C // 8)]   →     for k.1 …: m.packed[k.1] = m[(1024·k.0 + k.1) // (C // 8)]
                                                           for j in 0 .. P parallel:
                                                             for k.1 …: Y[i, j, 1024·k.0 + k.1] = X[i, j, 1024·k.0 + k.1] - m.packed[k.1]

No machine divides vectors of integers, and what they find they gather.  Where pieces are long enough `parts.py` makes loops of them; what rows keep beside them, in the first cache, is too small to be cut by.
"""

from __future__ import annotations

from ....ir.expr import ZERO
from ....ir.kernel import Loop
from .. import cost, roles
from ..divisions import pieces
from ..plan import Plan
from ..tree import around, local_buffers, reads


def spread(plan: Plan) -> None:
    """Spread what rows keep wherever a loop, run again and again for each of them, reads it by pieces of its positions."""
    for loop in roles.innermost(plan.kernel.body):
        path = around(plan.kernel, loop.axis)
        outside = path[-2] if len(path) > 2 else None
        if not isinstance(outside, Loop) or outside.kind != "parallel" or len(outside.body) != 1 or loop.kind != "parallel" or loop.start is not ZERO:
            continue
        buffers = _shared(plan, loop, outside.axis)
        if not buffers or pieces(loop, plan.facts.known) is None:
            continue
        strip = f"{loop.axis}.1"
        with plan.attempt(f"{', '.join(f'`{b}`' for b in buffers)} stays as it is") as attempt:
            plan.do("split", loop.axis, cost.COLUMNS)
            plan.do("reorder", f"{loop.axis}.0", outside.axis)
            for buffer in buffers:
                plan.do("stage", buffer, strip, at=f"{loop.axis}.0", space="stack")
        if not attempt.refused:
            plan.note(f"what pieces of `{loop.axis}` share is spread over it once, not in each iteration of `{outside.axis}`")


def _shared(plan: Plan, loop: Loop, outside: str) -> list[str]:
    """The local buffers that a loop reads at quotients of its positions, the same in each iteration of the loop around it."""
    local = local_buffers(plan.kernel)
    found = [n for n in reads((loop,)) if n.attr in local and loop.axis in n.names]
    divided = {n.attr for n in found if any(e.op == "floordiv" and loop.axis in e.names for e in n.args)}
    return sorted(b for b in divided if not any(outside in n.names for n in found if n.attr == b))
