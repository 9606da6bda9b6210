"""How far a right implementation may be from the exact value: the error rule of every operator.

An *error* is None (exactly the value, everywhere) or a float64 array, one bound per element, in the value's own unit.  `inf` means *undecided*:
exact evaluation and one that rounds at every step may part ways there by anything (a comparison within its error, an overflow of an intermediate
result), so the point is counted and not judged.  A bool is either certain (0) or undecided.

For an operator f on operands with errors e_k, the result's error is

    propagated   |∂f/∂x_k| · e_k, where that is right to first order; for a monotone f the larger of |f(x ± e) - f(x)|, which is right to all orders
                 and gives a step (floor of a value on an edge) the height of the step
  + own          ulp · (ε·(|v| + propagated) + smallest subnormal) with the row's `ulp`: it is what was computed that is rounded, and after a step (a floor on an
                 edge) that may be twice as large; nothing where the operands are exact, the row is correctly rounded and v is
                 representable (so small integers in floats stay exact through sums and products, and `floor` of them is certain)

ε is that of the result's dtype at every node, f16, bf16 and f8 included: an implementation may keep more between two nodes, never less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from ..dtypes import DType, f8e4m3, numpy_dtype
from ..primops import OPS
from .meaning import VALUE, Array, compute, from_numpy, working

Error = Array | None
LN2 = math.log(2.0)

_RANGE = {  # largest finite value and smallest subnormal
    "f64": (np.longdouble(1.7976931348623157e308), np.longdouble(5e-324)), "f32": (3.4028234663852886e38, 2.0**-149), "f16": (65504.0, 2.0**-24),
    "bf16": (3.3895313892515355e38, 2.0**-133), "f8e4m3": (448.0, 2.0**-9), "f8e5m2": (57344.0, 2.0**-16),
    "c64": (3.4028234663852886e38, 2.0**-149),
}  # fmt: skip


def largest(d: DType) -> Any:
    """The largest finite value of a float dtype, or of a part of a complex one."""
    return _RANGE[d.name][0]


def overflow(d: DType) -> Any:
    """The least magnitude that rounds beyond the largest finite value: that, and half of its last place."""
    top = largest(d)
    return top + type(top)(d.epsilon) * 2.0 ** (math.frexp(top)[1] - 2)


def smallest(d: DType) -> Any:
    """The smallest subnormal of a float dtype."""
    return _RANGE[d.name][1]


def epsilon(d: DType) -> float:
    """One ULP at 1, with the interpreter's own rounding on top."""
    return d.epsilon + 4 * float(np.finfo(working(d)).eps)


# ---- propagation of the operands' errors, float results


def _monotone(f: Callable[[Array], Array]) -> Callable[..., Array]:
    def rule(v: Array, x: list[Array], e: list[Array]) -> Array:
        return np.maximum(np.abs(f(x[0] + e[0]) - v), np.abs(v - f(x[0] - e[0])))

    return rule


def _extreme(f: Callable[..., Array]) -> Callable[..., Array]:
    def rule(v: Array, x: list[Array], e: list[Array]) -> Array:
        high, low = f(x[0] + e[0], x[1] + e[1]), f(x[0] - e[0], x[1] - e[1])
        return np.maximum(np.where(high == v, 0, high - v), np.where(low == v, 0, v - low))

    return rule


def clear(a: Array, e: Array) -> Array:
    """|a| reduced by its error; 0 where the error reaches zero."""
    return np.maximum(np.abs(a) - e, 0)


def _mul(v: Array, x: list[Array], e: list[Array]) -> Array:
    return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1]


def _recip(v: Array, x: list[Array], e: list[Array]) -> Array:
    return np.abs(v) * e[0] / clear(x[0], e[0])


def _div(v: Array, x: list[Array], e: list[Array]) -> Array:
    return (e[0] + np.abs(v) * e[1]) / clear(x[1], e[1])


def _sqrt(v: Array, x: list[Array], e: list[Array]) -> Array:
    return np.where(e[0] > 0, np.where(x[0] >= e[0], e[0] / np.maximum(v, np.sqrt(e[0])), np.inf), 0)


def _log(scale: float, offset: float) -> Callable[..., Array]:
    def rule(v: Array, x: list[Array], e: list[Array]) -> Array:
        return np.where(x[0] + offset > e[0], e[0] / ((x[0] + offset - e[0]) * scale), np.inf)

    return rule


