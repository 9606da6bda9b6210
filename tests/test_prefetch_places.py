"""The step `prefetch` with places: each line of a row is asked for once."""

from __future__ import annotations

import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.evaluate import evaluate
from luminal.ir.kernel import Loop, Prefetch, statements
from luminal.ir.record import replace
from luminal.passes.schedule import Facts, StepError, cost, replay, unique
from scheduling import CPU, module
from test_chunks import WIDE, planned


@pytest.mark.parametrize("width", [4, 16, 32, 64])
def test_hints_in_places_ask_for_each_line_of_a_row_once(width: int) -> None:
    before = module("softmax")
    kernel = replay(unique(before.kernels[0]), Facts.of(before), f"split q {width} tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 i places=4")
    loop = next(s for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == "q.0")
    hints = [s for s in statements(loop.body) if isinstance(s, Prefetch)]
    length = 1024
    asked = [evaluate(h.index[1], {"N": length, "q.0": k}) for k in range(length // width) for h in hints]
    assert sorted(asked) == list(range(0, length, min(width, 16)))
    parts = [{at * 4 // length for at in asked[k : k + 4]} for k in range(0, len(asked), 4)]
    assert all(part == {0, 1, 2, 3} for part in parts)


def test_machines_with_a_small_first_cache_ask_for_the_next_row_in_order() -> None:
    assert [cost.places(replace(CPU, l1=size << 10)) for size in (32, 48)] == [1, 4]


def test_tiles_of_a_long_axis_ask_for_what_stands_behind_them() -> None:
    """By a constant, in each of their lines: what comes next is an address that is known anyway."""
    (compilation,) = compilations("logsumexp", Settings(runtime="clang", target="x86-64-v4"))
    (tiles,) = (s for s in statements(compilation.module.kernels[0].body) if isinstance(s, Loop) and s.axis == "p")
    hints = [s for s in statements(tiles.body) if isinstance(s, Prefetch)]
    assert hints and all(h.ahead.is_const and h.cache == 2 for h in hints)


def test_the_last_trips_of_a_row_ask_for_what_the_next_tile_reads_first() -> None:
    before = module("transpose")
    tiles = "tile i j 64 16\nsplit i.1 16 tail=cut\nreorder j.1 i.1.1\nsplit j.1 16 tail=cut\nreorder i.1.1 j.1.1\nunroll i.1.1\nvectorize j.1.1"
    kernel = replay(unique(before.kernels[0]), Facts.of(before), f"{tiles}\nprefetch X j.1.0 i.1.0 trips=2 on=j.0")
    hint = next(s for s in statements(kernel.body) if isinstance(s, Prefetch))
    ahead = [evaluate(hint.ahead, {"M": 320, "N": 640, "i.0": 1, "j.0": 3, "i.1.0": k}) for k in range(4)]
    assert ahead == [32, 32, 16 * 640 - 32, 16 * 640 - 32]


@pytest.mark.parametrize(("on", "reason"), [("i.1.1", "no loop around"), ("j.1.0", "no loop around"), ("i.1.0", "no loop around")])
def test_hints_that_go_on_want_a_loop_around_the_row(on: str, reason: str) -> None:
    before = module("transpose")
    tiles = "tile i j 64 16\nsplit i.1 16 tail=cut\nreorder j.1 i.1.1\nsplit j.1 16 tail=cut\nreorder i.1.1 j.1.1\nunroll i.1.1\nvectorize j.1.1"
    with pytest.raises(StepError, match=reason):
        replay(unique(before.kernels[0]), Facts.of(before), f"{tiles}\nprefetch X j.1.0 i.1.0 trips=2 on={on}")


SUMS = "(composite sums ((X{T}[M N]) -> (Y{T}[M])) (return (sum X :axis 1)))"


def test_rows_that_one_reduction_reads_are_asked_for_where_they_come_from_memory() -> None:
    """In a variant of its own, of rows that are not very short: others would ask whether they do row by row."""
    steps = planned(SUMS).schedule
    asking = f"prefetch X p.0 p.0 near={cost.ONCE_AHEAD} cache=2"
    variants = [k for k, line in enumerate(steps) if line.startswith("variant")]
    (place,) = [k for k, line in enumerate(steps) if line == asking]
    assert steps[max(k for k in variants if k < place)] == f"variant 64 <= N & {cost.FAR_LEAST // 4} <= M * N"
    assert place < variants[-1]
    assert asking not in planned(SUMS, replace(WIDE, l1=32 << 10)).schedule
    twice = "(composite twice ((X{T}[M N]) -> (Y{T}[M N])) (return (softmax X :axis 1)))"
    assert not any("near=16384" in line for line in planned(twice).schedule)  # the second pass asks for the next row


STORED = "split q 64 tail=cut\nrfactor q.1\nvectorize q.1\nsplit j 64 tail=cut\nvectorize j.1"


def test_what_is_asked_again_is_what_was_asked_for_before() -> None:
    before = module("softmax")
    asked: list[list[int]] = []
    for more in ("", " again=2048"):
        kernel = replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 i{more}")
        hints = [s for s in statements(kernel.body) if isinstance(s, Prefetch)]
        asked.append([int(str(evaluate(h.index[1] + h.ahead, {"N": 4096, "j.0": 20}))) for h in hints])
    assert asked[1] == [at - late for late in (512, 1024) for at in asked[0]]


def test_only_what_is_asked_for_in_order_is_asked_again() -> None:
    before = module("softmax")
    with pytest.raises(StepError, match="only what is asked for in order"):
        replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 i places=4 again=2048")


def test_long_rows_beside_results_that_go_past_the_caches_are_asked_for_again() -> None:
    (compilation,) = compilations("rms_norm", Settings(runtime="clang", target="x86-64-v4"))
    lines = [line for line in compilation.module.kernels[0].schedule if line.startswith("prefetch X")]
    assert any("again=" in line and "over=" in line and "least=" in line for line in lines)
    for name, target in (("logsumexp", "x86-64-v4"), ("rms_norm", "x86-64-v3")):  # nothing is stored; stores of half a line
        (compilation,) = compilations(name, Settings(runtime="clang", target=target))
        assert not any("again=" in line for line in compilation.module.kernels[0].schedule)


def test_what_is_asked_for_several_times_is_asked_for_from_ever_nearer() -> None:
    """Each time the same lines, the last time a part of the distance ahead; of rows that lie anywhere apart, in rows."""
    before = module("softmax")
    asked: list[list[int]] = []
    for options in ("near=49152", "near=49152 times=3", "near=49152 times=2"):
        kernel = replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 j.0 {options}")
        hints = [s for s in statements(kernel.body) if isinstance(s, Prefetch)]
        asked.append([int(str(evaluate(h.index[1] + h.ahead, {"N": 4096, "j.0": 20}))) for h in hints])
    assert asked[1] == [at - late for late in (0, 4096, 8192) for at in asked[0]]
    assert asked[2] == [at - late for late in (0, 6144) for at in asked[0]]
    kernel = replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 i trips=6 times=3")
    ahead = [evaluate(s.ahead, {"M": 100, "N": 1000}) for s in statements(kernel.body) if isinstance(s, Prefetch)]
    assert list(dict.fromkeys(ahead)) == [6000, 4000, 2000]


@pytest.mark.parametrize("options", ["near=8192 times=0", "places=4 times=2", "trips=2 times=3", "again=2048 times=2"])
def test_what_is_not_asked_for_several_times(options: str) -> None:
    before = module("softmax")
    with pytest.raises(StepError, match="several times"):
        replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 i {options}")


@pytest.mark.parametrize(("target", "times"), [("x86-64-v4", (3, 3, 2, 1)), ("x86-64-v3", (3, 2, 1, 1))])
def test_the_longer_a_line_is_worked_on_the_fewer_times_it_is_asked_for(target: str, times: tuple[int, ...]) -> None:
    """One query, two, four and eight share what they read of a cache that comes from memory; with vectors of half a line, four are as much work as eight."""
    text = """(composite grouped ((Q{{T}}[G {0} D] K{{T}}[G M D] V{{T}}[G M E]) -> (O{{T}}[G {0} E]))
      (return (einsum "gaj,gje->gae" (softmax (einsum "gad,gjd->gaj" Q K) :axis -1) V)))"""
    for rows, most in zip((1, 2, 4, 8), times, strict=True):
        (compilation,) = compilations(text.format(rows), Settings(runtime="clang", target=target))
        lines = [line for line in compilation.module.kernels[0].schedule if line.startswith("prefetch") and "cache=2" in line and "times=" in line]
        assert max([int(line.split("times=")[1].split()[0]) for line in lines], default=1) == most


def test_a_small_buffer_is_asked_for_once() -> None:
    """The hints beside the first then ask for what is read now, which the first cache holds."""
    before = module("softmax")
    kernel = replay(unique(before.kernels[0]), Facts.of(before), f"{STORED}\nprefetch X j.0 j.0 near=49152 times=3 often=33554432")
    hints = [s for s in statements(kernel.body) if isinstance(s, Prefetch)]
    for rows, expected in ((2048, [12288, 8192, 4096]), (2047, [12288, 0, 0])):
        assert list(map(int, (str(evaluate(h.ahead, {"M": rows, "N": 4096})) for h in hints[:: len(hints) // 3]))) == expected
