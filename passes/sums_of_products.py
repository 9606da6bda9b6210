"""Sums of products of sums, as one sum of a product of many factors (`reassociate.py` and `in_chunks.py` say what for).

    Σ_j ([c(i, j)] Σ_d q[i, d] · k[j, d]) · v[j, e]        →        Σ_j Σ_d [c(i, j)] q[i, d] · k[j, d] · v[j, e]

Conditions: nobody else reads the sums inside; factors are made of what lies in memory, pointwise, so none of them is computed with much work at each point; numbers of 32 bits and more, since another
order rounds other sums.  A sum of integers that is made a float is one of floats where each of its values, however they are added up, is a float exactly (blocks of bytes that have a scale each):

    Σ_b (float)(Σ_i a[m, b, i] · w[n, b, i]) · s[m, b] · t[n, b]        →        Σ_b Σ_i (float)a[m, b, i] · (float)w[n, b, i] · s[m, b] · t[n, b]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..ir import polynomial as pl
from ..ir.dtypes import DType
from ..ir.expr import Expr, axis, product
from ..ir.graph import Graph, Node, Shape, View, elementwise, identity, users
from ..ir.polynomial import Poly
from ..ir.walks import leaves
from .magnitudes import magnitude
from .reading import reads_of

FACTORS = 5  # more have too many orders
IN_MEMORY = frozenset({"input", "const", "iota", "contiguous", "gather"})


class Factor(NamedTuple):
    view: View  # over all axes of the product
    axes: frozenset[int]


class Product(NamedTuple):
    """A sum of a product of many factors, over the axes of the sum outside followed by all that are summed."""

    node: Node
    extents: Shape
    factors: tuple[Factor, ...]  # that have axes
    scale: tuple[View, ...]  # that have none
    conditions: tuple[Expr, ...]  # where one does not hold, nothing is added
    inside: tuple[Node, ...]  # the sums that were written out
    through: frozenset[Node]  # these, and the products on the way

    @property
    def kept(self) -> frozenset[int]:
        return frozenset(range(self.node.rank))

    def points(self, axes: Iterable[int]) -> Poly:
        return pl.poly(product(self.extents[a] for a in sorted(axes)))

    def wanted(self, of: Collection[int]) -> frozenset[int]:
        """The axes that are wanted of a product of some factors: those of the result and of the other factors."""
        return self.kept.union(*(f.axes for k, f in enumerate(self.factors) if k not in of))


def products(ir: Graph, integers: bool = False) -> list[Product]:
    """The sums that may be multiplied in another order.  Whoever reads a sum inside is such a sum too, so that nobody wants it as it is then.  `integers`: also those of which a sum inside is one of integers."""
    readers = users(ir)
    wanted = {n for _, n in ir.outputs}
    sums = [n for n in reversed(ir.nodes()) if n.op == "reduce" and n.attr.combiner == "add" and n.dtype.kind != "bool" and n.dtype.bits >= 32]
    while True:
        found: dict[Node, Product] = {}
        within: set[Node] = set()
        for n in sums:
            p = None if n in within else _product(n, wanted, integers)
            if p is not None:
                found[n] = p
                within |= p.through
        others = {n for n in within if any(m not in within and m not in found for m, _ in readers[n])}
        if not others:
            return [*found.values()]
        wanted |= others


def groups(products: Iterable[Product]) -> list[list[Product]]:
    """Those that share a sum inside, together."""
    groups: list[list[Product]] = []
    for p in products:
        same = [g for g in groups if any(not set(p.inside).isdisjoint(q.inside) for q in g)]
        groups = [g for g in groups if g not in same] + [[p, *(q for g in same for q in g)]]
    return groups


def _product(n: Node, wanted: Collection[Node], integers: bool) -> Product | None:
    """A sum with the sums inside of it written out, but for those that are wanted as they are; None where there is nothing to choose."""
    extents = [*n.shape, *n.attr.extents]
    views: list[View] = []
    inside: list[Node] = []
    through: set[Node] = set()
    conditions: list[Expr] = []
    stack = [n.args[0]]
    while stack:
        v = stack.pop()
        m = v.node
        if v.domain is not None and v.fill == 0 and m.op in ("mul", "reduce"):
            conditions.append(v.domain)
            v = View(m, v.index)
        if m.op == "mul" and v.domain is None and m.dtype is n.dtype and m not in wanted:
            through.add(m)
            stack.extend(reversed(v.operands))
        elif m.op == "reduce" and m.attr.combiner == "add" and m.dtype is n.dtype and m not in wanted and _whole(v, extents):
            inside.append(m)
            through.add(m)
            stack.append(_summed(v, extents))
        elif integers and m.op == "cast" and n.dtype.is_float and _exact_sum(m, n.dtype, wanted) and _whole(v.operands[0], extents):
            (v,) = v.operands
            inside.append(v.node)
            found = _floats(_summed(v, extents), n.dtype, wanted)
            through.update((m, v.node, *found.products))
            views += found.factors
        else:
            views.append(v)
    factors = [Factor(v, frozenset(v.axes)) for v in views]
    with_axes = tuple(f for f in factors if f.axes)
    if (
        not (inside or (len(with_axes) > 2 and not conditions))
        or not 1 < len(with_axes) <= FACTORS
        or any(r.node.op not in IN_MEMORY for v in views for r in reads_of(v))
    ):
        return None
    if frozenset().union(*(f.axes for f in with_axes)) != frozenset(range(len(extents))):
        return None
    scale = tuple(f.view for f in factors if not f.axes)
    return Product(n, tuple(extents), with_axes, scale, tuple(conditions), tuple(inside), frozenset(through))


def _summed(v: View, extents: list[Expr]) -> View:
    """What a sum adds up, over the axes of its user and its own, which are added to them."""
    m, first = v.node, len(extents)
    extents.extend(m.attr.extents)
    return m.args[0].through(v.places | {axis(m.rank + k): axis(first + k) for k in range(len(m.attr.extents))})


def _exact_sum(m: Node, to: DType, wanted: Collection[Node]) -> bool:
    """Whether a cast to a float is of a sum of integers of which no part, and no value that it is made of, is rounded or wraps."""
    s = m.args[0].node
    if m in wanted or s.op != "reduce" or s.attr.combiner != "add" or not s.dtype.is_integer or s in wanted:
        return False
    count, largest = product(s.attr.extents), magnitude(s.args[0])
    return count.is_const and largest is not None and count.attr * largest <= min(2 / to.epsilon, s.dtype.max)


class _Floats(NamedTuple):
    factors: list[View]
    products: list[Node]


def _floats(v: View, to: DType, wanted: Collection[Node]) -> _Floats:
    """The factors of an integer, each as a float."""
    found = _Floats([], [])
    stack = [v]
    while stack:
        x = stack.pop()
        m = x.node
        if m.op == "mul" and x.domain is None and m not in wanted:
            found.products.append(m)
            stack.extend(reversed(x.operands))
            continue
        if m.op == "cast" and x.domain is None:
            (x,) = x.operands  # what is in range is the same number in each dtype
            m = x.node
        as_float = elementwise("cast", m.shape, identity(m), to=to, span=m.span)
        found.factors.append(View(as_float, x.index, x.domain, float(x.fill)))
    return found


def _whole(v: View, extents: Iterable[Expr]) -> bool:
    """Whether a view reads each element at axes of its user, another for each of its own."""
    own = [*extents]
    return (
        v.domain is None
        and len(set(v.index)) == len(v.index)
        and all(e.op == "axis" and own[e.attr] is m for e, m in zip(v.index, v.node.shape, strict=True))
    )


def as_it_lies(v: View) -> tuple[int, ...]:
    """The axes of a factor, in the order in which it lies in memory."""
    return tuple(dict.fromkeys(a.attr for e in v.exprs for a in sorted(leaves(e, "axis"), key=lambda a: a.attr)))
