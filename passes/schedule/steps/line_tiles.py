"""The steps `line_tiles`, rows cut in tiles that begin and end where the lines of each row do, so that a row is stored in whole lines wherever it begins; and `even`, a copy of such rows for where they are of one length."""

from __future__ import annotations

from ....ir.expr import ONE, TRUE, ZERO, Expr, both, ceildiv, const, minimum, mod, to_line, var
from ....ir.kernel import If, Kernel, Let, Loop, Store, statements, substitute_block
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.target import LINE
from ....ir.walks import postorder, substitute
from ..affine import inside, minus, of_any_rest, stride
from ..tree import Facts, StepError, all_loops, around, copy, find, fresh, names_taken, replace_in, replace_loop


def line_tiles(kernel: Kernel, facts: Facts, axis: str, factor: int, buffer: str) -> Kernel:
    """Cut a loop in tiles that begin and end at lines of what it stores, wherever the row begins that it is in.

        for i in 0 .. N parallel:              for i in 0 .. N parallel:
          for j in 0 .. M parallel:              for j.0 in 0 .. ceil(M / 32) parallel:            with b = (to_line(Y) - i·M) % 16
            Y[i, j] = X[j, i]          →           for j.1 in min(b, 16·j.0, M - 32·j.0) .. min(b + 32, M - 32·j.0) parallel:
                                                     Y[i, 32·j.0 + j.1] = X[32·j.0 + j.1, i]

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
    start, stop = minimum(minimum(before, var(outer) * line), rest), minimum(before + factor, rest)
    tile = Loop(inner, start, stop, body, loop.kind, span=loop.span)
    return replace_loop(kernel, axis, lambda _: (Loop(outer, ZERO, ceildiv(loop.stop, factor), (tile,), loop.kind, span=loop.span),))


def even(kernel: Kernel, facts: Facts, axis: str, row: str) -> Kernel:
    """A copy of a nest for where the rows inside of it are as long as the first of what bounds them says.

        for i in 0 .. 16 parallel:                                                          if 16 <= x & 48 <= r:
          for j in min(y % 16, x) .. min(y % 16 + 32, r) parallel:                            for i in 0 .. 16 parallel:
            S                                                                →                  let j.rest = y % 16
                                                                                                for j in j.rest .. j.rest + 32 parallel:
                                                                                                  S
                                                                                            else:
                                                                                              for i.b in 0 .. 16 parallel:
                                                                                                let j.rest.b = y % 16
                                                                                                let j.begin = min(j.rest.b, x)
                                                                                                let j.end = min(j.rest.b + 32, r)
                                                                                                for j.b in j.begin .. j.end parallel:
                                                                                                  S

    The loops between the two hold nothing else; of all that bounds `row` two differ by a constant, and what the condition asks is known outside of the nest.
    """
    loop = find(kernel, axis)
    path = around(kernel, row)
    nest = [s for s in path[[s is loop for s in path].index(True) :] if isinstance(s, Loop)] if loop in path else []
    if len(nest) < 2 or any(len(x.body) != 1 for x in nest[:-1]) or len(nest) < len(path) - path.index(loop):
        raise StepError(f"even: `{row}` is not all that `{axis}` holds")
    inner, rows = {x.axis for x in nest}, nest[-1]
    starts, stops = _least(rows.start), _least(rows.stop)
    found = next(((a, b) for a in starts for b in stops if minus(b, a).is_const and len(starts) + len(stops) > 2), None)
    if found is None or rows.step is not ONE:
        raise StepError(f"even: nothing says that all rows of `{row}` could be of one length")
    start, stop = found
    asked = [of_any_rest(a, inner, facts.known, largest=True).le(b) for a, all_ in ((start, starts), (stop, stops)) for b in all_ if b is not a]
    condition = simplify(both(*asked) or TRUE, facts.known)
    if condition.names & inner:
        raise StepError(f"even: how long `{row}` is changes inside `{axis}`")
    taken = names_taken(kernel)
    rests = [n for n in postorder(start) if n.op == "mod" and n.names & inner]
    names = {n: var(fresh(f"{row}.rest", taken)) for n in rests[-1:]}
    named = tuple(Let(v.attr, n) for n, v in names.items())
    begin, end = fresh(f"{row}.begin", taken), fresh(f"{row}.end", taken)
    ends = (Let(begin, substitute(rows.start, names)), Let(end, substitute(rows.stop, names)))
    border = copy(replace_in((loop,), rows, (*named, *ends, replace(rows, start=var(begin), stop=var(end)))), taken)
    whole = replace_in((loop,), rows, (*named, replace(rows, start=substitute(start, names), stop=substitute(stop, names))))
    return replace_loop(kernel, axis, lambda _: (If(condition, whole, border),))


def _least(e: Expr) -> list[Expr]:
    """What an expression is the least of."""
    return [x for a in e.args for x in _least(a)] if e.op == "min" else [e]
