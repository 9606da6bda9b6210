"""Intervals, divisors and proofs: what must be found, exactly, and what must not.

Linear goals over a triangular domain are compared with brute force in both directions: what holds at every point has a proof, what fails somewhere has none.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known, bounds
from luminal.ir.dtypes import INDEX, i32
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import Expr, axis, call, cast, ceildiv, const, floordiv, load, maximum, minimum, size, total, var, where
from luminal.ir.graph import Size

N, M, K = map(size, "NMK")
i, j, k, p, v, w = map(var, "ijkpvw")
FREE = Known(dict.fromkeys("ijkpvw", (None, None, 1)))


def holds(e: Expr, known: Known) -> bool:
    return known.nonnegative(pl.poly(e))


def given(known: Known, *expressions: Expr) -> Known:
    """Also that these are >= 0."""
    return known.with_facts(pl.poly(e) for e in expressions)


# ---- linear goals, both ways

TRIANGLE = Known({"N": (1, None, 1), "i": (0, N - 1, 1), "j": (i, N - 1, 1), "k": (-2, 3, 1)})
# a linear goal is least at a corner, and between two values of N at one of them
POINTS = np.array([(n, a, b, c) for n in (1, 1000) for a in (0, n - 1) for b in (a, n - 1) for c in (-2, 3)]).T


@pytest.mark.parametrize("ck", [0, 1, -2])
def test_linear_goals_have_a_proof_exactly_where_they_hold(ck: int) -> None:
    for cn, ci, cj, offset in itertools.product((-1, 0, 1, 2), (-2, -1, 0, 1, 2), (-2, -1, 0, 1), (-7, -2, -1, 0, 1, 2, 6)):
        goal = N * cn + i * ci + j * cj + k * ck + offset
        least = int((np.array([cn, ci, cj, ck]) @ POINTS + offset).min())
        assert holds(goal, TRIANGLE) == (least >= 0), (str(goal), least)


def test_points_where_it_fails_are_met_before_a_proof_is_looked_for() -> None:
    for goal in (N - 2, i - 1, N - 2 - i, i - j, j - i - 1, k * -1 + 2, k + 1):
        assert TRIANGLE.refuted(pl.poly(goal)), goal
    for goal in (N - 1, i, N - 1 - i, j - i, k * -1 + 3, k + 2):
        assert not TRIANGLE.refuted(pl.poly(goal)), goal


# ---- the integer bounds of an expression

RANGES = {"N": (1, None, 4), "M": (2, 9, 1), "K": (0, None, 6), "i": (0, N - 1, 1), "j": (-3, 5, 1), "k": (0, M - 1, 1), "p": (None, 7, 1), "v": (2, None, 2), "w": (None, None, 1)}  # fmt: skip
KNOWN = Known(RANGES)


@pytest.mark.parametrize(
    ("e", "low", "high", "multiple"),
    [
        (const(0), 0, 0, 0),
        (const(6), 6, 6, 6),
        (const(-6), -6, -6, 6),
        (N, 1, None, 4),
        (N * -3, None, -3, 12),
        (M, 2, 9, 1),
        (M * 2 + j * 3 + 1, -4, 34, 1),
        (N * 2 + K * 2, 2, None, 4),
        (N * K, 0, None, 24),
        (N * K + 3, 3, None, 3),
        (i - N, None, -1, 1),
        (N - i, 1, None, 1),
        (k - M, -9, -1, 1),
        (M - k, 1, 9, 1),
        (k * 2 - M, -9, 7, 1),
        (p, None, 7, 1),
        (p * -2, -14, None, 2),
        (v * 3, 6, None, 6),
        (v * -1, None, -2, 2),
        (w, None, None, 1),
        (j * k, -24, 40, 1),
        (j * j, -15, 25, 1),
        (j // 2, -2, 2, 1),
        (j // M, -2, 2, 1),
        (N // 2, 0, None, 2),
        (N // 4, 0, None, 1),
        (N // -2, None, None, 2),
        (N // 3, 0, None, 1),
        ((N * 2 + K * 4) // 8, 0, None, 1),
        (N * 3 // 6 * 5, 0, None, 10),
        (j % 4, 0, 3, 1),
        (j % M, 0, 8, 1),
        (M % 20, 0, 9, 1),
        (j % N, 0, None, 1),
        ((N * 2) % 12, 0, 11, 4),
        (K % 4, 0, 3, 2),
        (minimum(N * 2, K), 0, None, 2),
        (minimum(j, M), -3, 5, 1),
        (maximum(j, M), 2, 9, 1),
        (maximum(w, 4), 4, None, 1),
        (minimum(w, 4), None, 4, 1),
        (maximum(N * 3, K), 3, None, 6),
        (where(w.lt(3), j, M), -3, 9, 1),
        (where(w.lt(3), N, K), 0, None, 2),
        (cast(INDEX, w.lt(3)), 0, 1, 1),
        (load("A", INDEX, i), None, None, 1),
        (cast(INDEX, load("B", i32, i)), None, None, 1),
        (total(where(w.lt(3), const(8), const(12)) * c for c in (1, 1)), 16, 24, 8),
        (size("unheard_of"), None, None, 1),
        (axis(3), None, None, 1),
    ],
    ids=str,
)
def test_bounds(e: Expr, low: int | None, high: int | None, multiple: int) -> None:
    assert bounds(e, KNOWN) == (low, high, multiple)


def test_an_interval_is_found_term_by_term() -> None:
    """`interval` looks at each name alone, `bounds` first puts the extremes of what has symbolic ends."""
    assert KNOWN.interval(pl.poly(i - N)) == (None, None)
    assert KNOWN.interval(pl.poly(k - M)) == (-9, 6)
    assert KNOWN.interval({}) == (0, 0)
    assert KNOWN.interval(pl.poly(const(-4))) == (-4, -4)
    assert KNOWN.interval(pl.poly(p * -1 + v)) == (-5, None)
    assert KNOWN.interval(pl.poly(N * v + w * 0)) == (2, None)
    assert KNOWN.interval(pl.poly(p + v * -1)) == (None, 5)


def test_bounds_that_mention_each_other_say_nothing() -> None:
    circular = Known({"i": (0, j, 1), "j": (i, j, 1), "k": (0, 4, 1)})
    assert bounds(i, circular)[0] == 0
    assert bounds(i + k, circular)[0] == 0
    assert circular.interval(pl.poly(j))[1] is None


# ---- single steps of a proof

STEP = Known({"N": (1, None, 1), "M": (0, None, 1), "i": (0, N - 1, 1), "j": (-3, 5, 1), "k": (None, None, 1), "p": (0, None, 1), "v": (None, 0, 1), "w": (None, None, 1)})  # fmt: skip

EVEN = Known({"N": (2, None, 2), "i": (0, N - 1, 1)})

TAIL = Known({"N": Size("N"), "M": Size("M"), "k": (0, N - 1, 1), "j": (0, 15, 1)})
PIECE = maximum(const(1), ceildiv(N, 1024))
PADDED = (floordiv(N - 1, PIECE) * PIECE + PIECE) * M
FEW = floordiv(const(12), maximum(const(12), N)) * N * M
STEPS = [
        # tighten: 4 q + 3 >= 0 where q >= 0 needs no more than floor(3 / 4) = 0
        (given(STEP, w * 2 + 1), w * 4 + 3, True),
        (given(STEP, w * 2 + 1), w, True),
        (given(STEP, w * 2 + 3), w, False),
        # loosen: what is even and below an even number is below it by two
        (EVEN, N - 2 - floordiv(i, const(2)) * 2, True),
        (STEP, N - 2 - floordiv(i, const(2)) * 2, False),
        (EVEN, N - 3 - floordiv(i, const(2)) * 2, False),
        (EVEN, N - 4 - floordiv(i, const(4)) * 4, False),
        # endpoint, with a coefficient of known and of unknown sign
        (STEP, i * M, True),
        (STEP, (N - 1 - i) * M, True),
        (STEP, N * M - M - i * M, True),
        (STEP, i * v, False),
        (STEP, i * v * -1, True),
        (STEP, j * M + M * 3, True),
        (STEP, j * M + M * 2, False),
        (STEP, j * -1 * M + M * 5, True),
        (STEP, j * -1 * M + M * 4, False),
        (STEP, p * v * -1, True),
        (STEP, p * v, False),
    (given(Known({"j": (-3, 5, 1)}), p - w * 3, p + w * 5), j * w + p, True),
    (given(Known({"j": (-3, 5, 1)}), p - w * 3, p + w * 4), j * w + p, False),
    (given(Known({"v": (None, 0, 1)}), p - w * 3, p + w * 5), v * w + p, False),
        # division
        (STEP, N - (N // 2) * 2, True),
        (STEP, (N // 2) * 2 - N + 1, True),
        (STEP, (N // 2) * 2 - N, False),
        (STEP, N - 1 - (N // 2) * 2, False),
        (STEP, ceildiv(N, 4) * 4 - N, True),
        (STEP, ceildiv(N, 4) * 4 - N - 1, False),
        (STEP, N + 3 - ceildiv(N, 4) * 4, True),
        (STEP, N + 2 - ceildiv(N, 4) * 4, False),
        (STEP, ceildiv(N, 4) - 1, True),
        (STEP, w // 4 - w // 8 * 2, True),
        (STEP, w // 8 * 2 + 1 - w // 4, True),
        (STEP, w // 8 * 2 - w // 4, False),
        (STEP, p // N, True),
        (STEP, p - p // N, True),
        (STEP, p // N - 1, False),
        (STEP, v // N * -1, True),
        (STEP, M - M // N * N, True),
        (STEP, p // (M + 1), True),
        (STEP, p // M, False),
        (STEP, (p // N) * M, True),
    (STEP, p - call("floordiv", p, const(1)), True),
    (STEP, call("mod", w, const(1)) * -1, True),
        # modulus
        (STEP, w % 4, True),
        (STEP, w % 4 * -1 + 3, True),
        (STEP, w % 4 * -1 + 2, False),
        (STEP, w % N, True),
        (STEP, N - 1 - w % N, True),
        (STEP, N - 2 - w % N, False),
        (STEP, p - p % N, True),
        (STEP, p - w % N, False),
        (STEP, k - k % 4, False),
        (STEP, (w % 4) * M, True),
        (STEP, M * 3 - (w % 4) * M, True),
        (STEP, M * 2 - (w % 4) * M, False),
        (STEP, w % M, False),
        # branch
        (STEP, minimum(N, M), True),
        (STEP, minimum(N, M) - 1, False),
        (STEP, maximum(N, M) - 1, True),
        (STEP, maximum(w, M) - M, True),
        (STEP, M - maximum(w, M), False),
        (STEP, M - minimum(w, M), True),
        (STEP, minimum(w, M) - M, False),
        (STEP, M * 2 - minimum(w, M) * 2, True),
        (STEP, where(w.lt(0), N, M), True),
        (STEP, where(w.lt(0), N, M) - 1, False),
        (STEP, where(w.lt(0), N, M) * -1 + N + M, True),
        (STEP, where(w.lt(0), N, M) * -1 + N, False),
        (STEP, minimum(w, 3) * -1 + maximum(w, 3), True),
        # facts: up to three of them together
        (given(FREE, j - i), j - i, True),
        (given(FREE, j - i), i - j, False),
        (given(FREE, j - i), j * 2 - i * 2, True),
        (given(FREE, j * 2 - i * 3), j * 4 - i * 6, True),
        (given(FREE, j - i, k - j), k - i, True),
        (given(FREE, j - i, k - j), k - i - 1, False),
        (given(FREE, j - i, k - j, p - k), p - i, True),
        (given(FREE, j - i, k - j, p - k, v - p), v - i, False),
        (given(FREE, p - k, k - j, j - i), p - i, True),
        (given(FREE, j - i * 2, k - j * 3), k - i * 6, True),
            (given(STEP, w - i * M), w, True),
        (given(STEP, M - w, w - 2), (M - 2) * p, True),
        (given(STEP, M - w, w - 2), (M - 3) * p, False),
    # what is at an end of its own goes before a division is rounded
    (TAIL, floordiv(N - k + 15, const(16)) * 16 - 16 + j, True),
    (TAIL, floordiv(N - k + 15, const(16)) * 16 - 17 + j, False),
    # what is made of another atom goes before it
    (TAIL, maximum(const(0), floordiv(PADDED - j, const(16))) * 16 - PADDED + j + 15, True),
    (TAIL, maximum(const(0), floordiv(PADDED - j, const(16))) * 16 - PADDED + j + 14, False),
    (TAIL, maximum(const(0), floordiv(FEW - j, const(16))) * 16 - FEW + j + 15, True),
    (TAIL, maximum(const(0), floordiv(FEW - j, const(16))) * 16 - FEW + j + 14, False),
]  # fmt: skip


@pytest.mark.parametrize(("known", "goal", "proven"), STEPS, ids=[str(goal) for _, goal, _ in STEPS])
def test_step(known: Known, goal: Expr, proven: bool) -> None:
    assert holds(goal, known) == proven
    assert known.positive(pl.poly(goal + 1)) == proven


def test_what_multiples_prove_holds() -> None:
    """Goals about multiples, by a seed: whatever is proven is so at all small values, and what is proven with multiples is at times not proven without."""
    rng = random.Random(11)
    more = 0
    for _ in range(400):
        d = rng.choice((2, 3, 4))
        g, c, b = d * rng.choice((1, 2)), d * rng.choice((0, 1, 2)), rng.randint(-8, 5)
        goal = N * rng.choice((1, 2)) - floordiv(i, const(d)) * c + b
        proven, plain = (
            known.nonnegative(pl.poly(goal))
            for known in (Known({"N": (g, None, g), "i": (0, N - 1, 1)}), Known({"N": (g, None, 1), "i": (0, N - 1, 1)}))
        )
        holds = all(evaluate(goal, {"N": n, "i": k}) >= 0 for n in range(g, 8 * g, g) for k in range(n))
        assert holds or not proven, f"{goal} with N a multiple of {g}, seed 11"
        more += proven and not plain
    assert more > 5


def test_a_side_condition_may_need_a_fact() -> None:
    """The sign of a coefficient is a goal of its own, for which one fact may be taken."""
    known = given(Known({"i": (0, w, 1), "k": (None, None, 1), "p": (None, None, 1), "w": (0, None, 1), "v": (None, None, 1)}), k - p)
    assert holds(i * k - i * p, known)
    assert holds(w * k - w * p - i * k + i * p, known)
    assert not holds(i * p - i * k, known)
    assert not holds(i * k - i * p, Known(known.ranges))


@pytest.mark.parametrize(("count", "proven"), [(1, True), (4, True), (5, False)])
def test_a_proof_has_an_end(count: int, proven: bool) -> None:
    """Every minimum doubles the goals; what would take more than FUEL of them is given up."""
    names = [f"x{n}" for n in range(count)]
    known = Known({"N": (1, None, 1), **dict.fromkeys(names, (0, N - 1, 1))})
    assert holds(total(minimum(var(n), N - 1 - var(n)) for n in names), known) == proven


def test_what_was_proven_with_less_knowledge_need_not_be_proven_again() -> None:
    goal = pl.poly(N * 2 - 1 - i * 2)
    base = Known({"N": (1, None, 1), "i": (0, N - 1, 1), "w": (None, None, 1)})
    assert base.nonnegative(goal) and not base.nonnegative(pl.poly(w))
    further = given(given(base, w - i * 2), N * 3 - w)
    assert further._proved(frozenset(goal.items())) is True
    assert not further._proved(frozenset({((w,), 1)})) and holds(w, further), "what was not is tried again"


def test_depth_is_not_pythons() -> None:
    deep: Expr = N
    for step in range(1200):
        deep = minimum(maximum(deep, N * (step % 5)), K * 2)
    known = Known(RANGES)
    assert known.multiple(pl.poly(deep)) == 4
    assert known.interval(pl.poly(deep)) == (0, None)


def test_a_range_is_not_empty() -> None:
    known = Known({"N": (None, None, 1), "M": (None, None, 1), "i": (M * 2, N, 1)})
    assert holds(N - M * 2, known) and not holds(N + M * 2, known)
    assert holds(N - M - 4, Known({"N": (None, None, 1), "M": (None, None, 1)}).with_ranges({"i": (M + 4, N, 1)}))
    assert Known({"i": (3, 9, 1), "N": (0, None, 1)}).facts == ()


def test_a_chain_of_names_is_followed_sixteen_times() -> None:
    known = Known({"N": (0, 100, 1)})
    last: Expr = N
    for step in range(16):
        known = known.with_ranges({f"x{step}": (last, last + 1, 1)})
        last = var(f"x{step}")
    assert bounds(last - N, known)[:2] == (0, 16)
    assert bounds(last * 2 + M, known.with_ranges({"M": (last, None, 1)}))[0] is not None
