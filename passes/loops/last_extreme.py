"""Where the extreme of what a loop has seen stands, as loops find it: what is set again whenever something is larger than all before.

    for j in 0 .. N:                             top = max_j d(j),  at = min_j (j where d(j) = top, else N)
      if best < d(j):                      →     if start < top: Y = v(at)
        best = d(j); Y = v(j)

The last time that something is larger than all before is at the first place of the largest.  What is no number is never larger, and counts as −∞ in the maximum; a minimum is found in the same way.

Conditions: the comparison is strict and all that is asked, v is made of positions alone, and nothing else in the loop touches Y.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.dtypes import INDEX
from ...ir.expr import Expr, call, where
from ...ir.record import replace
from ...ir.walks import substitute
from .accumulations import mentions
from .dependence import is_data
from .domains import Trip
from .loop_records import Scan, Sum, unstamped

if TYPE_CHECKING:
    from .loop_events import Events


def last_stores(found: Events) -> None:
    """Say of stores that are made whenever something is larger than all before that they are made once, behind the loop."""
    for k, e in enumerate(found.events):
        if e.combiner or e.guard is None or not e.loops or any(mentions(i, e.loops[-1].var) for i in e.index):
            continue
        trip = e.loops[-1]
        written = [other for j, other in enumerate(found.events) if j != k and other.buffer == e.buffer and trip in other.loops]
        read = any(trip in r.loops for n, places in found.loads.items() if unstamped(n.attr)[0] == e.buffer for r in places)
        last = None if written or read else at_last(found, e.guard, e.value, trip)
        if last is not None:
            found.events[k] = replace(e, guard=last[0], value=last[1], loops=e.loops[:-1])


def at_last(found: Events, condition: Expr, value: Expr, trip: Trip) -> tuple[Expr, Expr] | None:
    """Whether something was larger than what a scalar held before the loop, and a value of positions where the largest first is; None where that is not what the condition asks."""
    if condition.op != "less_than" or is_data(value):
        return None
    for x, d, combiner in ((*condition.args, "max"), (*reversed(condition.args), "min")):
        scan = found.defined.get(x)
        if not isinstance(scan, Scan) or scan.combiner != combiner or scan.inclusive or scan.guard is not None or scan.loop != trip:
            continue
        if scan.body is not d and not (scan.body.op == "where" and scan.body.args[0].op == "isnan" and scan.body.args[2] is d):
            continue
        if found.is_unknown(scan.start, d) or mentions(d, x):
            continue
        if scan.dtype.is_float and scan.dtype.bits < 32 and d.op != "load":
            continue  # computed once more it may be rounded at another place, and equal nothing
        top, at = found.fresh(scan.dtype), found.fresh(INDEX)
        found.defined[top] = Sum(combiner, scan.dtype, (trip,), scan.body, None, scan.around)
        found.defined[at] = Sum("min", INDEX, (trip,), where(d.eq(top), trip.var, trip.count), None, scan.around)
        order = (scan.start, top) if combiner == "max" else (top, scan.start)
        return call("less_than", *order), substitute(value, {trip.var: at})
    return None
