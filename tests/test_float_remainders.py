"""The remainder of floats in lanes: the same bits as NumPy's, which goes through fmod, wherever the quotient lies."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import FAMILIES

WORDS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -2.0, 0.5]


def operands(dtype: str, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ordinary ones, all bit patterns, just beside a multiple (where the quotient rounds up to an integer), small integers, and what is special."""
    float_, word = WORDS[dtype]
    rng = np.random.default_rng(20261128)
    a, b = rng.standard_normal((2, n)).astype(float_)
    any_a, any_b = rng.integers(0, np.iinfo(word).max, (2, n), word, endpoint=True).view(float_)
    beside = np.nextafter(rng.integers(1, 2**23, n).astype(float_) * b, np.where(a < 0, -np.inf, np.inf).astype(float_))
    whole = (rng.integers(-(2**24), 2**24, n).astype(float_), rng.integers(-50, 50, n).astype(float_))
    special = np.array(SPECIAL, float_)
    return [(a, b), (any_a, any_b), (beside, b), whole, (np.repeat(special, len(special)), np.tile(special, len(special)))]


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("dtype", WORDS)
def test_same_bits(family: str, dtype: str) -> None:
    f = luminal.compile("mod", dtype={"T": dtype}, config={"CC": FAMILIES[family]})
    for a, b in operands(dtype, 3001):
        with np.errstate(all="ignore"):
            want = np.mod(a, b)
        found = f(a, b)
        same = (found.view(WORDS[dtype][1]) == want.view(WORDS[dtype][1])) | (np.isnan(found) & np.isnan(want))
        assert same.all(), (a[~same][:3], b[~same][:3])


def test_lanes_are_not_libms() -> None:
    source = luminal.compile("mod", target="x86-64-v3").source
    assert "fma_f32x8(-q, b, a)" in source
