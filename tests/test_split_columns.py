"""Sums over many rows in pieces: the same values at sizes around each choice, where it is done and where not, the same bits for any number of threads."""

from __future__ import annotations

import sys

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, before, naive
from compilers import needs_cc
from luminal.ir.graph import Graph
from luminal.ir.kernel import If, Module
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.cascade import cascade
from luminal.passes.fuse import fuse
from luminal.passes.join_rows import join_rows
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.split_columns import split_columns
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

SMALL = replace(TARGET, cores=2, l1=1 << 10, l2=1 << 18)  # from 65536 elements on
SPLIT = {
    "sums": "((X{f32}[M N]) -> (C{f32}[N])) (return (sum X :axis 0))",
    "a vector times a matrix": "((p{f32}[M] X{f32}[M N]) -> (y{f32}[N])) (return (matmul p X))",
    "an epilogue": "((X{f32}[M N] b{f32}[N]) -> (C{f32}[N])) (return (+ b (exp (* 0.01 (mean X :axis 0)))))",
    "every third row": "((X{f32}[M N]) -> (C{f32}[N])) (return (sum (slice X (0 M 3) _) :axis 0))",
    "two sums of one matrix": "((X{f32}[M N]) -> (S{f32}[N] Q{f32}[N])) (return (max X :axis 0) (sum (* X X) :axis 0))",
}
LEFT = {
    "rows": "((X{f32}[M N]) -> (R{f32}[M])) (return (sum X :axis 1))",
    "a matrix times a vector": "((X{f32}[M N] p{f32}[N]) -> (q{f32}[M])) (return (matmul X p))",
    "a matrix product": "((X{f32}[M N] G{f32}[M K]) -> (W{f32}[N K])) (return (matmul (transpose X) G))",
    "all": "((X{f32}[M N]) -> (T{f32})) (return (sum X))",
    "what is turned over": "((X{f32}[M N]) -> (C{f32}[M])) (return (sum (transpose X) :axis 0))",
    "a window": "((X{f32}[M N]) -> (C{f32}[N])) (return (sum (* X (roll X 1 :axis 1)) :axis 0))",
}


SMALLER = replace(SMALL, l2=1 << 15)  # from 8192 elements on
ONE_AFTER_THE_OTHER = {
    "variance": "((X{f32}[M N]) -> (V{f32}[N])) (setf d (- X (mean X :axis 0 :keepdims t))) (return (mean (* d d) :axis 0))",
    "logsumexp": "((X{f32}[M N]) -> (L{f32}[N])) (return (logsumexp X :axis 0))",
    "softmax": "((X{f32}[M N]) -> (Y{f32}[M N])) (return (softmax X :axis 0))",
    "norm": "((X{f32}[M N]) -> (Y{f32}[M N])) (setf d (- X (mean X :axis 0))) (return (/ d (sqrt (+ 1 (mean (* d d) :axis 0)))))",
}
FAR = replace(SMALL, l3=1 << 19, vector_bytes=32)  # from 65536 elements on


