"""Axes that lie one behind the other in all that a kernel touches are one, which is longer: the height and the width of an image whose channels change places with both.

    for c:                                     for c:
      for h in 0 .. H:                           for p in 0 .. H·W:
        for w in 0 .. W:               →           Y[c, p // W, p % W] = X[p // W, p % W, c]
          Y[c, h, w] = X[h, w, c]

The positions are those of a row of H·W elements, which is what vectors, lines and what is left over at the end of a row go by.
"""

from __future__ import annotations

from ....ir.expr import ZERO, Expr
from ....ir.kernel import Loop, Store, statements
from .. import roles
from ..affine import row_step, same_position
from ..plan import Plan


def joined(plan: Plan) -> None:
    """Make one of axes that all operands see as one, of a kernel that is loops around its stores."""
    while (pair := _pair(plan)) is not None:
        a, b = pair
        axes = roles.shape(plan.kernel).axes
        order = tuple(x for y in axes if y != a for x in ((a, b) if y == b else (y,)))
        if order != axes and plan.tried("reorder", *order):
            return
        if plan.tried("collapse", a, b):
            return
        plan.note(f"`{a}` and `{b}` are one axis of all operands")


def _pair(plan: Plan) -> tuple[str, str] | None:
    """Two axes, of which the outer moves everything as far as all of the inner does."""
    form = roles.shape(plan.kernel)
    if not all(isinstance(s, Store) for s in form.body) or positions_as_data(form):
        return None
    addresses = roles.positions(form, plan.facts)
    for y in form.chain:
        for x in form.chain:
            if x is not y and x.start is ZERO and y.start is ZERO and not y.stop.names & {*form.axes} and all(follow(a, x, y) for a in addresses):
                return x.axis, y.axis
    return None


def follow(address: Expr, x: Loop, y: Loop) -> bool:
    """Whether an outer axis moves an address as far as all of the inner one does."""
    far, near = row_step(address, x), row_step(address, y)
    return far is not None and near is not None and same_position(far, near * y.stop)


def positions_as_data(form: roles.Shape) -> bool:
    """Whether a value is computed from a position itself: of a collapsed axis that would be a quotient or a remainder for each lane."""
    axes = set(form.axes)
    stack = [e for s in statements(form.body) for e in ((s.value,) if isinstance(s, Store) else s.expressions())]
    seen = set(stack)
    while stack:
        n = stack.pop()
        if n.op == "var" and n.attr in axes:
            return True
        fresh = [a for a in n.args if a not in seen and n.op != "load"]
        stack += fresh
        seen.update(fresh)
    return False
