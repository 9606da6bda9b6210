"""What is stored at a distance from lane to lane is stored one by one, but computed by vectors where that is dear.

    for l in 0 .. 16 vector:                      array Y_lanes: f32[16]
      if b + l < n:                               for l in 0 .. 16 vector:
        Y[2·l] = tanh(acc[l] + t)            →      if b + l < n: Y_lanes[l] = tanh(acc[l] + t)
                                                  for l in 0 .. 16:
                                                    if b + l < n: Y[2·l] = Y_lanes[l]

A store to every other element has no form on vectors: the loop would stay a serial one, and with it a function of twenty operations.  Of a guard the value's loop keeps what its loads depend on.
"""

from __future__ import annotations

from functools import reduce

from ....ir.conditions import conjuncts
from ....ir.expr import ONE, TRUE, ZERO, Expr, both, load, var
from ....ir.operator_kinds import LONG
from ....ir.program import Array, Block, Define, For, If, Stmt, StoreTo, map_block
from ....ir.record import replace
from ....ir.walks import postorder
from ... import costs
from ..affine import slope
from ..names import Names

DEAR = 10  # additions that one function in the value is worth, from which on it is computed apart


def apart(body: Block, names: Names) -> Block:
    """The body with the values of such stores in loops of their own."""
    return map_block(body, lambda s: _taken_apart(s, names) if isinstance(s, For) and s.pragma == "vector" else None, LONG)


def _taken_apart(s: For, names: Names) -> Block | None:
    *defined, tail = s.body
    if s.start is not ZERO or s.step is not ONE or not s.stop.is_const or not all(isinstance(d, Define) and not d.mutable for d in defined):
        return None
    conditions: list[Expr] = []
    while isinstance(tail, If) and len(tail.body) == 1 and not tail.orelse:
        conditions += conjuncts(tail.condition)
        tail = tail.body[0]
    if not isinstance(tail, StoreTo) or tail.count is not None or not tail.value.kinds & LONG:
        return None
    moving = {s.var}
    for d in defined:
        if isinstance(d, Define) and d.value is not None and d.value.names & moving:
            moving.add(d.name)
    grows = slope(tail.address, var(s.var), lambda atom: bool(atom.names & moving))
    if grows is ONE or grows is ZERO or not any(costs.operation(n.op) > DEAR and n.names & moving for n in postorder(tail.value)):
        return None
    guarded = any(n.op == "load" and n.names & moving for n in postorder(tail.value))
    outside = [c for c in conditions if not c.names & moving]
    inside = [c for c in conditions if c.names & moving]
    lanes = names.fresh(f"{tail.buffer}_lanes")
    value = StoreTo(lanes, var(s.var), tail.value)
    stored = replace(tail, value=load(lanes, tail.value.dtype, var(s.var)), stream=None)
    loops = (
        replace(s, body=(*defined, *_under(inside if guarded else [], value))),
        replace(s, body=(*_needed(defined, (*inside, tail.address)), *_under(inside, stored)), pragma=""),
    )
    return (Array(lanes, tail.value.dtype, s.stop.attr), *_under(outside, *loops))


def _under(conditions: list[Expr], *block: Stmt) -> Block:
    condition = reduce(lambda a, b: both(a, b) or TRUE, conditions, TRUE)
    return block if condition is TRUE else (If(condition, block),)


def _needed(defined: list[Stmt], used: tuple[Expr, ...]) -> Block:
    """The definitions that these expressions mention, and what those mention."""
    wanted = {n for e in used for n in e.names}
    kept: list[Stmt] = []
    for d in reversed(defined):
        if isinstance(d, Define) and d.name in wanted and d.value is not None:
            wanted |= d.value.names
            kept.insert(0, d)
    return tuple(kept)
