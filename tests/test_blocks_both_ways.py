"""Factorisations as loops: what an iteration does up to its block goes by blocks of its own; which are cut, and that values are what they were."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import Expr
from luminal.ir.kernel import Alloc, If, Stmt, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 12
LENGTHS = (0, 1, 2, 16, 17, 32, 33, 34, 47, 48, 49, 70)
Matrix = list[list[float]]

HEAD = "(composite factors ((A{f64}[N N]) -> (A)) "
LU = f"""{HEAD}
  (dotimes (i N)
    (dotimes (j i)
      (dotimes (k j) (decf (aref A i j) (* (aref A i k) (aref A k j))))
      (divcf (aref A i j) (aref A j j)))
    (loop (j i N)
      (dotimes (k i) (decf (aref A i j) (* (aref A i k) (aref A k j)))))))"""
BY_SCALARS = f"""{HEAD}
  (dotimes (i N)
    (dotimes (j i)
      (let ((w (aref A i j)))
        (dotimes (k j) (decf w (* (aref A i k) (aref A k j))))
        (setf (aref A i j) (/ w (aref A j j)))))
    (loop (j i N)
      (let ((w (aref A i j)))
        (dotimes (k i) (decf w (* (aref A i k) (aref A k j))))
        (setf (aref A i j) w)))))"""
CHOLESKY = f"""{HEAD}
  (dotimes (i N)
    (dotimes (j i)
      (dotimes (k j) (decf (aref A i j) (* (aref A i k) (aref A j k))))
      (divcf (aref A i j) (aref A j j)))
    (dotimes (k i) (decf (aref A i i) (* (aref A i k) (aref A i k))))
    (setf (aref A i i) (sqrt (aref A i i)))))"""
MIRRORED = CHOLESKY.replace("(divcf (aref A i j) (aref A j j))", "(divcf (aref A i j) (aref A j j)) (setf (aref A j i) (aref A i j))")
FROM_THE_THIRD = LU.replace("(dotimes (j i)", "(loop (j 2 i)").replace("(dotimes (k j)", "(loop (k 1 j)").replace("(dotimes (k i)", "(loop (k 1 i)")
UP_TO_ITSELF = LU.replace("(dotimes (j i)", "(dotimes (j (+ i 1))").replace("(divcf (aref A i j) (aref A j j))", "(mulcf (aref A i j) 0.5)")
ROWS_BEFORE = LU.replace("(divcf (aref A i j) (aref A j j))", "(if (> i 0) (incf (aref A i j) (* 0.25 (aref A (- i 1) j))))")  # of the same block
SET_BY_THE_ROW_BEFORE = LU.replace("(loop (j i N)", "(if (< (+ i 1) N) (mulcf (aref A (+ i 1) 0) (aref A i i))) (loop (j i N)")  # once it is done
LOOKED_UP = LU.replace("(dotimes (k i)", "(if (> (aref A i 0) 1000) (dotimes (k N) (setf (aref A k k) 0.0))) (dotimes (k i)")


FACTORS_OF_MANY = """(composite factors ((A{f32}[R N N]) -> (L{f32}[R N N]))
  (dotimes (r R)
    (dotimes (i N)
      (dotimes (j i)
        (set s (aref A r i j))
        (dotimes (k j) (decf s (* (aref L r i k) (aref L r j k))))
        (setf (aref L r i j) (/ s (aref L r j j))))
      (set d (aref A r i i))
      (dotimes (k i) (decf d (* (aref L r i k) (aref L r i k))))
      (setf (aref L r i i) (sqrt d)) ;
    )))"""


def by_hand(text: str, a: Matrix) -> None:
    """The same loops in Python."""
    n = len(a)
    first, begin = (2, 1) if text is FROM_THE_THIRD else (0, 0)
    for i in range(n):
        for j in range(first, i + (text is UP_TO_ITSELF)):
            for k in range(begin, j):
                a[i][j] -= a[i][k] * (a[j][k] if text in (CHOLESKY, MIRRORED) else a[k][j])
            if text is UP_TO_ITSELF:
                a[i][j] *= 0.5
            elif text is not ROWS_BEFORE:
                a[i][j] /= a[j][j]
            elif i:
                a[i][j] += 0.25 * a[i - 1][j]
            if text is MIRRORED:
                a[j][i] = a[i][j]
        if text in (CHOLESKY, MIRRORED):
            for k in range(i):
                a[i][i] -= a[i][k] * a[i][k]
            a[i][i] = sqrt(a[i][i])
            continue
        if text is SET_BY_THE_ROW_BEFORE and i + 1 < n:
            a[i + 1][0] *= a[i][i]
        for j in range(i, n):
            for k in range(begin, i):
                a[i][j] -= a[i][k] * a[k][j]


def raised(text: str, target: str) -> list[Stmt]:
    """The statements of its loops."""
    (found,) = compilations(text, Settings(runtime="clang", target=target))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    return [s for nest in nests.values() for s in statements(nest.body)]


def kept(text: str, target: str) -> list[Expr]:
    """The columns of sums of sixteen rows that are kept between blocks."""
    shapes = (s.buffer.shape for s in raised(text, target) if isinstance(s, Alloc))
    return [shape[1] for shape in shapes if len(shape) == 2 and shape[0].is_const and shape[0].attr == 16]


def cut(text: str, target: str = "x86-64-v3") -> int:
    """How many such sums there are."""
    return len(kept(text, target))


@pytest.mark.parametrize(("text", "loops"), [(LU, 3), (BY_SCALARS, 3), (CHOLESKY, 2), (MIRRORED, 2), (LU.replace("f64", "f32"), 3)])
def test_what_is_cut(text: str, loops: int) -> None:
    """What is before a block, and what is in it."""
    assert cut(text) == loops


@pytest.mark.parametrize("text", [ROWS_BEFORE, SET_BY_THE_ROW_BEFORE, LOOKED_UP, FROM_THE_THIRD])
def test_what_is_not(text: str) -> None:
    assert cut(text) == 0


def test_columns_for_each_lane() -> None:
    """Sums of what is consecutive along them are put together for as many columns as a vector has lanes: with half as many, none were side by side."""
    assert [{n.attr for n in kept(CHOLESKY.replace("f64", dtype), "x86-64-v4")} for dtype in ("f32", "f64")] == [{15, 16}, {15, 8}]


def test_rows_that_the_kernel_writes_are_in_tiles() -> None:
    """They are not copied into lanes, which refused all of the tile."""
    (found,) = compilations(FACTORS_OF_MANY, Settings(target="x86-64-v4"))
    notes = [note for k in found.module.kernels for note in k.notes]
    assert sum("side by side, folded together" in note for note in notes) == 2
    assert not any("the kernel writes" in note for note in notes)


def test_no_short_loop_where_it_is_known_to_be_long() -> None:
    """What stands under an `if`, and under its `else`, knows of it."""
    long = FACTORS_OF_MANY.replace("(dotimes (i N)", "(if (< N 100) (setf (aref L r 0 0) 1.0) (dotimes (i N)").replace(" ;", " )")
    assert [sum(isinstance(s, If) for s in raised(text, "x86-64-v3")) for text in (FACTORS_OF_MANY, long)] == [1, 1]


@needs_cc
@pytest.mark.parametrize("text", [LU, BY_SCALARS, CHOLESKY, MIRRORED, FROM_THE_THIRD, UP_TO_ITSELF, ROWS_BEFORE, SET_BY_THE_ROW_BEFORE, LOOKED_UP])
def test_values(text: str) -> None:
    f: Callable[..., np.ndarray] = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        a = rng.standard_normal((n, n)) / (n or 1)
        a = a @ a.T + np.eye(n)
        expected = a.tolist()
        by_hand(text, expected)
        np.testing.assert_allclose(f(a.copy()), np.array(expected).reshape(n, n), rtol=1e-9, atol=1e-9, err_msg=f"seed {SEED}, N={n}")


@needs_cc
def test_the_library_has_both_orders() -> None:
    """Column by column for few rows, row by row for many."""
    f: Callable[..., np.ndarray] = luminal.compile("cholesky", dtype={"T": "f64"})
    rng = np.random.default_rng(SEED)
    for n in (1, 33, 127, 128, 161):
        a = rng.standard_normal((2, n, n))
        a = a @ a.swapaxes(1, 2) / n + np.eye(n)
        np.testing.assert_allclose(f(a), np.linalg.cholesky(a), rtol=1e-11, atol=1e-12, err_msg=f"seed {SEED}, N={n}")


@needs_cc
def test_values_of_a_local_array() -> None:
    """One for each of several matrices."""
    body = LU.removeprefix(HEAD).strip().removesuffix(")").replace("aref A", "aref W")
    text = f"""(composite each ((A{{f64}}[R N N]) -> (Y{{f64}}[R N N]))
      (dotimes (r R)
        (make-array W f64 (N N))
        (dotimes (i N) (dotimes (j N) (setf (aref W i j) (aref A r i j))))
        {body}
        (dotimes (i N) (dotimes (j N) (setf (aref Y r i j) (aref W i j))))))"""
    f = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        a = rng.standard_normal((2, n, n)) / (n or 1)
        a = a @ a.transpose(0, 2, 1) + np.eye(n)
        expected = a.tolist()
        for matrix in expected:
            by_hand(LU, matrix)
        np.testing.assert_allclose(f(a), np.array(expected).reshape(2, n, n), rtol=1e-9, atol=1e-9, err_msg=f"seed {SEED}, N={n}")
