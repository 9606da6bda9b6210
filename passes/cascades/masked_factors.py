"""Products under a choice: what the choice leaves out may as well be left out of one factor, where that one alone says what it is.

    Σ_p where(c, a · b, 0)        →        Σ_p where(c, where(c, a, 0) · b, 0)

The value is the same, whatever b is.  So loops write it that pass over what is masked: the term is *not added*, so an infinite b does not show.  Now a is 0 there, and where every b is finite the
outer choice is one between a zero and a zero: whoever has looked at the sum need not make it (`nest_guarded.py`).  The inner one has no more axes than a, so it is made once for all columns of b.
"""

from __future__ import annotations

from ...ir.expr import axis
from ...ir.graph import Node, View, elementwise, identity, make, scalar
from ...ir.primops import OPS
from ..rules.pattern import same_view
from .separate import is_zero


def masked_factor(n: Node) -> Node:
    """A sum of products under a choice, with the choice in the factor that has its axes too and costs more than a load; the node itself where it is something else."""
    choice = n.args[0]
    if n.op != "reduce" or n.attr.combiner != "add" or not is_guarded(choice):
        return n
    test, product, fill = choice.node.args
    for k, factor in enumerate(product.node.args):
        own = {e: axis(a) for a, e in enumerate(factor.index) if e.op == "axis"}
        used = {axis(a) for a in test.axes}
        if factor.node.op not in OPS or factor.domain is not None or len(own) < factor.node.rank or not own.keys() >= used:
            continue
        if own.keys() >= {axis(a) for a in range(product.node.rank)}:
            continue  # it has every axis of the product: nothing is made once for several
        masked = elementwise("where", factor.node.shape, test.through(own), identity(factor.node), scalar(fill.node), span=choice.node.span)
        factors = tuple(View(masked, factor.index) if j == k else a for j, a in enumerate(product.node.args))
        inner = make("mul", product.node.dtype, product.node.shape, factors, product.node.attr, product.node.span)
        node = make("where", choice.node.dtype, choice.node.shape, (test, identity(inner), fill), choice.node.attr, choice.node.span)
        return make(n.op, n.dtype, n.shape, (View(node, choice.index),), n.attr, n.span)
    return n


def is_guarded(v: View) -> bool:
    """Whether a value is that of a product under a choice, or 0."""
    if v.domain is not None or v.node.op != "where" or not v.node.dtype.is_float:
        return False
    _, product, fill = v.node.args
    return is_zero(fill) and product.is_identity and product.node.op == "mul" and product.node.rank == v.node.rank


def bare_product(v: View) -> View | None:
    """The product alone, where one of its factors is 0 wherever the choice around it leaves it out; else None."""
    if not is_guarded(v):
        return None
    test, product, _ = v.node.args
    for f in product.node.args:
        if f.domain is None and f.node.op == "where" and is_zero(f.node.args[2]):
            inside = f.operands[0]
            if same_view(inside, test):
                return View(product.node, v.index)
    return None
