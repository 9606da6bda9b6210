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
LENGTHS = (0, 1, 7, 8, 9, 32, 33, 40, 47, 71)

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


def cut(text: str) -> int:
    """How many loops go by blocks."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    return sum(isinstance(s, Loop) and s.step.is_const and abs(s.step.attr) == 8 for nest in nests.values() for s in statements(nest.body))


@pytest.mark.parametrize("text", [PLAIN, UP_TO_TWO_BEFORE, DOWN, IN_PLACE])
def test_what_is_cut(text: str) -> None:
    assert cut(text) == 1


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
    for n in LENGTHS:
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
