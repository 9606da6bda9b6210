"""Sums of several products that are added up, as a sum of each: register tiles and panels are made for one product.

    Σ_p (a[i, p] · b[j, p] + c[i, p] · d[j, p])             →        Σ_p a[i, p] · b[j, p] + Σ_p c[i, p] · d[j, p]
    Σ_p where(k, a[i, p] · b[j, p] - c[i, p] · d[j, p], 0)    →        the same of each with the choice around it

So are an update of rank 2·k (BLAS's syr2k) and products of complex numbers that are written as their parts.  Another order rounds other sums, so not under --strict.

Conditions: two operands of each product are each used again along an axis of the other; the sum is long enough to pay for a result that is stored once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...ir.graph import Node, View, const_node, elementwise, identity, reduce_node, scalar, truth
from ..cascades.separate import is_zero
from ..reading import factors
from .chosen_products import Choice, reused

MOST = 4  # products
SHORT = 16  # terms: of fewer, the results are as much as what is computed


class _Term(NamedTuple):
    """A product, taken away where it is `negative`, of where all of `tests` hold."""

    product: View
    negative: bool
    tests: tuple[View, ...]


def added_products(n: Node, bare_of: Callable[[Node], Node]) -> Node:
    """The sum as a sum of each product, what `bare_of` makes of it; the node itself where it is something else."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.rank < 2 or not n.dtype.is_float:
        return n
    if len(n.attr.extents) == 1 and n.attr.extents[0].is_const and n.attr.extents[0].attr < SHORT:
        return n
    terms = _terms(_Term(n.args[0], False, ()))
    if not 1 < len(terms) <= MOST or not all(_is_product(n, t) for t in terms):
        return n
    sums = [bare_of(_sum_of(n, t)) for t in terms]
    total = sums[0] if not terms[0].negative else elementwise("neg", n.shape, identity(sums[0]), span=n.span)
    for t, s in zip(terms[1:], sums[1:], strict=True):
        total = elementwise("sub" if t.negative else "add", n.shape, identity(total), identity(s), span=n.span)
    return total


def _terms(whole: _Term) -> list[_Term]:
    """What is added up at each point, in order; no more is asked once there are too many."""
    found: list[_Term] = []
    waiting = [whole]
    while waiting and len(found) <= MOST:
        v, negative, tests = t = waiting.pop()
        if v.domain is not None and v.fill == 0:
            waiting.append(_Term(View(v.node, v.index), negative, (*tests, truth(v.domain))))
        elif v.domain is None and v.node.op == "where" and is_zero(v.operands[2]):
            waiting.append(_Term(v.operands[1], negative, (*tests, v.operands[0])))
        elif v.domain is None and v.node.op in ("add", "sub"):
            a, b = v.operands
            waiting += [_Term(b, negative is not (v.node.op == "sub"), tests), _Term(a, negative, tests)]
        elif v.domain is None and v.node.op == "neg":
            waiting.append(_Term(v.operands[0], not negative, tests))
        else:
            found.append(t)
    return found


def _is_product(n: Node, t: _Term) -> bool:
    of = factors(t.product)
    found = Choice(n, t.product, tuple(of), False)
    return any(reused(found, f.axes, (g for g in of if g is not f)) for f in of)


def _sum_of(n: Node, t: _Term) -> Node:
    domain, value = (*n.shape, *n.attr.extents), t.product
    for test in reversed(t.tests):
        value = identity(elementwise("where", domain, test, value, scalar(const_node(0.0, n.dtype)), span=n.span))
    return reduce_node("add", n.shape, n.attr.extents, value, n.span)


__all__ = ["added_products"]
