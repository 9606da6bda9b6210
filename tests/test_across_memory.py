"""Reductions over an axis that lies across memory (channels of images, rows of a matrix): vectors of neighbours side by side, also of what is left over of them, whatever is done along the axis."""

from __future__ import annotations

from functools import cache
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
IMAGES = "(composite c ((X{f32}[B C H W]%s) -> (Y{f32}[%s])) (return (%s X :axis 1)))"
COLUMNS = "(composite c ((X{f32}[M N]%s) -> (Y{f32}[%s])) (return (%s X :axis 0)))"
OPS = ("softmax", "log_softmax", "logsumexp", "var")


def text(form: str, op: str, limit: str = "") -> str:
    kept, whole = ("B H W", "B C H W") if form is IMAGES else ("N", "M N")
    return form % (limit, whole if "softmax" in op else kept, op)


def longer(form: str, op: str) -> str:
    """Of neighbours that are more than one: of one alone, what lies across memory is a row."""
    return text(form, op, "(where W > 1)" if form is IMAGES else "(where N > 1)")


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
    (found,) = compilations(longer(form, op), Settings(runtime="clang", target="x86-64-v4"))
    stores = [s for f in found.program.functions for s in program_statements(f.body) if isinstance(s, StoreTo) and s.buffer in ("Y", "temp", "temp1")]
    assert stores and all(s.value.dtype.lanes > 1 for s in stores)


def test_rows_of_an_image_are_one_and_threads_share_it() -> None:
    (found,) = compilations(longer(IMAGES, "softmax"), Settings(runtime="clang", target="x86-64-v4"))
    kernel = found.module.kernels[0]
    assert "collapse j k" in kernel.schedule
    whole, left = parallel(kernel)
    assert all(size in whole for size in "BHW") and left == "B"
    assert not any(isinstance(s, Loop) and s.stop.names == {"W"} for s in statements(kernel.body))


@cache
def compiled(text: str, target: str) -> luminal.Composite:
    return luminal.compile(text, target=target)


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
        got = compiled(text(form, op), target)(x)
        np.testing.assert_allclose(got, expected(op, x, axis), rtol=2e-5, atol=1e-5, err_msg=f"{op} {shape} {target} seed {SEED}")


@needs_cc
@pytest.mark.parametrize("op", ["logsumexp", "var"])
def test_images_whose_rows_are_less_than_a_vector(op: str) -> None:
    """Rows of an image that are one axis may be a vector, though each is less; what is left of a known number goes by as many vectors as hold it."""
    fixed = text(IMAGES, op).replace("H W", "6 6")
    (found,) = compilations(fixed, Settings(runtime="clang", target="x86-64-v3"))
    stores = [s for f in found.program.functions for s in program_statements(f.body) if isinstance(s, StoreTo) and s.buffer == "Y"]
    assert stores and all(s.value.dtype.lanes > 1 for s in stores)
    x = np.random.default_rng(SEED).standard_normal((3, 5, 6, 6)).astype(np.float32)
    for target in ("x86-64-v3", "native"):
        np.testing.assert_allclose(luminal.compile(fixed, target=target)(x), expected(op, x, 1), rtol=2e-5, atol=1e-5)


def test_what_is_left_of_a_known_number() -> None:
    """196 is six times four vectors of eight, and four more."""
    (found,) = compilations("(composite c ((X{f32}[B C 196]) -> Y) (return (logsumexp X :axis 1)))", Settings(runtime="clang", target="x86-64-v3"))
    assert {"split j 32 tail=cut", "split j.t 8 tail=pad"} <= {*found.module.kernels[0].schedule}
