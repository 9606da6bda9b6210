"""graph → graph: a sum of scaled sums of blocks is one sum of products of two operands, each with its scales.

    y[m, n] = Σ_b s[m, b] · t[n, b] · Σ_i a[m, b, i] · w[n, b, i]        →        Σ_b Σ_i (s[m, b] · a[m, b, i]) · (t[n, b] · w[n, b, i])

Numbers in blocks that have a scale each (GGML's, GPTQ's) are multiplied so.  What is left is a contraction: read in tiles of rows and columns, or packed, and scaled while it is.  Sums of each block would be
put together for each pair of a row and a column.

Conditions: nobody else reads the sums inside, whose lengths are constants; two factors have all that is summed, each an axis that the other has not, and every other factor goes with one of them.  Sums of
integers stay as they are: they are exact.  Sums are reassociated: not under --strict.
"""

from __future__ import annotations

from ..ir.expr import axis
from ..ir.graph import Graph, Node, View, elementwise, identity, reduce_node
from ..ir.target import Options, Target
from .products.by_sizes import replaced
from .products.sums_of_products import Product, as_it_lies, products


def merge_sums(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    better = {p.node: one for p in products(ir) if (one := _one_sum(p)) is not None}
    return replaced(ir, better) if better else ir


def _one_sum(p: Product) -> Node | None:
    summed = frozenset(range(len(p.extents))) - p.kept
    sides = [f for f in p.factors if summed <= f.axes]
    if len(sides) != 2 or not p.inside or p.conditions or not all(e.is_const for m in p.inside for e in m.attr.extents):
        return None
    a, b = (f.axes for f in sides)
    scales: tuple[list[View], list[View]] = [], []
    for f in p.factors:
        if f not in sides:
            if not f.axes <= a and not f.axes <= b:
                return None
            scales[0 if f.axes <= a else 1].append(f.view)
    if a <= b or b <= a:
        return None
    views = [_scaled(p, f.view, by) for f, by in zip(sides, scales, strict=True)]
    value = identity(elementwise("mul", p.extents, *views, span=p.node.span))
    result = reduce_node("add", p.node.shape, p.extents[p.node.rank :], value, p.node.span)
    for v in p.scale:
        result = elementwise("mul", result.shape, identity(result), v, span=p.node.span)
    return result


def _scaled(p: Product, v: View, scales: list[View]) -> View:
    """A factor times its scales, over the axes of the product."""
    axes = as_it_lies(v)
    within = {axis(a): axis(k) for k, a in enumerate(axes)}
    for scale in scales:
        node = elementwise("mul", tuple(p.extents[a] for a in axes), v.through(within), scale.through(within), span=p.node.span)
        v = View(node, tuple(map(axis, axes)))
    return v
