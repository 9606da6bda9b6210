"""Borders of packed panels: values there, and functions of the sums in lanes."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

TYPES = {"f32": np.float32, "f64": np.float64}


@needs_cc
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_values(dtype: str) -> None:
    f = luminal.compile("matmul", dtype={"T": dtype}, runtime="clang", target="native")
    rng = np.random.default_rng(3)
    for m, n, k in ((146, 136, 1030), (147, 149, 1030), (148, 129, 1030), (153, 144, 1030), (154, 160, 1030)):
        a, b = (rng.standard_normal(shape).astype(TYPES[dtype]) for shape in ((m, k), (k, n)))
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(f(a, b), wanted, atol=1e-3 if dtype == "f32" else 1e-11, err_msg=f"{m}×{n}×{k}")


LAYER = "(composite layer ((X{T}[N K] W{T}[K H] B{T}[H]) -> (Y{T}[N H])) (return (gelu (+ (matmul X W) B))))"


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_functions_of_sums_are_in_lanes_at_borders_too(target: str) -> None:
    (found,) = compilations(LAYER, Settings(runtime="clang", target=target, dtype={"T": "f32"}))
    assert "erff(" not in found.rendered.source


@needs_cc
def test_values_of_functions_at_borders() -> None:
    f = luminal.compile(LAYER, dtype={"T": "f32"}, runtime="clang", target="native")
    g = luminal.compile("(composite g ((X{f32}[N K]) -> (Y{f32}[N K])) (return (gelu X)))", runtime="clang", target="native")
    rng = np.random.default_rng(5)
    for m, n, k in ((146, 136, 1030), (147, 149, 300), (140, 128, 300), (129, 33, 2100)):
        x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
        wanted = g((x.astype(np.float64) @ w.astype(np.float64) + b).astype(np.float32))
        np.testing.assert_allclose(f(x, w, b), wanted, atol=1e-3, err_msg=f"{m}×{n}×{k}")
