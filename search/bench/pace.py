"""How fast our cores are just now, which no counter of the system shows.

Two virtual cores may be two halves of one, or have a stranger on the other half of each: all that they compute takes 1.1 to 2.4 times as long, for tens of milliseconds or for minutes, and nothing is stolen.  What shows it is a loop
in all threads that touches no memory: multiplications and additions, of which a stranger who multiplies takes half, and no-ops, for a stranger of any kind takes half of the cycles in which instructions are brought in (seen on
two virtual cores of an Emerald Rapids: no-ops 5.8 or 2.9 a cycle, with multiplications in registers at 2.0 and 1.96; or these at 1.0.  Attention at 8.1 ms, 10.8 and 16.5).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from ...ir.record import changing

SLOW = 0.1  # of the best pace: what is lost below that is the clock's own unrest


@changing
class Pace:
    """A loop of a third of a millisecond, and the least that it took in this process."""

    loop: Callable[[], object]
    least: float = field(default=float("inf"))

    def seconds(self) -> float:
        """What the loop takes now, the best of three."""
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            self.loop()
            best = min(best, time.perf_counter() - began)
        self.least = min(self.least, best)
        return best

    def lost(self, seconds: float) -> float:
        """The part of their best pace that the cores did not have when the loop took so long, 0 where that is next to nothing."""
        lost = 1 - self.least / seconds if seconds > 0 else 0.0
        return lost if lost > SLOW else 0.0
