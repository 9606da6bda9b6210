"""Exact values with their bounds, and whether an actual result is within them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import LuminalError
from ..record import record
from .meaning import Array


class IndexFault(LuminalError):
    """An index read from a tensor lies outside: what a compiled kernel reports as `program.BAD_INDEX`."""

    exit_status = 3


class CheckFault(LuminalError):
    """A `check` statement failed; `code` is its error code."""

    exit_status = 3

    def __init__(self, code: int) -> None:
        super().__init__(f"the kernel left with error code {code}")
        self.code = code


@record
class Bounded:
    """The exact value of a tensor, in working form (see `meaning`), and how far a right implementation may be from it."""

    value: Array
    bound: Array  # float64, the value's shape and unit; meaningless where `ill`
    ill: Array  # bool: undecided, not judged


@record
class Verdict:
    ok: bool
    max_abs_error: float  # over the judged points; 0.0 where there are none, nan where a NaN stands against a number
    max_bound_ratio: float  # error / bound; inf where the bound is 0 and the error is not
    ill_count: int
    worst: tuple[int, ...]  # the index of the largest ratio


def settled(said: Mapping[str, Bounded], other: Mapping[str, Bounded]) -> dict[str, Bounded]:
    """What is undecided in `said`, as `other` has it: a second opinion of the same tensors."""
    found: dict[str, Bounded] = {}
    for name, a in said.items():
        b = other[name]
        ask = a.ill & ~b.ill
        found[name] = Bounded(np.where(ask, b.value, a.value), np.where(ask, b.bound, a.bound), a.ill & b.ill)
    return found


def judge(actual: Any, expected: Bounded, dtype: DType) -> Verdict:
    """Compare a computed array (in the port's dtype, logical shape) with the exact value: NaN must meet NaN and inf the same inf."""
    got = np.asarray(actual)
    v, bound = expected.value, expected.bound
    if got.shape != v.shape:
        raise ValueError(f"the result has shape {got.shape}, expected {v.shape}")
    ill_count = int(np.count_nonzero(expected.ill))
    if got.size == 0:
        return Verdict(True, 0.0, 0.0, 0, ())
    with np.errstate(all="ignore"):
        if dtype.is_integer:
            wide = np.uint64 if dtype.kind == "uint" else np.int64
            got, v = got.astype(wide), v.astype(wide)
            difference = np.where(got > v, got - v, v - got)
            # a signed difference that wrapped is at least half the range away
            apart = np.where(difference < 0, 2.0**63, difference.astype(np.float64))
        elif dtype.kind == "bool":
            apart = (got.astype(bool) != v).astype(np.float64)
        elif dtype.is_complex:  # each part on its own
            got = got.astype(v.dtype)
            apart = np.maximum(*(_distance(g, w) for g, w in ((np.real(got), np.real(v)), (np.imag(got), np.imag(v)))))
        else:
            got = got.astype(v.dtype)
            apart = _distance(got, v)
        ratio = np.where(apart == 0, 0, apart / bound)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        apart, ratio = np.where(expected.ill, 0, apart), np.where(expected.ill, 0, ratio)
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    largest = float(ratio[worst])
    return Verdict(largest <= 1, float(np.max(apart)), largest, ill_count, tuple(int(k) for k in worst))


def _distance(a: Array, b: Array) -> Array:
    """0 between two NaN and between an infinity and itself."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0, np.abs(a - b)).astype(np.float64)
