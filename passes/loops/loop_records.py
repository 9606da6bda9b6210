"""What `loop_events.py` finds in a nest: events, reads, tests, and the definitions that the variables `%k` stand for."""

from __future__ import annotations

from ...ir.dtypes import DType
from ...ir.errors import Span
from ...ir.expr import Expr
from ...ir.polynomial import coefficient, degree, divided, expr as from_poly, plus, poly, times
from ...ir.record import record
from ...ir.simplify import simplify
from .domains import Trip


@record
class Event:
    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    combiner: str
    loops: tuple[Trip, ...]
    guard: Expr | None
    span: Span
    stores: tuple[int, ...]  # the statements behind it, by `id`
    previous: str = ""  # the neighbour whose value it adds to, where it is a recurrence


@record
class Read:
    """A load where it stands; `after` events stand before it."""

    buffer: str
    after: int
    index: tuple[Expr, ...]
    loops: tuple[Trip, ...]
    guard: Expr | None


@record
class Sum:
    """The values of `body` at all points of `loops` (where `guard`, that of the statement, holds), combined.  `around`: the loops that it stands in."""

    combiner: str
    dtype: DType
    loops: tuple[Trip, ...]
    body: Expr
    guard: Expr | None
    around: tuple[Trip, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.body,)


@record
class Scan:
    """`start` combined with the values of `body` at all trips of `loop` before this one; `inclusive`, this one too."""

    combiner: str
    dtype: DType
    loop: Trip
    start: Expr
    body: Expr
    guard: Expr | None
    around: tuple[Trip, ...]
    inclusive: bool

    @property
    def loops(self) -> tuple[Trip, ...]:
        return (self.loop,)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.start, self.body)


@record
class Unknown:
    """A value that cannot be said, and what it depends on."""

    why: str
    span: Span
    parts: tuple[Expr, ...]
    loops: tuple[Trip, ...] = ()
    around: tuple[Trip, ...] = ()
    guard: Expr | None = None


@record
class Test:
    """A run-time check of an index."""

    condition: Expr
    code: int
    loops: tuple[Trip, ...]
    after: int
    check: int  # the statement, by `id`
    span: Span


def stamped(buffer: str, after: int) -> str:
    return f"{buffer}@{after}"


def unstamped(name: str) -> tuple[str, int]:
    buffer, _, after = name.rpartition("@")
    return buffer, int(after)


def in_place_of(product: Expr, place: Expr, t: Expr, e: Expr) -> Expr:
    """e with the product of a number and t replaced, where t stands in it as a multiple of that."""
    p = poly(simplify(e))
    if degree(p, t) != 1:
        return e
    slope, rest = coefficient(p, t)
    share, left = divided(slope, coefficient(poly(product), t)[0])
    return e if left else from_poly(plus(rest, times(share, poly(place))))
