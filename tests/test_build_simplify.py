"""The simplifier against brute force: random expressions over every small environment, each rule alone, and the forms that other parts rely on."""

import itertools
import random

import numpy as np
import pytest
from luminal.ir import conditions
from luminal.ir import polynomial as pl
from luminal.ir import simplify as rules
from luminal.ir.bounds import Known, bounds
from luminal.ir.dtypes import INDEX, bool_, f32, i32
from luminal.ir.expr import FALSE, TRUE, ZERO, Expr, axis, both, call, cast, const, load, maximum, minimum, postorder, size, total, var, where
from luminal.ir.simplify import assuming, prove, prove_equal, prove_le, simplify

N, M, K, B = map(size, "NMKB")
I, J, P, V, W = map(var, "ijpvw")  # noqa: E741

# Sizes, a variable inside one of them, one inside a constant, one inside a multiple of 4, and two without a sign.
RANGES = {
    "N": (0, None, 1), "M": (1, None, 1), "K": (0, None, 4), "B": (2, 3, 1), "i": (0, N - 1, 1), "j": (0, 3, 1), "p": (0, K - 1, 1), "v": (-3, 2, 1), "w": (None, None, 1),
}  # fmt: skip


def environments():
    """Every small environment that RANGES admit, as one array a name."""
    rows = [
        (n, m, k, b, i, j, p, v, w)
        for n, m, k, b, j, v, w in itertools.product((0, 1, 2, 5), (1, 3), (0, 4, 8), (2, 3), (0, 1, 3), (-3, -1, 0, 2), (-7, 0, 4))
        for i in sorted({0, n // 2, n - 1}) if 0 <= i < n
        for p in sorted({0, 1, k // 2, k - 1}) if 0 <= p < k
    ]  # fmt: skip
    return dict(zip("NMKBijpvw", np.array(rows).T, strict=True))


ENVIRONMENTS = environments()
# The same names with nothing known of i and p, so that every size may be 0.
LOOSE_RANGES = {**RANGES, "i": (None, None, 1), "p": (None, None, 1)}
LOOSE = dict(zip("NMKBijpvw", np.array([
    (n, m, k, b, i, j, p, v, w)
    for n, m, k, b, i, j, p, v, w in itertools.product((0, 1, 3), (1, 2), (0, 4), (2, 3), (-2, 1), (0, 3), (-1, 5), (-3, 2), (-7, 0, 4))
]).T, strict=True))  # fmt: skip
SPACES = {"tight": (RANGES, ENVIRONMENTS), "loose": (LOOSE_RANGES, LOOSE)}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "less_than": np.less, "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal, "bit_and": np.logical_and, "bit_or": np.logical_or,
}  # fmt: skip


def values(e: Expr, space=ENVIRONMENTS):
    """(values, where they are defined) in every environment; a division by 0 anywhere is undefined."""
    count = len(space["N"])
    done, defined = {}, np.ones(count, bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in postorder(e):
            a = [done[x] for x in n.args]
            if n.op == "const":
                done[n] = np.full(count, n.attr)
            elif n.op in ("size", "var"):
                done[n] = space[n.attr]
            elif n.op == "where":
                done[n] = np.where(*a)
            elif n.op == "bit_not":
                done[n] = ~a[0]
            elif n.op == "neg":
                done[n] = -a[0]
            else:
                if n.op in ("floordiv", "mod"):
                    defined &= a[1] != 0
                done[n] = BINARY[n.op](*a)
    return done[e], defined


def check_same(before: Expr, after: Expr, only=None, space=ENVIRONMENTS):
    want, defined = values(before, space)
    got, still = values(after, space)
    cares = defined if only is None else defined & only
    assert (still | ~cares).all(), f"{before} → {after} divides by 0"
    wrong = np.flatnonzero(cares & (want != got))
    if wrong.size:
        k = wrong[0]
        pytest.fail(f"{before} → {after}: {want[k]} became {got[k]} at { {n: int(a[k]) for n, a in space.items()} }")


class Random:
    """Expressions that look like addresses, with a division or a modulus wherever one may stand."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def leaf(self):
        return self.r.choice((N, M, K, B, I, J, P, V, W, I, J, P, const(self.r.choice((-5, -1, 0, 1, 2, 3, 4, 8)))))

    def divisor(self):
        return self.r.choice((const(2), const(4), const(8), const(12), const(-3), K, B, M, M * 4, K * B, N, V, M + B, K - 1))

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
        x, d = simplify(draw.integer(2), known), simplify(draw.r.choice((draw.divisor(), draw.divisor(), const(draw.r.choice((1, -1, -4))))), known)
        p, q = pl.poly(x), pl.poly(d)
        if not p or not q or (rule not in rules.DIVISION_BY_ANY and not known.positive(q)):
            continue
        found = rule(p, q, known)
        if found is not None:
            fired += 1
            check_same(call(op, x, d), pl.expr(found))
    assert fired >= 20, fired


def as_text(e):
    return repr(e)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((I * 4 + J) // 4, I),
        ((I * 4 + J) % 4, J),
        ((I * K + P) // K, I),
        ((I * K + P) % K, P),
        ((I * K * B + P * B + 1) // (K * B), I),
        ((I * K + P) // (K * B), I // B),
        ((I * K + P) % (K * B), I % B * K + P),
        ((I * 8 + J) // 4, I * 2),
        (W // 4 * 4 + W % 4, W),
        (W // M * M + W % M, W),
        (W // 4 // 3, W // 12),
        (K // 4 * 4, K),
        ((K + J) // 4, K // 4),
        (W % 8 % 4, W % 4),
        ((W + K * 3) % 4, W % 4),
        (minimum(I, N - 1), I),
        (maximum(I, 0), I),
        (minimum(minimum(W, 3), 5), minimum(W, 3)),
        ((V + 3) // 6, ZERO),
        (I.lt(N), TRUE),
        ((I * K + P).lt(N * K), TRUE),
        ((I * K + P).lt(0), FALSE),
        ((W // 4).lt(M), W.lt(M * 4)),
        (both(ZERO.le(W), W.lt(N), W.lt(N + 1)), both(ZERO.le(W), W.lt(N))),
        (both(W.lt(3), const(5).lt(W)), FALSE),
        (call("bit_not", both(W.lt(3), V.lt(1))), call("bit_or", const(3).le(W), ZERO.lt(V))),
        ((K * 2).eq(W * 8 + 4), FALSE),
        (N.eq(-1), FALSE),
        ((P * 2).lt(K * 2), TRUE),
        ((I + M * N).le(N * (M + 1)), TRUE),
    ],
    ids=as_text,
)
def test_forms(before, after):
    known = Known(RANGES)
    assert simplify(before, known) is simplify(after, known)
    assert len(list(postorder(simplify(before, known)))) <= len(list(postorder(after)))


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


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (W.lt(V), "w < v"),
        (W.le(V + 3), "w <= v + 3"),
        ((W + 3).le(V), "w + 3 <= v"),
        (W.lt(V + 1), "w <= v"),
        (const(3).lt(W), "4 <= w"),
        (W.lt(3), "w <= 2"),
        (W.lt(-3), "w <= -4"),
        ((W + V).lt(0), "v + w < 0"),
        ((W * 4).lt(V * 6 + 3), "w * 2 <= v * 3 + 1"),
        ((W * 4).le(9), "w <= 2"),
        (const(9).le(W * 4), "3 <= w"),
        ((W * -1).lt(V), "1 <= v + w"),
        (W.eq(V), "v == w"),
        ((W * 2).eq(4), "w == 2"),
        ((W * 2).eq(V * 4 + 6), "v * 2 == w - 3"),
        ((W * -2).eq(4), "w == -2"),
        (call("not_equal", W * 3, V * 6), "v * 2 != w"),
        ((W // 4).le(V), "w <= v * 4 + 3"),
        (V.le(W // 4), "v * 4 <= w"),
        ((W // 4 * 2).le(V), "w // 4 * 2 <= v"),
        ((W // M).le(V), "w // M <= v"),
        (call("bit_not", W.lt(V)), "v <= w"),
        (call("bit_not", W.eq(V)), "v != w"),
        (call("bit_not", call("not_equal", W, V)), "v == w"),
        (call("bit_not", call("bit_or", W.lt(V), V.lt(3))), "v <= w & 3 <= v"),
        (call("bit_not", load("C", bool_, I)), "~C[i]"),
        (call("bit_not", call("bit_not", load("C", bool_, I))), "C[i]"),
        (call("bit_not", call("less_than", load("x", f32, I), load("y", f32, I))), "~(x[i] < y[i])"),
        (call("bit_not", call("equal", load("x", f32, I), load("y", f32, I))), "x[i] != y[i]"),
        (call("bit_not", call("less_than", load("a", i32, I), load("b", i32, I))), "b[i] <= a[i]"),
        (call("bit_or", W.lt(V), V.le(W)), "true"),
        (call("bit_or", W.lt(V), FALSE), "w < v"),
        (call("bit_or", W.lt(V), TRUE), "true"),
        (call("bit_or", call("bit_or", W.lt(V), V.lt(3)), W.lt(V)), "w < v | v <= 2"),
        (both(W.lt(V), call("bit_not", W.lt(V))), "false"),
        (both(W.lt(V), load("C", bool_, I), W.lt(V)), "w < v & C[i]"),
        (both(W.lt(V), W.lt(V + 2)), "w < v"),
        (both(W.lt(V + 2), W.lt(V)), "w < v"),
        (both(W.lt(V), V.lt(W)), "false"),
        (both(W.lt(V), V.lt(P), W.lt(P)), "w < v & v < p"),
        (both(W.lt(V), W.eq(V)), "false"),
        (both(load("C", bool_, I), call("bit_not", load("C", bool_, I))), "false"),
    ],
    ids=as_text,
)
def test_conditions_have_one_form(condition, text):
    """Of values that nothing is known of."""
    assert str(simplify(condition, {"M": (1, None, 1)})) == text
