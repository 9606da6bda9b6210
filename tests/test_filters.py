"""`--fast` for filters of a few taps: the matrices, the graph that is written, kernels by its bound, and what is left alone."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir import filters
from luminal.ir.expr import TRUE, Expr
from luminal.ir.filters import shortened
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from luminal.ir.kernel import If
from luminal.ir.record import replace
from luminal.ir.toom_cook import MOST, Step, growth, short_filter, straight_line
from luminal.search.reference import reference

pytestmark = pytest.mark.usefixtures("plain_c")

ALL = [(m, r) for m in range(1, MOST + 1) for r in range(1, MOST + 1) if m + r - 1 <= MOST]
TWO = "(composite two ((X{T}[B C H W] K{T}[O C 3 3]) -> (Y{T}[B O H W])) (return (conv2d X K :padding 1)))"
GROUPS = "(composite groups ((X{f32}[B 6 H W] K{f32}[O 3 3 3](where O % 2 = 0)) -> (Y{f32}[B O P Q])) (return (conv2d X K :padding (0 2) :groups 2)))"
ONE = "(composite one ((X{T}[B C L] K{T}[O C 3]) -> (Y{T}[B O L])) (return (conv1d X K :padding 1)))"
LOOPS = """(composite loops ((X{f32}[C L] K{f32}[O C 3]) -> (Y{f32}[O P](where P = (- L 2))))
  (dotimes (o O) (dotimes (p P) (dotimes (c C) (dotimes (r 3) (incf (aref Y o p) (* (aref K o c r) (aref X c (+ p r)))))))))"""
EPILOGUE = """(composite epilogue ((X{f32}[B C H W] K{f32}[O C 3 3] A{f32}[O]) -> (Y{f32}[B O H W]))
  (return (max (+ (conv2d X K :padding 1) (reshape A O 1 1)) 0)))"""
LEFT_ALONE = {
    "integers": "(composite f ((X{i32}[B C L] K{i32}[O C 3]) -> (Y{i32}[B O L])) (return (conv1d X K :padding 1)))",
    "half": "(composite f ((X{f16}[B C L] K{f16}[O C 3]) -> (Y{f16}[B O L])) (return (conv1d X K :padding 1)))",
    "stride": "(composite f ((X{f32}[B C H W] K{f32}[O C 3 3]) -> (Y{f32}[B O P Q])) (return (conv2d X K :stride 2)))",
    "dilation": "(composite f ((X{f32}[B C H W] K{f32}[O C 3 3]) -> (Y{f32}[B O P Q])) (return (conv2d X K :dilation 2)))",
    "many taps": "(composite f ((X{f32}[B C L] K{f32}[O C 7]) -> (Y{f32}[B O P])) (return (conv1d X K)))",
    "taps at run time": "(composite f ((X{f32}[B C L] K{f32}[O C S]) -> (Y{f32}[B O P])) (return (conv1d X K)))",
    "no product of matrices": "(composite f ((X{f32}[B 8 H W] K{f32}[8 1 3 3]) -> (Y{f32}[B 8 P Q])) (return (conv2d X K :groups 8)))",
    "few channels": "(composite f ((X{f32}[B 3 H W] K{f32}[O 3 3 3]) -> (Y{f32}[B O P Q])) (return (conv2d X K)))",
    "a product of matrices": "(composite f ((X{f32}[M K] Z{f32}[K 3]) -> (Y{f32}[M 3])) (return (matmul X Z)))",
}


def always(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    """Tiles of so many results wherever they are possible, paying or not."""

    def choice(found: filters._Filter, known: object, sizes: object) -> tuple[tuple[filters.Window, ...], Expr]:
        return tuple(replace(w, tile=tile) for w in found.windows), TRUE

    monkeypatch.setattr(filters._Filter, "choice", choice)


# ---- the matrices


@pytest.mark.parametrize(("m", "r"), ALL)
def test_the_matrices_make_a_filter(m: int, r: int) -> None:
    """Σ_ξ out[i, ξ] taps[ξ, k] data[ξ, l] is 1 where l = i + k, else 0: exactly."""
    f, n = short_filter(m, r), m + r - 1
    for i in range(m):
        for k in range(r):
            for j in range(n):
                assert sum(f.out[i][x] * f.taps[x][k] * f.data[x][j] for x in range(n)) == (j == i + k)


@pytest.mark.parametrize(("m", "r"), ALL)
def test_shared_steps_compute_the_rows(m: int, r: int) -> None:
    def value(step: Step, values: list[Fraction]) -> Fraction:
        return sum((c * values[k] for k, c in step.terms), Fraction(0))

    random = Random(m * 10 + r)
    for matrix in short_filter(m, r):
        values = [Fraction(random.randint(-99, 99)) for _ in matrix[0]]
        expected = [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]
        steps, rows = straight_line(matrix)
        for step in steps:
            values.append(value(step, values))
        assert [value(row, values) for row in rows] == expected
        assert sum(len(s.terms) - 1 for s in (*steps, *rows)) <= sum(sum(map(bool, row)) - 1 for row in matrix)


def test_two_axes_on_integers() -> None:
    """F(4, 3) inside of F(2, 3), in exact arithmetic, gives the correlation of integers."""
    random = Random(5)
    outer, inner = short_filter(2, 3), short_filter(4, 3)
    x = [[random.randint(-50, 50) for _ in range(6)] for _ in range(4)]
    g = [[random.randint(-50, 50) for _ in range(3)] for _ in range(3)]

    def both(a, b, z):  # a · z · bᵀ
        half = [[sum(c * z[k][j] for k, c in enumerate(row)) for j in range(len(z[0]))] for row in a]
        return [[sum(c * row[k] for k, c in enumerate(other)) for other in b] for row in half]

    u, v = both(outer.taps, inner.taps, g), both(outer.data, inner.data, x)
    products = [[p * q for p, q in zip(*rows, strict=True)] for rows in zip(u, v, strict=True)]
    plain = [[sum(g[k][j] * x[p + k][q + j] for k in range(3) for j in range(3)) for q in range(4)] for p in range(2)]
    assert both(outer.out, inner.out, products) == plain


def test_points_run_out() -> None:
    with pytest.raises(ValueError, match="there are 8"):
        short_filter(7, 3)
    assert growth(short_filter(2, 3)) < growth(short_filter(4, 3)) < growth(short_filter(6, 3)) / 5


# ---- the graph


def elaborated(source: str, **settings: Any) -> Graph:
    (c,) = compilations(source, Settings(**settings))
    return c.run(stop_after="simplify")


def drawn(graph: Graph, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    from luminal.search.draw import draw

    return {p.name: draw(p, sizes, 3) for p in graph.ports if p.role != "out"}


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (TWO, {"B": 2, "C": 3, "H": 5, "W": 4, "O": 2}),
        (TWO, {"B": 1, "C": 1, "H": 1, "W": 9, "O": 1}),
        (GROUPS, {"B": 1, "H": 7, "W": 6, "O": 4}),
        (ONE, {"B": 2, "C": 2, "L": 9, "O": 3}),
        (LOOPS, {"C": 4, "L": 7, "O": 2}),
    ],
)
def test_what_is_written_means_the_same(source: str, sizes: dict[str, int], tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, tile)
    graph = elaborated(source)
    written = shortened(graph)
    assert sum(n.op == "contiguous" for n in written.nodes()) > 4
    inputs = drawn(graph, sizes)
    plain, other = evaluate(graph, inputs, sizes)["Y"], evaluate(written, inputs, sizes)["Y"]
    np.testing.assert_allclose(other.value, plain.value, rtol=0, atol=1e-11 * max(1, np.abs(plain.value).max(initial=0)))
    assert np.all(other.bound[plain.value != 0] > 0)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name: str) -> None:
    graph = elaborated(LEFT_ALONE[name])
    assert [n for _, n in shortened(graph).outputs] == [n for _, n in graph.outputs]


def test_only_under_fast() -> None:
    def nodes(fast: bool) -> list[str]:
        (c,) = compilations(TWO, Settings(fast=fast))
        return [n.op for n in c.run(stop_after="shorten_filters").nodes()]

    assert nodes(False) == [n.op for n in elaborated(TWO).nodes()] != nodes(True)


def test_short_images_of_many_channels_stay() -> None:
    """There the transformed taps are more than what they save."""
    graph = elaborated(TWO, sizes={"B": 1, "H": 7, "W": 7, "C": 512, "O": 512})
    assert shortened(graph).outputs == graph.outputs


def test_the_stated_bound_grows_with_the_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of n terms may be off by n roundings, so the fewer terms of F(2, 3) are bounded no worse than the filter itself."""
    graph, sizes = elaborated(TWO), {"B": 1, "C": 8, "H": 8, "W": 8, "O": 8}
    inputs = drawn(graph, sizes)
    bounds = []
    for tile in (2, 4):
        always(monkeypatch, tile)
        bounds.append(evaluate(shortened(graph), inputs, sizes)["Y"].bound.max())
    assert 2 * bounds[0] < bounds[1] < 100 * bounds[0], bounds


