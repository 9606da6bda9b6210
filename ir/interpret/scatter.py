"""Scatter and update: a tensor with some of its elements combined or replaced."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType
from .bounds import Error
from .meaning import UFUNC, Array
from .reduce import Partial, finish, growth, is_whole

Values = tuple[Array, Error]


def _flat(places: list[Array], shape: tuple[int, ...], domain: tuple[int, ...]) -> Array:
    """Row-major positions, one for each point of the domain in row-major order."""
    flat = np.zeros((), np.int64)
    for p, n in zip(places, shape, strict=True):
        flat = flat * n + p
    return np.broadcast_to(flat, domain).reshape(-1)


def store(base: Values, value: Values, places: list[Array], shape: tuple[int, ...], domain: tuple[int, ...]) -> Values:
    """`base` with `value` at `places`; where a place repeats, the later point (row-major) wins."""
    at = _flat(places, shape, domain)
    v = np.array(np.broadcast_to(base[0], shape)).reshape(-1)
    v[at] = np.broadcast_to(value[0], domain).reshape(-1)
    if base[1] is None and value[1] is None:
        return v.reshape(shape), None
    e = np.zeros(v.shape) if base[1] is None else np.array(np.broadcast_to(base[1], shape)).reshape(-1)
    e[at] = 0.0 if value[1] is None else np.broadcast_to(value[1], domain).reshape(-1)
    return v.reshape(shape), e.reshape(shape)


def scatter(
    combiner: str,
    base: Values,
    updates: Values,
    places: list[Array],
    undecided: Array | None,
    shape: tuple[int, ...],
    domain: tuple[int, ...],
    d: DType,
    bounds: bool,
) -> Values:
    """`base` with `updates` combined in at `places`.  Where an index is undecided, any element may have changed."""
    if not bounds:
        base, updates, undecided = (base[0], None), (updates[0], None), None
    if undecided is not None and undecided.any():
        v, _ = scatter(combiner, base, updates, places, None, shape, domain, d, bounds)
        return v, np.full(shape, np.inf)
    if combiner == "set":
        return store(base, updates, places, shape, domain)
    at = _flat(places, shape, domain)
    ufunc = UFUNC[combiner]

    def combined(start: Array, more: Array, by: np.ufunc) -> Array:
        result = np.array(np.broadcast_to(start, shape)).reshape(-1)
        by.at(result, at, np.broadcast_to(more, domain).reshape(-1))
        return result.reshape(shape)

    v = combined(base[0], updates[0], ufunc)
    exact = base[1] is None and updates[1] is None
    if not bounds or (exact and (not d.is_inexact or combiner in ("max", "min"))):
        return v, None
    e0, e1 = (np.zeros(()) if e is None else e for e in (base[1], updates[1]))
    count = combined(np.zeros(()), np.ones(()), np.add)
    if not d.is_inexact:
        touched = combined(e0, e1, np.add)
        return v, touched if combiner == "add" and d.is_integer else np.where(touched > 0, np.inf, 0.0)
    if combiner == "add":
        p = Partial(
            v,
            combined(np.abs(base[0]), np.abs(updates[0]), np.add),
            None if exact else combined(e0, e1, np.add),
            whole=exact and is_whole(base[0]) and is_whole(updates[0]),
        )
    elif combiner == "mul":
        size0, size1 = np.abs(base[0]), np.abs(updates[0])
        grow = growth(d)
        p = Partial(
            v, combined(np.minimum(size0, 1), np.minimum(size1, 1), np.multiply), combined(size0 + e0, (size1 + e1) * grow, np.multiply),
            combined(np.maximum(size0, 1), np.maximum(size1, 1), np.multiply),
        )  # fmt: skip
    else:
        undecided = combined(np.isinf(e0).astype(np.float64), np.isinf(e1).astype(np.float64), np.maximum)
        p = Partial(v, combined(base[0] - e0, updates[0] - e1, ufunc), combined(base[0] + e0, updates[0] + e1, ufunc), undecided)
    v, e = finish(combiner, p, count, d, bounds)
    # an element that nothing is combined into keeps its own error
    return v, e if e is None else np.where(count == 0, e0, e)
