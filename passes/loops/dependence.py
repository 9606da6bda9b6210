"""Which iterations of a nest touch the same element, and which of two accesses comes first.

Two accesses at common loops (t₀, t₁, …) meet in one iteration of all of them, or in different ones: for each level k, equal up to t₍ₖ₋₁₎ and different at tₖ.  That
their positions differ there is proven by the bounds of the variables: all that is linear is one system (`systems.py`), which has a solution or not; what is not proven may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.bounds import Known, fact
from ...ir.conditions import conjuncts
from ...ir.expr import Expr, both, var
from ...ir.kernel import Nest
from ...ir.polynomial import Poly, atom, atoms, is_constant, plus, poly, shifted
from ...ir.simplify import assuming, prove_le
from ...ir.walks import leaves, substitution
from ...ir.witness import Point
from .domains import Trip, granted
from .emptiness import is_empty
from .loop_records import Event, Read
from .systems import System

if TYPE_CHECKING:
    from .loop_events import Events

Access = Event | Read


class Dependences:
    """What is known of pairs of accesses; asked again, it is remembered."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._apart: dict[tuple[object, ...], bool] = {}
        self._domains: dict[tuple[Trip, ...], Known] = {}
        self._events: dict[int, tuple[Nest, Events]] = {}

    def meet(self, earlier: Access, later: Access) -> bool:
        """May an iteration of `earlier` and a strictly later one of `later` (in their common loops) touch the same element?"""
        if _elsewhere(earlier, later) or _instead(earlier, later):
            return False
        for level in range(_common(earlier, later)):  # noqa: SIM110 - a generator is dear in compiled code, here and below
            if not self.apart(earlier, later, level):
                return True
        return False

    def touch(self, a: Access, b: Access) -> bool:
        """May the two touch the same element in one iteration of all their common loops?"""
        return not _elsewhere(a, b) and not _instead(a, b) and not self.apart(a, b, _common(a, b))

    def apart(self, a: Access, b: Access, level: int) -> bool:
        """With equal variables before `level` and a's variable smaller there (where it is a loop of both), the positions are proven to differ along some axis."""
        if level < _common(a, b) and _moved_alone(a, b, level):
            return True
        key = (a.index, _parts(a.loops), a.guard, b.index, _parts(b.loops), b.guard, level)
        if key not in self._apart:
            self._apart[key] = _prove_apart(a, b, level, self.known, self._inside)
        return self._apart[key]

    def events(self, nest: Nest) -> Events:
        """What the statements of a nest do: several passes ask, one after the other, of the same."""
        from .loop_events import Events

        asked, found = self._events.get(id(nest.body), (None, None))
        if found is None or asked is None or asked.operands != nest.operands or asked.results != nest.results:
            found = Events(nest, self.known)
            self._events[id(nest.body)] = nest, found
        return found

    def _inside(self, loops: tuple[Trip, ...]) -> Known:
        if loops not in self._domains:
            self._domains[loops] = granted(self.known, loops)
        return self._domains[loops]


def _moved_alone(a: Access, b: Access, level: int) -> bool:
    """Whether along some axis the two have one position, which no loop from `level` on moves but the one there, by a number: most pairs."""
    t = a.loops[level].var
    for k in range(len(a.index)):
        x = a.index[k]
        if x is b.index[k] and t.attr in x.names and not is_data(x) and _alone(poly(x), t, b.loops[level + 1 :]):
            return True
    return False


def _alone(p: Poly, t: Expr, inner: tuple[Trip, ...]) -> bool:
    moved = False
    for m in p:
        if len(m) == 1 and m[0] is t:
            moved = True
        else:
            for x in m:
                if t.attr in x.names:
                    return False
                for u in inner:
                    if u.var.attr in x.names:
                        return False
    return moved


def _parts(loops: tuple[Trip, ...]) -> tuple[Expr, ...]:
    """Trips as what they are made of, which is compared by identity."""
    found: list[Expr] = []
    for t in loops:
        found += (t.var, t.count)
    return tuple(found)


def _elsewhere(a: Access, b: Access) -> bool:
    """Two numbers along some axis tell them apart at a glance."""
    for x, y in zip(a.index, b.index, strict=True):  # noqa: SIM110
        if x.is_const and y.is_const and x is not y:
            return True
    return False


def _instead(a: Access, b: Access) -> bool:
    """The sizes choose between the two."""
    if a.guard is None or b.guard is None:
        return False
    mine, other = set(conjuncts(a.guard)), set(conjuncts(b.guard))
    return any(
        c.op == "bit_not" and c.args[0] in theirs and not leaves(c, "var") and not c.buffers
        for own, theirs in ((mine, other), (other, mine))
        for c in own
    )


