"""The simplifier against brute force: random expressions over every small environment, each rule alone, and what scopes and conditions tell."""

import itertools
import random

import pytest
from environments import RANGES, SPACES, B, I, J, K, M, N, P, V, W, check_same, values
from luminal.ir import conditions, polynomial as pl, simplify as rules
from luminal.ir.bounds import Known, bounds
from luminal.ir.dtypes import INDEX, bool_, i32
from luminal.ir.expr import FALSE, TRUE, ZERO, axis, both, call, cast, const, load, minimum, total, var, where
from luminal.ir.simplify import assuming, prove, prove_equal, prove_le, simplify


class Random:
    """Expressions that look like addresses, with a division or a modulus wherever one may stand."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def leaf(self):
        return self.r.choice((N, M, K, B, I, J, P, V, W, I, J, P, const(self.r.choice((-5, -1, 0, 1, 2, 3, 4, 8)))))

    def divisor(self):
        return self.r.choice((const(2), const(4), const(8), const(12), const(-3), K, B, M, M * 4, K * B, N, V, M + B, K - 1))

    def product(self):
        return self.leaf() * self.leaf() * self.r.choice((K, N, M, const(3)))

    def integer(self, depth):
        if depth == 0 or self.r.random() < 0.15:
            return self.leaf()
        kind = self.r.choice(("linear", "linear", "add", "sub", "mul", "floordiv", "floordiv", "mod", "mod", "min", "max", "where", "split"))
        if kind == "linear":
            return total(self.leaf() * self.r.choice((-4, -1, 1, 2, 3, 4, 6, 8)) for _ in range(self.r.randint(1, 3)))
        if kind == "split":
            x, d = self.integer(depth - 1), self.divisor()
            return x // d * d * self.r.choice((1, 1, 2)) + x % d
        if kind in ("floordiv", "mod"):
            return call(kind, self.integer(depth - 1), self.divisor())
        if kind == "mul":
            return call(kind, self.integer(depth - 1), self.leaf())
        if kind == "where":
            return where(self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        return call(kind, self.integer(depth - 1), self.integer(depth - 1))

    def condition(self, depth):
        kind = self.r.choice(("less_than", "less_equal", "equal", "not_equal", "bit_and", "bit_and", "bit_or", "bit_not"))
        if kind == "bit_not":
            return call(kind, self.condition(max(depth - 1, 0)))
        if kind.startswith("bit") and depth > 0:
            return call(kind, self.condition(depth - 1), self.condition(depth - 1))
        return call(kind if not kind.startswith("bit") else "less_than", self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0)))


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_keep_their_values(seed, name):
    ranges, space = SPACES[name]
    draw = Random(seed)
    known = Known(ranges)
    for _ in range(120):
        e = draw.integer(3) if draw.r.random() < 0.6 else draw.condition(3)
        check_same(e, simplify(e, known), space=space)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold(seed):
    draw = Random(1000 + seed)
    known = Known(RANGES)
    for _ in range(120):
        e = draw.integer(2)
        for x in (e, simplify(e, known)):
            low, high, multiple = bounds(x, known)
            got, defined = values(x)
            got = got[defined]
            assert low is None or (got >= low).all(), f"{x} >= {low}"
            assert high is None or (got <= high).all(), f"{x} <= {high}"
            assert (got % multiple == 0).all() if multiple else (got == 0).all(), f"{x} % {multiple}"


@pytest.mark.parametrize("seed", range(6))
def test_assumptions(seed):
    """Under a condition only the environments where it holds count."""
    draw = Random(2000 + seed)
    known = Known(RANGES)
    for _ in range(60):
        c, e = draw.condition(2), draw.condition(2) if draw.r.random() < 0.5 else draw.integer(2)
        holds, defined = values(c)
        check_same(e, simplify(e, assuming(known, c)), holds & defined)


ALL_RULES = [(r, "floordiv") for r in (*rules.DIVISION_BY_ANY, *rules.DIVISION)] + [(r, "mod") for r in rules.MODULUS]


@pytest.mark.parametrize(("rule", "op"), ALL_RULES, ids=[r.__name__ for r, _ in ALL_RULES])
def test_each_rule_alone(rule, op):
    """A rule applied to random operands at the top, whatever stands before it in the table, and often enough to mean something."""
    draw = Random(7)
    known = Known(RANGES)
    fired = 0
    for _ in range(1500):
        drawn = draw.product() if rule is rules.out_of_product else draw.integer(2)  # seldom drawn otherwise
        x, d = simplify(drawn, known), simplify(draw.r.choice((draw.divisor(), draw.divisor(), const(draw.r.choice((1, -1, -4))))), known)
        p, q = pl.poly(x), pl.poly(d)
        if not p or not q or (rule not in rules.DIVISION_BY_ANY and not known.positive(q)):
            continue
        found = rule(p, q, known)
        if found is not None:
            fired += 1
            check_same(call(op, x, d), pl.expr(found))
    assert fired >= 20, fired


def test_proofs():
    known = Known(RANGES)
    assert prove(I.lt(N), known)
    assert not prove(I.lt(N - 1), known)
    assert prove_le(I * K + P, N * K - 1, known)
    assert prove_equal((N + M) * (N + M), N * N + N * M * 2 + M * M, known)
    assert not prove_equal(N, M, known)
    inside = assuming(known, both(const(1).le(W), W.le(N)))
    assert prove(both(ZERO.le(W - 1), (W - 1).lt(N)), inside)
    assert prove((W * K + P - K).lt(N * K), inside)
    ordered = assuming(known, both(W.le(V), V.le(N)))
    assert prove(W.le(N), ordered)
    assert not prove(W.lt(N), ordered)
    divisible = assuming(known, (N % 4).eq(0))
    assert prove_equal(N // 4 * 4, N, divisible)
    assert prove_equal((N * M) // 4 * 4, N * M, divisible)


def test_domains():
    """Positions of a domain are inside its extents, and its extents are not 0."""
    known = Known({"N": (0, None, 1), "M": (0, None, 1)}).with_domain((N, M))
    assert prove((axis(0) * M + axis(1)).lt(N * M), known)
    assert prove(ZERO.lt(N), known)
    assert simplify((axis(0) * M + axis(1)) % M, known) is axis(1)
    assert not prove(ZERO.lt(N), {"N": (0, None, 1)})


def test_a_loop_that_runs_says_that_its_extent_is_not_0():
    known = Known({"N": (0, None, 1), "M": (0, None, 1)})
    inside = known.with_ranges({"i": (0, M * ((N + 7) // 8) - 1, 1)})
    assert prove(both(ZERO.lt(N), ZERO.lt(M)), inside)
    assert simplify((I + (N + 7) // 8) % ((N + 7) // 8), inside) is simplify(I % ((N + 7) // 8), inside)
    assert not prove(const(1).lt(N), inside)
    # factors that may be negative say nothing
    loose = Known({"v": (None, None, 1), "w": (None, None, 1)})
    assert not prove(ZERO.lt(V), assuming(loose, ZERO.lt(V * W)))
    # nor does a product that may be 0
    assert not prove(ZERO.lt(N), assuming(known, ZERO.le(N * M)))


def test_a_number_beside_a_symbolic_bound():
    known = assuming(Known({"N": (0, None, 1), "i": (N - 4, N + 4, 1)}), ZERO.lt(I))
    assert prove(ZERO.lt(I), known)
    assert prove(const(-4).lt(N), known)
    assert not prove(const(1).lt(I), known)


def test_a_bound_by_a_number_is_exact():
    free = Known({"w": (None, None, 1)})
    for c, offset in itertools.product((-3, -2, -1, 1, 2, 3), range(-7, 8)):
        holds = [w for w in range(-20, 21) if c * w + offset >= 0]
        low, high, _ = bounds(W, assuming(free, ZERO.le(W * c + offset)))
        assert (low, high) == ((min(holds), None) if c > 0 else (None, max(holds)))


def test_a_name_bound_again_is_a_new_variable():
    outer = assuming(Known(RANGES), both(const(5).le(W), W.lt(V + 4))).with_ranges({"x": (0, W, 1)})
    assert prove(var("x").lt(V + 4), outer)
    inner = outer.with_ranges({"w": (0, 3, 1)})
    assert prove(W.le(3), inner)
    assert not prove(const(5).le(W), inner)
    assert not prove(W.lt(V + 4), inner)
    assert not prove(var("x").le(W), inner)
    assert prove(ZERO.le(var("x")), inner)


def test_values_are_not_positions():
    """What wraps is not divided or compared as an integer; positions inside a value are simplified."""
    loaded = load("A", INDEX, (I * 4 + J) // 4)
    known = Known(RANGES)
    e = (loaded * 4 + J) // 4
    assert not e.is_position
    assert simplify(e, known) is call("floordiv", loaded_at(I) * 4 + J, const(4))
    assert simplify(call("less_than", loaded, loaded + 1), known) is not TRUE
    narrow = call("add", load("B", i32, I + 0), const(1, i32))
    assert simplify(call("add", narrow, const(-1, i32)), known).op == "add"
    assert simplify(where(I.lt(N), narrow, const(0, i32)), known) is narrow


def loaded_at(e):
    return load("A", INDEX, e)


def test_same_result_in_every_run():
    """Terms stand in a fixed order whatever was built first."""
    assert simplify(M + N + I * M, {}) is simplify(I * M + N + M, {})
    assert repr(simplify(N + M * I + 1 + K, {})) == repr(simplify(1 + K + N + I * M, {}))


def test_long_sums_and_products_stay_cheap():
    deep = total(var(f"x{k}") for k in range(300))
    assert simplify(deep - deep, {}) is ZERO
    wide = const(1)
    for k in range(12):
        wide = wide * (var(f"x{k}") + 1)
    assert len(pl.poly(simplify(wide, {}))) <= pl.MOST_TERMS


def test_depth_is_not_pythons():
    x, y, z = W, W, TRUE
    for k in range(1500):
        x = call("mod", x * 3 + V, N + 7)
        y = minimum(call("max", y + J, var(f"x{k}")), where(W.lt(k), y, I))
        z = call("bit_or" if k % 2 else "bit_and", z, var(f"x{k}").lt(N))
    known = Known(RANGES)
    assert bounds(simplify(x, known), known)[0] == 0
    assert bounds(y, known)[2] == 1
    assert simplify(call("bit_not", call("bit_not", z)), known).dtype is bool_


def test_conditions_table_is_whole():
    assert set(conditions.BOOLEAN) == {"bit_and", "bit_or", "bit_not"}
    assert all(e.dtype is bool_ for e in (TRUE, FALSE))


def test_a_choice_between_the_same() -> None:
    x = load("X", i32, I)
    assert simplify(where(load("C", bool_, I), x, x)) is x
    assert simplify(where(TRUE, x, const(1, i32))) is x and simplify(where(FALSE, const(1, i32), x)) is x


def test_a_precondition_on_a_remainder_is_about_that_remainder() -> None:
    known = assuming(Known({"N": (0, None, 1), "M": (0, None, 1), "K": (1, None, 1), "B": (1, None, 1)}), (N % K).eq(0))
    assert simplify((N // K) * K, known) is N and simplify(N % K, known) is ZERO
    for x, d in ((M, K), (N, B), (N + 1, K)):
        assert simplify((x // d) * d, known) is not simplify(x, known) and simplify(x % d, known) is not ZERO


def test_a_remainder_inside_stays_where_its_divisor_may_be_0() -> None:
    e = (W % (N * 4)) % 4
    assert simplify(e, {"N": (1, None, 1)}) is simplify(W % 4)
    assert simplify(e, {"N": (0, None, 1)}) is not simplify(W % 4)


def test_comparisons_with_numbers_have_one_form() -> None:
    assert str(simplify(ZERO.lt(N))) == "1 <= N" and simplify(ZERO.lt(N)) is simplify(const(1).le(N))
    assert str(simplify(M.lt(N))) == "M < N" and simplify((M + 1).le(N)) is simplify(M.lt(N))


def test_a_range_with_one_end_says_nothing_of_the_other() -> None:
    known = Known({"N": (0, None, 1)})
    for ends in ((None, N - 1, 1), (N * -1, None, 1)):
        assert not prove(ZERO.lt(N), known.with_ranges({"i": ends}))
    assert prove(ZERO.lt(N), known.with_ranges({"i": (0, N - 1, 1)}))


def test_a_truth_value_as_a_number() -> None:
    truth = cast(INDEX, I.lt(J))
    assert bounds(truth, Known({}))[:2] == (0, 1)
    assert prove(truth.le(const(1))) and not prove(const(1).le(truth)) and not prove(truth.le(ZERO))
