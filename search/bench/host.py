"""What a hypervisor took from us: on a rented machine the virtual cores are not always there.

Linux counts the time in which a core had work and the host ran somebody else (`steal`), in ticks of 10 ms.  It comes in slices of 4 to 300 ms, on one core or on all: two cores that
do nothing but multiply and add at 140 GFLOP/s each were seen at 119 + 121 in one fifth of a second and at 7 + 4 in another, with the same clock and each slow moment accounted for here.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...ir.record import record

STAT = Path("/proc/stat")
STEAL = 8  # the word of a core's line: its name, user, nice, system, idle, iowait, irq, softirq, steal


@record
class Moment:
    """Seconds that were stolen so far, by core; no cores where the system does not say."""

    clock: float
    stolen: dict[str, float]

    def share_until(self, later: Moment) -> float:
        """The part of the time between two moments in which the core that lost most was somebody else's, 0 to about 1.  One tick says nothing: it may have gathered before."""
        lost = max((seconds - self.stolen.get(core, seconds) for core, seconds in later.stolen.items()), default=0.0)
        return lost / (later.clock - self.clock) if lost > 1.5 * TICK and later.clock > self.clock else 0.0


TICK = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01


def moment(clock: float) -> Moment:
    """Now, which the caller's clock calls `clock` seconds."""
    try:
        text = STAT.read_text(encoding="ascii")
    except OSError:
        return Moment(clock, {})
    ours = {f"cpu{n}" for n in os.sched_getaffinity(0)}
    words = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return Moment(clock, {w[0]: int(w[STEAL]) * TICK for w in words if w[0] in ours and len(w) > STEAL})
