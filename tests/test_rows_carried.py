"""Rows along which something is carried, several at a time: sums, recurrences and logarithms of sums against float64 at lengths around squares, and what is left row by row."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 23
SIZES = [(1, 1), (3, 40), (4, 17), (7, 16), (16, 15), (17, 33), (31, 5), (35, 100), (64, 1)]
SMOOTHED = """
(composite smoothed ((X{T}[M N] A{T}[M N]) -> (Y{T}[M N]))
  (dotimes (i M)
    (set s (cast T 0))
    (dotimes (j N)
      (set s (+ (* (aref A i j) s) (aref X i j)))
      (setf (aref Y i j) s))))
"""
BATCHED = """
(composite batched ((X{f32}[B H N]) -> (Y{f32}[B H N] Z{f32}[B H N]))
  (dotimes (b B)
    (dotimes (h H)
      (set s 0.0)
      (set best -inf)
      (dotimes (j N)
        (set s (+ s (exp (aref X b h j))))
        (set best (max best (- (aref X b h j) s)))
        (setf (aref Y b h j) (log s))
        (setf (aref Z b h j) best)))))
"""
SHARES = "(composite shares ((X{f32}[M N]) -> (Y{f32}[M N])) (return (/ (cumsum X :axis 1) (sum (abs X) :axis 1 :keepdims t))))"
PARTLY = """
(composite partly ((X{f32}[M N]) -> (Y{f32}[M N] Count{f32}[M]))
  (dotimes (i M)
    (set s 0.0)
    (dotimes (j N)
      (set s (+ (* 0.5 s) (aref X i j)))
      (if (> s 1)
        (progn (setf (aref Y i j) s) (incf (aref Count i)) (set s 0.0))
        (set s (* s 0.9))))))
