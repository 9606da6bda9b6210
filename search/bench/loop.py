"""Calling a C function many times from C, so that small kernels are compared without what a call from Python costs."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any

from .ceiling import compiled

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime

_TYPES: dict[Any, str] = {
    ctypes.c_void_p: "void *", ctypes.c_double: "double", ctypes.c_float: "float", ctypes.c_int64: "int64_t", ctypes.c_int32: "int32_t", ctypes.c_int16: "int16_t",
    ctypes.c_int8: "int8_t", ctypes.c_uint64: "uint64_t", ctypes.c_uint32: "uint32_t", ctypes.c_uint16: "uint16_t", ctypes.c_uint8: "uint8_t",
}  # fmt: skip
LEAST = 200e-6  # seconds of a loop


def looped(runtime: Runtime, target: Target, call: partial[Any], seconds: float, timeout: float | None) -> tuple[partial[Any], int]:
    """The call of a ctypes function with its arguments fixed, many times over: as a call of a loop in C, and how often that runs it.  `seconds`: about what one takes."""
    function: Any = call.func
    types = [_TYPES[t] for t in function.argtypes]
    arguments = ", ".join(f"{t} a{k}" for k, t in enumerate(types))
    names = ", ".join(f"a{k}" for k in range(len(types)))
    source = "\n".join(
        [
            "#include <stdint.h>",
            f"void loop(void (*f)({', '.join(types)}), int64_t n, {arguments}) {{",
            f"  for (int64_t k = 0; k < n; k++) f({names});",
            "}",
            "",
        ]
    )
    library = compiled(runtime, target, source, timeout)
    loop = library.loop
    loop.argtypes, loop.restype = [ctypes.c_void_p, ctypes.c_int64, *function.argtypes], None
    count = max(1, round(LEAST / max(seconds, 1e-8)))
    made = partial(loop, ctypes.cast(function, ctypes.c_void_p), count, *call.args)
    made.__dict__["kept"] = (call, library)  # the memory and the code that it uses
    return made, count
