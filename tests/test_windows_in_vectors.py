"""Windows that are read by vectors along the row: those that lie two apart, and those beside which no zeros lie."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

DEPTHWISE = "(composite deep ((X{f32}[C H W] K{f32}[C 3 3]) -> (Y)) (return (depthwise_conv2d (unsqueeze X :axis 0) K :stride 2 :padding 1)))"
LARGEST = "(composite largest ((X{f32}[C H W](where H > 0, W > 0)) -> (Y)) (return (maxpool2d X :kernel 3 :stride STEP :padding 1)))"


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("text", [DEPTHWISE, LARGEST.replace("STEP", "2")], ids=["sums", "largest"])
def test_windows_two_apart(text: str, target: str) -> None:
    """Of two vectors that are loaded from the copy every other element is taken."""
    (found,) = compilations(text, Settings(runtime="clang", target=target))
    (kernel,) = found.run("schedule").kernels
    assert any(line.startswith("window X") for line in kernel.schedule)
    assert "unzip_f32x" in found.rendered.source


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        (DEPTHWISE.replace("stride 2", "stride 1"), {"3 <= H & (9 <= W & W <= 16)": 16, "3 <= H & W <= 24": 8, "2 <= H": 32}),
        (LARGEST.replace("STEP", "1"), {"3 <= H & W <= 16": 16, "2 <= H": 32}),
    ],
    ids=["sums", "largest"],
)
def test_tiles_are_as_wide_as_rows_fill(text: str, conditions: dict[str, int]) -> None:
    """One vector, half of one for products with taps, or two."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v4"))
    script = "\n".join(found.run("schedule").kernels[0].schedule)
    for (condition, columns), steps in zip(conditions.items(), script.split("variant ")[1:], strict=False):
        assert steps.split("\n")[0] == condition
        assert f"split k.1 {columns} tail=pad" in steps


def test_windows_along_one_axis_have_no_rows() -> None:
    text = "(composite largest ((X{f32}[C W](where W > 0)) -> (Y)) (return (maxpool1d X :kernel 3 :stride 1 :padding 1)))"
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v4"))
    assert not any("tail=pad" in line and line.startswith("split i") for line in found.run("schedule").kernels[0].schedule)


def test_three_taps_of_each_axis_are_known_where_the_sizes_are_free() -> None:
    """Depthwise: a loop over taps ends before it has begun, so where there are three by three nothing is left of it."""
    (found,) = compilations("depthwise_conv2d", Settings(runtime="clang", target="x86-64-v4", without=("Bias",)))
    (kernel,) = found.run("schedule").kernels
    assert [line for line in kernel.schedule if line.startswith("version")] == ["version 3 p q"] * 4
    assert "if (R == 3 && S == 3) {" in found.rendered.source
    (known,) = compilations(DEPTHWISE.replace("stride 2", "stride 1"), Settings(runtime="clang", target="x86-64-v4"))
    assert not any(line.startswith("version") for line in known.run("schedule").kernels[0].schedule)


@needs_cc
@pytest.mark.parametrize(("r", "s"), [(3, 3), (3, 2), (1, 3)])
def test_taps_of_free_number(r: int, s: int) -> None:
    rng = np.random.default_rng(r * s)
    for h, w in ((3, 3), (9, 7), (20, 13), (20, 21), (20, 37)):
        x, k = rng.standard_normal((1, 3, h, w)).astype(np.float32), rng.standard_normal((3, r, s)).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(x, (r, s), (2, 3))
        found = luminal.compile("depthwise_conv2d", without=("Bias",))(x, k)
        np.testing.assert_allclose(found, np.einsum("bcpqrs,crs->bcpq", windows, k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("step", [1, 2])
def test_beside_the_image_there_is_one_number(step: int) -> None:
    """What only iterations beyond the end would read is what lies beside the image: one choice, of lanes that lie together, and no choice inside of a choice, of which there is no vector."""
    (found,) = compilations(LARGEST.replace("STEP", str(step)), Settings(runtime="clang", target="x86-64-v4"))
    copies = [line for line in found.rendered.source.splitlines() if "X_window" in line and "INFINITY" in line]
    assert copies
    assert all("load_between_f32x16" in line for line in copies), copies


@needs_cc
def test_windows_are_those_of_numpy() -> None:
    rng = np.random.default_rng(3)
    for c, h, w in ((1, 1, 1), (3, 7, 7), (2, 17, 16), (2, 7, 37), (3, 34, 75)):
        x = rng.standard_normal((c, h, w)).astype(np.float32)
        k = rng.standard_normal((c, 3, 3)).astype(np.float32)
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
        np.testing.assert_allclose(luminal.compile(DEPTHWISE)(x, k)[0], np.einsum("cpqrs,crs->cpq", windows, k), rtol=1e-5, atol=1e-5)
        far = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        for step in (1, 2):
            windows = np.lib.stride_tricks.sliding_window_view(far, (3, 3), (1, 2))[:, ::step, ::step]
            np.testing.assert_array_equal(luminal.compile(LARGEST.replace("STEP", str(step)))(x), windows.max((-1, -2)))
