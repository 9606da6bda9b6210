"""The plan for contractions and windows of which what vectors would run along has one position: images of one element, as they are once they have been averaged.

    for b, o, h, w:                                             if H == 1 & W == 1 & R == 1 & S == 1:
      for c, r, s reduce:                                         for b, o:
        acc += X[b, c, h + r, w + s] * K[o, c, r, s]      →         for c reduce: acc += X[b, c] * K[o, c]
                                                                else:
                                                                  …

Rows are reduced then, several of which share an operand, in tiles of sums in lanes (`dotted.py`; where there are few registers, `several_rows.py`), and memory is consecutive along the reduction.  In a tile of windows one lane
of its vectors is used, and the panels are packed for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.conditions import fixed_sizes
from ....ir.expr import Expr, both
from ....ir.operator_kinds import CHOOSES
from ....ir.simplify import simplify
from ....ir.walks import substitute
from .. import roles
from ..plan import Plan
from ..rows.ones import of_one
from ..rows.vectors import vectors
from .dotted import any_rows


def one_position(plan: Plan, axes: Sequence[str]) -> Expr | None:
    """Schedule the kernel for where each of these axes has one element: the condition on the sizes; None (and an unchanged plan) where there is none that is known to say so, or it leaves no rows."""
    condition = _condition(plan, axes)
    if condition is None:
        return None
    part = plan.another(condition)
    with part.attempt("axes of one element are worked off as longer ones") as attempt:
        part.do("decide")
        found = roles.contraction(part.kernel, part.facts)
        if found is None or not any_rows(part, found):
            vectors(part)
    if attempt.refused:
        return None
    plan.take(part)
    plan.note("where there is one position, rows are reduced along memory")
    return condition


def window_axes(found: roles.Reduction, slides: roles.Sliding) -> tuple[str, ...]:
    """The axes along which windows move, and before them those of their taps; none where nothing else is reduced, or where windows reach over an end, as none of one element do."""
    if any(e.kinds & CHOOSES for s in found.body for e in s.expressions()):
        return ()
    taps = roles.taps(found, slides)
    return (*taps, *slides.along) if len(taps) < len(found.reduced) else ()


def _condition(plan: Plan, axes: Sequence[str]) -> Expr | None:
    condition: Expr | None = None
    for axis in axes:
        one = of_one(simplify(substitute(plan.loop(axis).stop, fixed_sizes(condition)), plan.facts.known))
        if one is None:
            return None
        condition = both(condition, one)
    found = simplify(condition, plan.facts.known) if condition is not None else None
    return None if found is None or found.is_const else found
