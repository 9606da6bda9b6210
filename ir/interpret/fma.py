"""a·b + c with one rounding, on NumPy arrays of float64 and float32 and on single numbers.

Products are split without error (Dekker 1971), sums too (Knuth); the last addition is made once to odd and once to nearest, which together
round as one (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008).  The split overflows beyond 2^996 and loses bits where
a product falls below 2^-969; there it is done in rational arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: Array) -> tuple[Array, Array]:
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    p = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b rounded to odd: an inexact sum with an even last bit moves towards what was lost."""
    s, lost = _two_sum(a, b)
    even = (np.ascontiguousarray(s).view(np.int64) & 1) == 0
    move = even.reshape(s.shape) & (lost != 0) & np.isfinite(s) & np.isfinite(lost)
    return np.where(move, np.nextafter(s, np.where(lost > 0, np.inf, -np.inf)), s)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 arrays, rounded once."""
    a, b, c = (np.asarray(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    uh, ul = _two_product(a, b)
    th, tl = _two_sum(c, ul)
    vh, vl = _two_sum(uh, th)
    result = np.asarray(vh + _odd_sum(tl, vl))
    unsafe = ~(np.isfinite(result) & (np.abs(uh) > 2.0**-900) & (np.abs(result) > 2.0**-900))
    if unsafe.any():
        result[unsafe] = [fma64_scalar(*t) for t in zip(a[unsafe].tolist(), b[unsafe].tolist(), c[unsafe].tolist(), strict=True)]
    return result


def fma32(a: Array, b: Array, c: Array) -> Array:
    """float32 arrays: the product is exact in float64, the sum is made to odd and then rounded once."""
    p = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    plain = p + c
    return np.where(np.isfinite(plain), _odd_sum(*np.broadcast_arrays(p, c)), plain).astype(np.float32)


def fma64_scalar(a: float, b: float, c: float) -> np.float64:
    """One float64, in rational arithmetic."""
    plain = a * b + c
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return np.float64(plain)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        # a zero keeps the sign that ordinary arithmetic gives it
        return np.float64(float(exact)) if exact else np.float64(plain)
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def fma32_scalar(a: float, b: float, c: float) -> np.float32:
    """One float32, by way of float64 rounded to odd."""
    p, c = float(a) * float(b), float(c)
    s = p + c
    t = s - p
    lost = (p - (s - t)) + (c - t)
    if lost and math.isfinite(s) and math.isfinite(lost) and not int(math.frexp(s)[0] * 9007199254740992.0) & 1:
        s = math.nextafter(s, math.inf if lost > 0 else -math.inf)
    return np.float32(s)
