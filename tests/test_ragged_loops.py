"""Loops of which data says how often they run, and rows that data chooses in them: values beside NumPy, positions outside are errors before they are read, vectors are as wide as what is added, and threads share the rows."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.text import show

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 3
V4 = "x86-64-v4"
SPARSE = """(composite sparse ((R{i64}[(+ M 1)] J{i64}[Z] V{f32}[Z] X{f32}[K D]) -> (Y{f32}[M D]))
  (dotimes (i M) (loop (n (aref R i) (aref R (+ i 1))) (dotimes (d D) (incf (aref Y i d) (* (aref V n) (aref X (aref J n) d)))))))"""


def drawn(m: int, z: int, k: int, d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(SEED)
    inner = np.sort(rng.integers(0, z + 1, max(m - 1, 0)))
    rows = np.concatenate([[0], inner, [z]]) if m else np.zeros(1)
    return (
        rows.astype(np.int64),
        rng.integers(0, max(k, 1), z),
        rng.standard_normal(z).astype(np.float32),
        rng.standard_normal((k, d)).astype(np.float32),
    )


@needs_cc
@pytest.mark.parametrize("sizes", [(0, 0, 3, 4), (5, 0, 3, 4), (4, 9, 3, 0), (1, 1, 1, 1), (7, 40, 5, 3), (300, 6000, 50, 33), (100, 3000, 20, 64)])
def test_values(sizes: tuple[int, int, int, int]) -> None:
    rows, at, v, x = drawn(*sizes)
    expected = np.zeros((sizes[0], sizes[3]))
    for i in range(sizes[0]):
        for n in range(rows[i], rows[i + 1]):
            expected[i] += np.float64(v[n]) * x[at[n]]
    np.testing.assert_allclose(luminal.compile(SPARSE, runtime="clang")(rows, at, v, x), expected, rtol=2e-5, atol=2e-4)


@needs_cc
@pytest.mark.parametrize("far", [-1, 50, 1 << 40, -(1 << 40)])
def test_far_positions_are_not_read(far: int) -> None:
    """A check that stands under an `if` of its own protects what is behind it, in a team of threads too."""
    rows, at, v, x = drawn(2000, 40000, 50, 64)
    at[12345] = far
    with pytest.raises(ValueError, match="out of range"):
        luminal.compile(SPARSE, runtime="clang")(rows, at, v, x)
    at[12345], rows[700] = 0, far if far != 50 else 1 << 50
    with pytest.raises(ValueError, match="out of range"):
        luminal.compile(SPARSE, runtime="clang")(rows, at, v, x)


def test_vectors_and_threads() -> None:
    (found,) = compilations(SPARSE, Settings(runtime="clang", target=V4))
    text = show(found.program)
    assert "vload.16 X[" in text and "vload.8" not in text  # the index of a row is no vector
    few = re.search(r"serial_if D \* M <= (\d+)", text)
    assert few is not None and int(few[1]) < 500 * 64
