"""Shared by the tests of passes: draw inputs for a graph, run a graph or a module on them, compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from luminal import dsl
from luminal.ir.dtypes import DTYPES, numpy_dtype
from luminal.ir.evaluate import evaluate
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate as evaluate_graph
from luminal.ir.interpret.judge import Bounded, CheckFault, IndexFault, judge
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.primops import OPS
from luminal.ir.program import BAD_INDEX
from luminal.ir.target import Target

SMALL = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
TARGET = Target("reference", "reference", "the interpreter", native=frozenset(OPS), dtypes=frozenset(DTYPES), arithmetic=frozenset(DTYPES) - SMALL)


def composite(text: str) -> Graph:
    """The graph of the last composite in S-expression text."""
    composites = dsl.read(text, "test.lisp")
    return dsl.elaborate(composites[-1], dsl.Scope(composites, ()))


def draw(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Random values for every port that is read; small integers, and indices below the port's limit."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for p in graph.ports:
        if p.role == "out":
            continue
        shape = tuple(evaluate(e, sizes) for e in p.shape)
        if p.dtype.is_inexact:
            values = rng.standard_normal(shape)
            if p.dtype.is_complex:
                values = values + 1j * rng.standard_normal(shape)
        elif p.dtype.kind == "bool":
            values = rng.integers(0, 2, shape)
        else:
            limit = 5 if p.index_limit is None else max(1, evaluate(p.index_limit, sizes))
            values = rng.integers(0, limit, shape)
        found[p.name] = np.asarray(values).astype(numpy_dtype(p.dtype))
    return found


def meaning(graph: Graph, inputs: dict[str, Any], sizes: Mapping[str, int]) -> dict[str, Bounded] | None:
    """The exact outputs, or None where an index leaves its tensor."""
    try:
        return evaluate_graph(graph, inputs, sizes)
    except (IndexFault, CheckFault):
        return None


def outputs(module: Module, inputs: dict[str, Any], sizes: Mapping[str, int], seed: int) -> dict[str, Any] | None:
    """What the kernels leave in the output ports, run with shuffled parallel loops and races found; None for an index fault."""
    buffers = {name: np.array(x) for name, x in inputs.items()}
    for p in module.ports:
        if p.role == "out":
            buffers[p.name] = np.zeros(tuple(evaluate(e, sizes) for e in p.shape), numpy_dtype(p.dtype))
    code = run(module, buffers, sizes, check=True, seed=seed)
    assert code in (0, BAD_INDEX)
    return None if code else {p.name: buffers[p.name] for p in module.ports if p.role in ("out", "inout")}


def agree(got: Mapping[str, Any] | None, want: Mapping[str, Bounded] | None, graph: Graph, context: str) -> None:
    """Both faulted, or every output is within its bound (`got` may itself be exact)."""
    assert (got is None) == (want is None), f"{context}: only one of the two left by an index fault"
    for name, expected in (want or {}).items():
        actual = got[name].value if isinstance(got[name], Bounded) else got[name]  # type: ignore[index]
        verdict = judge(actual, expected, graph.port(name).dtype)
        assert verdict.ok, f"{context}: {name}{list(verdict.worst)} is off by {verdict.max_bound_ratio} bounds"
