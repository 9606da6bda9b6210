"""Rows that go eight at a time, each a few elements behind the last: which do, and that values are what they were, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import const
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 29
LENGTHS = ((1, 1), (3, 66), (9, 90), (10, 67), (17, 66), (40, 131), (70, 20))  # rows, and what they are long


def looped(body: str, rows: str = "(i 1 (- M 1))", row: str = "(j 1 (- N 1))", dtype: str = "f64") -> str:
    return f"(composite looped ((A{{{dtype}}}[M N]) -> (A)) (loop {rows} (loop {row} {body})))"


SEIDEL = looped("(setf (aref A i j) (/ (+ (aref A (- i 1) (+ j 1)) (aref A i (- j 1)) (aref A i j) (aref A i (+ j 1)) (aref A (+ i 1) j)) 5))")
BACK = looped("(setf (aref A i j) (* 0.5 (+ (aref A (+ i 1) (- j 1)) (aref A i (+ j 1)))))", "(i (- M 2) -1 -1)", "(j (- N 2) 0 -1)")
DISTANCE = looped(
    "(let ((least (min (aref A (- i 1) j) (aref A i (- j 1)) (aref A (- i 1) (- j 1))))) (incf (aref A i j) (+ least (if (> (aref A i (+ j 1)) 3) 1 -2))))",
    dtype="i64",
)
FAR = looped("(setf (aref A i j) (+ (aref A (- i 1) (+ j 3)) (* 3 (+ 1 (aref A i (- j 1))))))", row="(j 1 (- N 3))", dtype="i64")
TOO_FAR = FAR.replace("(+ j 3)", "(+ j 4)").replace("(- N 3)", "(- N 4)")
CHOSEN = looped(
    "(setf (aref A i j) (if (> (aref A (- i 1) j) 3) (+ 1 (aref A (- i 1) (- j 1))) (max (aref A (- i 1) j) (* 3 (aref A i (- j 1))))))", dtype="i64"
)
SOON = looped("(setf (aref A i j) (max (aref A (- i 1) j) (aref A i (- j 1))))", dtype="i64")
TURNED = looped("(setf (aref A i j) (+ (aref A (- i 1) (- N j 1)) (* 3 (+ 1 (aref A i (- j 1))))))", dtype="i64")
TRIANGLE = looped("(setf (aref A i j) (+ (aref A (- i 1) j) (* 3 (+ 1 (aref A i (- j 1))))))", row="(j 1 (min i N))", dtype="i64")
LINE = looped("(setf (aref A 0 j) (+ (aref A 0 j) (* 3 (+ 1 (aref A 0 (- j 1))))))", dtype="i64")


def seidel(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = (a[i - 1, j + 1] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5


def back(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = 0.5 * (a[i + 1, j - 1] + a[i, j + 1])


def distance(a: np.ndarray, i: int, j: int) -> None:
    least = min(a[i - 1, j], a[i, j - 1], a[i - 1, j - 1])
    a[i, j] += least + (1 if a[i, j + 1] > 3 else -2)


def far(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = a[i - 1, j + 3] + 3 * (1 + a[i, j - 1])


def too_far(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = a[i - 1, j + 4] + 3 * (1 + a[i, j - 1])


def chosen(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = 1 + a[i - 1, j - 1] if a[i - 1, j] > 3 else max(a[i - 1, j], 3 * a[i, j - 1])


def soon(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = max(a[i - 1, j], a[i, j - 1])


def turned(a: np.ndarray, i: int, j: int) -> None:
    a[i, j] = a[i - 1, a.shape[1] - j - 1] + 3 * (1 + a[i, j - 1])


def triangle(a: np.ndarray, i: int, j: int) -> None:
    if j < i:
        a[i, j] = a[i - 1, j] + 3 * (1 + a[i, j - 1])


def line(a: np.ndarray, i: int, j: int) -> None:
    a[0, j] += 3 * (1 + a[0, j - 1])


# the composite, what it does, how far it leaves the end of a row, and how far a row is behind the one before
CASES: dict[str, tuple[str, Callable[[np.ndarray, int, int], None], int, int]] = {
    "SEIDEL": (SEIDEL, seidel, 1, 2),
    "BACK": (BACK, back, 1, 2),
    "DISTANCE": (DISTANCE, distance, 1, 1),
    "FAR": (FAR, far, 3, 4),
    "TOO_FAR": (TOO_FAR, too_far, 4, 0),
    "CHOSEN": (CHOSEN, chosen, 1, 0),
    "SOON": (SOON, soon, 1, 0),
    "TURNED": (TURNED, turned, 1, 0),
    "TRIANGLE": (TRIANGLE, triangle, 0, 0),
    "LINE": (LINE, line, 1, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_which(name: str) -> None:
    text, _, _, behind = CASES[name]
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    eight = [s for nest in nests.values() for s in statements(nest.body) if isinstance(s, Loop) and s.step in (const(8), const(-8))]
    assert len(eight) == (behind > 0)
    for s in eight:
        inner = [x for x in s.body if isinstance(x, Loop)]
        assert inner[0].stop == inner[1].start == const(7 * behind)
        assert len(inner[1].body) >= 8


@needs_cc
@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    text, each, end, _ = CASES[name]
    f = luminal.compile(text, runtime="clang", unchecked=name in ("FAR", "TOO_FAR"))
    rng = np.random.default_rng(SEED)
    for m, n in LENGTHS:
        a = rng.integers(-5, 9, (m, n)).astype(np.float64 if "f64" in text else np.int64)
        wanted = a.copy()
        with np.errstate(over="ignore"):
            for i in range(m - 2, -1, -1) if name == "BACK" else range(1, m - 1):
                for j in range(n - 2, 0, -1) if name == "BACK" else range(1, n - end):
                    each(wanted, i, j)
        f(a)
        np.testing.assert_array_equal(a, wanted, err_msg=f"{name}, {m}×{n}, seed {SEED}")
