"""Which iterations of a nest touch the same element, and which of two accesses comes first.

Two accesses at common loops (t₀, t₁, …) meet in one iteration of all of them, or in different ones: for each level k, equal up to t₍ₖ₋₁₎ and different at tₖ.  That
their positions differ there is proven by the bounds of the variables, along some axis; what is not proven may be.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.expr import Expr, both, var
from ..ir.polynomial import Poly, atoms, constant, is_constant, name, plus, poly, scaled
from ..ir.simplify import assuming, prove
from ..ir.walks import leaves, postorder, substitution
from .domains import Trip, within
from .loop_records import Event, Read

Access = Event | Read
FAR = 1 << 60  # a bound beyond it is none


class Dependences:
    """What is known of pairs of accesses; asked again, it is remembered."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._apart: dict[tuple[object, ...], bool] = {}
        self._domains: dict[tuple[Trip, ...], Known] = {}

    def meet(self, earlier: Access, later: Access) -> bool:
        """May an iteration of `earlier` and a strictly later one of `later` (in their common loops) touch the same element?"""
        return (
            not _elsewhere(earlier, later)
            and not _instead(earlier, later)
            and any(not self.apart(earlier, later, level) for level in range(_common(earlier, later)))
        )

    def touch(self, a: Access, b: Access) -> bool:
        """May the two touch the same element in one iteration of all their common loops?"""
        return not _elsewhere(a, b) and not _instead(a, b) and not self.apart(a, b, _common(a, b))

    def apart(self, a: Access, b: Access, level: int) -> bool:
        """With equal variables before `level` and a's variable smaller there (where it is a loop of both), the positions are proven to differ along some axis."""
        key = (a.index, a.loops, a.guard, b.index, b.loops, b.guard, level)
        if key not in self._apart:
            self._apart[key] = _prove_apart(a, b, level, self._inside)
        return self._apart[key]

    def _inside(self, loops: tuple[Trip, ...]) -> Known:
        if loops not in self._domains:
            self._domains[loops] = within(self.known, loops)
        return self._domains[loops]


def _elsewhere(a: Access, b: Access) -> bool:
    """Two numbers along some axis tell them apart at a glance."""
    return any(x.is_const and y.is_const and x is not y for x, y in zip(a.index, b.index, strict=True))


def _instead(a: Access, b: Access) -> bool:
    """The sizes choose between the two."""
    mine, other = (set(conjuncts(g)) if g is not None else set[Expr]() for g in (a.guard, b.guard))
    return any(
        c.op == "bit_not" and c.args[0] in theirs and not leaves(c, "var") and not c.buffers
        for own, theirs in ((mine, other), (other, mine))
        for c in own
    )


def _prove_apart(a: Access, b: Access, level: int, inside_of: Callable[[tuple[Trip, ...]], Known]) -> bool:
    renamed = {t.var: var(f"{t.var.attr}'") for t in b.loops[level:]}
    rename = substitution(renamed)
    pairs = [(x, rename(y)) for x, y in zip(a.index, b.index, strict=True)]
    pairs = [(x, y) for x, y in pairs if not is_data(x) and not is_data(y)]
    same = [plus(poly(x), poly(y), -1) for x, y in pairs]
    if not any(same) or any(p and is_constant(p) for p in same):
        return any(same)
    if level < _common(a, b):
        t, u = a.loops[level].var, renamed[b.loops[level].var]
        if any(len(p) == 2 and p.get((t,), 0) == -p.get((u,), 0) != 0 for p in same):
            return True  # the positions differ by as much as the variables, and these differ
    loops = (*a.loops, *[Trip(renamed[t.var], rename(t.count)) for t in b.loops[level:]])
    guard_b = None if b.guard is None else rename(b.guard)
    smaller = a.loops[level].var.lt(renamed[b.loops[level].var]) if level < _common(a, b) else None
    inside = assuming(inside_of(loops), both(smaller, positional(a.guard), positional(guard_b)))
    limits = _limits(inside, same)
    from .emptiness import is_empty

    empty = is_empty(same, limits)
    if empty is not None and (empty or all(_plain(p) for p in (*same, *limits))):
        return empty
    for k, (x, y) in enumerate(pairs):
        if x is y:
            continue
        others = both(*(p.eq(q) for j, (p, q) in enumerate(pairs) if j != k and p is not q))
        there = assuming(inside, others)
        if prove(x.lt(y), there) or prove(y.lt(x), there):
            return True
    return False


def _limits(known: Known, about: list[Poly]) -> list[Poly]:
    """What is known, as polynomials >= 0, of the names in these polynomials and of those that their bounds mention."""
    found: list[Poly] = []
    waiting = [*about, *known.facts]
    seen: set[Expr] = set()
    found += known.facts
    while waiting:
        for n in [n for e in atoms(waiting.pop()) for n in (postorder(e) if e.args else (e,))]:
            if n in seen or not name(n):
                continue
            seen.add(n)
            r = known.ranges.get(name(n))
            ends = [] if r is None else [(r.min, 1), (r.max, -1)]
            for end, way in ends:
                if end is not None and not (isinstance(end, int) and abs(end) > FAR):
                    at = poly(end) if isinstance(end, Expr) else constant(end)
                    found.append(scaled(plus(poly(n), at, -1), way))
                    waiting.append(at)
    return found


def _plain(p: Poly) -> bool:
    """Linear in names: what is empty or not is the whole truth of it."""
    return all(len(m) < 2 and not any(a.args for a in m) for m in p)


def _common(a: Access, b: Access) -> int:
    common = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x.var is not y.var:
            break
        common += 1
    return common


def is_data(e: Expr) -> bool:
    """It depends on memory."""
    return bool(e.buffers) or any(name.startswith("%") for name in e.names)


def positional(guard: Expr | None) -> Expr | None:
    """The conjuncts of a guard that speak of positions alone."""
    return None if guard is None else both(*(c for c in conjuncts(guard) if c.is_position and not is_data(c)))


__all__ = ["Access", "Dependences", "is_data", "positional"]
