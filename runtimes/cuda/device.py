"""Launching on a GPU through CuPy: the program's entry, walked in Python, with kernels from a cubin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir import program as p
from ...ir.dtypes import numpy_dtype
from ...ir.expr import Expr, const, evaluate, rewrite
from ...ir.dtypes import bool_
from ...ir.errors import CompilerBug


class Entry:
    """Runs `program.entry`: checks, temporaries, launches.  `launch(function, grid, threads, args)` and `allocate(bytes)` are the device's."""

    def __init__(self, program: p.Program, launch: Any, allocate: Any) -> None:
        self.program = program
        self.functions = {f.name: f for f in program.functions}
        self.launch = launch
        self.allocate = allocate

    def run(self, pointers: Mapping[str, tuple[int, Any]], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """`pointers[port] = (address, what launch takes for it)`; gives the error code."""
        return self._block(self.program.entry, dict(pointers), scalars, sizes)

    def _block(self, block: p.Block, pointers: dict[str, tuple[int, Any]], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        for s in block:
            match s:
                case p.If():
                    taken = s.body if self._value(s.condition, pointers, sizes) else s.orelse
                    code = self._block(taken, pointers, scalars, sizes)
                    if code:
                        return code
                case p.Fail():
                    return s.code
                case p.Scratch():
                    memory = self.allocate(max(1, self._value(s.count, pointers, sizes)) * s.dtype.bytes)
                    pointers[s.name] = memory
                case p.Call():
                    self._call(self.functions[s.function], s.args, pointers, scalars, sizes)
                case _:
                    raise CompilerBug("cuda", f"an entry holds {type(s).__name__}")
        return p.OK

    def _call(
        self, f: p.Function, args: tuple[Expr | str, ...], pointers: Mapping[str, tuple[int, Any]], scalars: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        values: list[Any] = []
        for param, arg in zip(f.params, args, strict=True):
            if isinstance(arg, str):
                values.append(pointers[arg][1])
            elif arg.op == "var":
                values.append(numpy_dtype(param.dtype).type(scalars[arg.attr]))
            else:
                values.append(numpy_dtype(param.dtype).type(self._value(arg, pointers, sizes)))
        environment = dict(sizes)
        grid = tuple(self._value(g, pointers, environment) for g in f.grid) or (1,)
        threads = tuple(self._value(t, pointers, environment) for t in f.threads) or (1,)
        if all(grid):
            self.launch(f, grid, threads, values)

    def _value(self, e: Expr, pointers: Mapping[str, tuple[int, Any]], sizes: Mapping[str, int]) -> int:
        def known(n: Expr) -> Expr | None:
            if n.op == "null":
                return const(pointers[n.attr][0] == 0, bool_)
            if n.op == "overlap":
                a, b = (pointers[name][0] for name in n.attr)
                x, y = (evaluate(size, sizes) for size in n.args)
                return const(x > 0 and y > 0 and a < b + y and b < a + x, bool_)
            return None

        return evaluate(rewrite(e, known), sizes)
