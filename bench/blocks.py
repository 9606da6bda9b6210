"""How two implementations are compared on a shared, noisy machine: in alternating blocks.

Called in turn, two libraries whose thread pools spin starve each other; so each gets a block of its own: a pause, two warm-up calls, at least ten timed ones.  The time of an
implementation is the median over blocks of the block's minimum, and what is reported is the ratio.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Call = Callable[[], object]


def compare(calls: dict[str, Call], blocks: int = 5, runs: int = 10, pause: float = 0.03, seconds: float = 0.25) -> dict[str, float]:
    """Seconds a call of each implementation.  A block makes at least `runs` calls and lasts at most about `seconds` beyond them."""
    minima: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(blocks):
        for name, call in calls.items():
            time.sleep(pause)
            call()
            call()
            best, began, count = float("inf"), time.perf_counter(), 0
            while count < runs or (time.perf_counter() - began < seconds and count < 50 * runs):
                start = time.perf_counter()
                call()
                best = min(best, time.perf_counter() - start)
                count += 1
            minima[name].append(best)
    return {name: statistics.median(found) for name, found in minima.items()}


def table(title: str, rows: list[tuple[str, dict[str, float], float, str]], ours: str = "luminal") -> str:
    """One line a workload: ours, the best peer, the ratio (above 1: ours is faster) and the rate.  rows: (name, seconds by implementation, work, unit of work/s)."""
    lines = [title, f"{'workload':<24}{ours:>12}{'best peer':>12}{'ratio':>8}   rate"]
    ratios: list[float] = []
    for name, seconds, work, unit in rows:
        peers = {k: v for k, v in seconds.items() if k != ours}
        best = min(peers, key=lambda k: peers[k]) if peers else ours
        ratio = seconds[best] / seconds[ours]
        ratios.append(ratio)
        lines.append(
            f"{name:<24}{seconds[ours] * 1e6:>10.1f}µs{seconds[best] * 1e6:>10.1f}µs{ratio:>8.2f}   {work / seconds[ours] / 1e9:.1f} against {work / seconds[best] / 1e9:.1f} {unit} ({best})"
        )
    lines.append(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")
    return "\n".join(lines)
