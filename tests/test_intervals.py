"""Interval arithmetic against brute force: sound always, and exact wherever it claims to be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from luminal.ir.intervals import BINARY, Interval, least, most, product

ENDS = (None, -7, -3, -1, 0, 1, 2, 5)
INTERVALS: list[Interval] = [(a, b) for a, b in itertools.product(ENDS, ENDS) if a is None or b is None or a <= b]
FUNCTIONS = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum, "mul": np.multiply}


def exact(op: str, *operands: Interval) -> Interval:
    """The least and the greatest value over all operands; None for an end that moves on when what is unbounded is searched twice as far."""
    found: list[tuple[int, int]] = []
    for far in (30, 60):
        value = None
        for low, high in operands:
            points = np.arange(-far if low is None else low, (far if high is None else high) + 1)
            value = points if value is None else FUNCTIONS[op](value[:, None], points).ravel()
        assert value is not None
        found.append((int(value.min()), int(value.max())))
    (low, high), (lower, higher) = found
    return low if low == lower else None, high if high == higher else None


@pytest.mark.parametrize("op", ["min", "max", "floordiv"])
def test_exact(op: str) -> None:
    for x, y in itertools.product(INTERVALS, INTERVALS):
        if op == "floordiv" and (y[0] is None or y[0] <= 0):
            assert BINARY[op](x, y) == (None, None), (x, y)
        else:
            assert BINARY[op](x, y) == exact(op, x, y), (op, x, y)


def test_products_are_exact_where_all_ends_are_known_or_nothing_is_negative() -> None:
    for factors in itertools.chain(
        itertools.product(INTERVALS, repeat=1), itertools.product(INTERVALS, repeat=2), itertools.product(INTERVALS[::5], repeat=3)
    ):
        got, want = product(list(factors)), exact("mul", *factors)
        assert got[0] is None or (want[0] is not None and got[0] <= want[0]), (factors, got)
        assert got[1] is None or (want[1] is not None and got[1] >= want[1]), (factors, got)
        if len(factors) == 1 or all(None not in f for f in factors):
            assert got == want, factors
        elif all(low is not None and low >= 0 for low, _ in factors):
            assert got[0] == want[0], factors
            assert got[1] == want[1] or want[1] == 0, factors  # 0 · anything is seen only where both ends are numbers
        assert product([]) == (1, 1)


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        ((3, 5), (8, 8), (0, 5)),
        ((3, 20), (8, 8), (0, 7)),
        ((3, 20), (2, 9), (0, 8)),
        ((-1, 5), (8, 8), (0, 7)),
        ((0, 5), (1, None), (0, 5)),
        ((0, 5), (8, 8), (0, 5)),
        ((1, 5), (8, 8), (0, 5)),
        ((0, None), (1, None), (0, None)),
        ((0, None), (1, 4), (0, 3)),
        ((None, 5), (1, 9), (0, 8)),
        ((None, 5), (1, None), (0, None)),
        ((0, 5), (0, 9), (None, None)),
        ((0, 5), (None, 9), (None, None)),
        ((0, 9), (1, 1), (0, 0)),
    ],
)
def test_modulus(x: Interval, y: Interval, wanted: Interval) -> None:
    assert BINARY["mod"](x, y) == wanted
    if None not in wanted:
        low, high = exact("mod", x, y)
        assert low is not None and high is not None and wanted[0] is not None and wanted[1] is not None
        assert wanted[0] <= low and high <= wanted[1]


def test_modulus_is_sound() -> None:
    for x, y in itertools.product(INTERVALS, INTERVALS):
        low, high = BINARY["mod"](x, y)
        if y[0] is not None and y[0] > 0:
            want = exact("mod", x, y)
            assert low == 0 and (high is None or (want[1] is not None and high >= want[1])), (x, y)


def test_ends() -> None:
    for a, b in itertools.product(ENDS, ENDS):
        known = a is not None and b is not None
        assert least(a, b) == (min(a, b) if known else None)
        assert most(a, b) == (max(a, b) if known else None)


def test_an_empty_range_divides_too() -> None:
    """What contradicts itself may end where it divides by 0."""
    assert BINARY["floordiv"]((2, 9), (1, 0)) == (0, 9)
