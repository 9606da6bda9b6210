"""What a hypervisor took from us: on a rented machine the virtual cores are not always there.

Linux counts the time in which a core had work and the host ran somebody else (`steal`), in ticks of 10 ms.  It comes in slices of 4 to 300 ms, on one core or on all: two cores that
do nothing but multiply and add at 140 GFLOP/s each were seen at 119 + 121 in one fifth of a second and at 7 + 4 in another, with the same clock and each slow moment accounted for here.

Nor are the cores that there are always used: now and then the system leaves two threads of one kernel on one core for as long as a block takes (RMS norm of 512² floats, the first 60 calls of a process: at best 160 µs, both threads waiting two fifths of the time and nothing stolen, in nine processes of twelve; then 40).
It counts for each thread how long that could have run and did not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from ...ir.record import record

STAT = Path("/proc/stat")
THREADS = Path("/proc/self/task")
SHARED = 0.25  # of the time, above which a thread that waits shares its core: two on one wait half of it each, and one that is woken for every call waits a little
STEAL = 8  # the word of a core's line: its name, user, nice, system, idle, iowait, irq, softirq, steal


@record
class Moment:
    """Seconds that were stolen so far, by core, and that our threads have waited for one; nothing where the system does not say."""

    clock: float
    stolen: dict[str, float]
    waited: dict[str, float] = field(default_factory=dict)

    def share_until(self, later: Moment) -> float:
        """The part of the time between two moments in which the core that lost most was somebody else's, or the thread that waited most had none, 0 to about 1.  One tick says nothing: it may have gathered before."""
        elapsed = later.clock - self.clock
        if elapsed <= 0:
            return 0.0
        lost, waited = _most(self.stolen, later.stolen), _most(self.waited, later.waited) / elapsed
        return max(lost / elapsed if lost > 1.5 * TICK else 0.0, waited if waited > SHARED else 0.0)


def _most(before: dict[str, float], after: dict[str, float]) -> float:
    return max((seconds - before.get(name, seconds) for name, seconds in after.items()), default=0.0)


TICK = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01


def moment(clock: float) -> Moment:
    """Now, which the caller's clock calls `clock` seconds."""
    waited = dict(_waits())
    try:
        text = STAT.read_text(encoding="ascii")
    except OSError:
        return Moment(clock, {}, waited)
    ours = {f"cpu{n}" for n in os.sched_getaffinity(0)}
    words = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return Moment(clock, {w[0]: int(w[STEAL]) * TICK for w in words if w[0] in ours and len(w) > STEAL}, waited)


def _waits() -> Iterator[tuple[str, float]]:
    """Each thread of this process, and the seconds that it could have run and did not: the second word of its `schedstat`, in nanoseconds."""
    for thread in THREADS.iterdir() if THREADS.is_dir() else ():
        try:
            words = (thread / "schedstat").read_text(encoding="ascii").split()
            yield thread.name, int(words[1]) * 1e-9
        except (OSError, IndexError, ValueError):  # the thread has ended, or the system does not count
            continue
