"""Decompositions, evaluated with every step rounded, against longdouble: within the ULP of their rows, with primops as good and as bad as theirs allow."""

import math

import fit_coefficients
import numpy as np
import pytest
from luminal.ir import expr as ex
from luminal.ir.coefficients import COEFFICIENTS
from luminal.ir.decompose import DECOMPOSITIONS, decompose, expand
from luminal.ir.dtypes import DTYPES, bf16, bool_, f16, f32, f64, i8, i64, numpy_dtype, u8
from luminal.ir.interpret.meaning import VALUE
from luminal.ir.interpret.stepwise import evaluate
from luminal.ir.primops import OPS, accepts
from luminal.ir.walks import postorder

L = np.longdouble
APPROXIMATE = ("exp2", "log2", "sin")  # the primops that are not correctly rounded
FUNCTIONS = [n for n in DECOMPOSITIONS if OPS[n].accepts in ("float", "smooth") or n == "pow"]
SPECIAL = [
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    math.inf,
    -math.inf,
    math.nan,
    2,
    -2,
    3,
    -3,
    88.72283,
    88.72284,
    89.3,
    -103.9,
    709.78,
    710.3,
    -745.1,
    0.875,
    4,
    6,
    0.41421356,
    2.4142135,
]


def values(rng, d, count):
    """All magnitudes, the middle ones, the neighbourhood of 1, and what is special."""
    t = numpy_dtype(d)
    bits = rng.integers(0, 2**d.bits, count, dtype=np.uint64).astype(f"u{d.bits // 8}").view(t)
    middle = np.concatenate([rng.standard_normal(count) * s for s in (1e-6, 1e-3, 0.1, 1, 10, 100, 700)])
    near_one = 1 + rng.uniform(-1, 1, count) * 2.0 ** -rng.integers(0, 30, count)
    limits = np.finfo(t)
    ends = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal]
    return np.concatenate([bits, middle.astype(t), rng.uniform(-1, 1, count).astype(t), near_one.astype(t), np.array(SPECIAL, t), np.array(ends, t)])


def operands(name, rng, d):
    x = values(rng, d, 1000 if d is f32 else 250)
    if OPS[name].arity == 1:
        return [x]
    y = rng.permutation(values(rng, d, 1000 if d is f32 else 250))
    if name == "pow":
        with np.errstate(all="ignore"):
            y = np.where(rng.random(len(y)) < 0.3, np.rint(y), y)
            reach = 150 if d is f32 else 1080
            inside = (rng.uniform(-reach, reach, len(y)) / np.log2(np.abs(x).astype(np.float64))).astype(x.dtype)
            chosen = rng.random(len(y)) < 0.6
            x, y = np.where(chosen, np.abs(x), x), np.where(chosen, inside, y)
    return [x, y]


def errors(d, got, want):
    """In units of ε·|v| + smallest subnormal; 0 where both are the same special value, or both beyond the last finite value but one."""
    limits = np.finfo(numpy_dtype(d))
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    e = np.abs(got.astype(L) - want) / (L(limits.eps) * np.abs(want) + L(limits.smallest_subnormal))
    edge = limits.max * (1 - 8 * limits.eps)
    e = np.where((np.abs(want) > edge) & (np.abs(got) > edge) & (np.sign(got) == np.sign(want)), 0, e)
    return np.where(same, 0, np.where(np.isnan(e), np.inf, e))


def as_bad_as_allowed(rng):
    """Moves the results of the approximate primops by up to two ULP; zeros and infinities are right in any implementation."""

    def adjust(op, v):
        if op not in APPROXIMATE:
            return v
        moved = v
        by = rng.integers(-2, 3, v.shape)
        for step in (1, 2):
            moved = np.where(np.abs(by) >= step, np.nextafter(moved, np.copysign(np.inf, by).astype(v.dtype)), moved)
        return np.where((v == 0) | np.isinf(v), v, moved)

    return adjust


