"""The plan for several nests inside common loops of which one turns memory over: each nest gets loops of its own, and the plan that it would have as a kernel.

    for i in 0 .. M parallel:                        for i in 0 .. M parallel:
      for j in 0 .. 1 parallel:                        for j in 0 .. 1 parallel:
        for k: Y[i, j, k] = 0                            for k: Y[i, j, k] = 0
      for j1 in 1 .. N parallel:              →      for i.b in 0 .. M parallel:
        for k1: Y[i, j1, k1] = X[k1, i, j1]            for j1 in 1 .. N parallel:
                                                         for k1: Y[i.b, j1, k1] = X[k1, i.b, j1]

Vectors along the innermost loop alone would gather what the transposition reads, and where the common loop has one iteration (a batch of one image) there would be nothing for a second thread.

Where the transposition has a few elements along one of its axes its blocks would be mostly empty, and nests stay together: few of what is read side by side, or few of what is stored side by side, where the next axis is the one that is read along.
"""

from __future__ import annotations

from ....ir.expr import FALSE, TRUE, Expr, both, call, const
from ....ir.kernel import Kernel, Let, Loop, Store
from ....ir.record import replace
from ....ir.simplify import simplify
from .. import cost_turned, roles
from ..affine import extent
from ..plan import Plan


def apart(plan: Plan) -> Expr:
    """Take the nests of a kernel apart; the condition on the sizes under which it pays: FALSE (and an unchanged plan) where there is one nest, or none of them is a transposition."""
    saved = plan.kernel
    with plan.attempt("nests stay together") as attempt:
        while (loops := _imperfect(plan.kernel)) is not None:
            plan.do("fission", *loops)
    if attempt.refused:
        return FALSE
    nests = [s for s in plan.kernel.body if not isinstance(s, Let)]
    pays: Expr = FALSE
    if len(nests) > 1 and all(isinstance(s, Loop) and s.kind == "parallel" for s in nests):
        for s in nests:
            pays = call("bit_or", pays, _turns(plan, replace(plan.kernel, body=(s,))))
    pays = simplify(pays, plan.facts.known)
    if pays is FALSE or not pays.names <= plan.facts.sizes.keys():
        plan.kernel = saved
        return FALSE
    return pays


def _imperfect(kernel: Kernel) -> tuple[str, ...] | None:
    """Some outermost loops, one inside the other, that hold several parallel loops and nothing else."""
    for s in kernel.body:
        form = roles.shape(replace(kernel, body=(s,)))
        if form.chain and len(form.body) > 1 and all(isinstance(x, Loop) and x.kind == "parallel" for x in form.body):
            return form.axes
    return None


def _turns(plan: Plan, kernel: Kernel) -> Expr:
    """Whether a nest is pointwise, something that it reads is consecutive along another axis than what it stores, and there are more than a few elements of both."""
    form = roles.shape(kernel)
    if not form.chain or not all(isinstance(s, Store) for s in form.body):
        return FALSE
    stores = [plan.facts.buffers[s.buffer].address(s.index) for s in form.body if isinstance(s, Store) and s.buffer in plan.facts.buffers]
    axis = roles.vector_axis(form.axes, stores)
    addresses = roles.accesses(form.body, plan.facts.buffers)
    strided = [a for a in addresses if axis in a.names and not roles.units([a], axis)] if axis is not None else []
    across = [x for x in form.axes if x != axis and roles.units(strided, x) > 0]
    if not across:
        return FALSE
    few = [across[-1], axis] if form.axes[-2:] == (across[-1], axis) else across[-1:]
    return both(*(const(cost_turned.FEW_TURNED).le(extent(x)) for x in form.chain if x.axis in few)) or TRUE
