"""The program level, run: functions, flat arrays, vectors as NumPy arrays of lanes.

Every function becomes one Python function, the entry another; `compiled` keeps them for many calls.  Memory is one-dimensional NumPy arrays in the
dtype of the pointer; an array of vectors has one row a vector.  `fail` leaves at once, or sets the sticky code inside a team, where the statements after it still run
(so that a program which relies on leaving shows it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import program as p
from ..dtypes import INDEX, DType, i64, numpy_dtype
from ..errors import CompilerBug
from ..expr import Expr, const, minimum, var
from ..instructions import FRAGMENTS, INSTRUCTIONS, LANE_BY_LANE, QUOTIENT, SIDE, TILES, Tile
from ..layout import components
from ..record import replace
from .judge import CheckFault
from .meaning import VALUE
from .scalars import storage
from .statements import PARALLEL, Statements
from .team import MeaningFault, Support, Watched

COMBINERS = {"add": np.add, "mul": np.multiply, "max": VALUE["max"], "min": VALUE["min"], "and": VALUE["bit_and"], "or": VALUE["bit_or"]}

TOGETHER = 2  # iterations that a loop with an end gives its body: not one by one, so that it is seen to take several, and few enough for a last piece that is shorter


def run(
    program: p.Program, buffers: Mapping[str, Any], sizes: Mapping[str, int], *, check: bool = False, seed: int = 0, threads: int | None = None,
    instructions: Mapping[str, Callable[..., Any]] | None = None,
) -> int:  # fmt: skip
    """Run the entry in place on flat arrays (ports by name, in memory order; None is a null pointer; scalars as numbers).  Returns the error code.

    `check`, `seed` and `threads` are those of `kernel.run`.  `instructions` gives a Python function for every `ins.NAME` that `ir/instructions.py` does not know.
    """
    return compiled(program, check=check, instructions=instructions)(buffers, sizes, Support(check, seed, threads or (3 if check else 1)))


def compiled(program: p.Program, *, check: bool = False, instructions: Mapping[str, Callable[..., Any]] | None = None) -> Callable[..., int]:
    """A function of (buffers, sizes, support) that runs the program."""
    entry = _ProgramTranslator(program, check, instructions or {}).compile_all()

    def call(buffers: Mapping[str, Any], sizes: Mapping[str, int], support: Support) -> int:
        memory: dict[str, Any] = {}
        copies: list[tuple[Any, Any]] = []
        for port in program.ports:
            given = buffers[port.name]
            kind = storage(port.dtype, False)
            if port.role == "scalar" and port.pairs:
                number = np.asarray(given).astype(kind)
                memory.update((name, part[()]) for (name, _), part in zip(port.values, (np.real(number), np.imag(number)), strict=True))
                continue
            if port.role == "scalar":
                memory[port.name] = int(given) if port.dtype is i64 else np.asarray(given).astype(kind)[()]
                continue
            array = given
            if given is not None and given.dtype != kind:
                array = given.astype(kind)
                copies.append((given, array))
            if port.pairs and array is not None:
                array = components(array).reshape(-1)
            memory[port.name] = Watched(port.name, array, support, port.role != "out") if check and array is not None else array
        try:
            with np.errstate(all="ignore"):
                entry(memory, sizes, support)
        except CheckFault as fault:
            return fault.code
        for given, array in copies:
            given[...] = array.astype(given.dtype)
        return 0

    return call


# ---- what the translated code calls


def vload(buffer: Any, address: int, lanes: int, count: int | None = None, skip: int = 0) -> Any:
    """Consecutive elements, or the first `count` of them (without the first `skip`) and zeros; outside the buffer there is nothing."""
    if skip > 0 or (count is not None and count < lanes):
        result = np.zeros(lanes, (buffer.array if isinstance(buffer, Watched) else buffer).dtype)
        start, stop = max(0, skip), lanes if count is None else min(count, lanes)
        if start < stop:
            result[start:stop] = vload(buffer, address + start, stop - start)
        return result
    if isinstance(buffer, Watched):
        return np.array([buffer[address + k] for k in range(lanes)], buffer.array.dtype)
    if address < 0 or address + lanes > len(buffer):
        raise MeaningFault(f"elements {address} … {address + lanes - 1} of a buffer of {len(buffer)}")
    return buffer[address : address + lanes].copy()


def vstore(buffer: Any, address: int, value: Any, count: int | None = None) -> None:
    value = value if count is None else value[: max(0, count)]
    if len(value) == 0:
        return
    if isinstance(buffer, Watched):
        for k, x in enumerate(value):
            buffer[address + k] = x
        return
    if address < 0 or address + len(value) > len(buffer):
        raise MeaningFault(f"elements {address} … {address + len(value) - 1} of a buffer of {len(buffer)}")
    buffer[address : address + len(value)] = value


def vgather(buffer: Any, addresses: Any) -> Any:
    if isinstance(buffer, Watched):
        return np.array([buffer[int(a)] for a in addresses], buffer.array.dtype)
    if len(addresses) and (addresses.min() < 0 or addresses.max() >= len(buffer)):
        raise MeaningFault(f"elements {addresses.min()} … {addresses.max()} of a buffer of {len(buffer)}")
    return buffer[addresses]


def multiply(
    instruction: Tile, rows: int, columns: int, result: Any, address: int, row: int,
    left: Any, left_at: int, left_step: int, left_row: int, right: Any, right_at: int, right_step: int, right_row: int, steps: int, anew: bool, neighbours: int,
) -> None:  # fmt: skip
    """See `program.Multiply`."""
    for i in range(rows):
        sums = np.zeros(columns, numpy_dtype(instruction.dot.result)) if anew else vload(result, address + i * row, columns)
        for s in range(steps):
            for k in range(SIDE):
                words = vload(right, right_at + s * right_step + k * right_row, columns)
                at = left_at + (s * left_step + i * left_row + k) * neighbours
                sums = instruction.meaning(sums, np.ascontiguousarray(vload(left, at, neighbours)).view(np.uint32), words)
        vstore(result, address + i * row, sums)


def matrix(
    tiles: tuple[int, int, int], depth: int, result: Any, address: int, distances: tuple[int, int, int, int],
    left: Any, left_at: int, left_line: int, left_tile: int, left_step: int, right: Any, right_at: int, right_line: int, right_tile: int, right_step: int,
) -> None:  # fmt: skip
    """See `program.Matrix`."""
    for mi, h, ni, j in np.ndindex(tiles[0], 2, tiles[1], 2):
        at = address + sum(n * d for n, d in zip((mi, h, ni, j), distances, strict=True))
        a, b = left_at + mi * left_tile + h * 8 * left_line, right_at + ni * right_tile + j * right_line
        found = result[at]
        for k in range(tiles[2] * depth):
            found = found + np.float32(left[a + k * left_step]) * np.float32(right[b + k * right_step])
        result[at] = found


def fold(combine: Callable[[Any, Any], Any], x: Any) -> Any:
    """The halves with each other, lane by lane, until one is left; an odd lane out joins the next round."""
    while len(x) > 1:
        half = len(x) // 2
        joined = combine(x[:half], x[half : 2 * half])
        x = np.concatenate([joined, x[2 * half :]])
    return x[0]


def zip_halves(a: Any, b: Any, high: bool) -> Any:
    half = slice(len(a) // 2, None) if high else slice(len(a) // 2)
    return np.stack([a[half], b[half]], 1).reshape(-1)


def unzip(a: Any, b: Any) -> Any:
    return np.concatenate([a[::2], b[1::2]])


def memory(d: DType, count: int) -> Any:
    """Undefined contents: NaN, or a pattern of bits."""
    shape = (count,) if d.lanes == 1 else (count, d.lanes)
    return np.full(shape, np.nan if d.is_inexact else True if d.kind == "bool" else 0x5A, storage(d, False))


def overlap(a: Any, a_bytes: int, b: Any, b_bytes: int) -> bool:
    """Whether the bytes from the start of one array meet those of the other."""
    if a is None or b is None or a_bytes <= 0 or b_bytes <= 0:
        return False
    start_a, start_b = (x.array.ctypes.data if isinstance(x, Watched) else x.ctypes.data for x in (a, b))
    return start_a < start_b + b_bytes and start_b < start_a + a_bytes


_SUPPORT: dict[str, Any] = {
    "multiply": multiply, "matrix": matrix, "vload": vload, "vstore": vstore, "vgather": vgather, "fold": fold, "zip_halves": zip_halves, "unzip": unzip, "memory": memory, "overlap": overlap, "Watched": Watched, "CheckFault": CheckFault,
    "Support": Support,
}  # fmt: skip


class _ProgramTranslator(Statements):
    def __init__(self, program: p.Program, check: bool, instructions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(False, check)
        self.program = program
        self.globals.update(_SUPPORT)
        self.instructions = instructions
        self.vectors: set[str] = set()  # local arrays whose elements are vectors
        self.shared: set[str] = set()  # those that the threads of a block share
        self.functions_by_name: dict[str, str] = {}
        self.parallel = 0  # how many parallel loops and regions are around

    def compile_all(self) -> Callable[..., None]:
        for f in self.program.functions:
            self.define(f)
        self.line("def entry(memory_, sizes_, S):")
        self.depth += 1
        kept = self.scope()
        for s in self.program.sizes:
            self.sizes[s.name] = self.fresh("n")
            self.line(f"{self.sizes[s.name]} = int(sizes_[{s.name!r}])")
        for port in self.program.ports:
            for held in [n for n, _ in port.values] if port.role == "scalar" else [port.name]:
                name = self.fresh("b")
                (self.names if port.role == "scalar" else self.buffers)[held] = name
                self.line(f"{name} = memory_[{held!r}]")
        self.block(self.program.entry)
        self.restore(kept)
        self.depth -= 1
        return self.compiled("entry", self.program.name)

    def define(self, f: p.Function) -> None:
        name = self.functions_by_name[f.name] = self.fresh("f")
        kept = self.scope()
        parameters = []
        for q in f.params:
            parameter = self.fresh("p")
            parameters.append(parameter)
            if q.pointer:
                self.buffers[q.name] = parameter
            else:
                # a parameter is a scalar or a size: its name tells them apart only where it is used
                self.names[q.name] = self.sizes[q.name] = parameter
        self.line(f"def {name}({', '.join(['S', *parameters])}):")
        self.inside(f.body)
        self.line("    if S.status: raise CheckFault(S.status)")
        self.restore(kept)

    def scope(self) -> Any:
        return dict(self.names), dict(self.buffers), dict(self.sizes), set(self.vectors)

    def restore(self, kept: Any) -> None:
        self.names, self.buffers, self.sizes, self.vectors = kept

    def assigned(self, body: p.Block) -> list[str]:
        assigned = dict.fromkeys(s.name for s in p.statements(body) if isinstance(s, p.Assign))
        return [self.names[n] for n in assigned if n in self.names]

    # ---- expressions

    def load(self, node: Expr, index: list[str]) -> str:
        buffer = self.buffers[node.attr]
        if node.op == "vload":
            return f"vload({buffer}, {index[0]}, {node.dtype.lanes}{''.join(f', {x}' for x in index[1:])})"
        if node.op == "gather":
            return f"vgather({buffer}, {index[0]})"
        if node.attr in self.vectors:
            return f"{buffer}[{index[0]}].copy()"
        text = f"{buffer}[{index[0]}]"
        return f"int({text})" if node.dtype is i64 else text

    def form(self, node: Expr, args: list[str]) -> str:
        match node.op:
            case "broadcast":
                kind = self.constant(storage(node.dtype, False))
                return f"np.full({node.dtype.lanes}, {args[0]}, {kind})"
            case "ramp":
                return f"np.arange({node.dtype.lanes})"
            case "extract":
                return f"int({args[0]}[{node.attr}])" if node.dtype is i64 else f"{args[0]}[{node.attr}]"
            case "fold":
                combine = self.constant(COMBINERS[node.attr])
                return f"int(fold({combine}, {args[0]}))" if node.dtype is i64 else f"fold({combine}, {args[0]})"
            case "zip_low" | "zip_high":
                return f"zip_halves({args[0]}, {args[1]}, {node.op == 'zip_high'})"
            case "unzip":
                return f"unzip({args[0]}, {args[1]})"
            case "pick":
                return f"np.concatenate([{args[0]}, {args[1]}])[{list(node.attr)}]"
            case "null":
                return f"{self.buffers[node.attr]} is None"
            case "overlap":
                a, b = node.attr
                return f"overlap({self.buffers[a]}, {args[0]}, {self.buffers[b]}, {args[1]})"
            case "ins" if node.attr in self.instructions:
                return f"{self.constant(self.instructions[node.attr])}({', '.join(args)})"
            case "ins" if node.attr not in INSTRUCTIONS and node.attr not in LANE_BY_LANE and node.attr != QUOTIENT.name:
                raise CompilerBug("interpret", f"no meaning for the instruction {node.attr}")
            case _:
                return super().form(node, args)

    # ---- statements

    def block(self, body: p.Block) -> None:
        if not body:
            self.line("pass")
        for s in body:
            _STATEMENTS[type(s)](self, s)

    def define_(self, s: p.Define) -> None:
        value = f"memory({self.constant(s.dtype)}, 1)[0]" if s.value is None else self.expression(s.value)
        self.names[s.name] = self.fresh("v")
        self.line(f"{self.names[s.name]} = {value}")

    def assign(self, s: p.Assign) -> None:
        self.line(f"{self.names[s.name]} = {self.expression(s.value)}")

    def allocate(self, name: str, d: DType, count: str) -> None:
        self.buffers[name] = self.fresh("b")
        self.vectors.discard(name)
        if d.lanes > 1:
            self.vectors.add(name)
        made = f"memory({self.constant(d)}, {count})"
        if self.check:
            made = f"Watched({name!r}, {made}, S, False, False, 1)"
        self.line(f"{self.buffers[name]} = {made}")

    def array(self, s: p.Array) -> None:
        if s.space == "shared":
            self.shared.add(s.name)
        self.allocate(s.name, s.dtype, str(s.count))

    def scratch(self, s: p.Scratch) -> None:
        self.allocate(s.name, s.dtype, f"max(0, {self.expression(s.count)})")
        if self.check and self.parallel:  # each thread has its own
            self.line(f"{self.buffers[s.name]}.reused = True")

    def store(self, s: p.StoreTo) -> None:
        known: dict[Expr, str] = {}
        address = self.expression(s.address, known)
        value = self.expression(s.value, known)
        if s.stream is not None and s.buffer in self.shared and self.in_team:
            elements = f"enumerate({value})" if s.value.dtype.lanes > 1 else f"((0, {value}),)"
            self.line(f"for k, x in {elements}: S.later({self.buffers[s.buffer]}, {address} + k, x)")
            return
        if s.value.dtype.lanes > 1 and s.buffer not in self.vectors:
            count = "" if s.count is None else f", {self.expression(s.count, known)}"
            self.line(f"vstore({self.buffers[s.buffer]}, {address}, {value}{count})")
        else:
            self.line(f"{self.buffers[s.buffer]}[{address}] = {value}")

    def multiply(self, s: p.Multiply) -> None:
        """Lane by lane, so that what is watched is seen to be read and written."""
        known: dict[Expr, str] = {}
        address, row, steps = (self.expression(e, known) for e in (s.address, s.row, s.steps))
        left, right = (f"{self.buffers[name]}, {', '.join(self.expression(e, known) for e in at)}" for name, *at in (s.left, s.right))
        instruction = self.constant(TILES[s.instruction])
        self.line(
            f"multiply({instruction}, {s.rows}, {s.columns}, {self.buffers[s.buffer]}, {address}, {row}, {left}, {right}, {steps}, {s.anew}, {s.neighbours})"
        )

    def matrix(self, s: p.Matrix) -> None:
        known: dict[Expr, str] = {}
        address = self.expression(s.address, known)
        left, right = (f"{self.buffers[name]}, {self.expression(at, known)}, {', '.join(map(str, far))}" for name, at, *far in (s.left, s.right))
        self.line(f"matrix({s.tiles}, {FRAGMENTS[s.instruction].depth}, {self.buffers[s.buffer]}, {address}, {s.distances}, {left}, {right})")

    def for_(self, s: p.For) -> None:
        if s.end:
            stop = minimum(var(s.var) + TOGETHER, s.stop)
            s = replace(s, step=const(TOGETHER), end="", body=(p.Define(s.end, INDEX, stop), *s.body))
        known: dict[Expr, str] = {}
        start, stop, step = (self.expression(e, known) for e in (s.start, s.stop, s.step))
        variable = self.fresh("v")
        outer = self.names.get(s.var)
        self.names[s.var] = variable
        iterations = f"range({start}, {stop}, {step})"
        team = s.pragma in PARALLEL
        self.parallel += team
        if s.pragma.startswith("thread.") and any(isinstance(t, p.Barrier) for t in p.statements(s.body)):
            self.as_team(s.body, variable, iterations)
        else:
            self.repeat(s.pragma, variable, iterations, s.body)
        self.parallel -= team
        if outer is None:
            del self.names[s.var]
        else:
            self.names[s.var] = outer

    def region_(self, s: p.Region) -> None:
        threads = "S.threads" if s.serial_if is None else f"(1 if {self.expression(s.serial_if)} else S.threads)"
        count = self.fresh()
        self.line(f"{count} = {threads}")
        self.parallel += 1
        self.region(s.body, count)
        self.parallel -= 1

    def call(self, s: p.Call) -> None:
        known: dict[Expr, str] = {}
        args = [self.buffers[a] if isinstance(a, str) else self.expression(a, known) for a in s.args]
        self.line(f"{self.functions_by_name[s.function]}({', '.join(['S', *args])})")

    def fail(self, s: p.Fail) -> None:
        self.line(f"S.status = {s.code}" if self.parallel else f"raise CheckFault({s.code})")


_STATEMENTS: dict[type, Any] = {
    p.Define: _ProgramTranslator.define_, p.Assign: _ProgramTranslator.assign, p.Array: _ProgramTranslator.array, p.Scratch: _ProgramTranslator.scratch,
    p.StoreTo: _ProgramTranslator.store, p.For: _ProgramTranslator.for_, p.If: _ProgramTranslator.if_, p.Region: _ProgramTranslator.region_,
    p.Call: _ProgramTranslator.call, p.Fail: _ProgramTranslator.fail,
    p.While: lambda t, s: t.while_(s, None),
    p.Prefetch: lambda t, s: t.line("pass"),
    p.Multiply: _ProgramTranslator.multiply,
    p.Matrix: _ProgramTranslator.matrix,
    p.Tiles: lambda t, s: t.line("pass"),
    p.Barrier: lambda t, s: t.barrier(s.later),
}  # fmt: skip

__all__ = ["compiled", "run"]
