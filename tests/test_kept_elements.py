"""Elements that a loop reads and stores, in registers: which are, and that values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Store, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 17
LENGTHS = (0, 1, 2, 7, 16, 33, 70)

CHOLESKY = """(composite rows ((A{f64}[N N]) -> (A))
  (dotimes (i N)
    (dotimes (j i)
      (dotimes (k j) (decf (aref A i j) (* (aref A i k) (aref A j k))))
      (divcf (aref A i j) (aref A j j)))
    (dotimes (k i) (decf (aref A i i) (* (aref A i k) (aref A i k))))
    (setf (aref A i i) (sqrt (aref A i i)))))"""
SOLVE = """(composite solve ((A{f64}[N N] x{f64}[N]) -> (x))
  (dotimes (i N)
    (dotimes (j i) (decf (aref x i) (* (aref A i j) (aref x j))))
    (divcf (aref x i) (aref A i i))))"""
WITH_ITSELF = SOLVE.replace("(j i)", "(j (+ i 1))")  # the last term reads what is stored
CHOSEN = """(composite chosen ((A{f64}[N N] x{f64}[N]) -> (x))
  (dotimes (i N)
    (dotimes (j i)
      (if (< (aref x j) (aref A i j)) (setf (aref x i) (max (aref x i) (* (aref x j) (aref A i j))))))))"""
UPPER = """(composite upper ((A{f64}[N N] x{f64}[N]) -> (x))
  (loop (i (- N 1) -1 -1)
    (loop (j (+ i 1) N) (decf (aref x i) (* (aref A i j) (aref x j))))
    (divcf (aref x i) (aref A i i))))"""


def in_memory(text: str) -> int:
    """How many stores add to an array, or read the element that they store, inside of the innermost loops."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    assert nests
    stores = [s for nest in nests.values() for s in statements(nest.body) if isinstance(s, Store) and s.index]
    return sum(bool(s.combiner) for s in stores)


@pytest.mark.parametrize(("text", "left"), [(CHOLESKY, 0), (SOLVE, 0), (WITH_ITSELF, 1), (CHOSEN, 0), (UPPER, 0)])
def test_which(text: str, left: int) -> None:
    assert in_memory(text) == left


def expected(text: str, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    n = len(a)
    if text is CHOLESKY:
        return np.tril(np.linalg.cholesky(a)) + np.triu(a, 1) if n else a
    x = x.copy()
    if text is UPPER:
        return expected(SOLVE, a[::-1, ::-1], x[::-1])[::-1]
    for i in range(n):
        for j in range(i + 1 if text is WITH_ITSELF else i):
            if text is not CHOSEN:
                x[i] -= a[i, j] * x[j]
            elif x[j] < a[i, j]:
                x[i] = max(x[i], x[j] * a[i, j])
        if text is not CHOSEN:
            x[i] /= a[i, i]
    return x


@needs_cc
@pytest.mark.parametrize("text", [CHOLESKY, SOLVE, WITH_ITSELF, CHOSEN, UPPER])
def test_values(text: str) -> None:
    f = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        a, x = rng.standard_normal((n, n)) / (n or 1), rng.standard_normal(n)
        a = a @ a.T + np.eye(n)
        got = f(a.copy()) if text is CHOLESKY else f(a, x.copy())
        np.testing.assert_allclose(got, expected(text, a, x), rtol=1e-10, atol=1e-12, err_msg=f"seed {SEED}, N={n}")
