"""What lanes store at a distance, and what they read at positions from memory: vectors as far as they go."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, statements
from luminal.ir.text import show

pytestmark = pytest.mark.usefixtures("plain_c")

EVERY_OTHER = """(composite every_other ((X{f32}[N] b{f32}[]) -> (Y{f32}[M]) where M = (* 2 N))
  (setf y (zeros M))
  (dotimes (i N) (setf (aref y (* 2 i)) (tanh (+ b (aref X i)))))
  (return y))"""
UPSAMPLED = """(composite up ((X{f32}[B C H W] K{f32}[C O 4 4]) -> (Y{f32}[B O P Q]))
  (return (tanh (conv_transpose2d X K :stride 2 :padding 1))))"""
PIXELS = """(composite pixels ((X{f32}[C H W] at{i64}[P]) -> (Y{f32}[C P]))
  (return (* 2 (gather (reshape X C (* H W)) at :axis 1))))"""


def program(text: str) -> str:
    (c,) = compilations(text, Settings())
    return show(c.run(stop_after="hoist"))


def test_long_functions_are_computed_by_vectors() -> None:
    """Where their results are stored one by one: no lane calls a function by itself."""
    text = program(UPSAMPLED)
    assert "_lanes[" in text
    assert not re.search(r"Y\[[^]]*\] = tanh", text), text


def test_a_position_from_memory_is_not_taken_apart_and_put_together_again() -> None:
    text = program(PIXELS)
    assert re.search(r"gather\.\d+ X\[", text), text
    assert not re.search(r"gather\.\d+ X\[[^]]*(//|%)", text), text


@needs_cc
@pytest.mark.parametrize("n", [0, 1, 7, 8, 33, 100])
def test_every_other(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    want = np.zeros(2 * n)
    want[::2] = np.tanh(x.astype(np.float64) + np.float32(0.3))
    np.testing.assert_allclose(luminal.compile(EVERY_OTHER, runtime="clang")(x, 0.3), want, rtol=1e-6, atol=1e-7)


@needs_cc
@pytest.mark.parametrize(("b", "c", "h", "w", "o"), [(1, 2, 3, 2, 9), (2, 3, 5, 7, 4), (1, 4, 9, 21, 17), (1, 1, 6, 40, 8)])
def test_upsampled(b: int, c: int, h: int, w: int, o: int) -> None:
    """Each of the plans: short rows, filters in the lanes, rows in the lanes."""
    rng = np.random.default_rng(w)
    x, k = rng.standard_normal((b, c, h, w)).astype(np.float32), rng.standard_normal((c, o, 4, 4)).astype(np.float32)
    want = np.zeros((b, o, 2 * h + 2, 2 * w + 2))
    for r in range(4):
        for s in range(4):
            want[:, :, r : r + 2 * h : 2, s : s + 2 * w : 2] += np.einsum("bchw,co->bohw", x.astype(np.float64), k[:, :, r, s])
    np.testing.assert_allclose(luminal.compile(UPSAMPLED, runtime="clang")(x, k), np.tanh(want[:, :, 1:-1, 1:-1]), rtol=1e-4, atol=1e-5)


@needs_cc
def test_pixels() -> None:
    rng = np.random.default_rng(1)
    x, at = rng.standard_normal((3, 5, 7)).astype(np.float32), rng.integers(0, 35, 37)
    np.testing.assert_array_equal(luminal.compile(PIXELS, runtime="clang")(x, at), 2 * x.reshape(3, 35)[:, at])


@pytest.mark.parametrize(
    ("updates", "apart"),
    [("(einsum \"bk,bkn->bn\" (sum A :axis 1) W)", True), ("(einsum \"bck,kn->bn\" A (sum W :axis 0))", True), ("(einsum \"bck,bkn->bn\" A W)", True), ("(sum W :axis 1)", False)],
    ids=["rows and matrices", "of one matrix", "of two", "sums"],
)  # fmt: skip
def test_a_product_is_made_before_it_is_scattered(updates: str, apart: bool) -> None:
    """Rows are scattered in the order of their positions, which are data: a product there would have neither tiles nor threads."""
    (c,) = compilations(
        f"(composite f ((A{{f32}}[B C K] W{{f32}}[B K N] at{{i64}}[B] Y{{f32}}[M N]) -> (Y)) (return (scatter Y at {updates} :combine add)))",
        Settings(),
    )
    kernels = c.run(stop_after="make_nests").kernels
    (scattering,) = (k for k in kernels if "at" in k.buffers)
    assert any(isinstance(s, Loop) and s.kind == "reduce" for s in statements(scattering.body)) is not apart, show(c.run(stop_after="make_nests"))


@pytest.mark.parametrize(
    ("ports", "axis", "kinds"),
    [
        ("X{f32}[M N] I{i64}[K] U{f32}[K N]", 0, ["serial", "parallel"]),
        ("X{f32}[M N] I{i64}[K] U{f32}[M K]", 1, ["parallel", "serial"]),
        ("X{f32}[M] I{i64}[K] U{f32}[K]", 0, ["serial"]),
    ],
)
def test_what_is_scattered_along_one_axis_is_independent_along_the_others(ports: str, axis: int, kinds: list[str]) -> None:
    """Rows that an index adds up are added by vectors."""
    shape = "M N" if len(kinds) > 1 else "M"
    (c,) = compilations(f"(composite scattered (({ports}) -> (Y{{f32}}[{shape}])) (return (scatter X I U :axis {axis} :combine add)))", Settings())
    *_, kernel = c.run(stop_after="make_nests").kernels
    assert [s.kind for s in statements(kernel.body) if isinstance(s, Loop)] == kinds
