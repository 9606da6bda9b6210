"""The reductions and scans of the library against NumPy and SciPy."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from library import Array, Case, check
from scipy import special, stats

CUBE = [{"batch_0": 3, "batch_1": 2, "N": 5}]


def with_nan(values: Array) -> Array:
    result = values.copy()
    result.reshape(-1)[::7] = np.nan
    result[-1] = np.nan
    return result


def with_infinities(values: Array) -> Array:
    """Some infinite elements; a first row of -inf only."""
    result = values.copy()
    result.reshape(-1)[3::11] = -np.inf
    result[0] = -np.inf
    return result


def shifted(values: Array) -> Array:
    """A mean far above the deviations: what a one-pass variance gets wrong."""
    return values + 1e6


def count(x: Array) -> Array:
    return np.bincount(x[(x >= 0) & (x < 10)], minlength=10)


def running(x: Array, weight: float = 0.1) -> Array:
    result = x.copy()
    for j in range(1, x.shape[1]):
        result[:, j] = (1 - weight) * result[:, j - 1] + weight * x[:, j]
    return result


def recurrence(a: Array, x: Array) -> Array:
    result = x.copy()
    for j in range(1, x.shape[1]):
        result[:, j] += a[:, j] * result[:, j - 1]
    return result


ALONG = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "var": np.var, "std": np.std, "max": np.max, "min": np.min, "ptp": np.ptp, "any": np.any, "all": np.all,
    "count_nonzero": np.count_nonzero, "logsumexp": special.logsumexp, "nansum": np.nansum,
    "amax": lambda x, **k: np.abs(x).max(**k), "amin": lambda x, **k: np.abs(x).min(**k), "inf_norm": lambda x, **k: np.abs(x).max(**k),
    "l1_norm": lambda x, **k: np.abs(x).sum(**k), "sum_of_squares": lambda x, **k: np.square(x).sum(**k), "rms": lambda x, **k: np.sqrt(np.square(x).mean(**k)),
    "norm": lambda x, **k: np.sqrt(np.square(x).sum(**k)), "scaled_norm": lambda x, **k: np.sqrt(np.square(x).sum(**k)),
    "p_norm": lambda x, **k: np.cbrt((np.abs(x) ** 3).sum(**k)), "moments": lambda x, **k: (x.mean(**k), x.var(**k)),
}  # fmt: skip
ONE = {"argmax": np.argmax, "argmin": np.argmin}
LAST = {
    "mean_absolute_deviation": lambda x: np.abs(x - x.mean(-1, keepdims=True)).mean(-1), "geometric_mean": lambda x: stats.gmean(x, axis=-1),
    "harmonic_mean": lambda x: stats.hmean(x, axis=-1), "skewness": lambda x: stats.skew(x, axis=-1), "kurtosis": lambda x: stats.kurtosis(x, axis=-1),
    "weighted_mean": lambda x, w: np.average(x, -1, w), "bincount": count, "histogram": lambda x: np.histogram(x, 10, (-3, 3))[0],
    "standardize": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "cumsum": lambda x: np.cumsum(x, -1), "cumprod": lambda x: np.cumprod(x, -1), "cummax": lambda x: np.maximum.accumulate(x, -1),
    "cummin": lambda x: np.minimum.accumulate(x, -1), "logcumsumexp": lambda x: np.logaddexp.accumulate(x, -1), "diff": lambda x: np.diff(x, axis=-1),
    "ema_scan": running, "linear_recurrence": recurrence,
}  # fmt: skip
NANS = {"nanmean": np.nanmean, "nanmax": np.nanmax, "nanmin": np.nanmin, "nansum": np.nansum}
CASES = [
    *(Case(name, lambda x, f=f: f(x, axis=-1)) for name, f in {**ALONG, **ONE}.items()),
    *(
        Case(name, lambda x, f=f: f(x, axis=(0, 2), keepdims=True), {"axis": [0, 2], "keepdims": True}, ranks=2, sizes=CUBE)
        for name, f in ALONG.items()
    ),
    *(Case(name, lambda x, f=f: f(x, axis=1, keepdims=True), {"axis": 1, "keepdims": True}, ranks=2, sizes=CUBE) for name, f in ONE.items()),
    *(Case(name, f) for name, f in LAST.items()),
    *(Case(name, lambda x, f=f: f(x, axis=-1), inputs={"X": with_nan}) for name, f in {**ONE, **NANS, "max": np.max, "min": np.min}.items()),
    *(
        Case(name, lambda x, f=f: f(x, axis=-1), dtype=d)
        for name, f in (("sum", np.sum), ("max", np.max), ("argmin", np.argmin))
        for d in ("i32", "u8")
    ),
    *(Case(name, f.accumulate, sizes=[{"batch": 7, "N": 5}], parameters={"axis": 0}) for name, f in (("cumsum", np.add), ("cummax", np.maximum))),
    Case("var", lambda x: x.var(-1), inputs={"X": shifted}, tolerance=1e-9),
    Case("var", lambda x: x.var(-1, ddof=1), {"correction": 1}),
    Case("std", lambda x: x.std(-1, ddof=1), {"correction": 1}),
    Case("logsumexp", lambda x: np.logaddexp.reduce(x, -1), inputs={"X": with_infinities}),
    Case("logcumsumexp", lambda x: np.logaddexp.accumulate(x, -1), inputs={"X": with_infinities}),
    Case("logcumsumexp", lambda x: np.logaddexp.accumulate(x, -1), inputs={"X": lambda x: 300 * x}),
    Case("scaled_norm", lambda x: 1e300 * np.linalg.norm(x / 1e300, axis=-1), inputs={"X": lambda x: 1e300 * x}),
    Case("scaled_norm", lambda x: np.zeros(x.shape[:-1]), inputs={"X": 0.0}),
    Case("p_norm", lambda x: np.linalg.norm(x, 1.5, -1), {"p": 1.5}),
    Case("histogram", lambda x: np.histogram(x, 4, (-1, 1))[0], {"bins": 4, "low": -1.0, "high": 1.0}, inputs={"X": lambda x: np.round(2 * x) / 2}),
    Case("bincount", lambda x: np.bincount(x[(x >= 0) & (x < 3)], minlength=3), {"bins": 3}),
    Case("sum", lambda x: np.zeros(3), sizes=[{"batch": 3, "N": 0}]),
    Case("max", lambda x: np.full(3, -np.inf), sizes=[{"batch": 3, "N": 0}]),
]


@pytest.mark.filterwarnings("ignore:All-NaN slice|Mean of empty slice")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_reductions_and_scans(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("axis", [0, -1])
def test_a_scaled_norm_of_large_numbers_is_finite(axis: int) -> None:
    """The division by the largest stays inside the sum whatever the passes make of it: the squares of these overflow."""
    norm = luminal.compile("scaled_norm", runtime="reference", sizes={"axis": axis})
    for value in (1e30, 1e-30):
        np.testing.assert_allclose(norm(np.full((4, 4), value, np.float32)), np.full(4, 2 * value), rtol=1e-6)
