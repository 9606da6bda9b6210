"""lower, simplify_index and hoist keep the meaning: the kernels run as the program does after each of them, bit for bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.evaluate import evaluate
from luminal.ir.graph import Port
from luminal.ir.interpret import kernel, program
from luminal.ir.kernel import Module, port_buffer
from luminal.ir.program import Program
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.passes.hoist import hoist
from luminal.passes.lower import lower
from luminal.passes.lower.flatten import span
from luminal.passes.simplify_index import simplify_index
from numpy.lib.stride_tricks import as_strided
from random_code import random_module as random_pieces
from random_kernels import random_module

GOLDEN = Path(__file__).parent / "golden"
TARGETS = [Target("clang", "test", "test", vector_bytes=b, threads=b > 0) for b in (0, 16, 32)]
Memory = dict[str, Any]


def stages(module: Module, target: Target) -> list[Program]:
    lowered = lower(module, target, Options())
    simple = simplify_index(lowered, target, Options())
    return [lowered, simple, hoist(simple, target, Options()), hoist(lowered, target, Options())]


def memory_of(port: Port, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    """Flat memory, small whole numbers: sums are exact in any order."""
    if port.role == "scalar":
        return 2.0
    count = max(0, evaluate(span(port_buffer(port)), sizes))
    low, high = (0, evaluate(port.index_limit, sizes)) if port.index_limit is not None else (-4, 5)
    return rng.integers(low, high, count).astype(numpy_dtype(port.dtype))


def logical(port: Port, memory: Any, sizes: dict[str, int]) -> Any:
    """The tensor that a port's memory holds."""
    if port.role == "scalar":
        return memory
    b = port_buffer(port)
    shape = tuple(evaluate(e, sizes) for e in b.shape)
    strides = tuple(evaluate(b.stride(k), sizes) * memory.itemsize for k in range(len(shape)))
    return as_strided(memory, shape, strides) if memory.size else np.empty(shape, memory.dtype)


def compare(module: Module, sizes: dict[str, int], seed: int, targets: list[Target] = TARGETS, *, check: bool = True) -> None:
    rng = np.random.default_rng(seed)
    start = {p.name: memory_of(p, sizes, rng) for p in module.ports}
    wanted = {n: m if np.isscalar(m) else m.copy() for n, m in start.items()}
    code = kernel.run(module, {p.name: logical(p, wanted[p.name], sizes) for p in module.ports}, sizes, check=check, seed=seed)
    for target in targets:
        for stage, lowered in enumerate(stages(module, target)):
            found = {n: m if np.isscalar(m) else m.copy() for n, m in start.items()}
            what = f"seed {seed}, sizes {sizes}, {target.vector_bytes} bytes, stage {stage}"
            assert program.run(lowered, found, sizes, check=check, seed=seed) == code, what
            if code == 0:
                for name, memory in found.items():
                    np.testing.assert_array_equal(memory, wanted[name], err_msg=f"{name}: {what}")


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels(seed: int) -> None:
    module = random_module(seed)
    for m, n, more in ((0, 3, 0), (2, 0, 0), (1, 1, 1), (3, 9, 0), (2, 17, 2), (6, 8, 0)):
        compare(module, {"M": m, "N": n, "ldw": max(1, n + more)}, seed, TARGETS[:2])


@pytest.mark.parametrize("seed", range(8))
def test_random_pieces(seed: int) -> None:
    module = random_pieces(random.Random(seed))
    for m, n in ((0, 3), (2, 0), (1, 1), (3, 9), (5, 17)):
        compare(module, {"M": m, "N": n}, seed, TARGETS[:2])


@pytest.mark.parametrize("name", ["gemm", "matmul_bias"])
def test_scheduled_contractions(name: str) -> None:
    """The packed, threaded form, with blocks small enough to see several of them."""
    text = (GOLDEN / f"{name}.scheduled.kernel").read_text().replace("512", "8").replace("511", "7")
    module = read(text)
    assert isinstance(module, Module)
    for m, n, k in ((0, 3, 2), (1, 1, 1), (15, 33, 9), (14, 32, 8), (3, 0, 2), (2, 2, 0)):
        compare(module, {"M": m, "N": n, "K": k}, 1, TARGETS[2:], check=False)


@pytest.mark.parametrize("name", ["gemm", "matmul_bias"])
def test_the_program_of_a_scheduled_contraction(name: str, golden) -> None:
    module = read((GOLDEN / f"{name}.scheduled.kernel").read_text())
    assert isinstance(module, Module)
    golden(f"{name}.scheduled.program", show(stages(module, TARGETS[2])[2]))


GRID = """kernels k v1
size M
size N
in x: f32[M, N]
out y: f32[N, M]

kernel transpose(x, y):
  for i.0 in 0 .. ((M + 3) // 4) block.y:
    for j.0 in 0 .. ((N + 7) // 8) block.x:
      alloc tile: f32[4, 8] shared
      for i.1 in 0 .. 4 thread.y:
        for j.1 in 0 .. 8 thread.x:
          if i.0 * 4 + i.1 < M & j.0 * 8 + j.1 < N:
            tile[i.1, j.1] = x[i.0 * 4 + i.1, j.0 * 8 + j.1]
          barrier
          if i.0 * 4 + i.1 < M & j.0 * 8 + j.1 < N:
            y[j.0 * 8 + j.1, i.0 * 4 + i.1] = tile[i.1, j.1]
"""


def test_a_grid() -> None:
    """A tile through shared memory on a GPU, and the same kernel without its barrier on one thread."""
    gpu = Target("cuda", "test", "test", gpu=True)
    for text, targets in ((GRID, [gpu]), (GRID.replace("          barrier\n", ""), TARGETS[:1])):
        module = read(text)
        assert isinstance(module, Module)
        for m, n in ((0, 3), (1, 1), (4, 8), (9, 17)):
            compare(module, {"M": m, "N": n}, 1, targets, check=False)
