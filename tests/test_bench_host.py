"""Blocks in which the host took one of our cores are made again."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, sleep

import pytest
from luminal.search.bench import blocks, host
from luminal.search.bench.blocks import Block, Contender, Method, compare, least_disturbed, minima
from luminal.search.bench.host import SHARED, TICK, Moment, moment
from luminal.search.bench.measure import disturbed
from luminal.search.bench.pace import Pace

DATA = bytes(1 << 20)  # whose hash is found without the interpreter's lock
METHOD = Method(blocks=1, runs=1, seconds=0.0, pause=0.0, again=3)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system says nothing about what a host takes")
def test_what_was_stolen_is_read_by_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = min(os.sched_getaffinity(0))
    stat = tmp_path / "stat"
    stat.write_text(f"cpu  9 9 9 9 9 9 9 99 9 9\ncpu{mine} 1 2 3 4 5 6 7 50 8 9\ncpu9999 1 2 3 4 5 6 7 77 8 9\nintr 5\n")
    monkeypatch.setattr(host, "STAT", stat)
    thread = tmp_path / "task" / "12"
    thread.mkdir(parents=True)
    monkeypatch.setattr(host, "THREADS", thread.parent)
    assert moment(3.0) == Moment(3.0, {f"cpu{mine}": 50 * TICK})
    monkeypatch.setattr(host, "STAT", tmp_path / "none")
    assert moment(3.0) == Moment(3.0, {})
    (thread / "schedstat").write_text("498448646 250000000 128\n")
    assert moment(3.0) == Moment(3.0, {}, {"12": 0.25})


def test_the_core_that_lost_most_counts_and_one_tick_does_not() -> None:
    before = Moment(10.0, {"cpu0": 5.0, "cpu1": 7.0})
    assert before.share_until(Moment(11.0, {"cpu0": 5.1, "cpu1": 7.4})) == pytest.approx(0.4)
    assert before.share_until(Moment(10.0 + 10 * TICK, {"cpu0": 5.0 + TICK, "cpu1": 7.0})) == 0
    assert before.share_until(Moment(11.0, {})) == 0


def test_a_thread_that_has_no_core_for_long_counts() -> None:
    before = Moment(10.0, {"cpu0": 5.0}, {"1": 3.0, "2": 0.0})
    assert before.share_until(Moment(11.0, {"cpu0": 5.0}, {"1": 3.1, "2": 0.5})) == pytest.approx(0.5)
    assert before.share_until(Moment(11.0, {"cpu0": 5.0}, {"1": 3.2, "2": 0.2, "3": 9.0})) == 0


def counted() -> bool:
    """Whether the system counts at all how long threads run and wait: some sandboxes, and kernels built without, say nothing or zeros."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[0]) > 0
    except (OSError, IndexError, ValueError):
        return False


@pytest.mark.skipif(not counted(), reason="Linux alone counts how long threads wait, and not everywhere")
def test_two_threads_on_one_core_wait() -> None:
    """A thread and the one that started it, both with work and one core: each waits about half of the time."""
    ours, ends = os.sched_getaffinity(0), perf_counter() + 0.3
    started, left = Event(), Event()

    def spin() -> None:
        os.sched_setaffinity(0, {min(ours)})
        started.set()
        while perf_counter() < ends:
            sha256(DATA)
        left.wait(5)

    other = Thread(target=spin)
    other.start()
    started.wait(5)
    before = moment(perf_counter())
    os.sched_setaffinity(0, {min(ours)})
    try:
        while perf_counter() < ends:
            sha256(DATA)
        assert before.share_until(moment(perf_counter())) > SHARED
    finally:
        os.sched_setaffinity(0, ours)
        left.set()
        other.join()


