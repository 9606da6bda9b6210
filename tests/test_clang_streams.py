"""Stores past the caches reach the same memory at every alignment: whole vectors, pieces of 16 bytes, and neither."""

import shutil

import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import f32, i64, numpy_dtype, u8
from luminal.ir.expr import TRUE, ZERO, const, make, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo
from luminal.runtimes import find

N = size("N")
i = var("i")
VECTORS = [(f32, 4), (f32, 8), (f32, 16), (i64, 8), (u8, 32)]  # of 16, 32 and 64 bytes


def program(dtype, lanes, counted=False):
    """Y = X, in vectors that are stored past the caches; `counted`: of a vector the elements that there are."""
    value = make("vload", dtype.vector(lanes), (i, N + i * -1) if counted else (i,), "X")
    body = StoreTo("Y", i, value, stream=TRUE, count=N + i * -1 if counted else None)
    function = Function(
        "kernel", (Param("X", dtype, True, True), Param("Y", dtype, True), Param("N", i64)), (For("i", ZERO, N, (body,), const(lanes)),)
    )
    ports = (Port("X", dtype, (N,), "in"), Port("Y", dtype, (N,), "out"))
    return Program("streamed", (Size("N", multiple=1 if counted else lanes),), ports, (function,), (Call("kernel", ("X", "Y", N)),))


@needs_cc
@pytest.mark.parametrize("cc", ["", "gcc"], ids=["found", "gcc"])
@pytest.mark.parametrize(("dtype", "lanes"), VECTORS, ids=str)
def test_every_alignment(dtype, lanes, cc, tmp_path):
    if cc and not shutil.which(cc):
        pytest.skip(f"no {cc}")
    runtime = find("clang")
    target = runtime.target(None, {"CC": cc} if cc else {}, False)
    made, path = program(dtype, lanes), tmp_path / "streamed.so"
    runtime.build(runtime.render(made, target, "lm_"), target, "shared", path, 240, [])
    library = runtime.load(path, made, target, "lm_")
    count, kind = 3 * lanes, numpy_dtype(dtype)
    x = np.arange(1, count + 1).astype(kind)
    for offset in range(64 // x.itemsize):
        room = np.zeros(count + 2 * 64 // x.itemsize, kind)
        begin = -room.ctypes.data % 64 // x.itemsize + offset  # that many elements past a line
        y = room[begin : begin + count]
        assert library.call({"X": x, "Y": y}, {"N": count}) == 0
        np.testing.assert_array_equal(y, x, f"{offset} elements past a line")
        assert not room[:begin].any() and not room[begin + count :].any()


@needs_cc
@pytest.mark.parametrize("cc", ["", "gcc"], ids=["found", "gcc"])
@pytest.mark.parametrize(("dtype", "lanes"), VECTORS, ids=str)
def test_the_end_of_a_row_at_every_alignment(dtype, lanes, cc, tmp_path):
    if cc and not shutil.which(cc):
        pytest.skip(f"no {cc}")
    runtime = find("clang")
    target = runtime.target(None, {"CC": cc} if cc else {}, False)
    made, path = program(dtype, lanes, counted=True), tmp_path / "streamed.so"
    assert "stream_first_" in runtime.render(made, target, "lm_").source
    runtime.build(runtime.render(made, target, "lm_"), target, "shared", path, 240, [])
    library = runtime.load(path, made, target, "lm_")
    kind = numpy_dtype(dtype)
    for count in (*range(lanes + 2), 2 * lanes, 3 * lanes - 1):
        x = np.arange(1, count + 1).astype(kind)
        for offset in range(64 // x.itemsize):
            room = np.zeros(count + 4 * 64 // x.itemsize, kind)
            begin = 64 // x.itemsize + (-room.ctypes.data % 64) // x.itemsize + offset
            y = room[begin : begin + count]
            assert library.call({"X": x, "Y": y}, {"N": count}) == 0
            np.testing.assert_array_equal(y, x, f"{count} from {offset} elements past a line on")
            assert not room[:begin].any() and not room[begin + count :].any()
