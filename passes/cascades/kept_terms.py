"""Whether the choices around the terms of a sum keep any of them: a sum of which nothing is left is 0, whatever stands outside of it.

    Σ_p where(c, exp(s − m) / l, 0) · v        =        (Σ_p where(c, exp(s − m), 0) · v) / where(k, l, 1)        with  k = or over p of c

For a finite factor other than 0 that is the same with and without k; but 0 / 0, 0 · ∞ and 0 · NaN are NaN, and the sum that the composite wrote adds up zeros.  Neither has the sum so far to be corrected
where nothing was kept yet: 0 · exp(m − NaN).  Of conditions on positions that hold somewhere in each row, as the causal one does, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.bounds import Known
from ...ir.expr import ONE, ZERO, Expr, axis, both, call, const, where
from ...ir.graph import Node, View, condition_of, elementwise, identity, node_of, postorder, reduce_node, truth
from ...ir.primops import OPS
from ...ir.simplify import assuming, prove, prove_le
from ...ir.walks import substitute


def kept_terms(n: Node, under: Iterable[View], place: tuple[int, ...], known: Known) -> View | None:
    """Whether some term of the sum `n` is kept, in the domain of `n`: over its axes `place`, or more where the conditions have more.  None where there is always one."""
    conditions = [*dict.fromkeys(under)]
    domain = n.shape + n.attr.extents
    if not conditions or somewhere(n, conditions, known):
        return None
    moving = set[int]().union(*(c.axes for c in conditions))
    rows = sorted({a for a in moving if a < n.rank}.union(place))
    shape = (*(n.shape[a] for a in rows), *n.attr.extents)
    inside = {axis(a): axis(j) for j, a in enumerate((*rows, *range(n.rank, len(domain))))}
    test, *others = (c.through(inside) for c in conditions)
    for other in others:
        test = identity(elementwise("bit_and", shape, test, other))
    maybe_none = [ONE.le(e) for e in n.attr.extents if not prove_le(ONE, e, known)]
    position = condition_of(test)
    if all(a < n.rank for a in moving) and (position is not None or not maybe_none):  # all terms or none: one is asked
        test = test if position is None else truth(both(position, *maybe_none))
        ends = {axis(len(rows) + k): ZERO for k in range(len(n.attr.extents))}
        return View(node_of(test.through(ends), shape[: len(rows)]), tuple(axis(a) for a in rows))
    return View(reduce_node("or", shape[: len(rows)], n.attr.extents, test, n.span), tuple(axis(a) for a in rows))


def somewhere(n: Node, conditions: Sequence[View], known: Known) -> bool:
    """Whether conditions on positions hold together somewhere in each row of an axis that has elements: at its ends, or where it meets one of the others."""
    if len(n.attr.extents) != 1 or not all(m.op in OPS or m.op in ("iota", "const") for c in conditions for m in postorder(c.node)):
        return False
    extent, along = n.attr.extents[0], axis(n.rank)
    known = assuming(known, ONE.le(extent)).with_domain(n.shape)
    condition = both(along.lt(extent), *map(_expression, conditions))
    assert condition is not None
    return any(prove(substitute(condition, {along: p}), known) for p in (ZERO, extent - 1, *map(axis, range(n.rank))))


def _expression(view: View) -> Expr:
    """What is made of positions alone, as an expression."""
    done: dict[Node, Expr] = {}

    def read(v: View) -> Expr:
        value = substitute(done[v.node], v.places)
        return value if v.domain is None else where(v.domain, value, const(v.fill, v.dtype))

    for n in postorder(view.node):
        if n.op == "const":
            done[n] = const(n.attr.value, n.dtype)
        elif n.op == "iota":
            assert n.attr.expr is not None
            done[n] = n.attr.expr
        else:
            operands = tuple(map(read, n.args))
            done[n] = where(*operands) if n.op == "where" else call(n.op, *operands, to=n.dtype)
    return read(view)
