"""Several register tiles of rows that read the same matrix once, from one end to the other, in chunks of it that stay in the first cache.

    for r.0 in 0 .. R / 4:                           for p.0 in 0 .. N / 64:
      acc[0 .. 4, 0 .. 64] = 0                         for r.0 in 0 .. R / 4:
      for p in 0 .. N reduce:                            acc[0 .. 4, 0 .. 64] = first(p.0) ? 0 : partial[r.0]
        for r.1 in 0 .. 4 unroll:              →         for p.1 in 0 .. 64 reduce:
          acc[r.1, 0 .. 64] add= W[…, p] * V[p]            prefetch a part of a row of V in the next chunk: r.0 says which
      Y[4·r.0 + r.1] = acc[r.1]                            for r.1 in 0 .. 4 unroll:
                                                             acc[r.1, 0 .. 64] add= W[…, 64·p.0 + p.1] * V[64·p.0 + p.1]
                                                         last(p.0) ? Y[4·r.0 + r.1] = acc[r.1] : partial[r.0] = acc

One tile after the other, the first waits for memory, line by line, and while the others read what it has brought, memory has nothing to do.  In chunks every iteration of every tile asks for as much.

How many tiles there are, of a block of eight rows one or two, need not be known: one body is for all.  So are the rows of one tile that stands above several strips of columns: strip by strip, each would go through all of the rows for a part of each, which its neighbours' lines come along with.
"""

from __future__ import annotations

from ....ir.kernel import Loop, Store
from .. import cost
from ..plan import Plan
from ..tree import all_loops
from .columns_inside import strips
from .side_by_side import moving_with


def in_chunks(plan: Plan, row: str, column: Loop, deep: Loop, factors: list[int], pad: bool) -> str:
    """Schedule register tiles of the rows, some of them at a time.  The loop over the rows that are left: all of them, and nothing done, where they are fewer, what they share is short, or all is one register tile."""
    together, matrices = cost.rows_together(plan.target), moving_with(plan, column, deep)
    most, long, columns = plan.at_most(row), plan.at_most(deep.axis), plan.at_most(column.axis)
    if (most is not None and most < together) or (long is not None and long <= cost.CHUNK) or len(matrices) != 1:
        return row
    if columns is not None and columns <= factors[0] and most is not None and most < 2 * together:
        return row
    chunk = cost.chunk(plan.target, (columns or factors[0]) * plan.facts.buffers[matrices[0]].dtype.bytes)
    some = row if most is not None and most <= cost.CHUNK_ROWS else f"{row}.1"
    with plan.attempt(f"`{column.axis}` is not read in chunks") as attempt:
        if some != row:
            plan.do("split", row, cost.CHUNK_ROWS)
        plan.do("split", some, together, tail="cut")
        tile = f"{some}.0"
        plan.do("split", deep.axis, chunk)
        into = next(s.buffer for s in column.body if isinstance(s, Store) and s.index)
        earlier = plan.kernel
        if plan.tried("accumulate", f"{deep.axis}.0", outside=tile, into=into):
            plan.do("accumulate", f"{deep.axis}.0", outside=tile, space="private")
        elif added := plan.added(earlier):
            plan.do("split", added[-1], factors[-1], tail="pad" if pad else "cut")
            plan.do("vectorize", f"{added[-1]}.1")
        strips(plan, column.axis, *factors, pad=pad)
        plan.do("jam", f"{some}.1", stores=1)
        for x in all_loops(plan.loop(tile).body):
            if x.kind == "reduce" and not plan.tried("prefetch_chunk", matrices[0], x.axis, tile, f"{deep.axis}.0"):
                plan.tried("prefetch_chunk", matrices[0], x.axis, tile, f"{deep.axis}.0", **cost.far_chunks(plan.target, most or cost.CHUNK_ROWS))
                plan.note(f"while one chunk of `{matrices[0]}` is worked on, `{x.axis}` asks for the next")
    if attempt.refused:
        return row
    plan.note(f"tiles of {together} rows of `{row}` share chunks of {chunk} rows of `{matrices[0]}`")
    return f"{some}.t" if plan.has(f"{some}.t") else ""
