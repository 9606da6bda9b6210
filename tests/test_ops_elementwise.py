"""The elementwise family of the library against NumPy and SciPy, at drawn values and at special ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from library import Array, Case, check
from luminal.dsl.scope import LIBRARY
from scipy import special

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, 10.0, 100.0, 1e-3, 1e-300, -1e-300, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan)


def spread(values: Array) -> Array:
    """The drawn values, with special ones among them where there is room."""
    result = np.array(values, float)
    result[: len(SPECIAL)] = SPECIAL[: len(result)]
    return result


def turned(values: Array) -> Array:
    """The same, the special ones in another order, so that a second operand meets them in new pairs."""
    result = np.array(values, float)
    for k in range(1, len(SPECIAL) + 1):
        part = result[k * len(SPECIAL) : (k + 1) * len(SPECIAL)]
        part[:] = np.roll(SPECIAL, k)[: len(part)]
    return result


def every_pair(values: Array) -> Array:
    result = np.array(values, float)
    for k in range(1, len(SPECIAL) + 1):
        part = result[k * len(SPECIAL) : (k + 1) * len(SPECIAL)]
        part[:] = SPECIAL[: len(part)]
    return result


def extremes(values: Array) -> Array:
    """The drawn integers, with the least and the greatest of the dtype."""
    result = values.copy()
    info = np.iinfo(values.dtype)
    result[: len(result) // 2 : 3] = info.max
    result[1 : len(result) // 2 : 3] = info.min
    return result


def small(values: Array) -> Array:
    """Divisors and distances about 0, and one beyond every width."""
    result = values.copy()
    found = [1, 3, 0, 7, 31, 100, *([-1, -3] if values.dtype.kind == "i" else [])]
    result[: len(found)] = found[: len(result)]
    return result


@np.vectorize
def lgamma(x: float) -> float:
    """C's, which knows denormals and -inf where SciPy does not."""
    return math.inf if x <= 0 and (math.isinf(x) or x == round(x)) else math.lgamma(x)


def safe(f: np.ufunc) -> object:
    """An integer quotient or residue, 0 where the divisor is 0."""
    return lambda x, y: np.where(y == 0, 0, f(x, np.where(y == 0, 1, y)))


def shifted(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where((y < 0) | (y >= width), x >> (width - 1) if x.dtype.kind == "i" else 0, x >> np.clip(y, 0, width - 1)).astype(x.dtype)


def ones(x: Array) -> Array:
    return np.array([bin(int(v) & (1 << 8 * x.dtype.itemsize) - 1).count("1") for v in x], np.uint8)


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "frac": lambda x: x - np.trunc(x), "cbrt": np.cbrt,
    "exp": np.exp, "exp2": np.exp2, "exp10": special.exp10, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "logit": special.logit, "entropy": special.entr,
    "erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": lgamma, "gamma": special.gamma, "digamma": special.psi,
    "normal_cdf": special.ndtr, "normal_pdf": lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), "log_normal_pdf": lambda x: -x * x / 2 - np.log(2 * np.pi) / 2,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "isposinf": np.isposinf, "isneginf": np.isneginf, "signbit": np.signbit,
    "nan_to_num": np.nan_to_num,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "fmod": np.fmod, "mod": np.mod, "remainder": np.remainder, "pow": np.power, "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
    "atan2": np.arctan2, "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "heaviside": np.heaviside, "xlogy": special.xlogy,
    "xlog1py": special.xlog1py, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "isclose": np.isclose,
}  # fmt: skip
INTEGERS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "floordiv": safe(np.floor_divide), "mod": safe(np.mod),
    "fmod": safe(np.fmod), "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "right_shift": shifted,
    "left_shift": lambda x, y: np.where((y < 0) | (y >= 8 * x.dtype.itemsize), 0, x << np.clip(y, 0, 8 * x.dtype.itemsize - 1)).astype(x.dtype),
    "equal": np.equal, "less": np.less,
}  # fmt: skip
ONE_INTEGER = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "bitwise_not": np.invert, "bit_count": ones}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not}
CASES = [
    *(Case(name, f, inputs={"X": spread}) for name, f in UNARY.items()),
    *(Case(name, f, inputs={"X": every_pair, "Y": turned}) for name, f in BINARY.items()),
    *(Case(name, f, inputs={"X": extremes, "Y": small}, dtype=d) for name, f in INTEGERS.items() for d in ("i32", "u8", "i64")),
    *(Case(name, f, inputs={"X": extremes}, dtype=d) for name, f in ONE_INTEGER.items() for d in ("i32", "u8", "i16", "u64")),
    *(Case(name, f) for name, f in LOGIC.items()),
    Case("bitwise_xor", np.logical_xor, dtype="bool"),
    Case("sinpi", lambda x: np.sin(np.pi * x)),
    Case("sinpi", np.zeros_like, inputs={"X": lambda x: np.round(1e6 * x)}),
    Case("cospi", lambda x: np.cos(np.pi * x)),
    Case("cospi", np.zeros_like, inputs={"X": lambda x: np.round(1e6 * x) + 0.5}),
    Case("sinc", np.sinc),
    Case("sinc", np.ones_like, inputs={"X": 0.0}),
    Case("floordiv", np.floor_divide),
    Case("fma", lambda x, y, z: x * y + z),
    Case("lerp", lambda a, b, w: (1 - w) * a + w * b),
    Case("clip", np.clip, inputs={"LOW": -0.5, "HIGH": 1.0, "X": spread}),
    Case("clip", lambda x, low, high: np.minimum(np.maximum(x, low), high), dtype="i32"),
    Case("clamp", lambda x: np.clip(x, -1, 2), {"low": -1.0, "high": 2.0}, inputs={"X": spread}),
    Case("nan_to_num", lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=3), {"nan_value": 1.0, "posinf": 2.0, "neginf": 3.0}, inputs={"X": spread}),
    Case(
        "isclose",
        lambda x, y: np.isclose(x, y, 0.5, 0.25, True),
        {"rtol": 0.5, "atol": 0.25, "equal_nan": True},
        inputs={"X": every_pair, "Y": turned},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_elementwise(case: Case) -> None:
    check(case)


def test_every_composite_of_the_family_has_a_check() -> None:
    assert {p.stem for p in LIBRARY.glob("elementwise/*.toml")} == {c.name for c in CASES}
