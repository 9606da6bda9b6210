"""Sorting and searching of the library against NumPy: ties keep their order, NaN counts as the largest."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check


def ties(x: Array) -> Array:
    """Few values, so that most have an equal."""
    return np.round(x)


def special(x: Array) -> Array:
    """NaN, infinities and both zeros among few values."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0], x.dtype)
    return values[np.random.default_rng(5).integers(0, len(values), x.shape)]


def order(x: Array, descending: bool = False) -> Array:
    """A stable argsort.  Backwards: that of the reversed row, read from its end."""
    if not descending:
        return np.argsort(x, -1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


def ordered(x: Array, descending: bool = False) -> Array:
    return np.take_along_axis(x, order(x, descending), -1)


def top(x: Array, k: int) -> tuple[Array, Array]:
    i = order(x, descending=True)[..., :k]
    return np.take_along_axis(x, i, -1), i


def pairs(keys: Array, values: Array) -> tuple[Array, Array]:
    return ordered(keys), np.take_along_axis(values, order(keys), -1)


DESCENDING = {"descending": True}
CUBE = [{"batch_0": 2, "batch_1": 3, "N": 13}]
CASES = [
    *(Case("argsort", order, inputs={"X": kind}) for kind in (ties, special)),
    *(Case("argsort", lambda x: order(x, True), DESCENDING, inputs={"X": kind}) for kind in (ties, special)),
    *(Case("sort", lambda x: np.sort(x, -1), inputs={"X": kind}) for kind in (ties, special)),
    *(Case("sort", lambda x: np.sort(x, -1), dtype=d, sizes=[{"batch": 17, "N": 12}, {"batch": 2, "N": 40}]) for d in ("i8", "bool", "f64")),
    Case(
        "sort",
        lambda x: np.sort(x, -1),
        inputs={"X": special},
        sizes=[{"batch": b, "N": n} for b, n in ((16, 13), (33, 29), (1, 300), (2, 200), (5, 90), (9, 40))],
    ),
    Case(
        "sort",
        lambda x: np.sort(x, -1),
        {"block": 32},
        inputs={"X": special},
        sizes=[{"batch": b, "N": n} for b, n in ((17, 170), (1, 1100), (3, 500))],
    ),
    Case("argsort", order, {"longest": 5}, inputs={"X": special}, sizes=[{"batch": 16, "N": 13}, {"batch": 33, "N": 29}]),
    Case("argsort", lambda x: order(x, True), {**DESCENDING, "longest": 5}, inputs={"X": ties}, sizes=[{"batch": 17, "N": 29}]),
    Case("sort", lambda x: np.sort(x, -1), ranks=2, sizes=CUBE),
    Case("sort", lambda x: ordered(x, True), DESCENDING, inputs={"X": special}),
    Case("sort_pairs", pairs, inputs={"K": ties}),
    Case("topk", lambda x: top(x, 5), inputs={"X": special}),
    Case("topk", lambda x: top(x, 3), {"k": 3}, dtype="i32"),
    *(
        Case(
            "searchsorted",
            lambda s, v, side=side: np.searchsorted(s, v, side),
            {"right": side == "right"},
            inputs={"S": lambda s: np.sort(special(s)), "V": special},
        )
        for side in ("left", "right")
    ),
    Case("searchsorted", np.searchsorted, inputs={"S": np.sort}, dtype="i16"),
    Case("median", lambda x: np.median(x, -1)),
    Case("median", lambda x: np.median(x, -1), inputs={"X": lambda x: np.where(np.arange(x.shape[-1]) == 2, np.nan, x)}),
    *(Case("quantile", lambda x, q=q: np.quantile(x, q, -1), {"q": q}) for q in (0.0, 0.3, 1.0)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_sort(case: Case) -> None:
    check(case)
