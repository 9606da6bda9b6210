"""Windows over images whose channels lie together: a copy is consecutive along the row, so that a register tile's elements are read from one address and constant distances."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Alloc, statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 24
BODY = "(setf p (pad X (0 0) (1 1) (1 1) (0 0))) (setf u (unfold (unfold p :size 3 :step STEP :axis 1) :size 3 :step STEP :axis 2))"
LAST = f'(composite last ((X{{f32}}[B H W C](where H > 0, W > 0) F{{f32}}[3 3 C O]) -> (Y)) {BODY} (return (einsum "bhwcij,ijco->bhwo" u F)))'
FIRST = "(composite first ((X{f32}[B C H W] F{f32}[O C 3 3]) -> (Y)) (return (conv2d X F :padding (1 1))))"
GROUPS = """
(composite groups ((X{f32}[B H W 32] F{f32}[3 3 8 O](where O % 4 = 0)) -> (Y{f32}[B H W O]))
  (setf u (unfold (unfold (pad (reshape X B H W 4 8) _ (1 1) (1 1) _ _) :size 3 :step 1 :axis 1) :size 3 :step 1 :axis 2))
  (return (reshape (einsum "bhwgcij,ijcgo->bhwgo" u (reshape F 3 3 8 4 -1)) B H W O)))
"""


@pytest.mark.parametrize("step", [1, 2])
def test_the_row_is_last(step: int) -> None:
    (found,) = compilations(LAST.replace("STEP", str(step)), Settings(runtime="clang", target="x86-64-v4"))
    (kernel,) = found.run("schedule").kernels
    copies = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc) and s.buffer.name.startswith("X.window")]
    assert copies
    assert all("C" in b.shape[-2].names and "C" not in b.shape[-1].names for b in copies)
    assert any("last=" in line for line in kernel.schedule)


def test_rows_that_are_last_are_left_so() -> None:
    (found,) = compilations(FIRST, Settings(runtime="clang", target="x86-64-v4"))
    (kernel,) = found.run("schedule").kernels
    assert any(line.startswith("window") for line in kernel.schedule)
    assert not any("last=" in line for line in kernel.schedule)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_squares_of_channels_are_turned_over(target: str) -> None:
    """Also those with padding beside the rows: of a square the rows that are there are loaded, none under a condition of its own."""
    lanes = {"x86-64-v3": 8, "x86-64-v4": 16}[target]
    (found,) = compilations(LAST.replace("STEP", "1"), Settings(runtime="clang", target=target))
    (kernel,) = found.run("schedule").kernels
    assert {f"split p.s {lanes} tail=cut", "unroll p.s.1", "vectorize r.s.1"} <= {line.strip() for line in kernel.schedule}
    source = found.rendered.source
    assert "zip_low" in source and "gather" not in source


def scripts_of(text: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    (found,) = compilations(text, Settings(runtime="clang", target=target))
    (kernel,) = found.run("schedule").kernels
    return kernel.schedule, kernel.notes


def test_no_window_moves_along_groups() -> None:
    """Neighbouring groups lie behind one another as taps of a stride do, but filters change with them: a tile of several groups would share nothing."""
    _, notes = scripts_of(GROUPS, "x86-64-v4")
    moving = [line for line in notes if "windows that move along" in line]
    assert moving
    assert all("along `j`, `k`:" in line for line in moving)


@pytest.mark.parametrize(("target", "tile"), [("x86-64-v3", "register tile 12×8"), ("x86-64-v4", "register tile 14×16")])
def test_columns_of_one_vector_have_tiles_of_one(target: str, tile: str) -> None:
    for text in (GROUPS, FIRST):
        script, notes = scripts_of(text, target)
        assert any(line.endswith(tile) for line in notes)
        assert any(line.startswith("variant 8 <= O") and "&" in line for line in script)
    few = "(composite few ((X{f32}[B C H W] F{f32}[64 C 3 3]) -> (Y)) (return (conv2d X F)))"
    assert not any(line.endswith(tile) for line in scripts_of(few, target)[1])


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 4), (2, 9, 11, 20), (1, 5, 40, 64), (1, 8, 13, 68)])
def test_groups(target: str, sizes: tuple[int, ...]) -> None:
    b, h, w, o = sizes
    rng = np.random.default_rng(SEED)
    x, f = (rng.standard_normal(shape).astype(np.float32) for shape in ((b, h, w, 32), (3, 3, 8, o)))
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(b, h + 2, w + 2, 4, 8)
    u = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    want = np.einsum("bhwgcij,ijcgo->bhwgo", u, f.reshape(3, 3, 8, 4, -1)).reshape(b, h, w, o)
    got = luminal.compile(GROUPS, runtime="clang", target=target)(x, f)
    assert np.abs(got - want).max() <= 100 * np.finfo(np.float32).eps * (1 + np.abs(want).max())


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 9, 7, 17, 20), (1, 5, 33, 3, 9), (3, 20, 130, 16, 33), (1, 2, 1, 40, 8)])
def test_meaning(target: str, step: int, sizes: tuple[int, ...]) -> None:
    b, h, w, c, o = sizes
    rng = np.random.default_rng(SEED)
    x, f = (rng.standard_normal(shape).astype(np.float32) for shape in ((b, h, w, c), (3, 3, c, o)))
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    u = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::step, ::step]
    want = np.einsum("bhwcij,ijco->bhwo", u, f)
    got = luminal.compile(LAST.replace("STEP", str(step)), runtime="clang", target=target)(x, f)
    assert np.abs(got - want).max() <= 100 * np.finfo(np.float32).eps * (1 + np.abs(want).max())


@needs_cc
@pytest.mark.parametrize(("stride", "dilation"), [(2, 3), (3, 2), (4, 6), (4, 9)])
def test_steps_of_windows_and_of_taps_that_share_no_factor(stride: int, dilation: int) -> None:
    """Neither moves a window by one element: elements of the copy are found by the Euclidean algorithm."""
    text = (
        f"(composite apart ((X{{f32}}[B L C] F{{f32}}[O C 3]) -> (Y)) (return (conv1d (transpose X 0 2 1) F :stride {stride} :dilation {dilation})))"
    )
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    assert any(line.startswith("window") for kernel in found.run("schedule").kernels for line in kernel.schedule)
    rng = np.random.default_rng(SEED)
    x, f = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 61, 5), (32, 5, 3)))
    u = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 2 * dilation + 1, 1)[:, ::stride, :, ::dilation]
    want = np.einsum("blcs,ocs->bol", u, f)
    got = luminal.compile(text, runtime="clang", target="x86-64-v3")(x, f)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 100 * np.finfo(np.float32).eps * (1 + np.abs(want).max())
