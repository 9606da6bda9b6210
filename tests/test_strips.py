"""Rows that are read where they lie and strips of columns that each thread packs for itself; tiles of columns of three widths, where nothing is packed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from luminal.ir.expr import Expr
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read
from luminal.passes.schedule import cost, schedule
from luminal.passes.schedule.products import strips
from luminal.passes.schedule.steps.variants import parts_of
from scheduling import KERNELS, module, same_at

# Tiles of 6 rows × 16 columns in vectors of 4, panels 8 deep at least.
WIDE = Target("clang", "wide", "wide", vector_bytes=16, vector_registers=32, l1=2048, l2=4096, cores=2, threads=True)
PLAIN = {"M": 29, "K": 17, "N": 37}


def variants(m: Module, target: Target = WIDE) -> list[tuple[Expr | None, tuple[str, ...]]]:
    """The conditions of a kernel's schedules, and their steps."""
    kernel = schedule(m, target, Options()).kernels[0]
    return [(c, k.schedule) for c, k in parts_of(kernel, m.kernels[0])]


def part(m: Module, word: str, target: Target = WIDE) -> tuple[str, ...]:
    """The steps of the one variant whose condition holds this word."""
    (found,) = (steps for c, steps in variants(m, target) if word in str(c))
    return found


def alike(m: Module, *tried: dict[str, int], target: Target = WIDE) -> None:
    """The scheduled module gives the same results, without a race, at each of the sizes."""
    after = schedule(m, target, Options())
    for sizes in tried:
        assert same_at(m, after, sizes, np.random.default_rng(0)) == 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips for a few rows already."""
    monkeypatch.setattr(strips, "STRIP_ROWS", 4)
    monkeypatch.setattr(strips, "STRIP_DEPTH", 1)
    monkeypatch.setattr(strips, "STRIP_WORK", 1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["gemm", "gemm_f64", "gemm_scaled", "gemm_column_major", "gemm_transposed"])
def test_meaning(name: str) -> None:
    """Whole strips, narrower ones, a few columns of one; rows that fill no tile, more than one block of them and less."""
    columns = (1, 8, 15, 16, 37, 64)
    alike(module(name), *({**PLAIN, "N": n} for n in columns), *({**PLAIN, "M": 8, "K": 1, "N": n} for n in columns))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["gemm", "gemm_column_major", "matmul_bias"])
def test_a_long_reduction_comes_in_pieces(name: str) -> None:
    """Sums so far are in the output, where that can hold them; what is scaled at the end has one piece."""
    assert {"split p 128", f"accumulate p.0 into=C outside={'j' if name == 'gemm_column_major' else 'i'}"} <= {*part(module(name), "8 <= ")}
    alike(module(name), *({"M": 13, "K": depth, "N": 21} for depth in (127, 128, 129, 300)))
    assert not any(line.startswith("accumulate") for line in part(module("gemm_scaled"), "8 <= "))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["gemm", "gemm_transposed"])
@pytest.mark.parametrize("depth", [129, 300])
def test_few_rows_of_a_deep_reduction_do_too(monkeypatch: pytest.MonkeyPatch, name: str, depth: int) -> None:
    """Where the result is small, whichever way rows lie: half as many rows of each thread are enough."""
    monkeypatch.setattr(strips, "DEEP_ROWS", 2)
    assert "accumulate p.0 into=C outside=i" in part(module(name), "4 <= M & N <= M * 4")
    alike(module(name), {"M": 5, "K": depth, "N": 19})


@pytest.mark.usefixtures("small")
def test_what_is_made_of_sums_twice_has_strips_too() -> None:
    """Rows that the last tile has twice would find results where sums were: one piece, and the reduction is no longer."""
    squared = read(
        KERNELS["gemm"]
        .read_text()
        .replace("C[i, j] = add(C[i, j], acc[])", "let x: f32 = acc[]\n      C[i, j] = mul(x, x)")
        .replace("inout C", "out C")
    )
    assert isinstance(squared, Module)
    steps = part(squared, "K <= 128 & M <= 768")
    assert steps[0] == "split i 6 tail=clamp" and not any(line.startswith("accumulate") for line in steps)
    alike(squared, {"M": 13, "K": 127, "N": 21})


def test_threads_share_nothing_and_rows_stay_where_they_are() -> None:
    steps = part(module("gemm"), "96 <= M")
    assert [line.split()[1] for line in steps if line.startswith("stage ")] == ["B", "B"], "strips, and narrower ones"
    assert "region" not in steps and "share i.0 64 multiple=2" in steps


IMAGES = """kernels images v1
size G
size M
size H
size W
size K
in A: f32[M, K]
in B: f32[G, K, H, W]
out C: f32[G, M, H, W]
kernel images_0(A, B, C):
  for g in 0 .. G parallel:
    for i in 0 .. M parallel:
      for j in 0 .. H parallel:
        for k in 0 .. W parallel:
          alloc acc: f32[] register
          acc[] = 0.0:f32
          for p in 0 .. K reduce:
            acc[] add= A[i, p] * B[g, p, j, k]
          C[g, i, j, k] = acc[]
