"""Short loops of known trips in which an iteration needs another one: written out, each row is a value of its own (`passes/loops/written_out.py`)."""

import luminal
import numpy as np
import pytest
from compilers import FAMILIES

pytestmark = pytest.mark.usefixtures("plain_c")

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


# A loop doubles what counts its trips; angles and bit-reversed positions are known in each.
STAGES = """
(composite stages ((X{c64}[N 8]) -> (Y{c64}[N 8]))
  (dotimes (n N)
    (dotimes (i 8)
      (set place 0)
      (set rest i)
      (dotimes (t 3) (set place (+ (* 2 place) (mod rest 2))) (set rest (floordiv rest 2)))
      (setf (aref Y n i) (aref X n place)))
    (set half 1)
    (while (< half 8) :max 5
      (loop (start 0 8 (* 2 half))
        (dotimes (j half)
          (let ((i (+ start j)) (w (exp (complex 0 (/ (* -1.0 pi j) half)))))
            (let ((u (aref Y n i)) (v (* w (aref Y n (+ i half)))))
              (setf (aref Y n i) (+ u v))
              (setf (aref Y n (+ i half)) (- u v))))))
      (set half (* 2 half)))))
"""


def spd(n, k):
    a = np.random.default_rng(n).standard_normal((n, k, k)).astype(np.float32)
    return a @ a.transpose(0, 2, 1) + np.eye(k, dtype=np.float32)


