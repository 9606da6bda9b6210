"""Reductions over rows and columns of scores at once, as reductions of rows and of what these give, so that a row is a pass of its own and no scores are stored.

    Σ_ij f(s[i, j])                     →   Σ_i Σ_j f(s[i, j])
    e = exp(s[i, j] − max_ij s[i, j])   →   exp(s[i, j] − m[i]) · exp(m[i] − max_i m[i])        with m[i] = max_j s[i, j]

The second makes a softmax over two axes relative to the extremes of its rows, which a pass over a row has; what is left moves with the row alone and leaves its sums.  Of a row that is masked to its
end (m = −∞) exponentials are relative to 0, and 0.  Part of `cascade.py`, which is where sums may be reassociated.
"""

from __future__ import annotations

from ...ir.dtypes import f32, f64
from ...ir.expr import axis
from ...ir.graph import Graph, Node, View, elementwise, identity, reduce_node, rewrite
from .scores import pointwise_reads, spread
from .separate import EXPONENTIALS, guarded

SHORT = 16  # positions of a row that is no pass of its own: the taps of a filter, which `ask_after.py` sums with what is inside
_NOTHING = {"max": -float("inf"), "min": float("inf")}


def row_by_row(ir: Graph) -> Graph:
    """See the head of this file."""
    if not any(n.op == "reduce" and len(n.attr.extents) > 1 for n in ir.nodes()):
        return ir
    return rewrite(ir, lambda n: _of_rows(n) if n.op == "reduce" else _relative(n) if n.op in EXPONENTIALS else None)


def _of_rows(n: Node) -> Node | None:
    """A reduction over several axes of scores that move with more than one of them, the last one first.  Sums of small floats would be rounded for each row."""
    extents, exact = n.attr.extents, n.attr.combiner in _NOTHING and n.dtype.is_float
    if len(extents) < 2 or (extents[-1].is_const and extents[-1].attr <= SHORT) or not (exact or n.dtype in (f32, f64)):
        return None
    along, others = axis(n.rank + len(extents) - 1), {axis(n.rank + k) for k in range(len(extents) - 1)}
    if not any(v.node.op == "reduce" and along in v.index and others.intersection(v.index) and spread(v.node) for v in pointwise_reads(n)):
        return None
    inner = reduce_node(n.attr.combiner, (*n.shape, *extents[:-1]), extents[-1:], n.args[0], n.span)
    return reduce_node(n.attr.combiner, n.shape, extents[:-1], identity(inner), n.span)


def _relative(n: Node) -> Node | None:
    """exp(x − M), where M is the extreme of the extremes of all rows of x."""
    difference = n.args[0]
    if difference.node.op != "sub" or not difference.is_identity or difference.node.shape != n.shape:
        return None
    x, largest = difference.node.args
    whole = largest.node
    if whole.op != "reduce" or whole.attr.combiner not in _NOTHING or not _plain(whole) or largest.domain is not None or x.domain is not None:
        return None
    row = whole.args[0].node
    if row.op != "reduce" or row.attr.combiner != whole.attr.combiner or not _plain(row) or row.args[0].node is not x.node:
        return None
    if len(row.attr.extents) != 1 or x.index[: whole.rank] != largest.index:
        return None
    own = View(row, x.index[:-1])
    anchor = guarded(own, _NOTHING[row.attr.combiner], frozenset())
    inner = elementwise(n.op, n.shape, identity(elementwise("sub", n.shape, x, anchor)), span=n.span)
    below = elementwise("sub", row.shape, identity(row), View(whole, tuple(axis(k) for k in range(whole.rank))))
    return elementwise("mul", n.shape, identity(inner), View(elementwise(n.op, row.shape, identity(below)), own.index), span=n.span)


def _plain(n: Node) -> bool:
    """Whether a reduction is over the last axes of what it reads, as that lies."""
    a = n.args[0]
    return a.is_all((*n.shape, *n.attr.extents))