def _prove_apart(a: Access, b: Access, level: int, known: Known, inside_of: Callable[[tuple[Trip, ...]], Known]) -> bool:
    renamed = {t.var: var(f"{t.var.attr}'") for t in b.loops[level:]}
    rename = substitution(renamed)
    pairs = [(x, rename(y)) for x, y in zip(a.index, b.index, strict=True) if not is_data(x) and not is_data(y)]
    same = [p for x, y in pairs if (p := plus(poly(x), poly(y), -1))]
    if not same or [p for p in same if is_constant(p)]:
        return bool(same)
    smaller = u = None
    if level < _common(a, b):
        t, u = a.loops[level].var, renamed[b.loops[level].var]
        if [p for p in same if len(p) == 2 and p.get((t,), 0) == -p.get((u,), 0) != 0]:
            return True  # the positions differ by as much as the variables, and these differ
        smaller = t.lt(u)
    loops = (*a.loops, *[Trip(renamed[t.var], rename(t.count)) for t in b.loops[level:]])
    guard = both(smaller, positional(a.guard), positional(None if b.guard is None else rename(b.guard)))
    if _meet_at_first(same, loops, guard, u, known):
        return False
    system = _system(known, loops, guard, same)
    empty = is_empty(system.equal, system.least)
    if empty is not None and (empty or system.exact):
        return empty
    return _prove_different(pairs, assuming(inside_of(loops), guard))


def _meet_at_first(same: list[Poly], loops: tuple[Trip, ...], guard: Expr | None, later: Expr | None, known: Known) -> bool:
    """Whether positions are the same in the first iterations of all loops (of `later` in the second) for some sizes, which takes less to see than that there is no proof of the contrary."""
    first = {t.var.attr: 0 for t in loops}
    if later is not None:
        first[later.attr] = 1
    for t in loops:
        if t.count.op == "var" and t.count.attr not in known.ranges:  # data
            first.setdefault(t.count.attr, 2)
    for sizes in known.points:
        point = Point(sizes.seed, sizes.slope, sizes.taste, {**sizes.names, **first})
        if _is_at(point, same, loops, guard):
            return True
    return False


def _is_at(point: Point, same: list[Poly], loops: tuple[Trip, ...], guard: Expr | None) -> bool:
    for p in same:
        if point.at(p) != 0:
            return False
    for t in loops:
        count = point.of(t.count)
        if count is None or count <= point.names[t.var.attr]:
            return False
    return guard is None or bool(point.of(guard))


def _prove_different(pairs: list[tuple[Expr, Expr]], inside: Known) -> bool:
    """Along some axis one position is proven to be smaller than the other where those along the others are the same: for what is no linear system, or too long a one."""
    for k, (x, y) in enumerate(pairs):
        if x is y:
            continue
        others = both(*[p.eq(q) for j, (p, q) in enumerate(pairs) if j != k and p is not q])
        there = assuming(inside, others)
        if prove_le(x + 1, y, there) or prove_le(y + 1, x, there):
            return True
    return False


def _system(known: Known, loops: tuple[Trip, ...], guard: Expr | None, same: list[Poly]) -> System:
    """The iterations that the loops and the guard admit, and in which the positions are the same."""
    facts = {c: fact(c) for c in conjuncts(guard)} if guard is not None else {}
    least = [p for found in facts.values() for p in found]
    named = {n for p in (*same, *least) for a in atoms(p) for n in a.names}
    for t in reversed(loops):
        last = shifted(poly(t.count), -1)
        least += [atom(t.var), plus(last, atom(t.var), -1)] if t.var.attr in named else [last]
        named |= t.count.names
    system = System(known, same, least)
    system.exact = system.exact and all(facts.values())
    return system


def _common(a: Access, b: Access) -> int:
    common = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x.var is not y.var:
            break
        common += 1
    return common


def is_data(e: Expr) -> bool:
    """It depends on memory."""
    if e.buffers:
        return True
    for n in e.names:  # noqa: SIM110
        if n.startswith("%"):
            return True
    return False


def positional(guard: Expr | None) -> Expr | None:
    """The conjuncts of a guard that speak of positions alone."""
    return None if guard is None else both(*(c for c in conjuncts(guard) if c.is_position and not is_data(c)))


__all__ = ["Access", "Dependences", "is_data", "positional"]
