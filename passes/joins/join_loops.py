"""Reductions that stand one after the other, over the same range, and read the same memory run in one loop.

    s = 0                          s = 0
    for p in 0 .. N reduce:        m = -inf
      s add= X[i, p]               for p in 0 .. N reduce:
    m = -inf                  →      s add= X[i, p]
    for q in 0 .. N reduce:          m max= X[i, p]
      m max= X[i, q]

So what they share is moved once: a row that the caches do not hold is read from memory once, however many results are made of it.

Two loops (or perfect nests of them) become one where both only accumulate into scalars, each over the same extents; where some load that moves with them is in both; where what stands between them can run before the
first or after the second; and where the accumulators leave registers for what is loaded.  The order of each sum stays.
Not where the operands of a reduction are used again along two axes (a matrix product): that one keeps its accumulators to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from ...ir.expr import ONE, Expr, var
from ...ir.kernel import Alloc, Block, Kernel, Let, Loop, Stmt, Store, nested, perfect, reads, statements, substitute_block, with_blocks, written
from ...ir.record import replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.statement import same
from ...ir.walks import substitute
from ..schedule.cost import LOADED


class PerfectNest(NamedTuple):
    """Loops of which each holds the next and nothing else, and what the last of them holds."""

    loops: tuple[Loop, ...]
    body: Block

    @property
    def extents(self) -> list[tuple[Expr, Expr]]:
        return [(x.start, x.stop) for x in self.loops]


class Sum(PerfectNest):
    """One of reduction loops around accumulations into scalars."""

    def loads(self) -> dict[Expr, None]:
        """What is read at positions that move with the loops."""
        axes = {x.axis for x in self.loops}
        return {n: None for n in reads(self.body) if n.names & axes}

    def stores(self, buffer: str) -> list[Store]:
        return [s for s in self.body if isinstance(s, Store) and s.buffer == buffer]

    def registers(self) -> int:
        """Of accumulators, in vectors of which each lane has what is loaded for it."""
        least = min((n.dtype.bytes for n in self.loads()), default=4)
        return sum(max(1, s.value.dtype.bytes // max(4, least)) for s in self.body if isinstance(s, Store))


def reduction(s: Stmt) -> Sum | None:
    loops, body = perfect((s,), lambda x: x.kind == "reduce" and x.step is ONE)
    changed = written(body)
    plain = all(isinstance(t, Let) or (isinstance(t, Store) and t.combiner and not t.index) for t in body)
    reads_back = any(e.buffers & changed for t in body for e in t.expressions())
    return Sum(tuple(loops), body) if loops and plain and not reads_back else None


def with_joined_loops(kernel: Kernel, names: Iterable[str], registers: int) -> Kernel:
    """The kernel with its loops joined; `names` are taken elsewhere."""
    body = join_loops(kernel.body, Names((*names, *defined(kernel.body))), registers)
    if body is kernel.body:
        return kernel
    note = "reductions that read the same memory share a loop: it is read once"
    return replace(kernel, body=body, notes=tuple(dict.fromkeys((*kernel.notes, note))))


def join_loops(block: Block, names: Names, registers: int, kept: frozenset[str] = frozenset()) -> Block:
    """The block, and those inside it, with such loops joined; `kept` are the parallel axes around it."""
    result: list[Stmt] = []
    for s in block:
        around = kept | {s.axis} if isinstance(s, Loop) and s.kind == "parallel" else kept
        result.append(with_blocks(s, lambda b, around=around: join_loops(b, names, registers, around)))
    found = _pair(result, names, registers, kept)
    while found is not None:
        result = found
        found = _pair(result, names, registers, kept)
    return block if same(result, block) else tuple(result)


def sums(block: Block) -> int:
    """How many loops, or nests of them, only accumulate: how often the block goes through what it reduces."""
    found = 0
    stack = [*block]
    while stack:
        s = stack.pop()
        if reduction(s) is not None:
            found += 1
        else:
            stack += [t for inside in s.blocks() for t in inside]
    return found


def _pair(block: list[Stmt], names: Names, registers: int, kept: frozenset[str]) -> list[Stmt] | None:
    """The block with the first two loops joined that can be; None where none can."""
    nests = [(k, r) for k, s in enumerate(block) if (r := reduction(s)) is not None and not is_reused(r, kept)]
    for n, (k, second) in enumerate(nests):
        for j, first in reversed(nests[:n]):
            one = _one(first, second, names, registers)
            if one is None:
                continue
            early: list[Stmt] = []
            late: list[Stmt] = []
            for s in block[j + 1 : k]:
                (late if any(_conflict(s, t) for t in (block[j], *late)) else early).append(s)
            if not any(_conflict(block[k], t) for t in (block[j], *late)):
                return [*block[:j], *early, one, *late, *block[k + 1 :]]
    return None


def is_reused(r: Sum, kept: Set[str]) -> bool:
    """Whether each of two operands misses an axis around them that the other has."""
    has = [n.names & kept for n in r.loads()]
    return any(a - b and b - a for a in has for b in has)


def _one(a: Sum, b: Sum, names: Names, registers: int) -> Stmt | None:
    if a.extents != b.extents or a.registers() + b.registers() > registers - LOADED:
        return None
    mapping: dict[Expr, Expr] = {var(y.axis): var(x.axis) for x, y in zip(a.loops, b.loops, strict=True)}
    if not any(substitute(n, mapping) in a.loads() for n in b.loads()):
        return None
    body = [*a.body]
    known = {s.value: var(s.name, s.value.dtype) for s in a.body if isinstance(s, Let)}
    for s in unique_locals(b.body, names.fresh):
        (s,) = substitute_block((s,), mapping)
        if isinstance(s, Let) and s.value in known:
            mapping[var(s.name, s.value.dtype)] = known[s.value]
        else:
            body.append(s)
    return nested(a.loops, tuple(body))[0]


def _conflict(a: Stmt, b: Stmt) -> bool:
    """Whether one of them makes what the other touches."""
    makes_a, makes_b = _makes(a), _makes(b)
    return bool(makes_a & (makes_b | _uses(b)) or makes_b & _uses(a))


def _makes(s: Stmt) -> set[str]:
    own = {s.name} if isinstance(s, Let) else {s.buffer.name} if isinstance(s, Alloc) else set[str]()
    return own | written((s,))


def _uses(s: Stmt) -> set[str]:
    return {name for t in statements((s,)) for e in t.expressions() for name in (*e.names, *e.buffers)}
