"""Sums of products without building their joint domain: matrix products on the axes that each factor really has.

A *factor* is an array of the joint rank with extent 1 on the axes that it does not depend on, and its error.
"""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import DType
from .bounds import Error, epsilon, error, settle, smallest
from .complex_bounds import PRODUCT
from .meaning import Array
from .reduce import Partial, accumulator, is_whole

Factor = tuple[Array, Error]


def multiply(a: Factor, b: Factor, d: DType, bounds: bool, wide: bool) -> Factor:
    """The elementwise product of two factors, rounded as the accumulator is (`wide`: it is what is summed), or to `d` (it is a factor itself)."""
    v = a[0] * b[0]
    if not bounds or (a[1] is None and b[1] is None and not d.is_inexact):
        return v, None
    if d.is_complex:
        return v, error("mul", v, [a[0], b[0]], [a[1], b[1]], d, d)
    if d.is_float and not np.isfinite(v).all():
        e = error("mul", v, [a[0], b[0]], [a[1], b[1]], d, accumulator(d) if wide else d)
        dropped = (_maybe_zero(a) & ~np.isfinite(b[0])) | (_maybe_zero(b) & ~np.isfinite(a[0]))
        # an infinity may be NaN where a sum of products is put together otherwise (moments around a point that moves)
        return v, np.where(dropped | np.isinf(v), np.inf, 0 if e is None else e)
    ea = np.zeros(()) if a[1] is None else a[1]
    eb = np.zeros(()) if b[1] is None else b[1]
    if not d.is_float:
        return v, np.where((ea > 0) | (eb > 0), np.inf, 0.0)
    e = np.abs(a[0]) * eb + np.abs(b[0]) * ea + ea * eb
    e = settle(v, np.where(np.isnan(e), np.inf, e), 0.5, accumulator(d) if wide else d, (ea == 0) & (eb == 0))
    return v, (e if np.any(e) else None)


def sum_of_products(a: Factor, b: Factor, shape: tuple[int, ...], kept: int, d: DType, bounds: bool) -> Partial:
    """Σ a·b over the axes from `kept` on of the joint `shape`."""
    v = _matmul(a[0], b[0], shape, kept)
    if not bounds or (not d.is_inexact and a[1] is None and b[1] is None):
        return Partial(v)
    size_a, size_b = np.abs(a[0]), np.abs(b[0])
    if not d.is_inexact:
        ea, eb = (np.zeros(x.shape) if e is None else np.broadcast_to(e, x.shape) for x, e in (a, b))
        uncertain = _matmul((ea > 0).astype(np.float64), np.ones(size_b.shape), shape, kept) + _matmul(
            np.ones(size_a.shape), (eb > 0).astype(np.float64), shape, kept
        )
        return Partial(v, high=np.where(uncertain > 0, np.inf, 0.0))
    # bounds need no more than float64
    size_a, size_b = size_a.astype(np.float64), size_b.astype(np.float64)
    total = _matmul(size_a, size_b, shape, kept)
    whole = a[1] is None and b[1] is None and is_whole(a[0]) and is_whole(b[0])
    if whole:
        return Partial(v, total, None, whole=True)
    acc = accumulator(d)
    terms = math.prod(shape[kept:])
    own = (PRODUCT if d.is_complex else 0.5) * (epsilon(acc) * total + terms * float(smallest(acc)))
    spread = np.where(np.isfinite(own), own, np.inf)
    for (x, e), other in ((a, size_b if b[1] is None else size_b + b[1]), (b, size_a)):
        if e is not None:
            e = np.broadcast_to(e, x.shape)
            more = _matmul(e, np.where(np.isfinite(other), other, 0), shape, kept)
            spread = spread + np.where(np.isnan(more), np.inf, more)
    if not np.isfinite(total).all():
        # a sum with a term that is NaN without doubt is NaN, whatever the other terms are
        nan = _meets(_certainly_nan(a), ~_maybe_zero(b), shape, kept) | _meets(~_maybe_zero(a), _certainly_nan(b), shape, kept)
        spread = np.where(nan, 0, spread)
    return Partial(v, total, spread)


def _maybe_zero(x: Factor) -> Array:
    """Where a factor may be zero.  A term with such a weight may be left out (masked tiles are), so beside it an infinity or NaN may show or not."""
    return np.abs(x[0]) <= (0 if x[1] is None else x[1])


def _certainly_nan(x: Factor) -> Array:
    return np.isnan(x[0]) & (True if x[1] is None else np.isfinite(x[1]))


