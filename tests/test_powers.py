"""A polynomial by its powers, as loops write it: what runs along a loop, and is only added up there, is no tensor of one element a term."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

POWERS = "(composite powers ((X{f32}[N] A{f32}[K]) -> (Y{f32}[N])) (dotimes (n N) (set v 0.0) (set p 1.0) (dotimes (k K) (incf v (* p (aref A k))) (mulcf p (aref X n))) (setf (aref Y n) v)))"
SHARED = "(composite discounted ((X{f32}[N K]) -> (Y{f32}[N])) (dotimes (n N) (set v 0.0) (set p 1.0) (dotimes (k K) (incf v (* p (aref X n k))) (mulcf p 0.9)) (setf (aref Y n) v)))"


@pytest.mark.parametrize(("text", "axes"), [(POWERS, []), (SHARED, [1])])
def test_loops(text: str, axes: list[int]) -> None:
    """Powers that all rows share are a tensor of their own: the rest is a product."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    assert [len(t.shape) for t in found.module.temps] == axes


@needs_cc
@pytest.mark.parametrize(("n", "k"), [(0, 3), (4, 0), (1, 1), (67, 9), (1000, 10)])
def test_values(n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    x, a = rng.random(n).astype(np.float32), rng.standard_normal(k).astype(np.float32)
    np.testing.assert_allclose(luminal.compile(POWERS, runtime="clang")(x, a), np.vander(x.astype(np.float64), k, True) @ a, rtol=1e-5, atol=1e-5)
    rows = rng.standard_normal((n, k)).astype(np.float32)
    np.testing.assert_allclose(luminal.compile(SHARED, runtime="clang")(rows), rows.astype(np.float64) @ 0.9 ** np.arange(k), rtol=1e-5, atol=1e-5)
