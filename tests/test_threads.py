"""Which loops get the threads: where a loop may have one trip and holds several nests, the loops inside of it share them too."""

from __future__ import annotations

from itertools import pairwise

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Kernel, Loop

pytestmark = pytest.mark.usefixtures("plain_c")

PADDED = "(composite padded ((X{f32}[B H W]) -> (Y{f32}[B P Q])) (return (pad X (0 0) (1 2) (3 1) :value 2)))"
TURNED = "(composite turned ((X{f32}[B H W]) -> (Y{f32}[B W H])) (return (transpose X (0 2 1))))"


def kernel_of(text: str, **sizes: int) -> Kernel:
    (c,) = compilations(text, Settings(sizes=sizes))
    (kernel,) = c.module.kernels
    return kernel


@pytest.mark.parametrize("text", [PADDED, TURNED])
def test_an_image_alone_is_shared(text: str) -> None:
    """The outermost loop of each nest is that over the images and over what is inside of it, in one."""
    kernel = kernel_of(text)
    assert "fission i" in kernel.schedule
    nests = [s for s in kernel.body if isinstance(s, Loop)]
    assert len(nests) > 1
    assert all(s.kind == "parallel" and s.axis.startswith("i") and "_" in s.axis for s in nests), [s.axis for s in nests]
    assert sum(a.startswith("collapse") and b.startswith("parallel") for a, b in pairwise(kernel.schedule)) == len(nests)


def test_many_images_are_shared_as_they_are() -> None:
    assert not any(line.startswith("fission") for line in kernel_of(PADDED, B=64).schedule)


@needs_cc
def test_any_number_of_images() -> None:
    padded, turned = luminal.compile(PADDED), luminal.compile(TURNED)
    for shape in [(1, 1, 1), (0, 3, 2), (1, 300, 301), (3, 40, 17), (1, 0, 5), (2, 5, 0)]:
        x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(padded(x), np.pad(x, ((0, 0), (1, 2), (3, 1)), constant_values=2))
        np.testing.assert_array_equal(turned(x), x.transpose(0, 2, 1))
