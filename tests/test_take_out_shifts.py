"""What is added to the factors of a sum of products of bytes is taken out of it: the same integers, and a product that an instruction multiplies."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.graph import Graph
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.verify import verify
from luminal.passes.simplify import simplify
from luminal.passes.take_out_shifts import take_out_shifts
from running import TARGET, composite, draw, meaning

VNNI = replace(TARGET, instructions=frozenset({"dot4_u8_i8"}))
PORTS = "A{u8}[M K] B{i8}[K N] zero{i32}[] other{i32}[] row{i32}[M] column{i32}[N] deep{i32}[K]"


def product(left: str, right: str, ports: str = PORTS) -> Graph:
    return composite(f'(composite sums (({ports}) -> (Y{{i32}}[M N])) (return (einsum "ik,kj->ij" {left} {right})))')


def multiplied(graph: Graph) -> list[set[str]]:
    """For each product of two tensors that is summed over K: what its factors are."""
    sums = [n.args[0].node for n in graph.nodes() if n.op == "reduce"]
    return [{a.node.op for a in n.args} for n in sums if n.op == "mul"]


TAKEN = {
    "a zero on either side": ("(- (cast i32 A) zero)", "(- (cast i32 B) other)"),
    "on the left": ("(- (cast i32 A) zero)", "(cast i32 B)"),
    "on the right": ("(cast i32 A)", "(- (cast i32 B) other)"),
    "added, the other way round": ("(+ zero (cast i32 A))", "(- (cast i32 B) 3)"),
    "one for each row and column": ("(- (cast i32 A) (unsqueeze row :axis 1))", "(- (cast i32 B) column)"),
    "made of others": ("(- (cast i32 A) (* zero other))", "(- (cast i32 B) (+ column other))"),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_same_integers(case: str) -> None:
    graph = simplify(product(*TAKEN[case]), VNNI, Options())
    after = take_out_shifts(graph, VNNI, Options())
    verify(after)
    assert multiplied(graph) != [{"cast"}]
    assert multiplied(after) == [{"cast"}]
    for seed, (m, n, k) in enumerate([(3, 5, 7), (1, 1, 1), (4, 2, 0), (0, 3, 2)]):
        sizes = {"M": m, "N": n, "K": k}
        inputs = draw(graph, sizes, seed)
        rng = np.random.default_rng(seed)
        inputs["A"], inputs["B"] = (rng.integers(0, 256, inputs[x].shape).astype(t) for x, t in (("A", np.uint8), ("B", np.int8)))
        inputs["zero"] = np.array(2**31 - 5, np.int32)  # sums wrap
        want, got = meaning(graph, inputs, sizes), meaning(after, inputs, sizes)
        assert want is not None and got is not None
        np.testing.assert_array_equal(got["Y"].value, want["Y"].value, f"{case}, seed {seed}, {sizes}")


LEFT = {
    "moves along the sum": ("(- (cast i32 A) deep)", "(cast i32 B)"),
    "read through a padding": ("(slice (pad (- (cast i32 A) zero) _ (1 0)) _ (0 -1))", "(cast i32 B)"),
    "scaled": ("(* (cast i32 A) zero)", "(cast i32 B)"),
    "what bytes are taken from": ("(- zero (cast i32 A))", "(cast i32 B)"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_alone(case: str) -> None:
    graph = simplify(product(*LEFT[case]), VNNI, Options())
    assert take_out_shifts(graph, VNNI, Options()).outputs == graph.outputs


def test_only_where_a_machine_has_the_instruction() -> None:
    graph = simplify(product("(- (cast i32 A) zero)", "(- (cast i32 B) other)"), TARGET, Options())
    assert take_out_shifts(graph, TARGET, Options()) is graph
    words = replace(TARGET, instructions=frozenset({"dot2_bf16"}))
    assert take_out_shifts(graph, words, Options()).outputs == graph.outputs
