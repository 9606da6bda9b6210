"""Reductions whose bodies are polynomials in earlier reductions over their axis: finitely many sums around a point that moves.

    m = Σ x / N,  v = Σ (x − m)²              →      around r, the mean of what was seen so far:  M₀ = Σ (x − r)²,  M₁ = Σ −2 (x − r),  M₂ = Σ 1

A polynomial f(x, r) is its Taylor series around any r: Σ f(x, r′) = Σ_k M_k · (r′ − r)^k with M_k = Σ ∂^k f / ∂r^k (x, r) / k!.  So when r moves to r′, what the sums have of
earlier tiles moves with it, and what they get from a new tile is computed at r′:

    M₀ ← M₀ + M₁ · (r′ − r) + M₂ · (r′ − r)² + Σ over the tile of (x − r′)²

At the end r′ is what the reduction was defined with.  Differences are taken before they are squared, so nothing cancels that does not in two passes.  (For the variance this is the update of
Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979; there M₁ = 0 but for rounding.)  The number of elements stands in a mean
as the size N; in r it is what was `reached`.

The R values that a body is a polynomial in are its *points*; with several, a sum has an order in each.
"""

from __future__ import annotations

import math
from itertools import product

from ...ir.dtypes import INDEX, DType
from ...ir.expr import Expr, axis
from ...ir.graph import (
    Node,
    Shape,
    View,
    const_node,
    elementwise,
    identity,
    iota_node,
    make,
    postorder,
    previous_node,
    reached_node,
    reduce_node,
    scalar,
    with_operands,
)
from ...ir.primops import OPS
from ...ir.record import record
from ..rules.pattern import same_view
from ..walk import Walk, run
from .separate import EXPONENTIALS, Axes, Body, Mixed, moves

DEGREE = 4  # in all points together
SUMS = 8
POINTS = 4

Order = tuple[int, ...]  # of a derivative, in each point
Value = float | View  # over the domain of a body


@record
class Moments:
    """The sums that stand for one reduction."""

    points: tuple[View, ...]  # over the kept axes
    sums: dict[Order, Node]  # reductions; of order 0 is the one that they stand for
    counted: dict[Order, Value]  # the sums of what is the same at every position: a number for each
    extents: Shape


def moments(n: Node, body: Body) -> Moments:
    """The sums for a reduction whose exponents are separated already.  Mixed where its body is no polynomial, or has too many of them."""
    found = _Polynomial(n, body)
    whole, points = found.around_points()
    if not 1 <= len(points) <= POINTS:
        raise Mixed(f"a body is a polynomial in more than {POINTS} values")
    zero = (0,) * len(points)
    derivatives: dict[Order, Value] = {zero: whole}
    sums: dict[Order, Node] = {}
    counted: dict[Order, Value] = {}
    for order in sorted(product(range(DEGREE + 2), repeat=len(points)), key=lambda o: (sum(o), o)):
        if order != zero:
            k = max(j for j, o in enumerate(order) if o)  # by the last point, of the derivative that has one order less in it
            lower = derivatives.get((*order[:k], order[k] - 1, *order[k + 1 :]), 0.0)
            derivatives[order] = run(found.derivative(lower, points[k])) if isinstance(lower, View) else 0.0
        d = derivatives[order]
        if d == 0.0:
            continue
        if sum(order) > DEGREE:
            raise Mixed(f"a body is a polynomial of a degree above {DEGREE} in an earlier reduction")
        d = found.times(1 / math.prod(map(math.factorial, order)), d)
        if not isinstance(d, View) or not (moves(d, found.varying) or body.has_r(d.node)):
            counted[order] = d
        else:
            sums[order] = reduce_node("add", n.shape, n.attr.extents, d, n.span)
    if zero not in sums or len(sums) > SUMS:
        raise Mixed("a body is a polynomial of too many terms")
    return Moments(tuple(points), sums, counted, n.attr.extents)


