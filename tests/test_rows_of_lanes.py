"""Rows of a few elements: in vectors of which the first lanes are there, and, where they are reduced, one in each lane.  Right at sizes around each choice."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read
from luminal.passes.schedule import cost, cost_turned, schedule
from luminal.passes.schedule.rows.rows_of_lanes import few_vectors
from scheduling import same_at

NARROW = Target("clang", "avx2", "avx2", vector_bytes=32, vector_registers=16, l1=32 << 10, l2=1 << 20, cores=2, threads=True)
HEAD = "kernels t v1\nsize A\nsize B\nsize C\n"
LOOPS = "  for i in 0 .. A parallel:\n    for j in 0 .. B parallel:\n"
BIAS = f"{HEAD}in X: f32[A, B, C]\nin S: f32[C]\nout Y: f32[A, B, C]\nkernel t_0(X, S, Y):\n{LOOPS}      for k in 0 .. C parallel:\n        Y[i, j, k] = X[i, j, k] + S[k]\n"
PLACES = BIAS.replace("out Y: f32[A, B, C]", "out Y: f32[B, A, C]").replace("Y[i, j, k] = X[i, j, k] + S[k]", "Y[j, i, k] = X[i, j, k] * S[k]")
LONG = BIAS.replace(" + S[k]", "")
TURNED = BIAS.replace("out Y: f32[A, B, C]", "out Y: f32[A, C, B]").replace("Y[i, j, k] =", "Y[i, k, j] =")
PADDED = f"""{HEAD}in X: f32[A, B, C]
out Y: f32[A, B, C + 3]
kernel t_0(X, Y):
{LOOPS}      Y[i, j, 0] = 1.0:f32
      for k in 1 .. C + 1 parallel:
        Y[i, j, k] = X[i, j, k - 1]
      for l in C + 1 .. C + 3 parallel:
        Y[i, j, l] = 2.0:f32
"""
SUMS = f"""{HEAD}in X: f32[A, B, C]
out Y: f32[A, B]
out Z: f32[A, B]
kernel t_0(X, Y, Z):
{LOOPS}      alloc acc: f32[] register
      acc[] = 0.0:f32
      alloc most: f32[] register
      most[] = -inf:f32
      for p in 0 .. C reduce:
        acc[] add= X[i, j, p]
        most[] max= X[i, j, p]
      Y[i, j] = acc[] * 2.0:f32
      Z[i, j] = most[]
"""
FEW = f"variant C <= {few_vectors(NARROW) * 8}"


def scheduled(text: str, options: Options) -> tuple[Module, Module]:
    before = read(text)
    assert isinstance(before, Module)
    return before, schedule(before, NARROW, options)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (BIAS, FEW),
        (PLACES, FEW),
        (PADDED, FEW),
        (LONG, ""),
        (TURNED, f"variant C <= {cost_turned.SHORT_READ}"),
        (SUMS, f"variant C <= {cost.ROW_OF_LANE_NAN}"),
    ],
    ids=["bias", "places", "padded", "one long row", "turned over", "sums"],
)
def test_rows_of_few_elements(text: str, condition: str) -> None:
    before, after = scheduled(text, Options())
    parts = [line for line in after.kernels[0].schedule if line.startswith("variant C <=")]
    assert parts[:1] == ([condition] if condition else [])
    rng = np.random.default_rng(5)
    for extents in [
        (0, 3, 5),
        (3, 0, 5),
        (2, 3, 0),
        (1, 1, 1),
        (3, 7, 2),
        (2, 9, 6),
        (3, 3, 7),
        (2, 2, 8),
        (1, 2, 9),
        (2, 1, 32),
        (1, 2, 33),
        (1, 2, 64),
        (2, 1, 65),
    ]:
        sizes = dict(zip("ABC", extents, strict=True))
        assert same_at(before, after, sizes, rng) == 0


BESIDE = f"""{HEAD}in X: f32[A, B, 16]
out Y: f32[A, B, 17]
out Z: f32[A, C]
kernel t_0(X, Y, Z):
  for i in 0 .. A parallel:
    for j in 0 .. B parallel:
      for k in 0 .. 16 parallel:
        Y[i, j, k] = X[i, j, k] * 2.0:f32
    for l in 0 .. C parallel:
      Z[i, l] = 1.0:f32