"""
IN_BLOCKS = """
(composite in_blocks ((X{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (b (floordiv (+ M 15) 16))
    (dotimes (l (min %d (- M (* 16 b))))
      (set s 0.0)
      (dotimes (j N)
        (set s (/ (aref X (+ (* 16 b) l) j) (+ 2.0 (* s s))))
        (setf (aref Y (+ (* 16 b) l) j) s)))))
"""
NESTED = """
(composite nested ((X{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set s 0.0)
    (dotimes (j N)
      (set s (+ (* 0.5 s) (aref X i j)))
      (if (> s 0) (if (< s 1) (progn (setf (aref Y i j) s) (set s 0.0)))))))
"""


def lines(f):
    return [line.split() for k in f.compilation.level("kernel").kernels for line in k.schedule]


def steps(f):
    return {line[0] for line in lines(f)}


def drawn(*shapes, dtype="float32"):
    rng = np.random.default_rng(SEED)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


@needs_cc
@pytest.mark.parametrize("vector", [16, 32, 64])
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 2e-5), ("f64", 1e-13)])
def test_a_recurrence(vector, dtype, bound):
    f = luminal.compile(SMOOTHED, dtype={"T": dtype}, config={"VECTOR": vector})
    assert "write_back" in steps(f)
    for m, n in SIZES:
        x, a = drawn((m, n), (m, n), dtype=dtype.replace("f", "float"))
        a *= 0.5
        expected, s = np.zeros((m, n)), np.zeros(m)
        for j in range(n):
            s = a[:, j].astype(np.float64) * s + x[:, j]
            expected[:, j] = s
        np.testing.assert_allclose(f(x, a), expected, rtol=0, atol=bound, err_msg=f"M={m} N={n}, seed {SEED}")


@needs_cc
def test_several_axes_are_one_of_rows_and_results_have_squares_of_their_own():
    f = luminal.compile(BATCHED, config={"VECTOR": 64})
    assert ["collapse", "i", "j"] in lines(f) and sum(line[0] == "write_back" for line in lines(f)) == 8
    for b, h, n in [(2, 9, 40), (3, 1, 16), (5, 4, 1)]:
        (x,) = drawn((b, h, n))
        s = np.cumsum(np.exp(x.astype(np.float64)), -1)
        y, z = f(x)
        np.testing.assert_allclose(y, np.log(s), rtol=0, atol=1e-5)
        np.testing.assert_allclose(z, np.maximum.accumulate(x - s, -1), rtol=2e-6, atol=1e-5)


@needs_cc
def test_a_sum_beside_it():
    f = luminal.compile(SHARES, config={"VECTOR": 64})
    for m, n in SIZES:
        (x,) = drawn((m, n))
        wide = x.astype(np.float64)
        np.testing.assert_allclose(f(x), wide.cumsum(1) / np.abs(wide).sum(1, keepdims=True), rtol=0, atol=1e-5, err_msg=f"M={m} N={n}")


@needs_cc
def test_short_rows_that_take_little_stay_as_they_are():
    f = luminal.compile("cumsum", config={"VECTOR": 64})
    assert ["variant", "16", "<=", "N"] in lines(f)
    last = [s for s in f.compilation.level("kernel").kernels[0].body if isinstance(s, Loop)][-1]
    assert not any(isinstance(s, Loop) and s.kind == "vector" for s in statements(last.body))
    for m, n in SIZES:
        (x,) = drawn((m, n))
        x[m // 2, n // 2] = np.inf
        x[0, 0] = np.nan
        np.testing.assert_allclose(f(x), np.cumsum(x, 1), rtol=0, atol=2e-5, err_msg=f"M={m} N={n}")


@needs_cc
def test_what_data_decides_is_a_choice():
    """What is stored under a condition is stored in any case, as it was where it does not hold."""
    f = luminal.compile(PARTLY, config={"VECTOR": 64})
    assert {"write_back", "select"} <= steps(f)
    for m, n in SIZES:
        (x,) = drawn((m, n))
        expected, count, s = np.zeros((m, n)), np.zeros(m), np.zeros(m)
        for j in range(n):
            s = 0.5 * s + x[:, j].astype(np.float64)
            assert np.abs(s - 1).min() > 1e-5  # float32 decides the same
            expected[:, j] = np.where(s > 1, s, 0)
            count += s > 1
            s = np.where(s > 1, 0, s * 0.9)
        y, found = f(x)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5, err_msg=f"M={m} N={n}, seed {SEED}")
        np.testing.assert_array_equal(found, count)


@needs_cc
def test_conditions_in_conditions_stay_row_by_row():
    f = luminal.compile(NESTED, config={"VECTOR": 64})
    (x,) = drawn((20, 33))
    expected, s = np.zeros((20, 33)), np.zeros(20)
    for j in range(33):
        s = 0.5 * s + x[:, j].astype(np.float64)
        hit = (s > 0) & (s < 1)
        expected[:, j] = np.where(hit, s, 0)
        s = np.where(hit, 0, s)
    np.testing.assert_allclose(f(x), expected, rtol=0, atol=1e-5)


def test_what_is_stored_whole_does_not_begin_as_zeros():
    assert len(luminal.compile(SMOOTHED, dtype={"T": "f32"}).compilation.level("kernel").kernels) == 1
    assert len(luminal.compile(PARTLY).compilation.level("kernel").kernels) == 2
    assert len(luminal.compile(IN_BLOCKS % 16).compilation.level("kernel").kernels) == 1
    assert len(luminal.compile(IN_BLOCKS % 15).compilation.level("kernel").kernels) == 2


@needs_cc
@pytest.mark.parametrize("length", [15, 16])
def test_rows_in_blocks(length):
    """The last block may be short; of blocks with a gap in between, the rows there are zeros."""
    f = luminal.compile(IN_BLOCKS % length)
    for m in (0, 1, 16, 33):
        (x,) = drawn((m, 5))
        expected, s = np.zeros((m, 5)), np.zeros(m)
        for j in range(5):
            s = x[:, j].astype(np.float64) / (2 + s * s)
            expected[:, j] = np.where(np.arange(m) % 16 < length, s, 0)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)


BACKWARDS = """
(composite backwards ((X{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set s 0.0)
    (loop (j (- N 1) -1 -1)
      (set s (+ (aref X i j) (* 0.5 s)))
      (setf (aref Y i j) s))))
"""
FLIPPED = "(composite flipped ((X{f32}[M N]) -> (Y{f32}[M N])) (return (exp (* 0.1 (flip (cumsum (flip X :axis 1) :axis 1) :axis 1)))))"


@needs_cc
@pytest.mark.parametrize("text", [BACKWARDS, FLIPPED], ids=["loops", "tensors"])
def test_from_the_end_of_a_row(text):
    """Squares are loaded and stored as they lie, and mirrored; what only the row uses of it stays in its own memory, which is the same."""
    f = luminal.compile(text, config={"VECTOR": 64})
    assert {"write_back", "mirror"} <= steps(f)
    for m, n in SIZES:
        (x,) = drawn((m, n))
        expected, s = np.zeros((m, n)), np.zeros(m)
        for j in reversed(range(n)):
            s = (0.5 if text is BACKWARDS else 1) * s + x[:, j].astype(np.float64)
            expected[:, j] = s if text is BACKWARDS else np.exp(0.1 * s)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-5, err_msg=f"M={m} N={n}, seed {SEED}")
