"""Reductions and running reductions with their error bounds, in parts that can be merged.

A sum of n terms t with errors e is within  Σe + n·ε·Σ|t|  of the exact one, in whatever order it is taken; ε is the accumulator's: f32 for f16, bf16 and
f8, which round once more at the end.  Where all terms are integers without error and Σ|t| ≤ 1/ε, every order gives the exact sum.
What is added to a sum may be one of its terms, the first as a rule: C += A B, with the sum running in C (`among_terms`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType, f32
from ..graph import View, identity as read_whole, make
from ..record import replace
from .bounds import Error, epsilon, largest, settle, smallest, wrapping
from .meaning import UFUNC, Array

Axes = tuple[int, ...]


class Partial(NamedTuple):
    """What is known of a reduction over a part of its domain.

    float add: `low` is Σ|t|, `high` Σe · float mul: Π min(|t|, 1) and Π (|t| + e)(1 + ε), `extra` Π max(|t|, 1) ·
    float max and min: the results for t - e and t + e, `extra` whether a term is undecided · bool and, or: for every undecided term False, True · integers: `high` the summed or largest error.
    """

    value: Array
    low: Array | None = None
    high: Array | None = None
    extra: Array | None = None
    whole: bool = False  # float add: every term is an integer and exact


def accumulator(d: DType) -> DType:
    """The dtype that a float reduction over `d` is kept in."""
    return f32 if d.bits < 32 else d


def _fold(ufunc: Any, x: Array, axes: Axes) -> Array:
    # NumPy would widen small integers
    return np.asarray(ufunc.reduce(x, axis=axes, dtype=x.dtype))


def _run(ufunc: Any, x: Array, axes: Axes) -> Array:
    return np.asarray(ufunc.accumulate(x, axis=axes[0], dtype=x.dtype))


def is_whole(x: Array) -> bool:
    """Integers, or Gaussian ones."""
    return bool(np.all(np.rint(x) == x))


def growth(d: DType) -> float:
    """By how much a factor of a running product may be off, as a factor: one rounding, for complex numbers that of a product."""
    return 1 + (3 if d.is_complex else 1) * epsilon(accumulator(d))


def partial(combiner: str, x: Array, e: Error, axes: Axes, d: DType, bounds: bool, running: bool = False) -> Partial:
    """Reduce `x` (errors `e`) over `axes`; `running` gives the inclusive running reduction along the one axis instead."""
    fold = _run if running else _fold
    ufunc = UFUNC[combiner]
    value = fold(ufunc, x, axes)
    if not bounds or (e is None and (not d.is_inexact or combiner in ("max", "min"))):
        return Partial(value)
    if e is not None:
        e = np.broadcast_to(e, x.shape)
    if d.kind == "bool":
        assert e is not None
        return Partial(value, fold(ufunc, x & ~(e > 0), axes), fold(ufunc, x | (e > 0), axes))
    if d.is_integer:
        assert e is not None
        if combiner not in ("add", "max", "min"):
            e = np.where(e > 0, np.inf, 0.0)
        return Partial(value, high=fold(np.add if combiner == "add" else np.maximum, e, axes))
    if combiner == "add":
        return Partial(value, fold(np.add, np.abs(x), axes), None if e is None else fold(np.add, e, axes), whole=e is None and is_whole(x))
    if combiner == "mul":
        size = np.abs(x)
        upper = (size if e is None else size + e) * growth(d)
        return Partial(
            value, fold(np.multiply, np.minimum(size, 1), axes), fold(np.multiply, upper, axes), fold(np.multiply, np.maximum(size, 1), axes)
        )
    assert e is not None
    return Partial(value, fold(ufunc, x - e, axes), fold(ufunc, x + e, axes), fold(np.maximum, np.where(np.isinf(e), 1.0, 0.0), axes))


def merge(combiner: str, a: Partial, b: Partial, d: DType) -> Partial:
    """The reduction over both parts."""
    ufunc = UFUNC[combiner]
    value = ufunc(a.value, b.value)
    extreme = d.is_float and combiner in ("max", "min")
    if d.kind == "bool" or extreme:
        joined: Any = ufunc
    elif d.is_integer:
        joined = np.add if combiner == "add" else np.maximum
    else:
        joined = np.multiply if combiner == "mul" else np.add

    def both(x: Array | None, y: Array | None, by: Any, stand_in: bool) -> Array | None:
        if x is None and y is None:
            return None
        x0, y0 = (a.value, b.value) if stand_in else (np.zeros(()), np.zeros(()))
        return by(x0 if x is None else x, y0 if y is None else y)

    # an absent bound of max, min and the logical ones is the value itself, of the others it is 0
    itself = d.kind == "bool" or extreme
    low, high = both(a.low, b.low, joined, itself), both(a.high, b.high, joined, itself)
    return Partial(value, low, high, both(a.extra, b.extra, np.maximum if extreme else joined, False), a.whole and b.whole)


def among_terms(bound: Error, size: Array, count: int, d: DType) -> Error:
    """The bound of x + Σt, where x may have been in every partial sum of the `count` terms; `size`: |x|, and Σ|t| where the bound has not counted it."""
    return (0 if bound is None else bound) + np.where(np.isfinite(size), count * epsilon(accumulator(d)) * size, 0)


def exact_beside(x: Array, d: DType) -> bool:
    """Whether x + Σt is exact in every order if Σt is: small integers."""
    return is_whole(x) and not np.any(np.abs(x) * epsilon(accumulator(d)) > 1)


def of_magnitudes(view: View) -> View:
    """Σ|t|, read as Σt is: of real terms, complex ones as they are."""
    node = view.node
    return view if node.dtype.is_complex else replace(view, node=make("reduce", node.dtype, node.shape, (_magnitude(node.args[0]),), node.attr))


def _magnitude(view: View) -> View:
    """|t|, of products factor by factor: so they stay such."""
    node = view.node
    size = (
        make("mul", node.dtype, node.shape, tuple(map(_magnitude, node.args)))
        if node.op == "mul"
        else make("abs", node.dtype, node.shape, (read_whole(node),))
    )
    return replace(view, node=size, fill=abs(view.fill))


def finish(combiner: str, p: Partial, count: int | Array, d: DType, bounds: bool) -> tuple[Array, Error]:
    """Value and error of a reduction over `count` elements."""
    if not bounds or (p.low is None and p.high is None):
        return p.value, None
    if d.kind == "bool":
        return p.value, np.where(p.low != p.high, np.inf, 0.0)
    if d.is_integer:
        return p.value, None if p.high is None else wrapping(p.value, p.high, d)
    acc = accumulator(d)
    v = p.value
    if combiner == "add":
        assert p.low is not None
        e = count * epsilon(acc) * p.low
        if p.whole:
            e = np.where(p.low * epsilon(acc) <= 1, 0, e)
        if p.high is not None:
            e = e + p.high
        e = np.where(p.low > largest(acc), np.inf, e)
        e = np.where(np.isfinite(v), e, 0 if p.high is None else np.where(np.isfinite(p.high), 0, np.inf))
    elif combiner == "mul":
        assert p.low is not None and p.high is not None and p.extra is not None
        e = p.high - np.abs(v) + np.where(p.low < smallest(acc) / epsilon(acc), count * smallest(acc) * p.extra, 0)
        e = np.where((p.extra > largest(acc)) & np.isfinite(v), np.inf, e)
        e = np.where(np.isfinite(v), e, np.where(np.isfinite(p.high) | np.isnan(v), 0, np.inf))
    else:
        assert p.low is not None and p.high is not None
        e = np.maximum(np.where(p.high == v, 0, p.high - v), np.where(p.low == v, 0, v - p.low))
        e = np.where(np.isnan(v) & np.isnan(p.high) & np.isnan(p.low), 0, e)
        e = np.where(p.extra > 0, np.inf, e) if p.extra is not None else e
    e = np.where(np.isnan(e), np.inf, e)
    if d.is_complex:  # which part is infinite and which NaN depends on the order
        e = np.where(np.isfinite(v), e, np.inf)
    rounds = 0.5 if acc is not d and combiner in ("add", "mul") else 0.0
    e = settle(v, e, rounds, d, e == 0)
    return v, (e if np.any(e) else None)
