"""Rows that are read where they lie and strips of columns that each thread packs for itself; tiles of columns of three widths, where nothing is packed."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.passes.schedule import cost, schedule, strips
from luminal.passes.schedule.variants import parts_of
from scheduling import arrays, module

# Tiles of 6 rows × 16 columns in vectors of 4, panels 8 deep at least.
WIDE = Target("clang", "wide", "wide", vector_bytes=16, vector_registers=32, l1=2048, l2=4096, cores=2, threads=True)
PLAIN = {"M": 29, "K": 17, "N": 37}


def part(m: Module, word: str) -> tuple[str, ...]:
    """The steps of the one variant whose condition holds this word."""
    kernel = schedule(m, WIDE, Options()).kernels[0]
    (found,) = (k.schedule for c, k in parts_of(kernel, m.kernels[0]) if word in str(c))
    return found


def alike(m: Module, sizes: dict[str, int]) -> None:
    """The scheduled module gives the same results, without a race."""
    after = schedule(m, WIDE, Options())
    start = arrays(m, sizes, np.random.default_rng(0))
    expected, found = ({n: a.copy() for n, a in start.items()} for _ in range(2))
    assert run(m, expected, sizes, exact=True) == 0
    assert run(after, found, sizes, exact=True, check=True, seed=1) == 0
    np.testing.assert_allclose(found["C"], expected["C"], rtol=1e-9, atol=1e-9, err_msg=f"{sizes}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips for a few rows already."""
    monkeypatch.setattr(strips, "STRIP_ROWS", 4)
    monkeypatch.setattr(strips, "STRIP_DEPTH", 1)
    monkeypatch.setattr(strips, "STRIP_WORK", 1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["gemm", "gemm_f64", "gemm_scaled", "gemm_column_major"])
@pytest.mark.parametrize("columns", [1, 8, 15, 16, 37, 64])
def test_meaning(name: str, columns: int) -> None:
    """Whole strips, narrower ones, a few columns of one; rows that fill no tile, more than one block of them and less."""
    alike(module(name), {**PLAIN, "N": columns})
    alike(module(name), {**PLAIN, "M": 8, "K": 1, "N": columns})


def test_threads_share_nothing_and_rows_stay_where_they_are() -> None:
    steps = part(module("gemm"), "128 <= M")
    assert [line.split()[1] for line in steps if line.startswith("stage ")] == ["B", "B"], "strips, and narrower ones"
    assert "region" not in steps and "share i.0 64 multiple=2" in steps


def test_rows_that_lie_otherwise_have_panels() -> None:
    """What would be read with a stride, or computed again for each strip."""
    for name in ("gemm_transposed", "dear_prologue", "gemm_f16"):
        assert not any("128 <= M" in line for line in schedule(module(name), WIDE, Options()).kernels[0].schedule), name


@pytest.mark.parametrize("columns", [3, 4, 8, 9, 13, 16, 29, 45])
def test_three_widths_in_place(columns: int) -> None:
    """What wide tiles leave over is cut in whole narrow ones, and what these leave is read by the first lanes of two vectors, or of one."""
    alike(module("gemm"), {"M": 7, "K": 5, "N": columns})
    steps = part(module("gemm"), f"<= {WIDE.l2 * 3 // 4 // 4}")
    widths = [line.split()[2:] for line in steps if line.startswith("split j")]
    lanes = WIDE.vector_bytes // 4
    assert widths == [
        [str(cost.WIDE_VECTORS * lanes), "tail=cut"],
        [str(cost.VECTORS * lanes), "tail=cut"],
        [str(cost.VECTORS * lanes), "tail=pad"],  # where more is left than one vector
        [str(lanes), "tail=pad"],
    ]
