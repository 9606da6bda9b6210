"""The automatic scheduler: look at the accesses, pick a plan, take its steps, say why."""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import Kernel
from ...ir.target import Options, Target
from .cascades import cascade
from .contractions import contract
from .gpu import grid
from .plan import Plan
from .tree import Facts, StepError
from .vectors import vectors


def automatic(kernel: Kernel, facts: Facts, target: Target, options: Options) -> Kernel:
    """The kernel scheduled for the target, its script in `schedule`, the reasons in `notes`.

    A plan that a step refuses is dropped whole, and the next simpler one is tried; the unscheduled kernel is always right.
    """
    reasons: list[str] = []
    for attempt in (_gpu,) if target.gpu else (_cascade, _contraction, _vectors):
        plan = Plan(kernel, facts, target, options)
        try:
            if attempt(plan):
                return replace(plan.kernel, notes=(*kernel.notes, *reasons, *plan.notes))
        except StepError as e:
            reasons.append(f"not {attempt.__name__.strip('_')}: {e}")
    return replace(kernel, notes=(*kernel.notes, *reasons))


def _gpu(plan: Plan) -> bool:
    grid(plan)
    return True


def _cascade(plan: Plan) -> bool:
    return cascade(plan)


def _contraction(plan: Plan) -> bool:
    return contract(plan)


def _vectors(plan: Plan) -> bool:
    vectors(plan)
    return True
