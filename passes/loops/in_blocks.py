"""A loop in order in which each iteration sums over all that were before it, in blocks of iterations: what they sum over the iterations before the block, they sum together.

    for i in 0 .. N:                              for b in 0 .. N step 8:
      for k in 0 .. K:                              for i in b .. min(b + 8, N):
        s = B[i, k]                                   for k in 0 .. K:
        for j in 0 .. i:                                s = B[i, k]
          s -= A[i, j] * X[j, k]                        for j in 0 .. b: s -= A[i, j] * X[j, k]
        X[i, k] = s / A[i, i]             →             partial[i - b, k] = s
                                                    for i in b .. min(b + 8, N):
                                                      for k in 0 .. K:
                                                        s = partial[i - b, k]
                                                        for j in b .. i: s -= A[i, j] * X[j, k]
                                                        X[i, k] = s / A[i, i]

Row by row, all that is there already comes from far for each row; the first loop over i is independent, so it is register tiles.  It may stand there if nothing that an iteration
reads ahead would have been stored before in the block, by another iteration or by itself; that is asked of the loops as they would stand.  A short loop stays as it is, and so does one whose iterations sum one
element each: rows read side by side took as long as one after the other, or longer (2000 of doubles 0.88 ms for 0.58).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ONE, Expr, both, const, load, maximum, minimum, var
from ...ir.kernel import Alloc, Block, Buffer, If, Let, Loop, Nest, Stmt, Store, map_block, statements
from ...ir.polynomial import is_constant, plus, poly
from ...ir.record import record, replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import simplify
from ...ir.walks import leaves
from .dependence import Access, Dependences
from .loop_events import Events
from .loop_records import Event, Read
from .steady import in_iteration

BLOCK = 8  # rows of two register tiles
SHORT = 32  # iterations of which blocks bring nothing: 24 rows of 24 take 1.25 of the time, 48 of 48 0.7


def in_blocks(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with such loops in blocks."""
    for loop in [s for s in statements(nest.body) if isinstance(s, Loop)]:
        if loop.kind != "serial" or not loop.step.is_const or abs(loop.step.attr) != 1:
            continue
        blocks = _Blocks(nest, loop)
        if blocks.sums and blocks.as_before(pairs):
            nest = blocks.nest()
    return nest


@record
class _Sum:
    """`total = first; for j in …: total add= …`, in these loops inside the one that is cut."""

    path: tuple[Loop, ...]
    lets: tuple[Let, ...]
    first: Store
    loop: Loop


