"""graph → graph: sums of products of sums are multiplied in the order that takes the fewest operations.

    y[i] = Σ_k (Σ_j a[i, j] · b[j, k]) · c[k]              →    t[j] = Σ_k b[j, k] · c[k];   y[i] = Σ_j a[i, j] · t[j]
    o[i, e] = Σ_j (Σ_d q[i, d] · k[j, d]) · v[j, e]        →    the same or Σ_d q[i, d] · (Σ_j k[j, d] · v[j, e]), whichever is less
    s[k] = Σ_i Σ_j a[i, j] · b[j, k]                       →    Σ_j (Σ_i a[i, j]) · b[j, k]

Sums inside of a sum of products are written out, which gives one sum of a product of many factors.  Each order of multiplying two at a time has a cost, the points of all its products, a polynomial in
the sizes: an axis is summed as soon as no other factor has it, and alone where one factor has it.  The order that is written is left where another costs less by more than a constant.  Where that
depends on the sizes, both are there, and the sizes choose at run time; there is no memory for what is not used.  (That is the matrix chain problem; for einsum see Daniel and Gray, "opt_einsum", 2018.)

Conditions: nobody else reads the sums inside; factors are made of what lies in memory, pointwise, so none of them is computed with much work at each point; numbers of 32 bits and more, since an order
of its own rounds other sums.  Sums are reassociated: not under --strict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

from ..ir import polynomial as pl
from ..ir.bounds import Known
from ..ir.contraction_order import kept_names
from ..ir.expr import FALSE, TRUE, Expr, axis, both, call, product
from ..ir.graph import Graph, Node, View, elementwise, identity, make, postorder, real_node, reduce_node
from ..ir.polynomial import Monomial, Poly
from ..ir.record import replace
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from ..ir.text.expressions import show_expr
from .products.by_sizes import BySizes, by_sizes, extents_where, replaced
from .products.in_chunks import in_chunks
from .products.sums_of_products import Product, as_it_lies, groups, products

SHORT, LONG = 16, 2048  # sizes that orders are compared at where neither is always less
MOST_SIZES = 256  # so many of their combinations
WORTH = 0.8  # of the operations that are written

Order = int | tuple["Order", "Order"]


def reassociate(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    better: dict[Node, Node | BySizes] = {}
    for group in groups(products(ir)):
        if any(p.conditions for p in group):
            better |= {} if target.gpu else in_chunks(group, known)
        else:
            better |= _better(group, known, target)
    return replaced(ir, better) if better else ir


def chosen_orders(graph: Graph) -> tuple[str, ...]:
    """Where the sizes choose between two values that have sums; a sentence each."""
    found: dict[str, None] = {}
    for n in graph.nodes():
        choice = by_sizes(n)
        if choice is not None and all(any(m.op == "reduce" for m in postorder(v.node)) for v in choice.sides):
            found[f"where `{show_expr(choice.first)}`, what is summed is multiplied in another order: fewer operations"] = None
    return tuple(found)


# ---- orders and what they cost


def _orders(of: tuple[int, ...]) -> Iterator[Order]:
    """All ways to multiply factors two at a time."""
    if len(of) == 1:
        yield of[0]
        return
    first, *others = of
    for bits in range(2 ** len(others) - 1):
        left = (first, *(k for j, k in enumerate(others) if bits >> j & 1))
        right = tuple(k for j, k in enumerate(others) if not bits >> j & 1)
        for a in _orders(left):
            for b in _orders(right):
                yield a, b


def _members(order: Order) -> tuple[int, ...]:
    return (order,) if isinstance(order, int) else _members(order[0]) + _members(order[1])


def _axes(p: Product, order: Order) -> frozenset[int]:
    """The axes of the result of an order."""
    members = _members(order)
    return frozenset().union(*(p.factors[k].axes for k in members)) & p.wanted(members)


def _cost(p: Product, order: Order) -> Poly:
    axes = p.factors[order].axes if isinstance(order, int) else _axes(p, order[0]) | _axes(p, order[1])
    own = p.points(axes) if axes != _axes(p, order) or not isinstance(order, int) else pl.constant(0)
    return own if isinstance(order, int) else pl.plus(own, pl.plus(_cost(p, order[0]), _cost(p, order[1])))


def _never_more(a: Poly, b: Poly, known: Known) -> bool:
    """Whether a is at most b, but for a constant factor of no more than its terms: each term of a divides one of b, of sizes that are 1 at least."""
    return all(any(_divides(m, c, n, d, known) for n, d in b.items()) for m, c in a.items())


def _divides(m: Monomial, c: int, n: Monomial, d: int, known: Known) -> bool:
    left = [*n]
    for atom in m:
        if atom not in left:
            return False
        left.remove(atom)
    for atom in left:
        low, _ = known.interval(pl.atom(atom))
        d *= max(1, low or 0)
    return c <= d


def _better(group: list[Product], known: Known, target: Target) -> dict[Node, Node | BySizes]:
    """Sums, some of which share a sum inside, in orders that cost less, or in one of two, of which one may be that which is written; nothing where they may stay as they are."""
    cost = _total(pl.poly(product((*n.shape, *n.attr.extents))) for n in dict.fromkeys(m for p in group for m in (p.node, *p.inside)))
    every = [{order: _cost(p, order) for order in _orders(tuple(range(len(p.factors))))} for p in group]
    if not cost:
        return {}  # there are no elements
    made: Callable[[Product, Expr | None], Node] = _as_written
    result: dict[Node, Node | BySizes] = {}
    for always in (True, False):
        some = [[o for o, c in costs.items() if not always or _never_more(c, cost, known)] for costs in every]
        if not all(some):
            continue
        orders = {p.node: min(found, key=lambda o: _typical(costs[o], cost)) for p, found, costs in zip(group, some, every, strict=True)}
        less = _total(costs[o] for o, costs in zip(orders.values(), every, strict=True))
        if _typical(less, cost) >= WORTH:
            continue
        first = TRUE if always else simplify(_less(less, cost), known)
        if first is TRUE:
            made, cost = partial(_in_order, orders), less
            result = {p.node: made(p, None) for p in group}
        elif first is not FALSE and not target.gpu:
            other = simplify(call("bit_not", first), known)
            result = {p.node: BySizes(first, identity(_made(p, orders[p.node], first)), identity(made(p, other))) for p in group}
    return result


def _in_order(orders: Mapping[Node, Order], p: Product, wanted: Expr | None) -> Node:
    return _made(p, orders[p.node], wanted)


def _total(costs: Iterable[Poly]) -> Poly:
    result = pl.constant(0)
    for c in costs:
        result = pl.plus(result, c)
    return result


def _typical(a: Poly, b: Poly) -> float:
    """What the lesser of two costs is of the second, in the geometric mean over short and long sizes."""
    atoms = sorted({atom for m in (*a, *b) for atom in m}, key=pl.key)
    ratios: list[float] = []
    for bits in range(min(2 ** len(atoms), MOST_SIZES)):
        values = {atom: LONG if bits >> k & 1 else SHORT for k, atom in enumerate(atoms)}
        of_a, of_b = (sum(c * prod(values[atom] for atom in m) for m, c in p.items()) for p in (a, b))
        ratios.append(min(1.0, of_a / of_b))
    return prod(r ** (1 / len(ratios)) for r in ratios)


def _less(a: Poly, b: Poly) -> Expr:
    """Whether a is clearly less than b: without the factors that all terms have, so that no product of sizes is larger than need be."""
    common = [*next(iter(a))]
    for m in (*a, *b):
        left = [*m]
        common = [atom for atom in common if atom in left and (left.remove(atom) or True)]

    def rest(p: Poly) -> Expr:
        found: dict[Monomial, int] = {}
        for m, c in p.items():
            left = [*m]
            for atom in common:
                left.remove(atom)
            found[tuple(left)] = c
        return pl.expr(found)

    return (rest(a) * 5).lt(rest(b) * 4)


# ---- what is built


class _Part(NamedTuple):
    """What is multiplied so far: a view over all axes of the product, and those that it has, in the order in which they lie in memory."""

    view: View
    axes: tuple[int, ...]


def _made(p: Product, order: Order, wanted: Expr | None = None) -> Node:
    """The sum in this order.  `wanted`: where it does not hold, nothing of it is."""
    part = _part(p, order, wanted, last=True)
    result = part.view.node
    for v in p.scale:
        result = elementwise("mul", result.shape, identity(result), v, span=p.node.span)
    return result


def _part(p: Product, order: Order, wanted: Expr | None, last: bool = False) -> _Part:
    parts = [_Part(p.factors[order].view, as_it_lies(p.factors[order].view))] if isinstance(order, int) else [_part(p, o, wanted) for o in order]
    left = _axes(p, order)
    summed = tuple(a for a in dict.fromkeys(a for part in parts for a in part.axes) if a not in left)
    if isinstance(order, int) and not summed:
        return parts[0]
    kept = tuple(range(p.node.rank)) if last else _kept(p, order, parts)
    extents = tuple(p.extents[a] for a in (*kept, *summed))
    inside = {axis(a): axis(k) for k, a in enumerate((*kept, *summed))}
    first, *second = (part.view.through(inside) for part in parts)
    value = identity(elementwise("mul", extents_where(wanted, extents), first, *second, span=p.node.span)) if second else first
    if not summed:
        return _Part(View(value.node, tuple(map(axis, kept))), kept)
    shape, reduced = extents[: len(kept)], extents[len(kept) :]
    if wanted is None or last:
        node = reduce_node("add", shape, extents_where(wanted, reduced), value, p.node.span)
    else:
        node = real_node(reduce_node("add", extents_where(wanted, shape), reduced, value, p.node.span))
    return _Part(View(node, tuple(map(axis, kept))), kept)


def _kept(p: Product, order: Order, parts: Sequence[_Part]) -> tuple[int, ...]:
    """The axes that are left of an order, as they are to lie in memory."""
    members = _members(order)
    first, *second = (part.axes for part in parts)
    rest = [as_it_lies(f.view) for k, f in enumerate(p.factors) if k not in members]
    names = kept_names(_names(first), _names(*second), [_names(axes) for axes in rest], _names(range(p.node.rank)))
    return tuple(map(int, names))


def _names(axes: Iterable[int] = ()) -> list[str]:
    return [str(a) for a in axes]


def _as_written(p: Product, wanted: Expr | None) -> Node:
    """The sum as it is.  Where `wanted` does not hold, nothing of it is."""
    done: dict[Node, Node] = {}
    for n in postorder(p.node):
        args = tuple(View(done[a.node], a.index, a.domain, a.fill) for a in n.args)
        if n is p.node:
            done[n] = make(n.op, n.dtype, n.shape, args, replace(n.attr, extents=extents_where(wanted, n.attr.extents)), n.span)
        elif n in p.through:
            some = make(n.op, n.dtype, extents_where(wanted, n.shape), args, n.attr, n.span)
            done[n] = real_node(some) if n.op == "reduce" else some
        else:
            done[n] = n
    return done[p.node]
