"""Loops around numbers that are data, but the same throughout an iteration of what is around: which are independent, that their index checks stand outside, and that positions which wrap are outside too."""

from __future__ import annotations

from itertools import pairwise

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Check, Loop, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5

# The stride doubles in each round; STORES stand in the innermost loop.
ROUNDS = """(composite rounds ((X{{f32}}[N]) -> (Y{{f32}}[N]))
  (setf Y X)
  (set stride 1)
  (while (< stride N)
    (dotimes (i (floordiv N (* 2 stride)))
      (dotimes (q stride)
        (set a (aref Y (+ q (* stride (* 2 i)))))
        (set b (aref Y (+ q (* stride (+ 1 (* 2 i))))))
        {stores}))
    (set stride (* 2 stride))))"""
BUTTERFLY = "(setf (aref Y (+ q (* stride (* 2 i)))) (+ a b)) (setf (aref Y (+ q (* stride (+ 1 (* 2 i))))) (- a b))"
OVERLAPPING = "(setf (aref Y (+ q (* (- stride 1) (* 2 i)))) (+ a b))"
NEIGHBOUR = "(setf (aref Y (+ q (* stride (* 2 i)))) (+ a (aref Y (max 0 (- (+ q (* stride (* 2 i))) 1)))))"

# Segments of a row, from P[s] to P[s + 1].
SEGMENTS = """(composite segments ((V{f32}[L] P{i64}[S](where S >= 1)) -> (Y{f32}[L]))
  (dotimes (s (- S 1))
    (set m -inf)
    (loop (k (aref P s) (aref P (+ s 1))) (setf m (max m (aref V k))))
    (set t 0.0)
    (loop (k (aref P s) (aref P (+ s 1))) (setf (aref Y k) (exp (- (aref V k) m))) (incf t (aref Y k)))
    (loop (k (aref P s) (aref P (+ s 1))) (divcf (aref Y k) t))))"""

# X at PLACE, for k from 0 to n = P[s].
COUNTED = "(composite counted ((X{{f32}}[L] P{{i64}}[S]) -> (Y{{f32}}[S])) (dotimes (s S) (set n (aref P s)) (loop (k 0 n) (incf (aref Y s) (aref X {place})))))"
LARGEST = 2**63 - 1


def loops(text: str) -> dict[str, Loop]:
    """The loops of the nest that stays, by their variable."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    nests = [n.attr.nest for n in found.run("raise_loops").nodes() if n.op == "nest"]
    assert nests
    return {s.axis: s for nest in nests if nest is not None for s in statements(nest.body) if isinstance(s, Loop)}


def test_the_same_stride_tells_elements_apart() -> None:
    q = loops(ROUNDS.format(stores=BUTTERFLY))["q"]
    assert q.kind == "parallel"
    assert not any(isinstance(s, Check) for s in statements(q.body))


@pytest.mark.parametrize("stores", [OVERLAPPING, NEIGHBOUR])
def test_what_may_be_the_same_stays_in_order(stores: str) -> None:
    assert loops(ROUNDS.format(stores=stores))["q"].kind == "serial"


def test_an_extreme_and_a_sum_of_a_segment() -> None:
    (found,) = compilations(SEGMENTS, Settings(runtime="clang", target="x86-64-v3"))
    nest = next(n.attr.nest for n in found.run("raise_loops").nodes() if n.op == "nest")
    assert nest is not None
    assert [s.kind for s in statements(nest.body) if isinstance(s, Loop)] == ["serial", "reduce", "parallel", "reduce", "parallel"]


@needs_cc
@pytest.mark.parametrize("n", [1, 2, 8, 64, 512])
def test_values_in_rounds(n: int) -> None:
    x = np.random.default_rng(SEED).standard_normal(n).astype(np.float32)
    want = x.copy()
    stride = 1
    while stride < n:
        pairs = want.reshape(-1, 2, stride)
        want = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        stride *= 2
    np.testing.assert_allclose(luminal.compile(ROUNDS.format(stores=BUTTERFLY))(x), want, rtol=1e-4, atol=1e-4)


@needs_cc
@pytest.mark.parametrize("stores", [OVERLAPPING, NEIGHBOUR])
def test_values_in_order(stores: str) -> None:
    x = np.random.default_rng(SEED).standard_normal(64).astype(np.float32)
    want = x.copy()
    stride = 1
    while stride < 64:
        for i in range(64 // (2 * stride)):
            for q in range(stride):
                at = q + stride * 2 * i
                a, b = want[at], want[at + stride]
                if stores is OVERLAPPING:
                    want[q + (stride - 1) * 2 * i] = a + b
                else:
                    want[at] = a + want[max(0, at - 1)]
        stride *= 2
    np.testing.assert_allclose(luminal.compile(ROUNDS.format(stores=stores))(x), want, rtol=1e-4, atol=1e-4)


@needs_cc
def test_values_of_segments() -> None:
    rng = np.random.default_rng(SEED)
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 90, 20))])
    v = rng.standard_normal(ends[-1]).astype(np.float32)
    want = np.zeros(len(v))
    for a, b in pairwise(ends):
        if a < b:
            e = np.exp(v[a:b].astype(np.float64) - v[a:b].max())
            want[a:b] = e / e.sum()
    f = luminal.compile(SEGMENTS)
    np.testing.assert_allclose(f(v, ends), want, rtol=1e-5, atol=1e-7)
    for bad in (np.array([-1, 3]), np.array([0, len(v) + 1]), np.array([LARGEST - 3, LARGEST])):
        with pytest.raises(ValueError, match="index out of range"):
            f(v, bad)


@needs_cc
@pytest.mark.parametrize("place", ["k", "(+ k 3)", "(+ k n)", "(* 3 k)", "(* k n)", "(* k (- 5 n))"])
def test_positions_that_wrap_are_outside(place: str) -> None:
    f = luminal.compile(COUNTED.format(place=place))
    x = np.ones(1000, np.float32)
    assert f(x, np.array([2, -5, 0])).tolist() == [2, 0, 0]
    for n in (LARGEST, LARGEST - 2, 2**62, 2**62 + 3, 2**61, LARGEST // 3 + 1, 1001):
        with pytest.raises(ValueError, match="index out of range"):
            f(x, np.array([n]))
