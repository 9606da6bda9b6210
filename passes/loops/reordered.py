"""Whether what is inside of a loop may run in another order than it is written in.

Two accesses to one array, one of them a store, that would come the other way around must touch different elements (`dependence.py`).  A pass says when that would be, of the nest as it is, or of the nest as it would
stand, and asks with what it says as a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...ir.expr import Expr, both
from ...ir.kernel import Loop, Nest, statements
from ...ir.record import replace
from .dependence import Access, Dependences
from .loop_events import Events
from .loop_records import Event
from .steady import elsewhere, in_iteration


def all_accesses(found: Events) -> Iterator[Access]:
    """All stores, then all reads."""
    yield from found.events
    for places in found.loads.values():
        yield from places


def level(a: Access, loop: Loop, found: Events) -> int | None:
    """How many loops are around this one, if the access is inside of it."""
    return next((k for k, t in enumerate(a.loops) if found.loops[t.var] is loop), None)


def inside(found: Events, loop: Loop) -> Iterator[tuple[Access, int]]:
    """The accesses inside a loop, each with its level."""
    for a in all_accesses(found):
        k = level(a, loop, found)
        if k is not None:
            yield a, k


def position(v: Expr, found: Events) -> Expr:
    """Where the loop of this variable, which counts from 0, stands."""
    start, step = found.starts[v]
    return start + v * step


def may_touch(a: Access, b: Access, level: int, found: Events, pairs: Dependences, when: Expr | None = None) -> bool:
    """Whether the two may touch one element in one iteration of the first `level` loops."""
    return pairs.touch(in_iteration(a, level, found), in_iteration(replace(b, guard=both(b.guard, when)), level, found))


class Turn(NamedTuple):
    """When an access is: in which iteration of a loop, in which of the loops inside of it, and in which iteration of that one, which begins somewhere."""

    outer: Expr
    part: int
    inner: Expr
    start: Expr


def behind(
    nest: Nest, loop: Loop, parts: Iterable[Loop], pairs: Dependences, most: int, early: Callable[[Turn, Turn, int], Iterable[Expr | None]]
) -> int:
    """How far behind the turn before a turn must be, up to `most`; 0 where that is not enough, or where the loops do something outside of these parts.

    early: when the later of two turns would come before the other, or with it, being so far behind.
    """
    found = pairs.events(nest)
    which = {id(p): k for k, p in enumerate(parts)}
    within = {id(s) for s in statements((loop,))}
    turns: list[tuple[Access, Turn, int]] = []
    for a in all_accesses(found):
        k = level(a, loop, found)
        if k is None:
            if isinstance(a, Event) and not within.isdisjoint(a.stores):
                return 0
        elif a.buffer in found.stored:
            outer, *inner = (t.var for t in a.loops[k : k + 2])
            part = which.get(id(found.loops[inner[0]])) if inner else None
            if part is None:
                return 0
            turns.append((in_iteration(a, k, found), Turn(outer, part, inner[0], found.starts[inner[0]][0]), k))
    couples = [(a, x, b, y, k) for a, x, k in turns for b, y, _ in turns if a.buffer == b.buffer and (isinstance(a, Event) or isinstance(b, Event))]

    def disturbed(a: Access, x: Turn, b: Access, y: Turn, k: int, far: int) -> bool:
        other, rename = elsewhere(b, k)
        there = Turn(rename(y.outer), y.part, rename(y.inner), rename(y.start))
        return any(pairs.touch(a, replace(other, guard=both(other.guard, when))) for when in early(x, there, far))

    return next((far for far in range(1, most + 1) if not any(disturbed(*c, far) for c in couples)), 0)


__all__ = ["Turn", "all_accesses", "behind", "inside", "level", "may_touch", "position"]