"""


@pytest.mark.usefixtures("small")
def test_rows_are_cut_for_threads_only_where_batches_leave_some_without() -> None:
    """Each block of rows packs all strips again: two threads share an even number of batches as they are, and one thread nothing."""
    assert "share i.0 64 multiple=2 beside=g_h" in (together := part(module("batched"), "8 <= M"))
    assert "share i.0 64" in (alone := part(module("batched"), "8 <= M", replace(WIDE, threads=False)))
    assert [line for line in together if line.startswith("stage ")] == [line for line in alone if line.startswith("stage ")]
    sizes = [{"G": g, "H": h, "M": 29, "K": 17, "N": 37} for g, h in ((1, 1), (1, 2), (3, 1))]
    alike(module("batched"), *sizes)
    alike(module("batched"), *sizes, target=replace(WIDE, threads=False))


@pytest.mark.usefixtures("small")
def test_the_lines_that_results_go_to_come_while_they_are_summed_up() -> None:
    """Where the last cache is far away, and of columns that are two axes of the result as of those that are one."""
    images = read(IMAGES)
    assert isinstance(images, Module)
    for m in (module("gemm"), images):
        near, far = (part(m, "8 <= M", replace(WIDE, l3=size)) for size in (0, 105 << 20))
        assert not any(line.startswith("prefetch_tile") for line in near)
        assert [line.split()[1] for line in far if line.startswith("prefetch_tile")] == ["C", "C"], "wide strips, and narrower ones"
    alike(images, *({"G": g, "M": 13, "H": 3, "W": w, "K": 5} for g in (1, 2) for w in (1, 7, 11)), target=replace(WIDE, l3=105 << 20))


def test_rows_that_lie_side_by_side_stay_too() -> None:
    """The transposed operand is read where it lies; the other, whose columns lie along the reduction, is turned over."""
    steps = part(module("gemm_transposed"), "96 <= M")
    assert [line.split()[1] for line in steps if line.startswith("stage ")] == ["B", "B"] and "split p.1.s 4 tail=pad" in steps


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("made", ["where(p <= i, A[i, p], 0.0:f32)", "mul(A[i, p], 0.5:f32)"])
def test_what_is_made_of_rows_is_made_once(made: str) -> None:
    """A triangle of them, or a multiple: in a copy of the thread's own, for wide strips and for narrower ones, not again for each strip."""
    rows = read(KERNELS["gemm"].read_text().replace("A[i, p]", made))
    assert isinstance(rows, Module)
    assert [line.split()[1] for line in part(rows, "8 <= M") if line.startswith("stage ")] == ["B", "A", "B", "A"]
    for depth in (5, 129):
        alike(rows, {"M": 13, "K": depth, "N": 21})


def test_rows_that_are_made_first_have_panels() -> None:
    """What would be computed again for each strip, or converted."""
    for name in ("dear_prologue", "gemm_f16"):
        assert not any("96 <= M" in line for line in schedule(module(name), WIDE, Options()).kernels[0].schedule), name


