"""Short loops of known trips in which an iteration needs another one: written out, each row is a value of its own (`passes/written_out.py`)."""

import luminal
import numpy as np
import pytest

BUTTERFLIES = """
(composite butterflies ((X{f32}[N 8]) -> (Y{f32}[N 8]))
  (dotimes (n N)
    (dotimes (i 8) (setf (aref Y n i) (aref X n i)))
    (dotimes (s 3)
      (dotimes (i 4)
        (let ((lo (+ (* (floordiv i (ash 1 s)) (ash 2 s)) (mod i (ash 1 s)))))
          (let ((u (aref Y n lo)) (v (aref Y n (+ lo (ash 1 s)))))
            (setf (aref Y n lo) (+ u v))
            (setf (aref Y n (+ lo (ash 1 s))) (- u v))))))))
"""

CHOLESKY = """
(composite cholesky3 ((A{f32}[N 3 3]) -> (L{f32}[N 3 3]))
  (dotimes (n N)
    (dotimes (j 3)
      (let ((s (aref A n j j)))
        (dotimes (k j) (decf s (* (aref L n j k) (aref L n j k))))
        (setf (aref L n j j) (sqrt s)))
      (loop (i (+ j 1) 3)
        (let ((s (aref A n i j)))
          (dotimes (k j) (decf s (* (aref L n i k) (aref L n j k))))
          (setf (aref L n i j) (/ s (aref L n j j))))))))
"""

INVERSE = """
(composite inverse2 ((A{f32}[N 2 2]) -> (B{f32}[N 2 2]))
  (dotimes (n N)
    (set m (zeros (2 4)))
    (dotimes (i 2) (dotimes (j 2) (setf (aref m i j) (aref A n i j))) (setf (aref m i (+ 2 i)) 1.0))
    (dotimes (k 2)
      (let ((r (/ 1.0 (aref m k k))))
        (dotimes (j 4) (setf (aref m k j) (* r (aref m k j)))))
      (dotimes (i 2)
        (if (/= i k)
          (let ((f (aref m i k)))
            (dotimes (j 4) (setf (aref m i j) (- (aref m i j) (* f (aref m k j)))))))))
    (dotimes (i 2) (dotimes (j 2) (setf (aref B n i j) (aref m i (+ 2 j)))))))
"""

IN_PLACE = """
(composite sorted3 ((X{i32}[N 3]) -> (X))
  (dotimes (n N)
    (dotimes (p 3)
      (dotimes (i (- 2 (mod p 2)))
        (let ((a (aref X n i)) (b (aref X n (+ i 1))))
          (setf (aref X n i) (min a b))
          (setf (aref X n (+ i 1)) (max a b)))))))
"""


def spd(n, k):
    a = np.random.default_rng(n).standard_normal((n, k, k)).astype(np.float32)
    return a @ a.transpose(0, 2, 1) + np.eye(k, dtype=np.float32)


def raised(text):
    """The compiled composite, in whose kernels no loop stayed a loop."""
    f = luminal.compile(text)
    assert not any("stay loops" in note for _, note in f.compilation.notes)
    return f


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_butterflies(n):
    h = np.array([[1]])
    for _ in range(3):
        h = np.block([[h, h], [h, -h]])
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    np.testing.assert_allclose(raised(BUTTERFLIES)(x), x @ h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_what_is_not_stored_stays_zero(n):
    a = spd(n, 3)
    np.testing.assert_allclose(raised(CHOLESKY)(a), np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_local_arrays(n):
    a = spd(n, 2)
    np.testing.assert_allclose(raised(INVERSE)(a), np.linalg.inv(a), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_in_place(n):
    x = np.random.default_rng(n).integers(-9, 9, (n, 3)).astype(np.int32)
    expected = np.sort(x, axis=1)
    np.testing.assert_array_equal(raised(IN_PLACE)(x), expected)


def test_elements_that_may_be_the_same_stay_in_memory():
    text = """
    (composite steps ((X{i32}[N 2] I{i64}[N]) -> (Y{i32}[N 2]))
      (dotimes (n N)
        (dotimes (k 2)
          (setf (aref Y n (aref I n)) (+ (aref Y n k) (aref X n k))))))
    """
    x, i = np.arange(8, dtype=np.int32).reshape(4, 2), np.array([0, 1, 1, 0])
    y = np.zeros_like(x)
    for n in range(4):
        for k in range(2):
            y[n, i[n]] = y[n, k] + x[n, k]
    np.testing.assert_array_equal(luminal.compile(text)(x, i), y)


def test_loops_of_unknown_trips_keep_the_loops_around_them() -> None:
    """Ten products are one kernel that runs ten times, not ten."""
    text = "(composite power ((A{f32}[N N]) -> (v{f32}[N])) (setf x (ones N)) (dotimes (k 10) (setf x (matmul A x))) (return x))"
    assert any("stay loops" in note for _, note in luminal.compile(text).compilation.notes)
