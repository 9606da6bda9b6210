"""Between what floats lie: the ends of the values that an expression can take, whatever it reads.

Any value may also be NaN.  Ends are those of real numbers, widened by `SLACK` of their size wherever something is rounded or is a polynomial; so 0 stays 0: what cannot be negative is not, however it is rounded.
A sketch of what exponentials are made of (`passes/spare_bounds.py`), not an analysis: what has no row here may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .dtypes import bf16, f32, f64
from .expr import Expr
from .instructions import EXP_INSIDE, QUOTIENT, WEIGHT

SLACK = 2.0**-18  # more than the last places of all operators in f32, some of them one after the other


class Range(NamedTuple):
    """Both ends belong to it, infinities too."""

    low: float
    high: float

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def joined(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


ANY = Range(-math.inf, math.inf)


def float_range(e: Expr, known: Callable[[Expr], Range]) -> Range:
    """The range of an expression, of a vector the one of all lanes; `known` says that of names and of what is loaded."""
    done: dict[Expr, Range] = {}
    stack = [e]
    while stack:
        n = stack[-1]
        waiting = [a for a in _values(n) if a not in done] if n not in done else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if n not in done:
            done[n] = _of(n, [done[a] for a in _values(n)], known)
    return done[e]


def _values(n: Expr) -> tuple[Expr, ...]:
    """The operands that a range depends on."""
    if n.op == "where":
        return n.args[1:]
    if n.op == "ins":
        return n.args[:2] if n.attr == QUOTIENT.name else n.args[:1] if n.attr in _INSTRUCTIONS else ()
    return n.args if n.op in _ROWS or n.op == "broadcast" else ()


def _of(n: Expr, ranges: list[Range], known: Callable[[Expr], Range]) -> Range:
    if n.dtype.element not in (f32, f64):
        return ANY
    if n.op == "const":
        return ANY if math.isnan(n.attr) else Range(n.attr, n.attr)
    if n.op == "where":
        return ranges[0].joined(ranges[1])
    if n.op == "broadcast":
        return ranges[0]
    if n.op == "mul" and n.args[0] is n.args[1]:
        low, high = _absolute(ranges[0])
        return _rounded(Range(low * low, high * high), n)
    if n.op == "cast":
        source = n.args[0].dtype.element
        return _rounded(ranges[0], n) if source in (f32, f64) or source is bf16 else ANY
    row = _ROWS.get(_INSTRUCTIONS.get(n.attr, "") if n.op == "ins" else n.op)
    if row is None:
        return known(n)
    found = row(*ranges)
    if n.op == "ins" and n.attr == WEIGHT.name:
        found = found.joined(Range(0.0, 0.0))
    return found if n.op in _EXACT else _rounded(found, n)


def _rounded(r: Range, n: Expr) -> Range:
    """What rounding, or an operator that is off by its last places, may make of it."""
    return Range(_end(r.low, -1, n), _end(r.high, 1, n))


def _end(x: float, outwards: int, n: Expr) -> float:
    """A number that its type cannot tell from 0 may be the least that it can."""
    if x == 0 or math.isinf(x):
        return x
    wide = x + outwards * (abs(x) * SLACK + _TINY[n.dtype.element])
    return outwards * math.inf if outwards * wide > n.dtype.element.max else 0.0 if x * wide < 0 else wide


_TINY = {f32: 2.0**-149, f64: 2.0**-1074}


def _add(a: Range, b: Range) -> Range:
    low, high = a.low + b.low, a.high + b.high
    return ANY if math.isnan(low) or math.isnan(high) else Range(low, high)


def _neg(a: Range) -> Range:
    return Range(-a.high, -a.low)


def _mul(a: Range, b: Range) -> Range:
    """0 times infinity is NaN, which every range has."""
    ends = [0.0 if 0 in (x, y) else x * y for x in a for y in b]
    return Range(min(ends), max(ends))


def _recip(a: Range) -> Range:
    """Of what keeps away from 0."""
    return Range(1 / a.high, 1 / a.low if abs(a.low) > 1e-300 else math.inf) if a.low > 0 else _neg(_recip(_neg(a))) if a.high < 0 else ANY


def _div(a: Range, b: Range) -> Range:
    return _mul(a, _recip(b))


def _absolute(a: Range) -> Range:
    return Range(0.0 if a.low <= 0 <= a.high else min(map(abs, a)), max(map(abs, a)))


def _rising(f: Callable[[float], float], low: float, high: float) -> Callable[[Range], Range]:
    """A function that rises from `low` to `high`, at infinities too."""

    def at(x: float) -> float:
        try:
            return low if x == -math.inf else high if x == math.inf else f(x)
        except OverflowError:
            return high

    return lambda a: Range(at(a.low), at(a.high))


def _wave(a: Range) -> Range:
    return Range(-1.0, 1.0)


_ROWS: Mapping[str, Callable[..., Range]] = {
    "neg": _neg,
    "abs": _absolute,
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "mul": _mul,
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "div": _div,
    "recip": _recip,
    "min": lambda a, b: Range(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b: Range(max(a.low, b.low), max(a.high, b.high)),
    "cast": lambda a: a,
    "sin": _wave,
    "cos": _wave,
    "tanh": _rising(math.tanh, -1.0, 1.0),
    "erf": _rising(math.erf, -1.0, 1.0),
    "atan": _rising(math.atan, -math.pi / 2, math.pi / 2),
    "exp": _rising(lambda x: max(math.exp(x), _TINY[f64]), 0.0, math.inf),
    "exp2": _rising(lambda x: max(2.0**x, _TINY[f64]), 0.0, math.inf),
    "expm1": _rising(math.expm1, -1.0, math.inf),
    "sqrt": lambda a: Range(math.sqrt(max(a.low, 0.0)), math.sqrt(a.high) if a.high > 0 else 0.0),
}
_INSTRUCTIONS = {QUOTIENT.name: "div", WEIGHT.name: "exp", EXP_INSIDE.name: "exp"}
_EXACT = frozenset({"neg", "abs", "min", "max"})
