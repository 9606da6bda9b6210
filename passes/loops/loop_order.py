"""In which order, and which of them together, the events of a nest run as statements of their own (loop distribution).

The events of a nest take turns, iteration by iteration.  Each may run to its end alone when every access still finds what it found:

    a load sees the stores that were before it     the event runs behind those, and reads the version of its tensor that they left
    a load does not see the stores after it        tensors are values: it reads an older version
    a store is before another to one element       the two run in this order
    one of these holds both ways                   the two stay together, as loops

Events that stay together, and those that no node says (`stuck`), are a *group* that remains loops; the others are groups of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.kernel import While
from ...ir.record import replace
from ...ir.walks import postorder
from .dependence import Dependences, is_data
from .domains import NotTensor
from .loop_events import Events
from .loop_records import Event, Read, Unknown

if TYPE_CHECKING:
    from .overlaps import Turned


class Order:
    """`stuck`: events that no node says, with the reason.  `together` and `before` are filled by who finds out more."""

    def __init__(self, found: Events, pairs: Dependences) -> None:
        self.found, self.pairs = found, pairs
        self.stuck: dict[int, NotTensor] = {}
        self.turned: dict[int, Turned] = {}  # accumulations whose iterations overlap, as sums for each position
        self.together: list[tuple[int, int]] = []
        self.before: dict[tuple[int, int], None] = {}  # (a, b): a runs before b
        self.seen: dict[Read, tuple[tuple[int, ...], tuple[int, ...]]] = {}  # the events that a read comes behind, and those that come behind it
        self.reads = [dict.fromkeys(found.reads(k)) for k in range(len(found.events))]
        events = found.live
        for k in events:
            self._unknown(k)
        for k in events:
            self._stores(k)
            for r in list(self.reads[k]):
                self._read(k, r)
        for k in events:
            self._again(k)

    # ---- one event

    def stick(self, k: int, *message: str | Event | Read) -> None:
        """Event k stays, for the first reason that is found; an access in the message is shown as it was written."""
        if k not in self.stuck:
            words = [part if isinstance(part, str) else self.found.shown(part.buffer, part.index) for part in message]
            self.stuck[k] = NotTensor(" ".join(words), self.found.events[k].span)

    def _unknown(self, k: int) -> None:
        """What cannot be said at all."""
        w, found = self.found.events[k], self.found
        for v in found.definitions(*found.expressions(k)):
            d = found.defined[v]
            if isinstance(d, Unknown):
                self.stuck.setdefault(k, NotTensor(d.why, d.span))
                return
        if any(is_data(e) for e in w.index):
            self.stick(k, f"where {w.buffer} is stored is data")

    def _again(self, k: int) -> None:
        """Iterations must store different elements; those that differ only in loops that an accumulation reduces may store the same one."""
        w = self.found.events[k]
        mentioned = {n for e in w.index for n in postorder(e)}
        kept = tuple(t for t in w.loops if t.var in mentioned)
        one = replace(w, loops=kept)
        if not w.combiner and len(kept) < len(w.loops):
            self.stick(k, w, "is stored again by later iterations of a loop")
        elif self.pairs.meet(one, one):
            from .overlaps import turned

            turn = turned(w, self.found.arrays[w.buffer][1])
            if turn is None:
                self.stick(k, "two iterations may store the same element:", w)
            else:
                self.turned[k] = turn

    # ---- two events

    def _stores(self, k: int) -> None:
        w, pairs = self.found.events[k], self.pairs
        for j, later in enumerate(self.found.events[k + 1 :], k + 1):
            if later.buffer != w.buffer or (w.combiner and w.combiner == later.combiner):
                continue
            one = self._in_one_while(w, later)
            forth = one or pairs.touch(w, later) or pairs.meet(w, later)
            back = one or pairs.meet(later, w)
            if forth and back:
                self.together.append((k, j))
                self.stick(j, w, "and", later, "are stored by two statements, in an order that changes from element to element")
            elif forth or back:
                self.before[(k, j) if forth else (j, k)] = None

    def _read(self, k: int, r: Read) -> None:
        """Event k holds the read."""
        before, after = [], []
        for j, w in enumerate(self.found.events):
            if w.buffer != r.buffer:
                continue
            one = self._in_one_while(w, r)
            later = one or self.pairs.meet(r, w)
            first = one or self.pairs.meet(w, r) or (j < r.after and self.pairs.touch(r, w))
            second = later or (j >= r.after and self.pairs.touch(r, w))
            if (first and second) or (j == k and (first or (later and r.after == j and not _adds_up(w)))):
                if j != k:
                    self.together.append((j, k))
                self.stick(k, r, "is read where another iteration stores", w)
            if j != k and first:
                self.before[j, k] = None
            if first:
                before.append(j)
            if second:
                after.append(j)
        self.seen[r] = (tuple(before), tuple(after))
        for a in before:
            self.before.update(((a, b), None) for b in after if a != b)

    def _in_one_while(self, a: Event | Read, b: Event | Read) -> bool:
        """Whether rounds of one `while` hold both: they stay together in any case, and of the many pairs of a network nothing need be proven."""
        return any(isinstance(self.found.loops[t.var], While) for t in a.loops if t in b.loops)

    def adopt(self, k: int, reads: list[Read]) -> None:
        """Event k stays in loops that hold these reads too."""
        for r in reads:
            if r not in self.reads[k]:
                self.reads[k][r] = None
                self._read(k, r)

    def known_so_far(self) -> tuple[int, ...]:
        """It grows with every relation that is found."""
        return len(self.together), len(self.before), sum(map(len, self.reads))

    # ---- groups

    def groups(self) -> list[list[int]]:
        """The groups in an order that keeps every `before`, otherwise as written."""
        n, live = len(self.found.events), self.found.live
        reach = [1 << k for k in range(n)]  # events that must come behind (or stay with) each, as bits
        for a, b in [*self.before, *self.together, *((b, a) for a, b in self.together)]:
            reach[a] |= 1 << b
        for k in live:
            for a in live:
                if reach[a] >> k & 1:
                    reach[a] |= reach[k]
        leader = {a: next(b for b in live if reach[a] >> b & 1 and reach[b] >> a & 1) for a in live}
        members = {k: [a for a in live if leader[a] == k] for k in dict.fromkeys(leader.values())}
        done: list[list[int]] = []
        waiting = dict(members)
        while waiting:
            k = next(k for k in waiting if not any(j != k and reach[j] >> k & 1 for j in waiting))
            done.append(waiting.pop(k))
        return done


def _adds_up(w: Event) -> bool:
    """Whether a loop adds up what is stored: then what it reads of the elements behind is worth a copy of them as they were, and is not where each element is made of a few."""
    mentioned = {n for e in w.index for n in postorder(e)}
    return bool(w.combiner) and any(t.var not in mentioned for t in w.loops)


__all__ = ["Order"]
