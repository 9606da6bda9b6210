"""Threads, simulated: what the translated statements call, and the race finder.

A team is a list of generators that run to their next barrier one after another (in a shuffled, seeded order where races are looked for).

The race finder gives every access a *context*: for each enclosing parallel loop which run of the loop it is and which iteration, for each enclosing team
which stretch between barriers and which thread.  Two accesses to one element, one of them a write, race if their contexts first differ in the iteration or thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ..errors import LuminalError

Context = tuple[tuple[int, int], ...]  # (run of a loop, or of a stretch between barriers; iteration or thread)
Member = Generator[int, None, None]  # what it waits for: see `Barrier`


class MeaningFault(LuminalError):
    """`check=True` found a race, a read of undefined contents, or an index outside: the statements have no defined meaning."""


class Support:
    """One run's state.  Without `check` the loops run in order and nothing is recorded."""

    def __init__(self, check: bool, seed: int, threads: int) -> None:
        self.check, self.threads = check, threads
        self.random = random.Random(seed)
        self.context: Context = ()
        self.status = 0  # the sticky error code of the program level
        self.runs = 0
        self.groups: list[list[Callable[[], None]]] = [
            []
        ]  # copies on their way, by the stretch between barriers in which they began; the last one goes on

    def run_number(self) -> int:
        self.runs += 1
        return self.runs

    def order(self, iterations: Sequence[int]) -> Sequence[int]:
        """The iterations of a parallel loop in the order in which they run."""
        if not self.check:
            return iterations
        shuffled = list(iterations)
        self.random.shuffle(shuffled)
        return shuffled

    def share(self, iterations: Sequence[int], thread: int, threads: int) -> Sequence[int]:
        """The iterations of a loop of the kind workshare or queue that one thread of a team runs."""
        return iterations if threads == 1 else self.order(iterations[thread::threads])

    def later(self, buffer: Any, index: Any, value: Any) -> None:
        """Store what is there when a barrier has waited for it.  Until then the element is as undefined as memory that nobody has written."""
        if isinstance(buffer, Watched):
            buffer[index] = value  # what other threads do there at the same time is a race
        array = buffer.array if isinstance(buffer, Watched) else buffer
        array[index] = np.nan if array.dtype.kind in "fV" else array.dtype.type(0x5A)
        self.groups[-1].append(buffer.on_its_way(index, value) if isinstance(buffer, Watched) else lambda: array.__setitem__(index, value))

    def arrive(self, later: int) -> None:
        """All threads have reached a barrier: what began in the last so many stretches need not be there."""
        while len(self.groups) > later:
            for copy in self.groups.pop(0):
                copy()
        self.groups.append([])

    def team(self, members: list[Member]) -> Member:
        """Run all members from barrier to barrier; yields where all of them have reached one, what it waits for."""
        base = self.context
        alive = list(enumerate(members))
        while alive:
            stretch = self.run_number()
            if self.check:
                self.random.shuffle(alive)
            waiting = []
            later = 0
            for thread, member in alive:
                if self.check:
                    self.context = (*base, (stretch, thread))
                try:
                    later = next(member)
                except StopIteration:
                    continue
                waiting.append((thread, member))
            self.context = base
            if self.check and waiting and len(waiting) != len(alive):
                raise MeaningFault("some threads of a team wait at a barrier that others never reach")
            alive = waiting
            if alive:
                yield later
                # a team around this one has moved on to its next stretch
                base = self.context


class Watched:
    """An array (or a rank-0 local) that checks every access.  `defined`: whether it may be read before it is written.  `rank`: the axes that are indexed, where elements are vectors.

    What is known of an element stands under the index as it is given: who wrote it last (None: nobody), then who has read it since.  An index that is known is inside.
    """

    reused = False  # scratch of one thread: an iteration may overwrite what an earlier one left, but not read it

    def __init__(self, name: str, array: Any, support: Support, defined: bool, local_scalar: bool = False, rank: int | None = None) -> None:
        self.name, self.support, self.defined = name, support, defined
        self.array = array.reshape(1) if local_scalar else array  # it has one place, 0
        self.local_scalar = local_scalar
        self.shape = self.array.shape[:rank]
        self.known: dict[Any, list[Context | None]] = {}

    def _new(self, index: Any) -> list[Context | None]:
        """What is known of an element that nobody has touched.  MeaningFault for one that is not there."""
        place, shape = index if isinstance(index, tuple) else (index,), self.shape
        if len(place) != len(shape):
            raise MeaningFault(f"{self.name} has {len(shape)} axes, {len(place)} positions are given")
        for k, (i, n) in enumerate(zip(place, shape, strict=True)):
            if not 0 <= i < n:
                raise MeaningFault(f"{self.name}{list(map(int, place))}: position {int(place[k])} along axis {k} of extent {n}")
        return self.known.setdefault(index, [None])

    def _place(self, index: Any) -> list[Any]:
        return [] if self.local_scalar else list(index) if isinstance(index, tuple) else [index]

    def _undefined(self, index: Any) -> MeaningFault:
        return MeaningFault(f"{self.name}{self._place(index)} is read before it is written")

    def _conflict(self, index: Any, other: Context, what: str) -> None:
        for a, b in zip(other, self.support.context):  # noqa: B905 - as far as both go; this is much of what a checked run does
            if a is not b and a != b:
                if a[0] == b[0]:
                    raise MeaningFault(f"race: {self.name}{self._place(index)} is {what} by two iterations or threads ({a[1]} and {b[1]})")
                return

    def __getitem__(self, index: Any) -> Any:
        known = self.known.get(index) or self._new(index)
        context = self.support.context
        if known[-1] is not context and context not in known:
            writer = known[0]
            if writer is not None:
                self._conflict(index, writer, "written and read")
            elif not self.defined:
                raise self._undefined(index)
            # two contexts decide almost every race: the first ones, and the last
            if len(known) < 5:
                known.append(context)
            else:
                known[-1] = context
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        known = self.known.get(index) or self._new(index)
        context = self.support.context
        if not self.reused:
            for k, other in enumerate(known):
                if other is not None and other is not context:
                    self._conflict(index, other, "read and written" if k else "written")
        known[:] = (context,)
        self.array[index] = value

    def on_its_way(self, index: Any, value: Any) -> Callable[[], None]:
        """What was just stored is not there before the function is called."""
        writer = self.known.pop(index)[0]

        def arrive() -> None:
            self.known[index] = [writer, *self.known.get(index, ())[1:]]
            self.array[index] = value

        return arrive


class Scratch(Watched):
    """Memory that only one iteration or thread ever sees, since nothing parallel stands where it is visible: it cannot race."""

    def __getitem__(self, index: Any) -> Any:
        if index not in self.known and not self.defined:
            self._new(index)
            raise self._undefined(index)
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if index not in self.known:
            self._new(index)
        self.array[index] = value


class Cell(Scratch):
    """One number of that kind, such as a sum so far: it has one place, whatever index is given."""

    def __getitem__(self, index: Any) -> Any:
        if not self.defined:
            raise self._undefined(index)
        return self.array[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.defined = True
        self.array[0] = value
