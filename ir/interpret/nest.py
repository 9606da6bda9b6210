"""Loop nests inside a graph: run by the kernel interpreter, with a bound found by running them again.

A nest has no rule for its error, so it runs twice: E in working precision, and R with every operation rounded to its dtype, on operands that are moved
to the edge of their own bounds.  The bound of an element is

    8·|R - E| + 4·max |R - E| over the tensor + 8·(ε·|E| + smallest subnormal)

The first term is what rounding did to this element, the second what it did elsewhere in the tensor (one element may be lucky), the third what the last
operations may do.  It is an estimate, not a proof: the factors leave room for other orders of summation and for contraction to fma.  Where R and E disagree
about an integer or about being finite, a decision fell within the error and the element is not judged; nor is anything if R could not be run to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernel import Nest
from .bounds import Error, largest, smallest
from .judge import CheckFault, IndexFault
from .kernel import run_block
from .meaning import Array, working
from .scalars import storage

Values = tuple[Array, Error]


def run_nest(nest: Nest, operands: list[Values], shapes: list[tuple[int, ...]], sizes: Mapping[str, int], bounds: bool) -> list[Values]:
    """Every result of the nest.  Raises CheckFault, or IndexFault where an index is beyond its axis."""
    exact = _once(nest, [v for v, _ in operands], shapes, sizes, True)
    if not bounds:
        return [(v, None) for v in exact]
    random = np.random.default_rng(0)
    moved = [v if e is None else _moved(v, e, random) for v, e in operands]
    try:
        rounded: list[Array] | None = _once(nest, moved, shapes, sizes, False)
    except (CheckFault, IndexFault):
        rounded = None
    return [(v, _bound(nest, k, v, None if rounded is None else rounded[k])) for k, v in enumerate(exact)]


def _moved(v: Array, e: Array, random: np.random.Generator) -> Array:
    if v.dtype.kind not in "fc":
        return v
    directions = [-1.0, 1.0] if v.dtype.kind == "f" else [-1.0, 1.0, -1.0j, 1.0j]
    return v + np.where(np.isfinite(e), e, 0) * random.choice(directions, v.shape)


def _once(nest: Nest, operands: list[Array], shapes: list[tuple[int, ...]], sizes: Mapping[str, int], exact: bool) -> list[Array]:
    arrays: dict[str, Any] = {b.name: np.array(v, dtype=storage(b.dtype, exact)) for b, v in zip(nest.operands, operands, strict=True)}
    for b, shape in zip(nest.results, shapes, strict=True):
        if b.name not in arrays:
            arrays[b.name] = np.zeros(shape, storage(b.dtype, exact))
    buffers = {b.name: b for b in (*nest.operands, *nest.results)}
    try:
        run_block(nest.body, arrays, buffers, sizes, exact=exact)
    except IndexError as fault:
        raise IndexFault(str(fault)) from fault
    return [arrays[b.name].astype(working(b.dtype)) for b in nest.results]


def _bound(nest: Nest, k: int, v: Array, r: Array | None) -> Error:
    d = nest.results[k].dtype
    if r is None:
        return np.full(v.shape, np.inf)
    if not d.is_inexact:
        return np.where(r == v, 0.0, np.inf)
    apart = np.where((r == v) | (np.isnan(r) & np.isnan(v)), 0, np.abs(r - v))
    agree = np.isfinite(apart)
    most = np.max(apart, where=agree, initial=0.0)
    e = 8 * apart + 4 * most + 8 * (d.epsilon * np.abs(v) + smallest(d))
    e = np.where(np.isfinite(v), e, 0)
    return np.where(agree & ~(np.isfinite(v) & (np.abs(v) + e > largest(d))), e, np.inf).astype(np.float64)
