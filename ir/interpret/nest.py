"""Loop nests inside a graph: run by the kernel interpreter, with a bound found by running them again with other roundings.

The graph's rule (`bounds`: each operation adds its error to those of its operands) is no use for loops that carry values on, such as elimination or substitution: it takes
every error for the worst and forgets that two errors come from one rounding, so its bound multiplies from step to step where the error does not.  For elimination of random
matrices in f32 it is 10⁶ times the error at order 17, and at order 64 a pivot is within it, so that nothing would be judged.

So the nest is run once in working precision, E, and SAMPLES times in stochastic arithmetic (`perturbed`), on operands moved to the edge of their own bounds, up or down.
To first order the deviation of an element is a sum of the roundings, each times what it is magnified by; so is the error of an implementation, whose roundings are at
most half as large.  With s the root mean square of the deviations the bound of an element is

    WIDTH·s + POOLED·(median of s over the elements that have one) + 8·(ε·|E| + smallest subnormal)

The error of rounding to nearest is 0.2 … 0.4 s (root mean square, of elimination, substitution, Cholesky and inverses in f32, f64 and f16), so error / s is at most 0.4 times
Student's t with SAMPLES degrees of freedom: beyond WIDTH less than once in 10⁷ elements.  The second term is for elements whose samples were all lucky, the third for what
the last operations do.  Another order of summation has other roundings, but no larger ones on average.  At orders 17, 64 and 130 in f32 the largest error of elimination
is 0.19, 0.24 and 0.22 of its bound, of Cholesky 0.09, 0.11 and 0.17.

Not judged is an element for which a decision fell within the error: a sample disagrees with E about an integer or about being finite; all are not where a
sample could not be run to its end.  Neither is one whose bound is larger than itself and all that went in: first order says nothing there, such as of an inverse in 8-bit
floats.  A nest that does not round, on exact operands, is exact.

Samples go up and down alike, so their spread grows with √n, and so does an error whose roundings do (Higham and Mary 2019).  Where n·ε/2 ≥ 1/2 that need not be so: roundings that all
go one way are off by up to n·u / (1 - n·u) (Higham 2002, lemma 3.1), as in a running sum of ones in bf16, which stands still at 256.  Whether they do depends on the values, and one
more run says so: the nest as it is written, every operation rounded to nearest in its dtype, R.  There the bound has DRIFT·|R - E| added to it.  A kernel that rounds less often, to a wider
register, drifts less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dtypes import DType
from ..kernel import Nest
from .bounds import Error, largest, smallest
from .judge import CheckFault, IndexFault
from .kernel import KernelTranslator, run_function
from .meaning import Array, working
from .perturbed import Perturbed, rounds, steady
from .scalars import storage

SAMPLES = 8
WIDTH = 8
POOLED = 4
DRIFT = 2

Values = tuple[Array, Error]
Run = Callable[[list[Array]], list[Array]]


def run_nest(nest: Nest, operands: list[Values], shapes: list[tuple[int, ...]], sizes: Mapping[str, int], bounds: bool) -> list[Values]:
    """Every result of the nest.  Raises CheckFault, or IndexFault where an index is beyond its axis."""
    dtypes = {b.name: b.dtype for b in (*nest.operands, *nest.results)}
    exact = _runner(nest, KernelTranslator(dict(dtypes), True, False), shapes, sizes)([v for v, _ in operands])
    if not bounds or (not rounds(nest.body, dtypes) and all(e is None for _, e in operands)):
        return [(v, None) for v in exact]
    longest = max((n for shape in (*shapes, *(v.shape for v, _ in operands)) for n in shape), default=0)
    random = np.random.default_rng(0)
    together = steady(nest.body, dtypes)
    run = _runner(nest, Perturbed(dict(dtypes), random, SAMPLES if together else 0), shapes, sizes, SAMPLES if together else 0)
    long = any(_is_long(d, longest) for d in dtypes.values())
    try:
        drifted = _runner(nest, KernelTranslator(dict(dtypes), False, False), shapes, sizes, exact=False)([v for v, _ in operands]) if long else exact
        if together:
            samples = run([np.stack([_moved(v, e, random) for _ in range(SAMPLES)], -1) if v.dtype.kind in "fc" else v for v, e in operands])
        else:
            each = [run([_moved(v, e, random) for v, e in operands]) for _ in range(SAMPLES)]
            samples = [np.stack(found, -1) for found in zip(*each, strict=True)]
    except (CheckFault, IndexFault):
        return [(v, np.full(v.shape, np.inf)) for v in exact]
    size = max((float(np.max(np.abs(v), where=np.isfinite(v), initial=0)) for v, _ in operands if v.dtype.kind in "fc"), default=np.inf)
    return [(v, _bound(b.dtype, v, s, r, size)) for b, v, s, r in zip(nest.results, exact, samples, drifted, strict=True)]


def _is_long(d: DType, longest: int) -> bool:
    """Whether as many roundings as the longest axis of any tensor has elements may be beyond first order."""
    return d.is_inexact and longest * d.epsilon >= 1


def _moved(v: Array, e: Error, random: np.random.Generator) -> Array:
    if e is None or v.dtype.kind not in "fc":
        return v
    directions = [-1.0, 1.0] if v.dtype.kind == "f" else [-1.0, 1.0, -1.0j, 1.0j]
    return v + np.where(np.isfinite(e), e, 0) * random.choice(directions, v.shape)


def _runner(
    nest: Nest, translator: KernelTranslator, shapes: list[tuple[int, ...]], sizes: Mapping[str, int], lanes: int = 0, exact: bool = True
) -> Run:
    """The nest as a function of its operands, translated once, of values in working form or (not `exact`) as their dtypes hold them.  With `lanes` floats have one more axis, of that extent."""
    names = {b.name for b in (*nest.operands, *nest.results)}
    function = translator.function(nest.body, sorted(names), sorted(sizes), {}, "nest")

    def run(operands: list[Array]) -> list[Array]:
        arrays: dict[str, Any] = {b.name: np.array(v, dtype=storage(b.dtype, exact)) for b, v in zip(nest.operands, operands, strict=True)}
        for b, shape in zip(nest.results, shapes, strict=True):
            if b.name not in arrays:
                more = (lanes,) if lanes and b.dtype.is_inexact else ()
                arrays[b.name] = np.zeros((*shape, *more), storage(b.dtype, exact))
        try:
            run_function(function, arrays, sizes)
        except IndexError as fault:
            raise IndexFault(str(fault)) from fault
        return [arrays[b.name].astype(working(b.dtype)) for b in nest.results]

    return run


def _bound(d: DType, v: Array, samples: Array, drifted: Array, size: float) -> Error:
    """`samples` along the last axis, `drifted` what rounding each operation gives (`v` itself where that is nothing new), `size` the largest magnitude of the operands.  A result that is no float may be the same for all samples: then it has no such axis."""
    if not d.is_inexact:
        return None if samples.shape == v.shape else np.where((samples == v[..., None]).all(-1), 0.0, np.inf)
    middle = v[..., None]
    apart = np.where((samples == middle) | (np.isnan(samples) & np.isnan(middle)), 0, np.abs(samples - middle)).astype(np.float64)
    spread = np.sqrt(np.mean(apart * apart, -1))
    agree = np.isfinite(spread)
    off = spread[agree & (spread > 0)]
    magnitude = np.abs(v)
    carried = (
        WIDTH * spread + POOLED * (np.median(off) if off.size else 0.0) + DRIFT * np.where(drifted == v, 0, np.abs(drifted - v).astype(np.float64))
    )
    e = carried + 8 * (d.epsilon * magnitude + smallest(d))
    e = np.where(np.isfinite(v), np.nan_to_num(e, nan=np.inf, posinf=np.inf), 0)
    unknown = np.isfinite(v) & ((magnitude + e > largest(d)) | ((carried > magnitude) & (e > size)))
    return np.where(agree & ~unknown, e, np.inf).astype(np.float64)