"""


def test_rows_beside_loops_as_long_as_a_vector_are_not_short() -> None:
    """Where the loops of 16 would be left as they are, however short the rows beside them."""
    _, after = scheduled(BESIDE, Options())
    steps = after.kernels[0].schedule
    assert not any(line.startswith("variant") for line in steps) and "vectorize k.1" in steps, steps


def test_a_few_elements_are_turned_over_one_by_one_along_the_longer_axis() -> None:
    before, after = scheduled(TURNED, Options())
    steps = after.kernels[0].schedule
    assert {f"variant C <= {cost_turned.SHORT_READ}", "variant B <= 7"} <= {*steps}  # less than a square
    assert {f"reorder {long}.0 {short} {long}.1" for long, short in ("jk", "kj")} <= {*steps}
    rng = np.random.default_rng(5)
    long = cost_turned.PIECE_TURNED + 1
    for extents in [(2, 3, long), (2, long, 3), (2, 8, 8), (1, 1, 8), (2, 0, 3), (0, 3, 3), (1, 9, 8), (1, 8, 9)]:
        assert same_at(before, after, dict(zip("ABC", extents, strict=True)), rng) == 0


def test_a_few_vectors_are_as_many_bytes_on_any_machine() -> None:
    wide = replace(NARROW, vector_bytes=64)
    assert few_vectors(NARROW) * 32 == few_vectors(wide) * 64


def test_the_order_of_a_row_is_kept() -> None:
    """A row in a lane is added up from its first element to its last: --strict has it too."""
    _, after = scheduled(SUMS, Options(strict=True))
    assert f"variant C <= {cost.ROW_OF_LANE_NAN}" in after.kernels[0].schedule


def test_rows_that_are_known_to_be_long_have_no_copy() -> None:
    _, after = scheduled(BIAS.replace("size C\n", "").replace("C", "100"), Options())
    assert not any(line.startswith("variant") for line in after.kernels[0].schedule)


CHANNELS = (
    f"{HEAD}size D\nin X: f32[A, B, C, D]\nin S: f32[B]\nout Y: f32[A, B, C, D]\nkernel t_0(X, S, Y):\n"
    f"{LOOPS}      for k in 0 .. C parallel:\n        for l in 0 .. D parallel:\n          Y[i, j, k, l] = X[i, j, k, l] + S[j]\n"
)


def test_a_row_that_is_two_axes_is_short_too() -> None:
    before, after = scheduled(CHANNELS, Options())
    assert f"variant C * D <= {few_vectors(NARROW) * 8}" in after.kernels[0].schedule
    rng = np.random.default_rng(5)
    for extents in [(2, 3, 0, 5), (2, 3, 5, 0), (2, 3, 3, 1), (2, 3, 1, 3), (2, 2, 2, 4), (1, 3, 4, 8), (1, 2, 3, 11)]:
        assert same_at(before, after, dict(zip("ABCD", extents, strict=True)), rng) == 0


COLUMNS = f"""{HEAD}in X: f32[A, B, C]
out Y: f32[C]
kernel t_0(X, Y):
  for k in 0 .. C parallel:
    alloc acc: f32[] register
    acc[] = 0.0:f32
    for p in 0 .. A reduce:
      for q in 0 .. B reduce:
        acc[] add= X[p, q, k]
    Y[k] = acc[]
"""
KEPT = (
    COLUMNS.replace("out Y: f32[C]", "out Y: f32[B, C]")
    .replace("      for q in 0 .. B reduce:\n        acc[]", "      acc[]")
    .replace("q, k", "j, k")
    .replace("Y[k]", "Y[j, k]")
)
KEPT = KEPT.replace("  for k", "  for j in 0 .. B parallel:\n  for k").replace("\n    ", "\n      ").replace("\n  for k", "\n    for k")


@pytest.mark.parametrize(("text", "joined"), [(COLUMNS, "collapse p q"), (KEPT, "collapse j k")], ids=["reduced", "kept"])
def test_axes_around_a_column_are_one_where_memory_knows_them_as_one(text: str, joined: str) -> None:
    """A few columns are in registers, four rows of one vector at a time, each with a sum of its own."""
    before, after = scheduled(text, Options())
    script = after.kernels[0].schedule
    script = script[script.index("variant") + 1 :]
    assert script[0] == joined and sum(line.startswith("short") for line in script) == 3 and any(line.endswith("near=1") for line in script)
    assert not any(line.startswith("rfactor") for line in scheduled(text, Options(strict=True))[1].kernels[0].schedule)
    rng = np.random.default_rng(6)
    for extents in [(0, 3, 5), (3, 0, 5), (2, 3, 0), (1, 1, 1), (3, 7, 2), (9, 1, 8), (2, 2, 9), (5, 1, 31), (2, 3, 33)]:
        sizes = dict(zip("ABC", extents, strict=True))
        assert same_at(before, after, sizes, rng) == 0
