"""The standard library against NumPy and SciPy, and every sample against its own second opinion, on odd sizes, through the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from luminal.dsl import Composite, Instance, Scope, elaborate, read_file, second_opinion
from luminal.dsl.scope import LIBRARY
from luminal.ir.evaluate import evaluate as size_value
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from scipy import special
from threefry import normal, threefry, uniform, words

SEED = 7
SAMPLES = sorted((Path(__file__).parent.parent / "samples").glob("*.toml"))
Array = np.ndarray


def last(path: Path) -> tuple[Composite, Scope]:
    composites = read_file(path)
    return composites[-1], Scope(composites)


def draw(graph: Graph, sizes: dict[str, int]) -> dict[str, Any]:
    """f64 values in the ports' shapes; indices inside their axes."""
    random = np.random.default_rng(SEED)
    found: dict[str, Any] = {}
    for p in graph.ports:
        shape = tuple(size_value(e, sizes) for e in p.shape)
        if p.role == "out":
            continue
        if p.index_limit is not None:
            found[p.name] = random.integers(0, size_value(p.index_limit, sizes), shape)
        elif p.name in sizes:  # a scalar that the test binds
            found[p.name] = sizes[p.name]
        elif p.draw == "spd":
            square = random.standard_normal(shape)
            found[p.name] = square @ square.T / shape[0] + np.eye(shape[0])
        elif p.dtype.is_integer:
            found[p.name] = random.integers(-(2 ** (p.dtype.bits - 2)) if p.dtype.kind == "int" else 0, 2 ** (p.dtype.bits - 2), shape)
        elif p.draw == "positive":
            found[p.name] = random.uniform(0.1, 2, shape)
        else:
            found[p.name] = random.standard_normal(shape)
    return found


def outputs(graph: Graph, inputs: dict[str, Any], sizes: dict[str, int]) -> list[Array]:
    found = evaluate(graph, inputs, sizes, bounds=False)
    return [np.asarray(found[name].value) for name, _ in graph.outputs]


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    n, m = s.shape[-2:]
    if causal:
        s = np.where(np.arange(m) <= np.arange(n)[:, None] + (m - n), s, -np.inf)
    return special.softmax(s, -1) @ v


def rotary(x: Array) -> Array:
    n, d = x.shape[-2:]
    angle = np.arange(n)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def windows(x: Array, *kernel: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, kernel, axis=tuple(range(-len(kernel), 0)))


def convolution(x: Array, k: Array, bias: Array) -> Array:
    n = x.ndim - 2
    return np.moveaxis(np.tensordot(windows(x, *k.shape[2:]), k, ((1, *range(n + 2, 2 * n + 2)), range(1, n + 2))), -1, 1) + bias.reshape(
        -1, *[1] * n
    )


EXPECTED: dict[str, Callable[..., Any]] = {
    "linear": lambda x, w, b: x @ w.T + b, "attention": attention,
    "matmul": np.matmul, "gemm": lambda a, b, c, alpha, beta: alpha * (a @ b) + beta * c, "matvec": lambda a, x: a @ x, "dot": np.dot, "outer": np.outer,
    "trace": np.trace, "one_hot": lambda i: np.eye(10)[i], "embedding": lambda w, i: w[i], "rotary": rotary, "threefry": threefry, "random_bits": words,
    "rand": lambda p, s: uniform(p, s, 24), "randn": normal, "conv1d": convolution, "conv2d": convolution,
    "conv3d": convolution, "maxpool2d": lambda x: windows(x, 3, 3).max((-2, -1)), "avgpool2d": lambda x: windows(x, 3, 3).mean((-2, -1)), "transpose2d": np.transpose,
}  # fmt: skip

NEAR = {"randn": 1e-6}  # it is made in f32, where 2π is rounded


FILES = [p for p in sorted(LIBRARY.glob("*/*.toml")) if p.stem in EXPECTED]  # the families with a table of their own: test_ops_*.py


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_library(path: Path) -> None:
    composite, scope = last(path)
    assert composite.documentation and composite.test.sizes, "every library composite says what it is and has test sizes"
    assert composite.name == path.stem
    graph = elaborate(composite, scope, Instance(dtypes={p.type.name: "f64" for p in composite.ports if p.type and p.type.dtype is None}))
    for sizes in composite.test.sizes:
        inputs = draw(graph, sizes)
        with np.errstate(all="ignore"):
            expected = EXPECTED[path.stem](*inputs.values())
        for actual, value in zip(outputs(graph, inputs, sizes), expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(actual.astype(float), value, rtol=1e-12, atol=NEAR.get(path.stem, 1e-12))


def test_variants_of_library_composites() -> None:
    q, k, v = (np.random.default_rng(SEED).standard_normal(s) for s in ((2, 5, 3), (2, 7, 3), (2, 7, 4)))
    sizes = {"batch": 2, "N": 5, "D": 3, "M": 7, "E": 4}
    composite, scope = last(LIBRARY / "nn/attention.toml")
    graph = elaborate(composite, scope, Instance({"T": "f64"}, {"causal": True}))
    np.testing.assert_allclose(outputs(graph, {"Q": q, "K": k, "V": v}, sizes)[0].astype(float), attention(q, k, v, True), rtol=1e-12)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_samples_have_a_graph_and_agree_with_their_second_opinion(path: Path) -> None:
    composite, scope = last(path)
    graph = elaborate(composite, scope)
    other = second_opinion(composite)
    for sizes in composite.test.sizes:
        inputs = draw(graph, sizes)
        actual = outputs(graph, inputs, sizes)
        assert all(np.isfinite(a.astype(float)).all() for a in actual)
        if other is not None:
            for a, b in zip(actual, outputs(elaborate(other, scope), inputs, sizes), strict=True):
                np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=1e-6, atol=1e-6)


def test_attention_sample() -> None:
    composite, scope = last(SAMPLES[0].parent / "attention.toml")
    graph = elaborate(composite, scope, Instance({"T": "f64"}))
    sizes = composite.test.sizes[1]
    inputs = draw(graph, sizes)
    np.testing.assert_allclose(outputs(graph, inputs, sizes)[0].astype(float), attention(*inputs.values()), rtol=1e-12)


def test_floyd_warshall_sample() -> None:
    composite, scope = last(SAMPLES[0].parent / "floyd_warshall.toml")
    d = np.random.default_rng(SEED).uniform(0, 1, (9, 9))
    expected = d.copy()
    for k in range(9):
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k : k + 1])
    graph = elaborate(composite, scope, Instance({"T": "f64"}))
    np.testing.assert_allclose(outputs(graph, {"D": d}, {"N": 9})[0].astype(float), expected, rtol=1e-12)
