"""Sums of one element over those before it, in blocks of elements that lie side by side: which are, and that values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import const
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 31
LENGTHS = (0, 1, 2, 15, 16, 17, 33, 50, 70)

PIECES = """(composite pieces ((T{i64}[N N] B{i64}[N N]) -> (T))
  (loop (i (- N 1) -1 -1)
    (loop (j (+ i 1) N)
      (maxf (aref T i j) (aref T i (- j 1)))
      (loop (k (+ i 1) j) (maxf (aref T i j) (+ (aref T i k) (aref T (+ k 1) j)))))))"""
ROWS = """(composite rows ((T{i64}[N N] B{i64}[N N]) -> (T))
  (dotimes (i N)
    (dotimes (j N)
      (let ((s 0) (b (aref B i j)))
        (loop (k 2 (- j 1)) (incf s (* (aref T i k) (+ 1 (aref B k j)))))
        (setf (aref T i j) (+ b s))))))"""
FLOATS = ROWS.replace("i64", "f64").replace("(s 0)", "(s (cast f64 0))")
COLUMNS = ROWS.replace("(aref B k j)", "(aref B j k)")  # goes through rows as it is
LATE = ROWS.replace("(+ 1 (aref B k j))", "(+ b (aref B k j))")  # what an iteration has for itself
OWN = ROWS.replace("(+ 1 (aref B k j))", "(aref T (+ k 1) j)")  # of the row itself too
CASES = {"PIECES": PIECES, "ROWS": ROWS, "FLOATS": FLOATS, "COLUMNS": COLUMNS, "LATE": LATE, "OWN": OWN}


def blocks(text: str, strict: bool = False) -> int:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", strict=strict))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    assert nests
    return sum(isinstance(s, Loop) and s.step is const(16) for nest in nests.values() for s in statements(nest.body))


@pytest.mark.parametrize(("name", "count"), [("PIECES", 1), ("ROWS", 1), ("FLOATS", 1), ("COLUMNS", 0), ("LATE", 0), ("OWN", 0)])
def test_which(name: str, count: int) -> None:
    assert blocks(CASES[name]) == count


def test_strict_sums_keep_their_order() -> None:
    assert blocks(ROWS, strict=True) == 1
    assert blocks(FLOATS, strict=True) == 0


def expected(name: str, t: np.ndarray, b: np.ndarray) -> np.ndarray:
    t, n = t.copy(), len(t)
    for i in range(n - 1, -1, -1) if name == "PIECES" else range(n):
        for j in range(i + 1, n) if name == "PIECES" else range(n):
            if name == "PIECES":
                t[i, j] = max(t[i, j], t[i, j - 1])
                for k in range(i + 1, j):
                    t[i, j] = max(t[i, j], t[i, k] + t[k + 1, j])
                continue
            s = t.dtype.type(0)
            for k in range(2, j - 1):
                other = {"COLUMNS": 1 + b[j, k], "LATE": b[i, j] + b[k, j], "OWN": t[k + 1, j]}.get(name, 1 + b[k, j])
                s += t[i, k] * other
            t[i, j] = b[i, j] + s
    return t


@needs_cc
@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f = luminal.compile(CASES[name], runtime="clang")
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        t, b = (rng.integers(-2, 3, (n, n)) for _ in range(2))
        if name == "FLOATS":
            t, b = t.astype(np.float64), rng.standard_normal((n, n)) / 4 - 1
        with np.errstate(over="ignore"):
            wanted = expected(name, t, b)
        f(t, b)
        np.testing.assert_allclose(
            t, wanted, rtol=1e-9 if name == "FLOATS" else 0, atol=1e-9 if name == "FLOATS" else 0, err_msg=f"{name}, {n}, seed {SEED}"
        )
