"""Literals of C-family languages: the shortest text that gives exactly this value of this dtype."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..ir.constants import single
from ..ir.dtypes import DType


def literal(value: int | float | bool, dtype: DType) -> str:
    """`0.1f`, `3`, `5u`, `INT64_C(9000000000)`, `INFINITY`, `0x3c00` (a float of 16 or 8 bits by its bits)."""
    if dtype.kind == "bool":
        return "1" if value else "0"
    if dtype.name in SMALL:
        return f"0x{small_bits(float(value), dtype):0{dtype.bytes * 2}x}"
    if dtype.is_float:
        return _float(float(value), dtype)
    return _integer(int(value), dtype)


def _float(value: float, dtype: DType) -> str:
    if math.isnan(value):
        return "NAN"
    if dtype.name == "f32":
        value = single(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype.name != "f32":
        return repr(value)
    text = next(t for t in (f"{value:.{p}g}" for p in range(1, 10)) if single(float(t)) == value)
    return text + ("f" if "." in text or "e" in text else ".0f")


def _integer(value: int, dtype: DType) -> str:
    if dtype.kind == "uint":
        return f"{value}u" if value < 1 << 32 else f"UINT64_C({value})"
    if value in (-(1 << 63), -(1 << 31)):
        return f"INT{value.bit_length()}_MIN"
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})"


class Small(NamedTuple):
    """A float type that is handled by its bits."""

    digits: int  # stored bits of the mantissa
    bias: int  # of the exponent
    top: int  # the first pattern above the finite numbers: infinity, or NaN where there is none
    nan: int


SMALL = {
    "f16": Small(10, 15, 0x7C00, 0x7E00),
    "bf16": Small(7, 127, 0x7F80, 0x7FC0),
    "f8e4m3": Small(3, 7, 0x7F, 0x7F),
    "f8e5m2": Small(2, 15, 0x7C, 0x7E),
}


def small_bits(value: float, dtype: DType) -> int:
    """The bits of the nearest value of a small float type to the nearest f32, ties to even, `top` past the range (as NumPy and ml_dtypes do)."""
    form = SMALL[dtype.name]
    if math.isnan(value):
        return form.nan
    size = abs(value if dtype.name == "f16" else single(value))
    bits = form.top
    if not math.isinf(size):
        exponent = max(math.frexp(size)[1] - 1, 1 - form.bias) if size else 1 - form.bias
        # round() of a float is exact, with ties to even; a normal number's leading bit adds one to the exponent
        steps = round(math.ldexp(size, form.digits - exponent))
        bits = min(((exponent + form.bias - 1) << form.digits) + steps, form.top)
    return bits | (1 << (dtype.bits - 1) if math.copysign(1, value) < 0 else 0)