def addition(m: Moments, order: Order, rows: Shape, places: tuple[int, ...], earlier: frozenset[Node]) -> View:
    """What a sum over earlier tiles gets when the points move: Σ over higher orders, each with the binomial coefficients and the powers of the differences.  Nothing before the first tile."""
    to_rows = {axis(a): axis(j) for j, a in enumerate(places)}
    dtype = m.sums[order].dtype
    before_tile = previous_node(reached_node(m.extents))
    differences = []
    for p in m.points:
        now = p.through(to_rows)
        differences.append(identity(elementwise("sub", rows, now, View(before(now.node, earlier), now.index))))
    total: View | None = None
    for higher in (*m.sums, *m.counted):
        powers = tuple(h - o for h, o in zip(higher, order, strict=True))
        if min(powers) < 0 or not any(powers):
            continue
        if higher in m.sums:
            term = identity(previous_node(m.sums[higher])).through(to_rows)
        else:
            each = m.counted[higher]
            count = scalar(elementwise("cast", (), scalar(before_tile), to=dtype))
            weight = each.through(to_rows) if isinstance(each, View) else _number(each, dtype)
            term = count if each == 1 else identity(elementwise("mul", rows, weight, count))
        factor = math.prod(math.comb(h, o) for h, o in zip(higher, order, strict=True))
        if factor != 1:
            term = identity(elementwise("mul", rows, term, _number(float(factor), dtype)))
        for difference, power in zip(differences, powers, strict=True):
            for _ in range(power):
                term = identity(elementwise("mul", rows, term, difference))
        total = term if total is None else identity(elementwise("add", rows, total, term))
    if total is None:
        return _number(0.0, dtype)
    first = elementwise("equal", (), scalar(before_tile), scalar(const_node(0, INDEX)))
    return identity(elementwise("where", rows, scalar(first), _number(0.0, dtype), total))


def before(node: Node, earlier: frozenset[Node]) -> Node:
    """The node with its earlier reductions, and what was reached, as they were one tile before."""
    done: dict[Node, Node] = {}
    for n in postorder(node):
        if n in earlier or n.op == "reached":
            done[n] = previous_node(n)
        else:
            done[n] = with_operands(n, done) if n.op in OPS else n
    return done[node]


def _number(value: float, dtype: DType) -> View:
    return scalar(const_node(value, dtype))


def _folded(v: Value) -> Value:
    return float(v.node.attr.value) if isinstance(v, View) and v.node.op == "const" and v.domain is None else v


