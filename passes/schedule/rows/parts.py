"""Axes whose positions are divided by a size, an axis of a reshape that is several axes of what it reads (x // W, x % W) or groups of what lies beside each other (c // (C // 8)), are cut where these begin.

    for j in 0 .. D·D parallel:                          for j.0 in 0 .. D parallel:
      Y[i, j] = X[i, j // D] * X[i, j % D]       →         for j.1 in 0 .. D parallel:
                                                             Y[i, D·j.0 + j.1] = X[i, j.0] * X[i, j.1]

No machine divides vectors of integers, and of no lanes it is known that they lie beside each other: each element was two divisions.
"""

from __future__ import annotations

from ....ir.expr import ONE, Expr
from ....ir.kernel import Loop, statements
from ....ir.simplify import simplify
from ....ir.walks import postorder
from .. import cost, roles
from ..affine import inside
from ..divisions import pieces
from ..plan import Plan
from ..tree import all_loops, around
from .beside import in_pieces


def parted(plan: Plan) -> None:
    """Cut such axes wherever the divisions do not make one position again, (x // W)·W + x % W."""
    waiting = [x.axis for x in all_loops(plan.kernel)]
    while waiting:
        axis = waiting.pop()
        loop = plan.loop(axis)
        if (
            loop.kind not in ("parallel", "reduce")
            or loop.step is not ONE
            or pieces(loop, plan.facts.known) is None
            or not _stays_divided(plan, loop)
        ):
            continue
        earlier = plan.kernel
        if not plan.tried("part", axis):
            new = plan.added(earlier)
            plan.note(f"`{axis}` is cut where what it reads begins again: {', '.join(f'`{x}`' for x in new)}")
            waiting += new


def _stays_divided(plan: Plan, loop: Loop) -> bool:
    """Whether addresses, or what is computed, still divide the positions when all is simplified.  Of what is accessed, no extent is 0."""
    known = roles.touching(loop.body, plan.facts, inside(around(plan.kernel, loop.axis), plan.facts.known))
    found: list[Expr] = [simplify(a, known) for a in roles.accesses(loop.body, plan.facts.buffers)]
    found += [n for s in statements(loop.body) for e in s.expressions() for n in postorder(e) if n.op == "cast" and n.args[0].is_position]
    width = cost.lanes(plan.target, roles.widest(loop.body))
    found = [e for e in found if not in_pieces(e, loop.axis, width)]
    divisors = [n.args[1] for n in postorder(*found) if n.op in ("floordiv", "mod") and loop.axis in n.names]
    # what fits a vector, or a vector fits, leaves lanes that are a few stretches of memory
    return any(not d.is_const or (d.attr > 1 and d.attr % width and width % d.attr) for d in divisors)
