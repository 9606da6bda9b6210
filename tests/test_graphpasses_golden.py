"""Goldens to read, the shape of what is fused, and graphs that are deep."""

import time

import pytest
from luminal.ir.dtypes import f32
from luminal.ir.expr import size
from luminal.ir.graph import Graph, Port, Size, elementwise, identity, input_node
from luminal.ir.kernel import Loop, statements
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import show
from luminal.passes.fuse import fuse
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.simplify import simplify
from running import TARGET, composite
from test_graphpasses_meaning import LOOPS, TENSORS, floats

GOLDEN = {
    "gemm": LOOPS["gemm"],
    "softmax": TENSORS["softmax"],
    "layer_norm": TENSORS["layer norm"],
    "two_layers": TENSORS["two layers"],
    "padded": TENSORS["padded"],
    "concat": TENSORS["concat"],
    "symmetric": TENSORS["A + A' in place"],
}


def graph_and_module(text: str, level: int = 2):
    options = Options(level=level)
    ir = composite(f"(composite t {floats(text)})")
    for run in (raise_loops, simplify, fuse):
        ir = run(ir, TARGET, options)
    return ir, make_nests(ir, TARGET, options)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name, golden):
    graph, module = graph_and_module(GOLDEN[name])
    golden(f"{name}.graph", show(graph))
    golden(f"{name}.kernel", show(module))


@pytest.mark.parametrize(
    ("name", "plain", "fused"),
    [
        ("softmax", 5, 1),
        ("softmax in place", 5, 1),
        ("layer norm", 9, 1),
        ("chain of products", 2, 2),
        ("two layers", 4, 2),
        ("attention", 8, 3),
        ("A + A' in place", 2, 2),
        ("swapped", 3, 3),
        ("concat", 3, 1),
        ("total", 3, 2),
    ],
)
def test_number_of_kernels(name, plain, fused):
    assert len(graph_and_module(TENSORS[name], 0)[1].kernels) == plain
    assert len(graph_and_module(TENSORS[name], 2)[1].kernels) == fused


def test_a_statistic_is_computed_once_a_row():
    """The loops of both sums of a layer norm stand inside the rows alone."""
    _, module = graph_and_module(TENSORS["layer norm"])
    (rows,) = (s for s in module.kernels[0].body if isinstance(s, Loop))
    assert [s.kind for s in rows.body if isinstance(s, Loop)] == ["reduce", "reduce", "parallel"]


@pytest.mark.parametrize("name", ["concat", "concat of columns", "padded"])
def test_no_mask_is_left_on_a_cpu(name):
    """Loops are split at the borders; on a GPU, one loop is the grid."""
    assert "where" not in show(graph_and_module(TENSORS[name])[1])
    ir = graph_and_module(TENSORS[name])[0]
    (kernel,) = make_nests(ir, replace(TARGET, gpu=True), Options()).kernels
    assert sum(isinstance(s, Loop) for s in kernel.body) == 1


def test_passes_are_idempotent():
    """Starting again from a saved graph changes nothing."""
    for text in TENSORS.values():
        graph, module = graph_and_module(text)
        again = fuse(simplify(raise_loops(graph, TARGET, Options()), TARGET, Options()), TARGET, Options())
        assert show(make_nests(again, TARGET, Options())) == show(module)


def test_a_deep_chain_is_neither_slow_nor_too_deep():
    n, x, y = size("N"), Port("X", f32, (size("N"),), "in"), Port("Y", f32, (size("N"),), "out")
    node = input_node(x)
    for k in range(3000):
        node = elementwise(("sin", "neg", "exp")[k % 3], (n,), identity(node))
    graph = Graph("deep", (Size("N"),), (x, y), (("Y", node),))
    began = time.process_time()
    module = make_nests(fuse(simplify(raise_loops(graph, TARGET, Options()), TARGET, Options()), TARGET, Options()), TARGET, Options())
    assert time.process_time() - began < 20  # seconds; what is quadratic takes minutes
    assert len(module.kernels) == 1
    assert max(len(show(module).splitlines()[k]) for k in range(10)) < 400
    assert sum(1 for _ in statements(module.kernels[0].body)) > 100
