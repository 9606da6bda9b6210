"""Shared by the tests of cascades: naive composites, what the passes make of them, and whether that means the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from luminal.ir.expr import size
from luminal.ir.graph import Graph
from luminal.ir.kernel import Module
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.cascade import cascade, why_not
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.row_axes import row_axes
from luminal.passes.simplify import simplify
from running import TARGET, agree, composite, draw, meaning, outputs

SEED = 11
OPTIONS = Options(level=2)
QKV = "Q{T}[H N D] K{T}[H M D] V{T}[H M E]"
PLACES = "(setf i (unsqueeze (iota N) :axis 1)) (setf j (iota M))"


def attention(scores: str = "", more: str = "", t: str = "f32") -> str:
    """softmax(scores(Q Kᵀ / √D)) V, as a researcher would write it first."""
    ports = QKV.replace("{T}", "{" + t + "}")
    return f"""(({ports}{more}) -> (O{{{t}}}[H N E]))
      (setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) {scores}
      (return (einsum "hij,hje->hie" (softmax s :axis -1) V))"""


def naive(text: str) -> Graph:
    return composite(f"(composite naive {text})")


def before(text: str) -> Graph:
    return row_axes(simplify(raise_loops(naive(text), TARGET, OPTIONS), TARGET, OPTIONS), TARGET, OPTIONS)


def after(graph: Graph) -> Graph:
    found = cascade(graph, TARGET, OPTIONS)
    verify(found)
    assert show(read(show(found), "graph")) == show(found)
    assert cascade(found, TARGET, OPTIONS).outputs == found.outputs
    return found


def inputs_of(graph: Graph, sizes: dict[str, int], seed: int, huge: float = 1e4) -> dict[str, Any]:
    """Normal values; every third seed with masked elements, every third with huge ones, in what is exponentiated."""
    found = draw(graph, sizes, seed)
    for name, x in found.items():
        if name in "XB" and x.dtype.kind == "f":
            flat = x.reshape(-1)
            if seed % 3 == 1:
                flat[::3] = -np.inf
                flat[: x.shape[-1]] = -np.inf  # a row of nothing else
            elif seed % 3 == 2:
                flat *= huge
    return found


def nests(found: Graph) -> Module:
    module = make_nests(fuse(found, TARGET, OPTIONS), TARGET, OPTIONS)
    verify(module)
    return module


LENGTHS = (0, 1, 63, 64, 65, 127, 129)


def check_one_pass(
    name: str, text: str, kernels: int, *, masked: bool = True, rounds: int = 3, lengths: tuple[int, ...] = LENGTHS, huge: float = 1e4
) -> Module:
    """The composite becomes so many kernels, one of them a cascade, with no scores in memory; graph and nests agree with its meaning, at lengths of the axis around tiles."""
    graph = naive(text)
    found = after(before(text))
    assert any(n.op == "cascade" for n in found.nodes()) and not why_not(found, TARGET)
    module = nests(found)
    assert len(module.kernels) == kernels, show(module)
    assert not any({size("N"), size("M")} <= set(t.shape) for t in module.temps), "scores in memory"
    legal = legalize(module, TARGET, OPTIONS)
    rng = random.Random(f"{SEED} {name}")
    names = {s.name for s in graph.sizes}
    for seed in range(rounds):
        sizes = {s.name: rng.choice((1, 2, 3, 5)) for s in graph.sizes}
        sizes |= {("M" if {"M", "D"} <= names else "N"): rng.choice(lengths)}
        print(f"seed {seed}, sizes {sizes}")
        inputs = inputs_of(graph, sizes, seed, huge) if masked else draw(graph, sizes, seed)
        want = meaning(graph, inputs, sizes)
        agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, seed {seed}, sizes {sizes}")
        agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the nests, seed {seed}, sizes {sizes}")
    return module
