"""The plan for tensors of which the axis that vectors would run along has one element: another axis is consecutive then.

    for i in 0 .. M parallel:                  if N == 1:
      for j in 0 .. N parallel:                  for i in 0 .. M parallel:
        Y[i, j] = X[i, j] + b[j]        →          Y[i] = X[i] + b[0]
                                               else:
                                                 …

What follows from it is known there: what is turned over around such an axis is a copy.  Of an axis that is several (height and width) each has one element, and what is left of a reduction may have such an axis again:
of B × C × 1 × 1 a softmax over channels is one of rows, a sum over the second and fourth axis one of rows too.  So is a kept axis inside of loops that stay loops: a triangular system
with one right-hand side (2048 floats, one thread, 4.0 → 0.2 ms).
"""

from __future__ import annotations

from ....ir.expr import ONE, ZERO, Expr, both
from ....ir.kernel import Kernel, Let, Loop, written
from ....ir.simplify import simplify
from .. import roles
from ..affine import divides
from ..plan import Plan
from ..tree import loop_around, reads
from .columns_inside import consecutive
from .longer_rows import lengthened, longest
from .transpositions import turning
from .vectors import along_rows, by_columns, vectors


def of_ones(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for each such axis, with the condition on the sizes; nothing where neither a loop around everything nor the one loop inside is such an axis."""
    parts: list[tuple[Expr | None, Kernel]] = []
    for condition in _conditions(plan):
        part = plan.another(condition)
        with plan.attempt("axes of one element are worked off as longer ones"):
            part.do("decide")
            lengthened(part)
            if roles.innermost(roles.shape(part.kernel).body):
                parts += [(both(condition, more), kernel) for more, kernel in of_ones(part)]
            vectors(part)
            parts.append((condition, part.kernel))
    return parts


def _conditions(plan: Plan) -> list[Expr]:
    """Under which an axis along which memory is consecutive, stored or read, has one element: one size, or each of those that memory knows as one axis; those that may be 1 and may be more."""
    form = roles.shape(plan.kernel)
    inner = roles.innermost(form.body)
    if not plan.alone or len(form.chain) + bool(inner) < 2 or any(not isinstance(s, Let) for s in plan.kernel.body[:-1]):
        return []
    column = by_columns(plan) if inner else None
    addresses = roles.positions(form, plan.facts)
    along = {x.axis: roles.along(plan.kernel, x, plan.facts) for x in inner}
    # what is cut where positions begin again is cut by the sizes as they are
    if any(divides(a, form.axes) for a in addresses) or any(divides(a, [axis]) for axis, found in along.items() for a in found):
        return []
    if column is not None:
        extents = [_length(plan, column)]
    elif inner:
        # of what rows share several go together
        own = len(inner) == 1 and all(any(a in e.names for a in form.axes) for found in along.values() for e in found)
        extents = [*(x.stop for x in inner if own and roles.units(along[x.axis], x.axis)), *_columns_inside(plan, inner)]
    else:
        rows = plan.another()
        axes = turning(plan, form, addresses) or (along_rows(rows),)
        if len(roles.shape(rows.kernel).chain) < 2:  # all that is touched is one long row
            return []
        extents = [x.stop for x in form.chain if x.axis in axes and x.start is ZERO]
    found = (simplify(c, plan.facts.known) for c in map(of_one, extents) if c is not None)
    return [c for c in dict.fromkeys(found) if not c.is_const]


def _columns_inside(plan: Plan, inner: list[Loop]) -> list[Expr]:
    """The extents of the kept loops inside of a row that vectors of accumulators would run along, where a loop in order makes results of earlier ones."""
    if written(plan.kernel.body).isdisjoint(n.attr for n in reads(plan.kernel.body) if n.attr in plan.facts.buffers):
        return []
    found: list[Expr] = []
    for x in inner:
        around = loop_around(plan.kernel, x)
        if around is not None and around.start is ZERO and consecutive(plan, x) is not None:
            found.append(around.stop)
    return found


def _length(plan: Plan, axis: str) -> Expr:
    """The extent of a kept axis along which memory is consecutive, and of those around it that memory knows as one with it."""
    part = plan.another()
    with part.attempt():
        part.ordered(axis)
        axis = longest(part, axis)
    return part.loop(axis).stop


def of_one(extent: Expr) -> Expr | None:
    """The condition under which a size is 1, or each of several that are multiplied; None for other extents."""
    if extent.op == "mul":
        left, right = (of_one(e) for e in extent.args)
        return both(left, right) if left is not None and right is not None else None
    return extent.eq(ONE) if extent.op == "size" else None
