"""Contractions and windows of which what vectors would run along has one position: rows that are reduced, and right at all other sizes too."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

BATCHES = "(composite p ((A{f32}[Q M K] B{f32}[Q K N]) -> (C{f32}[Q M N])) (return (matmul A B)))"


def conditions(name: str, **settings: object) -> list[str]:
    """The conditions of the variants of its kernels, in order."""
    (compilation,) = compilations(name, Settings(runtime="clang", target="x86-64-v3", **settings))
    script = [line for kernel in compilation.module.kernels for line in kernel.schedule]
    return [line.removeprefix("variant").strip() for line in script if line.startswith("variant")]


@pytest.mark.parametrize(
    ("name", "condition"),
    [("conv2d", "R == 1 & S == 1 & H == 1 & W == 1"), ("conv1d", "S == 1 & L == 1"), ("pointwise_conv2d", "H == 1 & W == 1"), (BATCHES, "N == 1")],
    ids=["windows", "one axis", "positions", "batches"],
)
def test_one_position_is_asked_for(name: str, condition: str) -> None:
    assert condition in conditions(name)


@pytest.mark.parametrize("name", ["pointwise_conv2d", BATCHES])
def test_threads_share_the_rows_of_a_single_batch(name: str) -> None:
    (compilation,) = compilations(name, Settings(runtime="clang", target="x86-64-v3"))
    script = "\n".join(compilation.module.kernels[0].schedule).split("variant")[1]
    assert "parallel i_j.0" in script.split("\n")


def test_results_are_summed_in_tiles() -> None:
    """Images and channels of the result share what is loaded of the other."""
    (compilation,) = compilations("conv2d", Settings(runtime="clang", target="x86-64-v4"))
    script = "\n".join(compilation.module.kernels[0].schedule).split("variant")[1]
    assert "expand acc i.1.1 j.1" in script.split("\n")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("conv2d", {"padding": 1}), ("depthwise_conv2d", {}), ("conv_transpose2d", {}), (BATCHES.replace("Q ", ""), {})],
    ids=["over the ends", "nothing else is reduced", "gradients", "few columns have a variant"],
)
def test_others_do_not_ask(name: str, parameters: dict[str, object]) -> None:
    assert not any(c.endswith(" == 1") for c in conditions(name, parameters=parameters))


@pytest.fixture(scope="module")
def kernels() -> tuple[luminal.Composite, ...]:
    return luminal.compile("conv2d"), luminal.compile("pointwise_conv2d"), luminal.compile(BATCHES)


@needs_cc
@pytest.mark.parametrize(
    ("batch", "channels", "results"), [(1, 67, 3), (3, 16, 9), (37, 35, 7), (1, 1, 1), (2, 130, 4), (0, 5, 2), (2, 0, 2), (2, 5, 0)]
)
def test_the_same_results(kernels: tuple[luminal.Composite, ...], batch: int, channels: int, results: int) -> None:
    rng = np.random.default_rng(3)
    convolution, pointwise, products = kernels
    for image in ((1, 1), (1, 2), (2, 1)):
        x, k = rng.standard_normal((batch, channels, *image)).astype("f4"), rng.standard_normal((results, channels, 1, 1)).astype("f4")
        bias = rng.standard_normal(results).astype("f4")
        expected = np.einsum("bchw,oc->bohw", x, k[:, :, 0, 0])
        np.testing.assert_allclose(convolution(x, k), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(convolution(x, k, bias), expected + bias[:, None, None], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(pointwise(x, k[:, :, 0, 0]), expected, rtol=1e-4, atol=1e-4)
    x, k = rng.standard_normal((batch, channels, 2, 2)).astype("f4"), rng.standard_normal((results, channels, 2, 2)).astype("f4")
    np.testing.assert_allclose(convolution(x, k), np.einsum("bchw,ochw->bo", x, k)[:, :, None, None], rtol=1e-4, atol=1e-4)
    for columns in (1, 2):
        a, b = rng.standard_normal((batch, results, channels)).astype("f4"), rng.standard_normal((batch, channels, columns)).astype("f4")
        np.testing.assert_allclose(products(a, b), a @ b, rtol=1e-4, atol=1e-4)
