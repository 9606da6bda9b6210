"""Positions that a collapsed axis takes apart and puts together again: `v // N * N + v % N` is v.

Only in vector loops, and only where the lanes' own variable is divided, or a position that each lane reads from memory: what lies side by side in memory must be seen before there are vectors;
everything else can wait for simplify_index.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.bounds import Known
from ...ir.expr import Expr, both
from ...ir.operator_kinds import DIVIDES
from ...ir.program import Block, Define, For, If, Region, Stmt, While, kinds_in, map_expressions, statements, with_body
from ...ir.simplify import assuming, simplify
from ...ir.statement import same
from ...ir.walks import leaves, postorder
from ..simplify_index import inside_loop


def straighten(block: Block, known: Callable[[], Known], loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = ()) -> Block:
    """`known` gives what holds around everything, `loops` are those around the block, `conditions` hold there; what they say is worked out where it is asked for."""
    changed = [_statement(s, known, loops, conditions) for s in block]
    return block if same(changed, block) else tuple(changed)


def _statement(s: Stmt, known: Callable[[], Known], loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> Stmt:
    match s:
        case For(pragma="vector" | "unroll"):
            if not kinds_in(s.body) & DIVIDES:
                return s
            lane = _lane(s)
            if not any(divides(e, lane) for t in statements(s.body) for e in t.expressions()):
                return s
            here = known()
            for loop in (*loops, s):
                here = inside_loop(loop, here)
            here = assuming(here, both(*conditions))
            return with_body(s, map_expressions(s.body, lambda e: simplify(e, here) if divides(e, lane) else e))
        case For():
            if not kinds_in(s.body) & DIVIDES:
                return s
            return with_body(s, straighten(s.body, known, (*loops, s), conditions))
        case While() | Region():
            return with_body(s, straighten(s.body, known, loops, conditions))
        case If():
            # of sizes alone: a variable may be set again
            inside = (*conditions, s.condition) if not s.condition.buffers and not leaves(s.condition, "var") else conditions
            return If(s.condition, straighten(s.body, known, loops, inside), straighten(s.orelse, known, loops, conditions))
        case _:
            return s


def _lane(s: For) -> frozenset[str]:
    """The variable of a loop, and what its body defines by it: a position that is read from memory is another in each lane too."""
    found = {s.var}
    for t in statements(s.body):
        if isinstance(t, Define) and t.value is not None and not found.isdisjoint(t.value.names):
            found.add(t.name)
    return frozenset(found)


def divides(e: Expr, lane: frozenset[str]) -> bool:
    """Whether the lane stands under a division or a remainder of positions."""
    if not e.kinds & DIVIDES or lane.isdisjoint(e.names):
        return False
    return any(n.op in ("floordiv", "mod") and not lane.isdisjoint(n.names) for n in postorder(e))
