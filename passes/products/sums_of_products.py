"""Sums of products of sums, as one sum of a product of many factors (`reassociate.py` and `in_chunks.py` say what for).

    Σ_j ([c(i, j)] Σ_d q[i, d] · k[j, d]) · v[j, e]        →        Σ_j Σ_d [c(i, j)] q[i, d] · k[j, d] · v[j, e]

Conditions: nobody else reads the sums inside; factors are made of what lies in memory, pointwise, so none of them is computed with much work at each point; numbers of 32 bits and more, since another
order rounds other sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ...ir import polynomial as pl
from ...ir.expr import Expr, axis, product
from ...ir.graph import Graph, Node, Shape, View, users
from ...ir.polynomial import Poly
from ...ir.walks import leaves
from ..reading import reads_of

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


def products(ir: Graph) -> list[Product]:
    """The sums that may be multiplied in another order.  Whoever reads a sum inside is such a sum too, so that nobody wants it as it is then."""
    readers = users(ir)
    wanted = {n for _, n in ir.outputs}
    sums = [n for n in reversed(ir.nodes()) if n.op == "reduce" and n.attr.combiner == "add" and n.dtype.kind != "bool" and n.dtype.bits >= 32]
    while True:
        found: dict[Node, Product] = {}
        within: set[Node] = set()
        for n in sums:
            p = None if n in within else _product(n, wanted)
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


def _product(n: Node, wanted: Collection[Node]) -> Product | None:
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
            first = len(extents)
            extents.extend(m.attr.extents)
            mapping = v.places | {axis(m.rank + k): axis(first + k) for k in range(len(m.attr.extents))}
            inside.append(m)
            through.add(m)
            stack.append(m.args[0].through(mapping))
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
