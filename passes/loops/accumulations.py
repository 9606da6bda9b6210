"""Values as accumulations: x + e, x - e, fma(a, b, x), a choice between two of them, e where it is larger than x, all seen as “x, with this combined into it”."""

from __future__ import annotations

from ...ir.dtypes import bool_
from ...ir.expr import FALSE, TRUE, Expr, call
from ...ir.kernel import identity_of
from ...ir.primops import COMBINERS
from ...ir.walks import postorder

_BY_OPERATOR = {c.op: c.name for c in COMBINERS.values()}


def combined(combiner: str, a: Expr, b: Expr) -> Expr:
    """a ⊕ b, without an identity in it."""
    nothing = identity_of(combiner, a.dtype)
    return b if a is nothing else a if b is nothing else call(COMBINERS[combiner].op, a, b)


def mentions(e: Expr, v: Expr) -> bool:
    return v in set(postorder(e))


Found = tuple[str, Expr]


def peeled(value: Expr, x: Expr) -> Found | None:
    """(combiner, e) where value ≡ x ⊕ e and x is not in e; ("", x) where it is x itself; None where it is neither."""
    found: dict[Expr, Found | None] = {}
    for n in postorder(value):
        if n is x:
            found[n] = ("", x)
        elif any(a in found for a in n.args):
            found[n] = _peel(n, found)
    return found.get(value)


def _peel(n: Expr, found: dict[Expr, Found | None]) -> Found | None:
    own = [k for k, a in enumerate(n.args) if a in found]
    if n.op == "where" and n.dtype is bool_ and len(own) == 1:
        return _truth(own[0], found[n.args[own[0]]], *n.args)
    if n.op == "where" and own == [1, 2]:
        return _choice(n.args[0], found[n.args[1]], found[n.args[2]])
    if n.op == "where" and own == [0, 2] and found[n.args[2]] == ("", n.args[2]):
        return _extreme(*n.args)
    if len(own) != 1:
        return None
    (k,) = own
    inner, others = found[n.args[k]], [a for j, a in enumerate(n.args) if j != k]
    if inner is None:
        return None
    if n.op in _BY_OPERATOR:
        return _onto(inner, _BY_OPERATOR[n.op], others[0])
    if n.op == "sub" and k == 0:
        return _onto(inner, "add", call("neg", others[0]))
    if n.op == "fma" and k == 2:
        return _onto(inner, "add", call("mul", *others))
    return None


def _extreme(condition: Expr, e: Expr, x: Expr) -> Found | None:
    """where(x < e, e, x): the larger one, but that what is no number is never taken."""
    if condition.op not in ("less_than", "less_equal") or {*condition.args} != {x, e} or not (e.dtype.is_float or e.dtype.is_integer):
        return None
    combiner = "max" if condition.args[0] is x else "min"
    return combiner, call("where", call("isnan", e), identity_of(combiner, e.dtype), e) if e.dtype.is_float else e


def _truth(own: int, inner: Found | None, c: Expr, a: Expr, b: Expr) -> Found | None:
    """A choice of which one operand is what is combined into, and another is a literal: `or` and `and` that look no further, and what is set where something holds."""
    if inner is None:
        return None
    match own:
        case 0:
            return _onto(inner, "or", b) if a is TRUE else _onto(inner, "and", a) if b is FALSE else None
        case 1:
            return _onto(inner, "or", call("bit_not", c)) if b is TRUE else _onto(inner, "and", c) if b is FALSE else None
        case _:
            return _onto(inner, "or", c) if a is TRUE else _onto(inner, "and", call("bit_not", c)) if a is FALSE else None


def _onto(inner: Found, combiner: str, term: Expr) -> Found | None:
    if not inner[0]:
        return combiner, term
    return (combiner, call(COMBINERS[combiner].op, inner[1], term)) if inner[0] == combiner else None


def _choice(condition: Expr, a: Found | None, b: Found | None) -> Found | None:
    if a is None or b is None:
        return None
    combiner = a[0] or b[0]
    if combiner != (b[0] or a[0]):
        return None
    if not combiner:
        return a
    nothing = identity_of(combiner, a[1].dtype if a[0] else b[1].dtype)
    return combiner, call("where", condition, a[1] if a[0] else nothing, b[1] if b[0] else nothing)


__all__ = ["combined", "mentions", "peeled"]
