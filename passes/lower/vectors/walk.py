"""Vector loops: the body of `for j in 0 .. 16 vector` becomes code on vectors.

    for j in 0 .. 16 vector:                             for j in 0 .. 2 unroll:                                        (8 lanes)
      acc[i*16 + j] = acc[i*16 + j] + a[i] * b[j]   →      acc[i*2 + j] = acc[i*2 + j] + broadcast.8(a[i]) * vload.8 b[j*8]

Loads of consecutive elements are `vload`, of every other one two of them (`unzip`), of others `gather` (`../transposes.py` finds better for square blocks); what is the same in every
lane stays scalar until it meets a vector (`values.py`).  A sum into one scalar folds its vector (`statements.py`).  Where a guard lets only the first lanes through (`j < N`), loads and
stores of consecutive elements are of so many lanes (`guards.py`).  A register array that is only ever touched by aligned vectors of one length becomes an array of vectors (`arrays.py`).
What has no such form (a branch that differs between lanes in another way, a guarded load that may not be performed, a scattered store, booleans in memory) stays a serial loop; what a scattered
store computes with long functions is computed on vectors before (`scattered.py`).
"""

from __future__ import annotations

from ....ir.bounds import Known, Range
from ....ir.expr import ZERO, Expr, const, var
from ....ir.moves import is_moved
from ....ir.operator_kinds import DIVIDES, LONG
from ....ir.program import Array, Block, For, Stmt, StoreTo, kinds_in, map_expressions, statements as statements_of, with_blocks, with_body
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.target import Target
from ....ir.walks import postorder, substitute
from ..names import Names
from .arrays import Arrays, Memory, touched_by_scalars
from .axis import Axis, Serial
from .lane_count import lane_count
from .scattered import apart
from .segments import segments
from .statements import Statements, folded_once
from .values import Values

_NOTHING = Known({})  # of variables


def vectorise(body: Block, target: Target, names: Names, kinds: int = LONG) -> Block:
    """The body without `vector` loops; on a target without vectors they are plain loops.  `kinds`: of the operators in what is stored and named."""
    body = apart(body, names) if target.vector_bytes and kinds & LONG else body
    arrays = Arrays(touched_by_scalars(body))
    return arrays.of_vectors(_Walk(target, arrays, names).block(body))


class _Walk:
    """A walk over a function, under the assumption that its `arrays` hold; what stands behind an array of which that is not so is walked again."""

    def __init__(self, target: Target, arrays: Arrays, names: Names) -> None:
        self.target, self.names = target, names
        self.arrays = arrays
        self.around = ""  # the variable of the loop around
        self.rows = 0  # its trips, where it is unrolled
        self.registers = set[str]()  # arrays that are to be in registers

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        # by array: how much of the block, and of the result, stands before it, and what was found by then
        begun: dict[str, tuple[int, int, dict[str, int]]] = {}
        around, k = (self.around, self.rows), 0
        while k < len(block):
            s = block[k]
            if isinstance(s, Array) and s.space == "register":
                self.registers.add(s.name)
            if isinstance(s, Array) and self.arrays.declare(s):
                begun[s.name] = k, len(result), dict(self.arrays.lanes)
            try:
                result += self.statement(s)
                k += 1
            except Memory as found:
                if found.name not in begun:
                    raise
                k, length, lanes = begun[found.name]
                del result[length:]
                self.arrays.leave(found.name, lanes)
                self.around, self.rows = around
        return tuple(result)

    def statement(self, s: Stmt) -> Block:
        if isinstance(s, For) and s.pragma == "vector":
            return self.loop(s)
        if isinstance(s, For) and (found := segments(s, self.arrays, self.names)) is not None:
            return found
        self.arrays.scalar_access(s)
        if isinstance(s, For):
            outside, self.around, self.rows = (self.around, self.rows), s.var, s.stop.attr if s.pragma == "unroll" and s.stop.is_const else 0
            s = with_body(s, self.block(s.body))
            self.around, self.rows = outside
            return (s,)
        return (with_blocks(s, self.block),)

    def loop(self, s: For) -> Block:
        divided = kinds_in(s.body) & DIVIDES
        s = _put_together(s) if divided else s
        known = dict(self.arrays.lanes)
        try:
            lanes, count = lane_count(s, self.target)
            if self.target.gpu:
                return self.moved(s, lanes, count)
            if count == 1:
                return self.body(s, lanes, s.start)
            inside = self.apart(s, lanes) if divided else None
            body = self.body(s, lanes, s.start + var(s.var) * lanes) if inside is None else self.body(inside, lanes, ZERO)
            return folded_once(body, s.var, count) or (For(s.var, ZERO, const(count), body, pragma="unroll"),)
        except Serial:
            self.arrays.lanes = known
            return (replace(s, body=self.block(s.body), pragma=""),)

    def moved(self, s: For, lanes: int, count: int) -> Block:
        """On a GPU: one vector that a thread moves as it is, from memory or to it.  Raises Serial where something is computed, and where a register would have to have an address."""
        body = self.body(s, lanes, s.start)
        for t in statements_of(body):
            stored = isinstance(t, StoreTo) and (t.count is not None or (t.buffer in self.registers and t.buffer not in self.arrays.lanes))
            wide = [n for e in t.expressions() for n in postorder(e) if n.dtype.lanes > 1]
            if count > 1 or stored or any(not is_moved(n) or (n.op == "vload" and n.attr in self.registers) for n in wide):
                raise Serial
        return body

    def apart(self, s: For, lanes: int) -> For | None:
        """One of several vectors as a loop of its own, where a quotient or a remainder is the same in all its lanes then: (16 · v + lane) // 16 is v."""
        if not any(_divisions(e, s.var) for t in statements_of(s.body) for e in t.expressions()):
            return None
        lane = self.names.fresh(s.var)
        body = map_expressions(s.body, lambda e: substitute(e, {var(s.var): s.start + var(s.var) * lanes + var(lane)}))
        one = _put_together(For(lane, ZERO, const(lanes), body, pragma="vector"))
        left, before = (
            sum(_divisions(e, name) for t in statements_of(b) for e in t.expressions()) for b, name in ((one.body, lane), (s.body, s.var))
        )
        return one if left < before else None

    def body(self, s: For, lanes: int, base: Expr) -> Block:
        axis = Axis(s, lanes, base)
        return Statements(axis, Values(axis, self.arrays, self.around, self.rows)).block(s.body)


def _divisions(e: Expr, name: str) -> int:
    return sum([n.op in ("floordiv", "mod") and name in n.names for n in postorder(e)]) if e.kinds & DIVIDES and name in e.names else 0


def _put_together(s: For) -> For:
    """The loop with x // 4 · 4 + x % 4, as two collapsed loops over neighbours give, written as x; and (16 · m + x) // 16, where x is less, as m."""
    known = _NOTHING.with_ranges({s.var: Range(s.start, s.stop - 1)}) if s.start.is_const and s.stop.is_const else _NOTHING

    body = map_expressions(s.body, lambda e: simplify(e, known) if _divisions(e, s.var) else e)
    return s if body == s.body else replace(s, body=body)


__all__ = ["vectorise"]