@pytest.fixture
def short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of sums may have so much of the second cache as 128 floats take."""
    monkeypatch.setattr(sys.modules[split_columns.__module__], "SUMS", SMALL.l2 // 512)


def module(text: str, options: Options = OPTIONS) -> Module:
    return join_rows(make_nests(fuse(cascade(before(text), TARGET, options), TARGET, options), TARGET, options), TARGET, options)


@pytest.mark.parametrize("name", SPLIT)
def test_many_rows_are_summed_up_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[split_columns.__module__], "SUMS", SMALLER.l2 // 512)  # 128 floats
    whole = module(SPLIT[name])
    split = split_columns(whole, SMALLER, OPTIONS)
    assert len(split.kernels) == len(whole.kernels) + 1, show(split)
    verify(split)
    assert read(show(split)) == split
    assert split_columns(split, SMALLER, OPTIONS) == split
    graph: Graph = naive(SPLIT[name])
    legal = legalize(split, TARGET, OPTIONS)
    for seed, (m, n) in enumerate([(0, 64), (1, 1), (63, 64), (127, 64), (128, 64), (513, 65), (75, 129)]):
        sizes = {"M": m, "N": n}
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name: str) -> None:
    whole = module(LEFT[name])
    assert split_columns(whole, SMALL, OPTIONS) is whole, show(split_columns(whole, SMALL, OPTIONS))


@pytest.mark.usefixtures("short_sums")
@pytest.mark.parametrize("name", ONE_AFTER_THE_OTHER)
def test_sums_of_each_column_that_follow_one_another(name: str) -> None:
    """Where the matrix comes from memory each is summed up in pieces; where it stays near they are one kernel."""
    whole = module(ONE_AFTER_THE_OTHER[name])
    split = split_columns(whole, FAR, OPTIONS)
    assert len(split.kernels) == len(whole.kernels) + 3, show(split)
    (choice,) = split.kernels[3].body
    assert isinstance(choice, If) and choice.orelse == whole.kernels[0].body
    verify(split)
    assert read(show(split)) == split
    assert split_columns(split, FAR, OPTIONS) == split
    assert split_columns(whole, replace(FAR, l3=1 << 20), OPTIONS) != split
    graph: Graph = naive(ONE_AFTER_THE_OTHER[name])
    legal = legalize(split, TARGET, OPTIONS)
    for seed, (m, n) in enumerate([(0, 64), (1, 1), (1023, 64), (1037, 65)]):
        sizes = {"M": m, "N": n}
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


def test_a_column_that_reads_what_another_has_stored_stays() -> None:
    whole = module(ONE_AFTER_THE_OTHER["softmax"])
    crossed = read(show(whole).replace("temp[i] = acc[]", "temp[N - i - 1] = acc[]"))
    assert crossed != whole
    assert split_columns(crossed, FAR, OPTIONS) is crossed


@pytest.mark.parametrize("part", ["(1 M) _", "(1 (- M 1)) (2 N)", "(0 M 2) (1 N)"])
def test_parts_of_a_matrix(part: str) -> None:
    """Rows further on, some of them left out, and columns further on."""
    text = f"((X{{f32}}[M N](where M > 2, N > 2)) -> C) (return (sum (slice X {part}) :axis 0))"
    split = split_columns(module(text), SMALL, OPTIONS)
    assert len(split.kernels) == 2, show(split)
    graph = naive(text)
    for seed, (m, n) in enumerate([(3, 3), (600, 70), (1200, 131), (4097, 66)]):
        sizes = {"M": m, "N": n}
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legalize(split, TARGET, OPTIONS), inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{part}, {sizes}")


def test_who_shares_nothing_splits_nothing() -> None:
    whole = module(SPLIT["sums"])
    assert split_columns(whole, replace(SMALL, cores=1), OPTIONS) is whole
    assert split_columns(whole, SMALL, Options(level=2, strict=True)) is whole
    largest = module("((X{f32}[M N]) -> (C{f32}[N])) (return (max X :axis 0))")
    assert split_columns(largest, SMALL, Options(level=2, strict=True)) is not largest  # the order of these is free


@pytest.mark.usefixtures("short_sums")
def test_the_sizes_choose() -> None:
    split = split_columns(module(SPLIT["sums"]), SMALL, OPTIONS)
    assert "if 512 <= M & 64 <= N & N <= 128 & 65536 <= M * N:" in show(split)


def test_rows_of_a_few_vectors_are_summed_up_in_pieces_too() -> None:
    """By their columns alone one thread would do it; rows in between would be begun and ended more than they are added up."""
    wide = replace(SMALL, vector_bytes=32, vector_registers=16)
    split = split_columns(module(SPLIT["sums"]), wide, OPTIONS)
    assert "if 512 <= M & (N <= 32 | 64 <= N) & " in show(split)
    graph = naive(SPLIT["sums"])
    legal = legalize(split, TARGET, OPTIONS)
    for m, n in ((70000, 1), (22000, 3), (2100, 32), (2100, 33)):
        sizes = {"M": m, "N": n}
        inputs = draw(graph, sizes, SEED)
        agree(outputs(legal, inputs, sizes, 0), meaning(graph, inputs, sizes), graph, f"sizes {sizes}")


@needs_cc
@pytest.mark.parametrize("columns", [1, 3, 13, 32])
def test_few_columns_compiled(columns: int) -> None:
    f = luminal.compile(f"(composite sums {SPLIT['sums']})", target="x86-64-v3")
    x = np.random.default_rng(SEED).standard_normal((200_000 // columns + 7, columns)).astype(np.float32)
    np.testing.assert_allclose(f(x), x.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-2)


@needs_cc
def test_compiled() -> None:
    """Small integers are exact in any order; a NaN stays in its column."""
    f = luminal.compile("(composite columns ((X{f32}[M N]) -> (S{f32}[N] G{f32}[N])) (return (sum X :axis 0) (max X :axis 0)))", runtime="clang")
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 1), (512, 1041), (5000, 130), (70_000, 64), (8200, 65)]:
        x = rng.integers(-9, 10, (m, n)).astype(np.float32)
        x[m // 2, n - 1] = np.nan
        for found, want in zip(f(x), (x.sum(0), x.max(0)), strict=True):
            np.testing.assert_array_equal(found, want, err_msg=f"{m}×{n}, seed {SEED}")


@needs_cc
def test_two_sums_one_after_the_other() -> None:
    """Pieces of both stand between kernels, by names of their own."""
    f = luminal.compile(
        "(composite standardize ((X{f32}[M N]) -> (Y{f32}[M N])) (return (/ (- X (mean X :axis 0 :keepdims t)) (sqrt (+ 1e-5 (var X :axis 0 :keepdims t))))))"
    )
    x = np.random.default_rng(SEED).standard_normal((5000, 130)).astype(np.float32)
    np.testing.assert_allclose(f(x), (x - x.mean(0)) / np.sqrt(1e-5 + x.astype(np.float64).var(0)), rtol=1e-4, atol=1e-5)
