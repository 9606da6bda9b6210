"""How implementations are compared on a shared, noisy machine: in alternating blocks.

Called in turn, two libraries whose thread pools spin starve each other; so each gets a block of its own: a pause (OpenBLAS's threads spin for 25 ms after a call), two warm-up calls, at least ten timed ones.  The time of an
implementation is the median over blocks of the block's minimum, and what is reported is the ratio.  A block in which the host ran somebody else on one of our cores, or the system
two of our threads on one, is made again, whosever it is (`host.py`).  A block waits while the cores are slow (`pace.py`), as long as there is patience; and of all blocks those count that had about the same
pace, so that nobody's fast moment stands beside another's slow one.  And there are more rounds where blocks differ, until their middle half agrees: of the first one and those that are not far behind it, on which it hangs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

from ...ir.record import record
from .host import moment
from .pace import SLOW, Pace

Call = Callable[[], object]


@record
class Method:
    """How long is measured.  A block makes `runs` calls and goes on for about `seconds`, but no longer than `limit`; of calls that take longer than that it makes one.
    Each has `blocks` of them, and, where those are uneven, up to `MORE` times as many, as long as the rounds, and waiting for fast cores, take less than `patience` seconds."""

    blocks: int = 5
    patience: float = 0.0
    runs: int = 10
    pause: float = 0.25  # LLVM's threads spin for 200 ms after their last work, on a core that the next contender wants (PyTorch's layer norm of 512² took 7.5 ms in place of 0.08)
    seconds: float = 0.15
    limit: float = 0.8
    again: int = 8  # times that a block is made again, at most, while more of a core than STOLEN is taken, or threads share one; the least disturbed one counts


def asked_for(blocks: int, runs: int, patience: float) -> Method:
    """The method of a command: who has no patience has no block made again."""
    return Method(blocks=blocks, runs=runs, patience=patience, again=8 if patience else 0)


MORE = 5
EVEN = 0.02  # half the range of the middle half of an implementation's blocks, over their median, up to which they agree
BEHIND = 3.0  # times the first one, from which on nothing hangs on how even an implementation is
STOLEN = 0.05  # of the time of one core, above which a block is disturbed: threads wait for the slowest


@record
class Contender:
    """One implementation: its call, how many executions a call makes (a loop in C makes many), and what brings its arrays back to where they began: before a block, or before `each` call, which is not timed."""

    call: Call
    executions: int = 1
    reset: Callable[[], None] | None = None
    each: bool = False


@record
class Block:
    """The minimum of a block's calls, in seconds an execution; the part of a core's time that was lost while they ran (`Moment.share_until`); and what the loop of a `Pace` took before them, 0 where there is none."""

    seconds: float
    stolen: float = 0.0
    pace: float = 0.0


def compare(contenders: Mapping[str, Contender], method: Method, pace: Pace | None = None) -> dict[str, list[Block]]:
    """The blocks of each implementation that count: as many of each that is near the first, with which they are compared."""
    made: dict[str, list[Block]] = {name: [] for name in contenders}
    began = time.perf_counter()
    for done in range(method.blocks * MORE):
        counting = alike(made, pace)
        enough = done >= method.blocks and len(next(iter(counting.values()))) >= method.blocks and even(minima(counting))
        if done >= method.blocks and (enough or time.perf_counter() - began >= method.patience):
            break
        for name in contenders if done < method.blocks else near(minima(made)):
            made[name].append(least_disturbed(contenders[name], method, pace, began + method.patience))
    return alike(made, pace)


def minima(blocks: Mapping[str, list[Block]]) -> dict[str, list[float]]:
    return {name: [b.seconds for b in found] for name, found in blocks.items()}


def near(minima: Mapping[str, list[float]]) -> list[str]:
    """The first one, and whom more blocks could bring before it."""
    first = typical(next(iter(minima.values())))
    return [name for name, found in minima.items() if typical(found) <= BEHIND * first]


def alike(made: Mapping[str, list[Block]], pace: Pace | None) -> dict[str, list[Block]]:
    """The blocks for which the cores had about the same pace, the best one for which there are two of all that are near; all blocks where there is none such, or of one that is far behind and has none."""
    every = {name: list(found) for name, found in made.items()}
    if pace is None or not all(every.values()):
        return every
    close = near(minima(every))
    fewest = min(len(every[name]) for name in close)
    lost = {name: [pace.lost(b.pace) for b in found] for name, found in every.items()}
    for least in sorted({x for name in close for x in lost[name]}):
        kept = {name: [b for b, x in zip(every[name], found, strict=True) if least <= x <= least + SLOW] for name, found in lost.items()}
        count = min(len(kept[name]) for name in close)
        if count >= min(2, fewest):
            return {name: kept[name][:count] if name in close else kept[name] or found for name, found in every.items()}
    return every


def least_disturbed(contender: Contender, method: Method, pace: Pace | None = None, until: float = 0.0) -> Block:
    """The first block that was left alone, or the one that was left alone the most."""
    best: Block | None = None
    for _ in range(1 + method.again):
        found = timed(contender, method, pace, until)
        best = found if best is None or found.stolen < best.stolen else best
        if best.stolen <= STOLEN:
            break
    assert best is not None
    return best


def block(contender: Contender, method: Method) -> float:
    """Seconds an execution, the minimum of one block, whatever the host does."""
    return timed(contender, method).seconds


def timed(contender: Contender, method: Method, pace: Pace | None = None, until: float = 0.0) -> Block:
    """One block, after a pause; while the cores are slow there are more pauses, until the clock says `until`.  Its pace is the better one of before and after, for its best call counts."""
    call, clock = contender.call, time.perf_counter
    again = contender.reset if contender.each and contender.reset is not None else _nothing
    if contender.reset is not None:
        contender.reset()
    time.sleep(method.pause)
    looped = 0.0 if pace is None else pace.seconds()
    while pace is not None and pace.lost(looped) and clock() < until:
        time.sleep(method.pause)
        looped = pace.seconds()
    before = moment(clock())
    began = clock()
    call()
    first = clock() - began
    if first > method.limit:
        return Block(first / contender.executions, before.share_until(moment(clock())), looped)
    again()
    call()
    best, began, spent, count = float("inf"), clock(), 0.0, 0
    while count == 0 or (count < method.runs and spent < method.limit) or (spent < method.seconds and count < 50 * method.runs):
        again()
        start = clock()
        call()
        now = clock()
        best, spent, count = min(best, now - start), now - began, count + 1
    stolen = before.share_until(moment(clock()))
    return Block(best / contender.executions, stolen, looped if pace is None else min(looped, pace.seconds()))


def _nothing() -> None:
    """Between the calls of what need not begin anew."""


def typical(minima: list[float]) -> float:
    return statistics.median(minima)


def spread(minima: list[float]) -> float:
    """Half the range of the middle half of the minima, in units of their median; 0 for one block, which says nothing."""
    return middle(minima) / typical(minima)


def middle(values: list[float]) -> float:
    """Half the distance of the quartiles: what is in the middle of more blocks is no wider, as their whole range would be."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def even(minima: Mapping[str, list[float]]) -> bool:
    """Whether more blocks would say the same of all that are near the first.  Of one block nothing is known, and nothing more is asked for."""
    return all(len(minima[name]) == 1 or spread(minima[name]) <= EVEN for name in near(minima))


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """How often ours goes into theirs (above 1: ours is faster), and the noise of that: half the range of the ratios block by block."""
    each = ratios(ours, theirs)
    return typical(theirs) / typical(ours), (max(each) - min(each)) / 2


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Round by round, as far as there are blocks of both."""
    return [b / a for a, b in zip(ours, theirs, strict=False)]
