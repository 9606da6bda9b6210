"""The kernels of tests/kernels, machines to schedule them for, and whether two modules compute the same: what tests of schedules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.evaluate import evaluate
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.target import Target
from luminal.ir.text import read

HALVES = "split q 32 tail=cut\nrfactor q.1\nvectorize q.1\nalign j Y\nsplit j 32 tail=cut\nvectorize j.1"
KERNELS = {p.stem: p for p in sorted((Path(__file__).parent / "kernels").glob("*.kernel"))}
# A small machine, so that small sizes pass every block: tiles of 2×8, panels of 8, row blocks of a few tiles.
CPU = Target("clang", "small", "small", vector_bytes=16, vector_registers=8, l1=128, l2=512, cores=2, threads=True)
GPU = Target("cuda", "gpu", "gpu", gpu=True)

# Products of bytes, twice their sums, and the same of small floats.
BYTES = """kernels bytes v1
size M
size N
size K
in A: i8[M, K]
in B: i8[K, N]
out C: i32[M, N]
kernel bytes_0(A, B, C):
  for i in 0 .. M parallel:
    for j in 0 .. N parallel:
      alloc acc: i32[] register
      acc[] = 0:i32
      for p in 0 .. K reduce:
        acc[] add= cast.i32(A[i, p]) * cast.i32(B[p, j])
      C[i, j] = acc[] * 2:i32
"""
FLOATS = BYTES.replace("i8", "bf16").replace("i32", "f32").replace("0:f32", "0.0:f32").replace("2:f32", "2.0:f32")


def module(name: str) -> Module:
    found = read(KERNELS[name].read_text())
    assert isinstance(found, Module)
    return found


def sizes_of(m: Module, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Nothing, one, a few odd ones around the blocks, and one longer than two panels; each a multiple of what it is declared to be."""
    for sizes in _any_sizes(m, rng):
        yield whole(m, sizes)


def whole(m: Module, sizes: dict[str, int]) -> dict[str, int]:
    return {s.name: -(-sizes[s.name] // s.multiple) * s.multiple for s in m.sizes}


def _any_sizes(m: Module, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    if not m.sizes:
        yield {}
        return
    yield {s.name: 0 for s in m.sizes}
    yield {s.name: 1 for s in m.sizes}
    many = len(m.sizes) > 3
    for _ in range(2):
        yield {s.name: int(rng.choice([0, 1, 2, 3, 5, 7] if many else [0, 1, 2, 3, 5, 7, 8, 9, 17])) for s in m.sizes}
    yield {s.name: 2 if many else 5 for s in m.sizes} | {s.name: 19 for s in m.sizes if s.name in "KM"}
    yield {s.name: 3 for s in m.sizes} | {s.name: 21 for s in m.sizes if s.name in "NW"}


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
        same_at(before, after, sizes, rng, seed)


def same_at(before: Module, after: Module, sizes: dict[str, int], rng: np.random.Generator, seed: int = 1) -> int:
    """The same at these sizes; the code that both return."""
    start = arrays(before, sizes, rng)
    expected, found = ({n: a.copy() for n, a in start.items()} for _ in range(2))
    code = run(before, expected, sizes, exact=True)
    assert run(after, found, sizes, exact=True, check=True, seed=seed) == code, (sizes, seed)
    for p in before.ports:
        if code == 0 and p.role != "in":
            np.testing.assert_allclose(found[p.name], expected[p.name], rtol=1e-9, atol=1e-9, err_msg=f"{p.name} at {sizes}, seed {seed}")
    return code
