"""Steps of time of which several are in flight, each a row behind the last: which are, and that values are what they were, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import If, Loop, statements
from luminal.passes.schedule import cost

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 31
ALONE, THREADS = {"OMP": False}, {"OMP": True}
# two arrays of doubles beyond half a megabyte, with rows of which several are in the cache, and of which few are; and what stays there
SHAPES = ((90, 400), (70, 1501), (6, 6001), (3, 12000), (2, 20000), (9, 17))
# rows enough for pieces, of eight steps and of fewer, and pieces that are no divisor
MANY = ((300, 300), (131, 701), (1027, 81), (40, 1101), (9, 17))
STEPS = (0, 1, 2, 7, 8, 9, 20)


def looped(*loops: str) -> str:
    return f"(composite looped ((A{{f64}}[M N] B{{f64}}[M N] steps{{i64}}[]) -> (A B)) (dotimes (t steps) {' '.join(loops)}))"


def rows(body: str, first: str = "1", last: str = "(- M 1)") -> str:
    return f"(loop (i {first} {last}) (loop (j 1 (- N 1)) {body}))"


MEAN = "(setf (aref {0} i j) (* 0.25 (+ (aref {1} (- i {2}) j) (aref {1} (+ i {2}) j) (aref {1} i (- j 1)) (aref {1} i (+ j 1)))))"
FIELD = (
    "(dotimes (j N) (setf (aref A 0 j) (cast f64 t)))",
    rows("(decf (aref A i j) (* 0.5 (- (aref B i j) (aref B (- i 1) j))))", last="M"),
    rows("(decf (aref B i j) (* 0.5 (- (aref A (+ i 1) j) (aref A i j))))", first="0"),
)
TEXTS = {
    "BOTH": looped(rows(MEAN.format("B", "A", 1)), rows(MEAN.format("A", "B", 1))),
    "FIELD": looped(*FIELD),
    "TWO": looped(rows(MEAN.format("B", "A", 2), "2", "(- M 2)"), rows(MEAN.format("A", "B", 2), "2", "(- M 2)")),
    "SUMS": looped(
        "(loop (i 1 (- M 1)) (loop (j 1 (- N 1)) (let ((s 0)) (loop (k -1 2) (incf s (aref A (+ i k) (+ j k)))) (setf (aref B i j) (/ s 3)))))",
        rows(MEAN.format("A", "B", 1)),
    ),
    "ONWARDS": looped(
        rows("(setf (aref B i j) (* 0.5 (+ (aref A i (- j 1)) (aref A i (+ j 1)))))", "3", "(- M 3)"),
        rows("(setf (aref A i j) (* 0.5 (+ (aref A i j) (aref B (- i 3) j))))", "3", "(- M 3)"),
        rows("(setf (aref A i j) (* 1.25 (aref A i j)))"),
        rows("(setf (aref A i j) (* 0.75 (aref A i j)))"),
    ),
    "THREE": looped(rows(MEAN.format("B", "A", 3), "3", "(- M 3)"), rows(MEAN.format("A", "B", 3), "3", "(- M 3)")),
    "TURNED": looped(rows(MEAN.format("B", "A", 1)), rows("(setf (aref A i j) (* 0.5 (aref B (- (- M 1) i) j)))")),
    "FEWER": looped(rows(MEAN.format("B", "A", 1), "t"), rows(MEAN.format("A", "B", 1))).replace("(loop (i t", "(loop (i (max t 1)"),
}


def mean(to: np.ndarray, of: np.ndarray, far: int) -> None:
    m = len(to) - far
    if m > far:
        to[far:m, 1:-1] = 0.25 * (of[: m - far, 1:-1] + of[2 * far :, 1:-1] + of[far:m, :-2] + of[far:m, 2:])


def each_way(a: np.ndarray, b: np.ndarray, far: int) -> None:
    mean(b, a, far)
    mean(a, b, far)


def field(a: np.ndarray, b: np.ndarray, t: int) -> None:
    a[0] = t
    a[1:, 1:-1] -= 0.5 * (b[1:, 1:-1] - b[:-1, 1:-1])
    b[:-1, 1:-1] -= 0.5 * (a[1:, 1:-1] - a[:-1, 1:-1])


def sums(a: np.ndarray, b: np.ndarray) -> None:
    b[1:-1, 1:-1] = (a[:-2, :-2] + a[1:-1, 1:-1] + a[2:, 2:]) / 3 if len(a) > 2 else 0
    mean(a, b, 1)


def turned(a: np.ndarray, b: np.ndarray) -> None:
    mean(b, a, 1)
    a[1:-1, 1:-1] = 0.5 * b[::-1][1:-1, 1:-1]


def onwards(a: np.ndarray, b: np.ndarray) -> None:
    m, n = len(a) - 3, a.shape[1] - 1
    if m > 3:
        b[3:m, 1:n] = 0.5 * (a[3:m, : n - 1] + a[3:m, 2:])
        a[3:m, 1:n] = 0.5 * (a[3:m, 1:n] + b[: m - 3, 1:n])
    a[1:-1, 1:-1] *= 1.25
    a[1:-1, 1:-1] *= 0.75


def fewer(a: np.ndarray, b: np.ndarray, t: int) -> None:
    one = b.copy()
    mean(one, a, 1)
    b[max(t, 1) :] = one[max(t, 1) :]
    mean(a, b, 1)


# what a step does, and how many rows a loop of it is behind the one before: none where steps go one after the other
CASES: dict[str, tuple[Callable[[np.ndarray, np.ndarray, int], None], int]] = {
    "BOTH": (lambda a, b, t: each_way(a, b, 1), 1),
    "FIELD": (field, 1),
    "TWO": (lambda a, b, t: each_way(a, b, 2), 2),
    "SUMS": (lambda a, b, t: sums(a, b), 1),
    "ONWARDS": (lambda a, b, t: onwards(a, b), 1),
    "THREE": (lambda a, b, t: each_way(a, b, 3), 0),
    "TURNED": (lambda a, b, t: turned(a, b), 0),
    "FEWER": (fewer, 0),
}


def nests(text: str, config: dict[str, bool]) -> list[Loop]:
    """The loops over fronts of what becomes of the text."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", config=config))
    every = {id(n.attr.nest): n.attr.nest for n in found.run("raise_loops").nodes() if n.attr.nest is not None}
    return [s for nest in every.values() for s in statements(nest.body) if isinstance(s, Loop) and s.axis.endswith(".row")]


