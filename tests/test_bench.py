"""The benchmarks run: what they print is looked at by people, never asserted."""

from __future__ import annotations

from luminal.bench.passes import PIPELINE, measure, total


def test_every_pass_is_measured() -> None:
    cold, warm = measure("dot", "clang:x86-64-v3", 1)
    assert list(cold) == list(warm) == [p.name for p in PIPELINE]
    assert total(warm) > 0
