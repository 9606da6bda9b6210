"""Vectors of a row of which only the first lanes are there: all but the last of them are whole, where that is known.

    for j in 0 .. 3 unroll:                              for j in 0 .. 2 unroll:
      y[16·j, N - 16·j] = vload.16 x[16·j, N - 16·j]  →    y[16·j] = vload.16 x[16·j]          (where 32 < N)
                                                         y[32, N - 32] = vload.16 x[32, N - 32]

A masked load takes a place where multiply-adds run, beside that of a load (Golden Cove: a register tile of 6 × 48 floats with three masked vectors takes 1.13 times as long as with one at its end).
"""

from __future__ import annotations

from typing import Final

from ...ir.bounds import Known
from ...ir.expr import ONE, ZERO, Expr, const, var, vload
from ...ir.operator_kinds import PARTIAL
from ...ir.program import Assign, Block, For, If, StoreTo, map_expressions, statements, with_blocks
from ...ir.record import replace
from ...ir.simplify import prove_le
from ...ir.walks import postorder, rewrite, substitute

MOST: Final = 8  # vectors side by side: each is asked about


def whole_vectors(s: For, known: Known) -> Block | None:
    """Such a loop over vectors in two parts, or in one where no lanes are missing at all; None where nothing is known of the first vector.  `known`: outside of the loop."""
    if s.pragma != "unroll" or s.start is not ZERO or s.step is not ONE or not s.stop.is_const or not 1 < s.stop.attr <= MOST:
        return None
    if not all(isinstance(t, (StoreTo, Assign, If)) for t in statements(s.body)):  # what has a name would have it twice
        return None
    counts = _counts(s.body)
    if not any(s.var in count.names for count, _ in counts):
        return None
    trips, whole = s.stop.attr, 0
    while whole < trips and all(prove_le(const(lanes), substitute(count, {var(s.var): const(whole)}), known) for count, lanes in counts):
        whole += 1
    if not whole:
        return None
    first = replace(s, stop=const(whole), body=_unmasked(s.body))
    if whole == trips:
        return (first,)
    if whole < trips - 1:
        return first, replace(s, start=const(whole))
    return first, *map_expressions(s.body, lambda e: substitute(e, {var(s.var): const(whole)}))


def _counts(body: Block) -> list[tuple[Expr, int]]:
    """How many lanes are loaded and stored, of how many; loads without their first lanes are masked whatever is known."""
    found = {
        (n.args[1], n.dtype.lanes): None
        for s in statements(body)
        for e in s.expressions()
        if e.kinds & PARTIAL
        for n in postorder(e)
        if _first_lanes(n)
    }
    found |= {(s.count, s.value.dtype.lanes): None for s in statements(body) if isinstance(s, StoreTo) and s.count is not None}
    return list(found)


def _first_lanes(n: Expr) -> bool:
    return n.op == "vload" and len(n.args) == 2


def _unmasked(body: Block) -> Block:
    def rule(n: Expr) -> Expr | None:
        return vload(n.attr, n.dtype.element, n.dtype.lanes, n.args[0]) if _first_lanes(n) else None

    def stored(block: Block) -> Block:
        return tuple(replace(s, count=None) if isinstance(s, StoreTo) else with_blocks(s, stored) for s in block)

    return map_expressions(stored(body), lambda e: rewrite(e, rule))
