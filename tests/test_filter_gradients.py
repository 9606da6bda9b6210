"""Gradients of filters: windows slide over whole images, and stop at a few taps.  A register tile holds all of them."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 23
SUMS = 28  # vectors of a register tile with 32 vector registers

FORMS = {
    "channels first": (
        "X{f32}[B C (+ H R-1) (+ W S-1)] G{f32}[B O H W]",
        '(setf u (unfold (unfold X :size H :step 1 :axis 2) :size W :step 1 :axis 3)) (return (einsum "bcijhw,bohw->ocij" u G))',
        "bcijhw,bohw->ocij",
    ),
    "channels last": (
        "X{f32}[B (+ H R-1) (+ W S-1) C] G{f32}[B H W O]",
        '(setf u (unfold (unfold X :size H :step 1 :axis 1) :size W :step 1 :axis 2)) (return (einsum "bijchw,bhwo->ijco" u G))',
        "bijchw,bhwo->ijco",
    ),
}


def text_of(name: str, taps: tuple[int, int]) -> str:
    ports, body, _ = FORMS[name]
    ports = ports.replace("R-1", str(taps[0] - 1)).replace("S-1", str(taps[1] - 1))
    return f"(composite gradient (({ports}) -> (D)) {body})"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("taps", "tile"), [((3, 3), "3·3×32"), ((5, 5), "5·5×16"), ((4, 2), "4·2×32"), ((7, 7), "2·7×32")])
def test_a_tile_holds_the_taps(name: str, taps: tuple[int, int], tile: str) -> None:
    (found,) = compilations(text_of(name, taps), Settings(runtime="clang", target="x86-64-v4"))
    (kernel,) = found.run("schedule").kernels
    assert any(f"register tile {tile};" in note for note in kernel.notes), kernel.notes
    rows, length, columns = (int(n) for n in tile.replace("×", "·").split("·"))
    assert rows * length * columns <= SUMS * 16


@pytest.mark.parametrize(("taps", "tile"), [((3, 3), "3·3×8"), ((5, 5), "5×16")])
def test_fewer_registers_hold_whole_rows_of_taps(taps: tuple[int, int], tile: str) -> None:
    (found,) = compilations(text_of("channels first", taps), Settings(runtime="clang", target="x86-64-v3"))
    (kernel,) = found.run("schedule").kernels
    assert any(f"register tile {tile};" in note for note in kernel.notes), kernel.notes


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_an_image_is_turned_over_row_by_row_and_once(target: str) -> None:
    """Images lie apart, so no square reaches over two of them; what is packed is used for so many channels that packing it is little."""
    (found,) = compilations(text_of("channels first", (3, 3)), Settings(runtime="clang", target=target))
    (kernel,) = found.run("schedule").kernels
    script = [line.strip() for line in kernel.schedule]
    assert "collapse q.b r.s" in script and any(line.startswith("unroll q.b_r.s.1") for line in script)
    (channels,) = {line for line in script if line.startswith("split j ")}
    assert int(channels.split()[2]) >= 32


@needs_cc
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("taps", [(3, 3), (4, 2), (1, 1)])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (3, 5, 9, 7, 20), (2, 23, 33, 18, 5)])
def test_meaning(name: str, taps: tuple[int, int], sizes: tuple[int, ...]) -> None:
    b, c, o, h, w = sizes
    last = name == "channels last"
    rng = np.random.default_rng(SEED)
    tall, wide = h + taps[0] - 1, w + taps[1] - 1
    x = rng.standard_normal((b, tall, wide, c) if last else (b, c, tall, wide)).astype(np.float32)
    g = rng.standard_normal((b, h, w, o) if last else (b, o, h, w)).astype(np.float32)
    u = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (h, w), (1, 2) if last else (2, 3))
    want = np.einsum(FORMS[name][2], u, g)
    got = luminal.compile(text_of(name, taps), runtime="clang")(x, g)
    assert np.abs(got - want).max() <= 200 * np.finfo(np.float32).eps * (1 + np.abs(want).max())
