"""Cascades of few rows along a long axis: chunks of the axis side by side, and their states merged in order.

    if few rows and a long axis:
      for c in chunks parallel:                     a kernel of its own: threads share chunks and rows
        for i in rows parallel:
          the cascade, over the tiles of chunk c
          m.parts[c, i] = m; l.parts[c, i] = l; a.parts[c, i, e] = a[e]
    …
      for i in rows parallel:
        for c in chunks:
          now = max(m, m.parts[c, i])
          l = l · exp(m − now) + l.parts[c, i] · exp(m.parts[c, i] − now)
          a[e] = a[e] · exp(m − now) + a.parts[c, i, e] · exp(m.parts[c, i] − now)
          m = now

Two sums that are relative to different states are both brought to the merged one, each by the correction that the cascade has for a state that moves; then its combiner takes them together.  So
everything that can be worked off tile by tile can be merged, and nothing here knows what it is.  (Of attention this makes flash-decoding: Dao, Haziza, Massa, Sizov, 2023.)

Chunks depend on sizes alone and are merged in their order, so the bits are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..ir.bounds import Known
from ..ir.expr import ONE, ZERO, Expr, call, ceildiv, const, floordiv, load, maximum, minimum, product
from ..ir.graph import Node, previous_node, state_axes, state_count
from ..ir.kernel import Buffer, If
from ..ir.primops import COMBINERS
from ..ir.simplify import simplify
from .nest_cascade import CascadeLoops
from .nest_moments import is_zero
from .walk import Walk, run

if TYPE_CHECKING:
    from .nest_body import NestBody, Point

PIECES = 64  # rows times chunks, at most: enough to be shared evenly by as many threads as read memory at its full speed
LIGHT = 4096  # positions of a chunk, or a multiple, where each is a number: what one core reads faster than another is woken
HEAVY = 512  # the same where each position is a score, or weighs a vector; a multiple of the tiles


@dataclass(frozen=True, slots=True)
class Split:
    """How the axis of a cascade is cut: the condition under which it is, the number of chunks, the positions of each."""

    few: Expr
    count: Expr
    size: Expr
    most: Expr  # chunks that there is memory for: depends on the rows alone

    @staticmethod
    def of(cascade: Node, known: Known) -> Split:
        rows, extent = product(cascade.attr.extents), product(cascade.args[0].node.attr.extents)
        least = HEAVY if _heavy(cascade) else LIGHT
        most = simplify(floordiv(const(PIECES), maximum(ONE, rows)), known)
        size = simplify(ceildiv(extent, maximum(ONE, most) * least) * least, known)
        few = simplify(call("bit_and", (rows * 2).le(PIECES), const(2 * least).le(extent)), known)
        return Split(few, simplify(minimum(ceildiv(extent, maximum(ONE, size)), most), known), size, most)


    def named(self, body: NestBody) -> Split:
        """The same with names for what all loops ask for, where it is no number."""
        size, count = body.named(self.size, "size", ONE), body.named(self.count, "chunks", ONE)
        return replace(self, size=size, count=count)


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
        stack.extend(a.node for a in n.args)
    return False


def part_buffers(cascade: Node, split: Split, fresh: int) -> list[Buffer]:
    """Where the states of each chunk are between the kernels: [chunk, rows…, further axes…]."""
    rows = cascade.attr.extents
    return [
        Buffer(f"%{fresh + k}", cascade.args[k].node.dtype, (split.most, *rows, *state_axes(cascade, k)[1])) for k in range(state_count(cascade))
    ]


class MergeLoops(CascadeLoops):
    """A cascade at one point of its rows, from the states of its chunks."""

    def __init__(self, body: NestBody, cascade: Node, rows: Point, split: Split, parts: list[Buffer]) -> None:
        super().__init__(body, cascade, rows)
        self.split, self.parts = split, parts

    def loops(self) -> Walk:
        from .nest_body import REDUCED_AXES

        body, outer = self.body, self.body.current
        for k, state in enumerate(self.states):
            self.start(k, state)
        chunk = body.enter(self.split.count, "serial", REDUCED_AXES)
        kept, memo = body.kept, body.memo
        common = dict(kept)
        own = {node: self.named("last", load(self.names[self.states.index(s)], s.dtype)) for s, node in self.before.items()}
        other = {node: self.part(self.states.index(s), chunk, ()) for s, node in self.before.items()}
        sides: tuple[dict[tuple[Node, Point], Expr], ...] = tuple({(n, self.point(n.args[0].node)): e for n, e in side.items()} for side in (own, other))
        if self.reached is not None:
            extent = self.states[0].attr.extents[-1]
            until = simplify(minimum(extent, (chunk + 1) * self.split.size), body.current.known)
            common[self.reached, ()] = until
            sides[0][previous_node(self.reached), ()] = chunk * self.split.size
            sides[1][previous_node(self.reached), ()] = simplify(until - chunk * self.split.size, body.current.known)
        found: list[dict[Node, Expr]] = [{}, {}]  # corrections, by side
        for k in self.order():
            state, extents = self.states[k], self.further[k][1]
            for side, names in zip(sides, found, strict=True):
                body.kept, body.memo = {**common, **side}, dict(memo)
                for name, view in (("by", self.corrections[k]), ("moved", self.additions[k])):
                    nothing = view.node.op == "const" if name == "by" else is_zero(view)
                    if not nothing and view.node not in names:
                        names[view.node] = self.named(name, (yield body._read(view, self.rows, None)))
            body.kept, body.memo = dict(common), dict(memo)
            with body.nest(extents) as at:
                values = (load(self.names[k], state.dtype, *at), self.part(k, chunk, at))
                moved = (self.corrected(k, v, names.get(self.corrections[k].node), names.get(self.additions[k].node)) for v, names in zip(values, found, strict=True))
                new = call(COMBINERS[state.attr.combiner].op, *moved)
                if state not in self.read:
                    body.store(self.names[k], at, new)
            if state in self.read:
                common[state, self.point(state)] = self.named("now", new)
        for k, state in enumerate(self.states):
            if state in self.read:
                body.store(self.names[k], (), common[state, self.point(state)])
        body.kept, body.memo = kept, memo
        body.leave(outer)

    def part(self, k: int, chunk: Expr, further: Point) -> Expr:
        return load(self.parts[k].name, self.states[k].dtype, chunk, *self.rows, *further)


def write_parts(body: NestBody, cascade: Node, split: Split, parts: list[Buffer]) -> None:
    """The states of each chunk, into `parts`."""
    split = split.named(body)
    with body.nest((split.count, *cascade.attr.extents)) as (chunk, *rows):
        loops = CascadeLoops(body, cascade, tuple(rows), (chunk * split.size, split.size))
        run(loops.loops())
        for k, b in enumerate(parts):
            with body.nest(loops.further[k][1]) as at:
                body.store(b.name, (chunk, *rows, *at), load(loops.names[k], b.dtype, *at))


def write_results(body: NestBody, cascade: Node, split: Split, parts: list[Buffer], results: Mapping[Node, tuple[int, ...]], names: Mapping[Node, str]) -> None:
    """What is made of the merged states: `results` has, for each, which of its axes the rows are.  Where they go along the axis too, each chunk is a piece of work again, which merges for itself."""
    split = split.named(body)
    body.loops_of = lambda body, node, rows: MergeLoops(body, node, rows, split, parts)
    (extent,) = cascade.args[0].node.attr.extents
    along = {n: next((k for k, e in enumerate(n.shape) if e is extent and k not in places), None) for n, places in results.items()}
    numbers = not any(state_axes(cascade, k)[1] for k in range(state_count(cascade)))
    chunked = numbers and any(k is not None for k in along.values()) and all(along[n] is not None or n.rank == len(places) for n, places in results.items())
    with body.nest((split.count, *cascade.attr.extents) if chunked else cascade.attr.extents) as point:
        chunk, rows = (point[0], point[1:]) if chunked else (ZERO, point)
        for n, places in results.items():
            outer = body.current
            if chunked and along[n] is None:
                body.branch(outer.known)
            shape = list(n.shape)
            if chunked and (k := along[n]) is not None:
                shape[k] = simplify(minimum(split.size, extent - chunk * split.size), outer.known)
            with body.nest(tuple(e for k, e in enumerate(shape) if k not in places)) as further:
                inner, at = iter(further), dict(zip(places, rows, strict=True))
                point = [at[k] if k in at else next(inner) for k in range(n.rank)]
                if chunked and (k := along[n]) is not None:
                    point[k] = simplify(chunk * split.size + point[k], body.current.known)
                body.store(names[n], tuple(point), body.value(n, tuple(point)))
            if body.current is not outer:
                outer.body.append(If((chunk).eq(ZERO), tuple(body.current.body)))
                body.forget(outer, frozenset())
