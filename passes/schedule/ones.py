"""The plan for tensors of which the axis that vectors would run along has one element: another axis is consecutive then.

    for i in 0 .. M parallel:                  if N == 1:
      for j in 0 .. N parallel:                  for i in 0 .. M parallel:
        Y[i, j] = X[i, j] + b[j]        →          Y[i] = X[i] + b[0]
                                               else:
                                                 …

What follows from it is known there: what is turned over around such an axis is a copy.
"""

from __future__ import annotations

from ...ir.expr import ONE, Expr
from ...ir.kernel import Kernel, Let
from . import roles
from .longer_rows import lengthened
from .plan import Plan
from .transpositions import turning
from .vectors import along_rows, by_columns, vectors


def of_ones(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for each such axis, with the condition on the sizes; nothing where vectors do not run along the loops around everything, or rows are read more than once."""
    parts: list[tuple[Expr | None, Kernel]] = []
    for size in _sizes(plan):
        condition = size.eq(ONE)
        part = plan.another(condition)
        with plan.attempt("axes of one element are worked off as longer ones"):
            part.do("decide")
            lengthened(part)
            vectors(part)
            parts.append((condition, part.kernel))
    return parts


def _sizes(plan: Plan) -> list[Expr]:
    """The extents of the axes along which memory is consecutive, stored or read, where they are sizes that may be 1."""
    form = roles.shape(plan.kernel)
    inner = roles.innermost(form.body)
    if not plan.alone or len(form.chain) + bool(inner) < 2 or any(not isinstance(s, Let) for s in plan.kernel.body[:-1]):
        return []
    if roles.divided(plan.kernel, plan.facts):  # what is cut where positions begin again is cut by the sizes as they are
        return []
    if inner:
        column = by_columns(plan) if len(inner) == 1 else None
        axes = (column,) if column is not None else ()
    else:
        rows = plan.another()
        axes = turning(plan, form, roles.positions(form, plan.facts)) or (along_rows(rows),)
        if len(roles.shape(rows.kernel).chain) < 2:  # all that is touched is one long row
            return []
    found = dict.fromkeys(x.stop for x in form.chain if x.axis in axes and x.start.is_const and x.start.attr == 0)
    return [e for e in found if e.op == "size"]