# ---- kernels


def within(source: str, cases: list[dict[str, int]], dtype: str = "f32") -> list[float]:
    """Compile, run at these sizes, judge: the errors in units of the bound."""
    settings = {"dtype": {"T": dtype}} if "{T}" in source else {}
    return judged(luminal.compile(source, fast=True, **settings), source, cases, settings)


def judged(kernel: luminal.Composite, source: str, cases: list[dict[str, int]], settings: dict[str, Any]) -> list[float]:
    graph = elaborated(source, **settings)
    (c,) = compilations(source, Settings(**settings))
    ratios = []
    for sizes in cases:
        inputs = drawn(graph, sizes)
        verdict = judge(kernel(*inputs.values()), reference(c.elaborate(), inputs, sizes, shortened(graph))["Y"], graph.port("Y").dtype)
        assert verdict.ok, (sizes, verdict)
        ratios.append(verdict.max_bound_ratio)
    return ratios


@needs_cc
@pytest.mark.parametrize(("tile", "dtype"), [(2, "f32"), (4, "f64")])
def test_two_axes(tile: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, tile)
    shapes = [
        (1, 1, 1, 1, 1),
        (0, 3, 4, 4, 2),
        (2, 0, 5, 3, 2),
        (1, 2, 3, 4, 0),
        (2, 3, tile - 1, tile + 1, 5),
        (1, 17, 2 * tile, tile, 16),
        (2, 33, 2 * tile + 1, tile + 1, 35),
    ]
    ratios = within(TWO, [dict(zip("BCHWO", s, strict=True)) for s in shapes], dtype)
    assert max(ratios) > 0.001, "the bound says something"


