"""Which candidates are tried, and which of them wins: hill climbing from the default within a budget of seconds.

    1. the default, what it does at other sizes, and the default of every alternative graph
    2. the neighbours of the best so far, the most promising first, so many at a time; one that is faster by more than the noise is the next best
    3. the best against the default once more, whole and in longer blocks: it wins by more than the noise, or the default stays

A candidate is timed only after it was found right.  Time comes from a clock that is given, so that a test decides what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from ...ir.record import record
from ..bench.blocks import ratio, typical
from .space import neighbours

TOGETHER = 7  # candidates of one round, beside the best so far: they share a translation unit and a contest
LEAST_GAIN = 1.03  # a winner is at least so much faster
DEAR = 1.5  # times the cost of the best so far by the model: beyond that a candidate is not built
ROUNDS_WITHOUT = 4  # rounds in which nothing better is found, after which there probably is nothing
MARGIN = 1.2  # by which a candidate may take longer than those of the last round
LAST = 3  # candidates whose time is kept for the last comparison: two, whole


@record
class Candidate:
    alternative: int  # 0 is the default's graph
    scripts: tuple[tuple[str, ...], ...]  # one a kernel, for the sizes at hand
    what: str  # how it differs from the one that it came from
    cost: float  # by the model


@record
class Measured:
    """What came of a candidate: `status` is pass, mismatch, code, crash, timeout, refused or not built; only one that passes has `minima`, seconds of each block."""

    status: str
    detail: str = ""
    minima: tuple[float, ...] = ()


@record
class Trial:
    """One row of the table."""

    candidate: Candidate
    measured: Measured
    gain: float = 0.0  # time of the default over its own; 0 where it was not timed


class Space(Protocol):
    def defaults(self) -> list[Candidate]:
        """The default first; then what else is tried whatever the model says."""
        ...

    def candidate(self, alternative: int, scripts: tuple[tuple[str, ...], ...], what: str) -> Candidate | None:
        """None where the script is refused, or a hard limit forbids it."""
        ...


class Measurer(Protocol):
    def measure(self, candidates: Sequence[Candidate], seconds: float) -> list[Measured]:
        """Check each, then time those that are right side by side, in about so many seconds."""
        ...

    def confirm(self, best: Candidate, default: Candidate, seconds: float) -> tuple[Measured, Measured]:
        """Both as they would be recorded, in longer blocks."""
        ...


@dataclass(slots=True)
class Found:
    """The result of a search.  `ratio` is the default's time over the winner's, `noise` that of the ratio; the winner is the default where nothing beats it."""

    winner: Candidate
    default: Candidate
    ratio: float = 1.0
    noise: float = 0.0
    default_seconds: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    seconds: float = 0.0
    failed: str = ""  # why nothing could be measured


Key = tuple[int, tuple[tuple[str, ...], ...]]
Watch = Callable[[int, int, float], None]  # candidates tried, those known, the best gain so far


def climb(space: Space, measurer: Measurer, clock: Callable[[], float], budget: float, watch: Watch = lambda *_: None) -> Found:
    """See the head of this file; `budget` in seconds.  No round is begun that would not fit into it, going by how long a candidate took in the round before."""
    began = clock()
    first, *pending = space.defaults()
    found = Found(first, first)
    best, gain, seen = first, 1.0, {(c.alternative, c.scripts) for c in (first, *pending)}
    source: Iterator[Candidate] | None = None
    group: list[Candidate] = []
    without, each = 0, 0.0
    while True:
        now = clock()
        left = budget - (now - began)
        if found.trials:
            room = int(left / (MARGIN * each)) - LAST - 1 if each else TOGETHER
            group, pending = pending[: max(0, min(room, TOGETHER))], pending[max(0, min(room, TOGETHER)) :]
            if not group and room > 0:
                if source is None:
                    source = _ranked(space, best, seen, lambda until=now + left / 4: clock() < until)
                group = list(islice(source, min(room, TOGETHER)))
            if not group or without >= ROUNDS_WITHOUT:
                break
        measured = measurer.measure([best, *group], max(left, 0.0) / 20)
        # more than it will be after the first round, which also starts a process and asks the reference
        each = (clock() - now) / len(measured)
        if not found.trials:
            if measured[0].status != "pass" or not measured[0].minima:
                found.failed = f"{measured[0].status}: {measured[0].detail}"
                break
            found.trials.append(Trial(best, measured[0], 1.0))
            found.default_seconds = typical(list(measured[0].minima))
        leader, lead = best, 1.0
        for c, m in zip(group, measured[1:], strict=True):
            both = m.status == "pass" and m.minima and measured[0].minima
            faster, noise = compared(m, measured[0]) if both else (0.0, 0.0)
            found.trials.append(Trial(c, m, faster * gain))
            if faster > max(lead, 1 + noise / 2):
                leader, lead = c, faster
        if leader is not best:
            best, gain, source, without = leader, gain * lead, None, 0
        elif group:
            without += 1
        watch(len(found.trials), len(seen), gain)
    if best is not first:
        mine, its = measurer.confirm(best, first, max(budget - (clock() - began), budget / 10) / 4)
        if mine.minima and its.minima:
            found.ratio, found.noise = compared(mine, its)
            if found.ratio > max(LEAST_GAIN, 1 + found.noise):
                found.winner = best
    found.seconds = clock() - began
    return found


def compared(mine: Measured, its: Measured) -> tuple[float, float]:
    """How often mine goes into its, and the noise of that.  Of two answers the smaller: by the medians of the blocks, and by their minima (on a machine that others
    use, whole blocks may be slow)."""
    a, b = list(mine.minima), list(its.minima)
    found, noise = ratio(a, b)
    return min(found, min(b) / min(a)), noise


def _ranked(space: Space, best: Candidate, seen: set[Key], in_time: Callable[[], bool]) -> Iterator[Candidate]:
    """The neighbours of a candidate that were not tried yet, the cheapest by the model first; the order of the scripts decides between equals.  Those that are dear by the model
    are left out, and those that there is no time to look at."""
    made: list[Candidate] = []
    for k, script in enumerate(best.scripts):
        for what, lines in neighbours(script):
            scripts = (*best.scripts[:k], lines, *best.scripts[k + 1 :])
            if (best.alternative, scripts) in seen or not in_time():
                continue
            c = space.candidate(best.alternative, scripts, f"{what} (kernel {k})" if len(best.scripts) > 1 else what)
            if c is not None and c.cost <= DEAR * best.cost:
                made.append(c)
    for c in sorted(made, key=lambda c: c.cost):
        seen.add((c.alternative, c.scripts))  # only what is taken: the others may come back as neighbours of the next best
        yield c
