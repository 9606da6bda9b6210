"""The step that asks for memory before it is needed: `prefetch`."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ZERO, Expr, const, var
from ...ir.kernel import Block, Kernel, Loop, Prefetch, expressions, statements, with_body
from ...ir.walks import substitute
from .affine import constant_extent, minus, stride
from .tree import Facts, StepError, around, children, find, loads_in, replace_loop

LINE = 64  # bytes that one prefetch brings


def prefetch(kernel: Kernel, facts: Facts, buffer: str, axis: str, row: str) -> Kernel:
    """Ask, in each iteration of a loop, for what the next iteration of a loop around it reads of a buffer there.

        for i in 0 .. M:                       for i in 0 .. M:
          for j in 0 .. N // 16:                 for j in 0 .. N // 16:
            for k in 0 .. 16 vector:      →        prefetch X[i, j * 16] ahead N
              … X[i, j * 16 + k] …                 for k in 0 .. 16 vector:
                                                     … X[i, j * 16 + k] …

    A hint changes no value.  Inside `axis` stands one vector loop that reads consecutive elements of `buffer`; how far the next iteration of `row` is depends on sizes alone.
    """
    path = around(kernel, axis)
    loop = path[-1]
    if not any(isinstance(s, Loop) and s.axis == row for s in path[:-1]):
        raise StepError(f"prefetch: `{axis}` is not inside `{row}`")
    assert isinstance(loop, Loop)
    if buffer not in facts.buffers:
        raise StepError(f"prefetch: `{buffer}` is local, or no buffer")
    held = facts.buffers[buffer]
    inner = next((s for s in loop.body if isinstance(s, Loop) and s.kind == "vector"), None)
    lanes = None if inner is None else constant_extent(inner)
    if inner is None or lanes is None:
        raise StepError(f"prefetch: no vector loop inside `{axis}`")
    read = next(
        (n for s in inner.body for n in loads_in(*expressions(s)) if n.attr == buffer and stride(held.address(n.args), inner.axis) == 1), None
    )
    if read is None:
        raise StepError(f"prefetch: `{inner.axis}` reads no consecutive elements of `{buffer}`")
    address = held.address(read.args)
    step = find(kernel, row).step
    ahead = minus(substitute(address, {var(row): var(row) + step}), address)
    if any(n in ahead.names for n in (x.axis for x in path if isinstance(x, Loop))) or ahead.buffers:
        raise StepError(f"prefetch: the next iteration of `{row}` is not always as far")
    if ahead is ZERO:
        raise StepError(f"prefetch: every iteration of `{row}` reads the same")
    each = max(1, LINE // held.dtype.bytes)
    hints = tuple(Prefetch(buffer, tuple(substitute(e, {var(inner.axis): const(k)}) for e in read.args), ahead) for k in range(0, lanes, each))
    return replace_loop(kernel, axis, lambda x: (with_body(x, (*hints, *x.body)),))


def candidates(kernel: Kernel, facts: Facts) -> Iterator[tuple[str, str, str]]:
    """What several loops of a row read, one after the other, from the same position on: (buffer, the last of these loops, the loop over rows).

    The first of them waits for memory, the last works in the cache: there memory has time to bring the next row.
    """

    def walk(block: Block, row: str) -> Iterator[tuple[str, str, str]]:
        readers: dict[tuple[str, Expr], list[str]] = {}
        for s in block:
            for body in children(s):
                yield from walk(body, s.axis if isinstance(s, Loop) else row)
            if not isinstance(s, Loop):
                continue
            for x in s.body:
                if isinstance(x, Loop) and x.kind == "vector":
                    begin = {var(s.axis): ZERO, var(x.axis): ZERO}
                    found = [n for t in statements(x.body) for n in loads_in(*expressions(t)) if n.attr in facts.buffers and s.axis in n.names]
                    for key in dict.fromkeys((n.attr, substitute(facts.buffers[n.attr].address(n.args), begin)) for n in found):
                        readers.setdefault(key, []).append(s.axis)
        if row:
            several = {
                buffer: axes[-1] for (buffer, _), axes in reversed(readers.items()) if len(axes) > 1
            }  # tails come after what they are the tails of
            yield from ((buffer, axis, row) for buffer, axis in reversed(several.items()))

    yield from walk(kernel.body, "")
