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

Where an iteration begins with a loop over all that were before it, as in factorisations, what it does up to the block is done first for all rows of the block.  These have nothing to do with each other
there, so the blocks of that loop go outside of the rows, and both loops are tiles:

    for i in 0 .. N:                              for b in 0 .. N step 16:
      for j in 0 .. i:                              for c in 0 .. b step 16:
        s = A[i, j]                                   for i in b .. min(b + 16, N):
        for k in 0 .. j:                                for j in c .. min(c + 16, b): partial[i - b, j - c] = A[i, j] - Σ over k in 0 .. c
          s -= A[i, k] * A[k, j]          →           for j in c .. min(c + 16, b):
        A[i, j] = s / A[j, j]                           for i in b .. min(b + 16, N): A[i, j] = (partial[i - b, j - c] - Σ over k in c .. j) / A[j, j]
      for j in i .. N: …                            for i in b .. min(b + 16, N):
                                                      for j in b .. i: …
                                                      for j in i .. N: …

Rows inside of columns: what a sum and a division take from beginning to end, for one element after the other of a row, is most of the time otherwise (Cholesky of 200 doubles 0.37 ms for 0.12).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.bounds import Known
from ...ir.expr import ONE, ZERO, Expr, both, const, load, maximum, minimum, var
from ...ir.kernel import Alloc, Block, Buffer, Check, If, Let, Loop, Nest, Stmt, Store, While, map_block, statements
from ...ir.polynomial import is_constant, plus, poly
from ...ir.record import record, replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import prove, prove_le, simplify
from ...ir.target import Target
from ...ir.walks import leaves, substitute
from .ahead import loops_in
from .concurrency import conflicts
from .dependence import Access, Dependences
from .domains import within
from .loop_events import Events
from .loop_records import Event, Read
from .reordered import inside, may_touch, position

BLOCK = 8  # rows of two register tiles
# Rows of a block around those, and how many terms they add up at a time: what a strip of columns reads for these stays in the first cache.  (Granite Rapids, one thread, a lower triangular system, f32 and f64, beside blocks alone: 700² 0.72 and 0.68, 1400² 0.62 and 0.62 of the time.)
LARGE = 64
MANY = 128  # iterations from which on blocks of blocks pay: 64 rows of 64 columns 1.1, 100 of 100 floats 1.06 to 1.2, doubles 0.98, 128 of 128 0.95 to 1.0 of the time
ROWS, COLUMNS = 16, 16  # where both loops go in blocks; of sums that read no vectors along the columns BLOCK columns, or as many as lanes
SHORT = 32  # iterations of which blocks bring nothing: 24 rows of 24 take 1.25 of the time, 48 of 48 0.7


def in_blocks(nest: Nest, pairs: Dependences, target: Target) -> Nest:
    """The nest with such loops in blocks."""
    done: set[int] = set()
    for loop, known in list(loops_in(nest.body, pairs.known)):
        if id(loop) in done or loop.kind != "serial" or not loop.step.is_const or abs(loop.step.attr) != 1:
            continue
        both_ways = _both_ways(nest, loop, pairs, known, target)
        if both_ways is not None:
            nest = both_ways
            done |= {id(s) for s in statements(loop.body)}
            continue
        nest = _in_large_blocks(nest, loop, pairs, known, target) or _in_small_blocks(nest, loop, pairs, known, target) or nest
    return nest


def _in_small_blocks(nest: Nest, loop: Loop, pairs: Dependences, known: Known, target: Target) -> Nest | None:
    """The nest with the loop in blocks; None where that is not so, or not proven to be the same."""
    blocks = _Blocks(nest, loop, known, target)
    return blocks.nest() if blocks.sums and not prove_le(blocks.trips, const(SHORT), known) and blocks.as_before(pairs) else None


def _in_large_blocks(nest: Nest, loop: Loop, pairs: Dependences, known: Known, target: Target) -> Nest | None:
    """The same with blocks of blocks, all of whose sums are of many rows that read vectors along their columns."""
    blocks = _Blocks(nest, loop, known, target, length=LARGE)
    many = blocks.sums and not prove_le(blocks.trips, const(MANY), known)
    if not many or not all(s.path and blocks.has_vectors(s) for s in blocks.sums) or not blocks.as_before(pairs):
        return None
    whole = blocks.nest(MANY)
    found = _in_small_blocks(whole, blocks.rest, pairs, known, target)
    assert isinstance(blocks.short, Loop)
    return found and (_in_small_blocks(found, blocks.short, pairs, known, target) or found)


