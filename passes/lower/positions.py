"""Positions as data in vectors of 32 bits: `j < N` and `cast.f32(i - j)` in as many lanes as the floats beside them have.

A position that varies along a vector is a scalar base, of 64 bits, and lanes beside it that are small: j is `base + ramp`, and so are sums, differences, multiples by
constants, minima and maxima with what is the same in all lanes; and quotients and remainders by a constant.

    base + v < b               →   v < clamp(b - base)                      to the range of v and one beyond: exact whatever the sizes
    cast.f32(base + v)         →   where(base fits, cast.f32(broadcast(cast.i32(base)) + v), cast.f32(base + v))
    min(c, base + v)           →   base' + min(c - base', v)                base' = min(base, c - least v), so that c - base' is no less than any v needs
    (base + v) // d            →   base // d + (base % d + v) // d          the lanes' by a multiplication and a shift
    (Σ s · (base + v)) % d     →   ((Σ s · base) % d + Σ (s % d) · v) % d   whatever s is, where it is the same in all lanes (i · j of one row)

i32 lanes convert to f32 by one instruction where i64 lanes take many (and none of AVX2 does it), and masks come out in the width of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...ir import polynomial as pl
from ...ir.bounds import Known, bounds
from ...ir.dtypes import INDEX, f32, f64, i32
from ...ir.expr import ZERO, Expr, both, broadcast, call, cast, const, maximum, minimum, ramp
from ...ir.walks import postorder
from .affine import difference, divide

MOST = 1 << 30  # of the lanes' values: sums of two still fit in 32 bits
COMPARISONS = ("less_than", "less_equal", "equal", "not_equal")
NARROWED = frozenset({*COMPARISONS, "cast"})  # what may have such a form


class Position(NamedTuple):
    """base + lanes in every lane.  `lanes` are i32, between `low` and `high`; None where they are 0."""

    base: Expr
    lanes: Expr | None
    low: int
    high: int


def narrowed(n: Expr, args: tuple[Expr, ...], axis: Expr, base: Expr, trips: int, varies: Callable[[Expr], bool]) -> Expr | None:
    """The comparison of positions or the cast of one, `n`, along a vector over `axis`, in lanes of 32 bits; None where it has no such form.

    args: its operands, of which one at least is a vector; base: what `axis` is in lane 0, on each of so many trips.
    """
    if n.op not in NARROWED or n.args[0].dtype is not INDEX:
        return None
    count = max(a.dtype.lanes for a in args)
    found = [p for p in (_position(a, axis, base, count, varies) for a in n.args) if p is not None]
    if len(found) < len(n.args):
        return None
    if n.op == "cast":
        return _converted(found[0], call("cast", args[0], to=n.dtype.vector(count)), Known({axis.attr: (0, max(0, trips - 1), 1)}))
    return _compared(n.op, *found)


def _position(root: Expr, axis: Expr, base: Expr, count: int, varies: Callable[[Expr], bool]) -> Position | None:
    """The scalar position `root` along the vector.  None where it has no such form."""
    if not root.is_position:
        return None
    done: dict[Expr, Position | None] = {}
    for n in postorder(root):
        found = Position(n, None, 0, 0) if not varies(n) else _varying(n, done, axis, base, count)
        if found is None and n.op == "mod":
            found = _remainder_of_line(n, axis, base, count, varies)
        done[n] = None if found is None or found.low < -MOST or found.high > MOST else found
    return done[root]


def _varying(n: Expr, done: dict[Expr, Position | None], axis: Expr, base: Expr, count: int) -> Position | None:
    if n is axis:
        return Position(base, call("cast", ramp(count), to=i32.vector(count)), 0, count - 1)
    if n.op not in ("add", "sub", "mul", "min", "max", "mod", "floordiv"):
        return None
    a, b = (done[x] for x in n.args)
    if a is None or b is None:
        return None
    if n.op in ("mod", "floordiv"):
        return _divided(a, n.args[1].attr, n.op) if n.args[1].is_const and n.args[1].attr > 0 else None
    match n.op:
        case "add":
            return _sum(a, b, 1)
        case "sub":
            return _sum(a, b, -1)
        case "mul":
            factor, other = (a, b) if a.lanes is None else (b, a)
            return _times(other, factor.base.attr) if factor.lanes is None and factor.base.is_const else None
        case _:
            bound, other = (a.base, b) if a.lanes is None else (b.base, a)
            return _bounded(other, bound, n.op) if a.lanes is None or b.lanes is None else None


def _times(a: Position, factor: int) -> Position | None:
    if a.lanes is None or not -MOST < factor < MOST:
        return None
    low, high = sorted((a.low * factor, a.high * factor))
    lanes = a.lanes if factor == 1 else call("mul", a.lanes, broadcast(const(factor, i32), a.lanes.dtype.lanes))
    return Position(a.base * factor, lanes, low, high)


def _sum(a: Position, b: Position, sign: int) -> Position:
    """a + sign·b"""
    low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    base = difference(a.base, b.base) if sign < 0 else a.base + b.base
    if b.lanes is None:
        lanes = a.lanes
    elif a.lanes is None:
        lanes = b.lanes if sign > 0 else call("neg", b.lanes)
    else:
        lanes = call("add" if sign > 0 else "sub", a.lanes, b.lanes)
    return Position(base, lanes, a.low + low, a.high + high)


def _bounded(a: Position, bound: Expr, op: str) -> Position:
    """The smaller (or the larger) of a position and what is the same in all lanes."""
    assert a.lanes is not None
    if op == "min":
        base = minimum(a.base, difference(bound, const(a.low)))
        limit = minimum(difference(bound, base), a.high)
    else:
        base = maximum(a.base, difference(bound, const(a.high)))
        limit = maximum(difference(bound, base), a.low)
    return Position(base, call(op, _spread(limit, a.lanes), a.lanes), a.low, a.high)


def _divided(a: Position, divisor: int, op: str) -> Position | None:
    """The quotient or the remainder by a constant."""
    if a.lanes is None or divisor >= MOST // 2:
        return None
    lanes, low, high = a.lanes, a.low, a.high
    if op == "mod" and high - low >= divisor and not lanes.names:  # numbers when this is compiled
        lanes, low, high = call("mod", lanes, broadcast(const(divisor, i32), lanes.dtype.lanes)), 0, divisor - 1
    base = divide(a.base, divisor)
    if base is None:
        rest = call("mod", a.base, const(divisor))
        base, lanes, high = call("floordiv", a.base, const(divisor)), call("add", _spread(rest, lanes), lanes), high + divisor - 1
    whole = low // divisor  # so many fewer, and no lane is below 0
    if whole:
        lanes = call("sub", lanes, broadcast(const(whole * divisor, i32), lanes.dtype.lanes))
    result, most = small(op, lanes, divisor, high - whole * divisor)
    return Position(ZERO, result, 0, most) if op == "mod" else Position(base + whole, result, 0, most)


def _remainder_of_line(n: Expr, axis: Expr, base: Expr, count: int, varies: Callable[[Expr], bool]) -> Position | None:
    """The remainder by a constant of a sum of positions, each times something that is the same in all lanes."""
    line, by = n.args
    if not by.is_const or not 0 < by.attr < MOST:
        return None
    result = Position(ZERO, None, 0, 0)
    factors: dict[Expr | None, Expr] = {}
    for monomial, c in pl.poly(line).items():
        moving = [f for f in monomial if varies(f)]
        if len(moving) > 1:
            return None
        rest = pl.expr({tuple(f for f in monomial if f not in moving): c})
        key = moving[0] if moving else None
        factors[key] = factors.get(key, ZERO) + rest
    for f, factor in factors.items():
        place = Position(factor, None, 0, 0) if f is None else _position(f, axis, base, count, varies)
        if place is None:
            return None
        if place.lanes is not None:
            lanes = call("mul", _spread(call("mod", factor, by), place.lanes), place.lanes)
            place = Position(factor * place.base, lanes, min(0, place.low * (by.attr - 1)), max(0, place.high * (by.attr - 1)))
        result = _sum(result, place, 1)
    return None if max(-result.low, result.high) > MOST // 2 else _divided(result, by.attr, "mod")


def small(op: str, lanes: Expr, divisor: int, most: int) -> tuple[Expr, int]:
    """The quotient or the remainder of lanes from 0 to `most`, and what it is at most."""

    def all_lanes(x: int) -> Expr:
        return broadcast(const(x, i32), lanes.dtype.lanes)

    last = most // divisor if op == "floordiv" else min(most, divisor - 1)
    if most < divisor:
        return (all_lanes(0) if op == "floordiv" else lanes), last
    if most < 2 * divisor:
        below = lanes.lt(all_lanes(divisor))
        one = (all_lanes(0), all_lanes(1)) if op == "floordiv" else (lanes, call("sub", lanes, all_lanes(divisor)))
        return call("where", below, *one), last
    for shift in range(30, 0, -1):
        factor = -(-(1 << shift) // divisor)
        if factor * most < 1 << 31 and (factor * divisor - (1 << shift)) * most < 1 << shift:
            quotient = call("shift_right", call("mul", lanes, all_lanes(factor)), all_lanes(shift))
            return quotient if op == "floordiv" else call("sub", lanes, call("mul", quotient, all_lanes(divisor))), last
    return call(op, lanes, all_lanes(divisor)), last


def _spread(x: Expr, like: Expr) -> Expr:
    return broadcast(cast(i32, x), like.dtype.lanes)


def _compared(op: str, a: Position, b: Position) -> Expr | None:
    """The lanes' comparison, on 32 bits; None where nothing varies."""
    d = _sum(a, b, -1)
    if d.lanes is None:
        return None
    # beyond the range of the lanes all limits mean the same
    limit = minimum(maximum(difference(ZERO, d.base), d.low - 1), d.high + 1)
    return call(op, d.lanes, _spread(limit, d.lanes))


def _converted(a: Position, vector: Expr, known: Known) -> Expr | None:
    """`vector`, a cast of the position to i32, f32 or f64, by way of 32 bits where its base fits; None where nothing varies."""
    if a.lanes is None or vector.dtype.element not in (i32, f32, f64):
        return None
    least, most = -(1 << 31) - a.low, (1 << 31) - 1 - a.high
    low, high, _ = bounds(a.base, known)
    above = None if low is not None and low >= least else const(least).le(a.base)
    below = None if high is not None and high <= most else a.base.le(const(most))
    fits = both(above, below)
    short = call("add", _spread(a.base, a.lanes), a.lanes)
    if vector.dtype.element is not i32:
        short = call("cast", short, to=vector.dtype)
    return short if fits is None else call("where", fits, short, vector)
