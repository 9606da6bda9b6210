"""Thin products: columns that one vector holds, and reductions so short that nothing is worth a copy."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.schedule import schedule
from luminal.passes.schedule.cost import SHALLOW
from luminal.passes.schedule.steps.variants import parts_of
from scheduling import module, same_at

pytestmark = pytest.mark.usefixtures("plain_c")

# Vectors of 16 floats.
AVX512 = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)
NAMES = ["gemm", "gemm_f64", "gemm_scaled", "gemm_column_major", "matmul_bias"]


def steps(name: str, condition: str) -> tuple[str, ...]:
    """Of the variant under this condition."""
    m = module(name)
    (found,) = (k.schedule for c, k in parts_of(schedule(m, AVX512, Options()).kernels[0], m.kernels[0]) if str(c).startswith(condition))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_meaning(name: str) -> None:
    """Whole tiles, what is left over of rows and of columns, and less than one tile; without a race."""
    m = module(name)
    after = schedule(m, AVX512, Options())
    for sizes in [(1, 1, 1), (7, 5, 9), (8, 16, 3), (17, 16, 70), (33, 3, 5), (16, 33, SHALLOW), (9, 64, 4), (25, 70, 1), (3, 200, 2)]:
        assert same_at(m, after, dict(zip("MNK", sizes, strict=True)), np.random.default_rng(0)) == 0


FAR = replace(AVX512, l3=105 << 20)  # the last cache is that of many cores


@pytest.mark.parametrize(
    ("target", "condition"),
    [(AVX512, "(K * N <= 196608 | 16 <= M & M <= 128 & K * N <= 1048576)"), (FAR, "K * N <= 393216 & (K <= 31 | N <= 16 | K * M * N <= 8388608)")],
    ids=["near", "far"],
)
def test_how_much_is_read_in_place_depends_on_where_the_last_cache_is(target: Target, condition: str) -> None:
    """Where it is near, whatever stays in the second cache, and for some rows a few times that; columns of one vector are never packed."""
    m = module("gemm")
    target = replace(target, l2=2 << 20) if target is FAR else target
    (found,) = (c for c, k in parts_of(schedule(m, target, Options()).kernels[0], m.kernels[0]) if "split i 8" in k.schedule and "240 <= N" in str(c))
    assert str(found).endswith(condition)


def test_a_short_reduction_packs_nothing() -> None:
    """Threads share rows and columns, so that few rows of many columns are shared too."""
    found = steps("gemm", f"K <= {SHALLOW} & 17 <= N")
    assert found[-1] == "parallel i.0_j.0"
    assert not any(line.startswith("stage") for line in found)


LAYERS = {
    "a layer": "(composite c ((X{T}[M K] W{T}[N K] B{T}[N]) -> (Y{T}[M N])) (return (+ (matmul X (transpose W)) B)))",
    "layers": '(composite c ((X{T}[H M K] W{T}[H N K] B{T}[N]) -> (Y{T}[H M N])) (return (+ (einsum "hmk,hnk->hmn" X W) B)))',
}


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("name", LAYERS)
def test_few_columns_along_the_reduction_are_read_as_they_lie(name: str, target: str) -> None:
    """A layer of one output was packed as one of many, fifteen times as long."""
    f = luminal.compile(LAYERS[name], target=target)
    scripts = [line for k in f.compilation.module.kernels for line in k.schedule]
    few = next(k for k, line in enumerate(scripts) if line.startswith("variant N <= 16 & 64 <= K"))
    after = next(k for k, line in enumerate(scripts) if k > few and line.startswith("variant"))
    assert not any(line.startswith("stage") for line in scripts[few:after])
    draw = np.random.default_rng(0)
    for h, m, n, k in (
        (1, 8, 1, 64),
        (3, 67, 1, 65),
        (2, 17, 2, 130),
        (1, 65, 8, 64),
        (2, 41, 5, 1000),
        (1, 16, 2, 63),
        (1, 130, 16, 64),
        (2, 97, 12, 65),
    ):
        x, w, b = (draw.standard_normal(shape, np.float32) for shape in ((h, m, k), (h, n, k), (n,)))
        expected = np.einsum("hmk,hnk->hmn", x.astype(np.float64), w) + b
        found = f(x, w, b) if name == "layers" else np.stack([f(*rows, b) for rows in zip(x, w, strict=True)])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
