"""Points looked for where a proof would be long: they agree with all that is known, and the search ends with them."""

from __future__ import annotations

import random

import pytest
from luminal.ir import bounds, counterexamples, polynomial as pl
from luminal.ir.bounds import Known, Range
from luminal.ir.counterexamples import counterexample
from luminal.ir.expr import Expr, ceildiv, const, floordiv, minimum, size, var
from luminal.ir.graph import Size
from luminal.ir.simplify import assuming
from luminal.ir.witness import Point

M, i, J, K = size("M"), var("i"), var("j"), var("k")


def agrees(point: Point, known: Known) -> bool:
    for n, r in known.ranges.items():
        low, high, exactly = (point.of(e) if isinstance(e, Expr) else e for e in (r.min, r.max, r.exactly))
        value = point.names[n]
        if (low is not None and value < low) or (high is not None and value > high) or value % r.multiple or exactly not in (None, value):
            return False
    return all((value := point.at(f)) is not None and value >= 0 for f in known.facts) and all(point.of(z) == 0 for z in known.zeros)


def shares(factor: int) -> tuple[Known, pl.Poly]:
    """Rows shared among blocks, as the blocks of a product are: the last row that a block's tile could have is within M; it is not."""
    count = ceildiv(M, 32 * factor) * 4
    rows = ceildiv(M, factor)
    first, behind = floordiv(i * rows, count), floordiv((i + 1) * rows, count)
    known = assuming(Known({"M": Size("M", 1)}), const(0).lt(count)).with_ranges({"i": Range(const(0), count - 1)})
    known = assuming(known, first.lt(behind)).with_ranges({"j": Range(const(0), minimum(const(8), behind - first) - 1)})
    p = pl.poly(M - (first + J) * factor - factor)
    known.points[:] = [point for point in known.points if (point.at(p) or 0) >= 0]
    assert known.points
    return known, p


@pytest.mark.pure
def test_a_long_search_ends_with_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    known, p = shares(6)
    points = len(known.points)
    monkeypatch.setattr(bounds, "LONG", bounds.FUEL - 2)
    looked_at: list[pl.Poly] = []
    prove = Known._by_elimination
    monkeypatch.setattr(Known, "_by_elimination", lambda self, q, depth, used: looked_at.append(q) or prove(self, q, depth, used))
    assert not known.nonnegative(p)
    assert len(known.points) == points + 1 and known.refuted(p) and all(agrees(point, known) for point in known.points)
    short = len(looked_at)
    monkeypatch.setattr(bounds, "counterexample", lambda known, p: None)
    known, p = shares(6)
    looked_at.clear()
    assert not known.nonnegative(p)
    assert short < len(looked_at)


def test_what_was_cut_short_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side condition on the way counts as unknown, not as without a proof."""
    known, p = shares(6)
    monkeypatch.setattr(bounds, "LONG", bounds.FUEL - 2)
    before = dict(known._asides)
    assert not known.nonnegative(p) and known._fuel <= bounds.REFUTED
    assert known._asides == before
    assert known.nonnegative(pl.poly(M - 1)) and known.nonnegative(pl.poly(J))


@pytest.mark.parametrize("seed", range(40))
def test_points_agree_with_what_is_known(seed: int) -> None:
    rng = random.Random(seed)
    known = Known({"M": Range(rng.randint(0, 3), rng.choice((None, 40)), rng.choice((1, 4)))})
    known = known.with_ranges({"i": Range(const(0), M + rng.randint(0, 3))})
    if rng.random() < 0.5:
        known = assuming(known, i.le(M + -1))
    known = known.with_ranges({"j": Range(i * rng.randint(0, 1), i + rng.randint(0, 9), rng.choice((1, 2)))})
    known = known.with_ranges({"k": Range(floordiv(J, const(3)), J + 4, 1, floordiv(J + 2, const(3)))})
    p = pl.poly(M * rng.randint(-2, 2) + i * rng.randint(-2, 2) + J * rng.randint(-2, 2) + K * rng.randint(-1, 1) + rng.randint(0, 9))
    found = counterexample(known, p)
    if found is not None:
        value = found.at(p)
        assert value is not None and value < 0 and agrees(found, known)
    for point in known.points:
        for name in known.ranges:
            for end in (counterexamples.LOW, counterexamples.HIGH):
                other = counterexamples.moved(known, point, name, end)
                assert other is None or (agrees(other, known) and other.names[name] != point.names[name])


def test_some_are_found() -> None:
    known = Known({"M": Size("M", 1)}).with_ranges({"i": Range(const(0), M - 1)}).with_ranges({"j": Range(i, M + 5)})
    for p in (M * 2 - J - 1, M + 2 - J, M - i - J + 5, M * 4 - i - J * 3 + 3):
        known.points[:] = [point for point in known.points if (point.at(pl.poly(p)) or 0) >= 0]
        found = counterexample(known, pl.poly(p))
        assert found is not None and agrees(found, known)
    assert counterexample(known, pl.poly(M + 5 - J)) is None


def test_a_factor_of_all_terms_does_not_hide_the_others() -> None:
    """k * (H - R + 1) is 0, and less than before, where k is: from there nothing leads to where it is negative."""
    known = Known({"H": Size("H"), "R": Size("R")}).with_ranges({"k": Range(const(0), None)})
    H, R = size("H"), size("R")
    p = pl.poly((H - R + 1) * K)
    known.points[:] = [point for point in known.points if (point.at(p) or 0) > 0]
    assert known.points
    point = counterexample(known, p)
    assert point is not None and agrees(point, known) and (value := point.at(p)) is not None and value < 0
