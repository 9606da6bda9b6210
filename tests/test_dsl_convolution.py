"""Convolutions and 2-D pooling of the library against windows of NumPy: strides, paddings, dilations, groups, bias, and what a caller inherits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from luminal.compiler import Settings, compilations
from luminal.dsl import Instance, Scope, elaborate, read, read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate

SEED = 11
Array = np.ndarray
LETTERS = {1: ("s", "p"), 2: ("rs", "pq"), 3: ("ers", "npq")}


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], fill: float) -> Array:
    """The windows over the last axes of x: [… positions… kernel…]."""
    n = len(kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + [(p, p) for p in padding], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)], axis=tuple(range(-n, 0)))
    return view[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]


def convolution(x: Array, k: Array, bias: Array | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    """Group by group, each an einsum over the windows."""
    n = x.ndim - 2
    inner, outer = LETTERS[n]
    view = windows(x, k.shape[2:], stride, padding, dilation, 0)
    pieces = [
        np.einsum(f"bc{outer}{inner},oc{inner}->bo{outer}", v, w) for v, w in zip(np.split(view, groups, 1), np.split(k, groups, 0), strict=True)
    ]
    y = np.concatenate(pieces, 1)
    return y if bias is None else y + bias.reshape(-1, *[1] * n)


def drawn(*shapes: Sequence[int]) -> list[Array]:
    rng = np.random.default_rng(SEED)
    return [rng.standard_normal(s) for s in shapes]


def library(name: str, parameters: dict[str, Any], given: tuple[str, ...] = ()) -> Graph:
    composite = read_file(LIBRARY / f"nn/{name}.toml")[-1]
    return elaborate(composite, Scope((composite,)), Instance({"T": "f64"}, parameters, given=given))


def sizes_of(graph: Graph, inputs: dict[str, Array]) -> dict[str, int]:
    """What the plain sizes of the input ports are for these arrays."""
    return {e.attr: n for p in graph.ports if p.role == "in" for e, n in zip(p.shape, inputs[p.name].shape, strict=True) if e.op == "size"}


def run(graph: Graph, inputs: dict[str, Array]) -> Array:
    return np.asarray(evaluate(graph, inputs, sizes_of(graph, inputs))["Y"].value).astype(float)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [
        ([1, 1, 1], [0, 0, 0], [1, 1, 1], 1), ([2, 3, 1], [1, 0, 2], [1, 2, 1], 1), ([1, 2, 2], [2, 1, 1], [2, 1, 3], 2), ([1, 1, 2], [1, 1, 1], [1, 1, 1], 6),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions(n: int, stride: list[int], padding: list[int], dilation: list[int], groups: int, bias: bool) -> None:
    x, k, b = drawn([2, 6, 9, 8, 7][: n + 2], [12, 6 // groups, 3, 2, 3][: n + 2], [12])
    named = {"stride": stride[:n], "padding": padding[:n], "dilation": dilation[:n], "groups": groups}
    graph = library(f"conv{n}d", named, ("Bias",) * bias)
    inputs = {"X": x, "K": k, **({"Bias": b} if bias else {})}
    expected = convolution(x, k, b if bias else None, stride[:n], padding[:n], dilation[:n], groups)
    np.testing.assert_allclose(run(graph, inputs), expected, rtol=1e-12, atol=1e-12)


def test_one_number_stands_for_all_axes() -> None:
    x, k = drawn([1, 2, 9, 8], [3, 2, 2, 3])
    graph = library("conv2d", {"stride": 2, "padding": 1})
    np.testing.assert_allclose(run(graph, {"X": x, "K": k}), convolution(x, k, None, (2, 2), (1, 1), (1, 1), 1), rtol=1e-12)


@pytest.mark.parametrize("named", [{}, {"kernel": [2, 3], "stride": [2, 1], "padding": [1, 1]}, {"kernel": 3, "stride": 3, "padding": 1}])
def test_pools(named: dict[str, Any]) -> None:
    (x,) = drawn([2, 3, 11, 10])
    x -= 5  # a maximum over padding that is 0 would show
    pair = {key: [v, v] if isinstance(v, int) else v for key, v in ({"kernel": 3, "stride": 1, "padding": 0} | named).items()}
    read_at = (pair["kernel"], pair["stride"], pair["padding"], (1, 1))
    flat = x.reshape(6, 11, 10)
    top = windows(flat, *read_at, -np.inf).max((-2, -1))
    np.testing.assert_array_equal(run(library("maxpool2d", named), {"X": flat}), top)
    zeros, ones = windows(flat, *read_at, 0), windows(np.ones_like(flat), *read_at, 0)
    np.testing.assert_allclose(run(library("avgpool2d", named), {"X": flat}), zeros.mean((-2, -1)), rtol=1e-12)
    inside = library("avgpool2d", {**named, "count_include_pad": False})
    np.testing.assert_allclose(run(inside, {"X": flat}), zeros.sum((-2, -1)) / ones.sum((-2, -1)), rtol=1e-12)


def test_maxpool_is_dilated() -> None:
    (x,) = drawn([2, 9, 9])
    found = run(library("maxpool2d", {"kernel": 2, "dilation": 3}), {"X": x})
    np.testing.assert_array_equal(found, windows(x, (2, 2), (1, 1), (0, 0), (3, 3), -np.inf).max((-2, -1)))


def test_a_convolution_is_one_kernel_without_a_copy_of_the_windows() -> None:
    """No im2col buffer: one nest, whose reads of X and K are the windows."""
    text = """(composite net ((X{f32}[B C H W] K{f32}[O G R S] A{f32}[O]) -> (Y))
      (return (max (conv2d X K A :padding 1 :stride (2 1) :groups 2) 0.0)))"""
    (found,) = compilations(text, Settings(runtime="reference", O=1))
    assert len(found.module.kernels) == 1
    assert not found.module.temps


def test_a_caller_inherits_what_the_groups_need() -> None:
    text = """(composite net ((X{f32}[B C H W] K{f32}[O G R S]) -> (Y)) (return (conv2d X K :groups 3)))"""
    (composite,) = read(text, "net.lisp")
    graph = elaborate(composite, Scope((composite,)))
    assert {"O % 3 == 0", "C == G * 3"} <= {str(r) for r in graph.requires}
