"""Points that satisfy what is known: how values are chosen, carried along and evaluated."""

from __future__ import annotations

import itertools

import pytest
from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known, Range
from luminal.ir.dtypes import INDEX, f32, i32
from luminal.ir.expr import ZERO, Expr, axis, both, call, cast, const, floordiv, load, minimum, size, var, where
from luminal.ir.graph import Size
from luminal.ir.simplify import assuming
from luminal.ir.witness import HIGH, LOW, MIDDLE, MOST, TURNS, Point, alike, points

N, M, i, j = size("N"), size("M"), var("i"), var("j")


def chosen(point: Point, low: int | None, high: int | None, multiple: int) -> int | None:
    return point.names["n"] if point.choose("n", low, high, multiple) else None


@pytest.mark.parametrize(
    ("taste", "low", "high", "multiple", "value"),
    [
        (LOW, 3, 9, 1, 3),
        (HIGH, 3, 9, 1, 9),
        (MIDDLE, 3, 9, 1, 6),
        (MIDDLE, 3, 8, 1, 5),
        (LOW, 3, 9, 4, 4),
        (HIGH, 3, 9, 4, 8),
        (MIDDLE, 3, 11, 4, 4),
        (LOW, 4, 4, 4, 4),
        (LOW, 5, 7, 4, None),
        (HIGH, 5, 8, 4, 8),
        (LOW, 9, 3, 1, None),
        (HIGH, -9, -1, 4, -4),
        (HIGH, 0, MOST, 1, MOST),
        (HIGH, 0, MOST + 1, 1, 100),
        (HIGH, -1, MOST, 1, 100),
        (HIGH, None, None, 1, 100),
        (HIGH, None, None, 8, 96),
        (HIGH, 200, None, 1, 300),
        (HIGH, 201, None, 8, 296),
        (HIGH, None, 30, 1, 30),
        (HIGH, None, 30, 8, 24),
        (HIGH, None, -30, 8, -32),
    ],
)
def test_a_value_is_in_its_range(taste: int, low: int | None, high: int | None, multiple: int, value: int | None) -> None:
    assert chosen(Point(100, 0, taste), low, high, multiple) == value


def test_unbounded_names_differ_by_the_slope() -> None:
    point = Point(50, -20, LOW)
    assert all(point.choose(n, None, None, 1) for n in "abcd")
    assert point.names == {"a": 50, "b": 30, "c": 10, "d": -10}


def test_every_choice_is_admitted() -> None:
    """By brute force: what is chosen lies within the bounds, and only where nothing does is there no choice."""
    for taste, low, high, multiple in itertools.product((LOW, MIDDLE, HIGH), (None, -5, 0, 3), (None, -4, 2, 7), (1, 2, 5)):
        point = Point(11, 3, taste)
        if point.choose("n", low, high, multiple):
            assert point.admits("n", low, high, multiple), (taste, low, high, multiple)
        elif low is not None and high is not None:
            assert not any(v % multiple == 0 for v in range(low, high + 1)), (taste, low, high, multiple)


@pytest.mark.parametrize(
    ("low", "high", "multiple", "yes"),
    [
        (6, 6, 1, True),
        (None, None, 1, True),
        (7, None, 1, False),
        (None, 5, 1, False),
        (None, None, 4, False),
        (None, None, 3, True),
        (0, 9, 2, True),
    ],
)
def test_admits(low: int | None, high: int | None, multiple: int, yes: bool) -> None:
    assert Point(0, 0, LOW, {"n": 6}).admits("n", low, high, multiple) == yes


