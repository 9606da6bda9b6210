"""The domains of normalised loops: how many trips a loop has, at most, and what is known inside."""

from __future__ import annotations

from ...ir.bounds import Known
from ...ir.errors import NOWHERE, Span
from ...ir.expr import ZERO, Expr, both
from ...ir.polynomial import atoms, poly
from ...ir.record import record
from ...ir.simplify import assuming, granting, prove_le, simplify
from ...ir.walks import postorder, substitute


class NotTensor(Exception):
    """Why loops are left as they are; the message is what `--why` prints."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        super().__init__(message)
        self.span = span


@record
class Trip:
    """One loop: `var` runs from 0 to `count`, which may mention the variables of loops around it, and be negative where there are none."""

    var: Expr
    count: Expr


def within(known: Known, loops: tuple[Trip, ...]) -> Known:
    """What is known inside loops that run at least once."""
    return assuming(_in_range(known, loops), _below_counts(loops))


def granted(known: Known, loops: tuple[Trip, ...]) -> Known:
    """The same, in which nothing is asked of the trips themselves."""
    return granting(_in_range(known, loops), _below_counts(loops))


def _in_range(known: Known, loops: tuple[Trip, ...]) -> Known:
    return known.with_ranges({t.var.attr: (0, t.count - 1, 1) for t in loops})


def _below_counts(loops: tuple[Trip, ...]) -> Expr | None:
    """What ranges do not say: of a count that is a sum of products they say all."""
    return both(*(t.var.lt(t.count) for t in loops if any(a.args for a in atoms(poly(t.count)))))


def box(t: Trip, extents: dict[Expr, Expr], known: Known) -> Expr:
    """The greatest number of trips over all iterations of the loops around it, whose extents are given: their variables are put to one end.  NotTensor."""
    inside = within(known, tuple(Trip(v, e) for v, e in extents.items()))
    count = simplify(t.count, inside)
    for v in reversed(extents):
        if v not in set(postorder(count)):
            continue
        ends = (substitute(count, {v: extents[v] - 1}), substitute(count, {v: ZERO}))
        most = next((e for e in ends if prove_le(count, e, inside)), None)
        if most is None:
            raise NotTensor("the bounds of a loop are no linear function of those around it")
        count = simplify(most, inside)
    return count
