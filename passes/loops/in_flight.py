"""Steps of time over arrays that are too large for the second cache: several steps at once, each a row behind the last.

                                                  for b in 0 .. ceil(T / 8):
                                                    for r in 1 .. M - 1 + …:
    for t in 0 .. T:                                  for u in 0 .. min(8, T - 8·b):
      for i in 1 .. M - 1:                →             if 1 <= r - 2·u < M - 1:
        for j: B[i, j] = f(A, rows i - 1 to i + 1)        for j: B[r - 2·u, j] = f(A, …)
      for i in 1 .. M - 1:                              if 1 <= r - 1 - 2·u < M - 1:
        for j: A[i, j] = f(B, rows i - 1 to i + 1)        for j: A[r - 1 - 2·u, j] = f(B, …)

What each step reads is what the one before has just stored, so a row comes from far and goes there once for all steps in flight, in place of once for each loop of each step.  No operation changes, and none that
needs another comes before it: that is asked of the accesses (`dependence.py`).  How many steps are in flight is decided at run time, by how many bytes a row has, and that there is anything to gain at all: what
stays in the second cache goes step by step.

Threads share pieces of rows.  Each does all steps in flight on rows that grow fewer from loop to loop, as those at its ends need what others make; then what is between two pieces is done, rows that grow more from
loop to loop:

    for b in 0 .. ceil(T / 8):
      for between in 0 .. 2:
        for piece in 0 .. pieces + between parallel:
          for r in 0 .. …:
            for u in 0 .. min(8, T - 8·b):
              if 4·u <= r, or r < 4·u in between:
                for j: B[1 + piece·length + r - 2·u, j] = f(A, …)
              if 4·u + 2 <= r, or r < 4·u + 2 in between:
                for j: A[1 + piece·length + r - 2·u - 1, j] = f(B, …)

So threads wait twice for each few steps, for one another's rows alone, and it takes that what is read is near on either side.  Values are the same however many threads and pieces there are.
Source: loop skewing; Wolfe, More iteration space tiling (1989); Wonnacott, Using time skewing to eliminate idle time due to memory bandwidth and network limitations (2000).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from operator import add
from typing import NamedTuple

from ...ir.expr import ONE, ZERO, Expr, both, ceildiv, const, floordiv, maximum, minimum, product, var
from ...ir.kernel import Alloc, Block, If, Let, Loop, Nest, Stmt, Store, map_block, reads, statements, substitute_block
from ...ir.record import record, replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import simplify
from ...ir.target import Target
from .dependence import Dependences
from .reordered import Turn, behind

MOST = 8  # steps in flight: more bring nothing (jacobi_2d of 1300² doubles by hand: 0.70 of the time for one, 0.62, 0.60, 0.59 and 0.56 for 2, 4, 8 and 20)
LOOPS = 6  # of a step
BEHIND = 2  # rows, at most, that a loop of a step is behind the one before it
# of the second cache, what rows in flight may take, with two more that these read (heat_3d of 120³ by hand: 0.54, 0.52, 0.58 and 0.72 for 1, 2, 4 and 8)
NEAR = (3, 4)
READ = 2
PIECES = 8  # of the rows that threads share, or a multiple of it as long as pieces are
LONGER = 4  # times as long as what is between two of them


def in_flight(nest: Nest, pairs: Dependences, target: Target) -> Nest:
    """The nest with such steps; its loops are marked already."""
    for time in [s for s in statements(nest.body) if isinstance(s, Loop)]:
        phases = _phases(time)
        if phases is None:
            continue
        ways = (1, -1) if target.threads else (1,)
        far = behind(nest, time, [p.loop for p in phases], pairs, BEHIND, partial(_early, phases, ways))
        if far:
            names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
            block = _Flight(nest, time, phases, far, names, target).block()
            nest = replace(nest, body=map_block(nest.body, lambda s, time=time, block=block: block if s is time else None))
    return nest


class _Phase(NamedTuple):
    """A loop of a step: over rows, or at one row."""

    loop: Loop
    row: Expr | None  # where it stays, if it is over none

    def bounds(self) -> tuple[Expr, Expr]:
        return (self.loop.start, self.loop.stop) if self.row is None else (self.row, self.row + 1)

    def at(self, row: Expr, names: Names) -> Block:
        """What it does at a row, by this name also where it stays at one: so it is seen to be the piece's own."""
        block = unique_locals((self.loop,) if self.row is not None else self.loop.body, names.fresh)
        if self.row is None:
            return substitute_block(block, {var(self.loop.axis): row})
        own = {s.buffer.name for s in statements(block) if isinstance(s, Alloc)}
        named = partial(_at_row, row=row, own=own)
        return map_block(block, named)


