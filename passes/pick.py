"""graph → graph: a sum over an axis of which one position counts is a gather, and a sum that goes to one position of an axis a scatter.

    Σ over v of [I[n] = v] · E[v, d]   →   E[I[n], d], or 0 where I[n] is no position       (one-hot rows times a table, the logit of a label)
    Σ over n of [I[n] = v] · G[n, d]   →   zeros, and each G[n, d] added at (I[n], d)       (their gradients, sums of groups)

    %2 = equal bool[N, V] %0[$0] %1[$1]                    %2 = where(0 <= I & I < V, I, V)
    %3 = cast f32[N, V] %2                             →   %6 = gather f32[N, D] over [V + 1, D] %4[$0, $1] if $0 < V else 0 %2[$0] iota $1
    %5 = mul f32[N, D, V] %3[$0, $2] %4[$2, $1]
    %6 = reduce.add f32[N, D] over [V] %5

`[c]` is a condition cast to a number as a factor, or a `where` with 0 as its other branch.  What stands there may be computed, elementwise, from tensors in memory; anything dearer is left as it is.
An index that is no position reads a row of zeros behind the last one (is added to one that nobody reads), so nothing is checked at run time.

Conditions: the index does not depend on the axis, and of the axis it is compared with its position.  A product with a zero of a one-hot row counts as zero, so not under --strict where it is
a product.  Scatters add in the dtype of the result, in order: not for floats of 16 bits and fewer, and not on a GPU, where one row would wait for the other.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.dtypes import INDEX, DType, bool_
from ..ir.expr import ZERO, Expr, axis, const
from ..ir.graph import (
    Graph,
    Node,
    Shape,
    View,
    const_node,
    contiguous_node,
    elementwise,
    gather_node,
    identity,
    iota_node,
    node_of,
    reduce_node,
    rewrite,
    scatter_node,
)
from ..ir.primops import OPS
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .reading import factors, reads_of

FEW = 16  # elements of an axis, as a constant: so few sums of numbers are better kept side by side than added to in turn; of rows, which are vectors either way, one of two is added to in less (20000 of 64 0.75, one of 16 0.2 of the time)
IN_MEMORY = frozenset({"input", "contiguous", "gather", "scatter", "update", "scan"})


class _Pick(NamedTuple):
    """A factor that is 0 but where `at` is the position along an axis, and what it is there (None: 1)."""

    at: View
    along: int
    value: View | None


def pick(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    return rewrite(ir, lambda n: _picked(n, target, options) if n.op == "reduce" and n.attr.combiner == "add" else None)


def _picked(node: Node, target: Target, options: Options) -> Node | None:
    terms = factors(node.args[0])
    domain = (*node.shape, *node.attr.extents)
    for k, factor in enumerate(terms):
        found = _pick(factor)
        if found is None or (options.strict and (len(terms) > 1 or found.value is None)):
            continue
        rest = [*terms[:k], *([] if found.value is None else [found.value]), *terms[k + 1 :]]
        made = _gathered(node, found, rest, domain) if found.along >= node.rank else None
        if made is None and found.along < node.rank and not target.gpu and (node.dtype.is_integer or node.dtype.bits >= 32):
            made = _scattered(node, found, rest, domain)
        if made is not None:
            return made
    return None


def _pick(v: View) -> _Pick | None:
    value = None
    if v.domain is not None:
        return None
    if v.node.op == "cast" and v.node.args[0].dtype is bool_:
        (condition,) = v.operands
    elif v.node.op == "where":
        condition, value, other = v.operands
        if other.node.op != "const" or other.domain is not None or other.node.attr.value != 0:
            return None
    else:
        return None
    if condition.node.op != "equal" or condition.domain is not None:
        return None
    a, b = condition.operands
    for index, place in ((a, b), (b, a)):
        at = _position(place)
        if at is not None and at.op == "axis" and index.dtype.is_integer and at.attr not in index.axes:
            return _Pick(index, at.attr, value)
    return None


def _position(v: View) -> Expr | None:
    """What positions a value is made of alone."""
    while v.domain is None and v.node.op == "cast" and v.dtype.is_integer and v.dtype.bits >= 32:
        (v,) = v.operands
    if v.node.op != "iota" or v.domain is not None:
        return None
    return View(v.node, (), v.node.attr.expr).through(v.places).domain


def _number(value: int, dtype: DType) -> Node:
    return const_node(const(value, dtype).attr, dtype)


def _valid(pick: _Pick, extent: Expr, shape: Shape) -> tuple[Node, Node]:
    """Whether the index is a position, and the index, `extent` where it is none; over `shape`."""
    index = pick.at if pick.at.dtype is INDEX else identity(elementwise("cast", shape, pick.at, to=INDEX))
    last = View(iota_node(extent, ()), ())
    from_zero = elementwise("less_equal", shape, View(iota_node(ZERO, ()), ()), index)
    to_end = elementwise("less_than", shape, index, last)
    valid = elementwise("bit_and", shape, identity(from_zero), identity(to_end))
    return valid, elementwise("where", shape, identity(valid), index, last)


def _gathered(node: Node, pick: _Pick, rest: list[View], domain: Shape) -> Node | None:
    """Without the axis, each factor read at the index."""
    r = pick.along
    left = [k for k in range(len(domain)) if k != r]
    places = {axis(k): axis(new) for new, k in enumerate(left)}
    shape = tuple(domain[k] for k in left)
    valid, index = _valid(pick._replace(at=pick.at.through(places)), domain[r], shape)
    made = [_at(v, r, places, shape, identity(index), domain[r]) for v in rest]
    found = [v for v in made if v is not None]
    if len(found) < len(made):
        return None
    one = View(_number(1, node.dtype), ())
    value = found[0] if found else one
    for v in found[1:]:
        value = identity(elementwise("mul", shape, value, v, span=node.span))
    if not any(v.node.op == "gather" for v in found):  # those are 0 behind the end
        value = identity(elementwise("where", shape, identity(valid), value, View(_number(0, node.dtype), ()), span=node.span))
    reduced = tuple(domain[k] for k in left if k >= node.rank)
    if reduced:
        return reduce_node("add", node.shape, reduced, value, node.span)
    return node_of(value, node.shape, node.span)


def _at(v: View, r: int, places: dict[Expr, Expr], shape: Shape, index: View, extent: Expr) -> View | None:
    """A value at the index in place of the position along axis r; None where it would have to be computed anew for that."""
    if r not in v.axes:
        return v.through(places)
    if v.domain is not None:
        return None
    if v.node.op in OPS:
        args = [_at(a, r, places, shape, index, extent) for a in v.operands]
        found = [a for a in args if a is not None]
        return identity(elementwise(v.node.op, shape, *found, to=v.dtype, span=v.node.span)) if len(found) == len(args) else None
    moving = [k for k, e in enumerate(v.index) if any(a.attr == r for a in leaves(e, "axis"))]
    if v.node.op not in IN_MEMORY or len(moving) != 1 or v.index[moving[0]] is not axis(r):
        return None
    (k,) = moving
    table = View(v.node, tuple(axis(j) for j in range(v.node.rank)), axis(k).lt(extent), 0)
    extents = tuple(extent + 1 if j == k else e for j, e in enumerate(v.node.shape))
    own = v.through(places)
    at = tuple(index if j == k else identity(iota_node(e, shape)) for j, e in enumerate(own.index))
    return identity(gather_node(table, extents, at, shape, v.node.span))


def _scattered(node: Node, pick: _Pick, rest: list[View], domain: Shape) -> Node | None:
    """Each term added where its index says, behind the end where that is no position."""
    r, reduced = pick.along, set(range(node.rank, len(domain)))
    if domain[r].is_const and domain[r].attr <= FEW and not _rows(rest, node.rank):
        return None
    if any(r in v.axes for v in rest) or not reduced or not reduced & pick.at.axes:
        return None
    left = [*(k for k in range(len(domain)) if k in reduced), *(k for k in range(node.rank) if k != r)]
    places = {axis(k): axis(new) for new, k in enumerate(left)}
    shape = tuple(domain[k] for k in left)
    _, index = _valid(pick._replace(at=pick.at.through(places)), domain[r], shape)
    value = View(_number(1, node.dtype), ())
    for k, v in enumerate(rest):
        value = v.through(places) if k == 0 else identity(elementwise("mul", shape, value, v.through(places), span=node.span))
    extents = tuple(e + 1 if k == r else e for k, e in enumerate(node.shape))
    at = tuple(identity(index) if k == r else identity(iota_node(places[axis(k)], shape)) for k in range(node.rank))
    total = scatter_node("add", View(_number(0, node.dtype), ()), value, at, shape, extents, node.span)
    return contiguous_node(identity(total), node.shape, node.span)


def _rows(terms: list[View], rank: int) -> bool:
    """Whether some of what is added lies in memory along an axis of the result."""
    found = [v.index[-1] for t in terms for v in reads_of(t) if v.index and v.node.op in IN_MEMORY]
    return any(e.op == "axis" and e.attr < rank for e in found)


__all__ = ["pick"]
