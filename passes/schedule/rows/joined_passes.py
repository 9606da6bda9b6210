"""Passes over a row that read the same matrix become one, in which a row is loaded once for both.

for j in 0 .. N parallel:                  acc[] = 0
  parts[c, j] add= r[i] * A[i, j]          for p in 0 .. N reduce:
acc[] = 0                            →       parts[c, p] add= r[i] * A[i, p]
for p in 0 .. N reduce:                      acc[] add= A[i, p] * x[p]
  acc[] add= A[i, p] * x[p]
"""

from __future__ import annotations

from itertools import combinations

from ....ir.expr import Expr, var
from ....ir.kernel import Loop, written
from ....ir.walks import substitute
from ..affine import stride
from ..plan import Plan
from ..tree import all_loops, loads_in


def joined_passes(plan: Plan) -> None:
    """Join the loops inside a row that store and those that sum, where both read memory at the same consecutive positions; what the step refuses stays apart."""
    for row in [x.axis for x in all_loops(plan.kernel)]:
        loops = [s for s in plan.loop(row).body if isinstance(s, Loop) and not all_loops(s.body)] if plan.has(row) else []
        for a, b in combinations(loops, 2):
            pair = {a.kind, b.kind} == {"parallel", "reduce"} and plan.has(a.axis) and plan.has(b.axis)
            if pair and _share(plan, a, b) and not plan.tried("join", a.axis, b.axis):
                plan.note(f"`{a.axis}` and `{b.axis}` read the same of a row: in one loop, which loads it once")


def _share(plan: Plan, a: Loop, b: Loop) -> bool:
    """Whether both read something that neither changes, one element after the other."""
    changed = written((a, b))
    here: dict[Expr, Expr] = {var(b.axis): var(a.axis)}
    first = {n for s in a.body for n in loads_in(*s.expressions())}
    second = {substitute(n, here) for s in b.body for n in loads_in(*s.expressions())}
    held = {n: plan.facts.buffers[n.attr] for n in first & second if n.attr in plan.facts.buffers and n.attr not in changed}
    return any(stride(b.address(n.args), a.axis) == 1 for n, b in held.items())
