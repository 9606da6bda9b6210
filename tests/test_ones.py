"""Axes of one element: where vectors would run along one, another axis is consecutive, and what is known of it reaches the addresses."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Alloc, If, Kernel, Module, statements
from luminal.ir.target import Options
from luminal.ir.text import read
from luminal.passes.schedule import Facts, cost, replay, schedule
from scheduling import same_at
from test_rows_of_lanes import BIAS, COLUMNS, HEAD, KEPT, LONG, LOOPS, NARROW, PADDED, SUMS, TURNED

IMAGES = f"""{HEAD}in X: f32[A, B, C, B]
in S: f32[B]
out Y: f32[A, B, C, B]
kernel t_0(X, S, Y):
{LOOPS}      for k in 0 .. C parallel:
        for l in 0 .. B parallel:
          Y[i, j, k, l] = X[i, j, k, l] + S[j]
"""
CHANNELS = f"""{HEAD}in X: f32[A, B, B, C]
out Y: f32[A, B, C]
kernel t_0(X, Y):
{LOOPS}      for k in 0 .. C parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for p in 0 .. B reduce:
          acc[] add= X[i, p, j, k]
        Y[i, j, k] = acc[]
"""
APART = f"""{HEAD}in X: f32[A, B, A, C]
out Y: f32[A, A]
kernel t_0(X, Y):
{LOOPS.replace("B", "A")}      alloc acc: f32[] register
      acc[] = 0.0:f32
      for p in 0 .. B reduce:
        for q in 0 .. C reduce:
          acc[] add= X[i, p, j, q]
      Y[i, j] = acc[]
"""
INSIDE = f"""{HEAD}in X: f32[A, B, B]
in V: f32[A, B, C]
out Y: f32[A, B, C]
kernel t_0(X, V, Y):
  for i in 0 .. A parallel:
    for j in 0 .. B:
      for k in 0 .. C parallel:
        alloc acc: f32[] register
        acc[] = V[i, j, k]
        for p in 0 .. j reduce:
          acc[] add= X[i, j, p] * Y[i, p, k]
        Y[i, j, k] = acc[]
"""

ONES = {  # the conditions under which there is another schedule, and those after others that go with them
    "bias": (BIAS, ["C == 1"]),
    "turned over": (TURNED, ["B == 1", "C == 1"]),
    "columns": (COLUMNS, ["C == 1"]),
    "kept": (KEPT, ["B == 1 & C == 1"]),
    "one long row": (LONG, []),
    "padded": (PADDED, []),
    "rows": (SUMS, ["C == 1"]),
    "a bias for each image": (IMAGES, ["C == 1 & B == 1"]),
    "sums of two axes": (APART, ["C == 1 & A == 1", "C == 1"]),
    "a kept axis inside of a loop in order": (INSIDE, ["C == 1"]),
    "sums of channels": (CHANNELS, ["B == 1 & C == 1"]),
}


@pytest.mark.parametrize("name", ONES)
def test_axes_of_one_element(name: str) -> None:
    text, conditions = ONES[name]
    before = read(text)
    assert isinstance(before, Module)
    after = schedule(before, NARROW, Options())
    script = after.kernels[0].schedule
    assert [line for line in script if line.endswith(("== 1", "== 1)"))] == [f"variant {c}" for c in conditions]
    again = before.with_kernels((replay(before.kernels[0], Facts.of(before), script),))
    assert [k.body for k in again.kernels] == [k.body for k in after.kernels]
    rng = np.random.default_rng(4)
    for extents in [(3, 7, 1), (3, 1, 7), (1, 1, 1), (0, 3, 1), (3, 0, 1), (70, 3, 1), (1, 1, 0), (40, 1, 40)]:
        sizes = dict(zip("ABC", extents, strict=True))
        assert same_at(before, after, sizes, rng) == 0


SWAPPED = "(composite swapped ((X{f32}[A B C]) -> (Y)) (return (transpose X (0 2 1))))"


def test_what_is_turned_over_around_one_element_is_a_copy() -> None:
    """No element is gathered: addresses are those of the tensor without the axis."""
    (c,) = compilations(SWAPPED, Settings())
    kernel = c.run(stop_after="schedule").kernels[0]
    assert isinstance(kernel, Kernel)
    first = kernel.schedule[: kernel.schedule.index("variant B == 1")]
    assert first[:3] == ("variant C == 1", "decide", "collapse i k") and not any(line.startswith("unroll") for line in first)
    assert "gather" not in c.rendered.source


@needs_cc
@pytest.mark.usefixtures("plain_c")
def test_values_by_a_compiler() -> None:
    f = luminal.compile(SWAPPED)
    rng = np.random.default_rng(8)
    for shape in [(70, 1, 33), (70, 33, 1), (1, 1, 1), (5, 1, 0), (3, 5, 7)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(f(x), x.transpose(0, 2, 1))


def test_what_is_summed_up_over_one_element_is_a_value() -> None:
    """No register is left that would keep vectors from what is around it: all of Y is one long row."""
    before = read(SUMS)
    assert isinstance(before, Module)
    after = schedule(before, NARROW, Options()).kernels[0]
    script = after.schedule
    assert "vectorize i_j.1" in script[script.index("variant C == 1") : script.index(f"variant C <= {cost.ROW_OF_LANE_NAN}")]
    (branch,) = after.body
    assert isinstance(branch, If) and not any(isinstance(s, Alloc) for s in statements(branch.body))
