"""What is known: what conditions say, and what of it is asked inside of loops and domains."""

from __future__ import annotations

import pytest
from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known, Range, bounds, fact
from luminal.ir.dtypes import INDEX, i32
from luminal.ir.expr import ONE, TRUE, Expr, axis, call, ceildiv, first, load, maximum, var
from luminal.ir.graph import Size
from luminal.ir.simplify import assuming, prove, simplify
from test_bounds import FREE, K, M, N, given, holds, i, j, k, p, v, w

# ---- what conditions say


@pytest.mark.parametrize(
    ("condition", "facts"),
    [
        (i.lt(j), [j - i - 1]),
        (i.le(j), [j - i]),
        (i.eq(j), [i - j, j - i]),
        (call("not_equal", i, j), []),
        (call("less_than", load("A", INDEX, i), j), []),
        (call("less_than", var("a", i32), var("b", i32)), []),
        (first("i"), []),
        (call("bit_not", i.lt(j)), []),
    ],
    ids=str,
)
def test_facts_of_a_condition(condition: Expr, facts: list[Expr]) -> None:
    assert fact(condition) == [pl.poly(f) for f in facts]


def test_a_bound_on_a_name_goes_into_its_range() -> None:
    known = given(Known({"i": (None, None, 1), "j": (0, N, 1)}), i * 2 - 5, i * -3 + 20, N - 4)
    assert known.ranges["i"] == Range(3, 6, 1) and known.ranges["N"].min == 4
    assert known.facts == ()
    assert given(known, i - 2).ranges["i"] == Range(3, 6, 1), "what says less changes nothing"
    assert given(known, i - 4).ranges["i"] == Range(4, 6, 1) and given(known, i * -1 + 5).ranges["i"] == Range(3, 5, 1)
    beside = given(known, 3 - j)
    assert beside.ranges["j"] == Range(0, N, 1) and len(beside.facts) == 1, "a symbolic end is kept, the number stands beside it"
    assert given(known, j - 1).ranges["j"] == Range(1, N, 1)


def test_a_fact_and_its_multiple_are_one() -> None:
    known = given(FREE, i - j - 1)
    assert given(known, i * 2 - j * 2 - 1) is known, "i - j > 1 / 2 says no more of integers than i - j > 0"
    assert len(given(known, i * 2 - j * 2 - 3).facts) == 2


