"""Loops that begin where a loop around them stands, and end where that does not matter, count positions instead of trips: a triangle is a part of a square, not a sheared one.

    for i in 0 .. M: for t in 0 .. M - i:  X[i, i + t] = …        →        for i in 0 .. M: for j in 0 .. M, where i <= j:  X[i, j] = …

What is summed over such a loop, or stored by it, is then a product or a tensor over whole axes under a condition on positions, and what is read along it does not move with the loop around.
"""

from __future__ import annotations

from copy import copy

from ...ir.expr import ONE, ZERO, Expr, both, call
from ...ir.kernel import Loop, identity_of
from ...ir.record import replace
from ...ir.simplify import prove, simplify
from ...ir.walks import postorder, substitution
from .dependence import is_data
from .domains import Trip, within
from .loop_events import Events
from .loop_records import Scan, Sum


def upright(found: Events) -> Events:
    """The same events over such loops; `found` itself where there are none."""
    made = found
    for v in found.loops:
        trips = _trips(made, v)
        if trips is None:
            continue
        start = simplify(made.starts[v][0], found.known)
        stop = simplify(trips[-1].count + start, found.known)
        turns = {n for n in postorder(start) if n in found.loops}
        if turns and not turns & set(postorder(stop)) and prove(ZERO.le(start), within(found.known, trips[:-1])):
            made = _moved(made, v, start, Trip(v, stop))
    return made


def _trips(found: Events, v: Expr) -> tuple[Trip, ...] | None:
    """A loop that counts up by one, behind the loops around it; None where it is another, or a value is carried along it."""
    if not isinstance(found.loops[v], Loop) or v not in found.starts or found.starts[v][1] is not ONE or is_data(found.starts[v][0]):
        return None
    carried = any(isinstance(d, Scan) and d.loop.var is v for d in found.defined.values())
    if carried or any(e.previous for e in found.events):
        return None
    every = [e.loops for e in found.events] + [(*d.around, *d.loops) for d in found.defined.values()]
    loops = next((trips for trips in every if any(t.var is v for t in trips)), None)
    if loops is None or any(is_data(t.count) for t in loops):
        return None
    return loops[: next(k for k, t in enumerate(loops) if t.var is v) + 1]


def _moved(found: Events, v: Expr, start: Expr, trip: Trip) -> Events:
    """The events where v is the position, which trip has, instead of how far that is behind the start."""
    holds = start.le(v)
    of = substitution({v: v - start})

    def loops(trips: tuple[Trip, ...]) -> tuple[Trip, ...]:
        return tuple(trip if t.var is v else Trip(t.var, simplify(of(t.count), found.known)) for t in trips)

    def guard(e: Expr | None, trips: tuple[Trip, ...]) -> Expr | None:
        e = None if e is None else of(e)
        return both(holds, e) if any(t.var is v for t in trips) else e

    def positions(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplify(of(e), found.known) for e in index)

    made = copy(found)
    made.events = [replace(e, index=positions(e.index), value=of(e.value), loops=loops(e.loops), guard=guard(e.guard, e.loops)) for e in found.events]
    made.loads = {}
    for n, places in found.loads.items():
        moved = [replace(r, index=positions(r.index), loops=loops(r.loops), guard=guard(r.guard, r.loops)) for r in places]
        made.loads.setdefault(of(n), {}).update(dict.fromkeys(moved))
    made.defined = {}
    for x, d in found.defined.items():
        parts = {"around": loops(d.around), "guard": guard(d.guard, d.around)}
        if isinstance(d, Sum):
            body = of(d.body)
            if any(t.var is v for t in d.loops):
                body = call("where", holds, body, identity_of(d.combiner, d.dtype))
            made.defined[x] = replace(d, loops=loops(d.loops), body=body, **parts)
        elif isinstance(d, Scan):
            made.defined[x] = replace(d, loop=loops((d.loop,))[0], start=of(d.start), body=of(d.body), **parts)
        else:
            made.defined[x] = replace(d, parts=tuple(map(of, d.parts)), **parts)
    made.tests = [
        replace(t, condition=_asked(of(t.condition), holds) if any(s.var is v for s in t.loops) else of(t.condition), loops=loops(t.loops))
        for t in found.tests
    ]
    made.bounds = {x: of(e) for x, e in found.bounds.items()}
    made.starts = {x: (of(a), of(b)) for x, (a, b) in found.starts.items()} | {v: (ZERO, ONE)}
    made.settle()
    return made


def _asked(condition: Expr, holds: Expr) -> Expr:
    return call("bit_or", call("bit_not", holds), condition)


__all__ = ["upright"]
