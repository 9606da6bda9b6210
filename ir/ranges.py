"""Ranges by name, and the integer bounds and divisors that follow from them term by term."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import ClassVar, Final, Self

from . import polynomial as pl
from .dtypes import INDEX
from .expr import Expr
from .graph import Size
from .intervals import BINARY, Interval, least, most, product
from .polynomial import Poly
from .statement import Structure
from .walks import missing

End = Expr | int | None


class Range(Structure):
    """min <= value <= max (None: unknown) and value % multiple == 0."""

    __match_args__: ClassVar = ("min", "max", "multiple", "exactly")
    __slots__ = __match_args__

    def __init__(self, min: End = None, max: End = None, multiple: int = 1, exactly: Expr | None = None) -> None:
        self.min = min
        self.max = max
        self.multiple = multiple
        self.exactly = exactly  # what the value is where proofs are to use the bounds alone: points have this value

    def compared(self) -> tuple[End, End, int, Expr | None]:
        return (self.min, self.max, self.multiple, self.exactly)


_UNKNOWN: Final = Range()
NO_NAMES: Final[frozenset[str]] = frozenset()


class Ranges:
    """`ranges` by name: a size's or a variable's, "$k" for axis k.  Immutable, but for what it remembers."""

    def __init__(self, ranges: Mapping[str, Range | tuple[End, End, int] | Size]) -> None:
        self.ranges = {n: as_range(r) for n, r in ranges.items()}
        self._wider: Self | None = None  # has the same ranges but for those in `_added`
        self._added = NO_NAMES
        self._forget_ranges()

    def _forget_ranges(self) -> None:
        self._wider = None
        self._order: dict[str, int] = {}
        self._intervals: dict[Expr, Interval] = {}
        self._multiples: dict[Expr, int] = {}
        self._divisible: bool | None = None
        self._ranks: dict[Expr, tuple[int, int, str]] = {}
        self._ends: dict[Expr, tuple[Poly | None, Poly | None]] = {}
        self._limits: dict[Expr, frozenset[Expr]] = {}

    def range(self, e: Expr) -> Range:
        """What is known of an atom by its name alone."""
        return self.ranges.get(pl.name(e), _UNKNOWN)

    def elimination_order(self, a: Expr) -> tuple[int, int, str]:
        """Compound atoms first, then variables with symbolic bounds, inner ones before outer ones."""
        rank = self._ranks.get(a)
        if rank is None:
            r = self.range(a)
            symbolic = isinstance(r.min, Expr) or isinstance(r.max, Expr)
            self._order = self._order or {name: k for k, name in enumerate(self.ranges)}
            inner = -self._order.get(pl.name(a), 0)
            rank = self._ranks[a] = (0, 0, pl.key(a)) if a.args else (1 if symbolic else 2, inner, pl.key(a))
        return rank

    def ends(self, a: Expr) -> tuple[Poly | None, Poly | None]:
        """(min, max) of a leaf as polynomials."""
        found = self._ends.get(a)
        if found is None:
            r = self.range(a)
            found = self._ends[a] = (None if r.min is None else end_of(r.min), None if r.max is None else end_of(r.max))
        return found

    def limits(self, a: Expr) -> frozenset[Expr]:
        """The compound atoms in the ends of a leaf."""
        found = self._limits.get(a)
        if found is None:
            found = self._limits[a] = frozenset([x for end in self.ends(a) if end is not None for m in end for x in m if x.args])
        return found

    @property
    def divisible(self) -> bool:
        """Whether some name is known to be a multiple of a number."""
        if self._divisible is None:
            self._divisible = any(r.multiple > 1 for r in self.ranges.values())
        return self._divisible

    def multiple(self, p: Poly) -> int:
        """A number that divides p (0: p is 0)."""
        result = 0
        for m, c in p.items():
            for a in m:
                c *= self.atom_multiple(a)
            result = gcd(result, c)
            if result == 1:
                break
        return result

    def atom_multiple(self, a: Expr) -> int:
        found = self._multiples.get(a)
        if found is not None:
            return found
        for n in missing(a, self._multiples) if a.args else (a,):
            if n.dtype is INDEX:
                self._multiples[n] = self._atom_multiple(n)
        return self._multiples[a]

    def _atom_multiple(self, a: Expr) -> int:
        if a.op in ("min", "max", "mod"):
            return gcd(*(self.multiple(pl.poly(x)) for x in a.args))
        if a.op == "where":
            return gcd(*(self.multiple(pl.poly(x)) for x in a.args[1:]))
        if a.op == "floordiv" and a.args[1].is_const and a.args[1].attr:
            whole, d = self.multiple(pl.poly(a.args[0])), a.args[1].attr
            return abs(whole // d) if whole % d == 0 else 1
        return self.range(a).multiple

    # ---- intervals of integers

    def interval(self, p: Poly) -> Interval:
        """Integer bounds, term by term."""
        low: int | None = 0
        high: int | None = 0
        known = self._intervals
        for m, c in p.items():
            if not m:
                low, high = None if low is None else low + c, None if high is None else high + c
                continue
            if len(m) == 1:
                a, b = known.get(m[0]) or self.atom_interval(m[0])
            else:
                a, b = product([known.get(x) or self.atom_interval(x) for x in m])
            if c < 0:
                a, b = b, a
            low = None if low is None or a is None else low + a * c
            high = None if high is None or b is None else high + b * c
        return low, high

    def atom_interval(self, a: Expr) -> Interval:
        found = self._intervals.get(a)
        if found is not None:
            return found
        known = self
        while known._wider is not None and known._added.isdisjoint(a.names):
            known = known._wider
        if known is not self:
            found = self._intervals[a] = known.atom_interval(a)
            return found
        intervals = self._intervals
        for n in missing(a, intervals) if a.args else (a,):  # operands first, so that nothing recurs as deep as the expression
            if n.dtype is INDEX and n not in intervals:  # which the bounds of another may have asked for
                intervals[n] = (None, None)  # where the bounds of two names mention each other
                intervals[n] = self._atom_interval(n)
        return intervals[a]

    def _atom_interval(self, a: Expr) -> Interval:
        if not a.args:
            r = self.range(a)
            low = self.interval(pl.poly(r.min))[0] if isinstance(r.min, Expr) else r.min
            high = self.interval(pl.poly(r.max))[1] if isinstance(r.max, Expr) else r.max
            return low, high
        if a.op in ("floordiv", "mod", "min", "max"):
            x, y = (self.interval(pl.poly(arg)) for arg in a.args)
            return BINARY[a.op](x, y)
        if a.op == "where":
            x, y = (self.interval(pl.poly(arg)) for arg in a.args[1:])
            return least(x[0], y[0]), most(x[1], y[1])
        if a.op == "cast" and a.args[0].dtype.kind == "bool":
            return 0, 1
        return None, None


def as_range(r: Range | tuple[End, End, int] | Size) -> Range:
    """As it is kept: ends that are numbers as such."""
    found = r if isinstance(r, Range) else Range(r.min, r.max, r.multiple) if isinstance(r, Size) else Range(r[0], r[1], r[2])
    low: End = found.min
    high: End = found.max
    if isinstance(low, Expr) and low.is_const:
        low = low.attr
    if isinstance(high, Expr) and high.is_const:
        high = high.attr
    return found if low is found.min and high is found.max else Range(low, high, found.multiple, found.exactly)


def end_of(e: Expr | int) -> Poly:
    return pl.poly(e) if isinstance(e, Expr) else pl.constant(e)
