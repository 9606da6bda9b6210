"""Scales of blocks leave a sum of products of bytes: what is left of each block is a sum of integers, which is exact."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.graph import Graph
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.verify import verify
from luminal.passes.cascades.block_sums import block_sums
from luminal.passes.simplify import simplify
from luminal.passes.take_out_scales import take_out_scales
from running import TARGET, composite, draw, meaning

VNNI = replace(TARGET, vector_bytes=64, instructions=frozenset({"dot4_u8_i8"}))
PORTS = "X{i8}[M B 8] W{i8}[N B 8] s{f32}[M B] t{f32}[N B] deep{f32}[B 8] c{f32}[N]"
X, W = "(* (cast f32 X) (reshape s M B 1))", "(* (cast f32 W) (reshape t N B 1))"
BLOCKS = '(einsum "mbi,nbi->mn" {} {})'
FLAT = '(einsum "mk,nk->mn" (reshape {} M (* 8 B)) (reshape {} N (* 8 B)))'


def graph_of(code: str, ports: str = PORTS) -> Graph:
    return simplify(composite(f"(composite sums (({ports}) -> (Y{{f32}}[M N])) (return {code}))"), VNNI, Options())


TAKEN = {
    "over both axes": BLOCKS.format(X, W),
    "over one": FLAT.format(X, W),
    "of one side": FLAT.format("(cast f32 X)", W),
    "of both sides, apart": '(einsum "mbi,nbi,nb,mb->mn" (cast f32 X) (cast f32 W) t s)',
    "and of each column": FLAT.format(X, "(* (cast f32 W) (reshape t N B 1) (reshape c N 1 1))"),
    "something made of it": f"(exp (- 0 (abs {FLAT.format(X, W)})))",
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_same_sum(case: str) -> None:
    graph = graph_of(TAKEN[case])
    after = take_out_scales(graph, VNNI, Options())
    verify(after)
    sums = [(n.dtype.name, [str(e) for e in n.attr.extents]) for n in after.nodes() if n.op == "reduce"]
    assert sums == [("i32", ["8"]), ("f32", ["B"])], sums
    assert len(block_sums(after, VNNI)) == 1
    for seed, (m, n, b) in enumerate([(3, 5, 2), (1, 1, 1), (4, 2, 0), (0, 3, 2), (2, 3, 7)]):
        sizes = {"M": m, "N": n, "B": b}
        inputs = draw(graph, sizes, seed)
        rng = np.random.default_rng(seed)
        inputs |= {name: rng.integers(-128, 128, inputs[name].shape).astype(np.int8) for name in ("X", "W")}
        want, got = meaning(graph, inputs, sizes), meaning(after, inputs, sizes)
        assert want is not None and got is not None
        np.testing.assert_allclose(got["Y"].value, want["Y"].value, rtol=1e-9, atol=1e-6, err_msg=f"{case}, seed {seed}, {sizes}")


LEFT = {
    "a factor moves along the block": BLOCKS.format(f"(* {X} deep)", W),
    "no scale moves along the sum": FLAT.format("(cast f32 X)", "(cast f32 W)"),
    "something is added to a byte": FLAT.format("(* (+ (cast f32 X) 0.5) (reshape s M B 1))", W),
    "a maximum": BLOCKS.format(X, W).replace("(einsum", "(max (einsum").replace("->mn", "->mnbi") + " :axis (2 3))",
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_alone(case: str) -> None:
    graph = graph_of(LEFT[case])
    assert take_out_scales(graph, VNNI, Options()).outputs == graph.outputs


@pytest.mark.parametrize("ports", [PORTS.replace("B 8", "B 6"), PORTS.replace("i8", "i16"), PORTS.replace("B 8", "B 32768")])
def test_blocks_are_words_that_no_sum_wraps(ports: str) -> None:
    graph = graph_of(BLOCKS.format(X, W), ports)
    assert take_out_scales(graph, VNNI, Options()).outputs == graph.outputs


def test_only_where_a_machine_has_the_instruction() -> None:
    graph = graph_of(FLAT.format(X, W))
    for names in (frozenset[str](), frozenset({"dot2_bf16"})):
        assert take_out_scales(graph, replace(TARGET, instructions=names), Options()).outputs == graph.outputs
