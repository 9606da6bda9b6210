"""unroll: program → program.  Short innermost loops say how many iterations stand side by side; clang is told not to find that out by itself.

    for p in 0 .. N:                                     for p in 0 .. N unroll 4:
      y[p] = x[p] + 1.0:f32                         →      y[p] = x[p] + 1.0:f32
    for k in 0 .. 3:                                     for k in 0 .. 3 unroll:
      acc = max(acc, X[t0 + k])                            acc = max(acc, X[t0 + k])

    for i in 0 .. N:                                     for i in 0 .. N unroll 1:
      y[i] = exp(x[i])                                     y[i] = exp(x[i])

Left to itself a compiler unrolls what it has in the end, without knowing what matters: what is left over of a loop that it made vectors of, borders of a few iterations, what runs once a call.
That was a fifth of clang's time.  Whatever its flags, the source keeps it from what costs registers, and time: of a loop whose iteration is long by itself, some side by side (plain -O3 for Zen 4 beside the driver's flags, one
thread: a convolution of 64 channels at 56² 1.37 → 1.03, attention of bf16 1.07 → 1.00, causal attention 1.06 → 0.98, products of bf16 1.07 → 1.00).

What multiplies and adds a register tile stands twice, however long it is.  A thread that has its core for itself hides what a loop costs behind the multiplications; one that shares the core with somebody else's thread
gets every other cycle of what brings instructions in, and then each of them counts (two threads, AVX-512, call by call in turn, strangers on both cores and none: 512³ floats 1.06 and 1.00, a direct convolution of 64
channels at 56 × 56 1.08 and 1.00 times as fast).  Four times is slower.  Where functions stand between products, tiles are of tens of iterations, and one is enough (attention, 0.96 to 0.99).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cached_property
from typing import Final

from ..ir.dtypes import INDEX
from ..ir.expr import ONE, Expr, var
from ..ir.operator_kinds import DIVIDES, FUNCTIONS, GATHERS, LONG, PARTIAL
from ..ir.polynomial import poly
from ..ir.program import Array, Assign, Block, Define, Fail, For, If, Prefetch, Program, Region, Stmt, StoreTo, While, kinds_in, statements, with_body
from ..ir.record import replace
from ..ir.statement import same
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute

WHOLE: Final = 96  # operations of a loop of which no loop is left
MOST: Final = 8  # iterations side by side where there are more
SIDE_BY_SIDE: Final = 32  # operations of those
TILE: Final = 512  # operations of two iterations of a register tile
BLOCK: Final = 2048  # operations of the iterations over a block, which share more than half of them
VECTOR: Final = 2  # operations of one on vectors, which is often a function
FUNCTION: Final = 24  # of a function that is none of the machine's
MASKED: Final = 16  # of what has some lanes: a loop over such is what another leaves over, of few iterations
_FUNCTIONS: Final = FUNCTIONS | {"gather"}


def unroll(program: Program, target: Target, options: Options) -> Program:
    """In every function; the entry has no loops of its own that matter."""
    functions = tuple(f if (body := _Marking(f.body).block(f.body)[0]) is f.body else replace(f, body=body) for f in program.functions)
    return program.with_functions(functions)


class _Marking:
    """The loops of one function.  What comes from an array in registers, and goes to one, is no operation."""

    def __init__(self, body: Block) -> None:
        self.registers = {s.name for s in statements(body) if isinstance(s, Array) and s.space == "register"}
        self.body = body

    @cached_property
    def products(self) -> bool:
        """Whether no functions stand between them."""
        return not kinds_in(self.body) & LONG

    def block(self, block: Block) -> tuple[Block, int | None]:
        """The block with its loops marked, and how many operations it is; None where a loop is left in it, or what is not to stand twice."""
        sums = {s.name for s in block if isinstance(s, Array) and s.space == "register"}
        body: list[Stmt] = []
        total: int | None = 0
        plain: list[Stmt] = []
        for s in block:
            if isinstance(s, (For, If, While, Region)):
                s, size = self._with_blocks(s, sums)
                total = None if size is None or total is None else total + size
            else:
                plain.append(s)
            body.append(s)
        for s in plain:
            if total is None:  # then nobody asks for the rest
                break
            size = self._plain(s)
            total = None if size is None else total + size
        return block if same(body, block) else tuple(body), total

    def _with_blocks(self, s: For | If | While | Region, sums: Set[str]) -> tuple[Stmt, int | None]:
        """`sums`: the arrays in registers that the block around it has."""
        if isinstance(s, For):
            body, size = self.block(s.body)
            most = TILE if size and not s.pragma and self._tile(s, sums) else SIDE_BY_SIDE
            s, operations = _marked(s if body is s.body else replace(s, body=body), size, most)
            period = _period(s) if size is not None and not s.pragma else 1
            if size is not None and period > 1 and period * size <= BLOCK:
                return replace(s, pragma="unroll", times=period), operations
            alone = size is not None and 2 * size > SIDE_BY_SIDE and not s.pragma and not _left_over(s)
            return (replace(s, pragma="unroll", times=1) if alone else s), operations
        if isinstance(s, If):
            (body, size), (orelse, other) = self.block(s.body), self.block(s.orelse)
            changed = s if body is s.body and orelse is s.orelse else If(s.condition, body, orelse)
            return changed, None if size is None or other is None else self._operations(s) + size + other
        return with_body(s, self.block(s.body)[0]), None

    def _plain(self, s: Stmt) -> int | None:
        """How many operations a statement is that holds no others; None where it is not to stand twice."""
        if isinstance(s, StoreTo):
            stored = MASKED if s.count is not None else 0 if s.buffer in self.registers else _lanes(s.value)
            return self._operations(s if s.stream is None else replace(s, stream=None)) + stored
        if isinstance(s, (Define, Assign)):
            return self._operations(s)
        if isinstance(s, Array):
            return 0
        return 1 if isinstance(s, (Prefetch, Fail)) else None

    def _tile(self, s: For, sums: Set[str]) -> bool:
        """Whether an iteration is one product for each of several vectors of sums in registers, and reads no elements that the next one reads: the compiler would keep those, in registers that the tile has.

        The sums begin beside the loop: where they come from around a branch, or from the loop before, compilers do not keep all of them in registers (a filter in Winograd's form, 0.8 times as fast).
        """
        inside = [x for x in statements(s.body) if not isinstance(x, Prefetch)]
        stores = [x for x in inside if isinstance(x, StoreTo)]
        loops = [x for x in inside if isinstance(x, For)]
        plain = all(isinstance(x, (For, StoreTo, Define)) for x in inside) and all(x.buffer in sums and self._adds(x) for x in stores)
        if not (plain and stores and loops and s.step is ONE and self.products):
            return False
        lets: dict[Expr, Expr] = {}
        for x in inside:
            if isinstance(x, Define) and x.value is not None:
                lets[var(x.name)] = substitute(x.value, lets)
        counts = {var(x.var): _trips(x) or 0 for x in loops}
        read = [n for x in stores for n in postorder(*x.expressions()) if n.op in ("load", "vload") and n.attr not in self.registers]
        if any(s.var in substitute(a, lets).names for n in read for a in n.args[1:]):  # what another loop leaves over, of few iterations
            return False
        return not any(_again(substitute(n.args[0], lets), n.dtype.lanes, var(s.var), counts) for n in read)

    def _adds(self, s: StoreTo) -> bool:
        """a = a + x · y, or what an instruction adds to a, of vectors."""
        kept = [n for n in s.value.args if n.op == "load" and n.attr == s.buffer and n.args[0] is s.address]
        plain = not s.value.kinds & (LONG | GATHERS)
        return s.value.op in ("add", "ins") and s.value.dtype.lanes > 1 and bool(kept) and plain

    def _operations(self, s: Stmt) -> int:
        """Addresses go along with loads and stores."""
        return sum([self._cost(n) for n in postorder(*s.expressions()) if n.args and (n.dtype is not INDEX or n.op == "load")])

    def _cost(self, n: Expr) -> int:
        if n.op in _FUNCTIONS:
            return FUNCTION
        if n.op in ("load", "vload"):
            return MASKED if len(n.args) > 1 else 0 if n.attr in self.registers else _lanes(n)
        return 0 if n.op == "broadcast" else _lanes(n)


def _lanes(value: Expr) -> int:
    return VECTOR if value.dtype.lanes > 1 else 1


def _marked(s: For, size: int | None, most: int) -> tuple[For, int | None]:
    """A loop over so many operations, and how many it is where no loop is left of it; two iterations stand side by side where one is no more than `most`."""
    if size is None or s.pragma not in ("", "unroll"):
        return s, None
    trips = _trips(s)
    if trips is not None and (s.pragma or size * trips <= WHOLE):
        return s if s.pragma else replace(s, pragma="unroll"), size * trips
    times = MOST
    while times > 1 and (times * size > (SIDE_BY_SIDE if times > 2 else most) or (trips is not None and trips % times)):
        times //= 2
    return s if s.pragma or times == 1 else replace(s, pragma="unroll", times=times), None


def _period(s: For) -> int:
    """After how many iterations what a loop divides its position by is at its beginning again: blocks of 32 that are read in vectors of 16 have one scale for both."""
    if not kinds_in(s.body) & DIVIDES or s.step is not ONE:
        return 1
    divided = [n for x in statements(s.body) for n in postorder(*x.expressions()) if n.op in ("floordiv", "mod") and n.args[0] is var(s.var)]
    return max((n.args[1].attr for n in divided if n.args[1].is_const and 1 < n.args[1].attr <= MOST), default=1)


def _left_over(s: For) -> bool:
    """Whether a loop has some lanes: another leaves it over, and it has few iterations."""
    return bool(kinds_in(s.body) & PARTIAL) or any(x.count is not None for x in statements(s.body) if isinstance(x, StoreTo))


def _again(place: Expr, lanes: int, loop: Expr, counts: Mapping[Expr, int]) -> bool:
    """Whether the next iteration of `loop` reads what this one reads from a place on, in one of the loops inside, which have so many iterations."""
    terms = poly(place)
    step = terms.get((loop,), 0)
    if 0 < abs(step) < lanes:
        return True
    for monomial, each in terms.items():
        x = monomial[0] if len(monomial) == 1 else loop
        count = x.args[1].attr if x.op == "mod" and x.args[1].is_const and x.args[0] in counts else counts.get(x, 0)
        if step and step % each == 0 and abs(step // each) < count:
            return True
    return False


def _trips(s: For) -> int | None:
    known = s.start.is_const and s.stop.is_const and s.step.is_const and s.step.attr != 0
    return max(0, -((s.start.attr - s.stop.attr) // s.step.attr)) if known else None
