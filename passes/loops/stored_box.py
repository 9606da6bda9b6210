"""The positions of a tensor that an event stores, where they are a box or every so many along an axis, and the node of a version that is a value in a box and what it was before beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...ir.bounds import Known
from ...ir.expr import ONE, ZERO, Expr, axis, both, const, floordiv, mod
from ...ir.graph import Node, Shape, View, condition_of, contiguous_node, elementwise, identity, node_of, truth
from ...ir.polynomial import coefficient, degree, expr as from_poly, poly
from ...ir.simplify import prove_equal, simplify
from ...ir.walks import postorder, substitute
from .loop_records import Event


def covering(event: Event, axes: list[Expr], boxes: Mapping[Expr, Expr], shape: Shape, known: Known) -> tuple[dict[Expr, Expr], Expr | None] | None:
    """The loop variables as functions of the position, and the positions that are stored (None: all of them), where they are a box; else None."""
    inverse: dict[Expr, Expr] = {}
    domain: Expr | None = None
    for d, (e, extent) in enumerate(zip(event.index, shape, strict=True)):
        inside = [v for v in axes if v in set(postorder(e))]
        slope, least, count = ONE, e, ONE
        if inside:
            p, v = poly(e), inside[0]
            if len(inside) != 1 or v in inverse or degree(p, v) != 1:
                return None
            slope, offset = (from_poly(x) for x in coefficient(p, v))
            if slope not in (ONE, const(-1)):
                return None
            count = boxes[v]  # negative for none: then the bounds of the box contradict each other
            least = offset if slope is ONE else offset + 1 - count
            inverse[v] = slope * (axis(d) - offset)
        if not prove_equal(least, ZERO, known):
            domain = both(domain, least.le(axis(d)))
        if not prove_equal(least + count, extent, known):
            domain = both(domain, axis(d).lt(least + count))
    return inverse, domain


class Turn(NamedTuple):
    """Which of every so many positions along an axis of a tensor are stored."""

    axis: int
    every: int
    first: int

    def shape(self, shape: Shape) -> Shape:
        """The tensor with a further axis behind that one: which of them."""
        return (*shape[: self.axis], floordiv(shape[self.axis], const(self.every)), const(self.every), *shape[self.axis + 1 :])

    def position(self, rank: int) -> tuple[Expr, ...]:
        """A position of the tensor, over the axes of that shape."""
        d = self.axis
        return (*map(axis, range(d)), axis(d) * self.every + axis(d + 1), *(axis(k + 1) for k in range(d + 1, rank)))

    def apart(self, rank: int) -> tuple[Expr, ...]:
        """The reverse."""
        d = self.axis
        return (*map(axis, range(d)), floordiv(axis(d), const(self.every)), mod(axis(d), const(self.every)), *(axis(k) for k in range(d + 1, rank)))


def in_turn(event: Event, axes: list[Expr], boxes: Mapping[Expr, Expr], shape: Shape, known: Known) -> tuple[dict[Expr, Expr], Turn] | None:
    """The loop variables over the shape of a turn, where every so many positions along one axis are stored, and all along the others; None elsewhere."""
    found: Turn | None = None
    inverse: dict[Expr, Expr] = {}
    for d, (e, extent) in enumerate(zip(event.index, shape, strict=True)):
        inside = [v for v in axes if v in set(postorder(e))]
        if len(inside) != 1 or inside[0] in inverse or degree(poly(e), inside[0]) != 1:
            return None
        (v,) = inside
        slope, offset = (from_poly(x) for x in coefficient(poly(e), v))
        if slope is ONE and offset is ZERO and prove_equal(boxes[v], extent, known):
            inverse[v] = axis(d if found is None else d + 1)
            continue
        if found is not None or not slope.is_const or not offset.is_const or not 0 <= offset.attr < slope.attr or slope.attr < 2:
            return None
        if not prove_equal(boxes[v] * slope, extent, known):
            return None
        found = Turn(d, slope.attr, offset.attr)
        inverse[v] = axis(d)
    return None if found is None else (inverse, found)


def turn_of(event: Event, turn: Turn, view: View, old: Node, shape: Shape, known: Known) -> Node:
    """Every so many positions are the value, the others as they were."""
    rank, own = len(shape), turn.shape(shape)
    condition = truth(axis(turn.axis + 1).eq(const(turn.first)))
    base = View(old, ()) if old.op == "const" else identity(old)
    if old.op == "contiguous":
        base = old.args[0]  # what is stored in turn is of one making
    mapping = dict(zip(map(axis, range(rank)), turn.position(rank), strict=True))
    inside = known.with_domain(own)
    base = View(
        base.node,
        tuple(simplify(substitute(e, mapping), inside) for e in base.index),
        None if base.domain is None else simplify(substitute(base.domain, mapping), inside),
        base.fill,
    )
    base = _without_rest(base, turn, {turn.first})
    made = elementwise("where", own, condition, view, base, span=event.span)
    return contiguous_node(View(made, turn.apart(rank)), shape, event.span)


def _without_rest(base: View, turn: Turn, stored: set[int]) -> View:
    """What is read beside the positions that are stored; where those that were stored before are all others, not what was there before them."""
    node = base.node
    if node.op != "where" or not base.is_identity or (chosen := condition_of(node.args[0])) is None:
        return base
    first = next((k for k in range(turn.every) if chosen is axis(turn.axis + 1).eq(const(k))), None)
    if first is None:
        return base
    stored = stored | {first}
    if len(stored) == turn.every:
        return node.args[1]
    rest = _without_rest(node.args[2], turn, stored)
    return base if rest is node.args[2] else identity(elementwise("where", node.shape, *node.args[:2], rest, span=node.span))


def box_of(event: Event, view: View, domain: Expr | None, old: Node, shape: Shape) -> Node:
    """A box of the tensor is the value, the rest as it was."""
    if old.op == "const" and view.domain is None:
        return contiguous_node(View(view.node, view.index, domain, old.attr.value), shape, event.span)
    base = View(old, ()) if old.op == "const" else identity(old)
    return elementwise("where", shape, truth(domain), View(view.node, view.index, both(domain, view.domain), view.fill), base, span=event.span)


def whole(view: View, shape: Shape) -> Node:
    """The view as a node of this shape."""
    return contiguous_node(view, shape) if view.node.op == "const" else node_of(view, shape)
