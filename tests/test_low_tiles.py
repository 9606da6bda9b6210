"""Register tiles where there are sixteen registers: panels of columns in the first cache, few columns in place; few rows that a matrix streams by once."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.dtypes import DType, f32, f64
from luminal.ir.evaluate import holds
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.schedule import cost, schedule
from luminal.passes.schedule.steps.variants import parts_of
from scheduling import module, same_at

SEED = 3

LOW = Target("clang", "avx2", "avx2", vector_bytes=32, vector_registers=16, l1=32 << 10, l2=512 << 10, l3=16 << 20, cores=2, threads=True)
WIDE = replace(LOW, vector_bytes=64, vector_registers=32)


@pytest.mark.parametrize("dtype", [f32, f64])
def test_panels_stay_in_the_first_cache(dtype: DType) -> None:
    """Where tiles are low; others let deeper ones stream through it."""
    low, wide = cost.blocking(LOW, dtype), cost.blocking(WIDE, dtype)
    assert low.deep * low.columns * dtype.bytes <= LOW.l1 // cost.LOW_PART < 2 * low.deep * low.columns * dtype.bytes
    assert wide.deep * wide.columns * dtype.bytes >= LOW.l1 and low.tiles * low.rows > 32
    assert "stays in the first cache" in low.reasons[1]


def chosen(target: Target, **sizes: int) -> tuple[str, ...]:
    """The steps of the variant that the sizes pick of a product."""
    m = module("gemm")
    (kernel,) = schedule(m, target, Options()).kernels
    return next(k.schedule for c, k in parts_of(kernel, m.kernels[0]) if c is None or holds(c, sizes))


def test_of_few_columns_nothing_is_packed() -> None:
    """Up to two panels of them, of an operand up to twice the second cache; with more registers, and of more columns, panels are."""
    packed = [any(line.startswith("stage") for line in chosen(target, M=4096, K=4096, N=n)) for target, n in ((LOW, 32), (LOW, 33), (WIDE, 32))]
    assert packed == [False, True, True]


@pytest.mark.parametrize("target", [LOW, WIDE])
def test_few_rows_stream_by_once(target: Target) -> None:
    block, m = cost.blocking(target, f32), module("gemm")
    rows = 2 * block.direct_rows
    assert f"split i {rows}" in chosen(target, M=rows, K=2048, N=2048)
    small = replace(target, l1=2048, l2=4096)  # so that an operand of some columns is far
    after = schedule(m, small, Options())
    for n in (rows - 1, rows):
        assert f"split i {rows}" in chosen(small, M=n, K=17, N=70)
        assert same_at(m, after, {"M": n, "K": 17, "N": 70}, np.random.default_rng(SEED)) == 0
