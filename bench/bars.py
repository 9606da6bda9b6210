"""What is owed, and by which rows it is missed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..search.bench.measure import Row, show


class Owing(Protocol):
    @property
    def family(self) -> str: ...
    @property
    def bar(self) -> float | None: ...
    @property
    def least(self) -> float | None: ...
    @property
    def ceiling(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Bars:
    bar: float | None = None  # the geometric mean of the ratios
    least: float | None = None  # every ratio
    ceiling: float | None = None  # the part of the ceiling that every row reaches


def of_family(family: str, workloads: Iterable[Owing]) -> Bars:
    """The bars that stand with the first workload of a family."""
    for w in workloads:
        if w.family == family:
            return Bars(w.bar, w.least, w.ceiling)
    return Bars()


def missed(row: Row, bars: Bars) -> list[str]:
    """What this row misses, in words.  A ratio within its noise of the bar counts as met."""
    at = show(row.sizes)
    if not row.ok:
        return [f"{at}: wrong"]
    found: list[str] = []
    if bars.least and row.ratio and row.ratio + (row.noise or 0.0) < bars.least:
        found.append(f"{at}: {row.ratio:.2f} of {row.best_peer}, owed {bars.least:.2f}")
    if bars.ceiling and row.of_ceiling and row.of_ceiling < bars.ceiling:
        found.append(f"{at}: {row.of_ceiling:.0%} of the ceiling ({row.ceiling}), owed {bars.ceiling:.0%}")
    return found
