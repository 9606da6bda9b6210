"""Which iterations of a nest touch the same element, and which of two accesses comes first.

Two accesses at common loops (t₀, t₁, …) meet in one iteration of all of them, or in different ones: for each level k, equal up to t₍ₖ₋₁₎ and different at tₖ.  That
their positions differ there is proven by the bounds of the variables, along some axis; what is not proven may be.
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.expr import Expr, both, postorder, substitute, var
from ..ir.polynomial import is_position
from ..ir.simplify import assuming, prove
from .domains import Trip, within
from .loop_events import Event, Read

Access = Event | Read


def meet(earlier: Access, later: Access, known: Known) -> bool:
    """May an iteration of `earlier` and a strictly later one of `later` (in their common loops) touch the same element?"""
    return any(not apart(earlier, later, level, known) for level in range(_common(earlier, later)))


def touch(a: Access, b: Access, known: Known) -> bool:
    """May the two touch the same element in one iteration of all their common loops?"""
    return not apart(a, b, _common(a, b), known)


def _common(a: Access, b: Access) -> int:
    common = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x.var is not y.var:
            break
        common += 1
    return common


def is_data(e: Expr) -> bool:
    """It depends on memory."""
    return any(n.op == "load" or (n.op == "var" and n.attr.startswith("%")) for n in postorder(e))


def apart(a: Access, b: Access, level: int, known: Known) -> bool:
    """With equal variables before `level` and a's variable smaller there (where it is a loop of both), the positions are proven to differ along some axis."""
    renamed = {t.var: var(f"{t.var.attr}'") for t in b.loops[level:]}
    loops = (*a.loops, *(Trip(renamed[t.var], substitute(t.count, renamed)) for t in b.loops[level:]))
    guard_b = None if b.guard is None else substitute(b.guard, renamed)
    smaller = a.loops[level].var.lt(renamed[b.loops[level].var]) if level < _common(a, b) else None
    inside = assuming(within(known, loops), both(smaller, positional(a.guard), positional(guard_b)))
    pairs = [(x, substitute(y, renamed)) for x, y in zip(a.index, b.index, strict=True)]
    pairs = [(x, y) for x, y in pairs if not is_data(x) and not is_data(y)]
    for k, (x, y) in enumerate(pairs):
        others = both(*(p.eq(q) for j, (p, q) in enumerate(pairs) if j != k and p is not q))
        there = assuming(inside, others)
        if prove(x.lt(y), there) or prove(y.lt(x), there):
            return True
    return False


def positional(guard: Expr | None) -> Expr | None:
    """The conjuncts of a guard that speak of positions alone."""
    return None if guard is None else both(*(c for c in conjuncts(guard) if is_position(c) and not is_data(c)))


__all__ = ["Access", "apart", "is_data", "meet", "positional", "touch"]
