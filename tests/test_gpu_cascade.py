"""Cascades of products on a GPU: one kernel whose block works off tiles for many rows, its scores in registers; right under the shim, at sizes around tiles, portions and chunks."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_unit import Unit, check, inputs_of, needs_host, target, unit
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.graph import Graph
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Alloc, Module, statements
from luminal.ir.program import Matrix, statements as program_statements

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{T}[H N D] K{T}[H M D] V{T}[H M E]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'
WEIGHED = '(einsum "hij,hje->hie" (softmax s :axis -1) V)'
FORMS = {
    "plain": f"(({QKV}) -> (O{{T}}[H N E])) {SCORES} (return {WEIGHED})",
    "causal": f"(({QKV}) -> (O{{T}}[H N E])) {SCORES} (setf s (where (<= (iota M) (+ (unsqueeze (iota N) :axis 1) (- M N))) s -inf)) (return {WEIGHED})",
    "window": f"(({QKV}) -> (O{{T}}[H N E])) {SCORES} (setf d (abs (- (unsqueeze (iota N) :axis 1) (iota M)))) (setf s (where (< d 9) s -inf)) (return {WEIGHED})",
    "biased": f"(({QKV} B{{T}}[N M]) -> (O{{T}}[H N E])) {SCORES} (setf s (+ s B)) (return {WEIGHED})",
    "capped": f"(({QKV}) -> (O{{T}}[H N E])) {SCORES} (setf s (* 3 (tanh (/ s 3)))) (return {WEIGHED})",
    "sigmoids": f'(({QKV}) -> (O{{T}}[H N E])) {SCORES} (return (einsum "hij,hje->hie" (sigmoid s) V))',
    "grouped": '((Q{T}[G A D] K{T}[G M D] V{T}[G M E]) -> (O{T}[G A E])) (setf s (einsum "gad,gjd->gaj" Q K)) (return (einsum "gaj,gje->gae" (softmax s :axis -1) V))',
    "with_logsumexp": f"(({QKV}) -> (O{{T}}[H N E] L{{T}}[H N])) {SCORES} (return {WEIGHED} (logsumexp s :axis -1))",
    "signed": f'(({QKV}) -> (O{{T}}[H N E])) {SCORES} (return (einsum "hij,hje->hie" (* (softmax (abs s) :axis -1) (where (< s 0) -1 1)) V))',
    "two_temperatures": f'(({QKV}) -> (O{{T}}[H N E])) {SCORES} (return (einsum "hij,hje->hie" (- (softmax s :axis -1) (softmax (* 0.25 s) :axis -1)) V))',
}  # fmt: skip
ON_MATRICES = {("plain", "bf16"), ("plain", "f16"), ("causal", "bf16"), ("biased", "bf16"), ("grouped", "bf16")}
CASES = [*((name, "f32") for name in FORMS), *sorted(ON_MATRICES)]
SIZES = [
    {"H": 1, "G": 1, "N": 1, "A": 1, "M": 1, "D": 1, "E": 1},
    {"H": 2, "G": 2, "N": 65, "A": 3, "M": 70, "D": 17, "E": 9},
    {"H": 1, "G": 1, "N": 64, "A": 65, "M": 64, "D": 64, "E": 65},
    {"H": 1, "G": 2, "N": 3, "A": 5, "M": 700, "D": 70, "E": 129},  # chunks, portions
    {"H": 2, "G": 1, "N": 5, "A": 4, "M": 0, "D": 3, "E": 2},
    {"H": 1, "G": 1, "N": 2, "A": 2, "M": 3, "D": 0, "E": 2},
]


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Compilation]:
    return {(name, t): compilations(f"(composite {name} {FORMS[name]})", Settings(runtime="cuda", dtype={"T": t}))[0] for name, t in CASES}


@pytest.fixture(scope="module")
def built(found: dict[tuple[str, str], Compilation], tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return unit(tmp_path_factory.mktemp("cascades") / "all.so", {f"{name}_{t}_": c.program for (name, t), c in found.items()}, target())


def here(graph: Graph, sizes: dict[str, int]) -> dict[str, int]:
    return {s.name: sizes[s.name] for s in graph.sizes}


@pytest.mark.parametrize("case", CASES)
def test_scores_are_in_registers(case: tuple[str, str], found: dict[tuple[str, str], Compilation]) -> None:
    """No tensor over rows and columns, in memory or in a thread's own; every kernel that multiplies is one by blocks of rows."""
    module = found[case].module
    assert all({"N", "M"} - t.shape[-1].names for t in module.temps) and len(module.kernels) <= 2  # the second puts chunks together
    assert any("blocks of 64 rows share each tile" in note for k in module.kernels for note in k.notes)
    arrays = [s.buffer for k in module.kernels for s in statements(k.body) if isinstance(s, Alloc)]
    assert all(e.is_const for b in arrays for e in b.shape)
    cells = [b for b in arrays if b.name.startswith("tile") and b.space == "register"]
    assert bool(cells) == (case[0] != "sigmoids") and all(np.prod([e.attr for e in b.shape]) in (16, 32) for b in cells)
    products = [s for f in found[case].program.functions for s in program_statements(f.body) if isinstance(s, Matrix)]
    assert bool(products) == (case in ON_MATRICES)


