"""The step for iterations that run the same `while`s: `abreast`."""

from __future__ import annotations

from ....ir.expr import ZERO, Expr
from ....ir.kernel import Alloc, Block, If, Kernel, Let, Loop, Stmt, Store, While, statements, written
from ....ir.record import replace
from ..affine import constant_extent
from ..tree import Facts, StepError, find, fresh, names_taken, rename, replace_loop
from .loops import plain


def abreast(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Move a loop into the `while`s that all of its iterations run alike.

        for w in 0 .. 8 parallel:                    alloc step: i64[] register
          alloc step: i64[] register                 step[] = N
          step[] = N                                 while 0 < step[]:
          while 0 < step[]:                  →         for w in 0 .. 8 parallel:
            low[w] = f(low[w], step[])                   low[w] = f(low[w], step[])
            step[] = step[] // 2                       step[] = step[] // 2
          I[w] = low[w]                              for w.b in 0 .. 8 parallel:
                                                       I[w.b] = low[w.b]

    The loop is parallel, of a constant extent, and not empty.  What has the same value in all iterations is computed once; what has not lies outside of the loop (`expand`), or is a let that is read beside
    where it is given.  No `while` asks for what differs between the iterations.
    """
    loop = plain(find(kernel, axis), "abreast")
    if loop.kind != "parallel" or loop.start is not ZERO or not constant_extent(loop):
        raise StepError(f"abreast: `{axis}` is not parallel, of a constant extent")
    block = _Abreast(loop, varying(loop), names_taken(kernel)).block(loop.body)
    return replace_loop(kernel, axis, lambda _: block)


def varying(loop: Loop) -> set[str]:
    """The names and the buffers that differ between the iterations, or that others may read: the loop's own axis, memory that it writes, and what is made of these or under a condition that is."""
    local = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc) and not s.buffer.shape}
    found = {loop.axis} | (written(loop.body) - local)

    def varies(*exprs: Expr) -> bool:
        return any(not (found.isdisjoint(e.names) and found.isdisjoint(e.buffers)) for e in exprs)

    def walk(block: Block, under: bool) -> None:
        for s in block:
            if isinstance(s, Let) and (under or varies(s.value)):
                found.add(s.name)
            elif isinstance(s, Store) and (under or varies(s.value, *s.index)):
                found.add(s.buffer)
            elif isinstance(s, Loop) and (under or varies(s.start, s.stop, s.step)):
                found.add(s.axis)
                walk(s.body, True)
            else:
                inner = under or (isinstance(s, (If, While)) and varies(s.condition))
                for b in s.blocks():
                    walk(b, inner)

    before = 0
    while before < len(found):  # what is set at the end of a turn is read in the next
        before = len(found)
        walk(loop.body, False)
    return found


class _Abreast:
    def __init__(self, loop: Loop, varying: set[str], taken: set[str]) -> None:
        self.loop, self.varying, self.taken = loop, varying, taken
        self.first = True

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        group: list[Stmt] = []

        def flush() -> None:
            if group:
                result.append(self.around(tuple(group)))
                group.clear()

        for s in block:
            if isinstance(s, Alloc):
                if s.buffer.name in self.varying or s.buffer.shape:
                    raise StepError(f"abreast: `{s.buffer.name}` differs between the iterations; expand it first")
                result.append(s)
            elif isinstance(s, Let) and s.name not in self.varying:
                result.append(s)
            elif isinstance(s, (While, If)) and not self.alone(s):
                if not (self.varying.isdisjoint(s.condition.names) and self.varying.isdisjoint(s.condition.buffers)):
                    raise StepError(f"abreast: whether a `{type(s).__name__.lower()}` runs differs between the iterations of `{self.loop.axis}`")
                flush()
                result.append(s.around(*map(self.block, s.blocks())))
            elif isinstance(s, Store) and s.buffer not in self.varying:
                flush()
                result.append(s)
            elif self.alone(s):
                group.append(s)
            else:
                raise StepError(f"abreast: `{self.loop.axis}` holds a {type(s).__name__.lower()} that all iterations share")
        flush()
        return tuple(result)

    def alone(self, s: Stmt) -> bool:
        """Whether each iteration may do all of it by itself: stores into what is its own, lets and conditions."""
        whole: Block = (s,)
        return all(
            isinstance(t, (Let, If)) or (isinstance(t, Store) and t.buffer in self.varying) or (isinstance(t, Loop) and t.kind != "vector")
            for t in statements(whole)
        )

    def around(self, group: Block) -> Loop:
        """The loop around statements that stand together."""
        given = {s.name for s in statements(group) if isinstance(s, Let)} | {s.axis for s in statements(group) if isinstance(s, Loop)}
        read = frozenset().union(*(e.names for s in statements(group) for e in s.expressions()))
        outside = sorted((read & self.varying) - given - {self.loop.axis})
        if outside:
            raise StepError(f"abreast: `{outside[0]}` is given before a `while`, and read behind or inside of it")
        whole = replace(self.loop, body=group)
        if self.first:
            self.first = False
            return whole
        (renamed,) = rename((whole,), {self.loop.axis: fresh(f"{self.loop.axis}.b", self.taken)})
        assert isinstance(renamed, Loop)
        return renamed