def _sin(v: Array, x: list[Array], e: list[Array]) -> Array:
    slope = np.sqrt(np.maximum(1 - v * v, 0))
    return np.minimum(slope * e[0] + e[0] * e[0] / 2, 2)


def _tan(v: Array, x: list[Array], e: list[Array]) -> Array:
    """tan(x + e) - tan x = tan e · (1 + v²) / (1 - v·tan e), up to the pole."""
    step = np.tan(np.minimum(e[0], 1.5))
    room = 1 - step * np.abs(v)
    return np.where((room > 0) & (e[0] < 1.5), step * (1 + v * v) / room, np.inf)


def _pow(v: Array, x: list[Array], e: list[Array]) -> Array:
    base = np.abs(x[0])
    near = clear(x[0], e[0])
    from_base = np.where(e[0] > 0, np.abs(x[1]) * e[0] / near, 0)
    from_power = np.where(e[1] > 0, np.maximum(np.abs(np.log(base + e[0])), np.abs(np.log(near))) * e[1], 0)
    # a negative base with an uncertain power may be NaN, or not
    return np.where((x[0] - e[0] <= 0) & (e[1] > 0), np.inf, np.abs(v) * np.expm1(from_base + from_power))


def _mod(v: Array, x: list[Array], e: list[Array]) -> Array:
    q = np.floor_divide(x[0], x[1])
    same = (np.floor_divide(x[0] - e[0], x[1] - e[1]) == q) & (np.floor_divide(x[0] + e[0], x[1] + e[1]) == q)
    same &= (np.floor_divide(x[0] - e[0], x[1] + e[1]) == q) & (np.floor_divide(x[0] + e[0], x[1] - e[1]) == q)
    return _unless_zero(x[1], e[1], np.where(same, e[0] + np.abs(q) * e[1], np.abs(x[1]) + e[1]))


def _floordiv(v: Array, x: list[Array], e: list[Array]) -> Array:
    corners = [np.abs(VALUE["floordiv"](x[0] + s * e[0], x[1] + t * e[1]) - v) for s, t in product((-1, 1), repeat=2)]
    return _unless_zero(x[1], e[1], np.maximum.reduce(corners))


def _floored(v: Array, x: list[Array], to: DType) -> Array:
    """The quotient may be rounded before it is floored, so that it may reach the integer beside it."""
    q = x[0] / x[1]
    near = (epsilon(to) * np.abs(q) + smallest(to)) / 2
    steps = [np.abs(np.floor(q + s * near) - v) for s in (-1, 1)]
    return np.where(np.isfinite(q), np.maximum(*steps), 0.0)


def _unless_zero(divisor: Array, e: Array, result: Array) -> Array:
    return np.where((e > 0) & (np.abs(divisor) <= e), np.inf, result)


def _sum(v: Array, x: list[Array], e: list[Array]) -> Array:
    return e[0] + e[1]


def _same(v: Array, x: list[Array], e: list[Array]) -> Array:
    return e[0]


