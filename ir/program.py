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
                | "shared" NAME ":" DTYPE "[" INT "]" ["align" INT] ["swizzle" INT]        GPU: one a block
                | "scratch" NAME ":" DTYPE "[" expr "]" ["align" INT]      heap or workspace memory, freed where its block ends; 64 bytes aligned unless it says so
                | NAME "[" expr "]" "=" expr ["stream" expr]               store, past the caches where the condition holds; a vector value fills consecutive elements from the flat address
                | NAME "[" expr "," expr "]" "=" expr ["stream" expr]      store of the first so many lanes of a vector (none below 0)
                | "for" NAME ["," NAME] "in" expr ".." expr ["step" expr] [PRAGMA] ["serial_if" expr] ":" block
                | "if" expr ":" block ["else" ":" block] | "while" expr ":" block
                | "region" ["serial_if" expr] ":" block | "barrier" ["later" INT]
                | "call" NAME "(" (expr | NAME), … ")"                     a name of a buffer is passed by pointer
                | "prefetch" NAME "[" expr "]" ["cache" INT] ["write"]     a hint: this element is read (or stored into) soon; there need not be one
                | "multiply" NAME INT "by" INT ["anew"] "into" tile "from" tile "and" tile "over" expr    an instruction on tiles: see `Multiply`
                | "matrix" NAME INT "by" INT "by" INT "into" lines "from" lines "and" lines ["group"]    a thread's part of what its warp, or four of them, multiply: see `Matrix`
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

from dataclasses import field

from .dtypes import DType
from .expr import Expr
from .graph import Port, Size
from .program_body import (
    Array as Array,
    Assign as Assign,
    Barrier as Barrier,
    Block as Block,
    Call as Call,
    Define as Define,
    Fail as Fail,
    For as For,
    If as If,
    Matrix as Matrix,
    Multiply as Multiply,
    Prefetch as Prefetch,
    Region as Region,
    Scratch as Scratch,
    Stmt as Stmt,
    StoreTo as StoreTo,
    Tiles as Tiles,
    While as While,
    map_expressions as map_expressions,
    named as named,
    stored as stored,
    with_expressions as with_expressions,
)
from .record import record, replace
from .statement import (
    kinds_in as kinds_in,
    map_block as map_block,
    same,
    statements as statements,
    with_blocks as with_blocks,
    with_body as with_body,
)


@record
class Param:
    name: str
    dtype: DType
    pointer: bool = False
    const: bool = False
    may_alias: bool = False
    position: bool = False  # of a value: what `positions.py` means by it
    natural: bool = False


PRAGMAS = ("unroll", "parallel", "workshare", "queue", "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z")
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

    def with_functions(self, functions: tuple[Function, ...]) -> Program:
        """The program with other functions; itself where they are its own."""
        return self if same([*functions], self.functions) else replace(self, functions=functions)
