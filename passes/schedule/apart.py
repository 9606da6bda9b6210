"""The plan for several nests inside common loops of which one turns memory over: each nest gets loops of its own, and the plan that it would have as a kernel.

    for i in 0 .. M parallel:                        for i in 0 .. M parallel:
      for j in 0 .. 1 parallel:                        for j in 0 .. 1 parallel:
        for k: Y[i, j, k] = 0                            for k: Y[i, j, k] = 0
      for j1 in 1 .. N parallel:              →      for i.b in 0 .. M parallel:
        for k1: Y[i, j1, k1] = X[k1, i, j1]            for j1 in 1 .. N parallel:
                                                         for k1: Y[i.b, j1, k1] = X[k1, i.b, j1]

Vectors along the innermost loop alone would gather what the transposition reads, and where the common loop has one iteration (a batch of one image) there would be nothing for a second thread.
"""

from __future__ import annotations

from ...ir.kernel import Kernel, Let, Loop, Store
from ...ir.record import replace
from . import roles
from .plan import Plan


def apart(plan: Plan) -> bool:
    """Take the nests of a kernel apart; False (and an unchanged plan) where there is one, or none of them is a transposition."""
    saved = plan.kernel
    with plan.attempt("nests stay together") as attempt:
        while (loops := _imperfect(plan.kernel)) is not None:
            plan.do("fission", *loops)
    if attempt.refused:
        return False
    nests = [s for s in plan.kernel.body if not isinstance(s, Let)]
    if (
        len(nests) > 1
        and all(isinstance(s, Loop) and s.kind == "parallel" for s in nests)
        and any(turns(plan, replace(plan.kernel, body=(s,))) for s in nests)
    ):
        return True
    plan.kernel = saved
    return False


def _imperfect(kernel: Kernel) -> tuple[str, ...] | None:
    """Some outermost loops, one inside the other, that hold several parallel loops and nothing else."""
    for s in kernel.body:
        form = roles.shape(replace(kernel, body=(s,)))
        if form.chain and len(form.body) > 1 and all(isinstance(x, Loop) and x.kind == "parallel" for x in form.body):
            return form.axes
    return None


def turns(plan: Plan, kernel: Kernel) -> bool:
    """Whether a nest is pointwise, and something that it reads is consecutive along another axis than what it stores."""
    form = roles.shape(kernel)
    if not form.chain or not all(isinstance(s, Store) for s in form.body):
        return False
    stores = [plan.facts.buffers[s.buffer].address(s.index) for s in form.body if isinstance(s, Store) and s.buffer in plan.facts.buffers]
    axis = roles.vector_axis(form.axes, stores)
    addresses = roles.accesses(form.body, plan.facts.buffers)
    strided = [a for a in addresses if axis in a.names and not roles.units([a], axis)] if axis is not None else []
    return any(roles.units(strided, a) > 0 for a in form.axes if a != axis)
