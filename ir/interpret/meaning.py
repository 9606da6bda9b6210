"""What every row of `primops.OPS` computes, on NumPy arrays.

One table for all interpreters.  A function takes arrays in *working* form and gives the result in working form:

    integers      NumPy's own integer type of the same width, so that arithmetic wraps by itself
    bool          numpy.bool_
    f32 and below float64: products of two are exact, and everything else carries 29 spare bits
    f64           longdouble (80 bits on x86)
    c64           complex128

The functions look at the type of the array that they are given and nothing else, so the same row also serves float32 arrays
(`ir/interpret/kernel.py` runs them in float64 and rounds once).  Call them under `numpy.errstate(all="ignore")`: division by zero,
overflow and NaN are values here, not accidents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DType, numpy_dtype
from ..errors import CompilerBug

Array = np.ndarray[Any, Any]


def working(d: DType) -> np.dtype[Any]:
    """The NumPy type that exact evaluation of `d` happens in."""
    if d.is_float:
        return np.dtype(np.longdouble if d.bits == 64 else np.float64)
    return np.dtype(np.complex128) if d.is_complex else numpy_dtype(d)


def rounded(values: Array, d: DType) -> Array:
    """Working values rounded to `d` and brought back to working form.  float64 → bf16 and f8 go there in one rounding.

    The 8-bit e4m3 has no infinity: what overflows becomes NaN there.
    """
    if not d.is_inexact:
        return values
    return values.astype(numpy_dtype(d)).astype(working(d))


def from_numpy(values: Any, d: DType) -> Array:
    """A user's array or number as `d` (rounded to it where it is not of that type yet), in working form."""
    array = np.asarray(values)
    target = numpy_dtype(d)
    if array.dtype != target:
        array = array.astype(target)
    return array.astype(working(d), copy=False)


# ---- integers


def _shift_left(x: Array, y: Array) -> Array:
    width = x.dtype.itemsize * 8
    inside = (y >= 0) & (y < width)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0).astype(x.dtype)), np.zeros((), x.dtype))


def _shift_right(x: Array, y: Array) -> Array:
    """Arithmetic for signed types; a distance outside [0, width) leaves the sign only."""
    width = x.dtype.itemsize * 8
    inside = (y >= 0) & (y < width)
    sign = np.right_shift(x, np.asarray(width - 1, x.dtype)) if x.dtype.kind == "i" else np.zeros((), x.dtype)
    return np.where(inside, np.right_shift(x, np.where(inside, y, 0).astype(x.dtype)), sign)


def _pow(x: Array, y: Array) -> Array:
    """C's pow for floats; integers by repeated squaring with wrap, 0 for negative powers."""
    if np.asarray(x).dtype.kind == "f":
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    result, base, rest = np.ones(x.shape, x.dtype), x.copy(), np.where(y < 0, 0, y)
    while rest.any():
        result = np.where(rest & 1, result * base, result)
        base, rest = base * base, rest >> 1
    return np.where(y < 0, np.zeros((), x.dtype), result)


def _bits(x: Array, y: Array | None, logical: Callable[..., Array], bitwise: Callable[..., Array]) -> Array:
    chosen = logical if np.asarray(x).dtype.kind == "b" else bitwise
    return chosen(x) if y is None else chosen(x, y)


# ---- floats


def _sign(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x))


def _floordiv(x: Array, y: Array) -> Array:
    """floor(x / y).  NumPy's floor_divide goes through fmod, so that x / y rounding up to an integer does no harm."""
    q = np.floor_divide(x, y)
    if q.dtype.kind == "f":
        # beyond 2^53 (2^64) the quotient is an integer anyway; NumPy gives NaN for an infinite x
        q = np.where(np.isinf(x), np.divide(x, y), q)
    return q


def _mod(x: Array, y: Array) -> Array:
    """x - y·floor(x / y), the sign of y; exact (fmod).  Integer mod by 0 is 0."""
    return np.mod(x, y)