class _Polynomial:
    """A body as an expression in its points, over its whole domain."""

    def __init__(self, n: Node, body: Body) -> None:
        self.n, self.body = n, body
        self.shape = n.shape + n.attr.extents
        self.varying: Axes = frozenset(axis(n.rank + k) for k in range(len(n.attr.extents)))
        self.points: list[View] = []
        self.done: dict[tuple[Node, Shape], View] = {}

    def around_points(self) -> tuple[View, list[View]]:
        """The body with each point as it is of what was reached, and the points."""
        return run(self.rebuilt(self.n.args[0])), self.points

    def rebuilt(self, view: View) -> Walk:
        node = view.node
        if not self.body.has_r(node) or (node.op in EXPONENTIALS and moves(view, self.varying)):
            return view
        key = (node, view.index)
        if key not in self.done:
            if not moves(view, self.varying):
                self.done[key] = self.point(view)
            else:
                if view.domain is not None:
                    raise Mixed("an earlier reduction is read under a mask")
                args = []
                for a in view.operands:
                    args.append((yield self.rebuilt(a)))
                self.done[key] = identity(make(node.op, node.dtype, self.shape, tuple(args), node.attr, node.span))
        return self.done[key]

    def point(self, view: View) -> View:
        (extent,) = self.n.attr.extents
        done: dict[Node, Node] = {}
        for n in postorder(view.node):
            if n.op == "iota" and n.attr.expr is extent:
                done[n] = reached_node((extent,))
            else:
                done[n] = with_operands(n, done) if n.op in OPS else n
        found = View(self.finite(done[view.node], extent), view.index)
        if not any(same_view(p, found) for p in self.points):
            self.points.append(found)
        return found

    def finite(self, u: Node, extent: Expr) -> Node:
        """A point, or 0 where it is not finite yet: any point will do until the end is reached, but 0 / 0 of the weights so far would spoil the sums.  A mean of what was reached cannot be."""
        if all(self.tame(n) for n in postorder(u)):
            return u
        difference = elementwise("sub", u.shape, identity(u), identity(u))
        known = elementwise("equal", u.shape, identity(difference), _number(0.0, u.dtype))
        end = elementwise("equal", (), scalar(reached_node((extent,))), scalar(iota_node(extent, ())))
        use = elementwise("bit_or", u.shape, identity(known), scalar(end))
        return elementwise("where", u.shape, identity(use), identity(u), _number(0.0, u.dtype))

    def tame(self, n: Node) -> bool:
        if n in self.body.earlier:
            return n.attr.combiner == "add"
        return n.op not in OPS or n.op in ("add", "sub", "mul", "neg", "cast") or (n.op == "div" and not self.body.has_r(n.args[1].node))

    def derivative(self, view: View, point: View) -> Walk:
        """By one point; the exponentials have their own corrections, and count as fixed."""
        node = view.node
        if same_view(view, point):
            return 1.0
        if not self.body.has_r(node) or not moves(view, self.varying) or node.op in EXPONENTIALS:
            return 0.0
        args = view.operands
        if node.op == "where" and not self.body.has_r(args[0].node):
            a, b = (yield self.derivative(args[1], point)), (yield self.derivative(args[2], point))
            if a == b and not isinstance(a, View):
                return a
            return identity(elementwise("where", self.shape, args[0], self.view(a, node.dtype), self.view(b, node.dtype)))
        if node.op == "div" and not self.body.has_r(args[1].node):
            d = yield self.derivative(args[0], point)
            return d if d == 0.0 else identity(elementwise("div", self.shape, self.view(d, node.dtype), args[1]))
        if node.op == "cast" and node.dtype.is_float and args[0].dtype.is_float:
            d = yield self.derivative(args[0], point)
            return identity(elementwise("cast", self.shape, d, to=node.dtype)) if isinstance(d, View) else d
        if node.op == "neg":
            return self.times(-1.0, (yield self.derivative(args[0], point)))
        if node.op in ("add", "sub"):
            a, b = (yield self.derivative(args[0], point)), (yield self.derivative(args[1], point))
            return self.plus(a, b if node.op == "add" else self.times(-1.0, b))
        if node.op == "mul":
            a, b = (yield self.derivative(args[0], point)), (yield self.derivative(args[1], point))
            return self.plus(self.times(a, args[1]), self.times(b, args[0]))
        raise Mixed(f"`{node.op}` mixes what varies along the axis with an earlier reduction over it")

    # ---- values, of which numbers stay numbers

    def view(self, v: Value, dtype: DType) -> View:
        return v if isinstance(v, View) else _number(v, dtype)

    def plus(self, a: Value, b: Value) -> Value:
        a, b = _folded(a), _folded(b)
        if not isinstance(a, View):
            if not isinstance(b, View):
                return a + b
            a, b = b, a
        if isinstance(b, View):
            return self.times(2.0, a) if same_view(a, b) else identity(elementwise("add", self.shape, a, b))
        return identity(elementwise("add", self.shape, a, _number(b, a.dtype))) if b else a

    def times(self, a: Value, b: Value) -> Value:
        a, b = _folded(a), _folded(b)
        if not isinstance(b, View):
            if not isinstance(a, View):
                return a * b
            a, b = b, a
        if isinstance(a, View):
            return identity(elementwise("mul", self.shape, a, b))
        if a in (0.0, 1.0):
            return b if a else 0.0
        return identity(elementwise("neg", self.shape, b) if a == -1 else elementwise("mul", self.shape, b, _number(a, b.dtype)))
