"""The step that leaves guards to the last iterations of a loop: `peel`."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import polynomial as pl
from ....ir.bounds import Known
from ....ir.dtypes import INDEX
from ....ir.expr import ONE, ZERO, Expr, both, const, floordiv, make, maximum, minimum, where
from ....ir.kernel import Kernel, Let, Loop, map_expressions, statements
from ....ir.record import replace
from ....ir.walks import postorder, substitute
from ..affine import at_least, constant_extent, inside as within, minus, upper
from ..tree import Facts, StepError, around, copy, find, names_taken, replace_loop, simple
from .guards import drop_true, guards_of, holds_everywhere


def peel(kernel: Kernel, facts: Facts, axis: str, *, clamps: int = 0, fixed: int = 0, over: tuple[str, ...] = ()) -> Kernel:
    """The iterations of a loop that need its guards, after those that do not.

        for p.0 in 0 .. ceil(K / 16) reduce:                  for p.0 in 0 .. K // 16 reduce:
          for p.1 in 0 .. 16:                                   for p.1 in 0 .. 16:
            acc[p.1] += where(16·p.0 + p.1 < K, …, 0)    →        acc[p.1] += …
                                                              for p.0.b in K // 16 .. ceil(K / 16) reduce:
                                                                for p.1.b in 0 .. 16:
                                                                  acc[p.1.b] += where(16·p.0.b + p.1.b < K, …, 0)

    The guards are comparisons `e < S` with e linear in the axis, growing with it, and in axes of constant extent inside of it; S depends on none of them.  With clamps=1, positions
    `min(e, S - 1)` become `e` in the first part; with fixed=1, where guards that do not move with the axis fail for some of the loops inside of it, the first part has no iteration.
    What holds is what does for all values of the axes `over`, of loops around: so threads that wait for one another in the body have as many iterations of both parts.
    """
    loop = find(kernel, axis)
    if loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"peel: `{axis}` does not run from 0 in steps of 1")
    if loop.kind == "vector":
        raise StepError(f"peel: `{axis}` is a vector, all of whose lanes run")
    last_value = {s.axis: e - 1 for s in statements(loop.body) if isinstance(s, Loop) and s.start is ZERO and (e := constant_extent(s)) is not None}
    named = {s.axis if isinstance(s, Loop) else s.name for s in statements(loop.body) if isinstance(s, (Loop, Let))}
    around_it = {s.axis for s in around(kernel, axis) if isinstance(s, Loop)}
    if not set(over) <= around_it - {axis}:
        raise StepError(f"peel: not all of {', '.join(over)} are around `{axis}`")
    known = within((*around(kernel, axis), *(s for s in statements(loop.body) if isinstance(s, Loop))), facts.known) if over else facts.known
    inside: dict[Expr, Expr] = {}  # guard, or position that is kept from running over -> what it is in the first part
    ends: dict[Expr, None] = {}
    others: dict[Expr, None] = {}
    for s in statements(loop.body):
        for n in (n for e in s.expressions() for n in postorder(e)):
            for guard, value in guards_of(n, {axis, *last_value} if clamps else set()):
                asked = _for_all(guard, over, {*over, *last_value}, known)
                if (until := _holds_until(asked, axis, last_value, named | set(over))) is not None:
                    inside[n], ends[until] = value, None
                elif fixed and axis not in guard.names and (holds := holds_everywhere(asked, last_value, named | set(over), bool(over))) is not None:
                    inside[n], others[holds] = value, None
    if not inside:
        raise StepError(f"peel: no guard of `{axis}` holds up to an iteration of it")
    end = loop.stop
    for to in ends:
        end = to if at_least(end - to, 0, facts.known) else minimum(end, to)
    end = simple(end if at_least(end, 0, facts.known) else maximum(ZERO, end))
    end = end if (condition := both(*others)) is None else where(condition, end, ZERO)
    whole = map_expressions(loop.body, lambda e: simple(substitute(e, inside)))
    (rest,) = copy((replace(loop, start=end),), names_taken(kernel))
    return replace_loop(kernel, axis, lambda _: (replace(loop, stop=end, body=drop_true(whole)), rest))


def _for_all(guard: Expr, over: Sequence[str], axes: set[str], known: Known) -> Expr:
    """A comparison that holds where the guard does for all values of the axes `over`; itself where it moves with none of them, or they cannot be told apart from others but `axes`."""
    if not over or guard.args[0].dtype is not INDEX:
        return guard
    most = 0
    rest: dict[pl.Monomial, int] = {}
    for monomial, factor in pl.poly(minus(*guard.args)).items():
        names = frozenset[str]().union(*(a.names for a in monomial))
        found = upper(pl.expr({monomial: factor}), known) if names and names <= axes else None
        if found is not None:
            most += found
        elif names.isdisjoint(over):
            rest[monomial] = factor
        else:
            return guard
    return make("less_than", guard.dtype, (pl.expr(rest) + most, ZERO))


def _holds_until(guard: Expr, axis: str, last_value: dict[str, int], inner: set[str]) -> Expr | None:
    """The number of iterations of the axis, from 0, in which `guard` holds for all values of the inner axes; None where it is no comparison of that form."""
    if axis not in guard.names or guard.args[0].dtype is not INDEX:
        return None
    growth, most = 0, 0
    rest: dict[pl.Monomial, int] = {}
    for monomial, factor in pl.poly(minus(*guard.args)).items():
        only = monomial[0].attr if len(monomial) == 1 and monomial[0].op == "var" else None
        if only == axis:
            growth = factor
        elif only in last_value:
            most += max(0, factor * last_value[only])
        elif any(a.names & {axis, *inner} or a.buffers for a in monomial):
            return None
        else:
            rest[monomial] = -factor
    return floordiv(pl.expr(rest) + (growth - 1 - most), const(growth)) if growth > 0 else None
