"""Rules of the program level."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..dtypes import INDEX, DType, bool_, f32, u32
from ..expr import ONE, ZERO, Expr
from ..instructions import FRAGMENTS, MOST_TILES, SIDE, TILES
from ..kernel import port_buffer
from ..program import (
    ERRORS,
    PRAGMAS,
    Array,
    Assign,
    Barrier,
    Block,
    Call,
    Define,
    Fail,
    For,
    Function,
    If,
    Matrix,
    Multiply,
    Prefetch,
    Program,
    Region,
    Scratch,
    Stmt,
    StoreTo,
    Tiles,
    While,
    named,
    stored,
)
from ..swizzle import ALIGN, fits
from ..walks import postorder
from .expressions import mistyped
from .header import header_rules, size_names, undeclared
from .rule import Rule, repeated

_LOADS = frozenset({"load", "vload", "gather"})
_TOLD = _LOADS | {"size", "var", "axis", "first", "last", "null", "overlap", "to_line"}  # what rules ask of one by one


class Pointer(NamedTuple):
    dtype: DType
    const: bool = False


class Place(NamedTuple):
    """A statement of a function or of the entry, with what it may name."""

    function: Function | None  # None: the entry
    stmt: Stmt
    around: tuple[Stmt, ...]
    buffers: Mapping[str, Pointer]
    variables: Mapping[str, DType]
    mutable: frozenset[str]
    roots: tuple[Expr, ...]  # its expressions
    nodes: Collection[Expr]  # in them, those of `_TOLD`

    @property
    def title(self) -> str:
        return "entry" if self.function is None else f"function {self.function.name}"


class Subject:
    """A program with all its statements laid out."""

    def __init__(self, program: Program) -> None:
        self.whole = program
        self.sizes = size_names(program.sizes, program.ports)
        self.functions = {f.name: f for f in program.functions}
        self.places: list[Place] = []
        self._told: dict[Expr, tuple[Expr, ...]] = {}
        for f in program.functions:
            buffers = {p.name: Pointer(p.dtype, p.const) for p in f.params if p.pointer}
            variables = {p.name: p.dtype for p in f.params if not p.pointer}
            self._walk(f, f.body, (), buffers, variables, frozenset())
        ports = {p.name: Pointer(port_buffer(p).dtype, p.role == "in") for p in program.ports if p.role != "scalar"}
        scalars = dict(v for p in program.ports if p.role == "scalar" for v in p.values)
        self._walk(None, program.entry, (), ports, scalars, frozenset())

    def _walk(
        self,
        f: Function | None,
        block: Block,
        around: tuple[Stmt, ...],
        buffers: dict[str, Pointer],
        variables: dict[str, DType],
        mutable: frozenset[str],
    ) -> None:
        for s in block:
            roots = s.expressions()
            self.places.append(Place(f, s, around, buffers, variables, mutable, roots, self._nodes(roots)))
            if isinstance(s, Define):
                variables = {**variables, s.name: s.dtype}
                mutable = mutable | {s.name} if s.mutable else mutable - {s.name}
            elif isinstance(s, (Array, Scratch)):
                buffers = {**buffers, s.name: Pointer(s.dtype)}
            bound = {s.var, s.end} - {""} if isinstance(s, For) else set[str]()
            for inside in s.blocks():
                self._walk(f, inside, (*around, s), buffers, variables | dict.fromkeys(bound, INDEX), mutable - bound)

    def _nodes(self, roots: tuple[Expr, ...]) -> Collection[Expr]:
        found: dict[Expr, None] = {}
        for e in roots:
            told = self._told.get(e)
            if told is None:
                told = self._told[e] = tuple([n for n in postorder(e) if n.op in _TOLD])
            if len(roots) == 1:
                return told
            found.update(dict.fromkeys(told))
        return found


def _names(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        sizes = subject.sizes if p.function is None else subject.sizes.intersection(p.variables)
        for n in p.nodes:
            if n.op == "size" and n.attr not in sizes:
                yield f"{p.title}: the size {n.attr} is not passed here"
            elif n.op == "var":
                if n.attr not in p.variables:
                    yield f"{p.title}: {n.attr} is used before it is declared"
            else:
                for name in _named_buffers(n):
                    if name not in p.buffers:
                        yield f"{p.title}: {name} is no buffer here"
        for name in named(p.stmt):
            if name not in p.buffers:
                yield f"{p.title}: {name} is no buffer here"


def _named_buffers(n: Expr) -> tuple[str, ...]:
    return n.attr if n.op == "overlap" else (n.attr,) if n.op in ("null", "to_line") or n.op in _LOADS else ()


def _unique(subject: Subject) -> Iterator[str]:
    program = subject.whole
    yield from (f"two functions are called {name}" for name in repeated(f.name for f in program.functions))
    for f in program.functions:
        yield from (f"function {f.name}: two parameters are called {name}" for name in repeated(q.name for q in f.params))
    for p in subject.places:
        s = p.stmt
        names = (s.var, s.end) if isinstance(s, For) else (s.name,) if isinstance(s, (Define, Array, Scratch)) else ()
        for name in names:
            if name in p.buffers or name in p.variables or name in subject.sizes:
                yield f"{p.title}: {name} is declared again"


def _dtypes(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        for n in p.nodes:
            if n.op == "var" and n.attr in p.variables and n.dtype is not p.variables[n.attr]:
                yield f"{p.title}: {n.attr} is read as {n.dtype}, it is {p.variables[n.attr]}"
            elif n.op in _LOADS and n.attr in p.buffers:
                held = p.buffers[n.attr].dtype
                if (n.dtype is not held) if n.op == "load" else (held.lanes != 1 or n.dtype.element is not held):
                    yield f"{p.title}: {n!r} gives {n.dtype}, {n.attr} holds {held}"
        s = p.stmt
        if isinstance(s, Define) and s.value is not None and s.value.dtype is not s.dtype:
            yield f"{p.title}: {s.name} is declared {s.dtype}, its value is {s.value.dtype}"
        elif isinstance(s, Assign) and s.name in p.variables and s.value.dtype is not p.variables[s.name]:
            yield f"{p.title}: {s.name} is {p.variables[s.name]}, its value is {s.value.dtype}"
        elif isinstance(s, StoreTo) and s.buffer in p.buffers:
            held = p.buffers[s.buffer].dtype
            if s.value.dtype is not held and (held.lanes != 1 or s.value.dtype.element is not held):
                yield f"{p.title}: {s.value.dtype} is stored to {s.buffer}, which holds {held}"
            elif s.count is not None and (held.lanes != 1 or s.value.dtype.lanes == 1):
                yield f"{p.title}: only a vector's first lanes are stored by count, and to memory"


def _expressions(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        for e in p.roots:
            if not e.typed:
                yield from (f"{p.title}: {found}" for found in mistyped((e,)))
        for n in p.nodes:
            if n.op in ("axis", "first", "last"):
                yield f"{p.title}: {n!r} stands in a program"
            elif n.op in _LOADS and len(n.args) != 1 and (n.op != "vload" or len(n.args) > 3):
                yield f"{p.title}: {n!r} has {len(n.args)} addresses"


def _addresses(subject: Subject) -> Iterator[str]:
    """Addresses, bounds and counts are i64, conditions bool, none of them a vector."""
    for p in subject.places:
        s = p.stmt
        integers: tuple[Expr, ...] = ()
        conditions: tuple[Expr | None, ...] = ()
        match s:
            case StoreTo():
                integers, conditions = (s.address,) if s.count is None else (s.address, s.count), (s.stream,)
            case Scratch():
                integers = (s.count,)
            case Prefetch():
                integers = (s.address,)
            case Multiply() | Matrix():
                integers = p.roots
            case For():
                integers, conditions = (s.start, s.stop, s.step), (s.serial_if,)
            case If() | While():
                conditions = (s.condition,)
            case Region():
                conditions = (s.serial_if,)
            case _:
                pass
        for e in integers:
            if e.dtype is not INDEX:
                yield f"{p.title}: {e!r} is {e.dtype}, not i64"
        for condition in conditions:
            if condition is not None and condition.dtype is not bool_:
                yield f"{p.title}: {condition!r} is {condition.dtype}, not bool"


def _arrays(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        s = p.stmt
        if isinstance(s, Array):
            if s.count < 1:
                yield f"{p.title}: the array {s.name} has {s.count} elements"
            if s.space not in ("register", "stack", "shared"):
                yield f"{p.title}: the array {s.name} is in the space {s.space!r}"
            if s.space == "shared" and (p.function is None or not p.function.grid):
                yield f"{p.title}: {s.name} is shared by the threads of no grid"
            if s.swizzle and not (fits(s.dtype, s.count, s.swizzle) and s.space == "shared" and s.align % ALIGN == 0 < s.align):
                yield f"{p.title}: {s.name} is swizzled by {s.swizzle}, and not made of whole groups of such rows"


def _assignments(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        if isinstance(p.stmt, Assign) and p.stmt.name not in p.mutable:
            yield f"{p.title}: {p.stmt.name} is no `var`"
        written = stored(p.stmt)
        if written is not None and written in p.buffers and p.buffers[written].const:
            yield f"{p.title}: a store to {written}, which is const"
        if isinstance(p.stmt, Define) and p.stmt.value is None and not p.stmt.mutable:
            yield f"{p.title}: {p.stmt.name} never has a value"


def _loops(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        s = p.stmt
        if not isinstance(s, For):
            continue
        if s.pragma and s.pragma not in PRAGMAS:
            yield f"{p.title}: the loop over {s.var} has the pragma {s.pragma!r}"
        if s.times and (s.pragma != "unroll" or s.times < 1):
            yield f"{p.title}: the loop over {s.var} is unrolled {s.times} times, which is not a loop that is unrolled, or no number of times"
        if s.step.is_const and s.step.attr == 0:
            yield f"{p.title}: the loop over {s.var} has the step 0"
        if s.serial_if is not None and s.pragma != "parallel":
            yield f"{p.title}: the loop over {s.var} has serial_if and is not parallel"
        if s.end and (s.pragma != "parallel" or s.start is not ZERO or s.step is not ONE or s.end == s.var):
            yield f"{p.title}: the loop over {s.var} has an end of its own and is no parallel one from 0 in steps of 1"
        if s.pragma.startswith(("block", "thread")) and (p.function is None or not p.function.grid):
            yield f"{p.title}: the loop over {s.var} is bound to {s.pragma} of no grid"


def _regions(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        if not isinstance(p.stmt, (Region, Barrier, For)):
            continue
        gpu = p.function is not None and bool(p.function.grid)
        regions = [a for a in p.around if isinstance(a, Region)]
        if isinstance(p.stmt, Region) and regions:
            yield f"{p.title}: a region inside a region"
        if isinstance(p.stmt, Barrier) and not regions and not gpu:
            yield f"{p.title}: a barrier outside any region"
        if isinstance(p.stmt, For) and p.stmt.pragma in ("workshare", "queue") and not regions and not gpu:
            yield f"{p.title}: the loop over {p.stmt.var} is shared among the threads of no region"
        if isinstance(p.stmt, Barrier) and any(isinstance(a, For) and a.pragma in ("workshare", "queue", "parallel") for a in p.around):
            yield f"{p.title}: a barrier inside a shared loop"


def _tiles(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        s = p.stmt
        if not isinstance(s, Multiply):
            continue
        if s.instruction not in TILES:
            yield f"{p.title}: there is no instruction {s.instruction}"
            continue
        if any(n % SIDE or not 0 < n <= MOST_TILES * SIDE for n in (s.rows, s.columns)):
            yield f"{p.title}: {s.instruction} of {s.rows} by {s.columns}"
        wanted = (TILES[s.instruction].dot.result, u32 if s.neighbours == 1 else TILES[s.instruction].operands[0], u32)
        for name, dtype in zip(named(s), wanted, strict=True):
            if name in p.buffers and p.buffers[name].dtype is not dtype:
                yield f"{p.title}: {s.instruction} works on {dtype}, {name} holds {p.buffers[name].dtype}"
        if not _begun(p):
            yield f"{p.title}: {s.instruction} outside of `tiles begin` and `tiles end`"


def _begun(p: Place) -> bool:
    """Whether a block around the statement has begun with tiles before it, and not ended."""
    bodies = [sum(a.blocks(), ()) for a in p.around]
    outermost = p.function.body if p.function is not None else ()
    for block, inner in zip((outermost, *bodies), (*p.around, p.stmt), strict=True):
        before = [s for s in block[: next((k for k, s in enumerate(block) if s is inner), 0)] if isinstance(s, Tiles)]
        if before and before[-1].begin:
            return True
    return False


def _matrices(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        s = p.stmt
        if not isinstance(s, Matrix):
            continue
        if s.instruction not in FRAGMENTS:
            yield f"{p.title}: there is no instruction {s.instruction}"
            continue
        if min(s.tiles) < 1:
            yield f"{p.title}: {s.instruction} of {s.tiles} tiles"
        operand = FRAGMENTS[s.instruction].operand
        for name, dtype in zip(named(s), (f32, operand, operand), strict=True):
            if name in p.buffers and p.buffers[name].dtype is not dtype:
                yield f"{p.title}: {s.instruction} works on {dtype}, {name} holds {p.buffers[name].dtype}"
        if p.function is None or not p.function.threads:
            yield f"{p.title}: {s.instruction} outside of any threads of a block"


def _calls(subject: Subject) -> Iterator[str]:
    order = {f.name: k for k, f in enumerate(subject.whole.functions)}
    for p in subject.places:
        s = p.stmt
        if not isinstance(s, Call):
            continue
        f = subject.functions.get(s.function)
        if f is None:
            yield f"{p.title}: calls {s.function}, which is no function"
            continue
        if p.function is not None and (f.fails or f.grid or p.function.grid or order[f.name] >= order[p.function.name]):
            yield f"{p.title}: calls {s.function}, but only the entry calls what may fail, what is launched or what comes later"
            continue
        if len(f.params) != len(s.args):
            yield f"{p.title}: {f.name} takes {len(f.params)} arguments, found {len(s.args)}"
            continue
        for q, a in zip(f.params, s.args, strict=True):
            if isinstance(a, str) != q.pointer:
                yield f"{p.title}: {f.name} takes {q.name} {'as a buffer' if q.pointer else 'by value'}"
            elif isinstance(a, str) and a not in p.buffers:
                yield f"{p.title}: {a} is no buffer here"
            elif isinstance(a, str) and p.buffers[a].const and not q.const:
                yield f"{p.title}: {a} is only read, {f.name} writes {q.name}"
            elif (p.buffers[a].dtype if isinstance(a, str) else a.dtype) is not q.dtype:
                yield f"{p.title}: {q.name} of {f.name} is {q.dtype}, the argument {a!r} is not"


def _failures(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        if isinstance(p.stmt, Fail):
            if p.stmt.code not in ERRORS or p.stmt.code == 0:
                yield f"{p.title}: there is no error code {p.stmt.code}"
            if p.function is not None and not p.function.fails:
                yield f"{p.title}: fails, and does not say so"


def _functions(subject: Subject) -> Iterator[str]:
    for f in subject.whole.functions:
        if bool(f.grid) != bool(f.threads) or len(f.grid) > 3 or len(f.threads) > 3:
            yield f"function {f.name} has {len(f.grid)} extents of its grid and {len(f.threads)} of its blocks"
        for e in (*f.grid, *f.threads):
            yield from (f"function {f.name}: {found}" for found in undeclared(e, subject.sizes, 0))
    if subject.whole.workspace is not None:
        yield from (f"workspace: {found}" for found in undeclared(subject.whole.workspace, subject.sizes, 0))


def _entry_forms(subject: Subject) -> Iterator[str]:
    for p in subject.places:
        if p.function is not None:
            yield from (f"{p.title}: {n!r} belongs to the entry" for n in p.nodes if n.op in ("null", "overlap"))


RULES: tuple[Rule, ...] = (
    *header_rules(Program),
    Rule("names", "names are declared before use; a function sees its parameters only", _names),
    Rule("unique-names", "no name hides another", _unique),
    Rule("dtypes", "loads, variables, values and stores have the dtype and the lanes of what they name", _dtypes),
    Rule("expressions", "expressions are well typed and of this level", _expressions),
    Rule("addresses", "addresses, bounds and counts are i64, conditions bool, none a vector", _addresses),
    Rule("arrays", "arrays have a constant, positive number of elements in a known space", _arrays),
    Rule("assignments", "only a `var` is assigned to, and nothing const stored to", _assignments),
    Rule("loops", "a loop has a known pragma that fits where it stands, and a step other than 0", _loops),
    Rule("regions", "barriers and workshare loops stand in a region, where every thread comes by", _regions),
    Rule("tiles", "an instruction on tiles has operands of its types, and stands where tiles have begun", _tiles),
    Rule("matrices", "what a warp multiplies has operands of the instruction's types, and stands where threads are", _matrices),
    Rule("calls", "functions are called with what they take, by the entry or by a function that stands behind them", _calls),
    Rule("failures", "fail names an error code, and its function says that it fails", _failures),
    Rule("functions", "grids and the workspace are over the sizes", _functions),
    Rule("entry-forms", "null and overlap stand in the entry only", _entry_forms),
)
