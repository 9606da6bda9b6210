"""Positions that are quotients of multiples of an axis are worked out once, in a table; pieces of an axis are not."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.passes.tabulate_positions import tabulate_positions

CPU = Target("clang", "small", "small", vector_bytes=32, vector_registers=16, l1=1 << 15, l2=1 << 20, cores=2, threads=True)
NEAREST = """kernels t v1
size B
size W min 1
in X: f32[B, W]
out Y: f32[B, 20]
kernel t_0(X, Y):
  for i in 0 .. B parallel:
    for j in 0 .. 20 parallel:
      Y[i, j] = X[i, POSITION]
"""


def module(position: str, text: str = NEAREST) -> Module:
    found = read(text.replace("POSITION", position))
    assert isinstance(found, Module)
    return found


@pytest.mark.parametrize("position", ["W * j // 20", "min(W * j // 20 + 1, W - 1)", "(j * 2 + 1) * W // 40"])
def test_a_quotient_of_a_multiple_is_looked_up(position: str) -> None:
    before = module(position)
    after = tabulate_positions(before, CPU, Options())
    assert [k.name for k in after.kernels] == ["t_0_at", "t_0"]
    assert [t.name for t in after.temps] == ["at"]
    assert read(show(after)) == after
    rng = np.random.default_rng(1)
    for sizes in ({"B": 0, "W": 1}, {"B": 1, "W": 1}, {"B": 3, "W": 7}, {"B": 9, "W": 61}):
        x = rng.standard_normal((sizes["B"], sizes["W"])).astype(np.float32)
        results = []
        for m in (before, after):
            arrays = {"X": x, "Y": np.zeros((sizes["B"], 20), np.float32)}
            run(m, arrays, sizes)
            results.append(arrays["Y"])
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("position", ["0", "j % W", "(j + 3) // 3 % W", "min(j, W - 1)", "W * i // B"])
def test_pieces_of_an_axis_are_left(position: str) -> None:
    before = module(position)
    assert tabulate_positions(before, CPU, Options()) is before


def test_few_rows_are_left() -> None:
    few = NEAREST.replace("size B\n", "").replace("B", "3")
    before = module("W * j // 20", few)
    assert tabulate_positions(before, CPU, Options()) is before


def test_one_table_for_all_who_ask() -> None:
    """Two loads at one position, and two kernels."""
    twice = NEAREST.replace("POSITION]", "POSITION] + X[i, min(POSITION + 1, W - 1)] + X[i, POSITION]")
    second = twice.split("kernel t_0")[1].replace("(X, Y)", "t_1(X, Y)")
    after = tabulate_positions(module("W * j // 20", f"{twice}kernel {second}"), CPU, Options())
    assert [k.name for k in after.kernels] == ["t_0_at", "t_0_at1", "t_0", "t_1"]


def test_the_loops_are_vectors() -> None:
    (found,) = compilations("resize_nearest", Settings(runtime="clang", target="x86-64-v4"))
    gathers = [line for line in found.rendered.source.splitlines() if "gather_" in line and "X" in line and "static" not in line]
    assert gathers
    assert all("floordiv" not in line and "at" in line for line in gathers)


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_images_are_those_of_numpy(target: str) -> None:
    x = np.random.default_rng(2).standard_normal((2, 5, 9)).astype(np.float32)
    y = luminal.compile("resize_nearest", target=target, size=[11, 26])(x)
    np.testing.assert_array_equal(y, x[:, np.arange(11) * 5 // 11][:, :, np.arange(26) * 9 // 26])
