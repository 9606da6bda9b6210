"""Points that satisfy all that is known: what fails at one of them has no proof, and need not be searched for.

A `Point` gives a value to every name.  `Known` keeps a few (sizes small, large, rising, falling, round; variables at either end of their
ranges, between, and at one end and the other in turn) and carries them along as it learns: a new name gets a value from its range, a point that a new fact rules out is dropped.  Where none is left, as under a
condition on the sizes, all are chosen anew within what is known by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from .dtypes import INDEX, bool_
from .evaluate import evaluate_node
from .expr import SOMEWHERE, Expr
from .polynomial import Poly, name
from .walks import missing

LOW: Final = 0  # which end of its range a variable takes, in halves
MIDDLE: Final = 1
HIGH: Final = 2
TURNS: Final = -1  # one end and the other, in turn: an inner loop at its end while one around it is at its beginning
MOST: Final = 1 << 48  # a range that is longer counts as unbounded: its end is no typical value


class Point:
    """Values by name; `memo` remembers those of expressions."""

    __slots__ = ("awaited", "memo", "names", "seed", "slope", "taste")

    def __init__(self, seed: int, slope: int, taste: int, names: dict[str, int] | None = None, memo: dict[Expr, int] | None = None) -> None:
        """What is unbounded takes seed + slope · (how many names were there before it)."""
        self.seed, self.slope, self.taste = seed, slope, taste
        self.names = {} if names is None else names
        self.memo = {} if memo is None else memo
        self.awaited: Collection[str] = ()  # names that get their values when their turn comes

    def copy(self, taste: int | None = None) -> Point:
        return Point(self.seed, self.slope, self.taste if taste is None else taste, dict(self.names), dict(self.memo))

    def choose(self, new: str, low: int | None, high: int | None, multiple: int) -> bool:
        """A value for a name: low <= value <= high, value % multiple == 0.  False where there is none.  What begins beyond the point's own choice is counted from there, or
        all points would choose the beginning."""
        if low is None or high is None or high - low > MOST:
            value = self.seed + self.slope * len(self.names)
            value = value if low is None or value >= low else low + self.seed
            value = value if high is None else min(value, high)
        else:
            taste = self.taste if self.taste != TURNS else HIGH if len(self.names) % 2 else LOW
            value = low + (high - low) * taste // 2
        value -= value % multiple
        if low is not None and value < low:
            value += multiple
        self.names[new] = value
        return (low is None or low <= value) and (high is None or value <= high)

    def admits(self, old: str, low: int | None, high: int | None, multiple: int) -> bool:
        """The value that a name has is within these bounds."""
        value = self.names[old]
        return (low is None or low <= value) and (high is None or value <= high) and value % multiple == 0

    def of(self, e: Expr) -> int | None:
        """The value of an integer expression; None where there is a loaded value in it."""
        memo = self.memo
        found = memo.get(e)
        if found is not None:
            return found
        for n in missing(e, memo) if e.args else (e,):
            if n.dtype is not INDEX and n.dtype is not bool_:
                found = None  # narrower integers wrap
            elif n.args:
                operands: list[Any] = []  # truths stay truths
                for a in n.args:
                    value: Any = memo.get(a)
                    if value is None:
                        break
                    operands.append(value)
                found = evaluate_node(n, operands) if len(operands) == len(n.args) else None
            else:
                found = n.attr if n.is_const else self._named(n)
            if found is not None:
                memo[n] = found
        return found  # the last is the expression itself

    def _named(self, leaf: Expr) -> int | None:
        """The value of a name; one of which nothing is known gets some value when it is first met."""
        if leaf.op == "to_line":
            return SOMEWHERE
        known = name(leaf)
        found = self.names.get(known)
        if found is None and known and known not in self.awaited:
            self.choose(known, None, None, 1)
            found = self.names[known]
        return found

    def move(self, name: str, value: int) -> None:
        """Another value for a name that has one."""
        self.names[name] = value
        self.memo = {e: v for e, v in self.memo.items() if name not in e.names}

    def without(self, names: Collection[str]) -> Point:
        """The point before these names had values."""
        return Point(self.seed, self.slope, self.taste, {n: v for n, v in self.names.items() if n not in names})

    def at(self, p: Poly) -> int | None:
        """The value of a polynomial."""
        total = 0
        memo = self.memo
        for m, c in p.items():
            for a in m:
                value = memo.get(a)
                if value is None:
                    value = self.of(a)
                    if value is None:
                        return None
                c *= value
            total += c
        return total


def points() -> Iterable[Point]:
    """The kinds of points, without names yet."""
    return (
        Point(131003, 3, HIGH),
        Point(0, 0, LOW),
        Point(33, -5, HIGH),
        Point(5003, -210, LOW),
        Point(33, 1 << 12, MIDDLE),
        Point(250, 2003, TURNS),
    )


def alike() -> Iterable[Point]:
    """Points of equal sizes, where one size is a multiple of another, or no less."""
    return Point(4099, 0, LOW), Point(4099, 0, HIGH), Point(67, 0, TURNS), Point(67, 0, HIGH), Point(2, 0, LOW), Point(2, 0, HIGH)


def uneven() -> Iterable[Point]:
    """Points of a long and a short size in turn: many short rows, a few long ones."""
    return Point(1 << 20, 11 - (1 << 20), LOW), Point(1 << 20, 11 - (1 << 20), HIGH), Point(11, 1 << 20, LOW), Point(11, 1 << 20, HIGH)
