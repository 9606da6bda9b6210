"""Blocks of numbers with a scale each: their scaled sums are one contraction, scaled where it is packed or read, and as right as the sums of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.bounds import Known, Range
from luminal.ir.expr import ONE, ZERO, Expr, const, size, var
from luminal.ir.graph import Graph
from luminal.ir.kernel import Loop
from luminal.ir.simplify import simplify
from luminal.passes.schedule.affine import step_within

SEED = 11
ROOT = Path(__file__).parent.parent
GROUPS = '(composite groups ((X{f32}[M K 32] W{i8}[N K 32] S{f32}[N K]) -> (Y{f32}[M N])) (return (einsum "mki,nki,nk->mn" X (cast f32 W) S)))'
FLOATS = """(composite floats ((X{f32}[M K 32] W{f32}[N K 32] S{f32}[N K] R{f32}[M K]) -> (Y{f32}[M N]))
(return (* 2 (einsum "mnk,nk,mk->mn" (einsum "mki,nki->mnk" X W) S R))))"""
INTEGERS = """(composite integers ((X{A}[M K 32] W{B}[N K 32] S{f32}[N K]) -> (Y{f32}[M N]))
(return (einsum "mnk,nk->mn" (cast f32 (einsum "mki,nki->mnk" (cast i32 X) (cast i32 W))) S)))"""


def compiled(source: str, **settings: Any) -> Compilation:
    (c,) = compilations(source, Settings(**settings))
    return c


def merged(c: Compilation) -> Graph:
    return c.run(stop_after="merge_sums" if not c.options.strict else "simplify")


def sums(graph: Graph) -> list[tuple[str, int]]:
    """The dtype of each sum, and over how many axes it is."""
    return [(n.dtype.name, len(n.attr.extents)) for n in graph.nodes() if n.op == "reduce"]


def conditions(c: Compilation) -> list[str]:
    return [line.removeprefix("variant").strip() for k in c.module.kernels for line in k.schedule if line.startswith("variant")]


@pytest.mark.parametrize("name", ["q8_0_matmul", "q4_0_matmul"])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_blocks_of_bytes_are_multiplied_in_tiles_and_no_copy_of_them_is_made(name: str, target: str) -> None:
    c = compiled(name, target=target)
    assert not c.module.temps and len(c.module.kernels) == 1
    assert "M <= 8" in conditions(c)  # read as they lie, by vectors along a block


def test_a_scale_goes_with_the_operand_that_has_its_axes() -> None:
    graph = merged(compiled(FLOATS))
    (n,) = (n for n in graph.nodes() if n.op == "reduce")
    shapes = [[str(e) for e in a.node.shape] for a in n.args[0].node.args]
    assert n.attr.extents[1] is const(32) and all(a.node.op == "mul" for a in n.args[0].node.args)
    assert sorted(len(s) for s in shapes) == [3, 3], shapes


@pytest.mark.parametrize(
    ("source", "settings", "expected"),
    [
        (INTEGERS, {"dtype": {"A": "i8", "B": "i8"}}, [("i32", 1), ("f32", 1)]),  # exact as they are
        (FLOATS, {"strict": True}, [("f32", 1), ("f32", 1)]),
        (FLOATS.replace("32", "D").replace("fD", "f32"), {}, [("f32", 1), ("f32", 1)]),  # whether rows are short is not known
        (
            '(composite two ((X{f32}[M K 32] W{f32}[N K 32] S{f32}[N K]) -> (Y{f32}[M N] Z{f32}[M N K])) (setf z (einsum "mki,nki->mnk" X W)) (return (einsum "mnk,nk->mn" z S) z))',
            {},
            [("f32", 1), ("f32", 1)],  # somebody else reads the sums
        ),
        (
            '(composite each ((X{f32}[M K 32] W{f32}[N K 32] S{f32}[M N K]) -> (Y{f32}[M N])) (return (einsum "mnk,mnk->mn" (einsum "mki,nki->mnk" X W) S)))',
            {},
            [("f32", 1), ("f32", 1)],  # a scale for each pair of rows and columns
        ),
    ],
)
def test_what_is_one_sum(source: str, settings: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert sums(merged(compiled(source, **settings))) == expected


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize(("m", "k", "n"), [(1, 3, 9), (3, 5, 18), (7, 1, 3), (33, 2, 37), (150, 9, 20), (0, 2, 3), (2, 0, 3)])
def test_values(m: int, k: int, n: int) -> None:
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x, s, r = rng.standard_normal((m, k, 32), np.float32), rng.standard_normal((n, k), np.float32), rng.standard_normal((m, k), np.float32)
    w = rng.integers(-128, 128, (n, k, 32), np.int8)
    whole = np.einsum("mki,nki,nk->mnk", x.astype(np.float64), w.astype(np.float64), s.astype(np.float64))
    bound = 2e-6 * np.einsum("mki,nki,nk->mn", abs(x), abs(w.astype(np.float64)), abs(s)) + 1e-30
    assert (abs(_made(GROUPS)(x, w, s) - whole.sum(2)) <= bound).all()
    expected = 2 * np.einsum("mnk,mk->mn", whole, r)
    assert (abs(_made(FLOATS)(x, w.astype(np.float32), s, r) - expected) <= 2 * bound * (1 + abs(r).max(initial=0))).all()


_functions: dict[str, luminal.Function] = {}


def _made(source: str) -> luminal.Function:
    if source not in _functions:
        _functions[source] = luminal.compile(source)
    return _functions[source]


def test_windows_of_a_stride_are_no_tensor() -> None:
    """A padded and strided window is made of fewer elements than it has: it is read where the product is."""
    c = compiled(str(ROOT / "samples/conv2d.toml"))
    assert not c.module.temps


# ---- what they are made of

BLOCK, LANE = var("block"), var("lane")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((BLOCK * 16 + LANE).le(15), "block <= 0"),
        ((BLOCK * 16 + LANE).le(14), "block * 16 + lane <= 14"),
        (const(16).le(BLOCK * 16 + LANE), "1 <= block"),
        (const(17).le(BLOCK * 16 + LANE), "17 <= block * 16 + lane"),
        ((BLOCK * 32 - LANE).lt(1), "block <= 0"),
        ((BLOCK * 16 + LANE).lt(size("N") * 16), "block < N"),
        ((BLOCK * 8 + LANE).lt(80), "block * 8 + lane <= 79"),
    ],
)
def test_a_position_in_a_block_does_not_tell_blocks_apart(before: Expr, after: str) -> None:
    known = Known({"block": (0, 1000, 1), "lane": (0, 15, 1), "N": (0, 1000, 1)})
    assert repr(simplify(before, known)) == after


@pytest.mark.parametrize(
    ("address", "step"),
    [("p // 32", 0), ("p // 32 * 34 + p % 32 + 2", 1), ("p // 8", None), ("p % 8", None), ("p * 3", 3), ("p // 32 * 34 + (p % 32) * 2", 2)],
)
def test_steps_within_a_vector(address: str, step: int | None) -> None:
    p = var("p")
    found: Expr = {
        "p // 32": p // 32, "p // 32 * 34 + p % 32 + 2": p // 32 * 34 + p % 32 + 2, "p // 8": p // 8, "p % 8": p % 8, "p * 3": p * 3,
        "p // 32 * 34 + (p % 32) * 2": p // 32 * 34 + p % 32 * 2,
    }[address]  # fmt: skip
    assert step_within(found, Loop("p", ZERO, size("N") * 32, (), "reduce"), 16, Known({"N": Range(ONE, const(100))})) == step
