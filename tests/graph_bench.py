"""A builder beside NumPy arrays: graphs are built from inputs, evaluated by the interpreter and compared."""

import numpy as np
from luminal.ir import expr as ex
from luminal.ir.build import Builder, Tensor
from luminal.ir.dtypes import f64, numpy_dtype
from luminal.ir.evaluate import evaluate as value_of
from luminal.ir.graph import Graph, Port, Size
from luminal.ir.interpret.graph import evaluate

SIZES = {"M": 3, "N": 4, "K": 5}
M, N, K = map(ex.size, SIZES)


class Bench:
    """A builder, its input arrays, and `check(tensor, expected)`."""

    def __init__(self, sizes=SIZES, seed=1, facts=(), **info):
        self.values = dict(sizes)
        self.b = Builder({n: info.get(n, Size(n)) for n in sizes}, facts)
        self.rng = np.random.default_rng(seed)
        self.arrays, self.ports = {}, []

    def input(self, *shape, dtype=f64, low=-9, high=9, array=None):
        name = f"x{len(self.ports)}"
        port = Port(name, dtype, tuple(map(ex.as_expr, shape)), "in")
        extents = [value_of(e, self.values) for e in port.shape]
        if array is None:
            array = self.rng.normal(size=extents) if dtype.is_float else self.rng.integers(low if dtype.kind == "int" else 0, high, extents)
        self.arrays[name] = np.asarray(array).astype(numpy_dtype(dtype))
        self.ports.append(port)
        return self.b.input(port), self.arrays[name]

    def value(self, x: Tensor):
        node = self.b.node(self.b.strong(x))
        out = Port("y", node.dtype, node.shape, "out")
        graph = Graph("t", tuple(self.b.sizes.values()), (*self.ports, out), (("y", node),))
        result = evaluate(graph, self.arrays, self.values, bounds=False)["y"]
        return np.asarray(result.value)

    def check(self, x: Tensor, expected, exact=False):
        expected = np.asarray(expected)
        assert all(value_of(c, self.values) for c in self.b.requires), [repr(c) for c in self.b.requires]
        assert tuple(value_of(e, self.values) for e in x.shape) == expected.shape
        got = self.value(x)
        assert got.shape == expected.shape
        if exact:
            np.testing.assert_array_equal(got.astype(expected.dtype), expected)
        else:
            np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=1e-6, atol=1e-9)


def movement_only(x: Tensor):
    """No node was made: the view reads an input or a constant."""
    return x.view.node.op in ("input", "const")


def index(x: Tensor) -> list[str]:
    """The positions that its view reads."""
    return [str(e) for e in x.view.index]


def shape(x: Tensor) -> list[str]:
    return [str(e) for e in x.shape]


def asked(t: Bench) -> list[str]:
    """The preconditions so far."""
    return [str(c) for c in t.b.requires]
