"""A built library in this process, called through ctypes."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...ir.errors import ToolError
from ...ir.graph import Port
from ...ir.numbers import number_for
from ...ir.program import Program
from ..literals import SMALL, small_bits

_SCALARS: dict[str, Any] = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16,
    "f8e4m3": ctypes.c_uint8, "f8e5m2": ctypes.c_uint8, "bool": ctypes.c_uint8,
    "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16, "i8": ctypes.c_int8,
    "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "u16": ctypes.c_uint16, "u8": ctypes.c_uint8,
}  # fmt: skip
_WARM_UP = 2


class Library:
    """The entry of one program.  Arrays must have the port's dtype, shape and layout: nothing is converted here."""

    def __init__(self, path: Path, program: Program, symbol: str, extra: tuple[Any, ...] = ()) -> None:
        try:
            # kept, since the functions go when it does
            self._handle = ctypes.CDLL(str(path))
            self._function = getattr(self._handle, symbol)
        except (OSError, AttributeError) as error:
            raise ToolError(f"cannot load {symbol} from {path}: {error}") from None
        self._function.restype = ctypes.c_int32
        arguments = [kind for p in program.ports for kind in ([_SCALARS[d.name] for _, d in p.values] if p.role == "scalar" else [ctypes.c_void_p])]
        self._function.argtypes = [*arguments, *(ctypes.c_int64 for _ in program.sizes), *(ctypes.c_void_p for _ in extra)]
        self.extra = extra  # pointers that stand behind the sizes: a stream
        # how each argument is taken from what a caller gives for a port
        self.picks: list[tuple[str, Callable[[Any], Any]]] = [(p.name, pick) for p in program.ports for pick in _pickers(p)]
        self._sizes = [s.name for s in program.sizes]

    def arguments(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Any]:
        """What `function` takes: pointers as integers, scalars, sizes.  The arrays must outlive the calls."""
        values: list[Any] = [pick(buffers[name]) for name, pick in self.picks]
        values += [sizes[name] for name in self._sizes]
        values += self.extra
        return values

    def bind(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> Callable[[], int]:
        """The call with its arguments fixed, for many runs over the same memory; it keeps the arrays alive."""
        call = partial(self._function, *self.arguments(buffers, sizes))
        call.__dict__["buffers"] = dict(buffers)
        return call

    @property
    def function(self) -> Callable[..., int]:
        """The C function itself: pointers as integers, then scalars as declared, then sizes."""
        return self._function

    @property
    def address(self) -> int | None:
        """Where the C function is, if pointers and sizes are all that it takes."""
        return None if self.extra else ctypes.cast(self._function, ctypes.c_void_p).value

    def call(self, buffers: dict[str, Any], sizes: dict[str, int]) -> int:
        return self._function(*self.arguments(buffers, sizes))

    def time(self, buffers: dict[str, Any], sizes: dict[str, int], runs: int) -> list[float]:
        call, clock = self.bind(buffers, sizes), time.perf_counter
        for _ in range(_WARM_UP):
            call()
        seconds = []
        for _ in range(runs):
            start = clock()
            call()
            seconds.append(clock() - start)
        return seconds


def _pickers(port: Port) -> tuple[Callable[[Any], Any], ...]:
    """How the arguments for this port are taken from what the caller gave: one, or the two parts of a complex number."""
    if port.role != "scalar":
        return (address_picker(),)
    number, dtype = number_for(port), port.dtype
    if port.pairs:
        return (lambda value: number(value).real, lambda value: number(value).imag)
    return (lambda value: small_bits(number(value), dtype),) if dtype.name in SMALL else (number,)


# The data pointer is the first field of NumPy's array object, behind CPython's head; reading it there takes a tenth of the time of `array.ctypes.data`.
_HEAD = object.__basicsize__
_pointer = ctypes.c_void_p.from_address


def _address(array: Any) -> int:
    return _pointer(id(array) + _HEAD).value or 0


def _slow_address(array: Any) -> int:
    return array.ctypes.data


def _trusted() -> bool:
    """Whether arrays of this interpreter and this NumPy are laid out so."""
    import numpy

    samples = [numpy.arange(5), numpy.zeros((3, 4))[1:, 2:], numpy.zeros(0)]
    return sys.implementation.name == "cpython" and all(_address(a) == _slow_address(a) for a in samples)


@cache
def address_picker() -> Callable[[Any], int]:
    return _address if _trusted() else _slow_address
