"""Index checks leave the loops they stand in, where that says the same.

    for v in a .. b:                     check b <= a or f(a) < N          for f rising in v (f(b - 1) where it falls)
      check f(v) < N          →          for v in a .. b:
      …                                    …

Conditions: the step is 1 or -1, f is linear in v with a coefficient of known sign, the check depends on no memory and stands in no branch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import polynomial as pl
from ..ir.bounds import Known
from ..ir.dtypes import INDEX
from ..ir.expr import Expr, call
from ..ir.kernel import Check, Let, Stmt
from ..ir.walks import leaves, substitute
from .scalars import has_loads


def hoisted(body: Sequence[Stmt], v: Expr, start: Expr, stop: Expr, step: Expr, known: Known) -> tuple[list[Stmt], list[Check]]:
    """The body of the loop over v without the checks that may leave it, and these checks as they stand before the loop; `known` holds outside."""
    if not step.is_const or abs(step.attr) != 1:
        return list(body), []
    first, last = (start, stop + -1) if step.attr == 1 else (stop + 1, start)
    inner = {s.name for s in body if isinstance(s, Let)}
    kept: list[Stmt] = []
    outer: list[Check] = []
    for s in body:
        condition = None
        if isinstance(s, Check) and not has_loads(s.condition) and not any(e.attr in inner for e in leaves(s.condition, "var")):
            condition = for_all(s.condition, v, first, last, known)
        if condition is None or not isinstance(s, Check):
            kept.append(s)
        else:
            outer.append(Check(call("bit_or", last.lt(first), condition), s.code, s.span))
    return kept, outer


def for_all(condition: Expr, v: Expr, first: Expr, last: Expr, known: Known) -> Expr | None:
    """What holds exactly when the condition holds for every first <= v <= last (of which there is one); None where this cannot say."""
    parts = disjuncts(condition)
    dependent = [p for p in parts if v in leaves(p, "var")]
    if not dependent:
        return condition
    if len(dependent) > 1:
        return None
    (part,) = dependent
    if part.op not in ("less_than", "less_equal") or part.args[0].dtype is not INDEX:
        return None
    difference = pl.plus(pl.poly(part.args[1]), pl.poly(part.args[0]), -1)
    if pl.degree(difference, v) != 1 or any(a is not v and v in leaves(a, "var") for a in pl.atoms(difference)):
        return None
    rise, _ = pl.coefficient(difference, v)
    least = first if known.nonnegative(rise) else last if known.nonnegative(pl.scaled(rise, -1)) else None
    if least is None:
        return None
    return substitute(condition, {v: least})


def disjuncts(condition: Expr) -> list[Expr]:
    """The operands of a chain of `or`."""
    found: list[Expr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if e.op == "bit_or":
            stack.extend(reversed(e.args))
        else:
            found.append(e)
    return found


def on_sizes_only(check: Check) -> bool:
    """The condition speaks of sizes alone: a precondition of the composite."""
    return not has_loads(check.condition) and not leaves(check.condition, "var")
