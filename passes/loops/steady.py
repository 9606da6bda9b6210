"""What is data, but the same throughout one iteration of the loops around, is a number there, like a size.

    while 1 < whole[]:
      for i in 0 .. m:
        for q in 0 .. stride[]:                                   which elements two iterations of q touch: stride is one number for both, and q < stride;
          a[q + stride[] * (2 * i)] = …                           so q + stride · 2i is never q' + stride · (2i + 1)
          a[q + stride[] * (2 * i + 1)] = …

So are the bounds of a loop that were read before it, and what is read of memory that the nest does not write.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Expr, var
from ...ir.polynomial import key
from ...ir.record import replace
from ...ir.walks import postorder, rewrite, substitution
from .dependence import Access, is_data
from .domains import Trip
from .loop_events import Events
from .loop_records import unstamped


def in_iteration(a: Access, level: int, found: Events) -> Access:
    """The access with a name instead of each value that is the same throughout one iteration of its first `level` loops."""
    whole = tuple([t.var for t in a.loops])
    around, inner = whole[:level], frozenset(whole[level:])
    done = found.named.setdefault((whole, level), {})

    def named(n: Expr) -> Expr | None:
        if n.op == "load":
            steady = unstamped(n.attr)[0] not in found.stored and not any(m in inner or m in found.defined for m in postorder(n))
        else:
            loops = found.steady.get(n)
            steady = loops is not None and loops == around[: len(loops)]
        return var(f"steady~{key(n)}", n.dtype) if steady else None

    def of(e: Expr) -> Expr:
        while is_data(e):
            meant = rewrite(e, found.bounds.get, found.meant)
            if meant is e:
                return rewrite(e, named, done)
            e = meant
        return e

    index = tuple(map(of, a.index))
    loops = tuple(Trip(t.var, of(t.count)) for t in a.loops)
    return replace(a, index=index, loops=loops, guard=None if a.guard is None else of(a.guard))


def elsewhere(a: Access, level: int) -> tuple[Access, Callable[[Expr], Expr]]:
    """The access in other iterations of its loops from this level on: with variables of its own there, and what puts them in place of the others."""
    renamed = {t.var: var(f"{t.var.attr}~") for t in a.loops[level:]}
    rename = substitution(renamed)
    loops = (*a.loops[:level], *(Trip(renamed[t.var], rename(t.count)) for t in a.loops[level:]))
    return replace(a, index=tuple(map(rename, a.index)), loops=loops, guard=None if a.guard is None else rename(a.guard)), rename
