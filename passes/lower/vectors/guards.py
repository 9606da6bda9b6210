"""Which lanes a guard lets through: `j < N` the first of them, as `2·j < N`; `M <= j` those after some, `p(i)` all or none."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from ....ir.conditions import conjuncts
from ....ir.dtypes import i32
from ....ir.expr import INDEX, Expr, broadcast, call, ceildiv, const, maximum, minimum, ramp
from ....ir.operator_kinds import CHOOSES
from ....ir.walks import postorder
from ..affine import difference
from .axis import ONE_STEP, TWO_STEPS, Axis, Serial


class First(NamedTuple):
    """The lanes before `stop`, perhaps without the first `skip` of them."""

    stop: Expr
    skip: Expr | None = None


def guard(condition: Expr, axis: Axis, widen: Callable[[Expr], Expr]) -> tuple[list[Expr], First] | None:
    """A condition as what is the same in every lane and which lanes, in one piece, pass the rest; None where it has no such form."""
    others: list[Expr] = []
    counts: list[Expr] = []
    skips: list[Expr] = []
    for part in conjuncts(condition):
        if not axis.varies(part):
            others.append(widen(part))
            continue
        if part.op not in ("less_than", "less_equal") or part.args[0].dtype is not INDEX:
            return None
        left, right = part.args
        equal = 1 if part.op == "less_equal" else 0
        bounds = [(a, b, axis.slope(b)) for a, b in ((right, left), (left, right)) if not axis.varies(a)]
        if not bounds or (step := bounds[0][2]) is None or not step.is_const or step.attr <= 0:
            return None
        fixed, moving, _ = bounds[0]
        distance = difference(widen(fixed) + (equal if fixed is right else 1 - equal), axis.at_base(moving))
        (counts if fixed is right else skips).append(ceildiv(distance, step))
    if not counts and not skips:
        return None
    return others, First(reduce(minimum, counts) if counts else const(axis.lanes), reduce(maximum, skips) if skips else None)


def guarded(root: Expr, axis: Axis, widen: Callable[[Expr], Expr], behind: First | None, is_square: Callable[[Expr], bool]) -> dict[Expr, First]:
    """What only some lanes may load, or none, with these lanes; and the choices that say so.  `behind`: a guard around lets only these through; `is_square`: of an address, whether what is gathered is a square block.

    Raises Serial for a load that other lanes may perform, but not all: it has no vector form.
    """
    choices = [n for n in postorder(root) if n.op == "where" and axis.varies(n.args[0])] if root.kinds & CHOOSES else []
    if not choices:
        return {}
    always = _always(root, choices)
    partial: dict[Expr, First] = {}
    for c in choices:
        loads = [_sometimes(a, always) for a in c.args[1:]]
        if not any(loads):
            continue
        found = guard(c.args[0], axis, widen)
        if found is None or loads[1] or c not in always or behind or any(n in partial for n in loads[0]):
            raise Serial
        partial[c] = found[1]
        for n in loads[0]:
            growth = axis.slope(n.args[0])
            if (
                axis.varies(n)
                and growth is not ONE_STEP
                and not is_every_other(growth, axis.lanes, found[1])
                and (growth is None or not is_square(n.args[0]))
            ):
                raise Serial
            partial[n] = found[1]
    return partial


def _always(root: Expr, choices: list[Expr]) -> set[Expr]:
    """What is evaluated in all lanes: of a choice the condition, and what stands in both of its branches.  The choices: inner ones first."""
    shared: dict[Expr, set[Expr]] = {}
    for c in choices:
        shared[c] = _reached(c.args[1], shared) & _reached(c.args[2], shared)
    return _reached(root, shared)


def _reached(root: Expr, shared: dict[Expr, set[Expr]]) -> set[Expr]:
    """The same, where it is known what the branches of choices share."""
    found: set[Expr] = set()
    stack = [root]
    while stack:
        n = stack.pop()
        if n in found:
            continue
        found.add(n)
        if n in shared:
            found |= shared[n]
            stack.append(n.args[0])
        else:
            stack += n.args
    return found


def _sometimes(e: Expr, always: set[Expr]) -> list[Expr]:
    """The loads that an expression wants and that are not performed anyway; what a choice that is made anyway chooses from is up to that one."""
    found: list[Expr] = []
    stack, seen = [e], {e}
    while stack:
        n = stack.pop()
        if n in always:
            continue
        if n.op == "load":
            found.append(n)
        stack += [a for a in n.args if a not in seen]
        seen.update(n.args)
    return found


def is_every_other(growth: Expr | None, lanes: int, first: First | None) -> bool:
    """Whether a load of these lanes, by this much from each to the next, is one of every other element."""
    return growth is TWO_STEPS and lanes % 2 == 0 and (first is None or first.skip is None)


def any_lane(first: First, lanes: int) -> Expr:
    """Whether there is a lane at all."""
    stop = const(0, INDEX).lt(first.stop)
    return stop if first.skip is None else call("bit_and", stop, first.skip.lt(minimum(first.stop, lanes)))


def inside(first: First, lanes: int) -> Expr:
    """The mask of the lanes, beside lanes of 32 bits."""

    def bound(count: Expr) -> Expr:
        """A number of lanes, kept to those that there are."""
        return broadcast(call("cast", minimum(maximum(count, 0), lanes), to=i32), lanes)

    place = call("cast", ramp(lanes), to=i32.vector(lanes))
    mask = place.lt(bound(first.stop))
    return mask if first.skip is None else call("bit_and", mask, bound(first.skip).le(place))
