"""Positions that a collapsed axis takes apart and puts together again: `v // N * N + v % N` is v.

Only in vector loops, and only where the lanes' own variable is divided: what lies side by side in memory must be seen before there are vectors; everything else can wait for simplify_index.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.bounds import Known
from ...ir.expr import Expr, postorder, var
from ...ir.program import Block, For, If, Region, Stmt, While, expressions, map_expressions, statements
from ...ir.simplify import simplify
from ..simplify_index import inside_loop


def straighten(block: Block, known: Known) -> Block:
    return tuple(_statement(s, known) for s in block)


def _statement(s: Stmt, known: Known) -> Stmt:
    match s:
        case For(pragma="vector"):
            lane = var(s.var)
            if not any(divides(e, lane) for t in statements(s.body) for e in expressions(t)):
                return s
            inside = inside_loop(s, known)
            return replace(s, body=map_expressions(s.body, lambda e: simplify(e, inside) if divides(e, lane) else e))
        case For():
            return replace(s, body=straighten(s.body, inside_loop(s, known))) if holds_vectors(s.body) else s
        case While() | Region():
            return replace(s, body=straighten(s.body, known))
        case If():
            return If(s.condition, straighten(s.body, known), straighten(s.orelse, known))
        case _:
            return s


def holds_vectors(block: Block) -> bool:
    return any(isinstance(s, For) and s.pragma == "vector" for s in statements(block))


def divides(e: Expr, lane: Expr) -> bool:
    """Whether the lane stands under a division or a remainder of positions."""
    under: set[Expr] = set()
    for n in postorder(e):
        if n is lane or any(a in under for a in n.args):
            if n.op in ("floordiv", "mod"):
                return True
            under.add(n)
    return False
