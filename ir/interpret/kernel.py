"""The kernel level, run: a block is translated to Python once and executed on NumPy arrays in logical shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import kernel as k
from ..dtypes import DType, i64
from ..evaluate import evaluate
from ..expr import Expr
from ..layout import components
from ..primops import COMBINERS
from ..walks import postorder
from .judge import CheckFault
from .scalars import COMBINE, storage
from .statements import PARALLEL, Statements
from .team import Cell, MeaningFault, Scratch, Support, Watched


def run(
    module: k.Module,
    buffers: dict[str, Any],
    sizes: Mapping[str, int],
    *,
    exact: bool = False,
    check: bool = False,
    seed: int = 0,
    threads: int | None = None,
) -> int:
    """Run all kernels in order, in place on `buffers` (ports by name: arrays in logical shape, scalars as numbers).  Returns the error code, 0 for none.

    Every operation rounds as its dtype does; with `exact` floats are in the working form of `meaning` throughout (float64, longdouble for f64; pass arrays of
    that type, or the results are rounded when they are copied back).  With `check` parallel loops run in a shuffled order (`seed`), and a race, a read of undefined contents or an index outside raises
    MeaningFault.  Regions run with `threads` simulated threads (1; 3 with `check`).
    """
    support = Support(check, seed, threads or (3 if check else 1))
    memory: dict[str, Any] = {}
    written: list[tuple[Any, Any]] = []
    for p in module.ports:
        kind = storage(p.dtype, exact)
        if p.pairs and p.role == "scalar":
            number = np.asarray(buffers[p.name]).astype(kind)
            memory.update((name, np.array(part)) for (name, _), part in zip(p.values, (np.real(number), np.imag(number)), strict=True))
            continue
        if not p.shape:
            kept = np.asarray(buffers[p.name])
            array = kept if kept.dtype == kind and p.role != "scalar" else np.array(kept.astype(kind))
        else:
            kept = buffers[p.name]
            array = kept if kept.dtype == kind else kept.astype(kind)
        if array is not kept and p.role in ("out", "inout"):
            written.append((kept, array))
        array = components(array) if p.pairs else array
        memory[p.name] = Watched(p.name, array, support, p.role != "out") if check else array
    for t in module.temps:
        array = undefined(t.dtype, tuple(evaluate(e, sizes) for e in t.shape), exact)
        memory[t.name] = Watched(t.name, array, support, False) if check else array
    scalars = dict(v for p in module.ports if p.role == "scalar" for v in p.values)
    try:
        with np.errstate(all="ignore"):
            for kernel in module.kernels:
                _function(module, kernel, memory, scalars, sizes, exact, check)(memory, sizes, support)
    except CheckFault as fault:
        return fault.code
    for kept, array in written:
        kept[...] = array.astype(kept.dtype)
    return 0


_KEPT = 64  # functions
_functions: dict[
    tuple[Any, ...], tuple[Any, k.Module, k.Kernel]
] = {}  # by what they depend on, which is kept so that no other is made in its place; the latest last


def _function(
    module: k.Module, kernel: k.Kernel, memory: Mapping[str, Any], scalars: Mapping[str, DType], sizes: Mapping[str, int], exact: bool, check: bool
) -> Any:
    """The kernel as `translated` makes it, or as it was made for other sizes: that takes as long as running a small one."""
    key = (id(kernel.body), id(module.ports), id(module.temps), tuple(sizes), exact, check, kernel.name)
    found = _functions.pop(key, None)
    if found is None:
        found = (translated(module, kernel.body, memory, scalars, sizes, exact, check, kernel.name), module, kernel)
        if len(_functions) == _KEPT:
            del _functions[next(iter(_functions))]
    _functions[key] = found
    return found[0]


def run_function(function: Any, arrays: dict[str, Any], sizes: Mapping[str, int]) -> None:
    """Run a block that `KernelTranslator.function` made on `arrays` (by buffer name, already of the right storage type).  Raises CheckFault."""
    with np.errstate(all="ignore"):
        function(arrays, sizes, Support(False, 0, 1))


def undefined(d: DType, shape: tuple[int, ...], exact: bool) -> Any:
    """Memory with contents that show when they are used: NaN, or a pattern of bits."""
    kind = storage(d, exact)
    return np.full(shape, np.nan if d.is_inexact else True if d.kind == "bool" else 0x5A, kind)


def translated(
    module: k.Module,
    body: k.Block,
    memory: Mapping[str, Any],
    scalars: Mapping[str, DType],
    sizes: Mapping[str, int],
    exact: bool,
    check: bool,
    title: str,
) -> Any:
    dtypes = {p.name: k.port_buffer(p).dtype for p in module.ports} | {t.name: t.dtype for t in module.temps}
    return KernelTranslator(dtypes, exact, check).function(body, sorted(memory), sorted(sizes), scalars, title)


class KernelTranslator(Statements):
    def __init__(self, dtypes: dict[str, DType], exact: bool, check: bool) -> None:
        super().__init__(exact, check)
        self.dtypes = dtypes
        self.cells: set[str] = set()  # rank-0 local buffers, kept as lists of one
        self.shared: set[str] = set()  # buffers that the threads of a block share
        self.loops: dict[str, tuple[str, str, str, str]] = {}  # axis -> its variable, start, stop, step

    def function(self, body: k.Block, buffers: list[str], sizes: list[str], scalars: Mapping[str, DType], title: str) -> Any:
        """The block as a Python function of (buffers by name, sizes by name, support)."""
        self.globals.update(Watched=Watched, Scratch=Scratch, Cell=Cell, CheckFault=CheckFault, undefined=undefined)
        self.line("def kernel(memory, sizes, S):")
        self.depth += 1
        for n in sizes:
            self.sizes[n] = self.fresh("n")
            self.line(f"{self.sizes[n]} = int(sizes[{n!r}])")
        for n in buffers:
            self.buffers[n] = self.fresh("b")
            self.line(f"{self.buffers[n]} = memory[{n!r}]")
        for n, d in scalars.items():
            value = f"{self.buffers[n]}[()]"
            self.line(f"{self.name(n)} = {f'int({value})' if d is i64 else value}")
        self.block(body)
        self.line("return 0")
        self.depth -= 1
        return self.compiled("kernel", title)

    # ---- expressions

    def place(self, buffer: str, index: list[str]) -> str:
        name = self.buffers[buffer]
        if buffer in self.cells:
            return f"{name}[0]"
        return f"{name}[{', '.join(index)}]" if index else f"{name}[()]"

    def load(self, node: Expr, index: list[str]) -> str:
        text = self.place(node.attr, index)
        return f"int({text})" if node.dtype is i64 else text

    def form(self, node: Expr, args: list[str]) -> str:
        if node.op in ("first", "last"):
            variable, start, stop, step = self.loops[node.attr]
            if node.op == "first":
                return f"{variable} == {start}"
            return f"({variable} + {step} >= {stop}) if {step} > 0 else ({variable} + {step} <= {stop})"
        return super().form(node, args)

    # ---- statements

    def block(self, body: k.Block) -> None:
        if not body:
            self.line("pass")
        for at, s in enumerate(body):
            if isinstance(s, k.Alloc):
                self.alloc(s, body[at + 1 :])
            else:
                _STATEMENTS[type(s)](self, s)

    def let(self, s: k.Let) -> None:
        value = self.expression(s.value)
        self.names[s.name] = self.fresh("v")
        self.line(f"{self.names[s.name]} = {value}")

    def alloc(self, s: k.Alloc, rest: k.Block) -> None:
        """`rest` is where the buffer is visible."""
        b = s.buffer
        self.dtypes[b.name] = b.dtype
        if b.space == "shared":
            self.shared.add(b.name)
        extents = [self.expression(e) for e in b.shape]
        name = self.buffers[b.name] = self.fresh("b")
        dtype = self.constant(b.dtype)
        if b.shape:
            self.cells.discard(b.name)
        else:
            self.cells.add(b.name)
        made = f"undefined({dtype}, ({''.join(e + ', ' for e in extents)}), {self.exact})"
        shared = self.check and any(isinstance(t, k.Region) or (isinstance(t, k.Loop) and t.kind in PARALLEL) for t in k.statements(rest))
        if not b.shape and not shared and (not self.check or _begins_with_a_store(b.name, rest)):  # nothing to look at
            self.line(f"{name} = [{self.constant(undefined(b.dtype, (), self.exact)[()])}]")
            return
        if self.check:
            made = f"{'Watched' if shared else 'Scratch' if b.shape else 'Cell'}({b.name!r}, {made}, S, False, {not b.shape})"
        self.line(f"{name} = {made}")
        if self.check and b.space == "private":
            self.line(f"{name}.reused = True")

    def store(self, s: k.Store) -> None:
        known: dict[Expr, str] = {}
        index = [self.expression(e, known) for e in s.index]
        value = self.expression(s.value, known)
        place = self.place(s.buffer, index)
        if s.stream is not None and s.buffer in self.shared and self.in_team:
            self.line(f"S.later({self.buffers[s.buffer]}, ({', '.join(index)}), {value})")
            return
        if not s.combiner:
            self.line(f"{place} = {value}")
            return
        dtype = self.dtypes[s.buffer]
        if s.combiner == "add" and dtype is not i64:
            combined = f"{place} + {value}"
        elif dtype.is_float and s.combiner in ("max", "min"):
            combined = f"f{s.combiner}({place}, {value})"
        elif dtype is i64:
            operator = {"max": "max", "min": "min"}.get(s.combiner)
            infix = {"add": "+", "mul": "*", "and": "&", "or": "|"}.get(s.combiner)
            combined = f"{operator}(int({place}), {value})" if operator else f"wrap64(int({place}) {infix} {value})"
        else:
            key = ("combine", s.combiner)
            if key not in self.functions:
                self.functions[key] = self.constant(COMBINE[s.combiner])
            combined = f"{self.functions[key]}({place}, {value})"
        op = COMBINERS[s.combiner].op
        self.line(f"{place} = {self.settled(op, dtype, dtype, combined)}")

    def scope(self) -> Any:
        return dict(self.names), dict(self.buffers), set(self.cells)

    def restore(self, kept: Any) -> None:
        self.names, self.buffers, self.cells = kept

    def assigned(self, body: k.Block) -> list[str]:
        return []

    def check_(self, s: k.Check) -> None:
        self.line(f"if not {self.expression(s.condition)}: raise CheckFault({s.code})")

    def loop(self, s: k.Loop) -> None:
        known: dict[Expr, str] = {}
        start, stop, step = (self.expression(e, known) for e in (s.start, s.stop, s.step))
        variable = self.fresh("v")
        outer = (self.names.get(s.axis), self.loops.get(s.axis))
        self.names[s.axis] = variable
        self.loops[s.axis] = (variable, start, stop, step)
        iterations = f"range({start}, {stop}, {step})"
        if s.kind.startswith("thread.") and any(isinstance(t, k.Barrier) for t in k.statements(s.body)):
            self.as_team(s.body, variable, iterations)
        else:
            self.repeat(s.kind, variable, iterations, s.body)
        if outer[0] is not None:
            self.names[s.axis] = outer[0]
        if outer[1] is not None:
            self.loops[s.axis] = outer[1]


def _begins_with_a_store(name: str, rest: k.Block) -> bool:
    """Whether the buffer is written before anything may read it: seen where only simple statements come first."""
    for s in rest:
        if any(n.op == "load" and n.attr == name for e in s.expressions() for n in postorder(e)):
            return False
        if isinstance(s, k.Store) and s.buffer == name:
            return not s.combiner
        if not isinstance(s, (k.Alloc, k.Let, k.Store)):
            return False
    return False


_STATEMENTS: dict[type, Any] = {
    k.Let: KernelTranslator.let, k.Store: KernelTranslator.store, k.If: KernelTranslator.if_,
    k.Check: KernelTranslator.check_, k.Loop: KernelTranslator.loop,
    k.While: lambda t, s: t.while_(s, s.limit),
    k.Prefetch: lambda t, s: t.line("pass"),
    k.Barrier: lambda t, s: t.barrier(s.later),
    k.Region: lambda t, s: t.region(s.body, "S.threads"),
}  # fmt: skip

__all__ = ["CheckFault", "MeaningFault", "run", "run_function"]