def _both_ways(nest: Nest, loop: Loop, pairs: Dependences, known: Known, target: Target) -> Nest | None:
    """The nest with the loop in blocks, and what its iterations do before their block in blocks of its own; None where that is not so, or not proven to be the same."""
    early = _early(loop)
    if early is None:
        return None
    blocks = _Blocks(nest, loop, known, target, early=early)
    if not blocks.as_before(pairs):
        return None
    rows, columns = blocks.before()
    nest = blocks.nest()
    inner = _Blocks(nest, columns, known, target, across=rows)
    return inner.nest() if inner.sums and inner.as_before(pairs) else None


def _early(loop: Loop) -> Loop | None:
    """The loop with which an iteration begins, if it is longer by one in each iteration, and leaves nothing behind but what it stores in arrays."""
    found = next((s for s in loop.body if not isinstance(s, Let)), None)
    if loop.step is not ONE or not isinstance(found, Loop) or found.kind != "serial" or found.step is not ONE or not found.start.is_const:
        return None
    inside = statements(found.body)
    own = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    kept = any(isinstance(s, Store) and not s.index and s.buffer not in own for s in inside)
    return found if not kept and is_constant(plus(poly(found.stop), poly(var(loop.axis)), -1)) else None


@record
class _Row:
    """A loop around a sum, as long as it is in any iteration of a block; its places in an array begin at `origin`."""

    start: Expr
    stop: Expr
    origin: Expr
    extent: Expr


@record
class _Sum:
    """`total = first; for j in …: total add= …`, in these loops inside the one that is cut."""

    path: tuple[Loop, ...]
    lets: tuple[Let, ...]
    first: Store
    loop: Loop


