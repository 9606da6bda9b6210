"""How fast our cores are just now, which no counter of the system shows.

Two virtual cores may be two halves of one, or have a stranger on the other half of each: all that they compute takes 1.1 to 2.4 times as long, for tens of milliseconds or for minutes, and nothing is stolen.  What shows it is a loop
in all threads that touches no memory: multiplications and additions, of which a stranger who multiplies takes half, and no-ops, for a stranger of any kind takes half of the cycles in which instructions are brought in (seen on
two virtual cores of an Emerald Rapids: no-ops 5.8 or 2.9 a cycle, with multiplications in registers at 2.0 and 1.96; or these at 1.0.  Attention at 8.1 ms, 10.8 and 16.5).

These threads are no team of OpenMP's: one that has just worked spins for 200 ms, and takes half a core from the next contender.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import field

from ...ir.record import changing

SLOW = 0.1  # of the best pace: what is lost below that is the clock's own unrest


@changing
class Pace:
    """A loop of a third of a millisecond, which lets Python go on meanwhile, in so many threads, and the least that it took in this process."""

    loop: Callable[[], object]
    threads: int = 1
    least: float = field(default=float("inf"))

    def seconds(self) -> float:
        """What the loop takes now: in the slowest thread, the best of three."""
        together = threading.Barrier(self.threads)
        took: list[float] = []

        def loops() -> None:
            together.wait()
            best = float("inf")
            for _ in range(3):
                began = time.perf_counter()
                self.loop()
                best = min(best, time.perf_counter() - began)
            took.append(best)

        threads = [threading.Thread(target=loops) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.least = min(self.least, max(took))
        return max(took)

    def lost(self, seconds: float) -> float:
        """The part of their best pace that the cores did not have when the loop took so long, 0 where that is next to nothing."""
        lost = 1 - self.least / seconds if seconds > 0 else 0.0
        return lost if lost > SLOW else 0.0
