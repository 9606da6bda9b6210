"""The step `line_tiles`: rows cut in tiles that begin and end where the lines of each row do, so that a row is stored in whole lines wherever it begins."""

from __future__ import annotations

from ...ir.expr import ONE, TRUE, ZERO, both, ceildiv, const, minimum, mod, to_line, var
from ...ir.kernel import If, Kernel, Let, Loop, Store, statements, substitute_block
from ...ir.record import replace
from ...ir.simplify import simplify
from ...ir.target import LINE
from ...ir.walks import substitute
from .affine import inside, minus, stride
from .tree import Facts, StepError, all_loops, around, at_most, copy, find, fresh, less, names_taken, replace_loop


def line_tiles(kernel: Kernel, facts: Facts, axis: str, factor: int, buffer: str) -> Kernel:
    """Cut a loop in tiles that begin and end at lines of what it stores, wherever the row begins that it is in.

        for i in 0 .. N parallel:              for i in 0 .. N parallel:
          for j in 0 .. M parallel:              for j.0 in 0 .. ceil(M / 32) parallel:            with b = (to_line(Y) - i·M) % 16
            Y[i, j] = X[j, i]          →           if 0 < j.0 & 48 <= M - 32·j.0:
                                                     for j.1 in b .. b + 32 parallel:
                                                       Y[i, 32·j.0 + j.1] = X[32·j.0 + j.1, i]
                                                   else:
                                                     for j.1.b in min(b, 16·j.0, M - 32·j.0) .. min(b + 32, M - 32·j.0) parallel:
                                                       Y[i, 32·j.0 + j.1.b] = X[32·j.0 + j.1.b, i]

    How many tiles there are, and where they are counted from, is the same for all rows, so that their loop may go outside; each is moved by less than a line, but that the first one begins where the row does.
    As `align` this is a hint as to where to cut: wherever the memory begins, the same is stored.  `axis` is parallel, from 0 in steps of 1, and consecutive elements of the buffer are stored along it.
    """
    path = around(kernel, axis)
    loop = find(kernel, axis)
    if loop.kind != "parallel" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"line_tiles: `{axis}` is no parallel loop from 0 in steps of 1")
    if buffer not in facts.buffers:
        raise StepError(f"line_tiles: `{buffer}` is local, or no buffer")
    held = facts.buffers[buffer]
    line = LINE // held.dtype.bytes
    known = inside(path, facts.known)
    stored = [simplify(held.address(s.index), known) for s in statements(loop.body) if isinstance(s, Store) and s.buffer == buffer]
    address = next((a for a in stored if stride(a, axis) == 1), None)
    if address is None or LINE % held.dtype.bytes or line < 2 or factor % line:
        raise StepError(f"line_tiles: along `{axis}` no {factor} elements of `{buffer}` are whole lines")
    row = substitute(address, {var(axis): ZERO})
    own = {*(x.axis for x in all_loops(loop.body)), *(s.name for s in statements(loop.body) if isinstance(s, Let))}
    if row.buffers or row.names & own:
        raise StepError(f"line_tiles: where `{buffer}` is stored is only known inside `{axis}`")
    before = mod(to_line(buffer) - row, const(line))
    taken = names_taken(kernel)
    outer, inner = fresh(f"{axis}.0", taken), fresh(f"{axis}.1", taken)
    rest = minus(loop.stop, var(outer) * factor)
    body = substitute_block(loop.body, {var(axis): var(outer) * factor + var(inner)})
    whole = Loop(inner, before, before + factor, body, loop.kind, span=loop.span)
    start, stop = minimum(minimum(before, var(outer) * line), rest), minimum(before + factor, rest)
    border = copy((replace(whole, start=start, stop=stop),), taken)
    tile = If(both(less(ZERO, var(outer)), at_most(ZERO + (factor + line), rest)) or TRUE, (whole,), border)
    return replace_loop(kernel, axis, lambda _: (Loop(outer, ZERO, ceildiv(loop.stop, factor), (tile,), loop.kind, span=loop.span),))
