"""How far results are off: steps between representable numbers, counted from the correctly rounded exact value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ir.dtypes import DType, numpy_dtype
from ...ir.interpret.judge import Bounded

_LAST = 64  # farther ones are counted by powers of two
FAR = 1 << 62  # a NaN or an infinity against a number


def steps(actual: Any, expected: Bounded, dtype: DType) -> np.ndarray:
    """For every point that is judged, the number of representable values from the correctly rounded exact value to the actual one.

    The two zeros are one value; both NaN is 0 and one NaN FAR; infinity is the step after the greatest number.
    """
    judged = ~np.asarray(expected.ill)
    with np.errstate(all="ignore"):
        exact = np.asarray(expected.value).astype(numpy_dtype(dtype))[judged]
        got = np.asarray(actual)[judged]
        nan = np.isnan(exact.astype(np.float64)), np.isnan(got.astype(np.float64))
    apart = np.abs(_place(got) - _place(exact))
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], FAR, apart))


def _place(values: np.ndarray) -> np.ndarray:
    """Where each value stands among all of its type in ascending order; zeros at 0.  float64 is exact but for differences above 2**63, which saturate."""
    width = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"i{width}").astype(np.int64)
    low = -(1 << (8 * width - 1))
    placed = np.where(bits < 0, low - bits, bits)
    return np.clip(placed, -FAR // 2, FAR // 2)


def histogram(distances: np.ndarray) -> dict[int, int]:
    """How many points are how far off; beyond 64 steps only the power of two is kept."""
    found: dict[int, int] = {}
    near = distances[distances <= _LAST]
    for value, count in zip(*np.unique(near, return_counts=True), strict=True):
        found[int(value)] = int(count)
    for value in distances[distances > _LAST]:
        rough = 1 << int(value).bit_length() - 1
        found[rough] = found.get(rough, 0) + 1
    return found


def added(a: Mapping[int, int], b: Mapping[int, int]) -> dict[int, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in sorted({*a, *b})}


def quantile(counts: Mapping[int, int], share: float) -> int:
    """The distance that this share of all points does not exceed."""
    total, seen = sum(counts.values()), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= share * total:
            return value
    return 0
