"""The functions that the library approximates itself, as compiled kernels: ULP against longer arithmetic, and NumPy's own accuracy set.

Bounds are what was measured over these inputs, rounded up; NumPy's are NumPy's.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from scipy import special

SEED, EACH = 5, 1 << 11
KINDS = {"f32": np.float32, "f64": np.float64}
L = np.longdouble
Array = np.ndarray[Any, Any]
pytestmark = [needs_cc, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def compiled(names: str, ports: str, dtype: str) -> Any:
    """One translation unit for all: a composite with an output for each."""
    words = names.split()
    inputs, outputs = (" ".join(f"{p}{{T}}[N]" for p in ps) for ps in (ports.split(), [f"R_{n}" for n in words]))
    text = f"(composite all (({inputs}) -> ({outputs})) (return {' '.join(f'({n} {ports})' for n in words)}))"
    return luminal.compile(text, dtype={"T": dtype}, runtime="clang")


def values(kind: Any) -> Array:
    """Any bits, moderate and small and large numbers, integers, what is special."""
    rng = np.random.default_rng(SEED)
    info = np.finfo(kind)
    bits = rng.integers(0, 256, EACH * info.dtype.itemsize, dtype=np.uint8).view(kind)
    scaled = [rng.standard_normal(EACH) * s for s in (1e-3, 0.3, 1, 5, 20, 300)]
    ends = [info.max, info.tiny, info.smallest_subnormal, 1e-30, 1e30]
    special_values = [0.0, 1, 10, 100, 1000, 1e10, 0.5, 2, 3, 8, 27, np.inf, np.nan, *ends]
    return np.concatenate([bits, *scaled, rng.random(EACH), special_values, np.negative(special_values)]).astype(kind)


def steps(found: Array, exact: Array) -> Array:
    """The distance in ULP of the exact value; 0 where both are the same special value."""
    kind = found.dtype.type
    rounded = exact.astype(kind)
    unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(kind).max)).astype(exact.dtype)
    distance = np.abs(found.astype(exact.dtype) - exact) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(distance), np.inf, distance)).astype(float)


def erfc(x: Array) -> Array:
    """The series of erf below 2, the continued fraction above (Abramowitz & Stegun 7.1.6, 7.1.14), in long double."""
    x = x.astype(L)
    a = np.minimum(np.abs(x), 200)
    small, big = np.where(a < 2, a, 0), np.where(a < 2, 2, a)
    term = total = np.ones_like(a)
    for n in range(1, 100):
        term = term * 2 * small * small / (2 * n + 1)
        total = total + term
    tail = big
    for n in range(500, 0, -1):
        tail = big + L(n) / 2 / tail
    root = np.sqrt(4 * np.arctan(L(1)))
    e = np.exp(-a * a)
    y = np.where(a < 2, 1 - 2 * small * e * total / root, e / (tail * root))
    return np.where(np.isnan(x), x, np.where(x < 0, 2 - y, y))


BERNOULLI = [L(1) / 6, -L(1) / 30, L(1) / 42, -L(1) / 30, L(5) / 66, -L(691) / 2730, L(7) / 6]  # of even index, from 2


def lgamma(x: Array) -> Array:
    """Stirling's series 30 steps up, in long double, for positive numbers."""
    x = x.astype(L)
    y = x + 30
    series = sum(b / (2 * k * (2 * k - 1)) / y ** (2 * k - 1) for k, b in enumerate(BERNOULLI, 1))
    return (y - 0.5) * np.log(y) - y + np.log(8 * np.arctan(L(1))) / 2 + series - sum(np.log(x + k) for k in range(30))


def digamma(x: Array) -> Array:
    """The asymptotic series 30 steps up, in long double, for positive numbers."""
    x = x.astype(L)
    y = x + 30
    series = sum(b / (2 * k) / y ** (2 * k) for k, b in enumerate(BERNOULLI, 1))
    return np.log(y) - 1 / (2 * y) - series - sum(1 / (x + k) for k in range(30))


def half_turns(f: Any, x: Array, quarter: float = 0.0) -> Array:
    """f(πx) with x brought near 0 first."""
    n = np.round(x)
    y = f(4 * np.arctan(L(1)) * (quarter - np.abs(x - n) if quarter else x - n))
    return np.where(np.mod(n, 2) == 0, y, -y)


def sinpi(x: Array) -> Array:
    return half_turns(np.sin, x.astype(L))


# name: the function in longer arithmetic, bounds of p99 and of all for f32 and f64
UNARY = {
    "cbrt": (lambda x: np.cbrt(x.astype(L)), 1, 1), "log10": (lambda x: np.log10(x.astype(L)), 1, 1), "exp10": (lambda x: np.power(L(10), x.astype(L)), 1, 1),
    "sinpi": (sinpi, 2, 3), "cospi": (lambda x: half_turns(np.sin, x.astype(L), 0.5), 2, 3),
    "sinc": (lambda x: np.where(x == 0, 1, sinpi(x) / (4 * np.arctan(L(1)) * x.astype(L))), 2, 3), "logit": (lambda x: np.log(x.astype(L) / (1 - x.astype(L))), 2, 4),
    "erfc": (erfc, 2, 4), "normal_cdf": (lambda x: erfc(-x.astype(L) * np.sqrt(L(0.5))) / 2, 2, 5),
}  # fmt: skip
BINARY = {"hypot": (np.hypot, 1, 2), "atan2": (np.arctan2, 1, 2)}
# SciPy's own error, in double, is in these as well
SPECIAL = {"erfinv": (special.erfinv, 3, 6), "gamma": (special.gamma, 5, 11)}
POSITIVE = {"lgamma": (lgamma, 3, 6), "digamma": (digamma, 4, 10)}


