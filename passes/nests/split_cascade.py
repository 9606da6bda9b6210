"""Cascades of few rows along a long axis: chunks of the axis side by side, and their states merged in order.

    if few rows and a long axis:
      for i in rows parallel, for c in chunks parallel:       threads share rows and chunks
        the cascade, over the tiles of chunk c
        m.parts[i, c] = m; l.parts[i, c] = l; a.parts[i, c, e] = a[e]
      …
      for i in rows parallel:
        m = max over c of m.parts[i, c]
        for c: by[c] = exp(m.parts[i, c] − m)
        l = Σ over c of l.parts[i, c] · by[c]
        for e: a[e] = Σ over c of a.parts[i, c, e] · by[c]

A sum that is relative to the states of its chunk is brought to the merged ones by the correction that the cascade has for a state that moves; then its combiner takes all of them together.  So
everything that can be worked off tile by tile can be merged, and nothing here knows what it is.  States that nobody reads when all is merged are not, and what corrects one number alone is
worked out where that is added up.  (Of attention this makes flash-decoding: Dao, Haziza, Massa, Sizov, 2023.)

Chunks depend on sizes alone and are merged in their order, so the bits are the same for any number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...ir.bounds import Known
from ...ir.expr import FALSE, ONE, ZERO, Expr, axis, call, ceildiv, const, load, maximum, minimum, product, var, where
from ...ir.graph import Node, View, postorder, previous_node, reduced_extents, state_axes, state_count
from ...ir.kernel import Alloc, Buffer, If
from ...ir.primops import OPS
from ...ir.record import record, replace
from ...ir.simplify import simplify
from ...ir.walks import leaves, substitute
from ..walk import Walk, run
from .nest_cascade import GPU_TILE, CascadeLoops, Chunk
from .nest_moments import is_zero

if TYPE_CHECKING:
    from .nest_body import NestBody, Point

CHUNKS = 64  # of a row, at most: enough to be shared evenly by as many threads as read memory at its full speed
PIECES = 128  # chunks of all rows, about: more are merged for nothing
ROWS = 32  # more rows than this are shared evenly themselves
SHARING = 16  # rows that read the same columns: up to so many, packed panels cost more than they save
LIGHT = (
    1 << 14
)  # positions of a chunk, or a multiple, where each is a number: what one core reads faster than another is woken, and many times what merging costs
HEAVY = 512  # the same where each position is a score, or weighs a vector; half of it is a multiple of the tiles
BLOCK_LEAST = 256  # positions of a chunk, or a multiple, where the blocks of a GPU work on them
EVEN = 8  # chunks of all rows: fewer are shared unevenly by some threads, so they are half as long (a chunk of 512 positions and one of 188)


@record
class Split:
    """How the axis of a cascade is cut: the condition under which it is, the positions of each chunk, the number of chunks (0 before it has a name)."""

    few: Expr
    size: Expr
    outside: int  # so many rows stand around the loop over chunks, those that read the same columns inside of it
    most: Expr  # chunks of a row
    step: int  # of which the size is a multiple
    count: Expr = ZERO

    @staticmethod
    def of_blocks(cascade: Node, known: Known, cores: int) -> Split:
        """The same on a GPU, where a block of threads has many rows that read the same columns, and processors are left without work where there are few such blocks."""
        extents, extent = cascade.attr.extents, product(reduced_extents(cascade.args[0].node))
        sharing = _sharing(cascade)
        if not sharing:
            return Split(FALSE, extent, 0, ONE, 1)
        outside = min(sharing)
        blocks = maximum(ONE, product(extents[:outside]) * ceildiv(product(extents[outside:]), GPU_TILE))
        few = call("bit_and", blocks.lt(cores), const(2 * BLOCK_LEAST).le(extent))
        chunks = minimum(ceildiv(const(2 * cores), blocks), const(CHUNKS))
        size = simplify(ceildiv(extent, chunks * BLOCK_LEAST) * BLOCK_LEAST, known)
        return Split(simplify(few, known), size, outside, simplify(chunks, known), BLOCK_LEAST)

    @staticmethod
    def of(cascade: Node, known: Known, mixing: Sequence[int] = ()) -> Split:
        """`mixing`: the rows that each tile is worked off for (`planes.py`)."""
        extents = tuple(ONE if j in mixing else e for j, e in enumerate(cascade.attr.extents))
        rows, extent = product(extents), product(reduced_extents(cascade.args[0].node))
        heavy = _heavy(cascade)
        least = HEAVY if heavy else LIGHT
        few = call("bit_and", rows.le(ROWS), const(2 * least).le(extent))
        sharing = _sharing(cascade)
        outside = min(sharing, default=len(extents))
        if sharing:  # a block of few rows is not worth packing columns for, however many blocks there are, and however short they are
            few = call("bit_or", few, call("bit_and", product([extents[j] for j in sharing]).le(SHARING), ONE.le(extent)))
        chunks = minimum(ceildiv(const(PIECES), maximum(ONE, product(extents[:outside]))), const(CHUNKS))
        unit, step = const(least), least // 2 if heavy else least
        if heavy:
            unit = where((product(extents[:outside]) * ceildiv(extent, least)).lt(EVEN), const(step), unit)
        size = simplify(ceildiv(extent, chunks * unit) * unit, known)
        return Split(simplify(few, known), size, outside, simplify(chunks, known), step)

    def named(self, body: NestBody, cascade: Node) -> Split:
        """The same with names for what all loops ask for, where it is no number."""
        (extent,) = cascade.args[0].node.attr.extents
        size = body.named(self.size, "size", 1, None)
        count = simplify(ceildiv(extent, size), body.current.known)
        if not count.is_const:
            count = minimum(count, self.most)  # which it is anyway, but this is seen at once
        return replace(self, size=size, count=body.named(count, "chunks", 1, CHUNKS))


def _sharing(cascade: Node) -> list[int]:
    """The rows that read the same columns of some scores."""
    count, rows = state_count(cascade), len(cascade.attr.extents)
    states = {a.node for a in cascade.args[:count]}
    missing: set[int] = set()
    for k, state in enumerate(a.node for a in cascade.args[:count]):
        places, extents = state_axes(cascade, k)
        along = axis(rows + len(extents))
        stack = [(state.args[0], (*(axis(j) for j in places), along))]
        seen: set[tuple[Node, tuple[Expr, ...]]] = set()
        while stack:
            view, at = stack.pop()
            n = view.node
            index = tuple(substitute(e, {axis(j): x for j, x in enumerate(at)}) for e in view.index)
            if n in states or n.op in ("const", "iota") or (n, index) in seen:
                continue
            seen.add((n, index))
            if n.op in OPS or n.op == "reduce":
                inner = tuple(var(f"%{j}") for j in range(len(n.attr.extents) if n.op == "reduce" else 0))
                stack += [(a, (*index, *inner)) for a in n.args]
            elif along in (used := {a for e in index for a in leaves(e, "axis")}):
                missing.update(j for j in range(rows) if axis(j) not in used)
    return sorted(missing) if missing and _heavy(cascade) else []


def _heavy(cascade: Node) -> bool:
    """Whether a position costs more than reading numbers."""
    states = {a.node for a in cascade.args[: state_count(cascade)]}
    if any(state_axes(cascade, k)[1] for k in range(len(states))):
        return True
    stack, seen = [s.args[0].node for s in states], set(states)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.op == "reduce":
            return True
        if n.op in OPS:  # what stands in memory is read from there
            stack.extend(a.node for a in n.args)
    return False


def part_buffers(cascade: Node, split: Split, fresh: int) -> list[Buffer]:
    """Where the states of each chunk are between the kernels: [rows…, chunk, further axes…], nothing where there are no chunks."""
    rows = cascade.attr.extents
    kept = (where(split.few, rows[0], ZERO), *rows[1:]) if rows else ()
    return [Buffer(f"%{fresh + k}", cascade.args[k].node.dtype, (*kept, split.most, *state_axes(cascade, k)[1])) for k in range(state_count(cascade))]


class MergeLoops(CascadeLoops):
    """A cascade at one point of its rows, from the states of its chunks."""

    def __init__(self, body: NestBody, cascade: Node, rows: Point, split: Split, parts: list[Buffer], asked: set[int]) -> None:
        super().__init__(body, cascade, rows)
        self.split, self.parts = split, parts
        self.asked = self.with_read(asked)
        self.corrections_kept: dict[Node, str] = {}  # buffers, by chunk

    def with_read(self, asked: set[int]) -> set[int]:
        """Some states, and those whose merged values they are merged by."""
        found: set[int] = set()
        seen: set[Node] = set()
        stack = [self.states[k] for k in asked]
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if n in self.states:
                k = self.states.index(n)
                found.add(k)
                stack += [self.corrections[k].node, self.additions[k].node]
            elif n.op in OPS:  # what a chunk has is read as it is
                stack += [a.node for a in n.args]
        return found

    def loops(self) -> Walk:
        body, outer, kept = self.body, self.body.current, dict(self.body.kept)
        order = [k for k in self.order() if k in self.asked]
        if self.reached is not None:
            body.kept[self.reached, ()] = self.states[0].attr.extents[-1]
        users = Counter(v.node for k in order for v in (self.corrections[k], self.additions[k]))
        for k in order:
            state, extents = self.states[k], self.further[k][1]
            views = (self.corrections[k], self.additions[k])
            nothing = (views[0].node.op == "const", is_zero(views[1]))
            # what one number needs alone is worked out where it is added up
            alone = [not extents and users[v.node] == 1 for v in views]
            moves: list[str | None] = []
            for view, none, own in zip(views, nothing, alone, strict=True):
                moves.append(None if none or own else (yield self.kept_by_chunk(view)))
            self.start(k, state)
            with body.nest(extents) as at:
                inside = body.current
                part = body.accumulator(inside, state.dtype, state.attr.combiner) if extents else self.names[k]
                chunk = self.chunks("reduce")
                values: list[Expr | None] = []
                for view, none, own, name in zip(views, nothing, alone, moves, strict=True):
                    values.append(None if none else (yield self.at_chunk(view, chunk)) if own else load(str(name), view.dtype, chunk))
                body.store(part, (), self.corrected(k, self.part(k, chunk, at), *values), state.attr.combiner)
                body.leave(inside)
                if extents:
                    body.store(self.names[k], at, load(part, state.dtype))
            if state in self.read:
                body.kept[state, self.point(state)] = load(self.names[k], state.dtype)
        body.kept = kept
        assert body.current is outer

    def chunks(self, kind: str) -> Expr:
        from .nest_body import REDUCED_AXES

        return self.body.enter(self.split.count, kind, REDUCED_AXES)

    def part(self, k: int, chunk: Expr, further: Point) -> Expr:
        return load(self.parts[k].name, self.states[k].dtype, *self.rows, chunk, *further)

    def kept_by_chunk(self, view: View) -> Walk:
        """A correction from the states of each chunk to the merged ones: the buffer that holds it."""
        found = self.corrections_kept.get(view.node)
        if found is not None:
            return found
        body, outer = self.body, self.body.current
        name = self.corrections_kept[view.node] = body.names.fresh("by")
        outer.body.append(Alloc(Buffer(name, view.dtype, (const(CHUNKS),), "private")))
        body.where[name] = outer
        chunk = self.chunks("parallel")
        body.store(name, (chunk,), (yield self.at_chunk(view, chunk)))
        body.leave(outer)
        return name

    def at_chunk(self, view: View, chunk: Expr) -> Walk:
        """A correction from the states of a chunk to the merged ones."""
        body, kept, memo = self.body, self.body.kept, self.body.memo
        body.kept, body.memo = dict(kept), dict(memo)
        for state, node in self.before.items():
            body.kept[node, self.point(state)] = self.part(self.states.index(state), chunk, ())
        if self.reached is not None:
            extent = self.states[0].attr.extents[-1]
            body.kept[previous_node(self.reached), ()] = simplify(minimum(self.split.size, extent - chunk * self.split.size), body.current.known)
        value = yield body._read(view, self.rows, None)
        body.kept, body.memo = kept, memo
        return value


def write_parts(body: NestBody, cascade: Node, split: Split, parts: list[Buffer]) -> None:
    """The states of each chunk, into `parts`."""
    memo = dict(body.memo)
    extents = cascade.attr.extents
    mixing = body.mixing(cascade)  # their loops stand inside
    around = tuple(ONE if j in mixing else e for j, e in enumerate(extents))
    with body.nest((*around[: split.outside], split.count, *around[split.outside :])) as point:
        rows, chunk = (*point[: split.outside], *point[split.outside + 1 :]), point[split.outside]
        loops = CascadeLoops(body, cascade, rows, Chunk(chunk * split.size, split.size, split.step))
        run(loops.loops())
        for k, b in enumerate(parts):
            with body.nest((*loops.mixed_extents, *loops.further[k][1])) as at:
                inside, further = iter(at), at[len(mixing) :]
                own = tuple(next(inside) if j in mixing else e for j, e in enumerate(rows))
                body.store(b.name, (*own, chunk, *further), load(loops.names[k], b.dtype, *at))
    body.memo = memo  # a row alone is the same point later


def write_results(
    body: NestBody, cascade: Node, split: Split, parts: list[Buffer], results: Mapping[Node, tuple[int, ...]], names: Mapping[Node, str]
) -> None:
    """What is made of the merged states: `results` has, for each, which of its axes the rows are.  Where they go along the axis too, each chunk is a piece of work again, which merges for itself."""
    asked = {n.attr.result for n in postorder(*results) if n.op == "cascade" and n.args == cascade.args}
    body.loops_of = lambda body, node, rows: MergeLoops(body, node, rows, split, parts, asked)
    (extent,) = cascade.args[0].node.attr.extents
    along = {n: next((k for k, e in enumerate(n.shape) if e is extent and k not in places), None) for n, places in results.items()}
    numbers = not any(state_axes(cascade, k)[1] for k in range(state_count(cascade)))
    chunked = (
        numbers and any(k is not None for k in along.values()) and all(along[n] is not None or n.rank == len(places) for n, places in results.items())
    )
    with body.nest((split.count, *cascade.attr.extents) if chunked else cascade.attr.extents) as point:
        chunk, rows = (point[0], point[1:]) if chunked else (ZERO, point)
        for n, places in results.items():
            outer = body.current
            if chunked and along[n] is None:
                body.branch(outer.known)
            shape = list(n.shape)
            if chunked and (k := along[n]) is not None:
                shape[k] = body.named(simplify(minimum(split.size, extent - chunk * split.size), outer.known), "length", 0, None)
            with body.nest(tuple(e for k, e in enumerate(shape) if k not in places)) as further:
                inner, at = iter(further), dict(zip(places, rows, strict=True))
                point = [at[k] if k in at else next(inner) for k in range(n.rank)]
                if chunked and (k := along[n]) is not None:
                    point[k] = simplify(chunk * split.size + point[k], body.current.known)
                body.store(names[n], tuple(point), body.value(n, tuple(point)))
            if body.current is not outer:
                outer.body.append(If((chunk).eq(ZERO), tuple(body.current.body)))
                body.forget(outer, frozenset())
