"""A stand-in for CuPy where there is no GPU: memory is the host's, kernels are those of a library under the host shim, and every launch is written down.

Only what `luminal/runtimes/cuda/device.py` uses.  `library` is set by a test before a module is loaded.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

uint8, int32 = np.uint8, np.int32
library = ""  # the shared library that stands for every cubin
launches: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = []
devices: list[int] = []  # the device that was current at each launch
loaded: list[str] = []
fails = ""  # the function that reports an error of the driver's
_current = [0]


class DriverError(Exception):
    pass


class ndarray:
    """Device memory: `get` copies to the host, nothing else reaches it."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.data = types.SimpleNamespace(ptr=array.ctypes.data if array.size else 0)

    def get(self) -> np.ndarray:
        return self._array.copy()

    def fill(self, value: Any) -> None:
        self._array.fill(value)


STUBS = """
#ifdef LM_HOST
template <class... A> struct lm_given;
template <> struct lm_given<> {
  template <class F, class... D> static void call(F kernel, void **, D... done) { kernel(done...); }
};
template <class T, class... R> struct lm_given<T, R...> {
  template <class F, class... D> static void call(F kernel, void **a, D... done) { lm_given<R...>::call(kernel, a + 1, done..., *(T *)*a); }
};
template <class... A> static void lm_run(void (*kernel)(A...), void **a) { lm_given<A...>::call(kernel, a); }
static void **lm_arguments;
extern "C" void lm_host_arguments(void **a) { lm_arguments = a; }
"""


def launchable(source: str, kernels: Iterable[str]) -> str:
    """CUDA C++ with a function `NAME_thread` for each kernel, that runs it with the arguments which `lm_host_arguments` was given, by their addresses.

    No Python stands between a launch and a thread: one that waits at a barrier is set aside with its stack.
    """
    return source + STUBS + "".join(f'extern "C" void {name}_thread(void) {{ lm_run({name}, lm_arguments); }}\n' for name in kernels) + "#endif\n"


def asarray(host: np.ndarray) -> ndarray:
    return ndarray(host.copy())


def empty(count: int, dtype: Any) -> ndarray:
    return ndarray(np.frombuffer(b"\xa5" * (count * np.dtype(dtype).itemsize), dtype).copy())


def zeros(count: int, dtype: Any) -> ndarray:
    return ndarray(np.zeros(count, dtype))


class RawModule:
    def __init__(self, path: str) -> None:
        if fails == "RawModule":
            raise DriverError("CUDA_ERROR_NO_BINARY_FOR_GPU")
        loaded.append(path)
        self._library = ctypes.CDLL(library)

    def get_function(self, name: str) -> Any:
        getattr(self._library, name)  # AttributeError where there is no such symbol
        return lambda grid, block, args, shared_mem=0: _launch(self._library, name, grid, block, args)


def _launch(shim: ctypes.CDLL, name: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
    if fails == "launch":
        raise DriverError("CUDA_ERROR_LAUNCH_FAILED")
    launches.append((name, tuple(grid), tuple(block), tuple(args)))
    devices.append(_current[-1])
    given = [_argument(a) for a in args]
    addresses = (ctypes.c_void_p * len(given))(*map(ctypes.addressof, given))  # lives as long as the launch
    shim.lm_host_arguments(addresses)
    shim.lm_host_launch(*map(ctypes.c_uint, (*grid, *block)), getattr(shim, f"{name}_thread"))


def _argument(a: Any) -> Any:
    """What CuPy makes of an argument: the address of an array, a NumPy scalar by its bytes.  Plain Python numbers have no width of their own."""
    if isinstance(a, ndarray):
        return ctypes.c_void_p(a.data.ptr)
    assert isinstance(a, np.generic), f"an argument of type {type(a).__name__} has no width"
    return {"f": {4: ctypes.c_float, 8: ctypes.c_double}, "i": _INTEGERS, "u": _INTEGERS}[a.dtype.kind][a.dtype.itemsize](a.item())


_INTEGERS = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_int32, 8: ctypes.c_int64}


class Device:
    compute_capability = "80"

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        _current.append(self._number)

    def __exit__(self, *_: object) -> None:
        _current.pop()


class Event:
    def record(self) -> None: ...

    def synchronize(self) -> None: ...


cuda = types.SimpleNamespace(
    Device=Device,
    Event=Event,
    get_elapsed_time=lambda start, end: 0.25,  # milliseconds
    get_current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None),
    driver=types.SimpleNamespace(CUDADriverError=DriverError),
    runtime=types.SimpleNamespace(CUDARuntimeError=DriverError),
)
