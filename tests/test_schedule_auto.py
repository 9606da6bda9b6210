"""The automatic schedule of every kernel in tests/kernels computes what the kernel computed, without a race, at sizes around its blocks; and replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.expr import evaluate
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.passes.schedule import Facts, replay, schedule, unique

KERNELS = {p.stem: p for p in sorted((Path(__file__).parent / "kernels").glob("*.kernel"))}
# A small machine, so that small sizes pass every block: tiles of 2×8, panels of 8, row blocks of a few tiles.
CPU = Target("clang", "small", "small", vector_bytes=16, vector_registers=8, l1=128, l2=512, cores=2, threads=True)
GPU = Target("cuda", "gpu", "gpu", gpu=True)


def module(name: str) -> Module:
    found = read(KERNELS[name].read_text())
    assert isinstance(found, Module)
    return found


def sizes_of(m: Module, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Nothing, one, a few odd ones around the blocks, and one longer than two panels."""
    yield {s.name: 0 for s in m.sizes}
    yield {s.name: 1 for s in m.sizes}
    for _ in range(3):
        yield {s.name: int(rng.choice([0, 1, 2, 3, 5, 7, 8, 9, 17])) for s in m.sizes}
    yield {s.name: 5 for s in m.sizes} | {s.name: 19 for s in m.sizes if s.name in "KM"}
    yield {s.name: 3 for s in m.sizes} | {s.name: 21 for s in m.sizes if s.name == "N"}


def arrays(m: Module, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {}
    for p in m.ports:
        shape = tuple(evaluate(e, sizes) for e in p.shape)
        limit = None if p.index_limit is None else max(1, evaluate(p.index_limit, sizes))
        values = rng.integers(0, limit, shape) if limit else rng.integers(-8, 9, shape) if p.dtype.is_integer else rng.standard_normal(shape)
        found[p.name] = np.asarray(values).astype(np.float64 if p.dtype.is_float else numpy_dtype(p.dtype))
    return found


def same(before: Module, after: Module, seed: int = 0) -> None:
    """Both modules give the same results (exactly, but for the order of sums) and the second one no race; checked on every size class."""
    rng = np.random.default_rng(seed)
    for sizes in sizes_of(before, rng):
        start = arrays(before, sizes, rng)
        expected = {n: a.copy() for n, a in start.items()}
        found = {n: a.copy() for n, a in start.items()}
        code = run(before, expected, sizes, exact=True)
        assert run(after, found, sizes, exact=True, check=True, seed=seed) == code, (sizes, seed)
        for p in before.ports:
            if code == 0 and p.role != "in":
                np.testing.assert_allclose(found[p.name], expected[p.name], rtol=1e-9, atol=1e-9, err_msg=f"{p.name} at {sizes}, seed {seed}")


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_cpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options()))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_strictly(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options(strict=True)))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_gpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, GPU, Options(level=0)))


@pytest.mark.parametrize("name", KERNELS)
def test_the_recorded_script_replays(name: str) -> None:
    before = module(name)
    for target in (CPU, GPU):
        for old, new in zip(before.kernels, schedule(before, target, Options()).kernels, strict=True):
            again = replay(unique(old), Facts.of(before), new.schedule)
            assert replace(new, notes=()) == replace(again, notes=())


def test_low_levels_leave_a_cpu_kernel_alone() -> None:
    before = module("gemm")
    assert schedule(before, CPU, Options(level=1)) == before


@pytest.mark.parametrize("name", ["gemm", "matmul_bias", "gemm_scaled", "gemm_transposed", "gemm_column_major", "gram", "gemm_i32", "gemm_f16", "gemm_f64",
                                  "max_plus", "batched", "linear", "two_reductions", "prologue", "convolution"])  # fmt: skip
def test_reuse_is_found_whatever_the_operation(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert kernel.schedule[-1] == "region", kernel.notes


@pytest.mark.parametrize("name", ["row_sum", "column_sum", "matvec", "vecmat", "softmax", "softmax_columns", "pointwise", "broadcast", "total_sum"])
def test_memory_bound_kernels_get_vectors(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert any(line.startswith("vectorize") for line in kernel.schedule), kernel.notes


AVX512 = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)


@pytest.mark.parametrize("name", ["gemm", "matmul_bias", "softmax", "column_sum", "transpose"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.scheduled.kernel", show(schedule(module(name), AVX512, Options())))


@pytest.mark.parametrize("name", ["gemm", "softmax"])
def test_golden_gpu(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.grid.kernel", show(schedule(module(name), GPU, Options())))
