"""Loops of a nest that stays loops whose iterations are independent but for what they add up: two loops, and what must stay one."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.graph import Graph
from luminal.ir.kernel import Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 13

# a state that each step makes of the last keeps the nest a nest; what stands in the loop over n
SCAN = """(composite scan ((X{f32}[L N] A{f32}[N]) -> (Y{f32}[L] Z{f32}[N]))
  (make-array h f32 (N))
  (dotimes (k L) (dotimes (n N) BODY))
  (dotimes (i N) (setf (aref Z i) (aref h i))))"""
STEP = "(setf (aref h n) (+ (* (exp (aref A n)) (aref h n)) (aref X k n)))"
Array = np.ndarray
Iteration = Callable[[Array, Array, Array, Array, int, int], None]  # of h, x, a, y at k and n


def step(h: Array, x: Array, a: Array, k: int, n: int) -> float:
    h[n], before = np.exp(a[n]) * h[n] + x[k, n], h[n]
    return before


def read_after(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    step(h, x, a, k, n)
    y[k] += h[n] * a[n]


def read_before(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    y[k] += step(h, x, a, k, n) * a[n]


def twice(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    read_after(h, x, a, y, k, n)
    y[k] += x[k, n]


def named(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    h[n] = np.exp(a[n]) * (h[n] + x[k, n])
    y[k] += h[n]


def both(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    y[k] += step(h, x, a, k, n) + h[n] * a[n]


def neighbour(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    h[n] = 0.5 * h[(n + 1) % len(h)] + x[k, n]
    y[k] += h[n]


def so_far(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    h[n] = 0.5 * h[n] + 0.01 * y[k]
    y[k] += x[k, n]


def name_before(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    y[k] += step(h, x, a, k, n)


def one_state(h: Array, x: Array, a: Array, y: Array, k: int, n: int) -> None:
    h[0] = 0.5 * h[0] + x[k, n]
    y[k] += h[0]


APART: dict[str, tuple[str, Iteration]] = {
    "a state and what is read of it": (f"{STEP} (incf (aref Y k) (* (aref h n) (aref A n)))", read_after),
    "what is read of the last state": (f"(incf (aref Y k) (* (aref h n) (aref A n))) {STEP}", read_before),
    "two sums in one place": (f"{STEP} (incf (aref Y k) (* (aref h n) (aref A n))) (incf (aref Y k) (aref X k n))", twice),
    "a name of one part": (
        "(let ((e (exp (aref A n)))) (setf (aref h n) (+ (* e (aref h n)) (* e (aref X k n)))) (incf (aref Y k) (aref h n)))",
        named,
    ),
}
TOGETHER: dict[str, tuple[str, Iteration]] = {
    "the neighbour's state": ("(setf (aref h n) (+ (* 0.5 (aref h (mod (+ n 1) N))) (aref X k n))) (incf (aref Y k) (aref h n))", neighbour),
    "the sum so far": ("(setf (aref h n) (+ (* 0.5 (aref h n)) (* 0.01 (aref Y k)))) (incf (aref Y k) (aref X k n))", so_far),
    "a name for the last state": (f"(let ((e (aref h n))) {STEP} (incf (aref Y k) e))", name_before),
    "of both states, one after the other": (f"(incf (aref Y k) (aref h n)) {STEP} (incf (aref Y k) (* (aref h n) (aref A n)))", both),
    "one state for all": ("(setf (aref h 0) (+ (* 0.5 (aref h 0)) (aref X k n))) (incf (aref Y k) (aref h 0))", one_state),
}


def kinds(body: str) -> list[str]:
    """Of the loops over n, in order, what kind each is."""
    seen: list[Graph] = []
    (found,) = compilations(SCAN.replace("BODY", body), Settings(), observer=lambda at: seen.append(at.ir) if at.name == "raise_loops" else None)
    assert found.module.kernels
    nests = dict.fromkeys(n.attr.nest for n in seen[-1].nodes() if n.op == "nest")
    return [s.kind for nest in nests for s in statements(nest.body) if isinstance(s, Loop) and s.axis == "n"]


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    found = kinds(APART[name][0])
    assert found[:1] in (["parallel"], ["reduce"]) and len(found) > 1 and "serial" not in found


@pytest.mark.parametrize("name", TOGETHER)
def test_together(name: str) -> None:
    assert kinds(TOGETHER[name][0]) == ["serial"]


@needs_cc
@pytest.mark.parametrize("name", [*APART, *TOGETHER])
def test_values(name: str) -> None:
    """The same as the loops in their order, with sizes of no vector, and numbers that are none."""
    body, iteration = {**APART, **TOGETHER}[name]
    f, rng = luminal.compile(SCAN.replace("BODY", body), runtime="clang"), np.random.default_rng(SEED)
    for steps, n in ((0, 5), (5, 0), (1, 1), (4, 17), (3, 64)):
        x, a = rng.standard_normal((steps, n)).astype(np.float32), -rng.random(n, np.float32)
        for wrong in (0.0, np.nan, -np.inf):
            x[:, n // 2 : n // 2 + 1] = wrong
            y, h = np.zeros(steps), np.zeros(n)
            with np.errstate(invalid="ignore"):
                for k in range(steps):
                    for j in range(n):
                        iteration(h, x.astype(np.float64), a.astype(np.float64), y, k, j)
            for got, expected in zip(f(x, a), (y, h), strict=True):
                np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
