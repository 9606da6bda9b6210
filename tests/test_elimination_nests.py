"""Eliminations as they are written, each row beside what it is divided by: the inner loop is vectors, its tail too."""

from __future__ import annotations

import luminal
import numpy as np
from compilers import needs_cc
from luminal.compiler import Settings, compilations

SEED = 23
LU = """(composite lu ((A{f32}[N N]) -> (A))
  (dotimes (k N)
    (loop (i (+ k 1) N)
      (setf (aref A i k) (/ (aref A i k) (aref A k k)))
      (loop (j (+ k 1) N)
        (decf (aref A i j) (* (aref A i k) (aref A k j)))))))"""


def test_the_inner_loop_is_vectors() -> None:
    (found,) = compilations(LU, Settings(runtime="clang", target="x86-64-v3"))
    assert {"vectorize j.1", "vectorize j.t.1"} <= {line for k in found.module.kernels for line in k.schedule}


@needs_cc
def test_values() -> None:
    f, rng = luminal.compile(LU, runtime="clang"), np.random.default_rng(SEED)
    for n in (0, 1, 2, 17, 40):
        a = rng.standard_normal((n, n)).astype(np.float32) + 2 * n * np.eye(n, dtype=np.float32)
        x = a.copy()
        f(x)
        lower, upper = np.tril(x, -1) + np.eye(n), np.triu(x)
        np.testing.assert_allclose(lower @ upper, a, rtol=1e-4, atol=1e-4)
