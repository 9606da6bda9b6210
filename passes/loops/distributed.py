"""Loops of a nest that stays loops in which each iteration has elements of its own, but for what it adds up: that is done in a loop behind.

    for n in 0 .. N:                              for n in 0 .. N parallel:
      h[n] = exp(t · A[n]) · h[n] + u · P[n]        h[n] = exp(t · A[n]) · h[n] + u · P[n]
      y[] add= h[n] · Q[n]                   →    for n in 0 .. N reduce:
                                                    y[] add= h[n] · Q[n]

Together they are neither independent nor a reduction, so they would run one by one; apart, the first is vectors and the second is lanes that add up.  Statements keep their order within an iteration,
and no iteration touches what another has stored, so the parts may follow one another.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from ...ir.expr import ONE
from ...ir.kernel import Alloc, Block, If, Let, Loop, Nest, Stmt, Store, map_block, statements, written
from ...ir.record import replace
from .concurrency import conflicts
from .dependence import Dependences


def distributed(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with such loops taken apart."""
    mixed = [s for s in statements(nest.body) if isinstance(s, Loop) and s.kind == "serial" and s.step is ONE and _parts(s)]
    if not mixed:
        return nest
    found = pairs.events(nest)
    apart: dict[int, tuple[Block, ...]] = {}
    for v, loop in found.loops.items():
        if isinstance(loop, Loop) and any(loop is s for s in mixed):
            adds = _Adds(loop)
            sums = frozenset(id(s) for part in _parts(loop) if adds.up(part[-1]) for s in statements(part) if isinstance(s, Store))
            if not any(conflicts(v, found, pairs, sums)):
                apart[id(loop)] = _parts(loop)

    def change(s: Stmt) -> Block | None:
        return tuple(replace(s, body=part) for part in apart[id(s)]) if isinstance(s, Loop) and id(s) in apart else None

    return replace(nest, body=map_block(nest.body, change)) if apart else nest


def _parts(loop: Loop) -> tuple[Block, ...]:
    """The parts of a loop's body, in order, each with the names that it alone uses; none where there is but one, or where one gives another more than elements."""
    work = [s for s in loop.body if not isinstance(s, Let | Alloc)]
    inside = statements(loop.body)
    if len(work) < 2 or not all(isinstance(s, Store | Loop | If | Let | Alloc) for s in inside):
        return ()
    if any(written(loop.body) & e.buffers for e in (loop.start, loop.stop)):
        return ()
    adds = _Adds(loop)
    groups: list[list[Stmt]] = [list(group) for _, group in groupby(work, adds.up)]
    stored = [written(tuple(group)) for group in groups]
    own = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    for k, group in enumerate(groups):
        if adds.up(group[0]):
            if any(stored[k] & other for j, other in enumerate(stored) if j != k):  # in another order
                return ()
        elif not all(s.index or s.buffer in own for s in statements(tuple(group)) if isinstance(s, Store)):
            return ()
    if len(groups) < 2:
        return ()
    return _with_names(loop.body, groups)


def _with_names(body: Block, groups: list[list[Stmt]]) -> tuple[Block, ...]:
    """The groups as blocks, each with the lets and the local buffers that it uses; none where one is used by several, or reads what another group stores."""
    parts = [list(g) for g in groups]
    for k, s in reversed(list(enumerate(body))):
        if not isinstance(s, Let | Alloc):
            continue
        users = [part for part in parts if (s.name if isinstance(s, Let) else s.buffer.name) in _used(part)]
        if len(users) > 1:
            return ()
        for part in users:
            if isinstance(s, Let) and any(s.value.buffers & written(tuple(other)) for other in parts if other is not part):
                return ()
            behind = {id(t) for t in body[k:]}
            part.insert(next(n for n, t in enumerate(part) if id(t) in behind), s)
    return tuple(map(tuple, parts))


def _used(block: Iterable[Stmt]) -> set[str]:
    inside = statements(tuple(block))
    read = {name for s in inside for e in s.expressions() for name in (*e.names, *e.buffers)}
    return read | {s.buffer for s in inside if isinstance(s, Store)}


class _Adds:
    """Which statements of a loop only accumulate, into places that all iterations share and none reads."""

    def __init__(self, loop: Loop) -> None:
        inside = statements(loop.body)
        self.named = {loop.axis, *(t.name for t in inside if isinstance(t, Let))}
        self.read = {b for t in inside for e in t.expressions() for b in e.buffers}

    def up(self, s: Stmt) -> bool:
        inside = statements((s,))
        stores = [t for t in inside if isinstance(t, Store)]
        return bool(stores) and all(isinstance(t, Store | Loop) for t in inside) and all(map(self._shared, stores))

    def _shared(self, s: Store) -> bool:
        return bool(s.combiner) and s.buffer not in self.read and all(self.named.isdisjoint(e.names) and not e.buffers for e in s.index)


__all__ = ["distributed"]
