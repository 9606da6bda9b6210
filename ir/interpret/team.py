"""Threads, simulated: what the translated statements call, and the race finder.

A team is a list of generators that run to their next barrier one after another (in a shuffled, seeded order where races are looked for).

The race finder gives every access a *context*: for each enclosing parallel loop which run of the loop it is and which iteration, for each enclosing team
which stretch between barriers and which thread.  Two accesses to one element, one of them a write, race if their contexts first differ in the iteration or thread.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from ..errors import LuminalError

Context = tuple[tuple[int, int], ...]  # (run of a loop, or of a stretch between barriers; iteration or thread)
Member = Generator[None, None, None]


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

    def team(self, members: list[Member]) -> Member:
        """Run all members from barrier to barrier; yields where all of them have reached one."""
        base = self.context
        alive = list(enumerate(members))
        while alive:
            stretch = self.run_number()
            if self.check:
                self.random.shuffle(alive)
            waiting = []
            for thread, member in alive:
                if self.check:
                    self.context = (*base, (stretch, thread))
                try:
                    next(member)
                except StopIteration:
                    continue
                waiting.append((thread, member))
            self.context = base
            if self.check and waiting and len(waiting) != len(alive):
                raise MeaningFault("some threads of a team wait at a barrier that others never reach")
            alive = waiting
            if alive:
                yield
                # a team around this one has moved on to its next stretch
                base = self.context


class Watched:
    """An array (or a rank-0 local) that checks every access.  `rank`: the axes that are indexed, where elements are vectors."""

    reused = False  # scratch of one thread: an iteration may overwrite what an earlier one left, but not read it

    def __init__(self, name: str, array: Any, support: Support, defined: bool, local_scalar: bool = False, rank: int | None = None) -> None:
        self.name, self.array, self.support = name, array, support
        self.local_scalar = local_scalar
        self.shape = array.shape[:rank]
        self.defined = np.full(self.shape, defined)
        self.writer: dict[Any, Context] = {}
        self.readers: dict[Any, list[Context]] = {}

    def _place(self, index: Any) -> tuple[int, ...]:
        place = () if self.local_scalar else index if isinstance(index, tuple) else (index,)
        if len(place) != len(self.shape):
            raise MeaningFault(f"{self.name} has {len(self.shape)} axes, {len(place)} positions are given")
        for i, n in zip(place, self.shape, strict=True):
            if not 0 <= i < n:
                k = next(k for k, (i, n) in enumerate(zip(place, self.shape, strict=True)) if not 0 <= i < n)
                raise MeaningFault(f"{self.name}{list(map(int, place))}: position {int(place[k])} along axis {k} of extent {self.shape[k]}")
        return place

    def _conflict(self, place: tuple[int, ...], other: Context, what: str) -> None:
        for a, b in zip(other, self.support.context, strict=False):
            if a != b:
                if a[0] == b[0]:
                    raise MeaningFault(f"race: {self.name}{list(place)} is {what} by two iterations or threads ({a[1]} and {b[1]})")
                return

    def __getitem__(self, index: Any) -> Any:
        place = self._place(index)
        if not self.defined[place]:
            raise MeaningFault(f"{self.name}{list(place)} is read before it is written")
        if place in self.writer:
            self._conflict(place, self.writer[place], "written and read")
        readers = self.readers.setdefault(place, [])
        # two contexts decide almost every race; more would only cost memory
        if self.support.context not in readers and len(readers) < 4:
            readers.append(self.support.context)
        return self.array[place]

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._place(index)
        if place in self.writer and not self.reused:
            self._conflict(place, self.writer[place], "written")
        for other in self.readers.pop(place, ()):
            if not self.reused:
                self._conflict(place, other, "read and written")
        self.writer[place] = self.support.context
        self.defined[place] = True
        self.array[place] = value


class Scratch(Watched):
    """Memory that only one iteration or thread ever sees, since nothing parallel stands where it is visible: it cannot race."""

    def __getitem__(self, index: Any) -> Any:
        place = self._place(index)
        if not self.defined[place]:
            raise MeaningFault(f"{self.name}{list(place)} is read before it is written")
        return self.array[place]

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._place(index)
        self.defined[place] = True
        self.array[place] = value
