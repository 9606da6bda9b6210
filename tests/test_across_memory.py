"""Reductions over an axis that lies across memory (channels of images, rows of a matrix): vectors of neighbours side by side, also of what is left over of them, whatever is done along the axis."""

from __future__ import annotations

from math import prod

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Kernel, Loop, statements
from luminal.ir.program import StoreTo, statements as program_statements

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 11
IMAGES = "(composite c ((X{f32}[B C H W]) -> (Y{f32}[%s])) (return (%s X :axis 1)))"
COLUMNS = "(composite c ((X{f32}[M N]) -> (Y{f32}[%s])) (return (%s X :axis 0)))"
OPS = ("softmax", "log_softmax", "logsumexp", "var")


def text(form: str, op: str) -> str:
    kept, whole = ("B H W", "B C H W") if form is IMAGES else ("N", "M N")
    return form % (whole if "softmax" in op else kept, op)


def expected(op: str, x: np.ndarray, axis: int) -> np.ndarray:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    log = np.log(e.sum(axis, keepdims=True)) + x.max(axis, keepdims=True)
    return {
        "softmax": lambda: e / e.sum(axis, keepdims=True),
        "log_softmax": lambda: x - log,
        "logsumexp": lambda: log.squeeze(axis),
        "var": lambda: x.var(axis),
    }[op]()


def parallel(kernel: Kernel) -> list[str]:
    return [str(s.stop) for s in kernel.body if isinstance(s, Loop) and s.kind == "parallel"]


@pytest.mark.parametrize("form", [IMAGES, COLUMNS], ids=["images", "columns"])
@pytest.mark.parametrize("op", OPS)
def test_no_element_is_left_alone(op: str, form: str) -> None:
    """Where instructions load the first lanes, all that is stored are vectors, and what is read of a guard in one place may be read by a choice around it."""
    (found,) = compilations(text(form, op), Settings(runtime="clang", target="x86-64-v4"))
    stores = [s for f in found.program.functions for s in program_statements(f.body) if isinstance(s, StoreTo) and s.buffer in ("Y", "temp", "temp1")]
    assert stores and all(s.value.dtype.lanes > 1 for s in stores)


def test_rows_of_an_image_are_one_and_threads_share_it() -> None:
    (found,) = compilations(text(IMAGES, "softmax"), Settings(runtime="clang", target="x86-64-v4"))
    kernel = found.module.kernels[0]
    assert "collapse j k" in kernel.schedule
    assert all("B" in stop and "H" in stop and "W" in stop for stop in parallel(kernel)) and len(parallel(kernel)) == 2
    assert not any(isinstance(s, Loop) and s.stop.names == {"W"} for s in statements(kernel.body))


@needs_cc
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    "shape", [(1, 3, 1, 1), (2, 5, 7, 7), (3, 64, 5, 13), (1, 2, 8, 8), (2, 3, 0, 4), (5, 8), (70, 30), (9, 64), (3, 131), (2, 16)]
)
def test_what_comes_out(shape: tuple[int, ...], op: str) -> None:
    form, axis = (IMAGES, 1) if len(shape) == 4 else (COLUMNS, 0)
    x = np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)
    if prod(shape):
        x.flat[0], x.flat[-1] = -np.inf if op != "var" else 3, 50
    for target in ("x86-64-v3", "native"):
        got = luminal.compile(text(form, op), target=target)(x)
        np.testing.assert_allclose(got, expected(op, x, axis), rtol=2e-5, atol=1e-5, err_msg=f"{op} {shape} {target} seed {SEED}")