@needs_cc
@pytest.mark.parametrize("tile", [2, 4])
def test_one_axis(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, tile)
    within(ONE, [dict(zip("BCLO", s, strict=True)) for s in [(1, 1, 1, 1), (3, 5, tile - 1, 7), (2, 18, tile + 1, 17), (1, 40, 33, 64)]])


@needs_cc
def test_groups_and_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, 4)
    within(GROUPS, [dict(zip("BHWO", s, strict=True)) for s in [(1, 3, 1, 2), (2, 7, 6, 8), (1, 12, 9, 34)]])


@needs_cc
def test_loops_are_filters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, 2)
    within(LOOPS, [dict(zip("CLO", s, strict=True)) for s in [(1, 3, 1), (5, 2, 3), (19, 21, 33)]])


@needs_cc
def test_the_sizes_choose_at_run_time() -> None:
    """A few channels of a small image as it stands, many in tiles; what follows is fused with either."""
    kernel = luminal.compile(EPILOGUE, fast=True)
    judged(kernel, EPILOGUE, [dict(zip("BCHWO", s, strict=True)) for s in [(1, 3, 5, 6, 4), (1, 32, 15, 16, 48)]], {})
    *_, last = kernel.compilation.module.kernels
    (branch,) = last.body
    assert isinstance(branch, If) and len([line for line in last.schedule if line.startswith("variant")]) > 2
