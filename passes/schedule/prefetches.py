"""The step that asks for memory before it is needed: `prefetch`."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ZERO, Expr, const, var
from ...ir.kernel import Block, Kernel, Let, Loop, Prefetch, expressions, statements, substitute_block, with_body
from ...ir.target import LINE
from ...ir.walks import postorder, substitute
from .affine import constant_extent, minus, stride
from .tree import Facts, StepError, around, children, find, fresh, loads_in, names_taken, replace_loop


def prefetch(kernel: Kernel, facts: Facts, buffer: str, axis: str, row: str, trips: int = 1) -> Kernel:
    """Ask, in each iteration of a loop, for what the next iteration of a loop around it (or the one so many `trips` on) reads of a buffer there.

        for i in 0 .. M:                       for i in 0 .. M:
          for j in 0 .. N // 16:                 for j in 0 .. N // 16:
            for k in 0 .. 16 vector:      →        prefetch X[i, j * 16] ahead N
              … X[i, j * 16 + k] …                 for k in 0 .. 16 vector:
                                                     … X[i, j * 16 + k] …

    A hint changes no value.  Inside `axis` stands one vector loop that reads consecutive elements of `buffer`, or a block that is turned over (an unrolled loop along which they are consecutive, and in it
    the vector): one hint for each of its rows.  How far the next iteration of `row` is depends on sizes alone.
    """
    path = around(kernel, axis)
    loop = path[-1]
    if not any(isinstance(s, Loop) and s.axis == row for s in path[:-1]):
        raise StepError(f"prefetch: `{axis}` is not inside `{row}`")
    assert isinstance(loop, Loop)
    if buffer not in facts.buffers:
        raise StepError(f"prefetch: `{buffer}` is local, or no buffer")
    held = facts.buffers[buffer]
    block, inner = _vectors(loop)
    if block is None or inner is None or constant_extent(inner) is None or constant_extent(block) is None:
        raise StepError(f"prefetch: no vector loop inside `{axis}`")
    read = next(
        (n for s in inner.body for n in loads_in(*expressions(s)) if n.attr == buffer and stride(held.address(n.args), block.axis) == 1), None
    )
    if read is None:
        raise StepError(f"prefetch: `{block.axis}` reads no consecutive elements of `{buffer}`")
    address = held.address(read.args)
    step = find(kernel, row).step
    ahead = minus(substitute(address, {var(row): var(row) + step * trips}), address)
    if any(n in ahead.names for n in (x.axis for x in path if isinstance(x, Loop))) or ahead.buffers:
        raise StepError(f"prefetch: the next iteration of `{row}` is not always as far")
    if ahead is ZERO:
        raise StepError(f"prefetch: every iteration of `{row}` reads the same")
    each = max(1, LINE // held.dtype.bytes)
    places = [{var(block.axis): const(k)} for k in range(0, constant_extent(block) or 0, each)]
    hints: Block = tuple(Prefetch(buffer, tuple(substitute(e, place) for e in read.args), ahead) for place in places)
    if inner is not block:
        line = fresh(f"{inner.axis}.p", names_taken(kernel))
        hints = (Loop(line, ZERO, inner.stop, substitute_block(hints, {var(inner.axis): var(line)}), "unroll"),)
    return replace_loop(kernel, axis, lambda x: (with_body(x, (*hints, *x.body)),))


def _vectors(loop: Loop) -> tuple[Loop | None, Loop | None]:
    """Along which loop inside this one lines are read, and which is the vector: the same, or a block that is turned over."""
    for s in loop.body:
        if isinstance(s, Loop) and s.kind == "vector":
            return s, s
        inner = next((t for t in s.body if isinstance(t, Loop) and t.kind == "vector"), None) if isinstance(s, Loop) and s.kind == "unroll" else None
        if inner is not None:
            return s, inner
    return None, None


def candidates(kernel: Kernel, facts: Facts) -> Iterator[tuple[str, str, str]]:
    """What several loops of a row read, one after the other, from the same position on: (buffer, the last of these loops, the loop over rows).

    The first of them waits for memory, the last works in the cache: there memory has time to bring the next row.
    """

    def walk(block: Block, row: str) -> Iterator[tuple[str, str, str]]:
        readers: dict[tuple[str, Expr], list[str]] = {}
        near: dict[Expr, Expr] = {}  # where a loop begins that was aligned: in the line where the row does
        for s in block:
            if isinstance(s, Let) and any(n.op == "to_line" for n in postorder(s.value)):
                near[var(s.name)] = ZERO
            for body in children(s):
                yield from walk(body, s.axis if isinstance(s, Loop) else row)
            if not isinstance(s, Loop) or (
                s.stop.names and s.stop.names <= {e.attr for e in near}
            ):  # what stands before a line begins is no pass over the row
                continue
            for x in s.body:
                if isinstance(x, Loop) and x.kind == "vector":
                    begin = {**near, var(s.axis): ZERO, var(x.axis): ZERO}
                    found = [n for t in statements(x.body) for n in loads_in(*expressions(t)) if n.attr in facts.buffers and s.axis in n.names]
                    for key in dict.fromkeys((n.attr, substitute(facts.buffers[n.attr].address(n.args), begin)) for n in found):
                        readers.setdefault(key, []).append(s.axis)
        if row:
            several = {
                buffer: axes[-1] for (buffer, _), axes in reversed(readers.items()) if len(axes) > 1
            }  # tails come after what they are the tails of
            yield from ((buffer, axis, row) for buffer, axis in reversed(several.items()))

    yield from walk(kernel.body, "")
