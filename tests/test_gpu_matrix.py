"""Contractions of 16-bit floats on tensor cores: which take them, and that what is computed is right, at sizes around tiles, in every layout."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from cuda_unit import Unit, check, compiled, inputs_of, needs_host, target, unit
from luminal.compiler import Settings, compilations
from luminal.ir.graph import Graph
from luminal.ir.interpret.judge import Bounded
from luminal.ir.program import Barrier, For, Function, If, Matrix, Program, statements
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.walks import postorder
from luminal.passes.pipeline import run_pipeline
from luminal.search.reference import reference

pytestmark = pytest.mark.usefixtures("plain_c")

FEW = replace(target(), cores=1)  # whole tiles of 128 from 129 by 129 on
GROUPS = replace(target("sm_90a"), cores=1)
FORMS = {
    "plain": "((A{bf16}[M K] B{bf16}[K N]) -> (C{bf16}[M N])) (return (matmul A B))",
    "halves": "((A{f16}[M K] B{f16}[K N]) -> (C{f16}[M N])) (return (matmul A B))",
    "turned_a": "((A{bf16}[K M] B{bf16}[K N]) -> (C{bf16}[M N])) (return (matmul (transpose A) B))",
    "turned_b": "((A{bf16}[M K] B{bf16}[N K]) -> (C{bf16}[M N])) (return (matmul A (transpose B)))",
    "both_turned": "((A{f16}[K M] B{f16}[N K]) -> (C{f16}[M N])) (return (matmul (transpose A) (transpose B)))",
    "wide": "((A{bf16}[M K] B{bf16}[K N]) -> (C{f32}[M N])) (return (matmul (cast f32 A) (cast f32 B)))",
    "batched": "((A{f16}[3 M K] B{f16}[3 K N]) -> (C{f16}[3 M N])) (return (matmul A B))",
    "ended": "((A{bf16}[M K] B{bf16}[K N] v{bf16}[N]) -> (C{bf16}[M N])) (return (gelu (+ (matmul A B) v)))",
    "added": "((A{bf16}[M K] B{bf16}[K N] C{bf16}[M N]) -> (D{bf16}[M N])) (return (+ C (matmul A B)))",
    "squared": "((A{bf16}[M K]) -> (C{f32}[M M])) (return (matmul (cast f32 A) (cast f32 (transpose A))))",
}  # fmt: skip
SIZES = [{"M": 17, "N": 129, "K": 5}, {"M": 129, "N": 17, "K": 40}, {"M": 129, "N": 130, "K": 70}, {"M": 128, "N": 136, "K": 64}, {"M": 9, "N": 1, "K": 1}, {"M": 130, "N": 129, "K": 0}]  # fmt: skip


@cache
def graph_of(name: str) -> Graph:
    return compilations(f"(composite {name} {FORMS[name]})", Settings(runtime="cuda"))[0].elaborate()


@cache
def program_of(name: str, groups: bool) -> Program:
    return compiled(graph_of(name), GROUPS if groups else FEW)


@cache
def meaning(name: str, n: int) -> tuple[dict[str, int], dict[str, Any], dict[str, Bounded]]:
    """One of the sizes, inputs, and what comes out."""
    graph = graph_of(name)
    sizes = {s.name: SIZES[n][s.name] for s in graph.sizes}
    inputs = inputs_of(graph, sizes, n)
    return sizes, inputs, reference(graph, inputs, sizes)


def matrices(program: Program) -> list[tuple[int, int, int]]:
    return [s.tiles for f in program.functions for s in statements(f.body) if isinstance(s, Matrix)]


@pytest.fixture(scope="module", params=["warps", "groups"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Unit:
    groups = request.param == "groups"
    return unit(tmp_path_factory.mktemp("matrix") / "all.so", {f"{name}_": program_of(name, groups) for name in FORMS}, GROUPS if groups else FEW)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_goes_by_tensor_cores(name: str) -> None:
    uneven = [(2, 4, 2), (4, 4, 2)]
    assert matrices(program_of(name, False)) == [*uneven, *2 * [(2, 4, 2)], *4 * [(4, 8, 2)]]
    assert matrices(program_of(name, True)) == [*uneven, *2 * [(1, 8, 4)], *2 * [(1, 16, 4)], *2 * [(1, 32, 4)]]


def test_whole_pieces_are_not_asked_about() -> None:
    """A loop over pieces that are inside both operands, for all threads, and one over the rest; each ends in its one barrier."""
    program = program_of("plain", False)
    for f in _multiplying(program)[2:]:
        whole, rest = (s for s in statements(f.body) if isinstance(s, For) and any(isinstance(t, Matrix) for t in s.body))
        assert not whole.stop.buffers and not any(n.op == "var" and "t" in n.attr.split(".") for n in postorder(whole.stop))
        for loop, asked in ((whole, False), (rest, True)):
            inside = statements(loop.body)
            assert [s.later for s in inside if isinstance(s, Barrier)] == [1 if f is not program.functions[-3] else 2]
            assert any(isinstance(s, If) for s in inside) == asked
            loads = [n for s in inside for e in s.expressions() for n in postorder(e) if n.op == "vload"]
            assert len(loads) == 2 and all((len(n.args) > 1) == asked for n in loads)


def test_pieces_of_rows_that_begin_anywhere_are_asked_about_once() -> None:
    """They go through registers: one condition for all that a thread copies of an operand; behind it whole pieces, with no question for each."""
    for f in _multiplying(program_of("plain", False))[:2]:
        (inside,) = (s for s in statements(f.body) if isinstance(s, For) and any(isinstance(t, Matrix) for t in s.body))
        asked = [s for s in inside.body if isinstance(s, If)]
        loads = [[n for s in statements(a.body) for e in s.expressions() for n in postorder(e) if n.op in ("vload", "where")] for a in asked]
        assert [{n.attr for n in found} for found in loads] == [{"A"}, {"B"}] and all(len(n.args) == 1 for found in loads for n in found)


def test_rows_that_are_known_to_begin_evenly_go_no_other_way() -> None:
    known = compilations("(composite even ((A{bf16}[M 1024] B{bf16}[1024 512]) -> (C{bf16}[M 512])) (return (matmul A B)))", Settings(runtime="cuda"))
    assert len(_multiplying(compiled(known[0].elaborate(), FEW))) == 3


def _multiplying(program: Program) -> list[Function]:
    return [f for f in program.functions if any(isinstance(s, Matrix) for s in statements(f.body))]


@needs_host
@pytest.mark.parametrize("name", FORMS)
def test_right_in_every_layout(name: str, built: Unit) -> None:
    library = built.library(f"{name}_")
    for n in range(len(SIZES)):
        check(library, graph_of(name), *meaning(name, n))


def test_what_does_not() -> None:
    """Machines without them, sums in order, other types."""
    plain = graph_of("plain")
    assert not matrices(compiled(plain, target("sm_75")))
    assert not matrices(run_pipeline(plain, "graph", target(), Options(strict=True)))
    mixed = "(composite mixed ((A{bf16}[M K] B{f16}[K N]) -> (C{f32}[M N])) (return (matmul (cast f32 A) (cast f32 B))))"
    assert not matrices(compiled(compilations(mixed, Settings(runtime="cuda"))[0].elaborate(), target()))
