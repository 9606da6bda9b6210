"""What an iteration stores and the next one reads is carried in a register: forms of it against float64, and those that are left alone."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 29
SIZES = [(1, 1), (2, 40), (5, 17), (17, 3), (33, 70)]
HEAD = "(composite carried ((X{f32}[M N](where N > 0)) -> (Y{f32}[M N])) (dotimes (i M) "
FORWARDS = HEAD + "(setf (aref Y i 0) (aref X i 0)) (loop (j 1 N) (setf (aref Y i j) (+ (* 0.5 (aref Y i (- j 1))) (aref X i j))))))"
BACKWARDS = HEAD + "(loop (j (- N 1) -1 -1) (setf (aref Y i j) (+ (aref X i j) (if (< j (- N 1)) (* 0.5 (aref Y i (+ j 1))) 0.0))))))"
CHOSEN = HEAD + "(dotimes (j N) (setf (aref Y i j) (+ (aref X i j) (if (> j 0) (* 0.5 (aref Y i (- j 1))) 0.0))))))"
TWO_BACK = HEAD + "(dotimes (j N) (setf (aref Y i j) (+ (aref X i j) (if (> j 1) (* 0.5 (aref Y i (- j 2))) 0.0))))))"
BOTH = HEAD + "(loop (j 1 N) (setf (aref Y i j) (+ (aref X i j) (+ (* 0.5 (aref Y i (- j 1))) (if (> i 0) (* 0.25 (aref Y (- i 1) j)) 0.0)))))))"
OTHER_ROW = "(composite carried ((X{f32}[M N](where N > 0)) -> (Y{f32}[M N])) (dotimes (j N) (loop (i 1 M) (setf (aref Y i j) (+ (aref X i j) (abs (aref Y (- i 1) j)))))))"


def reads_what_it_stores(f):
    loops = [s for k in f.compilation.level("kernel").kernels for s in statements(k.body) if isinstance(s, Loop)]
    return any(s.kind == "serial" and any("Y" in e.buffers for t in statements(s.body) for e in t.expressions()) for s in loops)


def expected(x, text):
    y = np.zeros(x.shape)
    n = x.shape[1]
    for j in reversed(range(n)) if text is BACKWARDS else range(n):
        before = j + 1 if text is BACKWARDS else j - (2 if text is TWO_BACK else 1)
        y[:, j] = x[:, j] + (0.5 * y[:, before] if 0 <= before < n else 0)
    return y


@needs_cc
@pytest.mark.parametrize("text", [FORWARDS, BACKWARDS, CHOSEN, TWO_BACK], ids=["forwards", "backwards", "chosen", "two back"])
def test_rows(text):
    f = luminal.compile(text, config={"VECTOR": 64})
    rng = np.random.default_rng(SEED)
    assert reads_what_it_stores(f) == (text is TWO_BACK)
    for m, n in SIZES:
        x = rng.standard_normal((m, n)).astype(np.float32)
        np.testing.assert_allclose(f(x), expected(x.astype(np.float64), text), rtol=1e-6, atol=1e-5, err_msg=f"M={m} N={n}, seed {SEED}")


@needs_cc
def test_columns():
    """The first row is what it was before, zeros; of no rows nothing is read."""
    f = luminal.compile(OTHER_ROW, config={"VECTOR": 64})
    rng = np.random.default_rng(SEED)
    for m, n in [(0, 3), (1, 5), (7, 1), (9, 40)]:
        x = rng.standard_normal((m, n)).astype(np.float32)
        y = np.zeros((m, n))
        for i in range(1, m):
            y[i] = x[i] + np.abs(y[i - 1])
        np.testing.assert_allclose(f(x), y, rtol=1e-6, atol=1e-5, err_msg=f"M={m} N={n}")


@needs_cc
def test_a_table():
    """What another row holds is read there; what this one stored is carried."""
    f = luminal.compile(BOTH, config={"VECTOR": 64})
    rng = np.random.default_rng(SEED)
    assert any("last" in line for line in f.source.splitlines())
    for m, n in SIZES:
        x = rng.standard_normal((m, n)).astype(np.float32)
        y = np.zeros((m, n))
        for i in range(m):
            for j in range(1, n):
                y[i, j] = x[i, j] + 0.5 * y[i, j - 1] + (0.25 * y[i - 1, j] if i else 0)
        np.testing.assert_allclose(f(x), y, rtol=1e-6, atol=1e-5, err_msg=f"M={m} N={n}")
