"""Loops that stay loops because each iteration needs the one before: what is inside of them is still summed in vectors, along the axis in which memory is consecutive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.bounds import Known
from luminal.ir.kernel import Loop, Nest, statements
from luminal.ir.text import show
from luminal.passes.loops.loop_events import Events

pytestmark = pytest.mark.usefixtures("plain_c")

POWER = """(composite power ((A{f32}[N N]) -> (v{f32}[N]))
  (setf x (ones N))
  (dotimes (k 10) (set y (matmul A x)) (setf x (/ y (sqrt (sum (* y y))))))
  (return x))"""
DELTA = """(composite delta ((Q{f32}[H T D] K{f32}[H T D] V{f32}[H T E]) -> (O{f32}[H T E]))
  (dotimes (h H)
    (set S (zeros (D E)))
    (dotimes (i T)
      (set r (- (aref V h i) (matmul (aref K h i) S)))
      (setf S (+ S (* 0.5 (einsum "d,e->de" (aref K h i) r))))
      (setf (aref O h i) (matmul (aref Q h i) S)))))"""
TOTALS = """(composite totals ((X{f32}[N]) -> (Y{f32}[N]))
  (dotimes (k 3)
    (set s 0.0)
    (dotimes (i N) (incf s (aref X i)) (setf (aref Y i) (* s (+ k (aref Y i)))))))"""


THRESHOLD = """(composite threshold ((X{f32}[N D](where D > 0)) -> (Y{f32}[N] Z{f32}[N]))
  (dotimes (n N)
    (let ((tau -1.0))
      (dotimes (k 5)
        (let ((count 0.0) (total 0.0) (below inf))
          (dotimes (d D)
            (if (> (aref X n d) tau)
              (progn (incf count) (incf total (aref X n d)) (minf below (aref X n d)))
              (decf total 0.25)))
          (setf (aref Z n) below)
          (set tau (/ (- total 1) (max 1 count)))))
      (setf (aref Y n) tau))))"""


def test_what_a_nest_does_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has two results, and stays loops."""
    looked_at: list[Nest] = []
    before = Events.__init__

    def counted(self: Events, nest: Nest, known: Known) -> None:
        looked_at.append(nest)
        before(self, nest, known)

    monkeypatch.setattr(Events, "__init__", counted)
    (found,) = compilations(THRESHOLD, Settings())
    assert any(isinstance(s, Loop) and s.kind == "serial" for k in found.module.kernels for s in statements(k.body))
    assert len({id(nest.body) for nest in looked_at}) == len(looked_at)


def threshold(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tau = np.full(len(x), -1.0)
    for _ in range(5):
        above = x > tau[:, None]
        least = np.where(above, x, np.inf).min(1)
        tau = (np.where(above, x, -0.25).sum(1) - 1) / np.maximum(above.sum(1), 1)
    return tau, least


def power(a: np.ndarray) -> np.ndarray:
    x = np.ones(len(a))
    for _ in range(10):
        x = (y := a @ x) / np.sqrt((y * y).sum())
    return x


def delta(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    found = np.zeros((*q.shape[:2], v.shape[2]))
    for h in range(len(q)):
        s = np.zeros((q.shape[2], v.shape[2]))
        for i in range(q.shape[1]):
            s = s + 0.5 * np.outer(k[h, i], v[h, i] - k[h, i] @ s)
            found[h, i] = q[h, i] @ s
    return found


def after(text: str, stage: str, **settings: Any) -> Any:
    (c,) = compilations(text, Settings(**settings))
    return c.run(stop_after=stage)


def test_what_only_accumulates_is_a_reduction() -> None:
    """The products and the sum of squares; the running sum, which is read in its own loop, is none."""
    loops = {s.axis: s.kind for k in after(POWER, "make_nests").kernels for s in statements(k.body) if isinstance(s, Loop)}
    assert loops["p"] == loops["p_2"] == "reduce"
    assert loops["k"] == "serial"
    assert "reduce" not in {s.kind for k in after(TOTALS, "make_nests").kernels for s in statements(k.body) if isinstance(s, Loop)}


def test_what_an_if_adds_is_a_choice() -> None:
    """In lanes side by side, with nothing of what the choice leaves out."""
    scheduled = show(after(THRESHOLD, "schedule"))
    assert "stays scalar" not in scheduled and 'schedule "rfactor' in scheduled


@needs_cc
@pytest.mark.parametrize("strict", [False, True])
def test_what_an_if_leaves_out(strict: bool) -> None:
    f, rng = luminal.compile(THRESHOLD, runtime="clang", strict=strict), np.random.default_rng(7)
    for n, d in ((1, 1), (3, 17), (2, 64), (5, 131)):
        x = rng.integers(-8, 9, (n, d)).astype(np.float32) / 4  # sums of these are exact, so no element changes sides
        x[-1, -1] = -np.inf
        for found, expected in zip(f(x), threshold(x.astype(np.float64)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=f"seed 7, {n} x {d}")


def test_sums_keep_their_order_where_that_is_asked_for() -> None:
    assert 'schedule "rfactor' in show(after(POWER, "schedule"))
    assert 'schedule "rfactor' not in show(after(POWER, "schedule", strict=True))


def test_vectors_are_along_what_is_consecutive_in_local_memory() -> None:
    """A row times a matrix that the loop carries on: its columns are side by side."""
    notes = [n for k in after(DELTA, "schedule").kernels for n in k.notes]
    assert sum("along the kept axis" in n for n in notes) >= 2, notes
    assert not any("accumulate along" in n for n in notes), notes


@needs_cc
@pytest.mark.parametrize(
    ("text", "reference", "shapes"),
    [
        (POWER, power, [((n, n),) for n in (1, 7, 16, 65, 130)]),
        (DELTA, delta, [((h, t, d), (h, t, d), (h, t, e)) for h, t, d, e in ((1, 1, 1, 1), (2, 5, 7, 3), (3, 9, 33, 71))]),
    ],
    ids=["power iteration", "delta rule"],
)
@pytest.mark.parametrize("strict", [False, True])
def test_compiled(text: str, reference: Callable[..., np.ndarray], shapes: list[tuple[tuple[int, ...], ...]], strict: bool) -> None:
    f = luminal.compile(text, runtime="clang", strict=strict)
    rng = np.random.default_rng(5)
    for some in shapes:
        inputs = [(rng.random(s) * 0.3).astype(np.float32) for s in some]
        np.testing.assert_allclose(f(*inputs), reference(*(x.astype(np.float64) for x in inputs)), rtol=2e-4, atol=1e-5)


@needs_cc
def test_what_a_later_statement_adds_is_no_part_of_a_running_maximum() -> None:
    """The element before holds what both statements made of it."""
    text = """(composite both ((T{i64}[N N] B{i64}[N N]) -> (T))
      (loop (i 2 N) (loop (j 1 N)
        (maxf (aref T i j) (aref T i (- j 1)))
        (dotimes (k j) (incf (aref T i j) (aref B k j))))))"""
    f = luminal.compile(text, runtime="clang")
    rng = np.random.default_rng(6)
    for n in (1, 2, 7, 33):
        t, b = rng.integers(-3, 4, (2, n, n))
        expected = t.copy()
        for i in range(2, n):
            for j in range(1, n):
                expected[i, j] = max(expected[i, j], expected[i, j - 1]) + b[:j, j].sum()
        f(t, b)
        np.testing.assert_array_equal(t, expected)