def test_what_is_learned_from_products() -> None:
    """a · b >= 1 says a >= 1 and b >= 1 where neither is negative, x // d >= 1 says x >= d."""
    naturals = Known({"N": (0, None, 1), "M": (0, None, 1), "K": (0, None, 1), "w": (None, None, 1)})
    inside = given(naturals, N * M * K - 1)
    assert all(holds(e - 1, inside) for e in (N, M, K)) and not holds(N - 2, inside)
    assert not any(holds(e - 1, given(naturals, N * M * w - 1)) for e in (N, M))
    assert not holds(N - 1, given(naturals, N * M)) and not holds(N - 1, given(naturals, N * M + 1))
    assert not holds(N - 1, given(naturals, 3 - N * M))
    assert holds(N - 1, given(naturals, N * M * 3 - 2))
    assert holds(N - 8, given(naturals, N // 8 - 1)) and not holds(N - 9, given(naturals, N // 8 - 1))
    assert holds(N - 1, given(naturals, ceildiv(N, 8) - 1)) and not holds(N - 2, given(naturals, ceildiv(N, 8) - 1))
    assert holds(N - 8, given(naturals, (N // 8) * M - 1)) and holds(M - 1, given(naturals, (N // 8) * M - 1))
    by_size = given(naturals, (N // (M + 1)) * K - 1)
    assert holds(K - 1, by_size) and not holds(N - 8, by_size)
    assert not holds(N - 1, given(naturals, (N % 8) * (w // 4) - 1))
    signed = Known({"v": (-3, 5, 1), "w": (-3, 5, 1)})
    assert not holds(v - 1, given(signed, v * w - 1)) and not holds(w - 1, given(signed, v * w - 1))


# ---- divisors


def test_multiples_are_joined() -> None:
    known = Known({"N": (0, None, 4), "M": (2, 90, 6)})
    assert known.with_multiple("N", 6).ranges["N"] == Range(0, None, 12)
    assert known.with_multiple("M", 4).ranges["M"] == Range(2, 90, 12)
    assert known.with_multiple("K", 5).ranges["K"] == Range(None, None, 5)
    assert known.with_multiple("N", 6).multiple(pl.poly(N + 6)) == 6 and known.multiple(pl.poly(N + 6)) == 2, "the old one is as it was"
    assert known.multiple({}) == 0 and known.multiple(pl.poly(N * M * 5)) == 120
    assert prove((N % 12).eq(0), known.with_multiple("N", 6)) and not prove((N % 12).eq(0), known)


def test_a_divisor_of_a_condition() -> None:
    known = Known({"N": (0, None, 1), "M": (0, None, 1), "K": (1, None, 1)})
    assert assuming(known, (N % 6).eq(0)).ranges["N"].multiple == 6
    twice = assuming(assuming(known, (N % 6).eq(0)), (N % 4).eq(0))
    assert twice.ranges["N"].multiple == 12 and bounds(N * M, twice)[2] == 12
    assert assuming(known, (N % K).eq(0)).ranges["N"].multiple == 1
    assert assuming(known, ((N + M) % 6).eq(0)).ranges["N"].multiple == 1
    assert prove(((N + M) % 6).eq(0), assuming(known, ((N + M) % 6).eq(0)))
    assert assuming(known, (N % 6).eq(1)).ranges["N"].multiple == 1


# ---- scopes


def test_nothing_new_is_the_same_knowledge() -> None:
    """So that what is remembered stays."""
    known = Known({"N": (1, None, 1), "i": (0, N - 1, 1)})
    assert known.with_facts([]) is known and known.with_facts([pl.constant(3)]) is known
    assert given(known, N - 1) is known and given(known, N) is known, "already in its range"
    more = given(known, N - i * 2)
    assert more is not known and given(more, N - i * 2) is more
    assert more.base is known and more.home(N) is more and more.home(i * 2 + M) is more
    assert more.home(M) is known, "of which it says nothing"
    assert assuming(known, None) is known and assuming(known, TRUE) is known
    assert assuming(known, (i * 2).le(N)) is assuming(known, (i * 2).le(N)), "remembered"


def test_what_a_condition_says_nothing_of_has_the_form_that_it_has_outside() -> None:
    """So that both have one name."""
    known = Known({"N": (0, None, 1), "M": (0, None, 1)})
    chunks = maximum(ONE, M)
    under = assuming(known, (N * M).le(32))
    assert simplify(chunks, assuming(known, ONE.le(N))) is simplify(chunks, known) is not M
    assert simplify(maximum(ONE, N), assuming(known, ONE.le(N))) is N
    assert prove((N * M).le(40), under) and not prove((N * M).le(40), known)


def test_a_loop_around_is_asked_what_is_its_own() -> None:
    outer = Known({"N": (1, None, 1), "M": (0, None, 1)})
    loop = outer.with_ranges({"i": (0, N - 1, 1)})
    assert loop.outer is outer, "N >= 1 is known already"
    assert loop.home(N + 1) is outer and loop.home(i + N) is loop
    telling = outer.with_ranges({"i": (0, M - 1, 1)})
    assert telling.outer is None and telling.home(M + 1) is telling, "that the loop runs says that M >= 1"
    within = outer.with_ranges({"i": (0, M - 1, 1)}, within=outer)
    assert within.home(M + 1) is outer


def test_what_a_name_that_is_bound_again_was_part_of_is_forgotten() -> None:
    known = given(Known({"N": (1, None, 1), "i": (0, N - 1, 2), "j": (i, 9, 3), "k": (0, i + 4, 1)}), N * 2 - i * 3, N * 2 - j * 3, w - N)
    known = assuming(known, (w % N).eq(0))
    known = assuming(known, (w % i).eq(0))
    again = known.with_ranges({"i": (5, 6, 1)})
    assert again.ranges["i"] == Range(5, 6, 1) and again.ranges["j"] == Range(None, 9, 3) and again.ranges["k"] == Range(0, None, 1)
    assert holds(N * 2 - j * 3, again) and not holds(N * 2 - i * 3, again) and holds(w - N, again)
    assert again.zeros == (w % N,)


def test_positions_of_a_domain() -> None:
    known = Known({"N": (0, None, 1), "M": (0, None, 1)}).with_domain((N, M * 2))
    assert known.ranges["$0"] == Range(0, N - 1, 1)
    assert holds(M * 2 - 1 - axis(1), known) and holds(N - 1, known) and holds(M - 1, known)
    assert not holds(N - 2 - axis(0), known)


def test_inner_names_are_put_at_their_ends_first() -> None:
    known = Known({"N": (1, None, 1), "i": (0, N - 1, 1)}).with_ranges({"j": (0, i, 1)}).with_ranges({"k": (j, i, 1)})
    order = sorted((i, j, k, N, N // 2), key=known.elimination_order)
    assert order == [N // 2, k, j, i, N]
    beside = known.with_ranges({"p": (0, 3, 1)}).with_ranges({"v": (i, None, 1)}).with_ranges({"w": (None, i, 1)})
    assert sorted((i, p, v, w, N), key=beside.elimination_order) == [w, v, i, p, N], "what has symbolic ends before what has none"
    assert holds(N - 1 - k, known) and holds(i - j, known) and holds(k * 2 - j * 2, known) and not holds(j - k, known)
    assert bounds(k - N, known)[1] == -1 and bounds(i - k, known)[0] == 0 and bounds(j - k, known)[1] == 0


def test_what_ends_at_a_quotient_goes_before_it() -> None:
    """Vectors of a tail: the last of them has an element, and a quotient that both sides have cancels; not where the quotient is of the variable itself."""
    whole = N // 64
    known = Known({"N": (0, None, 1)}).with_ranges({"q": (0, (N + 15) // 16 - whole * 4 - 1, 1)})
    q = var("q")
    assert holds(N - whole * 64 - q * 16 - 1, known) and not holds(N - whole * 64 - q * 16 - 2, known)
    own = Known({"N": (0, None, 1)}).with_ranges({"i": (0, whole, 1)})
    assert holds(N - i * 64, own) and holds(whole - i + i // 2 - i // 2, own) and holds(N - i // 3, own)


@pytest.mark.parametrize("kind", ["Size", "tuple", "Range"])
def test_ranges_are_given_in_three_ways(kind: str) -> None:
    given_as = {"Size": Size("N", 2, 9, 2), "tuple": (2, 9, 2), "Range": Range(2, 9, 2)}[kind]
    assert Known({"N": given_as}).ranges["N"] == Range(2, 9, 2)