@needs_host
@pytest.mark.parametrize("case", CASES)
def test_right_under_the_shim(case: tuple[str, str], found: dict[tuple[str, str], Compilation], built: Unit) -> None:
    graph = found[case].elaborate()
    library = built.library(f"{case[0]}_{case[1]}_")
    for n, sizes in enumerate(SIZES):
        check(library, graph, here(graph, sizes), inputs_of(graph, here(graph, sizes), n))


@needs_host
def test_rows_of_nothing_and_of_infinities(found: dict[tuple[str, str], Compilation], built: Unit) -> None:
    """A bias of -inf all along a row, an infinity beyond a tile's end beside weights that are 0 there."""
    for t in ("f32", "bf16"):
        graph = found["biased", t].elaborate()
        sizes = {"H": 1, "N": 5, "M": 67, "D": 4, "E": 3}
        inputs = inputs_of(graph, sizes)
        inputs["B"][1] = -np.inf
        inputs["B"][2, :66] = -np.inf
        inputs["V"][0, 66, 1] = np.inf
        check(built.library(f"biased_{t}_"), graph, sizes, inputs)


def test_a_schedule_says_all_of_it(found: dict[tuple[str, str], Compilation]) -> None:
    """The steps give the kernel again, and what the interpreter makes of it is what it makes of the plain nests."""
    c = found["plain", "f32"]
    plain = c.run(stop_after="join_blocks")
    scheduled = c.module
    assert isinstance(plain, Module)
    rng = np.random.default_rng(0)
    sizes = {"H": 1, "N": 3, "M": 66, "D": 5, "E": 2}
    arrays = {"Q": rng.integers(-2, 3, (1, 3, 5)), "K": rng.integers(-2, 3, (1, 66, 5)), "V": rng.integers(-2, 3, (1, 66, 2))}
    inputs = {n: a.astype("f4") for n, a in arrays.items()}
    results = [inputs | {"O": np.zeros((1, 3, 2), "f4")} for _ in range(2)]
    for m, buffers in zip((plain, scheduled), results, strict=True):
        assert run(m, buffers, sizes, check=True) == 0
    np.testing.assert_allclose(results[0]["O"], results[1]["O"], rtol=1e-5)


def test_strict_sums_stay_in_order() -> None:
    text = f"(composite plain {FORMS['plain']})"
    (c,) = compilations(text, Settings(runtime="cuda", dtype={"T": "bf16"}, strict=True))
    assert not any(isinstance(s, Matrix) for f in c.program.functions for s in program_statements(f.body))


def test_machines_without_tensor_cores_go_by_the_same_blocks() -> None:
    (c,) = compilations(f"(composite plain {FORMS['plain']})", Settings(runtime="cuda", dtype={"T": "bf16"}, target="sm_75"))
    assert any("blocks of 64 rows" in note for k in c.module.kernels for note in k.notes)
    assert not any(isinstance(s, Matrix) for f in c.program.functions for s in program_statements(f.body))
