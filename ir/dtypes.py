"""Element types.  A `DType` is an interned value: `f32 is dtype("float")`.  `lanes > 1` is a vector type (program level only)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy


class DType:
    """Written out, with what is asked of one most as attributes: compiled ahead of time they are fields of a structure, and every expression is asked for them."""

    __slots__ = ("_vectors", "bits", "bytes", "element", "is_complex", "is_float", "is_inexact", "is_integer", "kind", "lanes", "name")

    def __init__(self, name: str, kind: str, bits: int, lanes: int = 1, element: DType | None = None) -> None:
        self.name: Final = name  # "f32"; a vector of 16 is "f32x16"
        self.kind: Final = kind  # float | int | uint | bool | complex
        self.bits: Final = bits  # of one element in memory
        self.lanes: Final = lanes
        self.element: Final[DType] = element or self
        self.bytes: Final = bits // 8 * lanes  # of the whole value in memory, lanes included
        self.is_float: Final = kind == "float"
        self.is_complex: Final = kind == "complex"
        self.is_inexact: Final = kind in ("float", "complex")  # a float or a complex number: results are rounded
        self.is_integer: Final = kind in ("int", "uint")  # signed or unsigned; bool is neither integer nor float
        self._vectors: Final[dict[int, DType]] = {1: self}

    @property
    def part(self) -> DType:
        """What a component of a complex number is (f32 of c64); every other type itself."""
        return f32 if self.is_complex else self

    @property
    def min(self) -> int | float:
        """Smallest value: -inf for floats (the 8-bit e4m3 has no infinities: -448), the exact integer otherwise, 0 for bool."""
        if self.is_float:
            return -self.max
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int | float:
        """Largest value: inf for floats (e4m3: 448), the exact integer otherwise, 1 for bool."""
        if self.is_float:
            return 448.0 if self.element.name == "f8e4m3" else float("inf")
        if self.kind == "bool":
            return 1
        return (1 << (self.bits - (self.kind == "int"))) - 1

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next float (one ULP at 1); 0 for exact types."""
        return _EPSILON.get(self.element.name, 0.0)

    def vector(self, lanes: int) -> DType:
        """The vector type of `lanes` elements of this (scalar) type; the type itself for one lane."""
        found = self._vectors.get(lanes)
        if found is None:
            assert self.lanes == 1
            found = self._vectors[lanes] = DType(f"{self.name}x{lanes}", self.kind, self.bits, lanes, self)
        return found

    def __repr__(self) -> str:
        return self.name


f64: Final = DType("f64", "float", 64)
f32: Final = DType("f32", "float", 32)
f16: Final = DType("f16", "float", 16)
bf16: Final = DType("bf16", "float", 16)
f8e4m3: Final = DType("f8e4m3", "float", 8)
f8e5m2: Final = DType("f8e5m2", "float", 8)
i64: Final = DType("i64", "int", 64)
i32: Final = DType("i32", "int", 32)
i16: Final = DType("i16", "int", 16)
i8: Final = DType("i8", "int", 8)
u64: Final = DType("u64", "uint", 64)
u32: Final = DType("u32", "uint", 32)
u16: Final = DType("u16", "uint", 16)
u8: Final = DType("u8", "uint", 8)
bool_: Final = DType("bool", "bool", 8)
c64: Final = DType("c64", "complex", 64)

DTYPES: Final[dict[str, DType]] = {d.name: d for d in (f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool_, c64)}
INDEX: Final = i64  # sizes, loop variables and positions

_EPSILON: Final = {"f64": 2.0**-52, "f32": 2.0**-23, "c64": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "f8e4m3": 2.0**-3, "f8e5m2": 2.0**-2}
_ALIASES: Final = {
    "double": "f64", "float": "f32", "half": "f16", "int": "i32", "boolean": "bool", "complex": "c64", "bfloat16": "bf16",
    "fp64": "f64", "fp32": "f32", "fp16": "f16", "float64": "f64", "float32": "f32", "float16": "f16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "complex64": "c64",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip


def dtype(name: str) -> DType | None:
    """The dtype with this name or alias, in any case; `f32x16` gives a vector; None where there is none."""
    low = name.lower()
    if low in DTYPES:
        return DTYPES[low]
    if low in _ALIASES:
        return DTYPES[_ALIASES[low]]
    element, _, lanes = low.rpartition("x")
    if element in DTYPES and lanes.isdecimal():
        return DTYPES[element].vector(int(lanes))
    return None


@cache
def numpy_dtype(d: DType) -> numpy.dtype:
    """The NumPy dtype with the same memory layout (ml_dtypes for bf16 and the 8-bit floats).  Imports numpy late."""
    import numpy

    if d in (bf16, f8e4m3, f8e5m2):
        import ml_dtypes

        return numpy.dtype({bf16: ml_dtypes.bfloat16, f8e4m3: ml_dtypes.float8_e4m3fn, f8e5m2: ml_dtypes.float8_e5m2}[d])
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bool": "bool", "c64": "complex64"}
    name = names.get(d.name) or d.name.replace("u", "uint").replace("i", "int", 1) if d.kind != "uint" else "uint" + d.name[1:]
    return numpy.dtype(name)


def from_numpy_dtype(d: numpy.dtype) -> DType | None:
    """The luminal dtype of a NumPy dtype, or None where there is none."""
    return dtype(d.name)
