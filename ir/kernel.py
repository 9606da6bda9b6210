"""The kernel level: loop nests over named axes, statements in order, expressions as DAGs.

    module    ::= "kernels" NAME "v1" NEWLINE header* temp* kernel*
    header    as at the graph level
    temp      ::= "temp" buffer                                            lives between kernels
    buffer    ::= NAME ":" DTYPE shape [SPACE] ["strides" shape] ["align" INT]
    kernel    ::= "kernel" NAME "(" NAME, … ")" ":" NEWLINE step* note* block  the buffers it touches, ports first, then temps
    step      ::= "schedule" STRING                                        the steps that made it, replayable
    note      ::= "note" STRING                                            what `--why` prints
    block     ::= statement*                                               one a line, all indented alike and deeper than what they belong to
    statement ::= "for" NAME "in" expr ".." expr ["step" expr] [KIND] ":" block
                | "let" NAME ":" DTYPE "=" expr                            immutable, to the end of its block
                | "alloc" buffer                                           a local buffer, to the end of its block; its contents start undefined
                | NAME "[" expr, … "]" "=" expr ["stream" expr]            store; past the caches where the condition holds
                | NAME "[" expr, … "]" COMBINER "=" expr                   accumulate: add= mul= max= min= and= or=
                | "if" expr ":" block ["else" ":" block]
                | "while" expr ["max" expr] ":" block
                | "region" ":" block                                       run by every thread of one team
                | "barrier"                                                the threads of the region wait for one another
                | "prefetch" NAME "[" expr, … "]" "ahead" expr ["cache" INT] ["write"]    a hint: what stands so many elements behind the position, in memory or beyond its end, is read (or stored into) soon; into the second cache
                | "check" expr "code" INT                                  leave with this error code where the condition is false

KIND of an axis: serial (the default) · elastic (in order; iterations beyond the bounds, as far as other iterations of the loops around have them, would change nothing; nor would those of the loops inside whose bounds move with the same loops) · parallel (iterations independent: any order, any thread) · reduce (accumulations only: any order up to rounding) ·
unroll · vector (constant extent, no dependence but accumulations into lanes) · tile (rows, columns and words of an instruction on tiles, see `ir/instructions.py`; any order up to rounding) · matrix (the outermost of a nest of what one thread computes of a product by a warp, see `ir/warps.py`; any order up to rounding) · workshare (iterations of a region's loop divided among its threads) · queue (the same, each iteration for the next thread that is free) ·
block.x/y/z and thread.x/y/z (GPU).
SPACE: register (constant extents; expected to live in registers) · private (one a thread) · shared (one a team: allocated before its region) · stack (small, constant).
A rank-0 register buffer is a mutable scalar; loads and stores of it have no index: `acc[] add= A[i, p] * B[p, j]`.

Indices are logical; the position in memory is Σ index·stride with the buffer's strides (row-major where none are given).
Names of axes: a split of `i` makes `i.0` and `i.1`; names are unique within a kernel.  `first(axis)` and `last(axis)` may stand in conditions.

Complex numbers: up to `passes/split_complex.py` buffers and expressions may be c64; after it ports of c64 are `pairs` (see ir/graph.py) and nothing else is.

A *Nest* is a piece of the same language before scheduling: the body of a composite in the loop style.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from operator import is_
from typing import Any

from .dtypes import DType, bool_
from .errors import NOWHERE, Span
from .expr import ONE, ZERO, Expr, add, const, mul, product
from .graph import Port, Shape, Size
from .primops import COMBINERS
from .record import record, replace
from .walks import substitution

KINDS = (
    "serial",
    "elastic",
    "parallel",
    "reduce",
    "unroll",
    "vector",
    "tile",
    "matrix",
    "workshare",
    "queue",
    "block.x",
    "block.y",
    "block.z",
    "thread.x",
    "thread.y",
    "thread.z",
)
SPACES = ("global", "register", "private", "shared", "stack")


@record
class Buffer:
    """Memory with a logical shape.  Ports and temps are `global`; the others come from `alloc`."""

    name: str
    dtype: DType
    shape: Shape
    space: str = "global"
    strides: tuple[Expr, ...] = ()  # in elements; () is row-major
    align: int = 0  # bytes; 0 = element alignment

    @cached_property
    def steps(self) -> tuple[Expr, ...]:
        """How many elements each axis moves by."""
        return self.strides or tuple([product(self.shape[k:]) for k in range(1, len(self.shape) + 1)])

    def stride(self, k: int) -> Expr:
        return self.steps[k]

    def address(self, index: tuple[Expr, ...]) -> Expr:
        """The flat position (in elements) of a logical index."""
        result = ZERO
        for e, step in zip(index, self.steps, strict=True):
            result = add(result, mul(e, step))
        return result

    @property
    def elements(self) -> Expr:
        return product(self.shape)


@record
class Loop:
    axis: str
    start: Expr
    stop: Expr
    body: Block
    kind: str = "serial"
    step: Expr = ONE  # never 0; negative counts down: start, start+step, … while > stop
    span: Span = field(default=NOWHERE, compare=False)
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class Let:
    name: str
    value: Expr


@record
class Alloc:
    buffer: Buffer


@record
class Store:
    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    combiner: str = ""  # "" stores; else accumulates with this monoid
    span: Span = field(default=NOWHERE, compare=False)
    stream: Expr | None = None  # on sizes: where it holds, nothing reads the result soon


@record
class If:
    condition: Expr
    body: Block
    orelse: Block = ()
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class While:
    condition: Expr
    body: Block
    limit: Expr | None = None  # at most this many trips
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class Region:
    body: Block
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class Barrier:
    pass


@record
class Check:
    condition: Expr
    code: int
    span: Span = field(default=NOWHERE, compare=False)


@record
class Prefetch:
    buffer: str
    index: tuple[Expr, ...]
    ahead: Expr  # elements
    cache: int = 1  # into which it is to come: the first, or only as near as the second
    write: bool = False  # it is going to be stored into


Stmt = Loop | Let | Alloc | Store | If | While | Region | Barrier | Check | Prefetch
Block = tuple[Stmt, ...]


@record
class Nest:
    """A loop nest inside a graph: runs on copies of `operands` in order; `results` are buffers that it writes.

    `operands[k]` names the buffer that holds operand k of the `nest` node.  `results[k]` is what the node with `result = k` gives: an operand (its
    new version) or a fresh buffer, which starts as zeros.  Scalars among the operands are rank-0 buffers.
    """

    name: str
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    body: Block
    notes: tuple[str, ...] = ()  # why it is not raised, for `--why`


# Where names are introduced, and where a statement is, for `places.py`: where the one that encloses it is (None: it stands in the kernel itself), and its number there.
Place = tuple[Any, int]
Homes = Mapping[str, Place]


@record
class Kernel:
    """One launchable unit."""

    name: str
    buffers: tuple[str, ...]  # ports and temps that it touches, ports first in port order
    body: Block
    schedule: tuple[str, ...] = ()  # the steps that made it, replayable
    notes: tuple[str, ...] = ()  # what `--why` prints
    homes: Homes | None = field(default=None, init=False, repr=False, compare=False)  # of `places.homes_in`, found once: statements never change

    def with_body(self, body: Block, homes: Homes | None = None) -> Kernel:
        """The kernel with other statements, and where their names are, if that is known."""
        result = Kernel(self.name, self.buffers, body, self.schedule, self.notes)
        if homes is not None:
            object.__setattr__(result, "homes", homes)
        return result

    def with_schedule(self, schedule: tuple[str, ...]) -> Kernel:
        result = Kernel(self.name, self.buffers, self.body, schedule, self.notes)
        object.__setattr__(result, "homes", self.homes)
        return result


@record
class Module:
    """All kernels of a composite in launch order, with the ports, the temporaries between them and what is known of the sizes."""

    name: str
    sizes: tuple[Size, ...]
    ports: tuple[Port, ...]
    temps: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    derived: tuple[tuple[str, Expr], ...] = ()
    requires: tuple[Expr, ...] = ()
    documentation: str = ""
    source: str = ""

    def buffer(self, name: str) -> Buffer:
        """The global buffer of a port (strides from its memory order) or of a temp."""
        for p in self.ports:
            if p.name == name:
                return port_buffer(p)
        return next(t for t in self.temps if t.name == name)

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> Module:
        """The module with other kernels; each lists the buffers that it still touches: an expression that is built anew may fold, and with it the last use of a buffer goes."""
        return replace(self, kernels=tuple(map(_listing_what_it_touches, kernels)))

    def size_info(self) -> dict[str, Size]:
        return {s.name: s for s in self.sizes}


def _listing_what_it_touches(kernel: Kernel) -> Kernel:
    used = written(kernel.body).union(*[e.buffers for s in statements(kernel.body) for e in expressions(s)])
    buffers = tuple([b for b in kernel.buffers if b in used])
    return kernel if buffers == kernel.buffers else replace(kernel, buffers=buffers)


def port_buffer(port: Port) -> Buffer:
    """Strides follow the memory order; a strided port takes its leading strides from the sizes that `strided` names.  In pairs, the components are the last,
    innermost axis, and the given strides still count complex elements."""
    from .expr import size

    strides: dict[int, Expr] = {}
    inner = ONE
    order = port.memory_order
    for place in range(len(order) - 1, -1, -1):
        k = order[place]
        strides[k] = size(port.strided[place]) if place < len(port.strided) else inner
        inner = strides[k] * port.shape[k]
    row_major = order == tuple(range(len(order))) and not port.strided
    listed = () if row_major else tuple(strides[k] for k in range(len(order)))
    if port.pairs:
        return Buffer(port.name, port.dtype.part, (*port.shape, const(2)), "global", (*(s * 2 for s in listed), ONE) if listed else ())
    return Buffer(port.name, port.dtype, port.shape, "global", listed)


def identity_of(combiner: str, dtype: DType) -> Expr:
    """What a reduction of this dtype over no elements gives."""
    which = COMBINERS[combiner].identity
    value = {"0": 0, "1": 1, "min": dtype.min, "max": dtype.max}[which]
    if which == "1" and COMBINERS[combiner].op == "bit_and":
        value = True if dtype is bool_ else dtype.max if dtype.kind == "uint" else -1
    return const(value, dtype)


# ---- walking


def with_body(s: Loop | While | Region, body: Block) -> Stmt:
    """The statement around another block; itself where that is its own."""
    if body is s.body:
        return s
    if isinstance(s, Loop):
        return Loop(s.axis, s.start, s.stop, body, s.kind, s.step, s.span)
    return While(s.condition, body, s.limit) if isinstance(s, While) else Region(body)


def statements(block: Block) -> list[Stmt]:
    """Every statement, outer before inner, in order.  One that holds others remembers them: most of a tree stays when a part of it changes."""
    found: list[Stmt] = []
    s: Any  # only those that hold others have `within`
    for s in block:
        found.append(s)
        kind = type(s)
        if kind is Loop or kind is If or kind is While or kind is Region:
            found += s.within or _within(s)
    return found


def _within(s: Loop | If | While | Region) -> tuple[Stmt, ...]:
    found = tuple(statements((*s.body, *s.orelse) if isinstance(s, If) else s.body))
    object.__setattr__(s, "within", found)
    return found


def written(block: Block) -> set[str]:
    """The buffers that a block stores into."""
    return {s.buffer for s in statements(block) if isinstance(s, Store)}


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement holds itself (not those of its body)."""
    match stmt:
        case Store():  # the most of them
            return (*stmt.index, stmt.value) if stmt.stream is None else (*stmt.index, stmt.value, stmt.stream)
        case Loop():
            return (stmt.start, stmt.stop, stmt.step)
        case Let():
            return (stmt.value,)
        case Alloc():
            return stmt.buffer.shape
        case If() | Check():
            return (stmt.condition,)
        case While():
            return (stmt.condition,) if stmt.limit is None else (stmt.condition, stmt.limit)
        case Prefetch():
            return (*stmt.index, stmt.ahead)
        case _:
            return ()


