"""Points at which an inequality fails, looked for one name at a time: where a proof would be long, there is often none.

The points that a scope has already (`witness.py`) say nothing of this inequality.  From one of them each name of it goes to either end of its range, inner loops first, and
stays where that makes the polynomial less; what is bounded by it follows.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from .expr import Expr
from .polynomial import Poly
from .witness import HIGH, LOW, MOST, Point

if TYPE_CHECKING:
    from .knowledge import Knowledge
    from .ranges import Range

FAR: Final = 6007  # what is unbounded may be this
MOVES: Final = 10  # that are tried: most of those that lead somewhere do so by the seventh


def counterexample(known: Knowledge, p: Poly) -> Point | None:
    """A point that agrees with all that is known, at which p < 0; None where none is found."""
    names = frozenset().union(*[a.names for m in p for a in m])
    order = [n for n in reversed(known.ranges) if n in names]
    # a factor of all terms that goes to 0 hides what the others do
    shared = frozenset.intersection(*[frozenset([a.attr for a in m if not a.args]) for m in p]) if p else frozenset()
    ends = {n: (HIGH,) if n in shared else (LOW, HIGH) for n in order}
    moves = islice([(start, n, end) for start in known.points for n in order for end in ends[n]], MOVES)
    for start, group in groupby(moves, key=lambda move: move[0]):
        point, least = start, start.at(p)
        for _, name, end in group if least is not None else ():
            other = moved(known, point, name, end)
            value = None if other is None else other.at(p)
            if other is not None and value is not None and least is not None and value < least:
                if value < 0:
                    return other
                point, least = other, value
    return None


def moved(known: Knowledge, point: Point, name: str, end: int) -> Point | None:
    """The point with one name at an end of its range, and what then is beyond its own range brought back into it; None where the range has no such end, or something known
    does not hold there."""
    changed = {name}
    result: Point | None = None
    for n, r in known.ranges.items():
        if result is None:
            if n != name:
                continue
        elif all(changed.isdisjoint(e.names) for e in (r.min, r.max, r.exactly) if isinstance(e, Expr)):
            continue
        value = _value(r, result or point, point.names[n], end if n == name else None)
        if value is None:
            return None
        if value != point.names[n]:
            changed.add(n)
            result = _with(result or point, n, value)
        elif n == name:
            return None
    if result is None:
        return None
    for f in known.facts:
        if any(not changed.isdisjoint(a.names) for m in f for a in m):
            value = result.at(f)
            if value is None or value < 0:
                return None
    return result if all(result.of(z) == 0 for z in known.zeros) else None


def _value(r: Range, point: Point, old: int, end: int | None) -> int | None:
    """What a name is: at an end of its range, or as near to its old value as the range admits."""
    ends: list[int | None] = []
    for e in (r.min, r.max, r.exactly):
        value = point.of(e) if isinstance(e, Expr) else e
        if value is None and e is not None:
            return None
        ends.append(value)
    low, high, exactly = ends
    if exactly is not None:
        value = exactly
    elif end is None:
        value = old if low is None or low <= old else low
        value = value if high is None or value <= high else high
    else:
        value = low if end == LOW else FAR if high is None else high
        if value is None or abs(value) > MOST:
            return None
    if exactly is None:
        value += -value % r.multiple if low is not None and value == low else -(value % r.multiple)
    return value if (low is None or low <= value) and (high is None or value <= high) and value % r.multiple == 0 else None


def _with(point: Point, name: str, value: int) -> Point:
    """The point with another value for a name that has one."""
    memo = {e: v for e, v in point.memo.items() if name not in e.names}
    return Point(point.seed, point.slope, point.taste, {**point.names, name: value}, memo)
