"""Accumulations whose iterations overlap, turned over: which iterations add to an element, instead of which elements an iteration adds to.

    for y in 0 .. H: for i in 0 .. K:            for u in 0 .. N: for i in 0 .. K:
      Y[2·y + i] add= X[y] * F[i]          →       where (u - i) mod 2 = 0, 0 <= (u - i) // 2 < H:
                                                     Y[u] add= X[(u - i) // 2] * F[i]

Along each axis of the tensor one loop is *solved* for the position and leaves the rest to be summed over.  It is one that no other axis and no loop's bounds
depend on, with a number as its factor; of several, that with the largest factor (the stride of a window), then one whose number of trips is no number (the
taps of a filter are few, and what is summed over should be), then the outermost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ZERO, Expr, both, const, floordiv, mod, var
from ...ir.graph import Shape
from ...ir.polynomial import coefficient, degree, expr as from_poly, is_constant, plus, poly, scaled
from ...ir.record import record
from ...ir.walks import postorder
from .domains import Trip
from .loop_records import Event


@record
class Turned:
    """`index`: the tensor's position, with `trips` for what runs through whole axes; `solved`: the loop variables in terms of these and of the other loops, where `domain` holds."""

    index: tuple[Expr, ...]
    trips: tuple[Trip, ...]
    solved: dict[Expr, Expr]
    domain: Expr


def turned(event: Event, shape: Shape) -> Turned | None:
    """The event as a sum for each position; None where some axis has no loop to be solved for, or nothing overlaps."""
    if not event.combiner:
        return None
    counts = {t.var: t.count for t in event.loops}
    bounds = {n for c in counts.values() for n in postorder(c)}
    index: list[Expr] = []
    trips: list[Trip] = []
    solved: dict[Expr, Expr] = {}
    domain: Expr | None = None
    variables = [{n for n in postorder(e) if n in counts} for e in event.index]
    for d, (e, extent) in enumerate(zip(event.index, shape, strict=True)):
        others = {v for k, own in enumerate(variables) if k != d for v in own}
        if len(variables[d]) < 2:
            if variables[d] & others:
                return None
            index.append(e)
            continue
        found = _best(e, [t for t in event.loops if t.var in variables[d]], others | bounds)
        if found is None:
            return None
        v, slope = found
        u = var(f"{v.attr.rpartition('~')[0]}~{_last(event) + 1 + len(trips)}")
        left = from_poly(scaled(plus(poly(u), coefficient(poly(e), v)[1], -1), 1 if slope > 0 else -1))
        step = const(abs(slope))
        if abs(slope) > 1:
            domain = both(domain, mod(left, step).le(ZERO))
        solved[v] = floordiv(left, step) if abs(slope) > 1 else left
        domain = both(domain, ZERO.le(left), left.le(step * (counts[v] - 1)))
        index.append(u)
        trips.append(Trip(u, extent))
    left_over = counts.keys() - solved.keys() - {n for e in index for n in postorder(e)}
    return Turned(tuple(index), tuple(trips), solved, domain) if domain is not None and left_over else None


def _last(event: Event) -> int:
    return max(int(t.var.attr.rpartition("~")[2]) for t in event.loops)


def _best(e: Expr, trips: Sequence[Trip], taken: set[Expr]) -> tuple[Expr, int] | None:
    """The loop to be solved for, and its factor."""
    p = poly(e)
    found: list[tuple[int, bool, int, Expr]] = []
    for k, t in enumerate(trips):
        if t.var in taken or degree(p, t.var) != 1:
            continue
        slope, rest = coefficient(p, t.var)
        if is_constant(slope) and not any(t.var in postorder(a) for m in rest for a in m):
            found.append((-abs(slope[()]), t.count.is_const, k, t.var))
    if not found:
        return None
    _, _, _, v = min(found, key=lambda f: f[:3])
    return v, coefficient(p, v)[0][()]