class _Blocks:
    """A loop cut in blocks: `ahead`, what is summed for all of a block, and `rest`."""

    def __init__(self, nest: Nest, loop: Loop) -> None:
        self.whole, self.loop = nest, loop
        self.up = loop.step.attr == 1
        self.i = var(loop.axis)
        self.names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
        self.begin = var(self.names.fresh("block"))
        # what an iteration has for itself
        self.own = {s.buffer for s in statements(loop.body) if isinstance(s, Store) and not s.index} | {
            s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)
        }
        self.sums = list(self._sums(loop.body, (), ()))
        self.partial = [self._partial(s) for s in self.sums]
        self.ahead = unique_locals(tuple(self._ahead(s, b) for s, b in zip(self.sums, self.partial, strict=True)), self.names.fresh)
        self.rest = self._block(map_block(loop.body, self._rest))

    def nest(self) -> Nest:
        """The nest in which the loop is cut, if it is no short one."""
        cut = replace(self.loop, axis=self.begin.attr, step=const(self.loop.step.attr * BLOCK), body=(*self.ahead, self.rest))
        block: Block = (*map(Alloc, self.partial), cut)
        trips = simplify((self.loop.stop - self.loop.start) * self.loop.step)
        if not leaves(trips, "var") and not leaves(trips, "load"):
            block = (If(trips.le(SHORT), (self.loop,), unique_locals(block, self.names.fresh)),)
        return replace(self.whole, body=map_block(self.whole.body, lambda s: block if s is self.loop else None))

    def as_before(self, pairs: Dependences) -> bool:
        """Whether nothing that is read ahead would have been stored before, in the block."""
        cut = replace(self.loop, axis=self.begin.attr, step=const(self.loop.step.attr * BLOCK), body=(*self.ahead, self.rest))
        body = map_block(self.whole.body, lambda s: (*map(Alloc, self.partial), cut) if s is self.loop else None)
        found = Events(replace(self.whole, body=body), pairs.known)
        sums = {id(x): s for x, s in zip(self.ahead, self.sums, strict=True)}
        behind = {id(s): k for k, s in enumerate(statements(self.rest.body))}

        def level(a: Access) -> int | None:
            """That of the loops inside the block."""
            return next((k for k, t in enumerate(a.loops, 1) if isinstance(x := found.loops[t.var], Loop) and x.axis == self.begin.attr), None)

        stores = [(e, k) for e in found.events if (k := level(e)) is not None and found.loops[e.loops[k].var] is self.rest]
        for r in (r for places in found.loads.values() for r in places):
            k = level(r)
            s = None if k is None else sums.get(id(found.loops[r.loops[k].var]))
            if s is None:
                continue
            for e, at in stores:
                if e.buffer == r.buffer:
                    place = min((behind.get(i, -1) for i in e.stores), default=-1)
                    if any(
                        pairs.touch(in_iteration(e, at, found), in_iteration(replace(r, guard=both(r.guard, first)), at, found))
                        for first in self._before(s, e, r, at, place, found)
                    ):
                        return False
        return True

    def _before(self, s: _Sum, e: Event, r: Read, level: int, place: int, found: Events) -> Iterator[Expr | None]:
        """When the store of one iteration came before what another reads ahead: in an earlier one, or in the same one but earlier along the loops around the sum, or before it there."""

        def positions(a: Access) -> list[tuple[Expr, Loop]]:
            trips = ((t.var, found.loops[t.var]) for t in a.loops[level:])
            return [(found.starts[v][0] + v * found.starts[v][1], x) for v, x in trips if isinstance(x, Loop)]

        stored, read = positions(e), positions(r)
        same: Expr | None = None
        for k, around in enumerate((self.loop, *s.path)):
            if k >= min(len(stored), len(read)) or stored[k][1].axis != around.axis:
                break
            (mine, _), (its, _) = stored[k], read[k]
            yield both(same, mine.lt(its) if self.up or k else its.lt(mine))
            same = both(same, mine.eq(its))
        if place < next(k for k, x in enumerate(statements(self.loop.body)) if x is s.loop):
            yield same

    # ---- what is summed

    def _sums(self, body: Block, path: tuple[Loop, ...], lets: tuple[Let, ...]) -> Iterator[_Sum]:
        for k, s in enumerate(body):
            if isinstance(s, Let):
                lets = (*lets, s)
            elif isinstance(s, Loop):
                found = self._sum(body[:k], s, path, lets) if path else None
                if found is not None:
                    yield found
                elif self._has_places(s):
                    yield from self._sums(s.body, (*path, s), lets)

    def _has_places(self, x: Loop) -> bool:
        """Its iterations have places in an array, the same in each iteration of the loop that is cut: they count from 0, or a number, up to a size."""
        return x.step is ONE and x.start.is_const and x.start.attr >= 0 and not leaves(x.stop, "var") and not leaves(x.stop, "load")

    def _sum(self, before: Block, loop: Loop, path: tuple[Loop, ...], lets: tuple[Let, ...]) -> _Sum | None:
        """What this loop adds up, if it is longer by one in each iteration."""
        first = next((s for s in reversed(before) if not isinstance(s, Let)), None)
        added = [s for s in loop.body if not isinstance(s, Let)]
        if loop.step is not ONE or len(added) != 1 or not isinstance(added[0], Store) or not isinstance(first, Store):
            return None
        if added[0].buffer != first.buffer or added[0].index or first.index or not added[0].combiner or first.combiner:
            return None
        moving, fixed = (loop.stop, loop.start) if self.up else (loop.start, loop.stop)
        if not is_constant(plus(poly(moving), poly(self.i), -1)) or self.loop.axis in fixed.names:
            return None
        read = [e.buffers for s in (*lets, first, *path, *loop.body, loop) for e in s.expressions()]
        shared = any(self._is_row(n, path[-1]) for s in loop.body for e in s.expressions() for n in leaves(e, "load"))
        return _Sum(path, lets, first, loop) if shared and all(map(self.own.isdisjoint, read)) else None

    def _is_row(self, n: Expr, x: Loop) -> bool:
        """A vector along the innermost loop that all iterations read: a register tile loads it once for several of them."""
        return bool(n.args) and self.loop.axis not in n.names and poly(n.args[-1]).get((var(x.axis),)) == 1

    # ---- the loops

    def _partial(self, s: _Sum) -> Buffer:
        return Buffer(self.names.fresh("partial"), s.first.value.dtype, (const(BLOCK), *(x.stop for x in s.path)), "private")

    def _place(self, s: _Sum) -> tuple[Expr, ...]:
        return self.i - self.begin if self.up else self.begin - self.i, *(var(x.axis) for x in s.path)

    def _bound(self, s: _Sum) -> Expr:
        """Where the sum ends, or begins, in the first iteration of the block, but not before where it always does."""
        moving, fixed = (s.loop.stop, s.loop.start) if self.up else (s.loop.start, s.loop.stop)
        bound = simplify(moving - self.i + self.begin)
        beyond = plus(poly(moving - self.i + self.loop.start), poly(fixed), -1)  # in the first block
        inside = is_constant(beyond) and beyond.get((), 0) * self.loop.step.attr >= 0
        return bound if inside else maximum(bound, fixed) if self.up else minimum(bound, fixed)

    def _block(self, body: Block, independent: bool = False) -> Loop:
        end = minimum(self.begin + BLOCK, self.loop.stop) if self.up else maximum(self.begin - BLOCK, self.loop.stop)
        if independent and not self.up:
            return replace(self.loop, start=end + 1, stop=self.begin + 1, step=ONE, body=body)
        return replace(self.loop, start=self.begin, stop=end, body=body)

    def _ahead(self, s: _Sum, partial: Buffer) -> Loop:
        total = Buffer(s.first.buffer, partial.dtype, (), "register")
        known = replace(s.loop, stop=self._bound(s)) if self.up else replace(s.loop, start=self._bound(s))
        body: Block = (*s.lets, Alloc(total), s.first, known, Store(partial.name, self._place(s), load(total.name, total.dtype), "", s.first.span))
        for x in reversed(s.path):
            body = (replace(x, body=body),)
        return self._block(body, independent=True)

    def _rest(self, s: Stmt) -> Block | None:
        for sum_, partial in zip(self.sums, self.partial, strict=True):
            if s is sum_.first:
                return (replace(sum_.first, value=load(partial.name, partial.dtype, *self._place(sum_))),)
            if s is sum_.loop:
                return (replace(sum_.loop, start=self._bound(sum_)) if self.up else replace(sum_.loop, stop=self._bound(sum_)),)
        return None
