"""What the states of a cascade read that is computed once a tile and kept: scores, and what is made of them that costs more than a load."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.dtypes import bool_, f32, f64
from ...ir.expr import Expr, axis, call, const, make, var
from ...ir.graph import Node, View
from ...ir.instructions import WEIGHT
from ...ir.primops import OPS
from ...ir.simplify import prove_le, simplify
from ...ir.walks import leaves, substitute
from ..cascades.folds import order
from ..cascades.separate import is_zero
from ..costs import NOMINAL, operation
from ..rules.pattern import same_view
from .masks import ALONG

if TYPE_CHECKING:
    from .nest_body import NestBody, Point
    from .nest_cascade import Chunk
    from .nest_fold import FoldLoops


# What weights count for nothing, as powers of two: so far above the smallest normal number that products with what they weigh, and what a tile takes to multiply them, are none either.
FADED = {f32: -90, f64: -900}


def faded(weight: Expr, instructions: frozenset[str]) -> Expr:
    """exp(x) or exp2(x) of x up to 0, rounded or not, or 0 by a choice; where it is below 2^-90 (f64: 2^-900) 0.

    Of weights of which the largest is 1 such a one counts for nothing, but sums and products that are denormal numbers take Intel's processors 50 times as long as others (attention 8·1024²·64
    with queries 40 times as long: 193 ms for 15), and instructions on tiles take them for zeros.
    """
    if weight.op == "cast":
        return call("cast", faded(weight.args[0], instructions), to=weight.dtype)
    if weight.op == "const":
        return weight
    if weight.op == "where":
        return call("where", weight.args[0], *(faded(x, instructions) if x.op in ("exp", "exp2", "cast") else x for x in weight.args[1:]))
    (x,) = weight.args
    smallest = math.ceil(FADED[x.dtype] * (1.0 if weight.op == "exp2" else math.log(2)) * 1024) / 1024
    if WEIGHT.name in instructions and weight.op == "exp" and x.dtype is f32:
        return make("ins", f32, (x, const(smallest, f32)), WEIGHT.name)
    return call(weight.op, call("where", x.lt(const(smallest, x.dtype)), const(-math.inf, x.dtype), x))


def asked_of_nothing(node: Node, value: Expr) -> Expr:
    """Weights under the choice that masks their scores too, where(c, exp(where(c, x, -inf) - m), 0): of -inf the exponential is 0 anyway, but relative to -inf.  So the choice is made in rows alone where m is that,
    which one test says of all elements of a row.  (Where m is NaN a score is that counts, and so is the sum.)"""
    test, weight, _ = node.args
    if value.op != "where" or value.args[1].op not in ("exp", "exp2") or weight.node.args[0].node.op != "sub":
        return value
    scores = weight.node.args[0].node.args[0]
    if scores.node.op != "where" or not scores.is_identity or not same_view(scores.node.args[0], test):
        return value
    fill, largest = scores.node.args[2], value.args[1].args[0].args[-1]
    if fill.node.op != "const" or fill.domain is not None or fill.node.attr.value != -math.inf or largest.op != "load":
        return value
    nothing = call("where", value.args[0], const(math.nan, value.dtype), value.args[2])
    return call("where", largest.eq(const(-math.inf, largest.dtype)), nothing, value.args[1])


def made_wide(node: Node) -> bool:
    """Whether a value is that of a small float, which may be kept instead."""
    return node.op == "cast" and node.dtype.is_float and node.args[0].dtype.is_float and node.args[0].dtype.bits < min(32, node.dtype.bits)


class KeptValues:
    """Part of `CascadeLoops`, which says what these are."""

    body: NestBody
    rows: Point
    states: list[Node]
    further: list[tuple[tuple[int, ...], Point]]
    extents: Point
    folds: list[FoldLoops]
    readings: dict[int, list[tuple[Node, Point, bool]]]
    chunk: Chunk | None

    def at(self, k: int, further: Point) -> Point:
        """A point of state k's own axes."""
        places, _ = self.further[k]
        both = (*self.rows, *further)
        return tuple(both[j] for j in places)

    def body_of(self, state: Node) -> View:
        """What a state runs over, over its own axes (of a nest, those of the rows) and the reduced one."""
        if state.op == "reduce":
            return state.args[0]
        kept = order(state.args[0].node, self.states)
        assert kept is not None
        return kept.score

    def wants(self, k: int) -> list[tuple[Node, Point]]:
        """What the body of a state reads that wants to be computed once a tile: the largest values that hold a reduction and depend on no state; and, where the state has further
        axes, the largest that do not move with them and cost more than a load; with what is dear inside of these, where another state reads it on another way."""
        further = bool(self.further[k][1]) and self.states[k].op == "reduce"

        def kept(node: Node, index: Point, fixed: bool) -> bool:
            # few rows read what is kept one by one: those of a chunk do better with what needs no cast
            small = (self.chunk is None or self.body.gpu) and made_wide(node)
            return fixed and node.dtype is not bool_ and not small and (self.is_score(node) or (further and self.dear(node)))

        found = [(node, index) for node, index, fixed in self.walked(k, kept) if kept(node, index, fixed)]
        apart = {n for score, _ in found if self.is_score(score) for n in self.but_the_longest(score)}
        inside = [(node, index) for node, index, fixed in self.reads(k) if fixed and (node, index) not in found]
        elsewhere = {
            (node, index)
            for other, state in enumerate(self.states)
            if further and other != k and state.op == "reduce"
            for node, index, _ in self.walked(other, lambda *read: read[:2] in found)
        }
        return found + [(n, at) for n, at in inside if n in apart or (operation(n.op) > 1 and (n, at) in elsewhere and not self.is_score(n))]

    def dear(self, node: Node) -> bool:
        """Whether computing a value from what holds a reduction, or is in memory, costs more than a load."""
        return node.op in OPS and sum(operation(n.op) for n in self.pointwise(node) if n.op in OPS and not self.is_score(n)) > 1

    def but_the_longest(self, score: Node) -> set[Node]:
        """The reductions that a score is made of, but for the longest: each is a loop nest of its own, the longest that of the score, which reads the others."""
        sums = [n for n in self.pointwise(score) if n.op == "reduce" and self.body.home(n) is None]
        longest = max(sums, key=lambda n: math.prod(e.attr if e.is_const else NOMINAL for e in n.attr.extents), default=None)
        return {n for n in sums if n is not longest}

    def reads(self, k: int) -> list[tuple[Node, Point, bool]]:
        """The nodes that the body of a state is made of, outer ones first, where they are read, and whether that is one position for all positions of the state's further axes."""
        if k not in self.readings:
            self.readings[k] = self.walked(k, lambda *_: False)
        return self.readings[k]

    def walked(self, k: int, kept: Callable[[Node, Point, bool], bool]) -> list[tuple[Node, Point, bool]]:
        """`reads`, where nothing is looked for behind what is kept."""
        _, extents = self.further[k]
        state = self.states[k]
        moving = {f"%{j}" for j in range(len(extents))} | {f"%r{j}" for j in range(len(self.extents) - 1)}
        further = tuple(var(f"%{j}") for j in range(len(extents)))
        serial = [var(f"%r{j}") for j in range(len(self.extents) - 1)]
        found: dict[tuple[Node, Point], bool] = {}
        own = self.at(k, further) if state.op == "reduce" else next(f.rows for f in self.folds if k in f.states)
        queue: list[tuple[View, Point]] = [(self.body_of(state), (*own, *serial, ALONG))]
        for view, user in queue:
            node = view.node
            if self.body.home(node) is not None or node in self.states:
                continue
            mapping = {axis(a): e for a, e in enumerate(user)}
            index = tuple(simplify(substitute(e, mapping), self.body.current.known) for e in view.index)
            names = {v.attr for e in index for v in leaves(e, "var")}
            fixed = ALONG.attr in names and not names & moving
            if (node, index) in found or (view.domain is not None and not (fixed and self.inside(index, node))):
                continue  # outside its mask it may not even be defined
            found[node, index] = fixed
            if node.op in OPS and not kept(node, index, fixed):
                queue.extend((a, index) for a in node.args)
        return [(node, index, fixed) for (node, index), fixed in found.items()]

    def fades(self, node: Node, index: Point) -> bool:
        """Whether a value is exp(x - m) where m, a state, is the largest x, or 0 by a choice: the largest such value is 1."""
        while (k := {"cast": 0, "where": 1}.get(node.op)) is not None and node.args[k].is_identity and (not k or is_zero(node.args[2])):
            node = node.args[k].node
        if node.op not in ("exp", "exp2") or node.dtype not in FADED or node.args[0].node.op != "sub":
            return False
        known = self.body.current.known

        def at(view: View, user: Point) -> Point:
            mapping = {axis(a): e for a, e in enumerate(user)}
            return tuple(simplify(substitute(e, mapping), known) for e in view.index)

        x, m = node.args[0].node.args
        inner = at(node.args[0], index)
        largest = [k for k, s in enumerate(self.states) if s.op == "reduce" and s.attr.combiner == "max" and s.args[0].node is x.node]
        below = {n for n in self.pointwise(m.node) if n in self.states}
        return any(below == {self.states[k]} and (x.node, at(x, inner)) in [read[:2] for read in self.reads(k)] for k in largest)

    def pointwise(self, node: Node) -> list[Node]:
        """What a value is made of, pointwise, up to what is in memory or holds loops."""
        stack: list[Node] = [node]
        seen: dict[Node, None] = {}
        while stack:
            n = stack.pop()
            if n not in seen:
                seen[n] = None
                stack.extend(a.node for a in n.args if n.op in OPS and self.body.home(n) is None)
        return list(seen)

    def is_score(self, node: Node) -> bool:
        """Whether a value holds a reduction of its own, and no state."""
        stack, seen, holds = [node], set(), False
        while stack:
            n = stack.pop()
            if n in self.states:
                return False
            if n not in seen and self.body.home(n) is None:
                seen.add(n)
                holds = holds or n.op == "reduce"
                stack.extend(a.node for a in n.args if n.op in OPS)
        return holds

    def shared(self, score: Node, index: Point) -> bool:
        """Whether several rows read the same columns, so that a block of them has a use for register tiles; one row alone is worked off in vectors."""
        rows = {v.attr for e in self.rows for v in leaves(e, "var")}
        stack: list[tuple[Node, Point]] = [(score, index)]
        seen: set[tuple[Node, Point]] = set()
        while stack:
            n, at = stack.pop()
            if (n, at) in seen:
                continue
            seen.add((n, at))
            if self.body.home(n) is not None:
                names = {v.attr for e in at for v in leaves(e, "var")}
                if ALONG.attr in names and not rows <= names:
                    return True
            elif n.op in OPS or n.op == "reduce":
                mapping = {axis(k): e for k, e in enumerate((*at, *(var(f"%d{k}") for k in range(len(n.attr.extents)))))}
                stack += [(a.node, tuple(substitute(e, mapping) for e in a.index)) for a in n.args]
        return False

    def inside(self, index: Point, node: Node) -> bool:
        """Whether a position is inside the node wherever along the axis it is."""
        extent = self.extents[-1]
        known = self.body.current.known.with_ranges({ALONG.attr: (0, extent - 1, 1)})
        return all(prove_le(const(0), e, known) and prove_le(e, n - 1, known) for e, n in zip(index, node.shape, strict=True))
