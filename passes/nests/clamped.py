"""Positions that are clamped before they are rounded to integers: inside of their tensor, whatever the data is, where its extent is a number that a float holds.

    min(max(x, 0.0), cast.f32(N - 1)), as an integer          in 0 … N-1, where 1 <= N and N - 1 <= 2²⁴

What is no number becomes 0.  Beyond 2²⁴ (of f32) the last position may be rounded up to N, so there it is looked at as any other.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.bounds import Known
from ...ir.dtypes import bf16, f16, f32, f64
from ...ir.expr import FALSE, ZERO, Expr, call, const, maximum, minimum
from ...ir.graph import Node, View
from ...ir.simplify import prove, simplify

LEVELS = 12  # operators that are looked through
EXACT = {f64: 1 << 53, f32: 1 << 24, f16: 1 << 11, bf16: 1 << 8}  # up to which a float holds every integer
ROUNDING = frozenset({"floor", "ceil", "round", "trunc"})


class Ends(NamedTuple):
    """What is known of a number that is one: whether it is at least 0, and an integer that it does not exceed."""

    natural: bool = False
    most: Expr | None = None
    exact: int = 1 << 62  # up to which the floats on the way hold every integer


def inside(position: View, extent: Expr, known: Known) -> Expr:
    """A condition on sizes under which what data decides is a position of an axis; FALSE where there is none."""
    ends = _ends(position, known, LEVELS)
    if not ends.natural or ends.most is None:
        return FALSE
    most = ends.most
    return simplify(call("bit_and", most.lt(extent), most.le(const(ends.exact))), known)


def _ends(v: View, known: Known, levels: int) -> Ends:
    n = v.node
    if v.domain is not None or not levels:
        return Ends()
    if n.op == "const":
        value = n.attr.value
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1 << 48
        return Ends(value >= 0, const(int(value // 1))) if whole else Ends()
    if n.op == "iota" and not n.rank:
        e = n.attr.expr
        return Ends(prove(ZERO.le(e), known), e) if e is not None else Ends()
    if n.op in ("max", "min"):
        return _chosen(n, *(_ends(a, known, levels - 1) for a in n.args))
    if n.op in ROUNDING or n.op in ("contiguous", "cast"):
        return _rounded(n, _ends(n.args[0], known, levels - 1))
    return Ends()


def _chosen(n: Node, a: Ends, b: Ends) -> Ends:
    most = [e for e in (a.most, b.most) if e is not None]
    exact = min(a.exact, b.exact)
    if n.op == "min":
        return Ends(a.natural and b.natural, minimum(*most) if len(most) == 2 else most[0] if most else None, exact)
    return Ends(a.natural or b.natural, maximum(*most) if len(most) == 2 else None, exact)


def _rounded(n: Node, ends: Ends) -> Ends:
    if n.op != "cast":
        return ends
    if n.dtype.is_integer and n.args[0].dtype.is_float:
        return ends if n.dtype.bits >= 32 else Ends()
    if n.dtype.is_float:
        return ends._replace(exact=min(ends.exact, EXACT.get(n.dtype, 0)))
    return ends if n.dtype.is_integer and n.args[0].dtype.is_integer and n.dtype.bits >= n.args[0].dtype.bits else Ends()
