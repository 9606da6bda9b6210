"""A program's entry, walked in Python: what the C function of the emitted source does on the host, for kernels that CuPy launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy

from ...ir import program as p
from ...ir.dtypes import DType, bool_, numpy_dtype
from ...ir.errors import CompilerBug
from ...ir.evaluate import evaluate
from ...ir.expr import Expr, const
from ...ir.walks import rewrite
from ..literals import SMALL, small_bits

# At most the blocks that a launch may have, along x, y, z: kernels stride by the grid.
_MAX_GRID = (2**31 - 1, 65535, 65535)


class Pointer(NamedTuple):
    """Device memory: its address (0 is null), and what a launch takes for it."""

    address: int
    memory: Any


class Launch(NamedTuple):
    """One kernel with everything that it is called with."""

    function: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    args: tuple[Any, ...]


class Entry:
    """Plans calls of one program.  `allocate(bytes)` gives device memory for its temporaries, `status` is the word in which kernels leave what they find wrong."""

    def __init__(self, program: p.Program, allocate: Callable[[int], Pointer], status: Any) -> None:
        self._program, self._status = program, status
        self._functions = {f.name: f for f in program.functions}
        self._allocate = allocate

    def plan(self, pointers: Mapping[str, Pointer], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, list[Launch]]:
        """The entry's error code, and where it is 0 the launches in order.  The temporaries live as long as the launches."""
        launches: list[Launch] = []
        code = self._block(self._program.entry, dict(pointers), scalars, dict(sizes), launches)
        return code, launches if code == p.OK else []

    def _block(self, block: p.Block, pointers: dict[str, Pointer], scalars: Mapping[str, Any], known: dict[str, int], launches: list[Launch]) -> int:
        for s in block:
            match s:
                case p.Define(value=Expr() as value):
                    known[s.name] = _value(value, pointers, known)
                case p.If():
                    taken = s.body if _value(s.condition, pointers, known) else s.orelse
                    code = self._block(taken, pointers, scalars, known, launches)
                    if code != p.OK:
                        return code
                case p.Fail():
                    return s.code
                case p.Scratch():
                    pointers[s.name] = self._allocate(max(1, _value(s.count, pointers, known)) * s.dtype.bytes)
                case p.Call():
                    launches.append(self._launch(self._functions[s.function], s.args, pointers, scalars, known))
                case _:
                    raise CompilerBug("cuda", f"an entry holds {type(s).__name__}")
        return p.OK

    def _launch(
        self, f: p.Function, args: tuple[Expr | str, ...], pointers: Mapping[str, Pointer], scalars: Mapping[str, Any], known: Mapping[str, int]
    ) -> Launch:
        values: list[Any] = []
        inside: dict[str, int] = {}  # what the kernel's own extents are written in
        for param, arg in zip(f.params, args, strict=True):
            if isinstance(arg, str):
                values.append(pointers[arg].memory)
                continue
            value = scalars[arg.attr] if arg.op == "var" and arg.attr in scalars else _value(arg, pointers, known)
            values.append(by_value(param.dtype, value))
            if param.dtype.is_integer:
                inside[param.name] = int(value)
        if can_fail(f):
            values.append(self._status)
        grid, threads = ([evaluate(e, inside, total=True) for e in part] for part in (f.grid, f.threads))
        return Launch(f.name, tuple(map(min, grid, _MAX_GRID)), tuple(threads), tuple(values))


def can_fail(f: p.Function) -> bool:
    """Whether the kernel takes the status word, as its last parameter."""
    return any(isinstance(s, p.Fail) for s in p.statements(f.body))


def by_value(dtype: DType, value: Any) -> Any:
    """A scalar as a launch takes it: a NumPy scalar of as many bytes as the kernel's parameter has, small floats by their bits."""
    if dtype.name in SMALL:
        return (numpy.uint16 if dtype.bytes == 2 else numpy.uint8)(small_bits(float(value), dtype))
    return numpy.uint8(bool(value)) if dtype is bool_ else numpy_dtype(dtype).type(value)


def _value(e: Expr, pointers: Mapping[str, Pointer], known: Mapping[str, int]) -> int:
    def resolve(n: Expr) -> Expr | None:
        if n.op == "null":
            return const(pointers[n.attr].address == 0, bool_)
        if n.op == "overlap":
            a, b = (pointers[name].address for name in n.attr)
            x, y = (evaluate(size, known, total=True) for size in n.args)
            return const(x > 0 and y > 0 and a < b + y and b < a + x, bool_)
        return None

    return evaluate(rewrite(e, resolve), known, total=True)
