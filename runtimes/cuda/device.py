"""Running on a GPU through CuPy: kernels from a cubin, arrays copied there and back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy

from ...ir.errors import DeviceError, ToolError
from ...ir.layout import layout
from ...ir.program import DEVICE_ERROR, OK, Program
from .emit import kernel_names, shared_memory
from .entry import Entry, Launch, Pointer, can_fail

_WARM_UP = 2


class Placed:
    """The ports of one call on the device: pointers, scalars, and the bytes on the host that they are copies of."""

    def __init__(self, cupy: Any, program: Program, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self.pointers: dict[str, Pointer] = {}
        self.scalars: dict[str, Any] = {}
        self._written: list[tuple[Any, Any]] = []
        for port in program.ports:
            if port.role == "scalar":
                value = buffers[port.name]
                parts = (complex(value).real, complex(value).imag) if port.pairs else (value,)
                self.scalars.update((name, part) for (name, _), part in zip(port.values, parts, strict=True))
                continue
            host = _bytes(buffers[port.name], layout(port, sizes)[2] * port.dtype.bytes)
            # outputs too: what lies between the elements of a strided one stays as it is
            memory = cupy.asarray(host)
            self.pointers[port.name] = Pointer(memory.data.ptr, memory)
            if port.role in ("out", "inout"):
                self._written.append((host, memory))

    def fetch(self) -> None:
        """Copy what was written back to the host."""
        for host, memory in self._written:
            host[...] = memory.get()


class DeviceLibrary:
    """A cubin on a CUDA device, called with host arrays: they are copied there before a call, and what it writes is copied back."""

    picks: list[tuple[str, Any]] = []
    extra: tuple[Any, ...] = ()
    function = None  # no C function: the entry is walked here

    def __init__(self, path: Path, program: Program, prefix: str, device: int) -> None:
        try:
            import cupy  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ToolError("running on a GPU needs CuPy: pip install 'luminal-cc[cuda]', or say --device host") from None
        self._cupy, self._program = cupy, program
        self._device = cupy.cuda.Device(device)
        with self._device:
            try:
                self._module = cupy.RawModule(path=str(path))
                self._kernels = {name: self._module.get_function(symbol) for name, symbol in kernel_names(prefix, program).items()}
            except cupy.cuda.driver.CUDADriverError as error:
                capability = self._device.compute_capability
                raise DeviceError(f"device {device} (compute capability {capability}) does not take {path.name}: {error}") from None
            self._asked = {f.name: shared_memory(f).bytes for f in program.functions}
            for name, bytes_ in self._asked.items():
                if bytes_:
                    self._kernels[name].max_dynamic_shared_size_bytes = bytes_
            self._word = cupy.zeros(1, cupy.int32) if any(map(can_fail, program.functions)) else None
        self._entry = Entry(program, self._allocate, self._word)

    def call(self, buffers: dict[str, Any], sizes: dict[str, int]) -> int:
        with self._device:
            placed, code, launches = self._plan(buffers, sizes)
            code = code or self._run(launches)
            if code == OK:
                placed.fetch()
            return code

    def bind(self, buffers: dict[str, Any], sizes: dict[str, int]) -> Callable[[], int]:
        """The call on copies of the arrays that stay on the device; returns when the device has finished."""
        with self._device:
            placed, code, launches = self._plan(buffers, sizes)

        def call() -> int:
            with self._device:
                return code or self._run(launches)

        call.__dict__["placed"] = placed  # kept alive
        return call

    def time(self, buffers: dict[str, Any], sizes: dict[str, int], runs: int) -> list[float]:
        """Seconds of the launches on the device, by events: neither copies nor checks are counted."""
        with self._device:
            placed, code, launches = self._plan(buffers, sizes)
            if code != OK:
                raise DeviceError(f"{self._program.name}: error code {code} where a time was to be measured")
            seconds: list[float] = []
            for k in range(_WARM_UP + runs):
                start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
                start.record()
                self._start(launches)
                end.record()
                end.synchronize()
                if k >= _WARM_UP:
                    seconds.append(self._cupy.cuda.get_elapsed_time(start, end) / 1e3)
            del placed
            return seconds

    def _plan(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Placed, int, list[Launch]]:
        placed = Placed(self._cupy, self._program, buffers, sizes)
        return placed, *self._entry.plan(placed.pointers, placed.scalars, sizes)

    def _start(self, launches: list[Launch]) -> None:
        for launch in launches:
            self._kernels[launch.function](launch.grid, launch.threads, launch.args, shared_mem=self._asked[launch.function])

    def _run(self, launches: list[Launch]) -> int:
        """Launch, wait, and give what a kernel found wrong."""
        try:
            self._start(launches)
            self._cupy.cuda.get_current_stream().synchronize()
        except (self._cupy.cuda.driver.CUDADriverError, self._cupy.cuda.runtime.CUDARuntimeError):
            return DEVICE_ERROR
        return self._status()

    def _status(self) -> int:
        """What kernels left in the status word, which is put back to 0."""
        if self._word is None:
            return OK
        code = int(self._word.get()[0])
        self._word.fill(OK)
        return code

    def _allocate(self, count: int) -> Pointer:
        memory = self._cupy.empty(count, self._cupy.uint8)
        return Pointer(memory.data.ptr, memory)


def _bytes(array: Any, count: int) -> Any:
    """The array's memory from its first element on, as bytes."""
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(array.ctypes.data)) if count else numpy.zeros(0, numpy.uint8)
