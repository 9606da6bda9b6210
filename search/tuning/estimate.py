"""What a scheduled kernel may cost, without running it: hard limits, and a number to rank candidates by.

The number is the time of the busiest thread in vector instructions: each operation of each statement as often as its loops run, a vector loop once for each register
that it fills.  A load (or an operation) that does not move with a loop that is unrolled or a vector is done once for all of its iterations, which is what makes a large
register tile cheap; `tail=pad` loops run to their padded end, which is what makes a large tile dear where the size does not fill it.  Threads share a parallel loop in
whole iterations.  Memory is left out: the steps that a search changes move the same bytes, and what stays in which cache is a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.dtypes import INDEX
from ...ir.evaluate import evaluate
from ...ir.expr import Expr
from ...ir.instructions import SIDE
from ...ir.kernel import Alloc, Block, Check, If, Kernel, Let, Loop, Region, Store, While, statements
from ...ir.record import record
from ...ir.target import Target
from ...ir.walks import postorder
from ...passes.costs import operation

_SHARED = frozenset({"parallel", "workshare", "queue"})
_INSIDE = frozenset({"unroll", "vector"})
_STORE = 2.0  # a store to memory, in additions
_UNKNOWN = 8  # iterations of a loop whose bounds only data knows
_OVERHEAD = 2.0  # of an iteration that is not unrolled: a counter, a test, an address


@record
class Footprint:
    """Bytes of constant extent that a kernel keeps: the largest buffer in registers, the largest on a stack or of a thread."""

    registers: int
    near: int


def footprint(kernel: Kernel) -> Footprint:
    sizes = {"register": 0, "near": 0}
    for s in statements(kernel.body):
        if isinstance(s, Alloc) and s.buffer.space != "global" and all(e.is_const for e in s.buffer.shape):
            count = 1
            for e in s.buffer.shape:
                count *= int(e.attr)  # type: ignore[arg-type]  # a constant extent is an integer
            place = "register" if s.buffer.space == "register" else "near"
            sizes[place] = max(sizes[place], count * s.buffer.dtype.bytes)
    return Footprint(sizes["register"], sizes["near"])


def largest(found: Sequence[Footprint]) -> Footprint:
    return Footprint(max(f.registers for f in found), max(f.near for f in found))


def within_limits(mine: Footprint, known: Footprint, target: Target) -> str:
    """Why a candidate cannot be good, or "": what it keeps in registers exceeds them, what it keeps near the second cache, and what is `known` of the default does not so already."""
    file = target.vector_registers * max(target.vector_bytes, 8)
    if mine.registers > max(file, known.registers):
        return f"{mine.registers} bytes in registers, of which there are {file}"
    if mine.near > max(target.l2, known.near):
        return f"{mine.near} bytes for each thread, beside a second cache of {target.l2}"
    return ""


def estimate(kernel: Kernel, sizes: Mapping[str, int], target: Target) -> float:
    """See the head of this file; in additions of vector code."""
    registers = frozenset(s.buffer.name for s in statements(kernel.body) if isinstance(s, Alloc) and s.buffer.space == "register")
    return _Walk(dict(sizes), target, registers).block(kernel.body, ())


@dataclass
class _Walk:
    values: dict[str, int]  # sizes, and the axes around at the middle of their range
    target: Target
    registers: frozenset[str]  # buffers that cost nothing to store into

    def value(self, e: Expr) -> int | None:
        try:
            return evaluate(e, self.values)
        except (KeyError, ZeroDivisionError):  # data decides it
            return None

    def block(self, block: Block, inner: tuple[tuple[str, float], ...]) -> float:
        """`inner`: the unrolled and vector loops just around, and what one of their iterations counts for."""
        return sum(self.statement(s, inner) for s in block)

    def statement(self, s: object, inner: tuple[tuple[str, float], ...]) -> float:
        match s:
            case Loop():
                return self.loop(s, inner)
            case Store():
                stored = _STORE * _times(s.index, inner) if s.buffer not in self.registers else 0.0
                return self.computed(s.value, inner) + stored + (_times((s.value,), inner) if s.combiner else 0.0)
            case Let():
                return self.computed(s.value, inner)
            case If():
                holds = self.value(s.condition)
                if holds is None:
                    return max(self.block(s.body, inner), self.block(s.orelse, inner))
                return self.block(s.body if holds else s.orelse, inner)
            case While():
                return _UNKNOWN * self.block(s.body, inner)
            case Region():
                return self.block(s.body, inner)
            case Check():
                return 1.0
            case _:
                return 0.0

    def loop(self, s: Loop, inner: tuple[tuple[str, float], ...]) -> float:
        start, stop, step = self.value(s.start), self.value(s.stop), self.value(s.step)
        trips = _UNKNOWN if start is None or stop is None or not step else max(0, -((start - stop) // step))
        self.values[s.axis] = (start or 0) + trips // 2 * (step or 1)
        if s.kind in _INSIDE:
            lanes = max(1, self.target.vector_bytes // 4)
            counted = -(-trips // lanes) if s.kind == "vector" else trips
            # statements of a block of unrolled loops: each part counts for the loops that it moves with
            return self.block(s.body, (*inner, (s.axis, float(counted))))
        if s.kind == "tile":  # a tile of results takes as long as its words, each of which the innermost loop counts
            return trips / (SIDE if isinstance(s.body[0], Loop) else 1) * self.block(s.body, inner)
        outside = 1.0
        for _, count in inner:
            outside *= count
        if s.kind in _SHARED and self.target.threads:
            trips = -(-trips // max(1, self.target.cores))
        return outside * trips * (self.block(s.body, ()) + _OVERHEAD)

    def computed(self, root: Expr, inner: tuple[tuple[str, float], ...]) -> float:
        return sum(operation(n.op) * _times((n,), inner) for n in postorder(root) if n.args and n.dtype is not INDEX)


def _times(exprs: tuple[Expr, ...], inner: tuple[tuple[str, float], ...]) -> float:
    """How often something is done in the unrolled loops around: once for all iterations of those that it does not move with."""
    names: frozenset[str] = frozenset().union(*(e.names for e in exprs))
    result = 1.0
    for axis, count in inner:
        result *= count if axis in names else 1.0
    return result