def _at_row(s: Stmt, row: Expr, own: set[str]) -> Block | None:
    return (replace(s, index=(row, *s.index[1:])),) if isinstance(s, Store) and s.buffer not in own else None


def _phases(time: Loop) -> list[_Phase] | None:
    """The loops that a step consists of, if it does of nothing else, and they are independent, over rows."""
    if time.kind != "serial" or time.step is not ONE or not 0 < len(time.body) <= LOOPS:
        return None
    found: list[_Phase] = []
    for s in time.body:
        if not isinstance(s, Loop) or s.kind != "parallel" or s.step is not ONE or s.start.buffers or s.stop.buffers:
            return None
        inside = statements(s.body)
        own = {t.buffer.name for t in inside if isinstance(t, Alloc)}
        stores = [t for t in inside if isinstance(t, Store) and t.buffer not in own]
        if time.axis in s.start.names | s.stop.names or not all(isinstance(t, (Alloc, Let, Loop, Store)) for t in inside):
            return None
        if any(time.axis in e.names for t in stores for e in t.index):  # each step stores other elements: there is nothing to hand on
            return None
        rows = {t.index[0] if t.index else None for t in stores}
        row = rows.pop() if len(rows) == 1 else None
        if row is var(s.axis) and any(isinstance(t, Loop) for t in s.body) and all(len(t.index) > 1 for t in stores):
            found.append(_Phase(s, None))
        elif row is not None and row.is_const:
            found.append(_Phase(s, row))
        else:
            return None
    return found if any(p.row is None for p in found) else None


def _early(phases: list[_Phase], ways: tuple[int, ...], a: Turn, b: Turn, far: int) -> Iterator[Expr | None]:
    """When a row of a later loop, or step, would come before that of `a`, if rows went upwards, or downwards."""

    def front(x: Turn, way: int) -> Expr:
        row = phases[x.part].row
        return (x.start + x.inner if row is None else row) * way + x.part * far

    step = len(phases) * far
    for way in ways:
        yield both(a.outer.lt(b.outer), (front(b, way) + b.outer * step).lt(front(a, way) + a.outer * step))
        if a.part < b.part:
            yield both(a.outer.eq(b.outer), front(b, way).lt(front(a, way)))


