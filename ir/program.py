"""The program level: flat addresses, vector types, nothing left to decide.  One statement renders to one line.

    program   ::= "program" NAME "v1" NEWLINE header* ["target" STRING] ["workspace" expr] ("note" STRING)* function* entry
    header    as at the graph level
    function  ::= "function" NAME "(" parameter, … ")" ["grid" "[" expr, … "]"] ["threads" "[" expr, … "]"] ["fails"] ":" block
    parameter ::= ["const"] ["may_alias"] DTYPE "*" NAME | DTYPE NAME ["position"] ["natural"]      a pointer (never aliased by another unless `may_alias`), or a scalar / size
    block     ::= statement*                                               one a line, all indented alike and deeper than what they belong to
    statement ::= "let" NAME ":" DTYPE "=" expr                            immutable
                | "var" NAME ":" DTYPE ["=" expr]                          mutable
                | NAME "=" expr                                            assignment to a `var`
                | "array" NAME ":" DTYPE "[" INT "]" ["register"] ["align" INT]  a local array of scalars or vectors, on the stack or in registers, contents undefined
                | "shared" NAME ":" DTYPE "[" INT "]" ["align" INT]        GPU: one a block
                | "scratch" NAME ":" DTYPE "[" expr "]" ["align" INT]      heap or workspace memory, freed where its block ends; 64 bytes aligned unless it says so
                | NAME "[" expr "]" "=" expr ["stream" expr]               store, past the caches where the condition holds; a vector value fills consecutive elements from the flat address
                | NAME "[" expr "," expr "]" "=" expr ["stream" expr]      store of the first so many lanes of a vector (none below 0)
                | "for" NAME ["," NAME] "in" expr ".." expr ["step" expr] [PRAGMA] ["serial_if" expr] ":" block
                | "if" expr ":" block ["else" ":" block] | "while" expr ":" block
                | "region" ["serial_if" expr] ":" block | "barrier"
                | "call" NAME "(" (expr | NAME), … ")"                     a name of a buffer is passed by pointer
                | "prefetch" NAME "[" expr "]" ["cache" INT] ["write"]     a hint: this element is read (or stored into) soon; there need not be one
                | "multiply" NAME INT "by" INT ["anew"] "into" tile "from" tile "and" tile "over" expr    an instruction on tiles: see `Multiply`
                | "matrix" NAME INT "by" INT "by" INT "into" lines "from" lines "and" lines    a thread's part of what its warp multiplies: see `Matrix`
                | "tiles" ("begin" | "end")                                a thread's tile registers: `multiply` stands between the two
                | "fail" INT                                               leave with an error code; inside a parallel loop it sets the sticky flag instead
    tile      ::= NAME "[" expr, … "]"                                     the flat address of the first element, and how far it is to the next row (of operands: to the next step, the next row)
    lines     ::= NAME "[" expr, INT, … "]"                                the flat address of the thread's first element, and distances from there
    PRAGMA    ::= "unroll" [INT] | "parallel" | "workshare" | "queue" | "block.x" … "thread.z"
    entry     ::= "entry" ":" block                                        checks, temporaries, calls; the C function that the user sees

A function sees the sizes and its own parameters; a parameter that is called as a size passes that size.
Of an unrolled loop all iterations stand side by side, or as many at a time as the number says, whatever is left over in a loop of its own.
The body of a parallel loop with two names runs once for a number of its iterations, however many a thread has: those from the first name to the second.
A loop with a `block` or `thread` pragma runs from 0 in steps of 1 and only says where its variable is bound; the grid of the function covers it, and where several such
loops of one function share an index with different extents, each holds its own guard.  `fail` leaves with the code; inside a parallel loop or a region (and on a GPU) it sets a sticky
flag instead and goes on, and the function returns the flag when the loop is done.

A name in `array` whose elements are vectors is indexed by vector, not by lane.  Addresses are i64 expressions in elements of the pointer's type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from operator import is_
from typing import Any

from .dtypes import DType
from .expr import ONE, Expr
from .graph import Port, Size
from .record import record, replace


@record
class Param:
    name: str
    dtype: DType
    pointer: bool = False
    const: bool = False
    may_alias: bool = False
    position: bool = False  # of a value: what `positions.py` means by it
    natural: bool = False


@record
class Define:
    """`let` (mutable=False) or `var`."""

    name: str
    dtype: DType
    value: Expr | None = None
    mutable: bool = False


@record
class Assign:
    name: str
    value: Expr


@record
class Array:
    """A local array with a constant number of elements (scalars or vectors).  space: register | stack | shared."""

    name: str
    dtype: DType
    count: int
    space: str = "stack"
    align: int = 0


@record
class Scratch:
    """`count` elements of heap (or workspace) memory, released where the enclosing block ends; failing gives the code for no memory."""

    name: str
    dtype: DType
    count: Expr
    align: int = 64


@record
class StoreTo:
    buffer: str
    address: Expr
    value: Expr
    stream: Expr | None = None
    count: Expr | None = None  # of a vector: only so many lanes


@record
class For:
    var: str
    start: Expr
    stop: Expr
    body: Block
    step: Expr = ONE
    pragma: str = ""  # "" | unroll | parallel | workshare | queue | block.x … thread.z
    serial_if: Expr | None = None  # parallel only: run by one thread where this holds (too little work to fork)
    end: str = ""  # parallel only, from 0 in steps of 1: the body is for all iterations from `var` to this, as many as a thread has
    times: int = 0  # unroll only: so many iterations side by side; 0: all of them
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


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
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class Region:
    body: Block
    serial_if: Expr | None = None  # run by one thread where this holds (too little work to fork)
    within: tuple[Stmt, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `statements`


@record
class Barrier:
    pass


@record
class Call:
    function: str
    args: tuple[Expr | str, ...]  # a string is a buffer passed by pointer


@record
class Fail:
    code: int


@record
class Prefetch:
    buffer: str
    address: Expr
    cache: int = 1  # into which it is to come: the first, or only as near as the second
    write: bool = False  # it is going to be stored into


@record
class Multiply:
    """An instruction on tiles (`ir/instructions.py`), over and over along a reduction, for i below `rows`, j below `columns` and k below `SIDE`:

    result[i, j] add= Σ over s below `steps`, and k, of dot(0, left[s, i, k], right[s, k, j])

    Where it begins anew, the result is that sum, and what was there is not read.
    """

    instruction: str  # of TILES
    rows: int  # multiples of SIDE, at most MOST_TILES of them
    columns: int
    buffer: str
    address: Expr
    row: Expr  # from one row of the result to the next
    left: tuple[str, Expr, Expr, Expr]  # buffer, address, and how far it is to the next step and to the next row
    right: tuple[str, Expr, Expr, Expr]  # the same; its rows are words along the reduction
    steps: Expr
    anew: bool = False
    neighbours: int = 1  # elements of the left buffer in a word: its address counts elements, distances count words


@record
class Matrix:
    """A thread's part of what the threads of its warp multiply together (`ir/warps.py`), for mi, ni and ks below `tiles`, h and j below 2, k below `depth` of the instruction:

    result[address + (mi, h, ni, j)] add= Σ over ks and k of left[mi, h, depth·ks + k] · right[ni, j, depth·ks + k], as f32

    All threads of the warp come by together; of the others' elements the distances say where they are.
    """

    instruction: str  # of FRAGMENTS
    tiles: tuple[int, int, int]  # of rows, of columns, along the reduction
    buffer: str
    address: Expr
    distances: tuple[int, int, int, int]  # to the next mi, h, ni, j
    left: tuple[str, Expr, int, int, int]  # buffer, address, and how far it is to the next row, to the next tile (mi), and along the reduction
    right: tuple[str, Expr, int, int, int]  # the same of columns


@record
class Tiles:
    """A thread begins to use its tile registers, or is done with them."""

    begin: bool


PRAGMAS = ("unroll", "parallel", "workshare", "queue", "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z")
Stmt = Define | Assign | Array | Scratch | StoreTo | For | If | While | Region | Barrier | Call | Fail | Prefetch | Multiply | Matrix | Tiles
Block = tuple[Stmt, ...]

# Error codes of the emitted functions; `lm_strerror` names them.
OK, NULL_POINTER, BAD_SIZE, BAD_INDEX, OVERLAP, NO_MEMORY, PRECONDITION, DEVICE_ERROR = 0, 1, 2, 3, 4, 5, 6, 7
ERRORS = {
    OK: "no error", NULL_POINTER: "null pointer", BAD_SIZE: "a size is negative or overflows", BAD_INDEX: "index out of range",
    OVERLAP: "buffers overlap", NO_MEMORY: "out of memory", PRECONDITION: "a precondition on the sizes does not hold",
    DEVICE_ERROR: "the device reported an error",
}  # fmt: skip


@record
class Function:
    """One kernel: static in C, __global__ in CUDA.  `grid` and `threads` (x, y, z) stand only on a GPU."""

    name: str
    params: tuple[Param, ...]
    body: Block
    grid: tuple[Expr, ...] = ()
    threads: tuple[Expr, ...] = ()
    fails: bool = False  # returns an error code (C) or sets the status word (CUDA)


@record
class Program:
    name: str
    sizes: tuple[Size, ...]
    ports: tuple[Port, ...]
    functions: tuple[Function, ...]
    entry: Block
    derived: tuple[tuple[str, Expr], ...] = ()
    requires: tuple[Expr, ...] = ()
    documentation: str = ""
    source: str = ""
    target: str = ""  # the resolved target, spelled out
    workspace: Expr | None = None  # bytes of all temporaries, over the free sizes
    notes: tuple[str, ...] = field(default=(), compare=False)

    def size_info(self) -> dict[str, Size]:
        return {s.name: s for s in self.sizes}


def with_body(s: For | While | Region, body: Block) -> Stmt:
    """The statement around another block; itself where that is its own."""
    if body is s.body:
        return s
    if isinstance(s, For):
        return For(s.var, s.start, s.stop, body, s.step, s.pragma, s.serial_if, s.end, s.times)
    return While(s.condition, body) if isinstance(s, While) else Region(body, s.serial_if)


def statements(block: Block) -> list[Stmt]:
    """Every statement, outer before inner, in order.  One that holds others remembers them: most of a tree stays when a part of it changes."""
    found: list[Stmt] = []
    s: Any  # only those that hold others have `within`
    for s in block:
        found.append(s)
        kind = type(s)
        if kind is For or kind is If or kind is While or kind is Region:
            found += s.within or _within(s)
    return found


def _within(s: For | If | While | Region) -> tuple[Stmt, ...]:
    found = tuple(statements((*s.body, *s.orelse) if isinstance(s, If) else s.body))
    object.__setattr__(s, "within", found)
    return found


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case StoreTo():  # the most of them
            found = (stmt.address, stmt.value) if stmt.count is None else (stmt.address, stmt.count, stmt.value)
            return found if stmt.stream is None else (*found, stmt.stream)
        case For():
            return (stmt.start, stmt.stop, stmt.step) if stmt.serial_if is None else (stmt.start, stmt.stop, stmt.step, stmt.serial_if)
        case Define():
            return () if stmt.value is None else (stmt.value,)
        case Assign():
            return (stmt.value,)
        case Scratch():
            return (stmt.count,)
        case If() | While():
            return (stmt.condition,)
        case Region():
            return () if stmt.serial_if is None else (stmt.serial_if,)
        case Prefetch():
            return (stmt.address,)
        case Multiply():
            return (stmt.address, stmt.row, *stmt.left[1:], *stmt.right[1:], stmt.steps)
        case Matrix():
            return (stmt.address, stmt.left[1], stmt.right[1])
        case Call():
            return tuple(a for a in stmt.args if isinstance(a, Expr))
        case _:
            return ()


def kinds_in(block: Block) -> int:
    """The kinds of operators that stand in it (`Expr.kinds`)."""
    found, stack = 0, list(block)
    while stack:  # in no order
        s = stack.pop()
        for e in expressions(s):
            found |= e.kinds
        if isinstance(s, (For, While, Region)):
            stack += s.body
        elif isinstance(s, If):
            stack += s.body
            stack += s.orelse
    return found


def stored(stmt: Stmt) -> str | None:
    """The buffer that a statement writes."""
    return stmt.buffer if isinstance(stmt, (StoreTo, Multiply, Matrix)) else None


def named(stmt: Stmt) -> tuple[str, ...]:
    """The buffers that a statement names itself, not in an expression."""
    if isinstance(stmt, (Multiply, Matrix)):
        return stmt.buffer, stmt.left[0], stmt.right[0]
    return (stmt.buffer,) if isinstance(stmt, (StoreTo, Prefetch)) else ()


def map_expressions(block: Block, change: Callable[[Expr], Expr]) -> Block:
    """The block with every expression replaced; a statement in which nothing changes stays the same object."""
    changed = [with_expressions(s, change) for s in block]
    return block if all(map(is_, changed, block)) else tuple(changed)


def with_expressions(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """One statement, and what it holds, with every expression replaced."""
    match s:
        case StoreTo():
            address, value = change(s.address), change(s.value)
            count, stream = None if s.count is None else change(s.count), None if s.stream is None else change(s.stream)
            same = address is s.address and value is s.value and count is s.count and stream is s.stream
            return s if same else StoreTo(s.buffer, address, value, stream, count)
        case Define():
            given = None if s.value is None else change(s.value)
            return s if given is s.value else Define(s.name, s.dtype, given, s.mutable)
        case Assign():
            assigned = change(s.value)
            return s if assigned is s.value else Assign(s.name, assigned)
        case Scratch():
            return replace(s, count=change(s.count))
        case For():
            serial_if, body = None if s.serial_if is None else change(s.serial_if), map_expressions(s.body, change)
            start, stop, step = change(s.start), change(s.stop), change(s.step)
            same = body is s.body and start is s.start and stop is s.stop and step is s.step and serial_if is s.serial_if
            return s if same else For(s.var, start, stop, body, step, s.pragma, serial_if, s.end, s.times)
        case If():
            condition, body, orelse = change(s.condition), map_expressions(s.body, change), map_expressions(s.orelse, change)
            return s if condition is s.condition and body is s.body and orelse is s.orelse else If(condition, body, orelse)
        case While():
            return While(change(s.condition), map_expressions(s.body, change))
        case Region():
            body, serial_if = map_expressions(s.body, change), None if s.serial_if is None else change(s.serial_if)
            return s if body is s.body and serial_if is s.serial_if else Region(body, serial_if)
        case Prefetch():
            return replace(s, address=change(s.address))
        case Multiply():
            (a, *left), (b, *right) = s.left, s.right
            moved = {"left": (a, *map(change, left)), "right": (b, *map(change, right))}
            return replace(s, address=change(s.address), row=change(s.row), steps=change(s.steps), **moved)
        case Matrix():
            (a, at_left, *far), (b, at_right, *wide) = s.left, s.right
            return replace(s, address=change(s.address), left=(a, change(at_left), *far), right=(b, change(at_right), *wide))
        case Call():
            return replace(s, args=tuple(change(a) if isinstance(a, Expr) else a for a in s.args))
        case _:
            return s


def map_loops(block: Block, change: Callable[[For], Block | None]) -> Block:
    """Bottom-up: `change(loop)` (its body already changed) gives the statements that stand in the loop's place, or None to keep it."""
    result: list[Stmt] = []
    for s in block:
        if isinstance(s, For):
            s = with_body(s, map_loops(s.body, change))
            changed = change(s) if isinstance(s, For) else None
            if changed is not None:
                result.extend(changed)
                continue
        elif isinstance(s, If):
            body, orelse = map_loops(s.body, change), map_loops(s.orelse, change)
            s = s if body is s.body and orelse is s.orelse else If(s.condition, body, orelse)
        elif isinstance(s, (While, Region)):
            s = with_body(s, map_loops(s.body, change))
        result.append(s)
    return block if len(result) == len(block) and all(map(is_, result, block)) else tuple(result)


def map_block(block: Block, change: Callable[[Stmt], Block | None]) -> Block:
    """Bottom-up: `change(stmt)` (its body already changed) gives the statements that stand in its place, or None to keep it."""
    result: list[Stmt] = []
    for s in block:
        match s:
            case For() | While() | Region():
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
