"""Loops along which memory is consecutive, and those around them, that are one: images of channels, their statistics, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read
from luminal.passes.schedule import schedule
from scheduling import same_at
from test_strips import WIDE

HEAD = """kernels t v1
size A
size B
size C
size D
"""
NORM = f"""{HEAD}in X: f32[A, B, C, D]
out Y: f32[A, B, C, D]
kernel t_0(X, Y):
  for i in 0 .. A parallel:
    for j in 0 .. B parallel:
      alloc acc: f32[] register
      acc[] = 0.0:f32
      for p in 0 .. C reduce:
        for q in 0 .. D reduce:
          acc[] add= X[i, j, p, q]
      for k in 0 .. C parallel:
        for l in 0 .. D parallel:
          Y[i, j, k, l] = X[i, j, k, l] - acc[]
"""
CHANNELS = f"""{HEAD}in X: f32[A, B, C, D]
in S: f32[B]
out Y: f32[A, B, C, D]
kernel t_0(X, S, Y):
  for i in 0 .. A parallel:
    for j in 0 .. B parallel:
      for k in 0 .. C parallel:
        for l in 0 .. D parallel:
          Y[i, j, k, l] = X[i, j, k, l] * S[j]
"""
SUMS = f"""{HEAD}in X: f32[A, B, C, D]
out Y: f32[B]
kernel t_0(X, Y):
  for j in 0 .. B parallel:
    alloc acc: f32[] register
    acc[] = 0.0:f32
    for p in 0 .. A reduce:
      for q in 0 .. C reduce:
        for r in 0 .. D reduce:
          acc[] add= X[p, j, q, r]
    Y[j] = acc[]
"""
# the sum over all but the second axis, of images that lie in a larger one
WINDOW = SUMS.replace("X: f32[A, B, C, D]", "X: f32[A, B, C, D + 2]")
BIAS = CHANNELS.replace("S: f32[B]", "S: f32[D]").replace("S[j]", "S[l]")
POSITION = CHANNELS.replace("* S[j]", "* cast.f32(l)")
# two tensors one after the other along the first axis: the rows of the second begin further on
ONE_AFTER_ANOTHER = f"""{HEAD}in X: f32[A, B]
in S: f32[C, B]
out Y: f32[A + C, B]
kernel t_0(X, S, Y):
  for k in 0 .. A parallel:
    for l in 0 .. B parallel:
      Y[k, l] = X[k, l]
  for p in A .. A + C parallel:
    for q in 0 .. B parallel:
      Y[p, q] = S[p - A, q]
"""
FORMS = {
    "one after another": ONE_AFTER_ANOTHER,
    "statistics": NORM,
    "channels": CHANNELS,
    "sums": SUMS,
    "window": WINDOW,
    "bias": BIAS,
    "position": POSITION,
}
JOINED = {
    "one after another": {("k", "l"), ("p", "q")},
    "statistics": {("p", "q"), ("k", "l")},
    "channels": {("k", "l")},
    "sums": {("q", "r")},
    "window": set(),
    "bias": set(),
    "position": set(),
}
SIZES = [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (1, 1, 1, 1), (2, 3, 7, 7), (2, 2, 1, 40), (3, 2, 9, 16), (1, 4, 33, 5)]


@pytest.mark.parametrize("name", FORMS)
def test_what_lies_along_one_axis_is_one(name: str) -> None:
    before = read(FORMS[name])
    assert isinstance(before, Module)
    after = schedule(before, WIDE, Options())
    steps = [line.split()[1:] for line in after.kernels[0].schedule if line.startswith("collapse")]
    assert {(a, b) for a, b in steps if {a, b} <= set("klpqr")} == JOINED[name]
    rng = np.random.default_rng(7)
    for extents in SIZES:
        sizes = dict(zip("ABCD", extents, strict=True))
        assert same_at(before, after, sizes, rng) == 0


def test_loops_that_threads_share_stay() -> None:
    """Two loops that were one would leave, of a batch of one image, nothing for a second thread."""
    text = CHANNELS.replace("size A\n", "").replace("  for i in 0 .. A parallel:\n", "").replace("f32[A, ", "f32[").replace("[i, j", "[j")
    before = read(text.replace("    for", "  for").replace("    Y[", "  Y["))
    assert isinstance(before, Module)
    assert not any(line.startswith("collapse k l") for line in schedule(before, WIDE, Options()).kernels[0].schedule)


def test_vectors_run_across_rows() -> None:
    """Rows of 7 have no whole vector; an image of 7 by 7 has six of 8."""
    before = read(CHANNELS.replace("size C\nsize D\n", "").replace("C", "7").replace("D", "7"))
    assert isinstance(before, Module)
    (kernel,) = schedule(before, replace(WIDE, vector_bytes=32), Options()).kernels
    assert any(line == "vectorize k_l.1" for line in kernel.schedule)
