"""Extremes as loops find them, by an `if`, and where they stand: reductions, beside the same loops in Python; and what is not one stays loops."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from stages import graph_after

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 9
Array = np.ndarray


def largest(x: Array, start: float = -np.inf) -> tuple[float, int]:
    """The largest number that is larger than `start`, and where it first is; 0 where there is none."""
    best, at = start, 0
    for j, e in enumerate(x):
        if e > best:
            best, at = e, j
    return best, at


def rows(f: Callable[[Array], object], x: Array, dtype: type) -> Array:
    return np.array([f(row) for row in x], dtype)


SEEK = "(dotimes (i M) (set b {start}) {first} (dotimes (j N) (if {asked} {then})) {last})"
X = "(aref X i j)"
FORMS: dict[str, tuple[str, str, Callable[[Array], Array]]] = {
    "the largest": ("Y{f32}[M]", SEEK.format(start="-inf", first="", asked=f"(> {X} b)", then=f"(set b {X})", last="(setf (aref Y i) b)"), lambda x: rows(lambda r: largest(r)[0], x, np.float32)),
    "the smallest": ("Y{f32}[M]", SEEK.format(start="inf", first="", asked=f"(< {X} b)", then=f"(set b {X})", last="(setf (aref Y i) b)"), lambda x: rows(lambda r: -largest(-r)[0], x, np.float32)),
    "at least a half": ("Y{f32}[M]", SEEK.format(start="0.5", first="", asked=f"(>= {X} b)", then=f"(set b {X})", last="(setf (aref Y i) b)"), lambda x: rows(lambda r: largest(r, 0.5)[0], x, np.float32)),
    "where it is": ("Y{i64}[M]", SEEK.format(start="-inf", first="", asked=f"(> {X} b)", then=f"(progn (set b {X}) (setf (aref Y i) j))", last=""), lambda x: rows(lambda r: largest(r)[1], x, np.int64)),
    "where the smallest is": ("Y{i64}[M]", SEEK.format(start="inf", first="", asked=f"(< {X} b)", then=f"(progn (set b {X}) (setf (aref Y i) (* 2 j)))", last=""), lambda x: rows(lambda r: 2 * largest(-r)[1], x, np.int64)),
    "where, in a scalar": ("Y{i64}[M]", SEEK.format(start="0.25", first="(set a -1)", asked=f"(> {X} b)", then=f"(progn (set a j) (set b {X}))", last="(setf (aref Y i) a)"), lambda x: rows(lambda r: largest(r, 0.25)[1] if largest(r, 0.25)[0] > 0.25 else -1, x, np.int64)),
    "the running one": ("Y{f32}[M N]", f"(dotimes (i M) (set b -inf) (dotimes (j N) (if (> {X} b) (set b {X})) (setf (aref Y i j) b)))", lambda x: np.array([[largest(r[: j + 1])[0] for j in range(x.shape[1])] for r in x], np.float32).reshape(x.shape)),
}  # fmt: skip
STAY = {
    "the last of them": SEEK.format(start="-inf", first="", asked=f"(>= {X} b)", then=f"(progn (set b {X}) (setf (aref Y i) j))", last=""),
    "of some of them": SEEK.format(
        start="-inf", first="", asked=f"(and (> {X} 0) (> {X} b))", then=f"(progn (set b {X}) (setf (aref Y i) j))", last=""
    ),
    "what it says is read": SEEK.format(
        start="-inf", first="", asked=f"(> {X} b)", then=f"(progn (set b {X}) (setf (aref Y i) (- j (aref Y i))))", last=""
    ),
    "another one's": SEEK.format(
        start="-inf", first="(set c 0.0)", asked=f"(> {X} c)", then=f"(progn (set b {X}) (set c (+ c {X})) (setf (aref Y i) j))", last=""
    ),
}


def text_of(port: str, code: str) -> str:
    return f"(composite seek ((X{{f32}}[M N]) -> ({port})) {code})"


@pytest.mark.parametrize("name", FORMS)
def test_no_loops_are_left(name: str) -> None:
    assert not any(n.op == "nest" for n in graph_after("raise_loops", text_of(*FORMS[name][:2])).nodes())


@pytest.mark.parametrize("name", STAY)
def test_what_stays_loops(name: str) -> None:
    assert any(n.op == "nest" for n in graph_after("raise_loops", text_of("Y{i64}[M]", STAY[name])).nodes())


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    """With equals, numbers that are none, and rows of which nothing is larger than where they begin."""
    port, code, expected = FORMS[name]
    f, rng = luminal.compile(text_of(port, code), runtime="clang"), np.random.default_rng(SEED)
    for shape in ((0, 3), (3, 0), (1, 1), (5, 7), (9, 16), (33, 130)):
        x = rng.integers(-6, 6, shape).astype(np.float32) / 4
        for wrong in (0.0, np.nan, -np.inf, np.inf):
            x[rng.random(shape) < 0.2] = wrong
            x[: shape[0] // 4] = wrong
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(f(x), expected(x), err_msg=f"{name}, {shape}, {wrong}")


@needs_cc
def test_of_what_is_computed() -> None:
    """The nearest of some points, and how far it is."""
    text = """(composite nearest ((X{f32}[M D] Y{f32}[N D]) -> (W{f32}[M] Z{i64}[M]))
      (dotimes (i M) (set best inf) (set at 0)
        (dotimes (j N) (set d 0.0)
          (dotimes (k D) (set t (- (aref X i k) (aref Y j k))) (incf d (* t t)))
          (if (< d best) (progn (set best d) (set at j))))
        (setf (aref Z i) at) (setf (aref W i) best)))"""
    assert not any(n.op == "nest" for n in graph_after("raise_loops", text).nodes())
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for m, n, d in ((1, 1, 1), (37, 53, 5), (40, 300, 16), (7, 0, 3)):
        x, y = rng.standard_normal((m, d)).astype(np.float32), rng.standard_normal((n, d)).astype(np.float32)
        w, z = f(x, y)
        distances = ((x[:, None].astype(np.float64) - y) ** 2).sum(2)
        np.testing.assert_allclose(w, distances.min(1) if n else np.full(m, np.inf), rtol=1e-5)
        np.testing.assert_array_equal(z, distances.argmin(1) if n else np.zeros(m))


@needs_cc
def test_of_integers() -> None:
    text = "(composite seek ((X{i32}[M N]) -> (Y{i64}[M])) (dotimes (i M) (set b -100) (dotimes (j N) (if (> (aref X i j) b) (progn (set b (aref X i j)) (setf (aref Y i) j))))))"
    x = np.random.default_rng(SEED).integers(-99, 99, (23, 61), np.int32)
    np.testing.assert_array_equal(luminal.compile(text, runtime="clang")(x), x.argmax(1))