def _meets(a: Array, b: Array, shape: tuple[int, ...], kept: int) -> Array:
    """Where the sum has a term for which both hold."""
    return _matmul(a.astype(np.float64), b.astype(np.float64), shape, kept) > 0


def _matmul(a: Array, b: Array, shape: tuple[int, ...], kept: int) -> Array:
    """Σ a·b over axes kept… of arrays with extent 1 or shape[k] on axis k, as one batched matrix product."""
    has_a = [a.shape[k] == n and n > 1 for k, n in enumerate(shape)]
    has_b = [b.shape[k] == n and n > 1 for k, n in enumerate(shape)]
    rest = 1
    for k in range(kept, len(shape)):
        if not has_a[k] and not has_b[k]:
            rest *= shape[k]
    only_a = tuple(k for k in range(kept, len(shape)) if has_a[k] and not has_b[k])
    only_b = tuple(k for k in range(kept, len(shape)) if has_b[k] and not has_a[k])
    a = a.sum(axis=only_a, keepdims=True, dtype=a.dtype) if only_a else a
    b = b.sum(axis=only_b, keepdims=True, dtype=b.dtype) if only_b else b
    batch = [k for k in range(kept) if has_a[k] and has_b[k]]
    rows = [k for k in range(kept) if has_a[k] and not has_b[k]]
    columns = [k for k in range(kept) if has_b[k] and not has_a[k]]
    summed = [k for k in range(kept, len(shape)) if has_a[k] and has_b[k]]

    def arranged(x: Array, first: list[int], second: list[int]) -> Array:
        order = batch + first + second
        others = [k for k in range(len(shape)) if k not in order]
        flat = x.transpose(order + others)
        extents = [math.prod(shape[k] for k in group) for group in (batch, first, second)]
        return flat.reshape(extents)

    result = _product(arranged(a, rows, summed), arranged(b, summed, columns))
    if rest != 1:
        result = result * result.dtype.type(rest)
    order = batch + rows + columns
    result = result.reshape([shape[k] for k in order])
    # back into place, with extent 1 where neither factor has the axis
    back = np.argsort(order, kind="stable") if order else []
    result = result.transpose([int(k) for k in back])
    present = set(order)
    return np.broadcast_to(result.reshape([n if k in present else 1 for k, n in enumerate(shape[:kept])]), shape[:kept])


def _product(a: Array, b: Array) -> Array:
    """Batched matrix product; integers go through float64 where that is exact, longdouble through slices of float64."""
    if a.dtype.kind in "iu":
        depth = a.shape[-1]
        reach = [max(abs(int(x.min())), abs(int(x.max()))) if x.size else 0 for x in (a, b)]
        if reach[0] * reach[1] * depth < 1 << 53:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    if a.dtype == np.longdouble and a.dtype != np.float64 and a.size * b.shape[-1] > _WORTH_SLICING and np.isfinite(a).all() and np.isfinite(b).all():
        return _sliced(a, b)
    return np.matmul(a, b)


_WORTH_SLICING = 1 << 24  # multiplications; NumPy's own longdouble product does some 3·10⁸ a second
_SLICES = 4


def _sliced(a: Array, b: Array) -> Array:
    """A longdouble matrix product by float64 ones that are exact (Ozaki, Ogita, Oishi & Rump 2012).

    Rows of a and columns of b are cut into slices of so many bits that no sum of products of two slices needs more than 53; what is left out is
    below 2^-80 of (largest of the row) · (largest of the column) · depth.
    """
    bits = (53 - max(1, a.shape[-1]).bit_length()) // 2
    rows, columns = _exponents(a, -1), _exponents(b, -2)
    left, right = _slices(a, rows, bits), _slices(b, columns, bits)
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.longdouble)
    # the smallest contributions first
    for level in range(_SLICES - 1, -1, -1):
        for i in range(level + 1):
            total += np.ldexp(np.matmul(left[i], right[level - i]).astype(np.longdouble), -bits * (level + 2))
    return np.ldexp(total, rows + columns)


def _exponents(x: Array, axis: int) -> Array:
    """e with |x| < 2^e along the axis."""
    return np.frexp(np.max(np.abs(x), axis=axis, keepdims=True, initial=0))[1]


def _slices(x: Array, exponents: Array, bits: int) -> list[Array]:
    """Integers of at most `bits` bits in float64: x = 2^e · Σ slice_k · 2^(-bits·(k + 1))."""
    rest = np.ldexp(x, -exponents)
    found: list[Array] = []
    for _ in range(_SLICES):
        rest = np.ldexp(rest, bits)
        whole = np.rint(rest)
        found.append(whole.astype(np.float64))
        rest = rest - whole
    return found
