"""A loop of which each iteration is a lane, also where all of them run the same `while`s: a search by halves, as many steps for each value; a series of so many terms."""

from __future__ import annotations

from ....ir.kernel import Alloc, Loop, While, statements
from ..plan import Plan
from ..steps.abreast import varying

# Vectors side by side where each turn waits for the one before (Granite Rapids, places in 4096 and in 10⁶ sorted floats, by hand, of 1, 2 and 4 vectors: 169, 118, 78 µs and 79, 31, 19 ms).
WAITING = 4


def takes_turns(loop: Loop) -> bool:
    """Whether there is a `while` in a loop."""
    return any(isinstance(s, While) for s in statements(loop.body))


def in_lanes(plan: Plan, axis: str) -> None:
    """Run a loop at once, one iteration a lane: what each keeps for itself, as a value that is read before it is stored over, becomes a vector."""
    loop = plan.loop(axis)
    turns = takes_turns(loop)
    own = varying(loop) if turns else set[str]()
    for s in loop.body:
        if isinstance(s, Alloc) and not s.buffer.shape and (not turns or s.buffer.name in own):
            plan.do("expand", s.buffer.name, axis)
    before = plan.kernel
    if turns:
        plan.do("abreast", axis)
    for x in (axis, *plan.added(before)):
        plan.do("vectorize", x)
