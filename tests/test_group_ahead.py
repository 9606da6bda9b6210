"""The step `prefetch_group`: each line that a loop over short rows reads or stores is asked for once, some of them ahead."""

from __future__ import annotations

import pytest
from luminal.ir.evaluate import evaluate
from luminal.ir.kernel import Kernel, Loop, Prefetch, statements
from luminal.ir.record import replace
from luminal.passes.schedule import Facts, StepError, cost, replay, unique
from scheduling import module, same
from test_chunks import WIDE, planned

ROWS = "(composite rows ((X{T}[M N]) -> (Y{T}[M N])) (return (softmax X :axis 1)))"


def scheduled(script: str) -> Kernel:
    m = module("softmax")
    return replay(unique(m.kernels[0]), Facts.of(m), script)


@pytest.mark.parametrize(("buffer", "write"), [("X", False), ("Y", True)])
@pytest.mark.parametrize("length", [16, 20, 33])
def test_each_line_is_asked_for(buffer: str, write: bool, length: int) -> None:
    kernel = scheduled(f"split i 4 tail=cut\nprefetch_group {buffer} i.0 ahead=512")
    (rows,) = (s for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == "i.0")
    (hints,) = (s for s in rows.body if isinstance(s, Loop) and any(isinstance(h, Prefetch) for h in s.body))
    (hint,) = hints.body
    assert isinstance(hint, Prefetch) and hint.buffer == buffer and hint.write == write
    asked: set[int] = set()
    for row in range(8):
        sizes = {"N": length, "i.0": row}
        for k in range(int(str(evaluate(hints.stop, sizes)))):
            at = [int(str(evaluate(e, {**sizes, hints.axis: k}))) for e in (*hint.index, hint.ahead)]
            asked.add((at[0] * length + at[1] + at[2]) // 16)
    assert asked >= set(range(128 // 16, (128 + 8 * 4 * length) // 16))


def test_hints_change_nothing() -> None:
    m = module("softmax")
    same(m, m.with_kernels((scheduled("split i 4 tail=cut\nprefetch_group X i.0\nprefetch_group Y i.0 ahead=128 least=64"),)))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("prefetch_group Z i", "is local, or no buffer"),
        ("prefetch_group X j", "less than a line of `X` at a time"),
        ("prefetch_group Y q", "reads and stores nothing of `Y`"),
    ],
)
def test_what_is_refused(script: str, message: str) -> None:
    with pytest.raises(StepError, match=message):
        scheduled(script)


def test_short_rows_from_memory_are_asked_for_by_machines_with_a_wide_first_cache() -> None:
    steps = planned(ROWS).schedule
    for buffer in "XY":
        assert f"prefetch_group {buffer} i.0 ahead={cost.GROUP_AHEAD} least={cost.stream_bytes(WIDE)}" in steps
    assert not any(line.startswith("prefetch_group") for line in planned(ROWS, replace(WIDE, l1=32 << 10)).schedule)
    shared = planned("(composite norm ((X{T}[M N] W{T}[N]) -> (Y{T}[M N])) (return (* W (/ X (sum (* X X) :axis 1 :keepdims t)))))").schedule
    assert not any(line.startswith("prefetch_group W") for line in shared)


def test_rows_that_no_size_makes_many_are_not_asked_for() -> None:
    assert not any(line.startswith("prefetch_group") for line in planned(ROWS.replace("M N", "1000 40")).schedule)