PROPAGATE: dict[str, Callable[..., Array]] = {
    "add": _sum, "sub": _sum, "mul": _mul, "neg": _same, "abs": _same, "recip": _recip, "div": _div,
    "fma": lambda v, x, e: _mul(v, x, e) + e[2],
    "sqrt": _sqrt,
    "rsqrt": lambda v, x, e: np.abs(v) * e[0] / np.maximum(x[0] - e[0], 0),
    "log2": _log(LN2, 0), "log": _log(1, 0), "log1p": _log(1, 1),
    "exp2": lambda v, x, e: np.abs(v) * np.expm1(e[0] * LN2),
    "exp": lambda v, x, e: np.abs(v) * np.expm1(e[0]),
    "expm1": lambda v, x, e: np.abs(v + 1) * np.expm1(e[0]),
    "sin": _sin, "cos": _sin, "tan": _tan, "pow": _pow, "mod": _mod, "floordiv": _floordiv,
    "max": _extreme(np.maximum), "min": _extreme(np.minimum),
    **{n: _monotone(VALUE[n]) for n in ("sign", "floor", "ceil", "trunc", "round", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf")},
}  # fmt: skip


# ---- results that are not floats


def compared(op: str, x: list[Array], e: list[Array]) -> Array:
    if op in ("isnan", "isinf"):
        return np.where(np.isinf(e[0]), np.inf, 0.0)
    reach = e[0] + e[1]
    if x[0].dtype.kind == "b":
        return np.where(reach > 0, np.inf, 0.0)
    if x[0].dtype.kind in "iu":
        distance = np.abs(x[0].astype(np.float64) - x[1].astype(np.float64))
    else:
        distance = np.where(x[0] == x[1], 0, np.abs(x[0] - x[1]))
    return np.where((reach > 0) & ~(distance > reach), np.inf, 0.0)


def _logical(op: str, x: list[Array], e: list[Array]) -> Array:
    """Three-valued logic: an undecided operand does not matter beside a certain False of `and` or a certain True of `or`."""
    unknown = [k > 0 for k in e]
    undecided = np.logical_or.reduce(np.broadcast_arrays(*unknown))
    if op in ("bit_and", "bit_or", "min", "max"):
        decisive = op in ("bit_or", "max")
        for operand, open_ in zip(x, unknown, strict=True):
            undecided = undecided & ~((operand == decisive) & ~open_)
    return np.where(undecided, np.inf, 0.0)


def wrapping(v: Array, e: Array, to: DType) -> Array:
    """An error of integers: undecided where a value so far away would leave the dtype's range, and wrap to its other end."""
    near = v.astype(np.float64)
    return np.where((e > 0) & ((near + e > float(to.max)) | (near - e < float(to.min))), np.inf, e)


def _integer(op: str, x: list[Array], e: list[Array]) -> Array:
    if op in ("add", "sub"):
        return e[0] + e[1]
    if op in ("neg", "abs"):
        return e[0]
    if op in ("max", "min"):
        return np.maximum(e[0], e[1])
    return np.where(np.logical_or.reduce(np.broadcast_arrays(*[k > 0 for k in e])), np.inf, 0.0)


def selected(x: list[Array], e: list[Array]) -> Array:
    chosen = np.where(x[0], e[1], e[2])
    if not np.any(e[0] > 0):
        return chosen
    if x[1].dtype.kind == "b":
        apart = np.where(x[1] == x[2], 0.0, np.inf)
    elif x[1].dtype.kind in "iu":
        apart = np.abs(x[1].astype(np.float64) - x[2].astype(np.float64))
    else:
        apart = np.where(x[1] == x[2], 0, np.abs(x[1] - x[2]))
    return np.where(e[0] > 0, apart + np.maximum(e[1], e[2]), chosen)


def _cast(v: Array, x: Array, e: Array, source: DType, to: DType) -> Array:
    if to.kind == "bool":
        magnitude = np.abs(x) if source.is_float else np.abs(x.astype(np.float64))
        return np.where((e > 0) & ~(magnitude > e), np.inf, 0.0) if source.kind != "bool" else e
    if source.kind == "bool":
        return np.minimum(e, 1.0)
    if source.is_float and to.is_integer:
        low, high = float(to.min), float(to.max)
        here = np.clip(np.trunc(x), low, high)
        step = np.maximum(np.clip(np.trunc(x + e), low, high) - here, here - np.clip(np.trunc(x - e), low, high))
        return np.where(np.isnan(x) & np.isfinite(e), 0, step)
    if source.is_integer and to.is_integer and to.bits < source.bits:
        return np.where(e > 0, np.inf, 0.0)
    return e


# ---- the whole rule


def error(op: str, v: Array, args: list[Array], errors: list[Error], source: DType, to: DType) -> Error:
    """The error of `v = op(args)` whose operands have these errors.  `source` is the dtype of the first operand."""
    if source.is_complex or to.is_complex:
        from .complex_bounds import error as complex_error

        return complex_error(op, v, args, errors, source, to)
    exact = all(k is None for k in errors)
    row = OPS[op]
    if exact and (not to.is_float or row.ulp == 0):
        return None
    if exact and op == "floordiv":
        return settle(v, _floored(v, args, to), row.ulp, to, None)
    if exact:
        return _vanished(own_rounding(v, row.ulp, to), v, args, np.zeros(()))
    e = [np.zeros(()) if k is None else k for k in errors]
    if op == "where":
        result = selected(args, e)
    elif op == "cast":
        result = _cast(v, args[0], e[0], source, to)
    elif op == "bitcast":
        result = np.where(e[0] > 0, np.inf, 0.0)
    elif row.result == "bool":
        result = compared(op, args, e)
    elif to.kind == "bool":
        result = _logical(op, args, e)
    elif to.is_integer:
        result = wrapping(v, _integer(op, args, e), to)
    else:
        result = PROPAGATE[op](v, args, e)
    result = _as_bound(result)
    if op not in ("where", "bit_and", "bit_or") and source.kind != "bool":
        # what is undecided may be NaN: no rule limits it
        for k in e:
            result = np.where(np.isinf(k), np.inf, result)
    if not to.is_float:
        return result
    if not np.all(np.isfinite(v)):
        result = _at_special(op, v, args, e, result, source, to)
    certain = e[0] == 0
    for k in e[1:]:
        certain = certain & (k == 0)
    return _vanished(settle(v, result, row.ulp, to, certain), v, args, e[0])


def _vanished(found: Error, v: Array, args: list[Array], e: Array) -> Error:
    """What is 0 at an infinity (exp, recip) is 0 exactly, so that sums of it are, and their logarithm -inf."""
    if found is None or len(args) != 1 or not (gone := (v == 0) & np.isinf(args[0]) & (e == 0)).any():
        return found
    return np.where(gone, 0.0, found)


def _as_bound(e: Array) -> Array:
    e = np.asarray(e, np.float64)
    return np.where(np.isnan(e), np.inf, e)


def own_rounding(v: Array, ulp: float, to: DType) -> Error:
    """The error of one correctly working operation on exact operands, None where it is 0 everywhere; undecided where the dtype overflows."""
    if ulp > 0.5:
        return settle(v, np.zeros(np.shape(v)), ulp, to, None)
    fits = v.astype(numpy_dtype(to)) == v
    if np.all(fits | ~np.isfinite(v)) and not unspellable(v, to).any():
        return None
    return settle(v, np.zeros(np.shape(v)), ulp, to, fits)


def settle(v: Array, propagated: Array, ulp: float, to: DType, certain: Array | None) -> Array:
    """Add the operation's own error.  `certain` says where the operands are exact: there a correctly rounded result that fits has none.

    A value that is exactly inf or NaN has no error of its own; a finite one that may round beyond the dtype's range is undecided.
    """
    magnitude = np.abs(v)
    result = propagated
    if ulp:
        own = ulp * (epsilon(to) * (magnitude + propagated) + smallest(to))
        if certain is not None and ulp <= 0.5 and np.any(certain):
            own = np.where(certain & (v.astype(numpy_dtype(to)) == v), 0, own)
        result = propagated + own
    finite = np.isfinite(magnitude)
    if not finite.all():
        result = np.where(finite, result, propagated)
    undecided = finite & (magnitude + (propagated if ulp <= 0.5 else result) >= overflow(to))
    if undecided.any() or to is f8e4m3:
        result = np.where(undecided | unspellable(v, to), np.inf, result)
    return _upward(np.asarray(result))


def _upward(e: Array) -> Array:
    """A bound as float64, not less than it was: half of the smallest f64 would become nothing."""
    near = e.astype(np.float64)
    return near if e.dtype == near.dtype else np.where(near < e, np.nextafter(near, np.inf), near)


def unspellable(v: Array, to: DType) -> Array:
    """Where the value is infinite and the dtype has no infinity: NaN or the largest value may stand for it."""
    return np.isinf(v) if to is f8e4m3 else np.zeros((), bool)


def constant(value: Any, d: DType) -> tuple[Array, Error]:
    """A number of the source; undecided where the dtype has no such."""
    return from_numpy(value, d), np.full((), np.inf) if unspellable(np.asarray(value), d).any() else None


def _at_special(op: str, v: Array, args: list[Array], e: list[Array], result: Array, source: DType, to: DType) -> Array:
    """Where v is inf or NaN: certain if every corner of the box of operands gives the same, else undecided."""
    special = ~np.isfinite(v)
    here = [np.broadcast_to(a, v.shape)[special] for a in args]
    reach = [np.broadcast_to(k, v.shape)[special] for k in e]
    value = v[special]
    certain = np.ones(value.shape, bool)
    for r in reach:
        certain &= np.isfinite(r)
    if op == "where":
        certain &= reach[0] == 0
    elif op not in ("cast", "bitcast"):
        for signs in product((-1, 1), repeat=len(args)):
            corner = compute(op, [a + s * r for a, r, s in zip(here, reach, signs, strict=True)], source, to)
            certain &= (corner == value) | (np.isnan(corner) & np.isnan(value))
        if op == "pow":
            # an uncertain power of a negative base may round to an integer
            certain &= (here[0] - reach[0] > 0) | (reach[1] == 0)
        if op in ("asin", "acos", "atanh"):
            # NaN at both corners, and numbers between them
            certain &= (np.abs(here[0]) - reach[0] > 1) | (reach[0] == 0)
    result = np.broadcast_to(result, v.shape).copy()
    result[special] = np.where(certain, 0, np.inf)
    return result
