"""How far a right implementation may be from an exact complex value: the error rules of `bounds` where an operand or the result is complex.

The error of a complex number bounds the modulus of what it is off by, hence each of its parts.  A product is off by √5/2 ULP of |x·y| at most (Brent, Percival,
Zimmermann 2007), whatever of it cancels; quotients, roots and functions by the ULP below, of the result's modulus.

Addition, subtraction and choice are judged part by part wherever they are.  Of products, quotients and functions at infinities and NaN nothing is said, as
in C without its Annex G; nor of functions whose operand is within its error of a cut.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import DType, f32, numpy_dtype
from . import bounds
from .bounds import Error, clear, epsilon, largest, settle, smallest
from .meaning import Array

PRODUCT = 1.2  # ULP of |x·y|
_SUM = 0.75  # both parts half an ULP off
_EXACT_BELOW = 2.0**23  # products of Gaussian integers below this lose nothing, in whatever order their parts are added

Operands = list[Array]


def _cut(x: Array, e: Array, result: Array) -> Array:
    """Undecided where the negative real axis, across which the argument jumps, is within the error."""
    return np.where((e > 0) & (np.real(x) - e < 0) & (np.abs(np.imag(x)) <= e), np.inf, result)


def product_error(x: Operands, e: Operands) -> Array:
    """Of the operands, as far as they reach through a product."""
    return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1]


def product_rounding(x: Array, y: Array, certain: Array, to: DType) -> Array:
    """The product's own error: none for small Gaussian integers, undecided where a part's own products may overflow."""
    size = np.abs(x) * np.abs(y)
    small = certain & (size < _EXACT_BELOW) & (np.rint(x) == x) & (np.rint(y) == y)
    own = np.where(small, 0, PRODUCT * epsilon(to) * size + 2 * smallest(to))
    return np.where(np.isfinite(size) & (size <= largest(to)), own, np.inf)


def _quotient(x: Operands, e: Operands, v: Array) -> Array:
    return (e[0] + np.abs(v) * e[1]) / clear(x[1], e[1])


def _root(x: Operands, e: Operands, v: Array) -> Array:
    return _cut(x[0], e[0], np.minimum(np.where(e[0] > 0, e[0] / np.abs(v), 0), np.sqrt(e[0])))


# propagated error of the operands, and ULP of the result's modulus
_RULES: dict[str, tuple[Callable[[Operands, Operands, Array], Array], float]] = {
    "div": (_quotient, 4),
    "recip": (lambda x, e, v: np.abs(v) * e[0] / clear(x[0], e[0]), 4),
    "sqrt": (_root, 3),
    "exp": (lambda x, e, v: np.abs(v) * np.expm1(e[0]), 12),
    "log": (lambda x, e, v: _cut(x[0], e[0], e[0] / clear(x[0], e[0])), 4),
    "abs": (lambda x, e, v: e[0], 1),
    "angle": (lambda x, e, v: _cut(x[0], e[0], e[0] / clear(x[0], e[0])), 4),
}


def ulp(op: str) -> float:
    """What one operation on complex numbers may be off by, in ULP of its modulus."""
    if op in _RULES:
        return _RULES[op][1]
    return {"add": _SUM, "sub": _SUM, "mul": PRODUCT, "fma": PRODUCT + _SUM, "cast": 0.5}.get(op, 0)


def error(op: str, v: Array, args: Operands, errors: list[Error], source: DType, to: DType) -> Error:
    """As `bounds.error`."""
    exact = all(k is None for k in errors)
    e = [np.zeros(()) if k is None else k for k in errors]
    match op:
        case "cast":  # from a real number, which may be rounded
            return bounds.error("cast", np.real(v), args, errors, source, f32)
        case "complex":
            return None if exact else np.hypot(e[0], e[1])
        case "real" | "imag" | "neg":
            return errors[0]
        case "where":
            return None if exact else bounds.selected(args, e)
        case "equal" | "not_equal":
            return None if exact else bounds.compared(op, args, e)
        case _:
            pass
    certain = np.ones((), bool)
    for k in e:
        certain = certain & (k == 0)
    finite = np.ones((), bool)
    for x in args:
        finite = finite & np.isfinite(x)
    if op in ("add", "sub"):
        fits = certain & (v.astype(numpy_dtype(to)) == v)
        own = np.where(fits, 0, _SUM * epsilon(to) * np.abs(v) + smallest(to))
        result = np.where(np.isfinite(v), e[0] + e[1] + own, np.where(certain, 0, np.inf))
        finite = finite | True
    elif op in ("mul", "fma"):
        result = product_error(args, e) + product_rounding(args[0], args[1], certain, to)
        if op == "fma":
            result = result + np.where(result == 0, 0, _SUM * epsilon(to) * np.abs(v)) + e[2]
    else:
        rule, own = _RULES[op]
        result = settle(v, np.asarray(rule(args, e, v), np.float64), own, to, None)
        result = np.where(np.isfinite(v) | certain, np.where(np.isfinite(v), result, 0), np.inf)
    result = np.where(np.isnan(result) | ~finite, np.inf, result)
    return np.where(np.isfinite(v) & (np.abs(v) + result > largest(to)), np.inf, result).astype(np.float64)
