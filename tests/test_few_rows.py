"""Rows that are few and long, first positions, rows between axes that are reduced: right at sizes around each choice, and the same bits for any number of threads."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.schedule import cost, schedule
from plain import printed
from scheduling import module, same

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 11
WIDE = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)


def variants(name: str, options: Options) -> list[str]:
    (kernel,) = schedule(module(name), WIDE, options).kernels
    return [line for line in kernel.schedule if line.startswith("variant")]


def test_the_sizes_choose() -> None:
    few = f"M <= 3 & M % 2 != 0 & {2 * cost.LONG} <= "
    short = f"variant N <= {cost.ROW_OF_LANE}"
    one = "variant N == 1"
    far = f"variant {cost.ONCE_ROW // 4} <= N & {cost.FAR_LEAST // 4} <= M * N"
    assert variants("row_sum", Options()) == [one, short, f"variant {few}N", far, "variant"]
    assert variants("row_sum", Options(strict=True)) == [one, short, "variant"]
    assert variants("first_position", Options(strict=True)) == [one, short, f"variant {few}N", far, "variant"]  # the order of minima is free
    short = f"variant K * N <= {cost.ROW_OF_LANE}"
    assert variants("between", Options()) == [
        f"{one} & M == 1",
        one,
        short,
        f"variant {few}K * N",
        f"variant {cost.SIDE_BY_SIDE + 1} <= M & {cost.JUMPS} <= K & ({WIDE.l3 // 4} <= K * M * N | N <= 64 & {cost.stream_bytes(WIDE) // 4} <= K * M * N | N <= 8)",
        "variant",
    ]
    assert variants("column_sum", Options()) == [one, "variant"]


@pytest.mark.parametrize(("cores", "condition"), [(1, ""), (2, "M <= 3 & M % 2 != 0"), (64, "M <= 127 & M % 64 != 0")])
def test_threads_share_a_row_where_they_would_share_rows_unevenly(cores: int, condition: str) -> None:
    (kernel,) = schedule(module("row_sum"), replace(WIDE, cores=cores), Options()).kernels
    found = [line for line in kernel.schedule if line.endswith(f"{2 * cost.LONG} <= N")]
    assert found == ([f"variant {condition} & {2 * cost.LONG} <= N"] if condition else [])


TEXT = """
(composite rows ((X{f32}[M N]) -> (S{f32}[M] A{i64}[M] I{i64}[M]))
  (return (sum X :axis 1) (argmax X :axis 1) (argmin X :axis 1)))
"""
BETWEEN = "(composite between ((X{f32}[A B C D]) -> (S{f32}[B C] G{f32}[B C])) (return (sum X :axis (0 3)) (max X :axis (0 3))))"


@needs_cc
def test_few_long_rows() -> None:
    """Ties, NaN, a position in the last of several pieces; small integers are exact in any order."""
    f = luminal.compile(TEXT, runtime="clang")
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 1), (3, 65), (40, 5000), (2, 131_071), (1, 131_072), (3, 140_001), (5, 132_000)]:
        x = rng.integers(-9, 10, (m, n)).astype(np.float32)
        x[0, n - 1] = 10
        if m > 2:
            x[1, n // 2 :: 3] = np.nan
            x[2] = 4
        s, a, i = f(x)
        np.testing.assert_array_equal(a, x.argmax(1), err_msg=f"{m}×{n}, seed {SEED}")
        np.testing.assert_array_equal(i, x.argmin(1), err_msg=f"{m}×{n}, seed {SEED}")
        np.testing.assert_array_equal(s, x.sum(1), err_msg=f"{m}×{n}, seed {SEED}")


@needs_cc
def test_between_the_axes_that_are_reduced() -> None:
    f = luminal.compile(BETWEEN, runtime="clang")
    rng = np.random.default_rng(SEED)
    for shape in [(9, 1, 1024, 1), (8, 33, 32, 26), (11, 7, 150, 65), (7, 64, 64, 3), (70, 3, 5, 1000), (9, 3, 50, 7), (160, 20, 13, 250)]:
        x = rng.integers(-9, 10, shape).astype(np.float32)
        for found, wanted in zip(f(x), (x.sum((0, 3)), x.max((0, 3))), strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{shape}, seed {SEED}")


CHILD = f"""
import luminal, numpy as np
rng = np.random.default_rng({SEED})
f, g = luminal.compile({TEXT!r}, runtime="clang"), luminal.compile({BETWEEN!r}, runtime="clang")
both = luminal.compile("(composite both ((X{{f32}}[M N]) -> (R{{f32}}[M] C{{f32}}[N] T{{f32}})) (return (sum X :axis 1) (sum X :axis 0) (sum X)))", runtime="clang")
x, z, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 140_001), (9, 40, 30, 65), (1500, 700)))
print(" ".join(np.asarray(y).tobytes().hex() for y in (*f(x), *g(z), *both(w))))
"""


@needs_cc
def test_the_same_bits_for_any_number_of_threads() -> None:
    found = printed(CHILD, (1, 2, 3, 8))
    assert len(found[0]) > 100
    assert len(set(found)) == 1, "the bits depend on the number of threads"


@pytest.mark.parametrize("name", ["first_position", "between"])
def test_small_sizes_mean_the_same(name: str) -> None:
    before = module(name)
    same(before, schedule(before, WIDE, Options()))
