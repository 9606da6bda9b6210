"""Neighbouring axes of a contraction that everything steps through as through one axis are made one.

    for i, j: for k: for p, q: acc += P[i, j, p, q] · X[p, q, k]      →      for i_j: for k: for p_q: acc += P[i_j, p_q] · X[p_q, k]

So are axes that are summed whose inner one is whole vectors, though a scale is the same for all of it: within a vector everything is steady or beside each other.

So tiles of rows, vectors of columns and blocks of a reduction have no end inside, and what asks for one axis of a kind finds it.
"""

from __future__ import annotations

from itertools import pairwise

from ....ir.expr import Expr, var
from ....ir.kernel import Store, statements
from ....ir.polynomial import degree, poly
from ....ir.simplify import simplify
from .. import roles
from ..affine import inside
from ..plan import Plan
from ..roles import Contraction
from ..tree import StepError, around


def straightened(plan: Plan, found: Contraction) -> Contraction:
    """The contraction with such axes made one: rows, what is reduced, and the column with batches before it."""
    for pair in [*pairwise(found.rows), *pairwise(found.reduced), *((b, found.column) for b in reversed(found.batch))]:
        saved = plan.kernel
        if _joined(plan, found, *pair):
            again = roles.contraction(plan.kernel, plan.facts)
            if again is not None:
                plan.note(f"`{pair[0]}` and `{pair[1]}` are one axis: all that is read and stored lies along both as along one")
                return straightened(plan, again)
        plan.kernel = saved
    return found


def _joined(plan: Plan, found: Contraction, outer: str, inner: str) -> bool:
    order = (*(b for b in found.batch if b != outer), *found.rows, *((outer,) if outer in found.batch else ()), found.column)
    try:
        if outer not in found.reduced and roles.shape(plan.kernel).axes != order:
            plan.do("reorder", *order)
        length = plan.extent(inner)
        axis = plan.collapsed((outer, inner))
        return is_straight(plan, axis) or (outer in found.reduced and length is not None and length % plan.target.lanes(found.accumulator.dtype) == 0)
    except StepError:
        return False


def is_straight(plan: Plan, axis: str) -> bool:
    """Whether every address is linear in the axis, and nothing else asks for its pieces."""
    loop = plan.loop(axis)
    known = inside(around(plan.kernel, axis), plan.facts.known)
    stack: list[Expr] = []
    for s in statements((loop,)):
        if isinstance(s, Store) and s.buffer in plan.facts.buffers:
            if not _is_linear(simplify(plan.facts.buffers[s.buffer].address(s.index), known), axis):
                return False
            stack.append(s.value)
        else:
            stack += s.expressions()
    seen = set(stack)
    while stack:
        e = stack.pop()
        if axis not in e.names:
            continue
        if e.op == "load" and e.attr in plan.facts.buffers:
            if not _is_linear(simplify(plan.facts.buffers[e.attr].address(e.args), known), axis):
                return False
            continue
        if e.op in ("floordiv", "mod"):
            return False
        stack += [a for a in e.args if a not in seen]
        seen.update(e.args)
    return True


def _is_linear(address: Expr, axis: str) -> bool:
    return axis not in address.names or (
        degree(poly(address), var(axis)) == 1 and not any(axis in n.names for m in poly(address) for n in m if n.op != "var")
    )
