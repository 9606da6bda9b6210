"""Complex contractions as real ones of twice the rows and columns: which ones, that they mean the same, and that they are tiled."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, before, naive
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.complex_products import complex_products
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.schedule import schedule
from luminal.passes.split_complex import split_complex
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

WIDE = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)
VECTORS = replace(TARGET, vector_bytes=64)
DOUBLED = {
    "product": "((A{c64}[M K] B{c64}[K N]) -> (C{c64}[M N])) (return (matmul A B))",
    "in place": "((A{c64}[M K] B{c64}[K N] C{c64}[M N]) -> C) (return (- (* 2 C) (matmul A B)))",
    "adjoint": "((A{c64}[K M] B{c64}[K N]) -> (C{c64}[M N])) (return (matmul (transpose (conj A)) B))",
    "both conjugate": "((A{c64}[M K] B{c64}[K N]) -> (C{c64}[M N])) (return (matmul (conj A) (conj B)))",
    "transposed": "((A{c64}[M K] B{c64}[N K]) -> (C{c64}[M N])) (return (einsum \"mk,nk->mn\" A (conj B)))",
    "the other way round": "((A{c64}[M K] B{c64}[K N]) -> (C{c64}[N M])) (return (transpose (matmul A B)))",
    "of a product": "((A{c64}[M K] B{c64}[K N] D{c64}[N N]) -> (C{c64}[M N])) (return (matmul (matmul A B) D))",
    "batches and more axes": "((A{c64}[B M I K] B2{c64}[B K N]) -> (C{c64}[B M I N])) (return (einsum \"bmik,bkn->bmin\" A B2))",
    "a row": "((x{c64}[K] B{c64}[K N]) -> (y{c64}[N])) (return (matmul (conj x) B))",
    "a row for each batch, two axes of columns": "((x{c64}[B K] A{c64}[B K M N]) -> (y{c64}[B M N])) (return (einsum \"bk,bkmn->bmn\" x A))",
    "a matrix turned over by a vector": "((A{c64}[K M] x{c64}[K]) -> (y{c64}[M])) (return (matmul (transpose (conj A)) x))",
    "loops": "((A{c64}[M K] B{c64}[K N] C{c64}[M N]) -> C) (dotimes (i M) (dotimes (j N) (dotimes (p K) (incf (aref C i j) (* (aref A i p) (aref B p j))))))",
}  # fmt: skip
NOTE = "a complex contraction is a real one of twice the rows and columns"
APART = {
    "a sum of squares": "((A{c64}[M K]) -> (C{c64}[M])) (return (sum (* A A) :axis 1))",
    "a vector along what is summed": "((A{c64}[M K] x{c64}[K]) -> (C{c64}[M])) (return (matmul A x))",
    "two vectors": "((x{c64}[K] y{c64}[K]) -> (z{c64}[1])) (return (sum (* x y) :axis 0 :keepdims t))",
    "a real operand": "((A{f32}[M K] B{c64}[K N]) -> (C{c64}[M N])) (return (matmul (cast c64 A) B))",
    "few terms": "((A{c64}[M 4] B{c64}[4 N]) -> (C{c64}[M N])) (return (matmul A B))",
}


def module(text: str) -> Module:
    return split_complex(make_nests(fuse(before(text), TARGET, OPTIONS), TARGET, OPTIONS), TARGET, OPTIONS)


@pytest.mark.parametrize("name", DOUBLED)
def test_one_real_contraction(name: str) -> None:
    text = DOUBLED[name]
    apart = module(text)
    doubled = complex_products(apart, VECTORS, OPTIONS)
    verify(doubled)
    assert len(doubled.kernels) == len(apart.kernels) + text.count("matmul") + text.count("einsum") + text.count("incf"), show(doubled)
    assert read(show(doubled)) == doubled
    assert complex_products(doubled, VECTORS, OPTIONS) == doubled
    assert complex_products(apart, VECTORS, Options(level=2, strict=True)) is apart
    graph, legal = naive(text), legalize(doubled, TARGET, OPTIONS)
    for seed, (m, n, k) in enumerate([(1, 1, 1), (3, 2, 0), (0, 3, 2), (4, 5, 3), (7, 3, 9)]):
        sizes = {s.name: {"M": m, "N": n, "K": k}.get(s.name, 2) for s in graph.sizes}
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


@pytest.mark.parametrize(
    "body",
    [
        "((A{c64}[M K] B{c64}[K N]) -> (P{f32}[M])) (setf y (matmul A B)) (return (sum (+ (* (real y) (real y)) (* (imag y) (imag y))) :axis 1))",
        "((A{c64}[M K] B{c64}[K N] V{f32}[N E]) -> (O{f32}[M E])) (return (matmul (softmax (abs (matmul A B)) :axis 1) V))",
    ],
)
def test_no_cascade_makes_it_again_element_by_element(body: str) -> None:
    (c,) = compilations(f"(composite f {body})", Settings(runtime="clang"))
    assert any(NOTE in kernel.notes for kernel in c.run(stop_after="complex_products").kernels)


@pytest.mark.parametrize("name", APART)
def test_what_is_no_contraction_of_two_ports_stays(name: str) -> None:
    apart = module(APART[name])
    assert complex_products(apart, VECTORS, OPTIONS) is apart


@pytest.mark.parametrize("name", ["product", "in place", "batches and more axes"])
def test_it_is_tiled_like_any_other(name: str) -> None:
    doubled = complex_products(module(DOUBLED[name]), WIDE, OPTIONS)
    first = schedule(legalize(doubled, TARGET, OPTIONS), WIDE, OPTIONS).kernels[0]
    assert any(line.startswith("stage") for line in first.schedule), first.notes
    assert any(line.startswith("variant") for line in first.schedule), "small operands are read in place"


@needs_cc
@pytest.mark.parametrize("name", ["in place", "adjoint"])
def test_compiled(name: str) -> None:
    """Small integers are exact in any order."""
    f = luminal.compile(f"(composite product {DOUBLED[name]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for m, n, k in [(1, 1, 1), (3, 33, 17), (64, 40, 9), (37, 70, 530), (70, 500, 300)]:
        a, b, c = (rng.integers(-3, 4, (*s, 2)).astype(np.float32).view(np.complex64)[..., 0] for s in ((m, k), (k, n), (m, n)))
        if name == "in place":
            np.testing.assert_array_equal(f(a, b, c.copy()), 2 * c - a @ b, err_msg=f"{m}×{n}×{k}, seed {SEED}")
        else:
            np.testing.assert_array_equal(f(a.conj().T.copy(), b), a @ b, err_msg=f"{m}×{n}×{k}, seed {SEED}")


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("complex_gemm_doubled.kernel", show(complex_products(module(DOUBLED["in place"]), VECTORS, OPTIONS)))
