"""Several reductions of each column that follow one another, as kernels of their own.

    for j in 0 .. N parallel:                   for j in 0 .. N parallel:
      best = -∞; sum = 0                          best = -∞
      for i in 0 .. M: best max= X[i, j]          for i in 0 .. M: best max= X[i, j]
      let t = where(isinf(best), 0, best)         handed[j] = best
      for p in 0 .. M: sum add= exp(X[p, j] - t)
      Y[j] = log(sum) + t                  →    for j in 0 .. N parallel:
                                                  sum = 0
                                                  let t = where(isinf(handed[j]), 0, handed[j])
                                                  for p in 0 .. M: sum add= exp(X[p, j] - t)
                                                  Y[j] = log(sum) + t

What one stores for its column it stores still, and the next reads it there; a sum that a later one wants goes through memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.expr import Expr, load, var
from ...ir.kernel import Alloc, Block, Buffer, Let, Loop, Stmt, Store, map_expressions, nested, statements
from ...ir.record import replace
from ...ir.renaming import Names, defined
from ...ir.walks import rewrite
from .rows import Rows


def column_stages(rows: Rows, taken: Sequence[str]) -> tuple[list[Rows], list[Buffer]]:
    """The kernels, and what is handed from one to another, by other names than those that are taken; the kernel as it is where it is one reduction, or something else."""
    body = rows.inside(len(rows.chain))
    loops = [s for s in body if isinstance(s, Loop)]
    sums = [{t.buffer for t in statements(loop.body) if isinstance(t, Store)} for loop in loops]
    if (
        rows.few
        or len(rows.chain) != 1
        or len(loops) < 2
        or any(len(some) != 1 for some in sums)
        or any(not isinstance(s, (Alloc, Let, Loop, Store)) for s in body)
        or {s.buffer.name for s in body if isinstance(s, Alloc)} != {name for some in sums for name in some}
        or not all(rows.by_row(name, 1) for name in rows.written)
    ):
        return [rows], []
    names = Names((*rows.sizes, *rows.buffers, *defined(rows.kernel.body), *taken))
    column = (var(rows.chain[0].axis),)
    handed: dict[str, Buffer] = {}  # by the sum that is in it

    def read(e: Expr) -> Expr | None:
        return load(handed[e.attr].name, e.dtype, *column) if e.op == "load" and e.attr in handed else None

    blocks: list[Block] = []
    for loop, (total,), after in zip(loops, sums, (*loops[1:], None), strict=True):
        end = len(body) if after is None else body.index(after)
        stored = [s for s in body[body.index(loop) : end] if isinstance(s, Store) and s.buffer in rows.buffers]
        kept = [loop, *stored, *_needed(body, (loop, *stored))]
        own = [s for s in body if s in kept or (isinstance(s, Alloc) and s.buffer.name == total) or (isinstance(s, Store) and s.buffer == total)]
        block = map_expressions(tuple(own), lambda e: rewrite(e, read))
        if any(total in e.buffers for e in _expressions((*body[end:], *_needed(body, body[end:])))):
            dtype = next(s.buffer.dtype for s in own if isinstance(s, Alloc))
            handed[total] = Buffer(names.fresh("handed"), dtype, (rows.chain[0].stop,))
            block = (*block, Store(handed[total].name, column, load(total, dtype)))
        blocks.append(block)
    temps = [*handed.values()]
    buffers = {**rows.buffers, **{b.name: b for b in temps}}
    kernel = replace(rows.kernel, buffers=(*rows.kernel.buffers, *(b.name for b in temps)))
    return [replace(rows, kernel=kernel.with_body((*rows.before, *nested(rows.chain, b))), buffers=buffers) for b in blocks], temps


def _needed(body: Block, block: Iterable[Stmt]) -> list[Let]:
    """The values of a column that some statements are made of, through others."""
    wanted = {name for e in _expressions(block) for name in e.names}
    found: list[Let] = []
    for s in reversed(body):
        if isinstance(s, Let) and s.name in wanted:
            found.append(s)
            wanted |= s.value.names
    return found


def _expressions(block: Iterable[Stmt]) -> Iterable[Expr]:
    return (e for s in block for t in (s, *statements((s,))) for e in t.expressions())