@pytest.mark.parametrize("name", CASES)
def test_which(name: str) -> None:
    _, behind = CASES[name]
    fronts = nests(TEXTS[name], ALONE)
    assert len(fronts) == (behind > 0)
    for front in fronts:
        (step,) = front.body
        assert isinstance(step, Loop) and all(isinstance(s, If) for s in step.body)
        count = len(step.body)
        assert f"* {count * behind}" in str(step.body[0].expressions()[0])


@pytest.mark.parametrize("name", CASES)
def test_threads_share_pieces_of_rows(name: str) -> None:
    """Pieces on which all steps in flight run, and then what is between two of them: these need what they read to be near on either side."""
    fronts = nests(TEXTS[name], THREADS)
    assert len(fronts) == (CASES[name][1] > 0 and name != "ONWARDS")
    for front in fronts:
        (step,) = front.body
        assert isinstance(step, Loop) and all(isinstance(s, If) and "piece" in str(s.condition) and "between" in str(s.condition) for s in step.body)


@needs_cc
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("config", (ALONE, THREADS), ids=("alone", "threads"))
def test_values(name: str, config: dict[str, bool]) -> None:
    each, _ = CASES[name]
    f = luminal.compile(TEXTS[name], runtime="clang", target="x86-64-v3", config=config)
    rng = np.random.default_rng(SEED)
    for k, shape in enumerate(MANY if config is THREADS else SHAPES):
        for steps in STEPS if k == 0 else (9,):
            a, b = rng.standard_normal(shape), rng.standard_normal(shape)
            wanted = a.copy(), b.copy()
            for t in range(steps):
                each(*wanted, t)
            f(a, b, steps)
            np.testing.assert_allclose(a, wanted[0], rtol=1e-12, atol=1e-14, err_msg=f"{name}, {shape}, {steps} steps, seed {SEED}")
            np.testing.assert_allclose(b, wanted[1], rtol=1e-12, atol=1e-14, err_msg=f"{name}, {shape}, {steps} steps, seed {SEED}")


def test_steps_that_store_other_elements() -> None:
    """The columns of a factor in blocks have rows too, but hand nothing on that would come from far."""
    assert not nests(str(Path(luminal.__file__).parent / "bench" / "polybench" / "lu.toml"), ALONE)


CUBE = "(composite cube ((A{f64}[N N N] B{f64}[N N N] steps{i64}[]) -> (A B)) (dotimes (t steps)" + "".join(
    f"(loop (i 1 (- N 1)) (loop (j 1 (- N 1)) (loop (k 1 (- N 1)) (setf (aref {b} i j k)"
    f" (* 0.25 (+ (aref {a} (- i 1) j k) (aref {a} (+ i 1) j k) (aref {a} i j (- k 1)) (aref {a} i j (+ k 1))))))))"
    for a, b in ("AB", "BA")
)
CUBE += "))"


def test_vectors_begin_at_lines() -> None:
    """Those of planes that are known to be far; rows of a cube are short."""
    plane, cube = (
        [
            s.split()[2:]
            for s in compilations(text, Settings(runtime="clang", target="x86-64-v3", config=ALONE))[0].run("schedule").kernels[0].schedule
            if "align" in s
        ]
        for text in (TEXTS["BOTH"], CUBE)
    )
    assert plane == [["B", f"trips={cost.LINES_ANYWHERE * 8}"], ["A", f"trips={cost.LINES_ANYWHERE * 8}"]]
    assert not cube


@needs_cc
@pytest.mark.parametrize("config", (ALONE, THREADS), ids=("alone", "threads"))
def test_wherever_memory_begins(config: dict[str, bool]) -> None:
    plane, cube = (luminal.compile(text, runtime="clang", target="x86-64-v3", config=config) for text in (TEXTS["BOTH"], CUBE))
    rng = np.random.default_rng(SEED)
    for f, shape in ((plane, (300, 304)), (plane, (301, 299)), (cube, (41, 41, 41))):
        size = int(np.prod(shape))
        for offset in range(8):
            a, b = (rng.standard_normal(size + 8)[k : k + size].reshape(shape) for k in (offset, 3 * offset % 8))
            wanted = a.copy(), b.copy()
            for _ in range(9):
                if len(shape) == 2:
                    each_way(*wanted, 1)
                else:
                    for x, y in (wanted, wanted[::-1]):
                        y[1:-1, 1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:])
            f(a, b, 9)
            np.testing.assert_allclose(a, wanted[0], rtol=1e-12, atol=1e-14, err_msg=f"{shape}, {offset} elements past a line, seed {SEED}")
            np.testing.assert_allclose(b, wanted[1], rtol=1e-12, atol=1e-14, err_msg=f"{shape}, {offset} elements past a line, seed {SEED}")
