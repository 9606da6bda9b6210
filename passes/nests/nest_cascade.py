"""The loops of a cascade: the reduced axis in tiles; in each, what the states need is computed, then the states move, in their order.

    m[] = -inf; l[] = 0; a[e] = 0
    for p.0 in tiles:
      for p.1: s[p.1] = Σ_d Q[i, d] · K[p, d]              kept for the tile: it holds a reduction
      now = max(m, max over p.1 of s[p.1])
      by = exp(m − now)
      for p.1: e[p.1] = exp(s[p.1] − now)                  kept: a state with further axes would compute it again for each of their positions
      l = l · by + Σ over p.1 of e[p.1]
      for e: a[e] = a[e] · by + Σ over p.1 of e[p.1] · V[p, e]
      m = now

Inside a tile every reduction is exact; there is one correction a tile.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from ...ir.dtypes import f32
from ...ir.expr import ONE, ZERO, Expr, call, ceildiv, const, floordiv, load, maximum, minimum, var
from ...ir.graph import Node, View, postorder, previous_node, reduced_extents, state_axes, state_count
from ...ir.instructions import ROUGH_EXP
from ...ir.kernel import Alloc, Buffer, If, Let, Nest
from ...ir.primops import COMBINERS, OPS
from ...ir.record import record
from ...ir.simplify import simplify
from ...ir.walks import leaves, rewrite, substitute
from ..cascades.masked_factors import bare_product
from ..walk import Walk
from .masks import ALONG, bounds
from .nest_fold import FoldLoops
from .nest_guarded import unless_finite
from .nest_kept import KeptValues, asked_of_nothing, faded
from .nest_moments import CACHED, around_points, batches, is_zero, move_together
from .nest_planes import STEP, KeptPlanes, TilesOfPlanes

if TYPE_CHECKING:
    from .nest_body import NestBody, Point

COLUMNS = 16  # and a further axis of a state in multiples of this: vectors of the widest machines
CONVERTED_COLUMNS = 32  # the same where what is summed up is converted from smaller numbers, which instructions on tiles multiply
TILE = 128  # positions of the axis: long enough that one correction a tile is nothing, short enough that tiles of a few dozen rows stay in the first caches
GPU_TILE = 64  # of positions, and of columns: what the threads of a block have of it and of the sums stays in their registers
FEW_TILE = 256  # where few rows read it: memory is read in longer pieces, by few turns from one operand to another
LONG_TILE = 4096  # where nothing is kept for a tile: what is read again is in the first cache still, and a correction a tile costs nothing


@record
class _Staged:
    """A value that is kept for a whole tile: the node, the position that it is read at (over the rows and `ALONG`), its buffer."""

    node: Node
    index: Point
    buffer: str


class Chunk(NamedTuple):
    """A piece of the axis: where it begins, how long it may be, and what that length is a multiple of."""

    begin: Expr
    most: Expr
    step: int


def _pointwise(made: list[Node]) -> list[Node]:
    """Some nodes, and what they are made of pointwise."""
    found: dict[Node, None] = {}
    stack = list(made)
    while stack:
        n = stack.pop()
        if n not in found:
            found[n] = None
            if n.op in OPS or n.op == "previous":
                stack.extend(a.node for a in n.args)
    return list(found)


class CascadeLoops(KeptValues, TilesOfPlanes):
    """One cascade at one point of its rows, written into the current scope of a kernel's body; of a chunk or of the whole axis."""

    def __init__(self, body: NestBody, cascade: Node, rows: Point, chunk: Chunk | None = None) -> None:
        self.body, self.cascade, self.chunk = body, cascade, chunk
        from .nest_body import OUTPUT_AXES

        self.mixing = body.mixing(cascade)
        # of scores that are mixed: the rows whose loops stand in each tile, by names that these have there
        self.mixed_rows = tuple(ZERO if cascade.attr.extents[j] is ONE else var(body.names.fresh(*OUTPUT_AXES)) for j in self.mixing)
        inside = iter(self.mixed_rows)
        self.rows = tuple(next(inside) if j in self.mixing else e for j, e in enumerate(rows))
        count = state_count(cascade)
        self.states = [a.node for a in cascade.args[:count]]
        self.corrections, self.additions = cascade.args[count : 2 * count], cascade.args[2 * count :]
        self.further = [state_axes(cascade, k) for k in range(count)]  # places of the axes, extents of those that are no rows
        self.names = [body.names.fresh("acc") for _ in self.states]
        self.extents = reduced_extents(self.states[0])
        results: dict[tuple[Nest | None, tuple[View, ...]], list[int]] = {}
        for k, s in enumerate(self.states):
            if s.op == "nest":
                results.setdefault((s.attr.nest, s.args), []).append(k)
        self.folds = [FoldLoops(self, states) for states in results.values()]
        nodes = self.own()
        self.read = {n for n in nodes if n in self.states}
        self.before = {n.args[0].node: n for n in nodes if n.op == "previous" and n.args[0].node in self.states}
        self.reached = next((n for n in nodes if n.op == "reached"), None)
        self.wanted: list[tuple[Node, Point]] = []  # what some state wants to be kept, inner ones first
        self.staged: list[_Staged] = []
        self.planes: list[KeptPlanes] = []
        self.readings: dict[int, list[tuple[Node, Point, bool]]] = {}  # see `reads`
        self.blocked = False  # whether several rows share each tile
        self.padded = False
        self.tile = TILE
        self.several = False  # whether there may be more than one tile
        self.begin, self.length = ZERO, const(TILE)  # from where to where the row wants something of the current tile

    def own(self) -> list[Node]:
        """What the states and the corrections are made of, pointwise: not what another cascade or reduction inside of them is."""
        return _pointwise([*(self.body_of(s).node for s in self.states), *(c.node for c in (*self.corrections, *self.additions))])

    def value(self, k: int, point: Point) -> Expr:
        """State k at a point of its own axes, after the loops."""
        places, extents = self.further[k]
        rows = len(self.rows)
        at = dict(zip(places, point, strict=True))
        return load(self.names[k], self.states[k].dtype, *(at[j] for j in self.mixing), *(at[rows + j] for j in range(len(extents))))

    def loops(self) -> Walk:
        body, outer = self.body, self.body.current
        order = self.order()
        inside = zip(self.mixed_rows, self.mixed_extents, strict=True)
        outer.known = outer.known.with_ranges({v.attr: (ZERO, e - 1, 1) for v, e in inside if v is not ZERO})
        wanted = dict.fromkeys(key for k in (*order, *(f.states[0] for f in self.folds)) for key in self.wants(k))
        ranks = {n: rank for rank, n in enumerate(postorder(*(node for node, _ in wanted)))}
        self.wanted = sorted(wanted, key=lambda key: ranks[key[0]])
        self.blocked = any(self.is_score(node) and self.shared(node, index) for node, index in self.wanted)
        self.padded = self.blocked and (self.chunk is None or body.gpu)
        self.tile = (
            LONG_TILE if not self.wanted else self.tile_of_a_block() if body.gpu and self.blocked else TILE if self.chunk is None else FEW_TILE
        )
        if self.chunk is not None:  # which is a number of whole tiles, but where the axis ends
            self.tile = gcd(self.tile, self.chunk.step)
        self.body.notes.append(self.note())
        for k, state in enumerate(self.states):
            if state.op == "reduce":
                self.start(k, state)
        for f in self.folds:
            f.start()
        if self.reached is None:
            yield self.tiles(order)
        else:
            yield around_points(self, order)
        for f in self.folds:
            yield f.finish()
        assert body.current is outer

    def tiles(self, order: list[int]) -> Walk:
        """The loop over tiles."""
        from .nest_body import OUTPUT_AXES, REDUCED_AXES

        body = self.body
        *before, extent = self.extents
        around, position = [], []
        for e in before:
            around.append(body.current)
            position.append(body.enter(e, "serial", REDUCED_AXES))
        around.append(body.current)
        first, end = yield bounds(self, extent)
        kind = "serial" if first is ZERO and end is extent else "elastic"
        begin: Expr = ZERO
        whole = extent
        if self.chunk is not None:
            begin, most, _ = self.chunk
            extent = simplify(minimum(most, extent - begin), body.current.known)
            if not self.blocked:  # in a block of rows, nothing but loops stands around the tiles
                extent = body.named(extent, "length", 0, None)
            first, end = (ZERO, extent) if kind == "serial" else (maximum(ZERO, first - begin), minimum(most, end - begin))
        tiles = simplify(ceildiv(end, self.tile), body.current.known)
        within = None if kind == "serial" else simplify(ceildiv(extent, self.tile), body.current.known)
        tile = body.enter(tiles, kind, REDUCED_AXES, simplify(floordiv(first, const(self.tile)), body.current.known), within=within)
        self.several = tile is not ZERO
        self.length = minimum(const(self.tile), whole - begin - tile * self.tile)
        rounded = any(node.dtype.is_float and node.dtype.bits < 32 for node, _ in self.wanted)
        if self.padded and end is not extent:  # of the last tile no more than the row wants; in whole words where instructions multiply what is kept
            self.length = minimum(self.length, (ceildiv(end, STEP) * STEP if rounded else end) - tile * self.tile)
        if self.padded and not (body.gpu or rounded) and first is not ZERO:  # and of the first one
            self.begin = simplify(maximum(ZERO, floordiv(first, const(STEP)) - tile * (self.tile // STEP)) * STEP, body.current.known)
        self.length = simplify(self.length, body.current.known)
        if self.chunk is not None and not self.blocked:
            self.length = body.named(self.length, "length", 0, self.tile)
        start = simplify(begin + tile * self.tile, body.current.known)
        outside = dict(body.kept)  # what is kept below is kept for one tile
        if self.reached is not None:
            body.kept[self.reached, ()] = simplify(minimum(extent, (tile + 1) * self.tile), body.current.known)
            body.kept[previous_node(self.reached), ()] = tile * self.tile
        if self.mixing:
            yield self.stage_planes((*position, start))
        for v, e in zip(self.mixed_rows, self.mixed_extents, strict=True):
            around.append(body.current)
            body.enter(e, "parallel", OUTPUT_AXES, name=v.attr)
        for state, node in self.before.items():
            body.kept[node, self.point(state)] = load(self.names[self.states.index(state)], state.dtype, *self.mixed_rows)
        for batch in batches(self, order):
            if len(batch) == 1:
                yield self.move(batch[0], self.states[batch[0]], (*position, start))
            else:
                yield move_together(self, batch, (*position, start))
        for f in self.folds:
            yield self.keep(f.states[0], (*position, start))
            yield f.move((*position, start))
        for k in order:
            if self.states[k] in self.read:
                body.store(self.names[k], self.mixed_rows, body.kept[self.states[k], self.point(self.states[k])])
        body.kept, body.planes = outside, {}
        for scope in reversed(around):
            body.leave(scope)

    def order(self) -> list[int]:
        """In which the states move: those with further axes last, where nobody reads them."""
        return sorted(
            (k for k, s in enumerate(self.states) if s.op == "reduce"), key=lambda k: bool(self.further[k][1]) and self.states[k] not in self.read
        )

    def note(self) -> str:
        """What `--why` says of the loops."""
        corrected = sum(c.node.op != "const" or not is_zero(a) for c, a in zip(self.corrections, self.additions, strict=True))
        kept = "; scores and what is made of them stay in the tile" if self.padded else ""
        moving = f", {corrected} of them corrected when an earlier one moves" if corrected else ""
        long = f", for rows that are longer than {CACHED >> 10} KiB" if self.reached is not None and not self.wanted else ""
        walking = "".join(f"; the loop `{f.nest.name}` goes on from tile to tile" for f in self.folds)
        count = sum(s.op == "reduce" for s in self.states)
        reductions = f"{count} reduction{'s' * (count != 1)} over one axis in one pass" if count else "one pass over an axis"
        return f"{reductions}{moving}{long}{walking}{kept}"

    def start(self, k: int, state: Node) -> None:
        from ...ir.kernel import identity_of

        body, extents = self.body, self.further[k][1]
        body.where[self.names[k]] = body.current
        shape = (*self.mixed_extents, *self.rounded(extents, self.columns(state)))
        body.current.body.append(Alloc(Buffer(self.names[k], state.dtype, shape, "private" if shape else "register")))
        with body.nest(shape) as at:
            body.store(self.names[k], at, identity_of(state.attr.combiner, state.dtype))

    def point(self, state: Node) -> Point:
        """Where a state without further axes is read."""
        places, _ = self.further[self.states.index(state)]
        return tuple(self.rows[j] for j in places)

    def named(self, name: str, value: Expr) -> Expr:
        """A scalar of the tile (no `let`: a schedule may keep one for each of many rows)."""
        body = self.body
        fresh = body.names.fresh(name)
        body.where[fresh] = body.current
        body.current.body.append(Alloc(Buffer(fresh, value.dtype, (), "register")))
        body.store(fresh, (), value)
        return load(fresh, value.dtype)

    # ---- one state in one tile

    def move(self, k: int, state: Node, start: Point) -> Walk:
        from .nest_body import REDUCED_AXES

        body, tile, extents = self.body, self.body.current, self.further[k][1]
        yield self.correct(k)
        yield self.keep(k, start)
        with body.nest(self.rounded(extents, self.columns(state))) as at:
            further = self.clamped(at, extents)
            inside = body.current
            part = body.accumulator(inside, state.dtype, state.attr.combiner)
            wanted = body.branch(inside.known) if state.attr.combiner == "or" else inside
            padded = self.padded and (body.gpu or not extents)
            inner = body.enter(self.positions() if padded else self.length, "reduce", REDUCED_AXES, self.begin)
            along = self.seed(start, inner, padded)
            bare = self.presumed(k, state)
            value = yield body._read(bare or state.args[0], (*self.at(k, further), *start[:-1], along), None)
            if padded:
                beyond = (at[-1], further[-1], extents[-1]) if extents else None
                value = self.within(start, inner, value, state, beyond)
            body.store(part, (), value, state.attr.combiner)
            body.leave(wanted)
            if wanted is not inside:  # what holds already holds
                body.forget(inside, frozenset())
                inside.body.append(If(call("bit_not", load(self.names[k], state.dtype, *self.mixed_rows, *at)), tuple(wanted.body)))
            if bare is not None:
                yield unless_finite(self, part, k, further, start)
            new = self.combined(k, at, part)
            if state not in self.read:
                body.store(self.names[k], (*self.mixed_rows, *at), new)
        assert body.current is tile
        if state in self.read:
            body.kept[state, self.point(state)] = self.named("now", new)

    def presumed(self, k: int, state: Node) -> View | None:
        """The products that state k sums without the choice around them, where rows share each of several tiles and one factor is 0 wherever the choice leaves a product out; else None."""
        return bare_product(state.args[0]) if self.padded and self.several and self.further[k][1] and not self.body.gpu else None

    def keep(self, k: int, start: Point) -> Walk:
        """What state k wants to be kept and is not yet."""
        reached = {(node, index) for node, index, _ in self.reads(k)}
        # rows of planes lie as far apart as sizes say: where that is no number, a tile of one plane is brought together
        mixed = {p.node for p in self.planes if all(e.is_const for e in self.mixed_extents)}
        for node, index in self.wanted:
            if (node, index) in reached and node not in mixed and not any(s.node is node and s.index == index for s in self.staged):
                yield self.stage(node, index, start)

    def correct(self, k: int) -> Walk:
        """By what the sum so far of state k is multiplied, and what is added to it."""
        body = self.body
        factor, addition = self.corrections[k], self.additions[k]
        if factor.node.op != "const" and (factor.node, self.rows) not in body.kept:
            body.kept[factor.node, self.rows] = self.named("by", (yield body._read(factor, self.rows, None)))
        if not is_zero(addition) and (addition.node, self.rows) not in body.kept:  # of a state of its row alone
            body.kept[addition.node, self.rows] = self.named("moved", (yield body._read(addition, self.rows, None)))

    def combined(self, k: int, at: Point, part: str) -> Expr:
        """State k with this tile."""
        state, by, moved = self.states[k], self.corrections[k], self.additions[k]
        factor = self.body.kept[by.node, self.rows] if by.node.op != "const" else None
        addition = None if is_zero(moved) else self.body.kept[moved.node, self.rows]
        result = self.corrected(k, load(self.names[k], state.dtype, *self.mixed_rows, *at), factor, addition)
        return call(COMBINERS[state.attr.combiner].op, result, load(part, state.dtype))

    def corrected(self, k: int, value: Expr, by: Expr | None, addition: Expr | None) -> Expr:
        """What state k so far, `value`, is when the earlier states have moved."""
        result = value
        if by is not None:
            product = call("mul", result, by)
            # a choice of 1 or 0 forgets what was there, infinities too
            chosen = self.corrections[k].node.op == "where"
            result = call("where", call("not_equal", by, const(0, by.dtype)), product, const(0, by.dtype)) if chosen else product
        return result if addition is None else call("add", result, addition)

    # ---- tiles without tails: positions beyond the end are worked off too, on values of the last one, and left out of the reductions

    def rounded(self, extents: Point, step: int) -> Point:
        """The last extent rounded up to a multiple of `step`, where the cascade is padded."""
        if not self.padded or not extents:
            return extents
        return (*extents[:-1], simplify(ceildiv(extents[-1], step) * step, self.body.current.known))

    def tile_of_a_block(self) -> int:
        """On a GPU, half as long where more weights than one of f32 are kept for all threads of a block."""
        weights = sum(node.dtype.bytes for node, _ in self.wanted if not self.is_score(node))
        return GPU_TILE if weights <= f32.bytes else GPU_TILE // 2

    def positions(self) -> Expr:
        """How many positions of a tile are worked off: of a padded one all on a GPU, whose threads have so many each."""
        return const(self.tile) if self.padded and self.body.gpu else self.rounded((self.length,), STEP)[0]

    def columns(self, state: Node) -> int:
        """Of what a further axis of a state is a multiple, where the cascade is padded."""
        if self.body.gpu:
            return GPU_TILE
        converted = any(n.op == "cast" and n.args[0].dtype.bits < n.dtype.bits for n in _pointwise([self.body_of(state).node]))
        return CONVERTED_COLUMNS if converted else COLUMNS

    def clamped(self, at: Point, extents: Point) -> Point:
        if not self.padded or not at:
            return at
        return (*at[:-1], simplify(minimum(at[-1], extents[-1] - 1), self.body.current.known))

    def within(self, start: Point, inner: Expr, value: Expr, state: Node, column: tuple[Expr, Expr, Expr] | None) -> Expr:
        """The value, or what changes nothing, beyond the end; the value itself is computed everywhere.  Of a product with what is kept, which is 0 there, the other factor is, also
        beyond the last column.  `column`: its position, as it is kept from running over, the number of columns."""
        from ...ir.kernel import identity_of

        body = self.body
        if column is not None and value.op == "mul" and state.attr.combiner == "add":
            position, clamped, columns = column
            kept = {s.buffer for s in self.staged}
            for weight, other in (value.args, value.args[::-1]):
                if weight.buffers and weight.buffers <= kept and other.buffers.isdisjoint(kept):
                    inside = simplify((start[-1] + inner).lt(state.attr.extents[-1]), body.current.known)
                    inside = call("bit_and", inside, simplify(position.lt(columns), body.current.known))
                    bare = other.args[0] if other.op == "cast" else other  # converted, if at all, where it is multiplied
                    masked = call("where", inside, substitute(bare, {clamped: position}), const(0, bare.dtype))
                    return call("mul", weight, call("cast", masked, to=other.dtype) if other.op == "cast" else masked)
        kept = {s.buffer for s in self.staged if not self.is_score(s.node)}
        bare = value.args[0] if value.op == "cast" else value
        if body.gpu and state.attr.combiner == "add" and bare.op == "load" and bare.attr in kept:
            return value  # 0 there
        scope, name = body.current, body.names.fresh("t")
        scope.body.append(Let(name, body.shared(value, scope)))
        body.where[name] = scope
        inside = simplify((start[-1] + inner).lt(state.attr.extents[-1]), scope.known)
        return call("where", inside, var(name, value.dtype), identity_of(state.attr.combiner, state.dtype))

    # ---- what is kept for a tile

    def stage(self, node: Node, index: Point, start: Point) -> Walk:
        from .nest_body import OUTPUT_AXES

        body, tile = self.body, self.body.current
        name = body.names.fresh("tile")
        tile.body.append(Alloc(Buffer(name, node.dtype, (const(self.tile),), "private")))
        body.where[name] = tile
        inner = body.enter(self.positions(), "parallel", OUTPUT_AXES, self.begin)
        along = self.seed(start, inner, self.padded)
        computed = body._node if any(p.node is node for p in self.planes) else body._computed
        value = yield computed(node, self.filled(index, along), None, None)
        if self.fades(node, index):
            value = asked_of_nothing(node, value) if node.op == "where" else value
            if not body.gpu or ROUGH_EXP.name in body.instructions:  # there, denormal numbers are as fast as others, but an instruction asks for it
                value = faded(value, body.instructions)
        rounded = value.op == "cast" and node.dtype.is_float and node.dtype.bits < 32
        if self.padded and (rounded or (body.gpu and not self.is_score(node))):  # what is multiplied where it lies is 0 beyond the end
            inside = simplify((start[-1] + inner).lt(self.extents[-1]), self.body.current.known)
            wide = value.args[0] if rounded else value
            masked = call("where", inside, wide, const(0, wide.dtype))
            value = call("cast", masked, to=node.dtype) if rounded else masked
        body.store(name, (inner,), self.eager(value) if self.padded else value)
        body.leave(tile)
        self.staged.append(_Staged(node, index, name))

    def eager(self, value: Expr) -> Expr:
        """Choices by position between values that are there anyway: both are taken first, so that a choice is no branch."""
        body, scope = self.body, self.body.current

        def named(e: Expr) -> Expr:
            if not leaves(e, "load"):
                return e
            name = body.names.fresh("t")
            scope.body.append(Let(name, body.shared(e, scope)))
            body.where[name] = scope
            return var(name, e.dtype)

        def rule(n: Expr) -> Expr | None:
            if n.op != "where" or not n.args[0].is_position:
                return None
            return call("where", n.args[0], named(n.args[1]), named(n.args[2]))

        return rewrite(value, rule)

    def seed(self, start: Point, inner: Expr, padded: bool) -> Expr:
        """What is staged is read from its buffer at this position of the tile; gives the position along the axis."""
        known = self.body.current.known
        along = start[-1] + inner
        if padded:
            along = minimum(along, self.extents[-1] - 1)
        along = simplify(along, known)
        for s in self.staged:
            self.body.kept[s.node, self.filled(s.index, along)] = load(s.buffer, s.node.dtype, inner)
        for p in self.planes:
            self.body.planes[p.node] = lambda point, p=p: self.in_plane(p, point, along, inner)
        return along

    def filled(self, index: Point, along: Expr) -> Point:
        known = self.body.current.known
        return tuple(simplify(substitute(e, {ALONG: along}), known) for e in index)
