"""The search of -O3 on a clock and a measurer that are made up: what is tried, what wins, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from luminal.search.tuning.climb import LEAST_GAIN, TOGETHER, Candidate, Measured, climb
from luminal.search.tuning.space import neighbours, values

DEFAULT = ("split i 8", "split j 8", "parallel i.0")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def numbers(c: Candidate) -> tuple[int, ...]:
    return tuple(int(line.split()[2]) for line in c.scripts[0] if line.startswith("split"))


@dataclass
class World:
    """A kernel whose time is a function of two numbers; `judge` says what is wrong with a candidate ("" for nothing)."""

    seconds: Callable[[tuple[int, ...]], float]
    judge: Callable[[tuple[int, ...]], str] = lambda n: ""
    whole: Callable[[tuple[int, ...]], float] | None = None  # the time as it will be recorded, where that is another
    clock: Clock = field(default_factory=Clock)
    round: float = 1.0  # seconds of one
    measured: list[tuple[int, ...]] = field(default_factory=list)
    refused: frozenset[int] = frozenset()

    def defaults(self) -> list[Candidate]:
        return [Candidate(0, (DEFAULT,), "the default", 1.0)]

    def candidate(self, alternative: int, scripts: tuple[tuple[str, ...], ...], what: str) -> Candidate | None:
        c = Candidate(alternative, scripts, what, 1.0)
        return None if self.refused & set(numbers(c)) else c

    def one(self, c: Candidate, seconds: Callable[[tuple[int, ...]], float]) -> Measured:
        wrong = self.judge(numbers(c))
        return Measured(wrong) if wrong else Measured("pass", "", (seconds(numbers(c)),) * 5)

    def measure(self, candidates: Sequence[Candidate], seconds: float) -> list[Measured]:
        self.clock.now += self.round / 4 * len(candidates)
        self.measured += [numbers(c) for c in candidates]
        assert len(candidates) <= TOGETHER + 1
        return [self.one(c, self.seconds) for c in candidates]

    def confirm(self, best: Candidate, default: Candidate, seconds: float) -> tuple[Measured, Measured]:
        self.clock.now += self.round
        found = [self.one(c, self.whole or self.seconds) for c in (best, default)]
        return found[0], found[1]


def bowl(n: tuple[int, ...]) -> float:
    """Best at 12, 4."""
    return 1.0 + abs(n[0] - 12) + abs(n[1] - 4)


def searched(world: World, budget: float = 1000.0) -> tuple[int, ...]:
    found = climb(world, world, world.clock, budget)
    return numbers(found.winner)


def test_it_climbs_to_what_is_fastest_step_by_step() -> None:
    world = World(bowl)
    found = climb(world, world, world.clock, 1000)
    assert numbers(found.winner) == (12, 4) and found.ratio == bowl((8, 8)) / bowl((12, 4))
    assert len(set(world.measured)) == len(found.trials), "nothing is tried twice, but for the best so far beside each round"


def test_the_same_times_give_the_same_search() -> None:
    first, second = World(bowl), World(bowl)
    assert searched(first) == searched(second) and first.measured == second.measured


@pytest.mark.parametrize("wrong", ["mismatch", "crash", "timeout", "code", "not built", "refused"])
def test_a_candidate_that_is_wrong_never_wins(wrong: str) -> None:
    world = World(bowl, lambda n: wrong if n[0] > 8 else "")
    found = climb(world, world, world.clock, 1000)
    assert numbers(found.winner) == (8, 4)
    assert all(t.gain == 0 for t in found.trials if t.measured.status != "pass") and any(t.measured.status == wrong for t in found.trials)


def test_a_candidate_that_is_found_wrong_at_the_end_does_not_win() -> None:
    world = World(bowl)
    world.judge = lambda n: "mismatch" if n == (12, 4) and world.whole is not None else ""
    original = world.confirm

    def confirm(best: Candidate, default: Candidate, seconds: float) -> tuple[Measured, Measured]:
        world.whole = bowl
        return original(best, default, seconds)

    world.confirm = confirm  # type: ignore[method-assign]
    found = climb(world, world, world.clock, 1000)
    assert found.winner is found.default and found.ratio == 1.0


def test_what_is_fast_in_parts_and_slow_as_a_whole_does_not_win() -> None:
    assert searched(World(bowl, whole=lambda n: 1.0)) == (8, 8)


def test_a_gain_within_the_noise_is_none() -> None:
    assert searched(World(lambda n: 1.0 if n == (8, 8) else 1 / (LEAST_GAIN - 0.01))) == (8, 8)

    @dataclass
    class Noisy(World):
        """The default takes 1.1 s, the others 1 s, give or take a fifth from block to block."""

        def one(self, c: Candidate, seconds: Callable[[tuple[int, ...]], float]) -> Measured:
            base = 1.1 if numbers(c) == (8, 8) else 1.0
            shake = (1.0, 1.2, 0.8, 1.1, 0.9) if numbers(c) == (8, 8) else (1.2, 0.8, 1.0, 0.9, 1.1)
            return Measured("pass", "", tuple(base * s for s in shake))

    assert searched(Noisy(bowl)) == (8, 8)


@pytest.mark.parametrize("budget", [3.0, 5.0, 12.0])
def test_the_budget_is_kept(budget: float) -> None:
    world = World(bowl)
    found = climb(world, world, world.clock, budget)
    assert world.clock.now <= budget and found.seconds == world.clock.now
    assert found.trials, "the default is measured whatever the budget"


def test_a_default_that_cannot_be_measured_ends_it() -> None:
    found = climb(World(bowl, lambda n: "crash"), World(bowl, lambda n: "crash"), Clock(), 100)
    assert found.failed.startswith("crash") and not found.trials


def test_what_a_hard_limit_forbids_is_not_measured() -> None:
    world = World(bowl, refused=frozenset({12}))
    assert searched(world)[0] != 12 and all(12 not in n for n in world.measured)


def test_it_ends_when_nothing_better_is_found() -> None:
    world = World(lambda n: 1.0)
    climb(world, world, world.clock, 1e9)
    assert world.clock.now < 10


def test_an_interruption_leaves_through() -> None:
    world = World(bowl)

    def interrupted(candidates: Sequence[Candidate], seconds: float) -> list[Measured]:
        raise KeyboardInterrupt

    world.measure = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        climb(world, world, world.clock, 100)


# ---- the neighbours of a script


def test_neighbours_of_a_script() -> None:
    script = ("split i 8 tail=clamp", "split j 32 tail=pad", "reorder i.0 j.0 i.1 j.1", "unroll i.1", "parallel i.0")
    found = dict(neighbours(script))
    assert len(set(found.values())) == len(found) and script not in found.values()
    assert found["split i 8 → 6"][0] == "split i 6 tail=clamp"
    assert found["every 8 → 16, and its multiples"][:2] == ("split i 16 tail=clamp", "split j 64 tail=pad")
    assert found["no unroll i.1"] == (*script[:3], "parallel i.0")
    assert dict(neighbours(("split i 16", "prefetch i.0 j X")))["no prefetch i.0 j X"] == ("split i 16",)
    assert found["j.0 outside of i.0"][2:] == ("reorder j.0 i.0 i.1 j.1", "unroll i.1", "parallel j.0")
    assert list(dict(neighbours(script))) == list(found)


def test_numbers_stay_numbers() -> None:
    for n in (1, 2, 3, 7, 16, 17, 64, 4096):
        assert n not in values(n) and all(v >= 1 for v in values(n)) and list(values(n)) == sorted(set(values(n)))
    assert dict(neighbours(("tile j k 128 128",)))["tile j k 128 → 64"] == ("tile j k 64 128",)
