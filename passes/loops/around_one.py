"""A loop of which one iteration stores what all others read, in three parts: those before it, it, and those behind it.

                                                                  let one = P[i, k]
                                                                  for j in 0 .. k parallel:
    for j in 0 .. N:                                                P[i, j] = min(P[i, j], one + P[k, j])
      P[i, j] = min(P[i, j], P[i, k] + P[k, j])         →         P[i, k] = min(P[i, k], P[i, k] + P[k, k])
                                                                  let other = P[i, k]
                                                                  for j in k + 1 .. N parallel:
                                                                    P[i, j] = min(P[i, j], other + P[k, j])

The iterations before it read what was there, those behind it what it stored, in the order as it is written; among themselves neither touch what others store, and that is asked of the nest as it would stand
(`dependence.py`).  Paths between all points, and eliminations that clear a column above the diagonal too, are such.
Source: index set splitting; Griebl, Feautrier and Lengauer, Index set splitting (2000).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ONE, Expr, load, var
from ...ir.kernel import Block, Let, Loop, Nest, Region, Stmt, Store, While, loads_in, map_block, map_expressions, statements, substitute_block
from ...ir.polynomial import is_constant, plus, poly
from ...ir.record import replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import prove_le, simplify
from ...ir.walks import substitute
from ..schedule.affine import inside
from .concurrency import conflicts
from .dependence import Dependences
from .loop_events import Events

MOST = 16  # statements of a loop: it stands three times


def around_one(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with such loops in three parts, inner ones first."""
    asked: set[str] = set()
    while True:
        for loop, path in _loops(nest.body, ()):
            if loop.axis not in asked:
                asked.add(loop.axis)
                found = _in_parts(nest, loop, path, pairs)
                if found is not None:
                    nest, parts = found
                    asked |= set(defined(parts))
                    break
        else:
            return nest


def _in_parts(nest: Nest, loop: Loop, path: tuple[Stmt, ...], pairs: Dependences) -> tuple[Nest, Block] | None:
    """The nest with a loop in three parts, and these; None where there is no such iteration."""
    for one in _ones(loop, path, pairs):
        before, alone, behind = _parts(nest, loop, one)
        parts = (*before, *alone, *behind)
        whole = replace(nest, body=map_block(nest.body, lambda s, parts=parts: parts if s is loop else None))
        if not _independent(nest, (loop,), pairs) and _independent(whole, (before[-1], behind[-1]), pairs):
            return whole, parts
    return None


def _loops(block: Block, path: tuple[Stmt, ...]) -> Iterator[tuple[Loop, tuple[Stmt, ...]]]:
    """Inner ones before those around them."""
    for s in block:
        for inner in s.blocks():
            yield from _loops(inner, (*path, s))
        if isinstance(s, Loop):
            yield s, path


def _ones(loop: Loop, path: tuple[Stmt, ...], pairs: Dependences) -> Iterator[Expr]:
    """The iterations that may be the one: where a store is at what another iteration reads, at a position that the loop does not move."""
    stated = statements(loop.body)
    if loop.kind != "serial" or loop.step is not ONE or len(stated) > MOST or any(isinstance(s, (While, Region)) for s in stated):
        return
    own = {loop.axis} | {s.axis for s in stated if isinstance(s, Loop)} | {s.name for s in stated if isinstance(s, Let)}
    i = var(loop.axis)
    asked: dict[Expr, None] = {}
    for s in stated:
        if isinstance(s, Store):
            for n in (n for t in stated for n in loads_in(*t.expressions()) if n.attr == s.buffer):
                for at, read in zip(s.index, n.args, strict=True):
                    if is_constant(plus(poly(at), poly(i), -1)) and not read.names & own and not read.buffers:
                        asked[simplify(read - (at - i))] = None
    known = inside(path, pairs.known)
    for one in asked:
        if prove_le(loop.start, one, known) and prove_le(one, loop.stop - 1, known):
            yield one


def _parts(nest: Nest, loop: Loop, one: Expr) -> tuple[Block, Block, Block]:
    """The three, loops at the end of the first and of the last; what others read of the one is named before each, for vectors of which a part is not there to be seen to read nothing that they store."""
    names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
    here = {var(loop.axis): one}
    stored = {load(s.buffer, s.value.dtype, *(substitute(e, here) for e in s.index)) for s in loop.body if isinstance(s, Store)}
    read = dict.fromkeys(n for s in statements(loop.body) for n in loads_in(*s.expressions()) if n in stored)

    def part(x: Loop) -> Block:
        values = {n: var(names.fresh(f"{n.attr}.one"), n.dtype) for n in read}
        lets = tuple(Let(v.attr, n) for n, v in values.items())
        return (*lets, replace(x, body=map_expressions(x.body, lambda e: substitute(e, values))))

    alone = substitute_block(unique_locals(loop.body, names.fresh), here)
    (behind,) = unique_locals((replace(loop, start=one + 1),), names.fresh)
    assert isinstance(behind, Loop)
    return part(replace(loop, stop=one)), alone, part(behind)


def _independent(nest: Nest, loops: tuple[Stmt, ...], pairs: Dependences) -> bool:
    """Whether the iterations of all these loops are."""
    found = Events(nest, pairs.known)
    each = [v for v, x in found.loops.items() if any(x is loop for loop in loops)]
    return len(each) == len(loops) and not any(any(conflicts(v, found, pairs)) for v in each)


__all__ = ["around_one"]
