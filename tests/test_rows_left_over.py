"""Rows that whole register tiles leave over are a tile of their own where they are few; operands lie where they were read from."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

PRODUCT = "(composite product ((A{f32}[M K] B{f32}[K N]) -> (C{f32}[M N])) (return (matmul A B)))"


def script(target: str, **sizes: int) -> list[str]:
    (found,) = compilations(PRODUCT, Settings(runtime="clang", target=target, sizes=sizes))
    return [line for kernel in found.module.kernels for line in kernel.schedule]


def test_a_few_are_a_tile() -> None:
    steps = script("x86-64-v4")
    few = [k for k, line in enumerate(steps) if line == "short i.1 4"]
    assert [steps[k - 1] for k in few] == ["split i 8", "split i 6"]  # three vectors of columns, and four
    assert all("split i.1.s 4 tail=clamp" in steps[k : k + 3] for k in few)


@pytest.mark.parametrize(("rows", "few"), [(64, True), (66, False), (68, True), (71, False), (4, False)])
def test_known_rows(rows: int, few: bool) -> None:
    """As many as leave few over tiles of six."""
    steps = script("x86-64-v4", M=rows, K=64, N=64)
    assert any(line.startswith("short i.1") for line in steps) == few


def test_not_where_lanes_are_not_masked() -> None:
    assert not any(line.startswith("short i.1") for line in script("armv8-a"))


@needs_cc
@pytest.mark.usefixtures("plain_c")
def test_meaning() -> None:
    product = luminal.compile(PRODUCT, target="native")
    rng = np.random.default_rng(3)
    for columns in (1, 16, 17, 48, 49, 64, 100):
        for rows in (6, *range(8, 22)):
            a, b = rng.standard_normal((rows, 35)).astype(np.float32), rng.standard_normal((35, columns)).astype(np.float32)
            np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