@pytest.mark.parametrize(
    ("stolen", "made", "lost"),
    [([0.0], 1, 0.0), ([0.5, 0.04], 2, 0.04), ([0.5, 0.3, 0.4, 0.6, 0.0], 4, 0.3)],
    ids=["left alone", "the second time", "never: the least disturbed"],
)
def test_a_disturbed_block_is_made_again(stolen: list[float], made: int, lost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 0.0, 0

    def passing(_: float) -> Moment:
        """Two for each block: a second lies between them, of which the host takes what the list says."""
        nonlocal now
        now += 0.5
        return Moment(now, {"cpu0": sum(stolen[: int(now)]) * 0.5})

    def call() -> None:
        nonlocal calls
        calls += 1

    monkeypatch.setattr(blocks, "moment", passing)
    found = least_disturbed(Contender(call), METHOD)
    assert (calls, found.stolen) == (made * 3, pytest.approx(lost)) and found.seconds < 1


def test_a_block_waits_while_the_cores_are_slow() -> None:
    """Until they are as fast as they were, or there is no more patience; then it is told how slow they were."""
    calls: list[str] = []

    class Cores(Pace):
        def seconds(self) -> float:
            calls.append("look")
            self.least = min(self.least, took[-1])
            return took.pop(0)

    method = Method(blocks=1, runs=1, seconds=0.0, pause=0.0, again=0)  # whatever else the machine does
    pace, took = Cores(print, 1, 1.0), [2.0, 1.5, 1.05, 9.0]
    found = least_disturbed(Contender(lambda: calls.append("call")), method, pace, until=perf_counter() + 1e9)
    assert calls == ["look"] * 3 + ["call"] * 3 + ["look"] and found.pace == 1.05 and pace.lost(found.pace) == 0.0
    pace, took = Cores(print, 1, 1.0), [2.0, 2.0, 1.05]
    found = least_disturbed(Contender(print), method, pace, until=0.0)
    assert took == [1.05] and pace.lost(found.pace) == 0.5


def test_the_pace_is_that_of_the_slowest_thread() -> None:
    naps = iter([0.001, 0.03, 0.03, 0.03, 0.03, 0.03])
    pace = Pace(lambda: sleep(next(naps)), 2)
    assert pace.seconds() >= 0.03 and pace.least >= 0.03
    naps = iter([0.001] * 6)
    assert pace.seconds() < 0.03 and pace.least < 0.03 and pace.lost(1.0) > 0.9


def test_blocks_of_another_pace_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best pace for which there are two blocks of everybody; all blocks where each has one of its own."""
    pace = Pace(print, 1, 1.0)

    def counting(*paces: tuple[float, float]) -> dict[str, list[float]]:
        taken = iter([Block(float(k), 0.0, p) for k, both in enumerate(paces) for p in both])
        monkeypatch.setattr(blocks, "least_disturbed", lambda *_: next(taken))
        return minima(compare({"a": Contender(print), "b": Contender(print)}, Method(blocks=len(paces)), pace))

    assert counting((1.0, 1.05), (2.0, 2.1), (1.02, 2.0), (2.0, 1.0)) == {"a": [0.0, 2.0], "b": [0.0, 3.0]}
    assert counting((1.0, 2.1), (2.0, 2.05), (2.1, 1.0)) == {"a": [1.0, 2.0], "b": [0.0, 1.0]}
    assert counting((1.0, 1.0), (1.5, 1.5), (2.0, 2.5)) == {"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 2.0]}
    assert counting((3.0, 1.0)) == {"a": [0.0], "b": [0.0]}


def test_who_is_far_behind_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its rounds and no more, and the others are compared at one pace though it never had that."""
    pace = Pace(print, 1, 1.0)
    taken = {"a": iter([(1.0, 2.0), (0.5, 1.0), (0.5, 1.0)]), "b": iter([(1.0, 1.0), (1.0, 1.0), (1.0, 2.0)]), "c": iter([(9.0, 2.0), (9.1, 2.0)])}
    names = iter("abcabcab")
    monkeypatch.setattr(blocks, "least_disturbed", lambda *_: (lambda seconds, pace: Block(seconds, 0.0, pace))(*next(taken[next(names)])))
    found = compare({name: Contender(print) for name in "abc"}, Method(blocks=2, patience=1e9), pace)
    assert minima(found) == {"a": [0.5, 0.5], "b": [1.0, 1.0], "c": [9.0, 9.1]} and next(names, None) is None


def test_a_block_has_the_better_pace_of_its_ends() -> None:
    """For its best call counts."""
    took = iter([2.0, 1.5])

    class Cores(Pace):
        def seconds(self) -> float:
            return next(took)

    assert least_disturbed(Contender(print), Method(blocks=1, runs=1, seconds=0.0, pause=0.0, again=0), Cores(print, 1, 1.0)).pace == 1.5


def test_what_the_cores_lost_is_told() -> None:
    pace = Pace(print, 1, 1.0)
    assert disturbed({"a": [Block(1.0, 0.01, 1.0)], "b": [Block(1.0, 0.02, 1.1)]}, pace) == []
    (taken,) = disturbed({"a": [Block(1.0, 0.01, 1.0), Block(1.0, 0.3, 1.0)], "b": [Block(1.0, 0.02, 1.0)]}, pace)
    assert taken == "disturbed: the host, or another thread on the core, took 30% of a core from a"
    assert disturbed({"a": [Block(1.0, 0.0, 2.0)], "b": [Block(1.0, 0.0, 2.1)]}, pace) == [
        "slow: the cores had 0.48 of the pace that they had at best, all alike"
    ]
    assert disturbed({"a": [Block(1.0, 0.0, 2.0)], "b": [Block(1.0, 0.0, 1.0)]}, pace) == [
        "slow: the cores had 0.50 of the pace that they had at best, of others up to 1.00"
    ]
