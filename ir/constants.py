"""What an operator makes of floats and complex numbers that are known, rounded as it rounds: one constant in place of an operation, and of the memory that would hold its result."""

from __future__ import annotations

import cmath
import math
import operator
import struct
from collections.abc import Callable
from typing import Any

from .dtypes import DType, c64, f32, f64

# Rounded once as IEEE 754 wants it, so that they are the same everywhere.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg, "abs": abs,
    "recip": lambda x: 1 / x, "real": lambda x: x.real, "imag": lambda x: x.imag,
}  # fmt: skip
# Of libm, whose last place is its own affair: only where it is rounded away.
_FUNCTIONS: tuple[str, ...] = (
    "sqrt", "exp", "expm1", "log", "log1p", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
)  # fmt: skip


def computed(op: str, operands: list[Any], to: DType) -> float | complex | None:
    """The value of the operator on these; None where it is no finite number, or is not computed here."""
    if to not in (f32, f64, c64):
        return None
    function = (complex if to is c64 else float) if op == "cast" else _EXACT.get(op)
    if function is None and op in _FUNCTIONS and (to is not f64 or op == "sqrt"):
        function = getattr(cmath if to is c64 else math, op, None)
    if function is None:
        return None
    try:
        value: Any = function(*operands)
        if to is c64:
            value = complex(single(value.real), single(value.imag))
            return value if cmath.isfinite(value) else None
        value = single(value) if to is f32 else float(value)
    except (ArithmeticError, ValueError):
        return None
    return value if math.isfinite(value) else None


def single(x: float) -> float:
    """The nearest f32 (ties to even), infinite past the range."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
