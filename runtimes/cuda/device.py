"""Launching on a GPU through CuPy: the program's entry, walked in Python, with kernels from a cubin."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from ...ir import program as p
from ...ir.dtypes import bool_, numpy_dtype
from ...ir.errors import CompilerBug
from ...ir.expr import Expr, const, evaluate, rewrite
from ...ir.layout import layout


class Pointer(NamedTuple):
    """Device memory: its address (0 is null), and what a launch takes for it."""

    address: int
    memory: Any


class Entry:
    """Runs `program.entry`: checks, temporaries, launches.  `launch(function, grid, threads, args)` and `allocate(bytes) -> Pointer` are the device's."""

    def __init__(self, program: p.Program, launch: Callable[..., None], allocate: Callable[[int], Pointer]) -> None:
        self.program = program
        self.functions = {f.name: f for f in program.functions}
        self.launch = launch
        self.allocate = allocate

    def run(self, pointers: Mapping[str, Pointer], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """The error code of the entry; what kernels find wrong shows later."""
        return self._block(self.program.entry, dict(pointers), scalars, dict(sizes))

    def _block(self, block: p.Block, pointers: dict[str, Pointer], scalars: Mapping[str, Any], known: dict[str, int]) -> int:
        for s in block:
            match s:
                case p.Define(value=Expr()):
                    known[s.name] = self._value(s.value, pointers, known)
                case p.If():
                    taken = s.body if self._value(s.condition, pointers, known) else s.orelse
                    code = self._block(taken, pointers, scalars, known)
                    if code:
                        return code
                case p.Fail():
                    return s.code
                case p.Scratch():
                    pointers[s.name] = self.allocate(max(1, self._value(s.count, pointers, known)) * s.dtype.bytes)
                case p.Call():
                    self._call(self.functions[s.function], s.args, pointers, scalars, known)
                case _:
                    raise CompilerBug("cuda", f"an entry holds {type(s).__name__}")
        return p.OK

    def _call(
        self, f: p.Function, args: tuple[Expr | str, ...], pointers: Mapping[str, Pointer], scalars: Mapping[str, Any], known: Mapping[str, int]
    ) -> None:
        values: list[Any] = []
        inside: dict[str, int] = {}
        for param, arg in zip(f.params, args, strict=True):
            if isinstance(arg, str):
                values.append(pointers[arg].memory)
                continue
            value = scalars[arg.attr] if arg.op == "var" and arg.attr in scalars else self._value(arg, pointers, known)
            values.append(numpy_dtype(param.dtype).type(value))
            if param.dtype.is_integer:
                inside[param.name] = int(value)
        grid, threads = ([self._value(e, pointers, inside) for e in part] or [1] for part in (f.grid, f.threads))
        if all(grid):
            self.launch(f, tuple(grid), tuple(threads), values)

    def _value(self, e: Expr, pointers: Mapping[str, Pointer], known: Mapping[str, int]) -> int:
        def resolve(n: Expr) -> Expr | None:
            if n.op == "null":
                return const(pointers[n.attr].address == 0, bool_)
            if n.op == "overlap":
                a, b = (pointers[name].address for name in n.attr)
                x, y = (evaluate(size, known) for size in n.args)
                return const(x > 0 and y > 0 and a < b + y and b < a + x, bool_)
            return None

        return evaluate(rewrite(e, resolve), known)


class DeviceLibrary:
    """A cubin on the current CUDA device, called with host arrays: they are copied there before a call, and what it writes is copied back."""

    picks: list[tuple[str, Any]] = []
    extra: tuple[Any, ...] = ()
    function = None  # no C function: the entry is walked here

    def __init__(self, path: Path, program: p.Program) -> None:
        import cupy

        self._cupy = cupy
        self._program = program
        self._module = cupy.RawModule(path=str(path))
        self._entry = Entry(program, self._launch, self._allocate)
        self._fails = any(f.fails for f in program.functions)

    def _launch(self, f: p.Function, grid: tuple[int, ...], threads: tuple[int, ...], args: list[Any]) -> None:
        self._module.get_function(f.name)(grid, threads, tuple(args))

    def _allocate(self, count: int) -> Pointer:
        memory = self._cupy.empty(count, self._cupy.uint8)
        return Pointer(memory.data.ptr, memory)

    def _place(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[dict[str, Pointer], dict[str, Any], dict[str, Any]]:
        """Device copies of the arrays, the scalars, and the arrays' bytes on the host."""
        pointers: dict[str, Pointer] = {}
        scalars: dict[str, Any] = {}
        hosts: dict[str, Any] = {}
        for port in self._program.ports:
            if port.role == "scalar":
                scalars[port.name] = buffers[port.name]
                continue
            hosts[port.name] = _bytes(buffers[port.name], layout(port, sizes)[2] * port.dtype.bytes)
            memory = self._cupy.asarray(hosts[port.name])
            pointers[port.name] = Pointer(memory.data.ptr, memory)
        return pointers, scalars, hosts

    def call(self, buffers: dict[str, Any], sizes: dict[str, int]) -> int:
        pointers, scalars, hosts = self._place(buffers, sizes)
        code = self._entry.run(pointers, scalars, sizes) or self._status()
        if not code:
            for port in self._program.ports:
                if port.role in ("out", "inout"):
                    hosts[port.name][...] = pointers[port.name].memory.get()
        return code

    def _status(self) -> int:
        """What a kernel found wrong since the last call: the status word, which is put back to 0."""
        if not self._fails:
            return 0
        word = self._cupy.ndarray((1,), self._cupy.int32, self._module.get_global("lm_status"))
        code = int(word.get()[0])
        word.fill(0)
        return code

    def bind(self, buffers: dict[str, Any], sizes: dict[str, int]) -> Callable[[], int]:
        """The call on copies of the arrays that stay on the device; returns when the device has finished."""
        pointers, scalars, _ = self._place(buffers, sizes)

        def call() -> int:
            code = self._entry.run(pointers, scalars, sizes)
            self._cupy.cuda.get_current_stream().synchronize()
            return code

        return call

    def time(self, buffers: dict[str, Any], sizes: dict[str, int], runs: int) -> list[float]:
        """Seconds on the device, by events: copies are not counted."""
        pointers, scalars, _ = self._place(buffers, sizes)
        call = partial(self._entry.run, pointers, scalars, sizes)
        call()
        seconds: list[float] = []
        for _ in range(runs):
            start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
            start.record()
            call()
            end.record()
            end.synchronize()
            seconds.append(self._cupy.cuda.get_elapsed_time(start, end) / 1e3)
        return seconds


def _bytes(array: Any, count: int) -> Any:
    """The array's memory from its first element on, as bytes."""
    return numpy.frombuffer((ctypes.c_uint8 * count).from_address(array.ctypes.data), numpy.uint8) if count else numpy.zeros(0, numpy.uint8)
