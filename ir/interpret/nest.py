"""Loop nests inside a graph: run by the kernel interpreter, with a bound found by running them again with other roundings.

The graph's rule (`bounds`: each operation adds its error to those of its operands) is no use for loops that carry values on, such as elimination or substitution: it takes every
error for the worst and forgets that two errors come from the same rounding, so its bound multiplies from step to step where the error does not.  Of random matrices of order
17, 64 and 130 in f32 it allows ROUNDED times the error of elimination.  So the nest is run once in working precision, E, and SAMPLES times in stochastic arithmetic
(`perturbed`), on operands that are moved to the edge of their own bounds, up or down.  To first order the deviation of an element is a sum of the roundings, each times
what it is magnified by: the sum that the error of an implementation is too, with roundings at most half as large (`perturbed.EXCESS`).  With s the root mean square of the SAMPLES deviations the bound of an
element is

    WIDTH·s + POOLED·(median of s over the elements that have one) + 8·(ε·|E| + smallest subnormal)

Error / s is then at most half as wide as Student's t with SAMPLES degrees of freedom; beyond WIDTH it is once in 10⁸ elements.  The second term is for elements
whose samples were all lucky, the third for what the last operations do.  Another order of summation has other roundings, but no larger ones on average.

Where a sample disagrees with E about an integer or about being finite, a decision fell within the error, and the element is not judged; nor is anything if a sample
could not be run to its end.  A nest that does not round, on exact operands, is exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..kernel import Nest
from .bounds import Error, largest, smallest
from .judge import CheckFault, IndexFault
from .kernel import KernelTranslator, run_function
from .meaning import Array, working
from .perturbed import Perturbed
from .scalars import storage

SAMPLES = 8
WIDTH = 8
POOLED = 4

Values = tuple[Array, Error]
Run = Callable[[list[Array]], list[Array]]


def run_nest(nest: Nest, operands: list[Values], shapes: list[tuple[int, ...]], sizes: Mapping[str, int], bounds: bool) -> list[Values]:
    """Every result of the nest.  Raises CheckFault, or IndexFault where an index is beyond its axis."""
    dtypes = {b.name: b.dtype for b in (*nest.operands, *nest.results)}
    values = [v for v, _ in operands]
    exact = _runner(nest, KernelTranslator(dict(dtypes), True, False), shapes, sizes)(values)
    if not bounds:
        return [(v, None) for v in exact]
    source = random.Random(0)
    translator = Perturbed(dict(dtypes), source.random)
    run = _runner(nest, translator, shapes, sizes)
    if not translator.rounds and all(e is None for _, e in operands):
        return [(v, None) for v in exact]
    edges = np.random.default_rng(0)
    try:
        samples = [run([v if e is None else _moved(v, e, edges) for v, e in operands]) for _ in range(SAMPLES)]
    except (CheckFault, IndexFault):
        return [(v, np.full(v.shape, np.inf)) for v in exact]
    return [(v, _bound(nest, k, v, [s[k] for s in samples])) for k, v in enumerate(exact)]


def _moved(v: Array, e: Array, edges: np.random.Generator) -> Array:
    if v.dtype.kind not in "fc":
        return v
    directions = [-1.0, 1.0] if v.dtype.kind == "f" else [-1.0, 1.0, -1.0j, 1.0j]
    return v + np.where(np.isfinite(e), e, 0) * edges.choice(directions, v.shape)


def _runner(nest: Nest, translator: KernelTranslator, shapes: list[tuple[int, ...]], sizes: Mapping[str, int]) -> Run:
    """The nest as a function of its operands, translated once."""
    names = [b.name for b in nest.operands] + [b.name for b in nest.results]
    function = translator.function(nest.body, sorted(set(names)), sorted(sizes), {}, "nest")

    def run(operands: list[Array]) -> list[Array]:
        arrays: dict[str, Any] = {b.name: np.array(v, dtype=storage(b.dtype, True)) for b, v in zip(nest.operands, operands, strict=True)}
        for b, shape in zip(nest.results, shapes, strict=True):
            if b.name not in arrays:
                arrays[b.name] = np.zeros(shape, storage(b.dtype, True))
        try:
            run_function(function, arrays, sizes)
        except IndexError as fault:
            raise IndexFault(str(fault)) from fault
        return [arrays[b.name].astype(working(b.dtype)) for b in nest.results]

    return run


def _bound(nest: Nest, k: int, v: Array, samples: list[Array]) -> Error:
    d = nest.results[k].dtype
    if not d.is_inexact:
        same = np.logical_and.reduce([s == v for s in samples])
        return np.where(same, 0.0, np.inf)
    square, agree = np.zeros(v.shape), np.ones(v.shape, bool)
    for s in samples:
        apart = np.where((s == v) | (np.isnan(s) & np.isnan(v)), 0, np.abs(s - v)).astype(np.float64)
        agree &= np.isfinite(apart)
        square += apart * apart / SAMPLES
    spread = np.sqrt(square)
    off = spread[agree & (spread > 0)]
    e = WIDTH * spread + POOLED * (np.median(off) if off.size else 0.0) + 8 * (d.epsilon * np.abs(v) + smallest(d))
    e = np.where(np.isfinite(v), e, 0)
    return np.where(agree & ~(np.isfinite(v) & (np.abs(v) + e > largest(d))), e, np.inf).astype(np.float64)
