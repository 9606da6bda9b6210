"""Products of which a mask leaves a triangle: tiles outside of it are not summed up, however the mask is written, and values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, loads_in, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 3
SIZES = ((1, 1), (13, 9), (40, 33), (157, 130), (300, 1100))  # few rows, panels of each thread's own, blocks of rows, blocks along the sum

TENSORS = """(composite lower ((A{f32}[N K] B{f32}[K N]) -> (C{f32}[N N]))
  (return (where (<= (iota N) (unsqueeze (iota N) :axis 1)) (matmul A B) 0.0)))"""
BAND = """(composite band ((A{f32}[N K] B{f32}[K N]) -> (C{f32}[N N]))
  (setf i (unsqueeze (iota N) :axis 1))
  (setf j (iota N))
  (return (where (and (<= j (+ i 5)) (<= i (+ j 40))) (matmul A B) -1.0)))"""
LOOPS = """(composite loops ((A{f32}[N K] B{f32}[K N] C{f32}[N N]) -> (C))
  (dotimes (i N) (dotimes (j (+ i 1)) (dotimes (k K) (incf (aref C i j) (* (aref A i k) (aref B k j)))))))"""
BOTH = """(composite both ((A{f32}[N K] B{f32}[K N]) -> (C{f32}[N N]))
  (dotimes (i N)
    (loop (j i N)
      (dotimes (k K) (incf (aref C i j) (* (aref A i k) (aref B k j))))
      (setf (aref C j i) (aref C i j)))))"""
BY_DATA = """(composite chosen ((A{f32}[N K] B{f32}[K N] M{f32}[N N]) -> (C{f32}[N N]))
  (return (where (> M 0.0) (matmul A B) 0.0)))"""


def schedules(text: str) -> list[str]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return [line for k in found.run("schedule").kernels for line in k.schedule]


@pytest.mark.parametrize("text", [TENSORS, BAND, LOOPS, BOTH])
def test_tiles_outside_of_a_mask_are_left_out(text: str) -> None:
    assert any(line.startswith("skip ") for line in schedules(text))


def test_what_data_decide_is_summed_up() -> None:
    assert not any(line.startswith("skip ") for line in schedules(BY_DATA))


def test_a_product_for_both_triangles_is_finished_where_it_is_summed_up() -> None:
    """What is stored between the two kernels is masked already."""
    (found,) = compilations(BOTH, Settings(runtime="clang", target="x86-64-v3"))
    product, _ = found.run("make_nests").kernels
    (stored,) = (s for s in statements(product.body) if getattr(s, "buffer", "") in {b.name for b in found.run("make_nests").temps})
    assert "where" in {n.op for n in _parts(stored.expressions())}
    assert loads_in(*stored.expressions())


def _parts(expressions: tuple) -> list:  # pyright: ignore[reportMissingTypeArgument]
    from luminal.ir.walks import postorder

    return list(postorder(*expressions))


def expected(text: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    product, n = a @ b, len(a)
    i, j = np.arange(n)[:, None], np.arange(n)
    if text is TENSORS:
        return np.where(j <= i, product, 0)
    if text is BAND:
        return np.where((j <= i + 5) & (i <= j + 40), product, -1)
    if text is LOOPS:
        return np.where(j <= i, c + product, c)
    return np.where(i <= j, product, product.T)


@needs_cc
@pytest.mark.parametrize("text", [TENSORS, BAND, LOOPS, BOTH])
def test_values(text: str) -> None:
    f = luminal.compile(text)
    rng = np.random.default_rng(SEED)
    for n, k in SIZES:
        a, b, c = rng.standard_normal((n, k)), rng.standard_normal((k, n)), rng.standard_normal((n, n))
        given = [x.astype(np.float32) for x in ((a, b, c) if text is LOOPS else (a, b))]
        wanted = expected(text, *(x.astype(np.float32).astype(np.float64) for x in (a, b, c)))
        np.testing.assert_allclose(f(*given), wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {SEED}, N={n}, K={k}")


@pytest.mark.parametrize("text", [TENSORS, LOOPS])
def test_every_plan_of_a_product_leaves_tiles_out(text: str) -> None:
    """In place, in strips, in panels: each variant that has register tiles."""
    variants = "\n".join(schedules(text)).split("variant")
    assert sum("\nskip " in v for v in variants) >= 3


SCALED = """(composite scaled ((A{f32}[K N]) -> (C{f32}[N N]))
  (setf x (/ A (sqrt (sum (* A A) :axis 0))))
  (dotimes (i N) (loop (j (+ i 1) N) (setf (aref C i j) 0.0) (dotimes (k K) (incf (aref C i j) (* (aref x k i) (aref x k j)))))))"""


@needs_cc
def test_what_is_taken_out_of_a_masked_sum_needs_no_tensor_of_the_mask() -> None:
    (found,) = compilations(SCALED, Settings(runtime="clang", target="x86-64-v3"))
    *_, product = found.run("make_nests").kernels
    assert len(product.buffers) == 3
    assert sum(isinstance(s, Loop) and s.kind == "reduce" for s in statements(product.body)) == 1  # nor a sum of truths
    f, rng = luminal.compile(SCALED), np.random.default_rng(SEED)
    for n, k in SIZES:
        a = rng.standard_normal((k, n)).astype(np.float32)
        x = a.astype(np.float64) / np.sqrt((a.astype(np.float64) ** 2).sum(0))
        np.testing.assert_allclose(f(a), np.triu(x.T @ x, 1), rtol=1e-3, atol=1e-3, err_msg=f"seed {SEED}, N={n}, K={k}")
