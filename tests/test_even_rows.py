"""Windows along rows that fill tiles of eight positions, and not those that registers allow: which tiles are taken, and right at sizes around each choice."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.ir.text import read
from luminal.passes.schedule import cost, schedule

WIDE = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, cores=2, threads=True)
NARROW = Target("clang", "avx2", "avx2", vector_bytes=32, vector_registers=16, l1=32 << 10, l2=1 << 20, cores=2, threads=True)
WINDOWS = """kernels t v1
size C
size H
size W
size O
in X: f32[C, H + 2, W + 2]
in K: f32[O, C, 3, 3]
out Y: f32[O, H, W]
kernel t_0(X, K, Y):
  for o in 0 .. O parallel:
    for h in 0 .. H parallel:
      for w in 0 .. W parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for c in 0 .. C reduce:
          for r in 0 .. 3 reduce:
            for s in 0 .. 3 reduce:
              acc[] add= X[c, h + r, w + s] * K[o, c, r, s]
        Y[o, h, w] = acc[]
"""

ALONE = (
    WINDOWS.replace("size H\n", "")
    .replace("H + 2, ", "")
    .replace("[O, C, 3, 3]", "[O, C, 3]")
    .replace("O, H, W", "O, W")
    .replace("    for h in 0 .. H parallel:\n", "")
)
ALONE = ALONE.replace("          for r in 0 .. 3 reduce:\n", "").replace("h + r, ", "").replace("r, s]", "s]").replace("o, h, w", "o, w")


def scheduled(target: Target, width: str = "W") -> Module:
    text = WINDOWS if width == "W" else WINDOWS.replace("size W\n", "").replace("W + 2", str(int(width) + 2)).replace("W", width)
    module = read(text)
    assert isinstance(module, Module)
    return schedule(module, target, Options())


def test_the_sizes_decide_how_long_tiles_are() -> None:
    (kernel,) = scheduled(WIDE).kernels
    notes = " ".join(kernel.notes)
    assert f"register tile {cost.EVEN_ROWS}×32" in notes and "register tile 14×32" in notes
    assert any(re.search(r"// 8 \* 3 <.*// 14 \* 5", line) for line in kernel.schedule if line.startswith("variant"))


@pytest.mark.parametrize(
    ("width", "length"), [("8", 8), ("16", 8), ("17", 9), ("20", 10), ("24", 12), ("32", 11), ("14", 14), ("28", 14), ("56", 14), ("13", 13)]
)
def test_known_rows_have_the_fuller_tiles(width: str, length: int) -> None:
    notes = " ".join(scheduled(WIDE, width).kernels[0].notes)
    assert re.findall(r"register tile (\d+)×32", notes) == [str(length)]


def test_tiles_that_are_shorter_anyway_have_no_other() -> None:
    assert f"register tile {cost.EVEN_ROWS}×" not in " ".join(scheduled(NARROW).kernels[0].notes)


@needs_cc
@pytest.mark.parametrize("width", [17, 20, 24, 33])
def test_the_same_results_in_rows_that_are_known(width: int) -> None:
    convolution = luminal.compile("conv2d", padding=1, sizes={"W": width, "R": 3, "S": 3})
    rng = np.random.default_rng(6)
    x, k = rng.standard_normal((1, 5, 6, width)).astype("f4"), rng.standard_normal((40, 5, 3, 3)).astype("f4")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_allclose(convolution(x, k), np.einsum("bchwrs,ocrs->bohw", windows, k), rtol=1e-4, atol=1e-4)


@needs_cc
@pytest.mark.parametrize("width", [1, 7, 8, 9, 14, 16, 17])
def test_the_same_results(width: int) -> None:
    convolution = luminal.compile("conv2d", padding=1)
    rng = np.random.default_rng(5)
    x, k = rng.standard_normal((2, 3, 4, width)).astype("f4"), rng.standard_normal((33, 3, 3, 3)).astype("f4")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_allclose(convolution(x, k), np.einsum("bchwrs,ocrs->bohw", windows, k), rtol=1e-4, atol=1e-4)


def test_blocks_of_several_rows_are_short() -> None:
    """A block's copy has room for whole blocks: two tiles along each of four rows, eight along one row alone."""
    (several,), (one,) = scheduled(WIDE).kernels, schedule(read(ALONE), WIDE, Options()).kernels
    assert "split w 28" in several.schedule
    assert "split w 112" in one.schedule
    assert "split w 112" not in several.schedule
