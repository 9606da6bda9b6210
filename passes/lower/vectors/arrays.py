"""Which register arrays become arrays of vectors: those that are only ever touched by aligned vectors of one length.

That is seen on the way: each is taken for one until something else touches it, and then the walk begins again where it is declared.
"""

from __future__ import annotations

from ....ir.expr import Expr
from ....ir.kernel import loads_in
from ....ir.program import Array, Block, For, If, Region, Stmt, StoreTo, While, named, with_blocks
from ....ir.record import replace


class Memory(Exception):
    """This register array is touched otherwise than by aligned vectors; it stays an array of scalars."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Arrays:
    """The register arrays of a function, under the assumption that those outside `memory` can be arrays of vectors."""

    def __init__(self, memory: set[str]) -> None:
        self.memory = memory
        self.candidates: dict[str, Array] = {}  # in scope
        self.lanes: dict[str, int] = {}  # those found to be touched by vectors of so many lanes

    def declare(self, s: Array) -> bool:
        """Whether it can be an array of vectors, so far."""
        if s.space != "register" or s.name in self.memory:
            return False
        self.candidates[s.name] = s
        return True

    def leave(self, name: str, lanes: dict[str, int]) -> None:
        """It cannot; `lanes` is what was found before it was declared."""
        self.memory.add(name)
        del self.candidates[name]
        self.lanes = lanes

    def scalar_access(self, s: Stmt) -> None:
        """A statement outside of all vector loops.  Raises Memory where it touches a candidate."""
        if not self.candidates:
            return
        touched = [n.attr for e in s.expressions() if not e.buffers.isdisjoint(self.candidates) for n in loads_in(e)]
        for name in (*touched, *named(s)):
            if name in self.candidates:
                raise Memory(name)

    def aligned(self, name: str, index: Expr | None, lanes: int) -> Expr:
        """A vector of so many lanes touches a candidate at this index, in vectors; None where that is no whole number.  Raises Memory where it cannot be one."""
        if index is None or self.candidates[name].count % lanes or self.lanes.setdefault(name, lanes) != lanes:
            raise Memory(name)
        return index

    def of_vectors(self, block: Block) -> Block:
        """The block with these arrays declared as what they have become."""

        def one(s: Stmt) -> Stmt:
            if isinstance(s, Array) and s.name in self.lanes:
                lanes = self.lanes[s.name]
                return replace(s, dtype=s.dtype.vector(lanes), count=s.count // lanes)
            return with_blocks(s, self.of_vectors)

        return tuple(map(one, block))


def touched_by_scalars(body: Block) -> set[str]:
    """What statements outside of all vector loops load and store, and what their lanes store into one place."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, For) and s.pragma == "vector":
            found.update(t.buffer for t in s.body if isinstance(t, StoreTo) and s.var not in t.address.names)
            continue
        found.update(*[e.buffers for e in s.expressions()])
        found.update(named(s))
        if isinstance(s, If):
            found |= touched_by_scalars(s.body) | touched_by_scalars(s.orelse)
        elif isinstance(s, (For, While, Region)):
            found |= touched_by_scalars(s.body)
    return found
