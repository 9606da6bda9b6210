"""The step `join`: a loop that stores and one that reads what was stored, or reads the same, become one."""

from __future__ import annotations

from ....ir.expr import ONE, var
from ....ir.kernel import Kernel, Let, Store, statements, substitute_block, written
from ....ir.record import replace
from ....ir.renaming import Names
from ...joins.join_siblings import named, places
from ..tree import Facts, StepError, find, loop_around, names_taken, reads, replace_loop, touched


def join(kernel: Kernel, facts: Facts, first: str, second: str) -> Kernel:
    """Two loops over the same range become one, where the second stood.

        for n in 0 .. N:
          W[n] = exp(S[n] - m)              acc[] = 0
        acc[] = 0                           for s in 0 .. N reduce:
        for s in 0 .. N reduce:        →      let v = exp(S[s] - m)
          acc[] add= W[s]                     W[s] = v
                                              acc[] add= v

    One is parallel, the other parallel or a reduction; they stand in the body of one loop.  What one of them writes and the other touches is touched at the iteration's own position, by both.  The parallel one moves to
    the other, the first where both are: what stands between them touches nothing that it writes, writes nothing that it reads, and names nothing that it mentions.
    """
    a, b = find(kernel, first), find(kernel, second)
    outer = loop_around(kernel, a)
    if outer is None or not any(s is b for s in outer.body):
        raise StepError(f"join: `{first}` and `{second}` do not stand in one loop")
    begin, end = (next(k for k, s in enumerate(outer.body) if s is x) for x in (a, b))
    if begin >= end:
        raise StepError(f"join: `{second}` does not come after `{first}`")
    kinds = {a.kind, b.kind}
    if "parallel" not in kinds or not kinds <= {"parallel", "reduce"} or (a.start, a.stop, a.step, b.step) != (b.start, b.stop, ONE, ONE):
        raise StepError(f"join: `{first}` ({a.kind}) and `{second}` ({b.kind}) do not run over the same range, one of them in any order")
    if not all(isinstance(s, (Let, Store)) for s in (*a.body, *b.body)):
        raise StepError(f"join: `{first}` and `{second}` do more than store")
    between = outer.body[begin + 1 : end]
    if b.kind == "parallel" and a.kind == "reduce":  # the second moves up to the first
        stays, moves, there = a, b, begin
    else:
        stays, moves, there = b, a, end
    needs = {n.attr for n in reads(moves.body)} | {name for s in statements(moves.body) for e in s.expressions() for name in e.names}
    makes = written(between) | ({s.name for s in between if isinstance(s, Let)} if there == begin else set())
    if written(moves.body) & touched(between) or needs & makes:
        raise StepError(f"join: what stands between `{first}` and `{second}` changes or reads what `{moves.axis}` makes")
    body, then = (substitute_block(x.body, {var(x.axis): var(stays.axis)}) for x in (a, b))
    touches = [places(body), places(then)]
    for name in sorted(touches[0].keys() & touches[1].keys() & (written(body) | written(then))):
        at = {*touches[0][name], *touches[1][name]}
        if len(at) > 1 or not any(e is var(stays.axis) for e in next(iter(at))):
            raise StepError(f"join: `{name}` is not touched at the iteration's own position by both loops")
    kept, known = named(body, Names(names_taken(kernel)))
    one = replace(stays, body=(*kept, *substitute_block(then, known)))
    rest = (between, (one,)) if there == end else ((one,), between)
    return replace_loop(kernel, outer.axis, lambda o: (replace(o, body=(*o.body[:begin], *(s for part in rest for s in part), *o.body[end + 1 :])),))
