"""Which results a nest stores whole, whatever the sizes and the data: these need not begin as zeros."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ONE, ZERO, Expr, ceildiv, const, var
from ...ir.kernel import Block, Buffer, Loop, Store, loads_in, statements
from ...ir.simplify import simplify


def stored_whole(block: Block, buffer: Buffer) -> bool:
    """Whether one statement stores into each position of a buffer that the block does not read: nothing but loops over all positions of its axes, upwards, downwards or in blocks, is around it."""
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
    for outer in loops:
        for inner in loops:
            if (block := _in_blocks(outer, inner)) is not None and reached.keys() >= {var(outer.axis), var(inner.axis)}:
                position, stop = block
                del reached[var(outer.axis)], reached[var(inner.axis)]
                reached[position] = stop
    around = {name for position in reached for name in position.names}
    return around == {x.axis for x in loops} and reached == dict(zip(store.index, buffer.shape, strict=True))


def _in_blocks(outer: Loop, inner: Loop) -> tuple[Expr, Expr] | None:
    """A position that two loops count block by block, the last of which ends where all does (16 b + l for b < ⌈N / 16⌉, l < min(16, N - 16 b)), and that end; None of others."""
    if inner.stop.op != "min" or not (outer.start is inner.start is ZERO and outer.step is inner.step is ONE):
        return None
    size, left = inner.stop.args if inner.stop.args[0].is_const else inner.stop.args[::-1]
    stop = simplify(left + var(outer.axis) * size)
    if not size.is_const or outer.axis in stop.names or outer.stop is not simplify(ceildiv(stop, size)):
        return None
    return simplify(var(outer.axis) * size + var(inner.axis)), stop


def _always(block: Block, loops: tuple[Loop, ...]) -> Iterator[tuple[Store, tuple[Loop, ...]]]:
    """The stores that no condition is around, each with its loops."""
    for s in block:
        if isinstance(s, Store):
            yield s, loops
        elif isinstance(s, Loop):
            yield from _always(s.body, (*loops, s))