@pytest.mark.parametrize("columns", [3, 4, 8, 9, 13, 16, 29, 45])
def test_three_widths_in_place(columns: int) -> None:
    """What wide tiles leave over is cut in whole narrow ones, and what these leave is read by the first lanes of two vectors, or of one."""
    alike(module("gemm"), {"M": 7, "K": 5, "N": columns})
    lanes = WIDE.vector_bytes // 4
    assert widths(part(module("gemm"), f"K * N <= {WIDE.l2 * 3 // 4 // 4}")) == [
        f"{cost.WIDE_VECTORS * lanes} tail=cut",
        f"{cost.VECTORS * lanes} tail=cut",
        f"{lanes} tail=pad",
        f"{cost.VECTORS * lanes} tail=pad",  # where more is left than one vector
    ]


def widths(steps: tuple[str, ...]) -> list[str]:
    """How the columns are split."""
    return [line.split(maxsplit=2)[2] for line in steps if line.startswith("split j")]


# Vectors of 8, whose first lanes one instruction loads: tiles of 6 rows × 32 columns, or of 8 × 24.
FIRST_LANES = replace(WIDE, vector_bytes=32, l1=4096, l2=8192)


@pytest.fixture(scope="module")
def by_first_lanes() -> Module:
    return schedule(module("gemm"), FIRST_LANES, Options())


@pytest.mark.parametrize("rows", [1, 8, 13])
@pytest.mark.parametrize("columns", [1, 8, 9, 17, 24, 25, 31, 32, 33, 48, 49, 56, 57, 65, 97, 119, 120, 121])
def test_what_is_left_over_is_added_up_right(by_first_lanes: Module, rows: int, columns: int) -> None:
    assert same_at(module("gemm"), by_first_lanes, {"M": rows, "K": 5, "N": columns}, np.random.default_rng(0)) == 0


def test_what_is_left_over_is_one_tile() -> None:
    """As many vectors as hold the columns that whole tiles leave over; where that would be a single one, tiles are of a vector more.  Few rows that are left over are tiles of their own."""
    eight, six = (next(s for c, s in variants(module("gemm"), FIRST_LANES) if "1536" in str(c) and s[0] == f"split i {rows}") for rows in (8, 6))
    assert [line for line in eight if line.startswith("split i")] == ["split i 8", "split i.1.s 4 tail=clamp", "split i.1 8 tail=clamp"]
    assert widths(eight) == ["8 tail=pad", "24 tail=pad", "24 tail=cut", "8 tail=pad", "16 tail=pad", "24 tail=pad"]
    assert [line for line in six if line.startswith("split i")] == ["split i 6", "split i.1.s 4 tail=clamp", "split i.1 6 tail=clamp"]
    assert widths(six) == ["32 tail=pad", "32 tail=cut", "8 tail=pad", "16 tail=pad", "24 tail=pad", "32 tail=pad"]


@pytest.mark.parametrize(("columns", "steps"), [
    (32, ["32"]), (33, ["24 tail=pad", "24 tail=cut", "16 tail=pad"]), (48, ["24 tail=pad", "24"]), (50, ["32 tail=pad", "32 tail=cut", "24 tail=pad"]),
    (64, ["24 tail=pad", "24 tail=cut", "16 tail=pad"]), (72, ["24 tail=pad", "24"]), (100, ["32 tail=pad", "32 tail=cut", "8 tail=pad"]),
])  # fmt: skip
def test_columns_that_are_known_have_their_tiles(columns: int, steps: list[str]) -> None:
    text = KERNELS["gemm"].read_text().replace("size N\n", "")
    known = read(re.sub(r"\bN\b", str(columns), text))
    assert isinstance(known, Module)
    alike(known, {"M": 13, "K": 5}, target=FIRST_LANES)
    assert steps in [widths(s) for _, s in variants(known, FIRST_LANES)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("columns", "narrow"), [(28, 12), (31, 16), (21, 8)])
def test_columns_whose_number_is_known_leave_one_narrow_strip(columns: int, narrow: int) -> None:
    fixed = read(KERNELS["gemm"].read_text().replace("size N\n", "").replace("N", str(columns)))
    assert isinstance(fixed, Module)
    assert f"split j.t {narrow} tail=pad" in part(fixed, "8 <= M")
    alike(fixed, {"M": 13, "K": 9})
