"""Literals of C-family languages: the shortest text that gives exactly this value of this dtype."""

from __future__ import annotations

import math
import struct

from ..ir.dtypes import DType


def literal(value: int | float | bool, dtype: DType) -> str:
    """`0.1f`, `3`, `5u`, `INT64_C(9000000000)`, `INFINITY`, `0x3c00` (a 16-bit float by its bits)."""
    if dtype.kind == "bool":
        return "1" if value else "0"
    if dtype.name == "f16":
        return f"0x{half_bits(float(value)):04x}"
    if dtype.name == "bf16":
        return f"0x{bfloat_bits(float(value)):04x}"
    if dtype.is_float:
        return _float(float(value), dtype)
    return _integer(int(value), dtype)


def _float(value: float, dtype: DType) -> str:
    if math.isnan(value):
        return "NAN"
    if dtype.name == "f32":
        value = round_f32(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype.name != "f32":
        return repr(value)
    text = next(t for t in (f"{value:.{p}g}" for p in range(1, 10)) if round_f32(float(t)) == value)
    return text + ("f" if "." in text or "e" in text else ".0f")


def _integer(value: int, dtype: DType) -> str:
    if dtype.kind == "uint":
        return f"{value}u" if value < 1 << 32 else f"UINT64_C({value})"
    if value in (-(1 << 63), -(1 << 31)):
        return f"INT{value.bit_length()}_MIN"
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})"


def round_f32(value: float) -> float:
    """The nearest f32 (ties to even), infinite past the range."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def half_bits(value: float) -> int:
    """The bits of the nearest f16."""
    if math.isnan(value):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def bfloat_bits(value: float) -> int:
    """The bits of the nearest bf16 to the nearest f32 (as ml_dtypes does)."""
    if math.isnan(value):
        return 0x7FC0
    bits = struct.unpack("<I", struct.pack("<f", round_f32(value)))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
