"""Loops in three parts around the iteration that others read: which are, and that values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 23
LENGTHS = (0, 1, 2, 5, 16, 33, 70)

PATHS = """(composite paths ((P{i64}[N N]) -> (P))
  (dotimes (k N) (dotimes (i N) (dotimes (j N)
    (setf (aref P i j) (min (aref P i j) (+ (aref P i k) (aref P k j))))))))"""
ELIMINATED = """(composite eliminated ((P{i64}[N N]) -> (P))
  (dotimes (k N) (dotimes (i N) (dotimes (j N)
    (decf (aref P i j) (* (aref P i k) (aref P k j)))))))"""
SHIFTED = """(composite shifted ((P{i64}[N N]) -> (P))
  (dotimes (k N) (dotimes (j N)
    (setf (aref P k (- N j 1)) (+ (aref P k (- N j 1)) (* 3 (aref P k k)))))))"""
BEHIND = """(composite behind ((P{i64}[N N]) -> (P))
  (loop (k 1 N) (dotimes (j N)
    (setf (aref P k j) (+ (aref P k j) (* 3 (aref P k (- k 1))))))))"""
TWO = """(composite two ((P{i64}[N N]) -> (P))
  (loop (k 1 N) (dotimes (j N)
    (setf (aref P k j) (+ (aref P k k) (* 3 (aref P k (- k 1))))))))"""
NEXT = """(composite following ((P{i64}[N N]) -> (P))
  (dotimes (k N) (loop (j 1 N)
    (setf (aref P k j) (+ (aref P k (- j 1)) (* 3 (aref P k k)))))))"""
OUTSIDE = """(composite outside ((P{i64}[N N] m{i64}[]) -> (P))
  (dotimes (k N) (dotimes (j N)
    (if (< m N) (if (>= m 0) (incf (aref P k j) (* 3 (aref P k m))))))))"""  # nobody knows which one it is
CASES = {"PATHS": PATHS, "ELIMINATED": ELIMINATED, "SHIFTED": SHIFTED, "BEHIND": BEHIND, "TWO": TWO, "NEXT": NEXT, "OUTSIDE": OUTSIDE}


def innermost(text: str) -> list[Loop]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    assert nests
    loops = [s for nest in nests.values() for s in statements(nest.body) if isinstance(s, Loop)]
    return [x for x in loops if not any(isinstance(s, Loop) for s in statements(x.body))]


@pytest.mark.parametrize(("name", "parts"), [("PATHS", 6), ("ELIMINATED", 6), ("BEHIND", 2), ("TWO", 1), ("NEXT", 1), ("OUTSIDE", 1)])
def test_which(name: str, parts: int) -> None:
    loops = innermost(CASES[name])
    assert len(loops) == parts
    assert all(x.kind == "parallel" for x in loops) == (parts > 1)


def expected(name: str, p: np.ndarray) -> np.ndarray:
    p, n = p.copy(), len(p)
    for k in range(name in ("BEHIND", "TWO"), n):
        for j in range(n):
            if name in ("PATHS", "ELIMINATED"):
                for i, at in enumerate(range(n)):
                    q = p[j, k], p[k, i]
                    p[j, at] = min(p[j, at], q[0] + q[1]) if name == "PATHS" else p[j, at] - q[0] * q[1]
            elif name == "SHIFTED":
                p[k, n - j - 1] += 3 * p[k, k]
            elif name == "BEHIND":
                p[k, j] += 3 * p[k, k - 1]
            elif name == "TWO":
                p[k, j] = p[k, k] + 3 * p[k, k - 1]
            elif name == "NEXT" and j:
                p[k, j] = p[k, j - 1] + 3 * p[k, k]
            elif name == "OUTSIDE":
                p[k, j] += 3 * p[k, n // 2]
    return p


@needs_cc
@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f = luminal.compile(CASES[name], runtime="clang")
    rng = np.random.default_rng(SEED)
    for n in LENGTHS:
        p = rng.integers(-3, 5, (n, n))
        with np.errstate(over="ignore"):
            wanted = expected(name, p)
        f(*((p, n // 2) if name == "OUTSIDE" else (p,)))
        np.testing.assert_array_equal(p, wanted, err_msg=f"{name}, {n}, seed {SEED}")