class _Blocks:
    """A loop cut in blocks: `ahead`, what is summed for all of a block, and `rest`.

    early: the first loop of its body; what it does up to the block stands before both, for all iterations of the block.
    across: the loop right around the one that is cut, over the rows of a block, which are independent; the blocks go outside of it.
    """

    def __init__(
        self, nest: Nest, loop: Loop, known: Known, target: Target, length: int = BLOCK, early: Loop | None = None, across: Loop | None = None
    ) -> None:
        self.whole, self.loop, self.known, self.early, self.across = nest, loop, known, early, across
        self.short: Stmt = loop  # for few iterations
        self.up = loop.step.attr == 1
        self.trips = simplify((loop.stop - loop.start) * loop.step)
        self.i = var(loop.axis)
        self.shape = {b.name: b.shape for b in (*nest.operands, *nest.results, *(s.buffer for s in statements(nest.body) if isinstance(s, Alloc)))}
        self.names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
        self.begin = var(self.names.fresh("block"))
        # what an iteration has for itself
        self.own = {s.buffer for s in statements(loop.body) if isinstance(s, Store) and not s.index} | {
            s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)
        }
        self.length = length if early is None else ROWS
        first, body = ((), loop.body) if early is None else self._begun(early)
        self.sums = list(self._sums(body, (), ()))
        if across is not None:  # a tile of what is consecutive along the sums has a column for each lane of what puts them together
            lanes = max((target.lanes(s.first.value.dtype) for s in self.sums), default=BLOCK)
            self.length = COLUMNS if all(map(self.has_vectors, self.sums)) else min(COLUMNS, max(BLOCK, lanes))
        self.partial = [self._partial(s) for s in self.sums]
        self.first: Block = unique_locals((self._block(first),), self.names.fresh) if first else ()
        self.ahead = unique_locals(tuple(self._ahead(s, b) for s, b in zip(self.sums, self.partial, strict=True)), self.names.fresh)
        self.body = map_block(body, self._rest)
        self.rest = self._block(self.body if across is None else (replace(across, body=self.body),))

    # ---- the nest

    def nest(self, most: int = SHORT) -> Nest:
        """The nest in which the loop is cut, if it has more iterations than `most`."""
        block: Block = (*map(Alloc, self.partial), self._cut(self.length < LARGE))
        asked = not leaves(self.trips, "var") and not leaves(self.trips, "load") and not prove(const(most).lt(self.trips), self.known)
        if self.across is None and asked:
            if self.early is None and most == SHORT:
                block = unique_locals(block, self.names.fresh)
            else:  # its loops are looked at again
                (self.short,) = unique_locals((self.loop,), self.names.fresh)
            block = (If(self.trips.le(most), (self.short,), block),)
        return self._with(block)

    def before(self) -> tuple[Loop, Loop]:
        """The loop over the rows of a block that do what is before it, and the one inside it."""
        (rows,) = self.first
        assert isinstance(rows, Loop)
        return rows, next(s for s in rows.body if isinstance(s, Loop))

    def _cut(self, in_order: bool) -> Loop:
        step = const(self.loop.step.attr * self.length)
        return replace(self.loop, axis=self.begin.attr, step=step, body=(*self.first, *(self.ahead if in_order else self._in_turn()), self.rest))

    def _in_turn(self) -> Block:
        """What is made ahead, so many terms at a time: sums of the same elements, in the same order, each of which is kept between them."""
        made: list[Stmt] = []
        for s, partial in zip(self.sums, self.partial, strict=True):
            total = Buffer(s.first.buffer, partial.dtype, (), "register")
            kept = replace(s.first, value=load(partial.name, partial.dtype, *self._place(s)))
            begun = Store(partial.name, self._place(s), s.first.value, "", s.first.span)
            done = Store(partial.name, self._place(s), load(total.name, total.dtype), "", s.first.span)
            whole = replace(s.loop, stop=self._bound(s)) if self.up else replace(s.loop, start=self._bound(s))
            at = var(self.names.fresh(s.loop.axis))
            some = replace(s.loop, start=at, stop=minimum(at + LARGE, whole.stop))
            added = self._rows(s, (*s.lets, Alloc(total), kept, some, done))
            made += [self._rows(s, (*s.lets, begun)), replace(whole, axis=at.attr, step=const(LARGE), body=(added,))]
        return unique_locals(tuple(made), self.names.fresh)

    def _with(self, block: Block) -> Nest:
        place = self.across or self.loop
        return replace(self.whole, body=map_block(self.whole.body, lambda s: block if s is place else None))

    # ---- whether it is the same

    def as_before(self, pairs: Dependences) -> bool:
        """Whether nothing that is read ahead would have been stored before, in the block, and what is done before the block may be."""
        if any(isinstance(s, Check) for s in statements(self.loop.body)):
            return False
        cut = self._cut(in_order=True)
        found = Events(self._with((*map(Alloc, self.partial), cut)), pairs.known)
        sums = {id(x): s for x, s in zip(self.ahead, self.sums, strict=True)}
        behind = {id(s): k for k, s in enumerate(statements(self.body))}
        placed = [(a, k + 1, found.loops[a.loops[k + 1].var]) for a, k in inside(found, cut)]
        stores = [(e, k) for e, k, x in placed if isinstance(e, Event) and x is self.rest]
        for r, k, x in placed:
            s = sums.get(id(x))
            if s is None or isinstance(r, Event):
                continue
            if self.early is not None and not _inside(r, self.shape[r.buffer], pairs):
                return False
            wanted = self._wanted(s, r, k, found)
            for e, at in stores:
                if e.buffer == r.buffer:
                    place = min((behind.get(i, -1) for i in e.stores), default=-1)
                    if any(may_touch(e, r, at, found, pairs, both(wanted, first)) for first in self._before(s, e, r, at, place, found)):
                        return False
        return self.early is None or self._first_before(placed, found, pairs)

    def _first_before(self, placed: list[tuple[Access, int, Loop | While]], found: Events, pairs: Dependences) -> bool:
        """Whether the rows of a block have nothing to do with each other before it, and nothing with what the others did there after it."""
        (first,) = self.first
        v = next((v for v, x in found.loops.items() if x is first), None)
        if v is None or any(conflicts(v, found, pairs)):
            return False
        sums = {id(x): s for x, s in zip(self.ahead, self.sums, strict=True)}
        early = [(a, k) for a, k, x in placed if x is first]
        late = [
            (replace(a, guard=both(a.guard, self._wanted(sums[id(x)], a, k, found))) if id(x) in sums else a, k)
            for a, k, x in placed
            if x is not first
        ]
        for a, k in early:
            for b, at in late:
                if a.buffer == b.buffer and (isinstance(a, Event) or isinstance(b, Event)):
                    (mine, _), (its, _) = (_positions(y, level, found)[0] for y, level in ((a, k), (b, at)))
                    if may_touch(a, b, k, found, pairs, its.lt(mine)):
                        return False
        return True

    def _wanted(self, s: _Sum, a: Access, level: int, found: Events) -> Expr | None:
        """Which of the sums that are made ahead are read: a row of them is as long as the longest of its block."""
        (block, _), *inside = _positions(a, level - 1, found)
        (i, _), *inner = inside[int(self.across is not None) :]
        at = {self.i: i, self.begin: block}
        places = [(p, tuple(substitute(e, at) for e in (x.start, x.stop))) for (p, _), x in zip(inner, s.path, strict=False)]
        return both(*(c for p, (start, stop) in places for c in (start.le(p), p.lt(stop))))

    def _before(self, s: _Sum, e: Event, r: Read, level: int, place: int, found: Events) -> Iterator[Expr | None]:
        """When the store of one iteration came before what another reads ahead: in an earlier one, or in the same one but earlier along the loops around the sum, or before it there."""
        stored, read = _positions(e, level, found), _positions(r, level, found)
        same: Expr | None = None
        if self.across is not None:  # other rows have nothing to do with it
            same = stored[1][0].eq(read[0][0])
            stored, read = [stored[0], *stored[2:]], read[1:]
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
                found = self._sum(body[:k], s, path, lets) if path or self.across is not None else None
                if found is not None:
                    yield found
                elif self._row(s) is not None:
                    yield from self._sums(s.body, (*path, s), lets)

    def _row(self, x: Loop) -> _Row | None:
        """The places of a loop's iterations in an array, the same in each iteration of the loop that is cut: it counts up to a size, or, beside what is done before the block, from where the block begins, or up to where the iteration stands."""
        plain = not leaves(x.stop, "var") and not leaves(x.stop, "load")
        if x.step is not ONE:
            return None
        if plain and self.loop.axis not in x.start.names and not x.start.buffers and prove_le(ZERO, x.start, self.known):
            return _Row(x.start, x.stop, ZERO, x.stop)
        ahead = plus(poly(x.stop), poly(self.i), -1)
        begin = simplify(substitute(x.start, {self.i: self.begin}))
        behind = plus(poly(begin), poly(self.begin), -1)
        if self.early is None or not is_constant(behind) or behind.get((), 0) < 0 or not (plain or is_constant(ahead)):
            return None
        if plain:
            return _Row(begin, x.stop, ZERO, x.stop)
        last = simplify(x.stop - self.i + minimum(self.begin + self.length, self.loop.stop) - 1)
        extent = ahead.get((), 0) + self.length - 1 - behind.get((), 0)
        return _Row(begin, last, begin, const(extent)) if extent > 0 else None

    def _sum(self, before: Block, loop: Loop, path: tuple[Loop, ...], lets: tuple[Let, ...]) -> _Sum | None:
        """What this loop adds up, if it is longer by one in each iteration."""
        first = next((s for s in reversed(before) if not isinstance(s, Let)), None)
        added = [s for s in loop.body if not isinstance(s, Let)]
        if loop.step is not ONE or len(added) != 1 or not isinstance(added[0], Store) or not isinstance(first, Store):
            return None
        if added[0].buffer != first.buffer or added[0].index or first.index or not added[0].combiner or first.combiner:
            return None
        moving, fixed = (loop.stop, loop.start) if self.up else (loop.start, loop.stop)
        growing = (self.loop, *path) if self.early is not None else (self.loop,)
        if not any(is_constant(plus(poly(moving), poly(var(x.axis)), -1)) for x in growing) or any(x.axis in fixed.names for x in growing):
            return None
        read = [e.buffers for s in (*lets, first, *path, *loop.body, loop) for e in s.expressions()]
        found = _Sum(path, lets, first, loop)
        return found if self._is_shared(found) and all(map(self.own.isdisjoint, read)) else None

    def _is_shared(self, s: _Sum) -> bool:
        """Whether a register tile loads for several iterations at once: a vector along its columns, or, where both loops are cut, what is consecutive along the sum."""
        if self.has_vectors(s):
            return True
        deep = (var(s.loop.axis),)
        sides = set(self._sides(s))
        moving = [n.names & sides for n in _loads(s.loop) if n.args and poly(n.args[-1]).get(deep) == 1]
        return (self.early is not None or self.across is not None) and all({x} in moving for x in sides)

    def has_vectors(self, s: _Sum) -> bool:
        """Whether all rows of a tile read a vector along its columns."""
        row, column = self._sides(s)
        return any(n.args and row not in n.names and poly(n.args[-1]).get((var(column),)) == 1 for n in _loads(s.loop))

    def _sides(self, s: _Sum) -> tuple[str, str]:
        """The axes of the rows and of the columns of a tile."""
        if s.path:
            return self.loop.axis, s.path[-1].axis
        assert self.across is not None
        return self.across.axis, self.loop.axis

    # ---- the loops

    def _partial(self, s: _Sum) -> Buffer:
        rows = () if self.across is None else (const(ROWS),)
        return Buffer(
            self.names.fresh("partial"), s.first.value.dtype, (*rows, const(self.length), *(self._place_of(x).extent for x in s.path)), "private"
        )

    def _place(self, s: _Sum) -> tuple[Expr, ...]:
        rows = () if self.across is None else (var(self.across.axis) - self.across.start,)
        return *rows, self.i - self.begin if self.up else self.begin - self.i, *(var(x.axis) - self._place_of(x).origin for x in s.path)

    def _place_of(self, x: Loop) -> _Row:
        found = self._row(x)
        assert found is not None
        return found

    def _bound(self, s: _Sum) -> Expr:
        """Where the sum ends, or begins, in the first iteration of the block, but not before where it always does."""
        moving, fixed = (s.loop.stop, s.loop.start) if self.up else (s.loop.start, s.loop.stop)
        first = {self.i: self.begin, **{var(x.axis): self._place_of(x).start for x in s.path if self.early is not None}}
        bound = simplify(substitute(moving, first))
        beyond = plus(poly(substitute(bound, {self.begin: self.loop.start})), poly(fixed), -1)  # in the first block
        inside = is_constant(beyond) and beyond.get((), 0) * self.loop.step.attr >= 0
        return bound if inside else maximum(bound, fixed) if self.up else minimum(bound, fixed)

    def _block(self, body: Block, independent: bool = False) -> Loop:
        begin, n = self.begin, self.length
        end = minimum(begin + n, self.loop.stop) if self.up else maximum(begin - n, self.loop.stop)
        if independent and not self.up:
            return replace(self.loop, start=end + 1, stop=begin + 1, step=ONE, body=body)
        return replace(self.loop, start=begin, stop=end, body=body)

    def _ahead(self, s: _Sum, partial: Buffer) -> Loop:
        total = Buffer(s.first.buffer, partial.dtype, (), "register")
        known = replace(s.loop, stop=self._bound(s)) if self.up else replace(s.loop, start=self._bound(s))
        body: Block = (*s.lets, Alloc(total), s.first, known, Store(partial.name, self._place(s), load(total.name, total.dtype), "", s.first.span))
        return self._rows(s, body)

    def _rows(self, s: _Sum, body: Block) -> Loop:
        """The loops over the rows and the columns of a block."""
        for x in reversed(s.path):
            place = self._place_of(x)
            body = (replace(x, start=place.start, stop=place.stop, body=body),)
        rows = self._block(body, independent=True)
        return rows if self.across is None else replace(self.across, body=(rows,))

    def _rest(self, s: Stmt) -> Block | None:
        for sum_, partial in zip(self.sums, self.partial, strict=True):
            if s is sum_.first:
                return (replace(sum_.first, value=load(partial.name, partial.dtype, *self._place(sum_))),)
            if s is sum_.loop:
                return (replace(sum_.loop, start=self._bound(sum_)) if self.up else replace(sum_.loop, stop=self._bound(sum_)),)
        return None

    def _begun(self, early: Loop) -> tuple[Block, Block]:
        """What the loop's body does before the block, and what it does then."""
        bound = simplify(early.stop - self.i + self.begin)
        beyond = plus(poly(early.stop - self.i + self.loop.start), poly(early.start), -1)
        if not is_constant(beyond) or beyond.get((), 0) < 0:
            bound = maximum(bound, early.start)
        at = next(k for k, s in enumerate(self.loop.body) if s is early)
        lets = self.loop.body[:at]
        return (*lets, replace(early, stop=bound)), (*lets, replace(early, start=bound), *self.loop.body[at + 1 :])


def _positions(a: Access, level: int, found: Events) -> list[tuple[Expr, Loop]]:
    """Of the loops from this level on: where they stand, and what they are."""
    trips = ((t.var, found.loops[t.var]) for t in a.loops[level:])
    return [(position(v, found), x) for v, x in trips if isinstance(x, Loop)]


def _inside(r: Read, shape: tuple[Expr, ...], pairs: Dependences) -> bool:
    """Whether a read is inside of its array, in all iterations of its loops."""
    known = within(pairs.known, r.loops)
    return all(prove_le(ZERO, x, known) and prove(x.lt(n), known) for x, n in zip(r.index, shape, strict=True))


def _loads(loop: Loop) -> Iterator[Expr]:
    return (n for s in loop.body for e in s.expressions() for n in leaves(e, "load"))