def _fma(a: Array, b: Array, c: Array) -> Array:
    """In working precision: the rounding to the dtype comes after, once.  The product of two f64 needs 106 bits: what it loses is added back (Dekker 1971)."""
    plain = np.asarray(a * b + c)
    if plain.dtype != np.longdouble:
        return plain
    p, lost = _product(np.asarray(a), np.asarray(b))
    s = p + c
    t = s - p
    whole = s + (((p - (s - t)) + (c - t)) + lost)
    return np.where(np.isfinite(whole), whole, plain)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """A longdouble product and its rounding error, by halves of the significand whose products are exact."""
    factor = np.longdouble(2) ** ((np.finfo(np.longdouble).nmant + 2) // 2) + 1

    def halves(x: Array) -> tuple[Array, Array]:
        high = factor * x - (factor * x - x)
        return high, x - high

    p = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _erf(x: Array) -> Array:
    """Abramowitz & Stegun 7.1.6 (a series of positive terms) below 3, the continued fraction 7.1.14 of erfc above; to working precision."""
    x = np.asarray(x)
    a = np.abs(x)
    root_pi = np.sqrt(np.arctan(np.ones((), x.dtype)) * 4)
    small = np.where(a < 3, a, 0)
    term = small.copy()
    series = small.copy()
    for n in range(1, 70):
        term = term * (2 * small * small / (2 * n + 1))
        series = series + term
    low = series * np.exp(-small * small) * 2 / root_pi
    big = np.where(a < 3, 3, np.minimum(a, 30))
    tail = big.copy()
    for n in range(80, 0, -1):
        tail = big + (x.dtype.type(n) / 2) / tail
    high = 1 - np.exp(-big * big) / (tail * root_pi)
    return np.where(np.isnan(x), x, np.copysign(np.where(a < 3, low, high), x))


# ---- complex numbers


def _compose(x: Array, y: Array) -> Array:
    """x + iy; not by arithmetic, in which an infinite y would spoil the real part."""
    x, y = np.broadcast_arrays(x, y)
    result = np.empty(x.shape, np.complex128)
    result.real, result.imag = x, y
    return result


def _divide(x: Array, y: Array) -> Array:
    """Of complex numbers x·conj(y) / |y|²; the parts of f32 leave room for the squares.  By zero each part is divided, as NumPy does."""
    if np.asarray(y).dtype.kind != "c":
        return np.divide(x, y)
    square = np.real(y) ** 2 + np.imag(y) ** 2
    above = np.where(square == 0, x, np.multiply(x, np.conjugate(y)))
    return _compose(np.real(above) / square, np.imag(above) / square)


VALUE: dict[str, Callable[..., Array]] = {
    "log2": np.log2,
    "exp2": np.exp2,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "recip": lambda x: _divide(np.ones((), np.asarray(x).dtype), x),
    "add": np.add,
    "mul": np.multiply,
    "mod": _mod,
    "less_than": np.less,
    "where": np.where,
    "floordiv": _floordiv,
    "max": np.maximum,
    "fma": _fma,
    "bit_and": lambda x, y: _bits(x, y, np.logical_and, np.bitwise_and),
    "bit_or": lambda x, y: _bits(x, y, np.logical_or, np.bitwise_or),
    "bit_xor": lambda x, y: _bits(x, y, np.logical_xor, np.bitwise_xor),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "sub": np.subtract,
    "neg": np.negative,
    "div": _divide,
    "min": np.minimum,
    "abs": np.abs,
    "sign": _sign,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_equal": np.less_equal,
    "bit_not": lambda x: _bits(x, None, np.logical_not, np.invert),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": _pow,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "complex": _compose,
    "real": np.real,
    "imag": np.imag,
    "angle": np.angle,
}


def cast(x: Array, source: DType, to: DType) -> Array:
    """Working values of `source` as working values of `to`.

    Float to float keeps the exact value (the rounding is the error bound's matter, or `rounded`'s); float to integer truncates and
    saturates, NaN gives 0; integer to integer wraps; to bool is x != 0.
    """
    if to.kind == "bool":
        return np.not_equal(x, 0)
    if source.is_float and to.is_integer:
        low, high = to.min, to.max
        whole = np.trunc(x)
        # the limits as floats round outwards, so everything strictly between them fits
        inside = (whole > float(low)) & (whole < float(high))
        edge = np.where(
            whole > 0, np.asarray(high, numpy_dtype(to)), np.where(whole < 0, np.asarray(low, numpy_dtype(to)), np.zeros((), numpy_dtype(to)))
        )
        return np.where(inside, np.where(inside, whole, 0).astype(numpy_dtype(to)), edge)
    return np.asarray(x).astype(working(to))


def bitcast(x: Array, source: DType, to: DType) -> Array:
    """The same bits as another dtype of the same width."""
    if source.bits != to.bits:
        raise CompilerBug("interpret", f"bitcast from {source} to {to}")
    bits = np.ascontiguousarray(np.asarray(x).astype(numpy_dtype(source)))
    return bits.view(numpy_dtype(to)).reshape(np.shape(x)).astype(working(to))


def compute(op: str, args: list[Array], source: DType, to: DType) -> Array:
    """The row `op` on working arrays; `source` is the dtype of the first operand, `to` that of the result (they matter for casts only)."""
    if op == "cast":
        return cast(args[0], source, to)
    if op == "bitcast":
        return bitcast(args[0], source, to)
    return VALUE[op](*args)


def identity(combiner: str, d: DType) -> Any:
    """What a reduction over no elements gives, as a working value of `d`."""
    kind = working(d).type
    if combiner in ("add", "or"):
        return kind(0)
    if combiner == "mul":
        return kind(1)
    if combiner == "and":
        return kind(True) if d.kind == "bool" else kind(~np.zeros((), kind))
    return kind(d.min if combiner == "max" else d.max)


# The ufunc of each combiner, for reduce, accumulate and at.  max and min propagate NaN.
UFUNC: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip
