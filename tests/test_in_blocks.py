"""Loops in order whose iterations sum over all before them, in blocks: which are cut, and that values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 11
LENGTHS = (0, 1, 7, 8, 9, 32, 33, 40, 71, 129, 200)

UP = """(composite up ((A{{f32}}[N N] B{{f32}}[N K]) -> (X{{f32}}[N K]))
  (dotimes (i N)
    (dotimes (k K)
      (set s (aref B i k))
      ({sum} (decf s (* {factor} (aref A i j) (aref X {row} k))))
      (setf (aref X i k) (* 0.5 s)))))"""
DOWN = """(composite down ((A{f32}[N N] B{f32}[N K]) -> (X{f32}[N K]))
  (loop (i (- N 1) -1 -1)
    (dotimes (k K)
      (set s (aref B i k))
      (loop (j (+ i 1) N) (decf s (* (aref A i j) (aref X j k))))
      (setf (aref X i k) (* 0.5 s)))))"""
VECTOR = """(composite vector ((A{f32}[N N] B{f32}[N]) -> (x{f32}[N]))
  (dotimes (i N)
    (set s (aref B i))
    (dotimes (j i) (decf s (* (aref A i j) (aref x j))))
    (setf (aref x i) (* 0.5 s))))"""
IN_PLACE = """(composite place ((A{f32}[N N] X{f32}[N K]) -> (X))
  (dotimes (i N)
    (dotimes (k K)
      (dotimes (j i) (decf (aref X i k) (* (aref A i j) (aref X j k))))
      (setf (aref X i k) (* 0.5 (aref X i k))))))"""
SET_FIRST = IN_PLACE.replace("(dotimes (j i) ", "(if (> i 0) (incf (aref X i k) (aref X (- i 1) k))) (dotimes (j i) ")  # what is read ahead
SET_BEFORE = IN_PLACE.replace(
    "(setf (aref X i k)", "(if (< (+ i 1) N) (incf (aref X (+ i 1) k) (aref X i k))) (setf (aref X i k)"
)  # by the row before
PLAIN = UP.format(sum="dotimes (j i)", factor="1.0", row="j")
UP_TO_TWO_BEFORE = UP.format(sum="dotimes (j (- i 2))", factor="1.0", row="j")
NEXT = UP.format(sum="dotimes (j i)", factor="1.0", row="(+ j 1)")  # the first row of the block too
MOVING = UP.format(sum="loop (j (floordiv i 2) i)", factor="1.0", row="j")  # it begins elsewhere in each iteration
CARRIED = UP.format(sum="dotimes (j i)", factor="c", row="j").replace("(dotimes (i N)", "(set c 1.0) (dotimes (i N) (set c (* 0.5 c))")


def cut(text: str, rows: int = 8) -> int:
    """How many loops go by so many."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    return sum(isinstance(s, Loop) and s.step.is_const and abs(s.step.attr) == rows for nest in nests.values() for s in statements(nest.body))


@pytest.mark.parametrize("text", [PLAIN, UP_TO_TWO_BEFORE, DOWN, IN_PLACE])
def test_what_is_cut(text: str) -> None:
    """Where there are up to 128 rows, and inside of blocks of 64, which add up 64 terms at a time."""
    assert cut(text) == cut(text, 64) == 2


PART = """(composite part ((U{f32}[N N]) -> (U))
  (loop (panel 0 N 16)
    (if (< (+ panel 16) N)
      (loop (i (+ panel 1) (+ panel 16))
        (loop (j (+ panel 16) N)
          (set s (aref U i j))
          (loop (k panel i) (decf s (* (aref U i k) (aref U k j))))
          (setf (aref U i j) s))))))"""


def test_columns_may_begin_at_a_place_that_a_loop_tells() -> None:
    """It is none before the first; and few rows are in no blocks of blocks."""
    assert (cut(PART), cut(PART, 64)) == (0, 0)
    more = PART.replace("16", "40")
    assert (cut(more), cut(more, 64)) == (1, 0)


def test_strips_of_blocks_lie_beside_each_other() -> None:
    """What all rows of a block read of the rows before it is copied strip by strip, and stays in the first cache."""
    (found,) = compilations(PLAIN, Settings(runtime="clang", target="x86-64-v4"))
    lines = [line for kernel in found.module.kernels for line in kernel.schedule if line.startswith("stage X")]
    assert len(lines) == 1 and lines[0].endswith("at=k3.0"), lines


@pytest.mark.parametrize("text", [NEXT, MOVING, CARRIED, VECTOR, SET_FIRST, SET_BEFORE])
def test_what_is_not(text: str) -> None:
    assert cut(text) == 0


def expected(text: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    n, x = len(a), np.zeros_like(b)
    for i in reversed(range(n)) if text is DOWN else range(n):
        js = range(i + 1, n) if text is DOWN else range(i - 2) if text is UP_TO_TWO_BEFORE else range(i // 2, i) if text is MOVING else range(i)
        s = b[i].copy()
        for j in js:
            s -= a[i, j] * x[j + (text is NEXT)] * (0.5 ** (i + 1) if text is CARRIED else 1)
        x[i] = 0.5 * s
    return x


@needs_cc
@pytest.mark.parametrize("text", [PLAIN, UP_TO_TWO_BEFORE, DOWN, NEXT, MOVING, CARRIED, VECTOR])
def test_values(text: str) -> None:
    f = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        for k in (1, 5, 70):
            a, b = rng.standard_normal((n, n)) / (n or 1), rng.standard_normal((n, k))
            if text is VECTOR:
                b = b[:, 0].copy()
            got = f(a.astype(np.float32), b.astype(np.float32))
            np.testing.assert_allclose(got, expected(text, a, b), rtol=1e-4, atol=1e-5, err_msg=f"seed {SEED}, N={n}, K={k}")


@needs_cc
@pytest.mark.parametrize("text", [IN_PLACE, SET_FIRST, SET_BEFORE])
def test_values_in_place(text: str) -> None:
    f = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n in LENGTHS if text is IN_PLACE else LENGTHS[:-2]:
        for k in (1, 5, 70):
            a, x = rng.standard_normal((n, n)) / (n or 1), rng.standard_normal((n, k))
            got = f(a.astype(np.float32), x.astype(np.float32))
            for i in range(n):
                if text is SET_FIRST and i:
                    x[i] += x[i - 1]
                x[i] -= a[i, :i] @ x[:i]
                if text is SET_BEFORE and i + 1 < n:
                    x[i + 1] += x[i]
                x[i] *= 0.5
            np.testing.assert_allclose(got, x, rtol=1e-4, atol=1e-5, err_msg=f"seed {SEED}, N={n}, K={k}")