_AS_THEY_ARE: Mapping[str, str] = {}


def map_expressions(block: Block, change: Callable[[Expr], Expr], names: Mapping[str, str] = _AS_THEY_ARE) -> Block:
    """The block with every expression replaced; statements keep their order and their spans, one in which nothing changes stays the same object.  What statements
    name themselves (axes, lets, buffers) is called by what `names` says."""

    def one(s: Stmt) -> Stmt:
        match s:
            case Store():
                buffer, index, value = names.get(s.buffer, s.buffer), tuple(map(change, s.index)), change(s.value)
                stream = None if s.stream is None else change(s.stream)
                same = buffer is s.buffer and index == s.index and value is s.value and stream is s.stream
                return s if same else Store(buffer, index, value, s.combiner, s.span, stream)
            case Loop():
                axis, body = names.get(s.axis, s.axis), walk(s.body)
                start, stop, step = [e if e.is_const else change(e) for e in (s.start, s.stop, s.step)]
                same = body is s.body and axis is s.axis and start is s.start and stop is s.stop and step is s.step
                return s if same else Loop(axis, start, stop, body, s.kind, step, s.span)
            case Let():
                name, value = names.get(s.name, s.name), change(s.value)
                return s if name is s.name and value is s.value else Let(name, value)
            case Alloc():
                b = s.buffer
                name, shape, strides = names.get(b.name, b.name), tuple(map(change, b.shape)), tuple(map(change, b.strides))
                return (
                    s if name is b.name and shape == b.shape and strides == b.strides else Alloc(replace(b, name=name, shape=shape, strides=strides))
                )
            case If():
                condition, body, orelse = change(s.condition), walk(s.body), walk(s.orelse)
                return s if condition is s.condition and body is s.body and orelse is s.orelse else If(condition, body, orelse)
            case While():
                return While(change(s.condition), walk(s.body), None if s.limit is None else change(s.limit))
            case Region():
                return with_body(s, walk(s.body))
            case Check():
                return replace(s, condition=change(s.condition))
            case Prefetch():
                return replace(s, buffer=names.get(s.buffer, s.buffer), index=tuple(map(change, s.index)), ahead=change(s.ahead))
            case _:
                return s

    def walk(block: Block) -> Block:
        changed = [one(s) for s in block]
        return block if all(map(is_, changed, block)) else tuple(changed)

    return walk(block)


def substitute_block(block: Block, mapping: Mapping[Expr, Expr]) -> Block:
    return map_expressions(block, substitution(mapping)) if mapping else block


def map_block(block: Block, change: Callable[[Stmt], Block | None]) -> Block:
    """Bottom-up: `change(stmt)` (its body already changed) gives the statements that stand in its place, or None to keep it."""
    result: list[Stmt] = []
    for s in block:
        match s:
            case Loop() | While() | Region():
                s = with_body(s, map_block(s.body, change))
            case If():
                body, orelse = map_block(s.body, change), map_block(s.orelse, change)
                s = s if body is s.body and orelse is s.orelse else If(s.condition, body, orelse)
            case _:
                pass
        changed = change(s)
        if changed is None:
            result.append(s)
        else:
            result.extend(changed)
    return block if len(result) == len(block) and all(map(is_, result, block)) else tuple(result)
