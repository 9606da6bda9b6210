"""Which results a nest stores whole, whatever the sizes and the data: these need not begin as zeros."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ONE, ZERO, Expr, const, var
from ...ir.kernel import Block, Buffer, Loop, Store, loads_in, statements


def stored_whole(block: Block, buffer: Buffer) -> bool:
    """Whether one statement stores into each position of a buffer that the block does not read: nothing but loops over all positions of its axes, upwards or downwards, is around it."""
    for s in statements(block):
        if isinstance(s, Store) and s.buffer == buffer.name and s.combiner:
            return False
        if any(n.attr == buffer.name for n in loads_in(*s.expressions())):
            return False
    return any(_all_positions(s, loops, buffer) for s, loops in _always(block, ()) if s.buffer == buffer.name)


def _all_positions(store: Store, loops: tuple[Loop, ...], buffer: Buffer) -> bool:
    reached: dict[Expr, Expr] = {}
    for x in loops:
        if x.start is ZERO and x.step is ONE:
            reached[var(x.axis)] = x.stop
        elif x.step is const(-1) and x.stop is const(-1):
            reached[var(x.axis)] = x.start + 1
    return len(loops) == len(store.index) and reached == dict(zip(store.index, buffer.shape, strict=True))


def _always(block: Block, loops: tuple[Loop, ...]) -> Iterator[tuple[Store, tuple[Loop, ...]]]:
    """The stores that no condition is around, each with its loops."""
    for s in block:
        if isinstance(s, Store):
            yield s, loops
        elif isinstance(s, Loop):
            yield from _always(s.body, (*loops, s))