def raised(text, **options):
    """The compiled composite, in whose kernels no loop stayed a loop."""
    f = luminal.compile(text, **options)
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


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_rounds_that_a_scalar_counts(n):
    x = np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32).view(np.complex64)
    f = raised(STAGES)
    assert not any(name in f.source for name in ("cosf(", "sinf(", "expf("))
    np.testing.assert_allclose(f(x), np.fft.fft(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [8, 12, 7])
def test_the_transform_of_short_rows(n):
    x = np.random.default_rng(n).standard_normal((5, 2 * n)).astype(np.float32).view(np.complex64)
    f = raised(f"(composite short ((X{{c64}}[M {n}]) -> Y) (return (fft X)))")
    np.testing.assert_allclose(f(x), np.fft.fft(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(set k 0) (while (< k 3) :max 2 (incf k)) (setf (aref Y n 0) k)", 2),  # no more than so many
        ("(set k 0) (while (< k 3) :max 9 (incf k 2)) (setf (aref Y n 0) k)", 4),
        ("(set k 5) (while (< k 3) (incf k)) (setf (aref Y n 0) k)", 5),
        ("(set k 1) (dotimes (i 3) (if (> (aref X n) 0) (set k 7))) (setf (aref Y n (mod k 2)) k)", 7),  # of a branch that may be taken
        ("(set k 1) (if (> (aref X n) 0) (set k 2) (set k 2)) (dotimes (i k) (incf (aref Y n i) k))", 2),
        ("(set k 1) (dotimes (i 2) (set k (* k 3)) (setf (aref Y n 0) k))", 9),
        ("(set k 8) (set t 0) (while (> k (aref X n)) :max 20 (decf k) (incf t)) (setf (aref Y n 0) t)", 7),  # data decides how often
    ],
)
def test_scalars_in_rounds(text, expected):
    f = luminal.compile(f"(composite rounds ((X{{i64}}[N]) -> (Y{{i64}}[N 2])) (dotimes (n N) {text}))")
    assert expected in f(np.array([1, 1, 1]))[2].tolist()


@pytest.mark.parametrize(("n", "family"), [(2, "clang"), (5, "clang"), (8, "clang"), (5, "gcc")])
def test_elements_that_data_chooses_of_a_few(n, family):
    """A merge of runs reads the one or the other: of short rows that is a choice between values."""
    if family not in FAMILIES:
        pytest.skip(f"no {family}")
    f = raised(f"(composite sorted ((X{{f32}}[N {n}]) -> Y) (return (sort X)))", config={"CC": FAMILIES[family]})
    x = np.random.default_rng(n).integers(-2, 3, (40, n)).astype(np.float32)
    x[::3, 0] = np.nan
    x[::4, -1] = -np.inf
    np.testing.assert_array_equal(f(x), np.sort(x))


def test_of_many_elements_data_chooses_in_memory():
    f = luminal.compile("(composite sorted ((X{f32}[N 17]) -> Y) (return (sort X)))")
    assert any("stay loops" in note for _, note in f.compilation.notes)
    x = np.random.default_rng(17).standard_normal((3, 17)).astype(np.float32)
    np.testing.assert_array_equal(f(x), np.sort(x))


RUNS = """
(composite runs ((X{f32}[N 5]) -> (Y{f32}[N 6]))
  (dotimes (n N)
    (set run 0)
    (dotimes (i 5)
      (if (> (aref X n i) 1) (incf run))
      (incf (aref Y n run) (aref X n i))
      (if (< (aref Y n run) 0) (setf (aref Y n run) 0.0)))))
"""


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_elements_that_data_chooses_are_stored(n):
    """Sums of runs that begin where something is larger than 1: how many runs there are so far has ends, so no index is looked at."""
    x = np.random.default_rng(n).integers(-2, 5, (n, 5)).astype(np.float32)
    y = np.zeros((n, 6), np.float32)
    for r in range(n):
        run = 0
        for i in range(5):
            run += int(x[r, i] > 1)
            y[r, run] = max(y[r, run] + x[r, i], 0)
    np.testing.assert_array_equal(raised(RUNS)(x), y)


def test_an_index_out_of_range_is_an_error_still():
    text = """(composite counts ((X{i64}[N 5]) -> (Y{i64}[N 4]))
      (dotimes (n N) (set last 0) (dotimes (i 5) (incf (aref Y n (aref X n i)) (+ 1 last)) (set last (aref Y n (aref X n i))))))"""
    x = np.random.default_rng(4).integers(0, 4, (33, 5))
    y = np.zeros((33, 4), np.int64)
    for n in range(33):
        last = 0
        for i in range(5):
            y[n, x[n, i]] += 1 + last
            last = y[n, x[n, i]]
    f = luminal.compile(text)
    np.testing.assert_array_equal(f(x), y)
    x[7, 3] = 4
    with pytest.raises(ValueError, match="index out of range"):
        f(x)


# Eight elements of every other group of columns, by a network of exchanges; how many rounds there are around it nobody knows.
NETWORK = """
(composite network ((X{f32}[G 8 W] rounds{i64}[]) -> (Y{f32}[G 8 W]))
  (setf Y X)
  (set round 0)
  (while (< round rounds)
    (dotimes (g G)
      (dotimes (w W)
        (make-array v f32 (8))
        (dotimes (j 8) (setf (aref v j) (aref Y g j w)))
        (set p 4)
        (while (> p 0)
          (set q 4)
          (set r 0)
          (set d p)
          (while (> d 0)
            (loop (start r (- 8 d) (* 2 p))
              (loop (i start (min (+ start p) (- 8 d)))
                (let ((x (aref v i)) (y (aref v (+ i d))))
                  (setf (aref v i) (if (< y x) y x))
                  (setf (aref v (+ i d)) (if (< y x) x y)))))
            (set d (- q p))
            (set q (floordiv q 2))
            (set r p))
          (set p (floordiv p 2)))
        (dotimes (j 8) (setf (aref Y g j w) (aref v j)))))
    (incf round)))
"""


def test_a_network_inside_loops_that_stay_is_in_variables():
    """Of a local array of few elements only variables are left, and nothing that counted its rounds: a vector is as wide as the elements let it be."""
    f = luminal.compile(NETWORK, target="x86-64-v3")
    x = np.random.default_rng(8).standard_normal((3, 8, 21)).astype(np.float32)
    np.testing.assert_array_equal(f(x, 1), np.sort(x, axis=1))
    np.testing.assert_array_equal(f(x, 0), x)
    assert "f32x8 v11[1]" in f.source
    assert "float v[8]" not in f.source and "splat_i64" not in f.source


def test_of_what_one_while_holds_nothing_is_proven(monkeypatch):
    """Its rounds hold all of it, whatever the elements are that two statements touch."""
    from luminal.passes.loops.dependence import Dependences

    asked = []
    meet = Dependences.meet
    monkeypatch.setattr(Dependences, "meet", lambda self, a, b: asked.append((a, b)) or meet(self, a, b))
    text = """(composite halves ((X{f32}[N]) -> (X))
      (set d N)
      (while (> d 1)
        (set d (floordiv d 2))
        (dotimes (i d) (incf (aref X i) (aref X (+ i d))) (setf (aref X (+ i d)) 0.0))))"""
    f = luminal.compile(text)
    x = np.arange(16, dtype=np.float32)
    assert f(x)[0] == 120
    assert not [1 for a, b in asked if a.buffer == b.buffer == "X" and a is not b and a.loops and a.loops[0] == b.loops[0] and a.index != b.index]