@record
class _Flight:
    nest: Nest
    time: Loop
    phases: list[_Phase]
    behind: int
    names: Names
    target: Target

    def block(self) -> Block:
        """The steps in flight, or one after the other where the arrays stay in the second cache."""
        time = self.time
        block, row, step, most, count = map(self._name, ("block", "row", "step", "most", "count"))
        room, far_away = self._room()
        if self.target.threads:
            room = simplify(minimum(room, floordiv(self._extent(), const(PIECES * 2 * self._far))))
        trips = time.stop - time.start
        body = (self._shared if self.target.threads else self._alone)(row, step, most, count)
        body = substitute_block(body, {var(time.axis): time.start + (block * most + step)})
        body = (Let(count.attr, minimum(most, trips - block * most)), *body)
        body = (Let(most.attr, minimum(const(MOST), room)), self._serial(block, ZERO, ceildiv(trips, most), body))
        worth = both(far_away, ONE.le(room))
        assert worth is not None
        return (If(worth, body, (time,)),)

    def _alone(self, row: Expr, step: Expr, most: Expr, count: Expr) -> Block:
        """All rows in turn."""
        begins, ends = zip(*(p.bounds() for p in self.phases), strict=True)
        first, last = (simplify(reduce(f, (x + k * self.behind for k, x in enumerate(xs)))) for f, xs in ((minimum, begins), (maximum, ends)))
        inside = tuple(self._guarded(p, row - (step * self._far + k * self.behind)) for k, p in enumerate(self.phases))
        return (self._serial(row, first, last + (count - 1) * self._far, (self._serial(step, ZERO, count, inside),)),)

    def _shared(self, row: Expr, step: Expr, most: Expr, count: Expr) -> Block:
        """Pieces of rows, first what of each needs no other, then what is between two of them."""
        between, piece, length, pieces = map(self._name, ("between", "piece", "length", "pieces"))
        begin, _ = self._ends()
        low = between * -length
        inside: list[Stmt] = []
        for k, p in enumerate(self.phases):
            late = step * self._far + k * self.behind
            there = row - 2 * late
            inside.append(self._guarded(p, begin + piece * length + (row - late), both(low.le(there), there.lt(low + length))))
        stop = (1 - between) * length + between * (2 * (count * self._far - self.behind))
        body = (self._serial(row, ZERO, stop, (self._serial(step, ZERO, count, tuple(inside)),)),)
        body = (Loop(piece.attr, ZERO, pieces + between, body, "parallel", span=self.time.span),)
        many = maximum(ONE, floordiv(self._extent(), most * (PIECES * LONGER * 2 * self._far)))
        return (
            Let(length.attr, ceildiv(self._extent(), many * PIECES)),
            Let(pieces.attr, ceildiv(self._extent(), length)),
            self._serial(between, ZERO, const(2), body),
        )

    def _guarded(self, phase: _Phase, row: Expr, when: Expr | None = None) -> If:
        start, stop = phase.bounds()
        inside = both(when, start.le(row), row.lt(stop)) if phase.row is None else both(when, row.eq(phase.row))
        assert inside is not None
        return If(inside, phase.at(row, self.names))

    def _name(self, what: str) -> Expr:
        return var(self.names.fresh(f"{self.time.axis}.{what}"))

    def _serial(self, axis: Expr, start: Expr, stop: Expr, body: Block) -> Loop:
        return Loop(axis.attr, start, stop, body, "serial", span=self.time.span)

    @property
    def _far(self) -> int:
        """Rows that a step is behind the one before."""
        return len(self.phases) * self.behind

    def _ends(self) -> tuple[Expr, Expr]:
        """The first row of any loop, and the end of the last."""
        begins, ends = zip(*(p.bounds() for p in self.phases), strict=True)
        return simplify(reduce(minimum, begins)), simplify(reduce(maximum, ends))

    def _extent(self) -> Expr:
        begin, end = self._ends()
        return simplify(end - begin)

    def _room(self) -> tuple[Expr, Expr]:
        """How many may be in flight, and whether the arrays are larger than the cache, or than those of two threads."""
        inside = statements((self.time,))
        touched = {s.buffer for s in inside if isinstance(s, Store)} | {n.attr for n in reads((self.time,))}
        touched -= {s.buffer.name for s in inside if isinstance(s, Alloc)}
        local = [s.buffer for s in statements(self.nest.body) if isinstance(s, Alloc)]
        every = (*self.nest.operands, *self.nest.results, *local)
        arrays = {b.name: b for b in every if b.name in touched and len(b.shape) > 1}.values()
        row, whole = (reduce(add, (product(b.shape[k:]) * b.dtype.bytes for b in arrays)) for k in (1, 0))
        rows = floordiv(const(self.target.l2 * NEAR[0] // NEAR[1]), maximum(ONE, row)) - READ
        return simplify(floordiv(rows, const(len(self.phases) * self.behind))), const(self.target.l2 * (2 if self.target.threads else 1)).lt(
            simplify(whole)
        )


__all__ = ["in_flight"]
