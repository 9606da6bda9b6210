"""Arithmetic of integer intervals.  An end of None is unknown, or infinite."""

from __future__ import annotations

from typing import Final

Interval = tuple[int | None, int | None]


def least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def product(factors: list[Interval]) -> Interval:
    if len(factors) == 1:
        return factors[0]  # one end may be known without the other
    low: int | None = 1
    high: int | None = 1
    for a, b in factors:
        if low is not None and a is not None and low >= 0 and a >= 0:  # the most of them
            low, high = low * a, None if high is None or b is None else high * b
        elif low is not None and high is not None and a is not None and b is not None:
            ends = (low * a, low * b, high * a, high * b)
            low, high = min(ends), max(ends)
        else:
            return None, None
    return low, high


def _floordiv(x: Interval, y: Interval) -> Interval:
    if y[0] is None or y[0] <= 0:
        return None, None
    near, far = y[0], y[1] or None  # 0 is the end of an empty range alone
    low = None if x[0] is None else x[0] // near if x[0] < 0 else 0 if far is None else x[0] // far
    high = None if x[1] is None else x[1] // near if x[1] >= 0 else -1 if far is None else x[1] // far
    return low, high


def _mod(x: Interval, y: Interval) -> Interval:
    if y[0] is None or y[0] <= 0:
        return None, None
    most = None if y[1] is None else y[1] - 1
    if x[0] is not None and x[0] >= 0 and x[1] is not None:
        most = x[1] if most is None else min(most, x[1])
    return 0, most


def _min(x: Interval, y: Interval) -> Interval:
    high = [v for v in (x[1], y[1]) if v is not None]
    return least(x[0], y[0]), min(high, default=None)


def _max(x: Interval, y: Interval) -> Interval:
    low = [v for v in (x[0], y[0]) if v is not None]
    return max(low, default=None), most(x[1], y[1])


BINARY: Final = {"floordiv": _floordiv, "mod": _mod, "min": _min, "max": _max}
