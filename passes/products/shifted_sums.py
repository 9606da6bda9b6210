"""Sums of sums that are read shifted, as one sum: what scatters, written as what gathers.

    Σ_i where(0 <= u - i < H, Σ_o a[o, u - i] · b[o, i], 0)        →        Σ_o Σ_i where(0 <= u - i < H, a[o, u - i] · b[o, i], 0)

So loops are raised whose iterations add to elements that overlap (`overlaps.py`): a product for each shift, and the products added up where they lie.  What is between is as many times the result as there are shifts.

Conditions: nobody else reads the sum inside, the shifts are few and known, and each element of it is added to one element at most, so that there are as many terms afterwards, and a border more that is multiplied
too (`ask_after.py`).  Whether that is less than to store the sums and to read them again depends on the sizes: where they are not known they choose at run time, and there is no memory for what is not used.
"""

from __future__ import annotations

from ...ir.bounds import Known
from ...ir.expr import ZERO, Expr, axis, ceildiv, const, product
from ...ir.graph import Node, View, identity, make, reduce_node
from ...ir.polynomial import poly
from ...ir.simplify import prove_le, simplify
from ...ir.target import Target
from ...ir.walks import leaves, substitute
from .by_sizes import BySizes, extents_where

COLUMNS = 8  # fewer leave lanes empty
STORED = 10  # terms of a sum inside that take as long as to store it and to read it again, beyond what stays in a cache


def sum_of_sums(n: Node, known: Known) -> Node | None:
    """A sum whose terms are sums of their own as one over all axes, those inside first; None where it is something else."""
    view = n.args[0]
    inner = view.node
    if n.op != "reduce" or inner.op != "reduce" or not n.attr.combiner == inner.attr.combiner == "add":
        return None
    if view.domain is None or view.fill != 0 or inner.args[0].domain is not None or not _once(n, known):
        return None
    deep = len(inner.attr.extents)
    behind = {axis(n.rank + k): axis(n.rank + deep + k) for k in range(len(n.attr.extents))}
    at = {axis(k): substitute(e, behind) for k, e in enumerate(view.index)}
    at |= {axis(inner.rank + k): axis(n.rank + k) for k in range(deep)}
    term = View(inner.args[0].node, tuple(substitute(e, at) for e in inner.args[0].index), substitute(view.domain, behind), 0)
    return reduce_node("add", n.shape, (*inner.attr.extents, *n.attr.extents), term, n.span)


def where_it_pays(n: Node, bare: Node, windows: set[int], known: Known, target: Target) -> Node | None:
    """The bare sum, read through windows by a factor with these axes, where it costs less than the sum of sums; None where it never does."""
    inner = n.args[0].node
    if not all(e.is_const for e in n.attr.extents):
        return None
    terms, deep = product(inner.shape), product(inner.attr.extents)
    columns, rows = (product(e for a, e in enumerate(n.shape) if (a in windows) is wanted) for wanted in (False, True))
    together = ceildiv(columns, const(COLUMNS)) * COLUMNS * rows * product(n.attr.extents) * deep
    apart = simplify((terms * deep + (terms - target.l2 // n.dtype.bytes) * STORED).lt(together), known)
    if apart.is_const:
        return None if apart.attr else bare
    shape = extents_where(apart, inner.shape)  # no memory for what is not used
    sums = make(
        "contiguous", inner.dtype, shape, (identity(make(inner.op, inner.dtype, shape, inner.args, inner.attr, inner.span)),), span=inner.span
    )
    view = n.args[0]
    as_it_was = make(n.op, n.dtype, n.shape, (View(sums, view.index, view.domain, view.fill),), n.attr, n.span)
    return BySizes(apart, identity(as_it_was), identity(bare)).node(n.shape)


def _once(n: Node, known: Known) -> bool:
    """Whether each element inside is read at one point of the axes at most, and all but a border of points read one: one index after the other is an axis, shifted by axes that are known."""
    view, extents = n.args[0], (*n.shape, *n.attr.extents)
    left = list(zip(view.index, view.node.shape, strict=True))
    found: set[Expr] = set()
    while left:
        for e, extent in left:
            new = [a for a in leaves(e, "axis") if a not in found]
            shift = _shift(e, new[0]) if len(new) == 1 else None
            if shift is not None:
                border = sum(((extents[a.attr] - 1) * abs(c) for a, c in shift), ZERO)
                if not prove_le(extents[new[0].attr], extent + border, known):
                    return False
                found.add(new[0])
                left.remove((e, extent))
                break
        else:
            return False
    return len(found) == len(extents)


def _shift(e: Expr, new: Expr) -> list[tuple[Expr, int]] | None:
    """The axes with their factors that an index adds to a new axis or takes it from; None where it is made otherwise."""
    terms: list[tuple[Expr, int]] = []
    for monomial, c in poly(e).items():
        if not any(leaves(a, "axis") for a in monomial):
            continue
        alone, *others = monomial
        if others or alone.op != "axis" or (alone is new and abs(c) > 1):
            return None
        terms.append((alone, c))
    return [t for t in terms if t[0] is not new]
