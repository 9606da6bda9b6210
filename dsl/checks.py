"""Index checks leave the loops they stand in, where that says the same.

    for v in a .. b:                     check b <= a or f(a) < N          for f rising in v (f(b - 1) where it falls)
      check f(v) < N          →          for v in a .. b:
      …                                    …

Conditions: the step is 1 or -1, f is linear in v, the check depends on no element of a tensor and on no variable that the loop changes, and stands in no branch.

Where nobody knows whether f rises or falls, or it has variables in it, it is asked at both ends.  Integers wrap, so what is beyond the largest one may look small: there positions are compared
as unsigned numbers, which is 0 <= f and f < N in one, and where f changes by more than 1 it is asked whether it changes by less than 2^62 from end to end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import polynomial as pl
from ..ir.bounds import Known
from ..ir.dtypes import INDEX, f64, u64
from ..ir.expr import ZERO, Expr, call, cast, const, make, var
from ..ir.kernel import Alloc, Check, Let, Stmt, written
from ..ir.program import BAD_INDEX
from ..ir.walks import leaves, postorder, substitute
from .scalars import has_loads


def hoisted(body: Sequence[Stmt], v: Expr, start: Expr, stop: Expr, step: Expr, known: Known) -> tuple[list[Stmt], list[Check]]:
    """The body of the loop over v without the checks that may leave it, and these checks as they stand before the loop; `known` holds outside."""
    if not step.is_const or abs(step.attr) != 1:
        return list(body), []
    first, last = (start, stop + -1) if step.attr == 1 else (stop + 1, start)
    changed = written(tuple(body)) | {s.buffer.name for s in body if isinstance(s, Alloc)}
    inner: dict[Expr, Expr] = {}  # what an iteration names -> what that is, as far as it can be said outside
    hidden: set[str] = set()
    kept: list[Stmt] = []
    outer: list[Check] = []
    for s in body:
        asked = None
        if isinstance(s, Let):
            value = substitute(s.value, inner)
            if _reads(value, changed) or not hidden.isdisjoint(value.names):
                hidden.add(s.name)
            else:
                inner[var(s.name, s.value.dtype)] = value
        elif isinstance(s, Check):
            condition = substitute(s.condition, inner)
            if not _reads(condition, changed) and hidden.isdisjoint(condition.names):
                asked = for_all(condition, v, first, last, known, s.code == BAD_INDEX)
        if asked is None or not isinstance(s, Check):
            kept.append(s)
        else:
            outer += [Check(call("bit_or", last.lt(first), condition), s.code, s.span) for condition in asked]
    return kept, outer


def _reads(condition: Expr, changed: set[str]) -> bool:
    """It reads an element, or a variable that the loop changes."""
    return any(e.args or e.attr in changed for e in leaves(condition, "load"))


def for_all(condition: Expr, v: Expr, first: Expr, last: Expr, known: Known, position: bool) -> tuple[Expr, ...] | None:
    """What holds exactly when the condition holds for every first <= v <= last (of which there is one); None where this cannot say.  `position`: it says that one is inside its axis."""
    dependent = [p for p in disjuncts(condition) if v in leaves(p, "var")]
    if not dependent:
        return (condition,)
    if len(dependent) > 1:
        return None
    (part,) = dependent
    if part.op not in ("less_than", "less_equal"):
        return None
    low, high = (a.args[0] if a.op == "cast" and a.dtype is u64 else a for a in part.args)
    if low.dtype is not INDEX or high.dtype is not INDEX:
        return None
    difference = pl.plus(pl.poly(high), pl.poly(low), -1)
    if pl.degree(difference, v) != 1 or any(a is not v and v in leaves(a, "var") for a in pl.atoms(difference)):
        return None
    rise, _ = pl.coefficient(difference, v)
    least = first if known.nonnegative(rise) else last if known.nonnegative(pl.scaled(rise, -1)) else None
    involved = (first, last, *(a for a in pl.atoms(difference) if a is not v))
    data = v not in part.args and any(e.op == "load" or (e.op == "var" and e.attr not in known.ranges) for e in postorder(*involved))
    if least is not None and low in part.args and not (data and position):
        return (substitute(condition, {v: least}),)
    if not position:
        return None
    bounded = part
    asked: list[Expr] = []
    if v in leaves(low, "var"):  # below an extent, and no less than 0
        if v in leaves(high, "var"):
            return None
        bounded = make(part.op, part.dtype, (cast(u64, low), cast(u64, high)))
        if rise not in (pl.constant(1), pl.constant(-1)):
            way = cast(f64, last) if first is ZERO else call("sub", cast(f64, last), cast(f64, first))
            asked.append((call("abs", cast(f64, pl.expr(rise))) * way).lt(const(2.0**62, f64)))
    asked += [substitute(bounded, {v: end}) for end in (first, last)]
    return tuple(substitute(condition, {part: a}) for a in asked)


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
