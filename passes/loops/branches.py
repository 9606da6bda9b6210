"""What both branches of an `if` accumulate in one place is accumulated once.

    if c:                                 X[i] ⊕= where(c, a, b)
      X[i] ⊕= a
    else:                        →
      X[i] ⊕= b

So a sum whose terms are chosen is one sum.  Conditions: the branches hold nothing but accumulations, in loops that both stand in, and read nothing that they store: then what they read is as it was
before the `if`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...ir.conditions import conjuncts
from ...ir.expr import Expr, both, call, load
from ...ir.kernel import identity_of
from ...ir.record import replace
from ...ir.walks import postorder, rebuild
from .loop_records import Event, stamped, unstamped

if TYPE_CHECKING:
    from .loop_events import Events


class Before(NamedTuple):
    """How much there was before an `if`."""

    events: int
    tests: int
    variables: int


def in_both_branches(found: Events, before: Before, second: int, condition: Expr, guard: Expr | None) -> None:
    """Join the events of an `if` that stands under `guard`: those from `second` on are of its `else`."""
    first, tests, variables = before
    then, other = found.events[first:second], found.events[second:]
    places = [[(e.buffer, e.index, e.combiner) for e in side] for side in (then, other)]
    stored = {e.buffer for e in (*then, *other)}
    plain = all(e.combiner and e.loops == found.around and not e.previous for e in (*then, *other))
    read = {
        unstamped(n.attr)[0]
        for e in (*then, *other)
        for n in postorder(e.value, *e.index, *(() if e.guard is None else (e.guard,)))
        if n.op == "load"
    }
    if not plain or not stored.isdisjoint(read) or any(len(set(p)) < len(p) for p in places) or set(places[0]) != set(places[1]):
        return
    if any(n in found.defined and int(n.attr[1:]) >= variables for e in (*then, *other) for n in postorder(e.value)):
        return
    outer = [] if guard is None else conjuncts(guard)
    sides = ([*outer, *conjuncts(condition)], [*outer, *conjuncts(call("bit_not", condition))])
    joined: list[Event] = []
    for a, place in zip(then, places[0], strict=True):
        b = other[places[1].index(place)]
        values = []
        for e, known in zip((a, b), sides, strict=True):
            rest = both(*(c for c in conjuncts(e.guard) if c not in known)) if e.guard is not None else None
            values.append(e.value if rest is None else call("where", rest, e.value, identity_of(e.combiner, e.value.dtype)))
        joined.append(replace(a, value=call("where", condition, *values), guard=guard, stores=(*a.stores, *b.stores)))
    as_of = _Stamps(found, first)
    found.events[first:] = [replace(e, value=as_of(e.value)) for e in joined]
    found.tests[tests:] = [replace(t, condition=as_of(t.condition), after=min(t.after, first)) for t in found.tests[tests:]]


class _Stamps:
    """Loads behind an event as they are before it, since it stores nothing that they read."""

    def __init__(self, found: Events, first: int) -> None:
        self.found, self.first = found, first

    def __call__(self, e: Expr) -> Expr:
        done: dict[Expr, Expr] = {}
        for n in postorder(e):
            new = rebuild(n, tuple(done[a] for a in n.args)) if n.args else n
            if n.op == "load" and "@" in n.attr:
                buffer, after = unstamped(n.attr)
                new = load(stamped(buffer, min(after, self.first)), n.dtype, *new.args)
                if new is not n:
                    places = self.found.loads.setdefault(new, {})
                    places.update((replace(r, after=min(r.after, self.first), index=new.args), None) for r in self.found.loads[n])
            done[n] = new
        return done[e]
