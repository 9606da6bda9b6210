"""The innermost loops of a kernel are as long as memory allows: two that stand one inside the other, and move everything as one longer loop would, are that one.

    for i in 0 .. B parallel:                    for i in 0 .. B parallel:
      for p in 0 .. H reduce:                      for p_q in 0 .. H·W reduce:
        for q in 0 .. W reduce:           →          acc[] add= X[i, p_q // W, p_q % W]
          acc[] add= X[i, p, q]

Vectors, what is left over of them, and what is folded at the end of a row then come once for an image and not for each of its rows (28 × 28 floats: normalising each image takes half as long).
"""

from __future__ import annotations

from ....ir.expr import ONE, ZERO
from ....ir.kernel import Loop, Store, statements
from .. import roles
from ..affine import row_step, same_position
from ..plan import Plan
from ..tree import StepError, all_loops, around, loads_in
from .joined_axes import positions_as_data

KINDS = ("parallel", "reduce")
SHARED = 2  # of the loops around everything, those that threads share


def lengthened(plan: Plan) -> None:
    """Make one of each loop along which memory is consecutive and those around it, as far as that goes."""
    waiting = [x.axis for x in all_loops(plan.kernel)]
    while waiting:
        axis = waiting.pop()
        outer = _around(plan, axis)
        if outer is None or outer in roles.shape(plan.kernel).axes[:SHARED]:
            continue
        try:
            joined = _joined(plan, outer, axis)
        except StepError:
            continue
        waiting = [*(x for x in waiting if x != outer), joined]


def longest(plan: Plan, axis: str, near: bool = True) -> str:
    """The loop made one with those around it as far as that goes, whoever shares them: its name.  `near`: only where memory is consecutive along it."""
    while (outer := _around(plan, axis, near)) is not None:
        axis = _joined(plan, outer, axis)
    return axis


def _joined(plan: Plan, outer: str, axis: str) -> str:
    joined = plan.collapsed((outer, axis))
    plan.note(f"`{outer}` and `{axis}` are one axis: all that is touched lies along both as along one")
    return joined


def _around(plan: Plan, axis: str, consecutive: bool = True) -> str | None:
    """The loop that holds this one and nothing else, where all that is touched goes on, from one of its iterations to the next, where this loop ends."""
    *_, outer, loop = (None, *around(plan.kernel, axis))
    if not isinstance(outer, Loop) or not isinstance(loop, Loop) or len(outer.body) != 1 or outer.kind != loop.kind or loop.kind not in KINDS:
        return None
    if loop.start is not ZERO or any(x.step is not ONE for x in (outer, loop)) or outer.axis in loop.stop.names or loop.stop is ZERO:
        return None
    steps = [(row_step(a, outer), row_step(a, loop)) for a in roles.along(plan.kernel, loop, plan.facts)]
    if consecutive and not any(near is ONE for _, near in steps):
        return None
    if any(far is None or near is None or not same_position(far, near * loop.stop) for far, near in steps):
        return None
    return None if positions_as_data(roles.Shape((outer, loop), loop.body)) or _in_own_memory(plan, outer, loop) else outer.axis


def _in_own_memory(plan: Plan, *loops: Loop) -> bool:
    """Whether something of the kernel's own, or how far a loop runs, goes by these positions."""
    axes = {x.axis for x in loops}
    for s in statements(loops[-1].body):
        if isinstance(s, Loop) and axes & (s.start.names | s.stop.names):
            return True
        own = [s.index] if isinstance(s, Store) and s.buffer not in plan.facts.buffers else []
        own += [n.args for n in loads_in(*s.expressions()) if n.attr not in plan.facts.buffers]
        if any(axes & e.names for index in own for e in index):
            return True
    return False
