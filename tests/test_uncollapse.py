"""Loops that stand for two are two where their iterations divide, and nothing else changes."""

from __future__ import annotations

import re
from itertools import product

import luminal
import numpy as np
import pytest
from luminal.ir import text
from luminal.ir.interpret.program import run
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.uncollapse import uncollapse

PLAIN = Target(runtime="clang", name="plain", describe="plain", vector_bytes=32, threads=True)
MORE = "for x in 0 .. A:\n  for i in 0 .. C:\n    for j in 0 .. C:\n      Y[x] = Y[x] + Z[x % C]"
HEAD = "program p v1\nsize A\nsize B\nsize C\nsize D\nin X: f32[A]\nin Z: f32[B, C, 2]\nout Y: f32[A]\n\n"
FUNCTION = "function f(const f32* X, const f32* Z, f32* Y, i64 A, i64 B, i64 C, i64 D):\n"


def changed(body: str, target: Target = PLAIN) -> tuple[str, str]:
    """The program of a function with this body, before and after the pass, which shows and reads back as it is."""
    before = HEAD + FUNCTION + "".join(f"  {line}\n" for line in body.split("\n")) + "\nentry:\n  call f(X, Z, Y, A, B, C, D)\n"
    found = uncollapse(text.read(before), target, Options())
    shown = text.show(found)
    assert text.read(shown) == found
    return before, shown


def heads(body: str) -> list[str]:
    return [line.strip(" :") for line in changed(body)[1].split("\n") if line.strip().startswith("for ")]


ROWS = "for x in D .. A:\n  Y[x] = 0.0:f32\n  for k in 0 .. 2:\n    Y[x] = Y[x] + Z[(x // C * C + x % C) * 2 + k]"
THREE = "for x in D .. A:\n  Y[x] = X[x] + Z[x % C * 2 + x // C % B * C * 2]"


def test_a_loop_that_stands_for_two_is_two() -> None:
    assert heads(ROWS) == ["for x_0 in D // max(C, 1) .. x_last", "for x_1 in max(D - x_0 * C, 0) .. x_end", "for k in 0 .. 2"]


def test_the_outer_one_of_them_may_be_two() -> None:
    found = changed(THREE)[1]
    assert found.count("for ") == 3 and "%" not in found


@pytest.mark.parametrize(
    "body",
    [
        "for x in 0 .. A:\n  Y[x] = X[x // 3]",  # by a literal
        "for x in 0 .. A:\n  Y[x] = X[(x + 1) % C]",  # not the position itself
        "for x in 0 .. A:\n  let d: i64 = x + 1\n  Y[x] = X[x // d]",  # by something else in each iteration
        "for x in 0 .. A parallel:\n  Y[x] = X[x % C]",  # threads share it
        "for x in 0 .. A step 2:\n  Y[x] = X[x % C]",
        MORE,  # beside which nobody sees a division
    ],
)
def test_others_stay(body: str) -> None:
    before, after = changed(body)
    assert text.read(before) == text.read(after)


def test_without_threads_no_loop_need_stand_for_two() -> None:
    """The address of each row of a tile would hold the quotient, and clang would keep no tile in registers."""
    assert "%" not in changed(MORE, replace(PLAIN, threads=False))[1]
    f = luminal.compile("matmul", config={"OMP": False}, target="x86-64-v4")
    assert len(re.findall(r"(mod|floordiv)_i64\(i_j_\w*, t", f.source)) < 20  # left in blocks of packed panels alone; of all tiles there were 65
    for batch, m, k, n in ((1, 5, 3, 7), (3, 70, 20, 50), (2, 33, 40, 130), (2, 1, 9, 64), (0, 4, 4, 4)):
        rng = np.random.default_rng(n)
        a, b = rng.integers(-9, 9, (batch, m, k)).astype(np.float32), rng.integers(-9, 9, (batch, k, n)).astype(np.float32)
        np.testing.assert_array_equal(f(a, b), a @ b)


@pytest.mark.parametrize("body", [ROWS, THREE], ids=["rows", "three"])
def test_the_same_iterations_run(body: str) -> None:
    """Wherever the first and the last of them stand in a row, and where there is none because what is divided by is 0."""
    before, after = map(text.read, changed(body))
    rng = np.random.default_rng(1)
    for (b, c), part in product([(1, 1), (3, 4), (2, 7), (5, 1), (3, 0)], [0, 1, 2]):
        for start in range(min(b * c, 9) + 1):
            stop = max(start, b * c - part)
            sizes = {"A": stop, "B": b, "C": c, "D": start}
            x, z = rng.standard_normal(stop).astype("f4"), rng.standard_normal(b * c * 2).astype("f4")
            results = []
            for p in (before, after):
                y = np.zeros(stop, "f4")
                assert run(p, {"X": x, "Z": z, "Y": y}, sizes, check=True) == 0
                results.append(y)
            np.testing.assert_array_equal(*results)


def test_short_rows_divide_nothing() -> None:
    """What threads share is one axis, and each of them runs two loops: of images of a few positions, of rows that change places."""
    bias = luminal.compile("(composite p ((X{f32}[B C H W] V{f32}[C]) -> (Y{f32}[B C H W])) (return (+ X (reshape V 1 C 1 1))))", target="x86-64-v3")
    places = luminal.compile("permute", order=[1, 0, 2], target="x86-64-v3")
    for f, size in ((bias, "C"), (places, "A")):
        assert f"mod_i64(i_j_b, {size})" not in f.source and "i_j_b_1" in f.source
    rng = np.random.default_rng(2)
    for shape in [(3, 4, 2, 2), (1, 5, 3, 1), (4, 1, 2, 3), (0, 2, 2, 2), (2, 0, 2, 2)]:
        x, v = rng.standard_normal(shape).astype("f4"), rng.standard_normal(shape[1]).astype("f4")
        np.testing.assert_array_equal(bias(x, v), x + v[None, :, None, None])
        np.testing.assert_array_equal(places(x[0] if shape[0] else x[:, 0]), np.swapaxes(x[0] if shape[0] else x[:, 0], 0, 1))
