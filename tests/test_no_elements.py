"""Sizes that are fixed at 0: nothing is computed where nothing is stored, and reductions over nothing are what changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from compilers import needs_cc
from luminal.cli.main import run
from luminal.compiler import Settings, compilations
from luminal.ir.graph import Graph

pytestmark = pytest.mark.usefixtures("plain_c")

# composites whose kernels were scheduled for loops that never run, and which of their sizes is 0
EMPTY = [
    "gemm M", "gemm M N K", "syrk N", "symm M", "tensordot N", "tensordot M", "fft2 N", "flatten W", "kron P", "tile M N", "col2im J", "group_norm C",
    "channel_shuffle B C H W", "gru_cell B", "multi_head_attention N", "multi_head_attention M", "patchify W", "uint8_matmul M", "cached_attention H",
]  # fmt: skip


@pytest.mark.parametrize("case", EMPTY)
def test_a_size_may_be_fixed_at_0(case: str) -> None:
    name, *sizes = case.split()
    for compilation in compilations(name, Settings(sizes=dict.fromkeys(sizes, 0))):
        assert compilation.program.functions


def test_what_has_no_elements_is_not_computed() -> None:
    text = "(composite f ((A{f32}[M K] B{f32}[K N]) -> (Y{f32}[M N])) (return (exp (matmul A B))))"
    for sizes, value in (({"M": 0}, 0.0), ({"K": 0}, 1.0)):
        (compilation,) = compilations(text, Settings(sizes=sizes))
        graph = compilation.run(stop_after="simplify")
        assert isinstance(graph, Graph)
        ((_, out),) = graph.outputs
        assert [n.attr.value for n in graph.nodes() if n.op == "const"] == [value] and not any(
            n.op in ("reduce", "exp", "mul") for n in graph.nodes()
        )
        assert out.shape == graph.port("Y").shape


@needs_cc
def test_reductions_over_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import luminal

    folds = luminal.compile(
        "(composite f ((A{f32}[M K] Z{c64}[M K] I{i32}[M K]) -> (y0 y1 y2 y3 y4 y5))"
        " (return (sum A :axis 1) (prod A :axis 1) (max A :axis 1) (all (> A 0) :axis 1) (sum Z :axis 1) (min I :axis 1)))",
        sizes={"K": 0},
    )
    found = folds(np.zeros((2, 0), np.float32), np.zeros((2, 0), np.complex64), np.zeros((2, 0), np.int32))
    for values, expected in zip(found, (0, 1, -np.inf, True, 0j, 2**31 - 1), strict=True):
        np.testing.assert_array_equal(values, np.full(2, expected))
    assert run(["compile", "attention", "-D", "M=0", "--test=batch=2,N=3,D=4,E=5"]) == 0, capsys.readouterr()
