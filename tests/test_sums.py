"""Sums that memory bounds: one result in pieces, columns in blocks; right, and the same bits for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from math import prod

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Alloc, statements

SEED = 11
pytestmark = [needs_cc, pytest.mark.usefixtures("plain_c")]
TEXT = """
(composite sums ((X{T}[M N]) -> (A{T}[] B{T}[] C{T}[N] D{T}[] E{T}[M]))
  (return (sum X) (max X) (sum X :axis 0) (sum (* X X)) (sum X :axis 1)))
"""
# around one piece, several pieces, one block of columns and its vectors
SHAPES = [(1, 1), (3, 5), (64, 64), (65, 63), (5, 1023), (6, 1024), (7, 1041), (4, 2050), (200, 1500), (1031, 700)]


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
def test_against_numpy(dtype: str) -> None:
    f = luminal.compile(TEXT, dtype={"T": dtype}, runtime="clang")
    for shape in SHAPES:
        rng = np.random.default_rng(SEED)
        x = rng.integers(-4, 5, shape).astype({"f32": np.float32, "f64": np.float64, "i64": np.int64}[dtype])
        expected = (x.sum(), x.max(), x.sum(0), (x * x).sum(), x.sum(1))  # small integers: exact in any order
        for found, wanted in zip(f(x), expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{dtype} {shape}, seed {SEED}")


V3 = "x86-64-v3"
MIDDLE = "(composite middle ((X{T}[A B C D]) -> (Y{T}[A D] Z{T}[A D])) (return (sum X :axis (1 2)) (max X :axis (1 2))))"


def accumulators(sizes: dict[str, int]) -> set[int]:
    """How many elements each array of sums has."""
    (found,) = compilations(MIDDLE, Settings(runtime="clang", target=V3, sizes=sizes))
    return {prod(e.attr for e in s.buffer.shape) for k in found.module.kernels for s in statements(k.body) if isinstance(s, Alloc) and s.buffer.shape}


def test_a_few_columns_are_accumulated_in_registers() -> None:
    """One vector of 8, two or four, the last of them in part: no column is added up by itself."""
    *few, more = sorted(accumulators({}))
    assert few == [8, 16, 32] and more > 32
    assert [accumulators({"D": columns}) for columns in (8, 9, 16, 20, 32)] == [{8}, {16}, {16}, {32}, {32}]
    known = luminal.compile(MIDDLE, config={"MARCH": V3}, sizes={"D": 21})
    f = luminal.compile(MIDDLE, config={"MARCH": V3})
    for columns in (0, 1, 7, 8, 9, 16, 17, 21, 31, 32, 33, 70):
        x = np.random.default_rng(SEED).integers(-4, 5, (3, 5, 9, columns)).astype(np.float32)
        for y, z in (f(x), known(x)) if columns == 21 else (f(x),):
            np.testing.assert_array_equal(y, x.sum((1, 2)), err_msg=f"{columns}, seed {SEED}")
            np.testing.assert_array_equal(z, x.max((1, 2)), err_msg=f"{columns}, seed {SEED}")


CHILD = f"""
import luminal, numpy as np
x = np.random.default_rng({SEED}).standard_normal((2048, 2051)).astype(np.float32)
f = luminal.compile({TEXT!r}, dtype={{"T": "f32"}}, runtime="clang")
print(" ".join(np.asarray(y).tobytes().hex()[:64] for y in f(x)), abs(f(x)[0] - x.astype(float).sum()) < 0.05)
"""


def test_the_same_bits_for_any_number_of_threads() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", CHILD], env={**os.environ, "OMP_NUM_THREADS": str(n)}, capture_output=True, text=True, check=True
        ).stdout
        for n in (1, 2, 3, 8)
    ]
    assert found[0].endswith("True\n")
    assert len(set(found)) == 1, found