@pytest.mark.parametrize("dtype", KINDS)
def test_errors_of_one_operand(dtype: str) -> None:
    x = values(KINDS[dtype])
    for (name, (f, most, worst)), y in zip(UNARY.items(), compiled(" ".join(UNARY), "X", dtype)(x), strict=True):
        judge(name, steps(y, f(x)), most, worst, x)
        if name in ("cbrt", "sinpi"):
            zeros = x == 0
            assert np.array_equal(np.signbit(y[zeros]), np.signbit(x[zeros])), name


@pytest.mark.parametrize("dtype", KINDS)
def test_errors_of_two_operands(dtype: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(values(KINDS[dtype])[-36:], values(KINDS[dtype])[-36:]))
    x, y = np.concatenate([values(KINDS[dtype]), a]), np.concatenate([np.roll(values(KINDS[dtype]), 1), b])
    for (name, (f, most, worst)), z in zip(BINARY.items(), compiled(" ".join(BINARY), "X Y", dtype)(x, y), strict=True):
        exact = f(x.astype(L), y.astype(L))
        judge(name, steps(z, exact), most, worst, x)
        zeros = (z == 0) & (exact == 0)
        assert np.array_equal(np.signbit(z[zeros]), np.signbit(exact[zeros])), name


@pytest.mark.parametrize("dtype", KINDS)
def test_errors_of_special_functions(dtype: str) -> None:
    x = values(KINDS[dtype])
    x = x[(np.abs(x) > 1e-300) & ~((x < -170) & (x > -190))]  # there SciPy's gamma underflows too early
    for (name, (f, most, worst)), y in zip(SPECIAL.items(), compiled(" ".join(SPECIAL), "X", dtype)(x), strict=True):
        judge(name, steps(y, f(x.astype(float)).astype(L)), most, worst, x)
    x = np.abs(x)
    x = x[(x < 1e6) & (x > 1e-15)]
    for (name, (f, most, worst)), y in zip(POSITIVE.items(), compiled(" ".join(POSITIVE), "X", dtype)(x), strict=True):
        exact = f(x)
        away = np.abs(exact) > 0.25  # the sums above are right to some 18 places behind the point
        judge(name, steps(y, exact)[away], most, worst, x[away])


def judge(name: str, error: Array, most: float, worst: float, x: Array) -> None:
    assert np.median(error) <= 1, f"{name}: median {np.median(error)}"
    assert np.quantile(error, 0.99, method="lower") <= most, f"{name}: p99 {np.quantile(error, 0.99, method='lower')}"
    assert error.max() <= worst, f"{name}({x[error.argmax()]!r}) is {error.max()} ULP off"


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ["cbrt", "log10"])
def test_the_accuracy_set_of_numpy(name: str, dtype: str) -> None:
    kind = KINDS[dtype]
    bits = {np.float32: np.uint32, np.float64: np.uint64}[kind]
    path = Path(np.__file__).parent / "_core" / "tests" / "data" / f"umath-validation-set-{name}.csv"
    rows = [r for r in csv.reader(path.read_text().splitlines()[1:]) if r[0] == f"np.{kind.__name__}"]
    x, expected = (np.array([int(r[k], 16) for r in rows], bits).view(kind) for k in (1, 2))
    tolerance = max(int(r[3]) for r in rows)
    assert len(rows) > 500
    np.testing.assert_array_max_ulp(compiled(name, "X", dtype)(x), expected, tolerance)


def test_exact_functions_on_special_values() -> None:
    for dtype, kind in KINDS.items():
        x = values(kind)
        y = np.roll(x, 7)
        y[::5] = x[::5]
        found = compiled("copysign nextafter fmod", "X Y", dtype)(x, y)
        for name, f, z in zip(("copysign", "nextafter", "fmod"), (np.copysign, np.nextafter, np.fmod), found, strict=True):
            np.testing.assert_array_equal(z, f(x, y), err_msg=name)
            number = ~np.isnan(z)
            np.testing.assert_array_equal(np.signbit(z[number]), np.signbit(f(x, y)[number]), err_msg=f"sign of {name}")


@pytest.mark.parametrize("dtype", KINDS)
def test_differences_that_do_not_cancel(dtype: str) -> None:
    x = np.linspace(-9, 9, 1001).astype(KINDS[dtype]) ** 3 / 100
    wide = x.astype(L)
    shrunk, plus, below = compiled("tanhshrink squareplus log_sigmoid", "X", dtype)(x)
    near = np.where(np.abs(wide) < 1, wide, 1)
    # x cosh x - sinh x = Σ 2n x^(2n + 1) / (2n + 1)!
    series = sum(2 * n * near ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(10, 0, -1)) / np.cosh(near)
    judge("tanhshrink", steps(shrunk, np.where(near == wide, series, wide - np.tanh(wide))), 2, 4, x)
    judge("squareplus", steps(plus, np.where(wide < 0, 2 / (np.sqrt(wide * wide + 4) - wide), (wide + np.sqrt(wide * wide + 4)) / 2)), 2, 3, x)
    judge("log_sigmoid", steps(below, -np.logaddexp(-wide, 0)), 2, 3, x)
