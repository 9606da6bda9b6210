"""How fast our cores are just now, which no counter of the system shows.

Two virtual cores may be two halves of one, or have a stranger on the other half of each: all that they compute takes 1.2 to 2.4 times as long, for tens of milliseconds or for minutes, and nothing is stolen.  What shows it is a loop
of multiplications and additions in all threads that touches no memory (on two virtual cores of an Emerald Rapids, 85 looks in 40 seconds: 1.0 to 1.1 times the shortest with attention at 8.1 ms, 2.1 to 2.4 with
16.5 to 23).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from ...ir.record import changing

SLOW = 0.1  # of the best pace: what is lost below that is the clock's own unrest


@changing
class Pace:
    """A loop of half a millisecond, and the least that it took in this process."""

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
