"""The step `prefetch_block`: rows that are read side by side are asked for one after the other, a block of them ahead."""

from __future__ import annotations

from ....ir.expr import FALSE, ONE, TRUE, ZERO, both, ceildiv, const, floordiv, var
from ....ir.kernel import Kernel, Let, Loop, Prefetch, reads, statements
from ....ir.simplify import simplify
from ....ir.target import LINE
from ....ir.walks import substitute
from ..affine import constant_extent, minus, stride
from ..tree import Facts, StepError, around, find, fresh, names_taken
from .hint_lines import asking
from .streams import large


def prefetch_block(kernel: Kernel, facts: Facts, buffer: str, axis: str, row: str, most: int = 0, least: int = 0, cache: int = 1) -> Kernel:
    """Ask, while some rows are read side by side, for those that the next iteration of `row` reads: all of the first, then all of the second.

        for i.0:                                   for i.0:
          for j in 0 .. J:                           for j in 0 .. J:
            for i.1 in 0 .. 8 unroll:      →           for k in 0 .. 8 unroll:
              for v in 0 .. 16 vector:                   prefetch X[8·(i.0 + 1) + j // T, (j % T · 8 + k) · 16]  with T = ceil(J / 8)
                … X[8·i.0 + i.1, 16·j + v] …           for i.1 in 0 .. 8 unroll:
                                                         …

    A hint changes no value.  Inside `axis` stands the unrolled loop over rows, and in it a vector along which they are consecutive.  Prefetchers of machines follow one stream better than some side by side, and begin anew at each page.

    With `least`, memory is asked only where the buffer has so many bytes or more; with `most`, only where the next rows lie no more than so many bytes ahead: a long row is a stream that machines follow, and dividing
    its positions costs more than that.  The loop then stands twice (asked inside of it, that costs a tenth).  With `cache=2`, it comes no nearer than the second cache.
    """
    if cache not in (1, 2):
        raise StepError(f"prefetch_block: `cache` is 1 or 2, not {cache}")
    path = [s for s in around(kernel, axis) if isinstance(s, Loop)]
    if row not in [x.axis for x in path[:-1]] or buffer not in facts.buffers:
        raise StepError(f"prefetch_block: `{axis}` is not inside `{row}`, or `{buffer}` is no buffer")
    loop, held = path[-1], facts.buffers[buffer]
    rows = loop.body[0] if len(loop.body) == 1 else None
    vector = rows.body[0] if isinstance(rows, Loop) and rows.kind == "unroll" and len(rows.body) == 1 else None
    if not isinstance(rows, Loop) or not isinstance(vector, Loop) or vector.kind != "vector" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"prefetch_block: inside `{axis}` stands no unrolled loop over rows, and in it a vector")
    count, lanes, line = constant_extent(rows) or 0, constant_extent(vector) or 0, LINE // held.dtype.bytes
    found = [n for n in reads(vector.body) if n.attr == buffer and rows.axis in n.names]
    read = found[0] if len(found) == 1 else None
    address = held.address(read.args) if read is not None else ZERO
    each = max(1, line // max(1, lanes))  # vectors of a line
    if read is None or stride(address, vector.axis) != 1 or stride(address, axis) != lanes or (lanes % line and line % lanes) or count % each:
        raise StepError(f"prefetch_block: `{axis}` reads no rows of `{buffer}`, one for each of `{rows.axis}`")
    if not read.names.isdisjoint(s.name for s in statements(find(kernel, row).body) if isinstance(s, Let)):
        raise StepError(f"prefetch_block: where `{buffer}` is read is only known inside `{row}`")
    ahead = minus(substitute(address, {var(row): var(row) + find(kernel, row).step}), address)
    if ahead is ZERO or ahead.buffers or any(x.axis in ahead.names for x in path):
        raise StepError(f"prefetch_block: the next iteration of `{row}` is not always as far")
    short = ahead.le(const(most // held.dtype.bytes)) if most else TRUE
    enough = simplify(both(large(facts, buffer, least), short) or TRUE, facts.known)
    if enough is FALSE:
        raise StepError(f"prefetch_block: `{buffer}` never has {least} bytes, or the next iteration of `{row}` is never within {most}")
    turns, k = ceildiv(loop.stop, const(count)), fresh(f"{rows.axis}.p", names_taken(kernel))
    asked_row = floordiv(var(axis), turns)
    at = {var(rows.axis): asked_row, var(axis): (var(axis) - asked_row * turns) * count + var(k) * each}
    lines = (tuple(substitute(e, {**at, var(vector.axis): const(n)}) for e in read.args) for n in range(0, lanes, line))
    hints = Loop(k, ZERO, const(count // each), tuple(Prefetch(buffer, index, ahead, cache) for index in lines), "unroll")
    return asking(kernel, axis, (hints,), enough)
