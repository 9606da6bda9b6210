"""What small tests would not reach: every variant of a contraction on the machine itself, and vectors of which only the first lanes are there."""

import ctypes
from typing import Any

import luminal
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("plain_c")

GEMM = """
(composite gemm ((A{T}[M K] B{T}[K N] D{T}[N]) -> (C{T}[M N]))
  (return (max (+ (matmul A B) D) (cast T 0))))
"""
# rows, columns, depth: read in place; streamed past few rows; in panels of each thread; in panels that all share, in strips of columns (all at borders of every block), also where much is done with little
SIZES = [(5, 37, 29), (64, 32, 64), (16, 600, 530), (3, 600, 531), (20, 601, 530), (128, 640, 1024), (129, 601, 530), (300, 230, 250)]


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "bf16"])
def test_every_variant_of_a_contraction(dtype: str, target: str) -> None:
    kernel = luminal.compile(GEMM, dtype={"T": dtype}, target=target)
    rng = np.random.default_rng(0)
    held = luminal_dtype(dtype)
    for m, n, k in SIZES:
        a, b, d = ((rng.integers(-8, 9, s) if dtype == "i32" else rng.standard_normal(s)).astype(held) for s in ((m, k), (k, n), (n,)))
        c = kernel(a, b, d)
        wide = [np.asarray(x, np.float64) for x in (a, b, d)]
        exact = np.maximum(wide[0] @ wide[1] + wide[2], 0)
        bound = (k + 2) * (abs(wide[0]) @ abs(wide[1]) + abs(wide[2])) * {"f32": 2.0**-24, "bf16": 2.0**-24, "f64": 2.0**-53, "i32": 0}[dtype]
        last = abs(exact) * (2.0**-8 if dtype == "bf16" else 0)
        assert (abs(np.asarray(c, np.float64) - exact) <= bound + last).all(), (m, n, k)


def luminal_dtype(name: str) -> np.dtype:
    from luminal.ir.dtypes import DTYPES, numpy_dtype

    return np.dtype(numpy_dtype(DTYPES[name]))


def test_the_three_are_in_one_function() -> None:
    source = luminal.compile(GEMM, dtype={"T": "f32"}, target="x86-64-v3").source
    assert "if (K * N <= " in source and "if (M <= " in source


MAP = """
[composite]
name = "map"
inputs = ["X{T}[M N]", "Y{T}[M N]"]
outputs = ["Z{T}[M N]"]
[implementation]
code = "(return (max X Y))"
[schedule.clang]
steps = \"\"\"
split j LANES tail=pad
vectorize j.1
\"\"\"
"""


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "u16", "i32", "i64"])
def test_only_the_first_lanes_are_read_and_written(dtype: str, target: str) -> None:
    """Rows end where a page ends: what lies behind cannot be read, and what lies before the next row keeps its contents."""
    kernel = luminal.compile(MAP.replace("LANES", "64"), dtype={"T": dtype}, target=target)
    held = luminal_dtype(dtype)
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127):
        arrays = [at_the_end_of_a_page(n, held) for _ in range(3)]
        for x in arrays:
            x[0, :] = rng.integers(0, 50, n).astype(held)
        x, y, z = arrays
        assert np.array_equal(kernel(x, y, Z=z), np.maximum(x, y)), n


_KEPT: list[object] = []


def at_the_end_of_a_page(n: int, held: np.dtype) -> np.ndarray:
    """One row of n elements before a page that may be neither read nor written."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    page = 4096
    base = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
    assert libc.mprotect(base + page, page, 0) == 0
    size = n * held.itemsize
    raw = (ctypes.c_char * size).from_address(base + page - size)
    _KEPT.append(raw)
    return np.frombuffer(memoryview(raw), dtype=held).reshape(1, n)


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_windows_that_reach_over_both_ends(padding: int, target: str) -> None:
    """A padded convolution reads, in each vector, the lanes that are inside on the left and on the right."""
    kernel = luminal.compile("conv2d", dtype={"T": "f32"}, target=target, sizes={"padding": padding})
    rng = np.random.default_rng(2)
    for b, g, h, w, o, r, s in [(1, 3, 7, 9, 5, 3, 3), (2, 2, 20, 37, 9, 5, 4), (1, 1, 4, 66, 17, 3, 7), (1, 70, 18, 40, 33, 3, 3)]:
        x, k = rng.standard_normal((b, g, h, w), dtype=np.float32), rng.standard_normal((o, g, r, s), dtype=np.float32)
        if r > h + 2 * padding or s > w + 2 * padding:
            continue
        y = kernel(x, k)
        wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (r, s), (2, 3))
        exact = np.einsum("bgpqrs,ogrs->bopq", windows, k.astype(np.float64))
        assert abs(y - exact).max() <= 2.0**-22 * (g * r * s) ** 0.5 * abs(exact).max() + 1e-5, (b, g, h, w, o, r, s)


GROUPED = {"padding": 1, "stride": 2, "groups": 2}


@pytest.mark.parametrize(("parameters", "target"), [
    (GROUPED, "native"), (GROUPED, "x86-64-v3"), (GROUPED, "x86-64-v2"), ({"padding": 1, "groups": 6}, "native"),
    ({"stride": [1, 3], "dilation": [2, 1]}, "native"), ({"padding": [0, 2], "stride": [3, 2], "dilation": [1, 3]}, "native"),
])  # fmt: skip
def test_windows_with_strides_dilations_and_groups(parameters: dict[str, Any], target: str) -> None:
    """Few and many channels of results, rows shorter and longer than a register tile, blocks cut off on every side."""
    kernel = luminal.compile("conv2d", dtype={"T": "f32"}, target=target, sizes=parameters)
    rng = np.random.default_rng(3)
    pairs = {k: [v, v] if isinstance(v, int) else v for k, v in ({"stride": 1, "padding": 0, "dilation": 1} | parameters).items()}
    groups = parameters.get("groups", 1)
    for b, g, h, w, o, r, s in [
        (1, 3, 9, 11, 6, 3, 3),
        (2, 2, 20, 37, 18, 5, 4),
        (1, 1, 8, 9, 6, 2, 3),
        (1, 8, 19, 50, 42, 3, 3),
        (1, 2, 7, 9, 132, 3, 3),
        (1, 1, 30, 350, 12, 3, 3),
    ]:
        x, k = rng.standard_normal((b, groups * g, h, w), dtype=np.float32), rng.standard_normal((o, g, r, s), dtype=np.float32)
        (ph, pw), (sh, sw), (dh, dw) = pairs["padding"], pairs["stride"], pairs["dilation"]
        y = kernel(x, k)
        wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (ph, ph), (pw, pw)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (dh * (r - 1) + 1, dw * (s - 1) + 1), (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
        windows = windows.reshape(b, groups, g, *windows.shape[2:])
        exact = np.einsum("bngpqrs,nogrs->bnopq", windows, k.astype(np.float64).reshape(groups, -1, g, r, s)).reshape(y.shape)
        assert abs(y - exact).max() <= 2.0**-22 * (g * r * s) ** 0.5 * abs(exact).max() + 1e-5, (b, g, h, w, o, r, s)
