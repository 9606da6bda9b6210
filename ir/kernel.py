"""The kernel level: loop nests over named axes, statements in order, expressions as DAGs.

    module    ::= "kernels" NAME "v1" NEWLINE header* temp* kernel*
    header    as at the graph level
    temp      ::= "temp" buffer                                            lives between kernels
    buffer    ::= NAME ":" DTYPE shape [SPACE] ["strides" shape] ["align" INT] ["swizzle" INT]
    kernel    ::= "kernel" NAME "(" NAME, … ")" ":" NEWLINE step* note* block  the buffers it touches, ports first, then temps
    step      ::= "schedule" STRING                                        the steps that made it, replayable
    note      ::= "note" STRING                                            what `--why` prints
    block     ::= statement*                                               one a line, all indented alike and deeper than what they belong to
    statement ::= "for" NAME "in" expr ".." expr ["step" expr] [KIND] ":" block
                | "let" NAME ":" DTYPE "=" expr                            immutable, to the end of its block
                | "alloc" buffer                                           a local buffer, to the end of its block; its contents start undefined
                | NAME "[" expr, … "]" "=" expr ["stream" expr]            store; past the caches where the condition holds, and into memory that threads share on its way until a barrier has waited for it
                | NAME "[" expr, … "]" COMBINER "=" expr                   accumulate: add= mul= max= min= and= or=
                | "if" expr ":" block ["else" ":" block]
                | "while" expr ["max" expr] ":" block
                | "region" ":" block                                       run by every thread of one team
                | "barrier" ["later" INT]                                  the threads of the region wait for one another, and for what is on its way but in the last so many stretches between barriers
                | "prefetch" NAME "[" expr, … "]" "ahead" expr ["cache" INT] ["write"]    a hint: what stands so many elements behind the position, in memory or beyond its end, is read (or stored into) soon; into the second cache
                | "check" expr "code" INT                                  leave with this error code where the condition is false

KIND of an axis: serial (the default) · elastic (in order; iterations beyond the bounds, as far as other iterations of the loops around have them, would change nothing; nor would those of the loops inside whose bounds move with the same loops) · parallel (iterations independent: any order, any thread) · reduce (accumulations only: any order up to rounding) ·
unroll · vector (constant extent, no dependence but accumulations into lanes) · tile (rows, columns and words of an instruction on tiles, see `ir/instructions.py`; any order up to rounding) · matrix (the outermost of a nest of what one thread computes of a product by a warp, see `ir/warps.py`; any order up to rounding) · workshare (iterations of a region's loop divided among its threads) · queue (the same, each iteration for the next thread that is free) ·
block.x/y/z and thread.x/y/z (GPU).
SPACE: register (constant extents; expected to live in registers) · private (one a thread) · shared (one a team: allocated before its region) · stack (small, constant).
A rank-0 register buffer is a mutable scalar; loads and stores of it have no index: `acc[] add= A[i, p] * B[p, j]`.

Indices are logical; the position in memory is Σ index·stride with the buffer's strides (row-major where none are given), at which a swizzled array has the element
elsewhere (`swizzle.py`).
Names of axes: a split of `i` makes `i.0` and `i.1`; names are unique within a kernel.  `first(axis)` and `last(axis)` may stand in conditions.

Complex numbers: up to `passes/split_complex.py` buffers and expressions may be c64; after it ports of c64 are `pairs` (see ir/graph.py) and nothing else is.

A *Nest* is a piece of the same language before scheduling: the body of a composite in the loop style.
"""

from __future__ import annotations

from .dtypes import DType, bool_
from .expr import ONE, Expr, const
from .graph import Port, Size
from .kernel_body import (
    Alloc as Alloc,
    Barrier as Barrier,
    Block as Block,
    Buffer as Buffer,
    Check as Check,
    Homes as Homes,
    If as If,
    Kernel as Kernel,
    Let as Let,
    Loop as Loop,
    Place as Place,
    Prefetch as Prefetch,
    Region as Region,
    Stmt as Stmt,
    Store as Store,
    While as While,
    accesses as accesses,
    loads_in as loads_in,
    map_expressions as map_expressions,
    nested as nested,
    perfect as perfect,
    reads as reads,
    sized as sized,
    substitute_block as substitute_block,
    with_parts as with_parts,
    written as written,
)
from .primops import COMBINERS
from .record import record, replace
from .statement import map_block as map_block, statements as statements, with_blocks as with_blocks, with_body as with_body

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
    used = written(kernel.body).union(*[e.buffers for s in statements(kernel.body) for e in s.expressions()])
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
