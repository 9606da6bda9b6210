"""A part of a nest as a nest of its own: chosen stores with the loops, branches, scalars and checks that they need.

for i: Y[i] = 2 * A[i]                          for i:
       t = t + A[i]            Z alone    →       t = t + A[i]
       Z[i] = t                                   Z[i] = t
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.kernel import Alloc, Block, Check, If, Let, Loop, Stmt, Store, While
from ...ir.record import replace


class Slice:
    """`stores`: the statements that are kept, by `id`; `scalars`: the names that are computed on the way (not tensors)."""

    def __init__(self, body: Block, stores: Iterable[int], scalars: frozenset[str]) -> None:
        self.wanted = set(stores)
        self.scalars = scalars
        self.names: set[str] = set()  # of the scalars that it needs, and of sizes and loops
        self.arrays: set[str] = set()  # that it touches
        self.checks: set[int] = set()
        self._met: set[int] = set()  # the statements whose own expressions have been looked at, by `id`
        while self._grow(body):
            pass
        self.body = self._kept(body)

    def _grow(self, body: Block) -> bool:
        """One walk that takes in what the statements taken in so far need; False where that was nothing."""
        before = (len(self.names), len(self.wanted), len(self.checks))
        self._walk(body, (), ())
        return before != (len(self.names), len(self.wanted), len(self.checks))

    def _walk(self, body: Block, around: tuple[Stmt, ...], checks: tuple[Check, ...]) -> None:
        """`checks` stand before the block's statements, in the blocks around it."""
        for s in body:
            match s:
                case Store():
                    if id(s) in self.wanted or s.buffer in self.names:
                        self.wanted.add(id(s))
                        self._need(s, around, checks)
                case Let():
                    if s.name in self.names:
                        self._need(s, around, checks)
                case Check():
                    checks = (*checks, s)
                case _:
                    for inside in s.blocks():
                        self._walk(inside, (*around, s), checks)

    def _need(self, s: Stmt, around: tuple[Stmt, ...], checks: tuple[Check, ...]) -> None:
        self.checks.update([id(c) for c in checks])
        for t in (s, *around, *checks):
            if id(t) not in self._met:
                self._met.add(id(t))
                for e in t.expressions():
                    self.names |= e.names | (e.buffers & self.scalars)
                    self.arrays |= e.buffers
        if isinstance(s, Store):
            self.arrays.add(s.buffer)

    def _kept(self, body: Block) -> Block:
        result: list[Stmt] = []
        for s in body:
            match s:
                case Loop() | While():
                    inner = self._kept(s.body)
                    if inner:
                        result.append(replace(s, body=inner))
                case If():
                    then, other = self._kept(s.body), self._kept(s.orelse)
                    if then or other:
                        result.append(replace(s, body=then, orelse=other))
                case Store():
                    if id(s) in self.wanted:
                        result.append(s)
                case Let():
                    if s.name in self.names:
                        result.append(s)
                case Alloc():
                    if s.buffer.name in (self.arrays if s.buffer.shape else self.names):
                        result.append(s)
                case Check():
                    if id(s) in self.checks:
                        result.append(s)
                case _:
                    result.append(s)
        return tuple(result)


__all__ = ["Slice"]
