"""Which iterations of a nest touch the same element, and what that forbids.

A list of events (`loop_events.py`) means the same when each event runs to its end before the next one starts if no two accesses to one element, at least one of
them a store, change their order by that.  Two accesses at common loops (t₀, t₁, …) can change it only where one iteration is earlier than the other:
for each level k, equal up to t₍ₖ₋₁₎ and different at tₖ.  That their positions differ there is proven by the bounds of the variables; no proof, no raise.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.expr import ONE, Expr, both, postorder, substitute, var
from ..ir.kernel import Alloc, Store, statements
from ..ir.polynomial import coefficient, poly
from ..ir.simplify import assuming, prove
from .loop_events import Event, Events, NotTensor, Read, Trip

Access = Event | Read


def check_order(found: Events, known: Known) -> None:
    """NotTensor where running the events one after another would change what some access finds."""
    for k, w in enumerate(found.events):
        check_injective(w, known)
        for r in found.reads:
            if r.buffer != w.buffer:
                continue
            # the same statement must be free of its own stores altogether; others only in the direction that would be reversed
            own = _same_statement(r, w, k)
            if (k < r.after or own) and meet(r, w, known):
                raise NotTensor(f"{w.buffer} is read where another iteration stores it", w.span)
            if k >= r.after and meet(w, r, known):
                raise NotTensor(f"{w.buffer} is read where another iteration stores it", w.span)
        for later in found.events[k + 1 :]:
            commute = w.combiner and w.combiner == later.combiner
            if later.buffer == w.buffer and not commute and meet(later, w, known):
                raise NotTensor(f"{w.buffer} is stored by two statements, in an order that changes from element to element", later.span)


def _same_statement(r: Read, w: Event, k: int) -> bool:
    return r.after == k and r.loops[: len(w.loops)] == w.loops


def check_injective(w: Event, known: Known) -> None:
    """NotTensor unless iterations store different elements; those that differ only in loops that an accumulation reduces may store the same one."""
    if _data(w.index):
        raise NotTensor(f"where {w.buffer} is stored is data", w.span)
    mentioned = {n for e in w.index for n in postorder(e)}
    kept = tuple(t for t in w.loops if t.var in mentioned)
    if not w.combiner and len(kept) < len(w.loops):
        raise NotTensor(f"{w.buffer} is stored again by later iterations of a loop", w.span)
    one = replace(w, loops=kept)
    if meet(one, one, known):
        raise NotTensor(f"two iterations may store the same element of {w.buffer}", w.span)


def meet(earlier: Access, later: Access, known: Known) -> bool:
    """May an iteration of `earlier` and a strictly later one of `later` (in their common loops) touch the same element?"""
    common = 0
    for a, b in zip(earlier.loops, later.loops, strict=False):
        if a.var is not b.var:
            break
        common += 1
    if common and _data(earlier.index) | _data(later.index):
        return True
    return any(not _apart(earlier, later, level, known) for level in range(common))


def _data(index: tuple[Expr, ...]) -> bool:
    return any(n.op == "load" or (n.op == "var" and n.attr.startswith("%")) for e in index for n in postorder(e))


def _apart(a: Access, b: Access, level: int, known: Known) -> bool:
    """With equal variables before `level` and a's variable smaller there, the positions are proven to differ."""
    renamed = {t.var: var(f"{t.var.attr}'") for t in b.loops[level:]}
    loops = (*a.loops, *(Trip(renamed[t.var], substitute(t.count, renamed)) for t in b.loops[level:]))
    first, second = a.loops[level].var, renamed[b.loops[level].var]
    guard_b = None if b.guard is None else substitute(b.guard, renamed)
    inside = within(known, loops)
    inside = assuming(inside, both(first.lt(second), positional(a.guard), positional(guard_b)))
    pairs = [(x, substitute(y, renamed)) for x, y in zip(a.index, b.index, strict=True)]
    for k, (x, y) in enumerate(pairs):
        others = both(*(p.eq(q) for j, (p, q) in enumerate(pairs) if j != k and p is not q))
        there = assuming(inside, others)
        if prove(x.lt(y), there) or prove(y.lt(x), there):
            return True
    return False


def within(known: Known, loops: tuple[Trip, ...]) -> Known:
    """What is known inside loops that run at least once."""
    known = known.with_ranges({t.var.attr: (0, t.count - 1, 1) for t in loops})
    return assuming(known, both(*(t.var.lt(t.count) for t in loops)))


def positional(guard: Expr | None) -> Expr | None:
    """The conjuncts of a guard that speak of positions alone."""
    return None if guard is None else both(*(c for c in conjuncts(guard) if c.is_position and not _data((c,))))


def independent(found: Events, known: Known) -> set[int]:
    """The loops (by `id` of their statements) whose iterations touch different elements, and may run in any order."""
    result: set[int] = set()
    for v, loop in found.loops.items():
        own = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
        shared = {s.buffer for s in statements(loop.body) if isinstance(s, Store)} - own
        if loop.step is ONE and not any(name in found.scalars for name in shared) and _free(v, found, known):
            result.add(id(loop))
    return result


def _free(v: Expr, found: Events, known: Known) -> bool:
    def level(a: Access) -> int | None:
        return next((k for k, t in enumerate(a.loops) if t.var is v), None)

    for w in found.events:
        depth = level(w)
        if depth is None:
            continue
        for a in (*found.reads, *found.events):
            if a.buffer == w.buffer and level(a) == depth:
                if _data(w.index) or _data(a.index):
                    return False
                if not (_alike(w, a, v) and _apart(w, a, depth, known) and _apart(a, w, depth, known)):
                    return False
    return True


def _alike(a: Access, b: Access, v: Expr) -> bool:
    """Along some axis the positions move alike with the loop, which is what the verifier can follow."""
    slopes = ((coefficient(poly(x), v)[0], coefficient(poly(y), v)[0]) for x, y in zip(a.index, b.index, strict=True))
    return any(x and x == y for x, y in slopes)
