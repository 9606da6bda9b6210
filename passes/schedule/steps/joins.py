"""The step `join`: a loop that stores and one after it that reads what was stored become one."""

from __future__ import annotations

from ....ir.expr import ONE, var
from ....ir.kernel import Kernel, Let, Store, substitute_block, written
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

    The first is parallel, the second parallel or a reduction; they stand in the body of one loop.  What one of them writes and the other touches is touched at the iteration's own position, by both.  What stands between
    them touches nothing that the first writes, and writes nothing that the first reads.
    """
    a, b = find(kernel, first), find(kernel, second)
    outer = loop_around(kernel, a)
    if outer is None or not any(s is b for s in outer.body):
        raise StepError(f"join: `{first}` and `{second}` do not stand in one loop")
    begin, end = (next(k for k, s in enumerate(outer.body) if s is x) for x in (a, b))
    if begin >= end:
        raise StepError(f"join: `{second}` does not come after `{first}`")
    if a.kind != "parallel" or b.kind not in ("parallel", "reduce") or (a.start, a.stop, a.step, b.step) != (b.start, b.stop, ONE, ONE):
        raise StepError(f"join: `{first}` ({a.kind}) and `{second}` ({b.kind}) do not run over the same range, the first in any order")
    if not all(isinstance(s, (Let, Store)) for s in (*a.body, *b.body)):
        raise StepError(f"join: `{first}` and `{second}` do more than store")
    between = outer.body[begin + 1 : end]
    if written(a.body) & touched(between) or {n.attr for n in reads(a.body)} & written(between):
        raise StepError(f"join: what stands between `{first}` and `{second}` changes or reads what the first makes")
    body = substitute_block(a.body, {var(first): var(second)})
    touches = [places(body), places(b.body)]
    for name in sorted(touches[0].keys() & touches[1].keys() & (written(body) | written(b.body))):
        at = {*touches[0][name], *touches[1][name]}
        if len(at) > 1 or not any(e is var(second) for e in next(iter(at))):
            raise StepError(f"join: `{name}` is not touched at the iteration's own position by both loops")
    kept, known = named(body, Names(names_taken(kernel)))
    one = replace(b, body=(*kept, *substitute_block(b.body, known)))
    return replace_loop(kernel, outer.axis, lambda o: (replace(o, body=(*o.body[:begin], *between, one, *o.body[end + 1 :])),))