def test_values() -> None:
    point = Point(0, 0, LOW, {"N": 7, "i": 3, "$1": 2, "a": 5})
    assert point.of(N * i + axis(1)) == 23 and point.of(const(4)) == 4
    assert point.of(N // i) == 2 and point.of(N % i) == 1 and point.of(minimum(N, i)) == 3
    assert point.of(where(i.lt(N), i, N)) == 3 and point.of(i.lt(N)) == 1
    assert point.of(M + 1) == 1 and point.names["M"] == 0 and point.of(where(i.lt(N), i, M)) == 3, "of M nothing is known: some value will do"
    assert point.of(load("A", INDEX, ZERO)) is None and point.of(var("f", f32)) is None
    assert point.of(var("a", i32)) is None, "narrow integers wrap"
    assert point.of(cast(INDEX, var("a", i32))) is None
    assert point.of(N // (i - 3)) is None, "no value where it divides by 0"
    assert point.at(pl.poly(N * i * 2 - i + 4)) == 43 and point.at({}) == 0 and point.at({(): -2}) == -2
    assert point.at(pl.poly(N + load("A", INDEX, ZERO))) is None and point.at(pl.poly(N * (i // 2))) == 7
    assert point.memo[N // i] == 2, "remembered"


def test_a_copy_goes_its_own_way() -> None:
    point = Point(9, 2, HIGH, {"N": 7})
    assert point.of(N + 1) == 8
    other = point.copy()
    assert (other.seed, other.slope, other.taste, other.names, other.memo) == (9, 2, HIGH, {"N": 7}, point.memo)
    assert other.choose("i", 0, 4, 1) and other.of(i + N) == 11
    assert "i" not in point.names and i + N not in point.memo


def test_the_kinds_of_points() -> None:
    """Sizes small, large, falling and rising; variables at either end, between, and at one end and the other in turn."""
    kinds = list(points())
    assert sorted({p.taste for p in kinds}) == [TURNS, LOW, MIDDLE, HIGH] == [-1, 0, 1, 2]
    for p in kinds:
        assert p.names == {} and all(p.choose(n, 0, None, 1) for n in "ab")
    assert {p.names["a"] < p.names["b"] for p in kinds} == {True, False}
    assert any(p.names["a"] > p.names["b"] for p in kinds) and any(p.names["a"] == p.names["b"] == 0 for p in kinds)


def test_one_end_and_the_other_in_turn() -> None:
    point = Point(9, 0, TURNS)
    assert all(point.choose(n, 2, 6, 1) for n in "abcd")
    assert point.names == {"a": 2, "b": 6, "c": 2, "d": 6}


def test_a_part_of_an_inner_block_is_refuted() -> None:
    """Neither end of all ranges shows that the last block may be a part while a loop around it has trips left."""
    known = Known({"N": (49, None, 1), "K": (1, None, 1)})
    known = known.with_ranges({"p": (0, floordiv(size("K") + 1023, const(1024)) - 1, 1)}).with_ranges({"i": (0, floordiv(N + 5, const(6)) - 1, 1)})
    known = assuming(known, (var("p") * 1024 + 1024).lt(size("K")))
    assert known.refuted(pl.poly(N - i * 6 - 6)) and known.refuted(pl.poly(i * 6 + 5 - N))


NEST = Known({"N": (0, None, 1), "M": (1, None, 4)}).with_ranges({"i": (0, N - 1, 1)}).with_ranges({"j": (i, M - 1, 2)})


def test_points_are_carried_into_scopes() -> None:
    known = assuming(NEST, (i + j).le(N))
    found = known._find_points()
    assert found and all(p.names.keys() == {"N", "M", "i", "j"} for p in found)
    for p in found:
        n, m, a, b = (p.names[x] for x in ("N", "M", "i", "j"))
        assert 0 <= a < n and m >= 1 and m % 4 == 0 and a <= b < m and b % 2 == 0 and a + b <= n
    assert any(p.names["N"] > 1000 for p in found), "large ones too"
    assert NEST._points, "those of the scope around are remembered"
    assert known._find_points() == found
    around = NEST.base
    assert around is not None and all(p.names.keys() >= {"N", "M", "i"} for p in around._find_points()), "that is still what those agree with"


def test_a_point_that_a_condition_rules_out_is_dropped() -> None:
    known = Known({"N": (0, None, 1), "M": (0, None, 1)})
    everything = len(known._find_points())
    assert everything == len(list(points()))
    some = assuming(known, N.le(M))
    assert 0 < len(some._find_points()) < everything
    values = [(p.of(N), p.of(M)) for p in some._find_points()]
    assert all(n is not None and m is not None and n <= m for n, m in values)
    divisible = assuming(known, ((N + M) % 7).eq(0))
    assert all(p.of((N + M) % 7) == 0 for p in divisible._find_points())
    assert assuming(known, load_bound()).refuted(pl.poly(N * -1 - 1)) is False, "a fact that has no value at a point leaves none"


def load_bound():
    return call("less_equal", N, call("floordiv", M, var("nobody") - var("nobody")))


def test_where_a_condition_leaves_no_point_all_are_chosen_anew() -> None:
    known = assuming(Known({"N": Size("N"), "batch": Size("batch")}), call("bit_and", size("batch").le(32), const(1 << 15).le(N)))
    inside = known.with_ranges({"b": (0, size("batch") - 1, 1)})
    assert len(inside._find_points()) >= 2
    assert all(p.names["N"] >= 1 << 15 and 1 <= p.names["batch"] <= 32 and 0 <= p.names["b"] < p.names["batch"] for p in inside._find_points())
    assert inside.refuted(pl.poly(N * -1 + 40000)) and inside.refuted(pl.poly(N - 40000)), "they differ"
    assert not inside.refuted(pl.poly(N - (1 << 15)))


def test_points_that_are_chosen_anew_obey_relations_between_names() -> None:
    """c·n + (names before n) >= 0, with c > 0 and c < 0, rounded to the inside."""
    known = assuming(assuming(Known({"N": Size("N", 5), "M": Size("M")}), (M * 2).le(N + 1)), (N - 3).lt(M * 2))
    assert len(known._find_points()) >= 2
    assert all(p.names["N"] - 3 < p.names["M"] * 2 <= p.names["N"] + 1 for p in known._find_points())
    assert known.refuted(pl.poly(N - M)) is False and known.refuted(pl.poly(M - N)) is True


def test_a_point_has_the_value_that_a_range_is_exactly() -> None:
    around = Known({"N": (0, None, 1)}).with_ranges({"i": (0, N * 3 - 1, 1)}).with_ranges({"q": Range(0, None, 1, i // 3)})
    assert around._find_points() and all(p.names["q"] == p.names["i"] // 3 for p in around._find_points())
    assert not around.refuted(pl.poly(N - 1 - var("q"))) and around.refuted(pl.poly(var("q") - 1))
    later = around.with_facts([pl.poly(var("q") - 5)])
    assert later._find_points() and all(p.names["q"] >= 5 for p in later._find_points())
    again = around.with_ranges({"i": (7, 9, 1)})
    assert again.ranges["q"].exactly is None, "it was of the old i, which is forgotten"


def test_a_name_of_which_nothing_is_known_has_some_value_until_something_is() -> None:
    around = Known({"N": Size("N")}).with_ranges({"i": (0, var("chunks") * N - 1, 1)})
    assert len(around._find_points()) >= 2
    assert all(0 <= p.names["i"] < p.names["chunks"] * p.names["N"] for p in around._find_points())
    assert around.refuted(pl.poly(i - 1)) and around.refuted(pl.poly(var("chunks") * -1 + 1)) and not around.refuted(pl.poly(i))
    inside = around.with_ranges({"chunks": (1, 4, 1)})
    assert all(1 <= p.names["chunks"] <= 4 and p.names["i"] < p.names["chunks"] * p.names["N"] for p in inside._find_points())
    assert around.refuted(pl.poly(var("j") + N - 6000)) and "j" in around._find_points()[0].names
    loop = around.with_ranges({"j": (0, 4, 1)})
    assert loop._find_points() and all(0 <= p.names["j"] <= 4 for p in loop._find_points()), "chosen again"
    assert not loop.refuted(pl.poly(4 - j)) and loop.refuted(pl.poly(3 - j))


def test_where_one_size_is_a_multiple_of_another_there_are_points_of_equal_sizes() -> None:
    known = Known({n: Size(n) for n in ("H", "G", "N")})
    heads, groups = size("H"), size("G")
    divisible = assuming(known, (heads % groups).eq(0)).with_ranges({"i": (0, heads // groups * N - 1, 1)})
    found = divisible._find_points()
    assert len(found) >= 2 and all(p.names["H"] % p.names["G"] == 0 and 0 <= p.names["i"] < p.names["N"] for p in found)
    assert divisible.refuted(pl.poly(i - 1)) and divisible.refuted(pl.poly(N - i - 2)), "at either end of the loop"
    assert all(p.names == {} for p in alike())


@pytest.mark.parametrize("names", ["MN", "NM"])
def test_there_are_points_of_many_short_rows(names: str) -> None:
    known = assuming(Known({n: Size(n) for n in names}), both(N.le(12), const(3 << 20).le(M * N)))
    assert known.points and all(p.names["N"] <= 12 for p in known.points)
    assert known.refuted(pl.poly(M - N * 200000))


def test_where_an_end_has_no_value_there_is_no_point() -> None:
    data = load("A", INDEX, ZERO)
    assert Known({"i": (0, data, 1)})._find_points() == []
    assert Known({"i": (data, 9, 1)})._find_points() == []
    assert not Known({"i": (0, data, 1)}).refuted(pl.poly(i - 5))
    assert Known({"i": (None, 9, 1)}).refuted(pl.poly(i - 9)) and Known({"i": (2, None, 1)}).refuted(pl.poly(i * -1 + 5000))


def test_an_end_of_which_nothing_is_known_has_some_value() -> None:
    found = Known({"i": (0, var("anybody"), 1)})._find_points()
    assert found and all(0 <= p.names["i"] <= p.names["anybody"] for p in found)


def test_only_what_is_negative_refutes() -> None:
    known = Known({"i": (0, 0, 1)})
    assert not known.refuted(pl.poly(i)) and not known.refuted({}) and known.refuted(pl.poly(i - 1))


def test_where_few_points_are_left_a_loop_has_both_ends() -> None:
    """What holds at the beginning of a loop alone is refuted at its end."""
    known = Known({"N": Range(40, 40)})
    del known.points[1:]
    inside = known.with_ranges({"i": Range(ZERO, N - 1)})
    assert {p.names["i"] for p in inside.points} == {0, 39}
    assert inside.refuted(pl.poly(const(8) - i))


TAIL = N - N // 64 * 64


@pytest.mark.parametrize(
    "conditions",
    [
        (const(16).lt(TAIL), TAIL.le(32)),
        (const(48).lt(TAIL), (N * M).le(5000), const(9).lt(M)),
        (TAIL.le(5), const(300).le(N), (N * M).le(1 << 20), const(1 << 16).le(N * M)),
        ((N * M).le(64), const(20).le(M)),
    ],
)
def test_points_are_found_within_products_and_remainders(conditions: tuple[Expr, ...]) -> None:
    known = Known({"N": Size("N"), "M": Size("M")})
    for c in conditions:
        known = assuming(known, c)
    assert known.facts
    assert known.points
    for point in known.points:
        assert all(point.of(c) for c in conditions), point.names


def test_what_is_made_of_a_moved_name_is_forgotten() -> None:
    point = Point(0, 0, LOW, {"N": 100, "M": 3})
    assert point.of(TAIL + M) == 39
    point.move("N", 20)
    assert (point.of(TAIL + M), point.of(M * 2)) == (23, 6)