@pytest.mark.parametrize("d", [f32, f64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_floats(name, d):
    seed = len(name) + d.bits
    rng = np.random.default_rng(seed)
    arguments = operands(name, rng, d)
    if name in ("cos", "tan"):
        # the last binade, where twice the operand is infinite; cos is near 0 at the first of these
        last = rng.uniform(0.5, 1, 4000) * np.finfo(arguments[0].dtype).max
        arguments = [
            np.concatenate(
                [
                    arguments[0],
                    np.array([2.8754415e38], np.float32).astype(arguments[0].dtype),
                    last.astype(arguments[0].dtype),
                    -last.astype(arguments[0].dtype),
                ]
            )
        ]
    names = "xy"[: len(arguments)]
    root = expand(ex.call(name, *(ex.var(n, d) for n in names)), ())
    assert all(OPS[n.op].primop for n in postorder(root) if n.op in OPS)
    with np.errstate(all="ignore"):
        want = VALUE[name](*(x.astype(L) for x in arguments))
        for adjust in (None, as_bad_as_allowed(rng)):
            got = evaluate(root, dict(zip(names, arguments, strict=True)), adjust)
            if OPS[name].result == "bool":
                assert (got == want).all(), seed
                continue
            e = errors(d, got, want)
            worst = int(np.argmax(e))
            assert e[worst] <= OPS[name].ulp, (seed, float(e[worst]), [float(x[worst]) for x in arguments], float(got[worst]), float(want[worst]))


def taken(name, d):
    """Whether the operator takes this dtype (float powers are in test_floats)."""
    return accepts(OPS[name], d) and not (d.is_float and name in FUNCTIONS)


KINDS = [DTYPES[k] for k in ("i8", "u8", "i64", "u64", "bool", "f32", "f64")]


@pytest.mark.parametrize("name,d", [(n, d) for n in DECOMPOSITIONS for d in KINDS if taken(n, d)])
def test_all_kinds(name, d):
    row = OPS[name]
    rng = np.random.default_rng(7)
    t = numpy_dtype(d)
    if d.is_float:
        x, y = (np.concatenate([rng.integers(-3, 4, 300), SPECIAL]).astype(t) for _ in range(2))
        rng.shuffle(y)
    elif d.kind == "bool":
        x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    else:
        ends = [d.min, d.max, d.min + 1, d.max - 1, 0, 1]
        x, y = (np.concatenate([rng.integers(d.min, d.max, 300, dtype=t, endpoint=True), np.array(ends * 6, t)]) for _ in range(2))
        x[:200] = (rng.integers(0, 20, 200) - 10).astype(t)
        y[:200] = rng.integers(0, 20, 200).astype(t)
        y[300:] = np.repeat(np.array(ends, t), 6)
    root = expand(ex.call(name, *(ex.var(n, d) for n in "xy"[: row.arity])), ())
    with np.errstate(all="ignore"):
        want = VALUE[name](*(x, y)[: row.arity])
    np.testing.assert_array_equal(evaluate(root, {"x": x, "y": y}), want)


def test_signs_of_zero():
    """Odd functions and roundings keep it, abs drops it."""
    x = ex.var("x", f32)
    for name in ("sinh", "tanh", "asinh", "atanh", "asin", "atan", "expm1", "log1p", "erf", "sign"):
        got = evaluate(expand(ex.call(name, x), ()), {"x": np.array([-0.0], np.float32)})
        assert got == 0 and np.signbit(got[0]), name
    assert not np.signbit(evaluate(expand(ex.call("abs", x), ()), {"x": np.array([-0.0], np.float32)})[0])


def test_small_floats_are_computed_in_f32():
    for d in (f16, bf16):
        root = decompose("exp", ex.var("x", d))
        x = np.linspace(-3, 3, 50).astype(numpy_dtype(d))
        np.testing.assert_array_equal(evaluate(expand(root, ()), {"x": x}), np.exp(x.astype(np.float32)).astype(x.dtype))


def test_native_operators_stay():
    x = ex.var("x", f32)
    root = expand(ex.call("tan", x), {"cos", "div", "abs"})
    used = {n.op for n in postorder(root) if n.op in OPS}
    assert "div" in used and "neg" not in used and "sub" not in used
    assert expand(ex.call("tan", x), {"tan"}) is ex.call("tan", x)
    for d, name in ((i8, "neg"), (u8, "neg"), (i64, "pow"), (bool_, "bit_not")):
        assert expand(ex.call(name, *[ex.var("x", d)] * OPS[name].arity), ()) is not None


@pytest.mark.skipif(np.finfo(L).nmant < 63, reason="the fit needs longdouble")
@pytest.mark.parametrize("name", list(fit_coefficients.FITS))
def test_coefficients_are_those_that_the_fit_gives(name):
    for kind in ("f32", "f64"):
        p, worst = fit_coefficients.fit(name, kind)
        assert worst < 1
        assert len(p) == len(COEFFICIENTS[name][kind])
        np.testing.assert_allclose(p.astype(np.float64), COEFFICIENTS[name][kind], rtol=1e-4, atol=0)


@pytest.mark.skipif(np.finfo(L).nmant < 63, reason="the fit needs longdouble")
@pytest.mark.parametrize(("names", "rows"), fit_coefficients.TABLES, ids=lambda x: x[0] if isinstance(x, tuple) else "")
def test_tables_are_those_that_the_fit_gives(names, rows):
    # another libm may find another of a thousand neighbours to be nearest to a float
    np.testing.assert_allclose([COEFFICIENTS[name]["f32"] for name in names], rows(), rtol=1e-3, atol=1e-4)
