"""Kernels that work off the same rows become one: softmax and a choice of its largest, however that is written; and what must stay apart."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, before, naive
from compilers import needs_cc
from luminal.ir.kernel import Alloc, Module, statements
from luminal.ir.text import show
from luminal.ir.verify import verify
from luminal.passes.cascade import cascade
from luminal.passes.fuse import fuse
from luminal.passes.join_rows import join_rows
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

PORTS = "((X{f32}[M N](where N >= 3)) -> (Y{f32}[M 3] I{i64}[M 3]))"
LARGEST = "(setf i{n} (argmax p{n} :axis 1 :keepdims t)) (setf m{n} (max p{n} :axis 1 :keepdims t))"
NEXT = "(setf p{m} (where (= (iota N) i{n}) -inf p{n}))"
CHOSEN = " ".join(
    [LARGEST.replace("{n}", "1"), NEXT.replace("{n}", "1").replace("{m}", "2"), LARGEST.replace("{n}", "2"), NEXT.replace("{n}", "2").replace("{m}", "3"), LARGEST.replace("{n}", "3")]
)  # fmt: skip
ONE: dict[str, str] = {
    "by name": f"{PORTS} (setf (values v i) (topk (softmax X :axis -1) :k 3)) (return v i)",
    "as reductions": f"{PORTS} (setf p1 (softmax X :axis -1)) {CHOSEN} (return (concat m1 m2 m3 :axis 1) (concat i1 i2 i3 :axis 1))",
    "as loops": f"""{PORTS} (setf p (softmax X :axis -1))
      (dotimes (r M)
        (dotimes (k 3)
          (setf (aref Y r k) -inf)
          (dotimes (j N)
            (if (> (aref p r j) (aref Y r k)) (progn (setf (aref Y r k) (aref p r j)) (setf (aref I r k) j))))
          (setf (aref p r (aref I r k)) -inf)))""",
    "all as loops": """((X{f32}[M N](where N >= 3)) -> (Y{f32}[M 3] I{i64}[M 3]))
      (make-array p f32 (M N))
      (dotimes (r M)
        (set m -inf)
        (set l 0.0)
        (dotimes (j N) (maxf m (aref X r j)))
        (dotimes (j N) (incf l (exp (- (aref X r j) m))))
        (dotimes (j N) (setf (aref p r j) (/ (exp (- (aref X r j) m)) l))))
      (dotimes (r M)
        (dotimes (k 3)
          (setf (aref Y r k) -inf)
          (dotimes (j N)
            (if (> (aref p r j) (aref Y r k)) (progn (setf (aref Y r k) (aref p r j)) (setf (aref I r k) j))))
          (setf (aref p r (aref I r k)) -inf)))""",
}
OTHERS: dict[str, tuple[str, int]] = {  # name -> (composite, kernels)
    "weights over the largest": (
        "((X{f32}[M N](where N >= 2)) -> (W{f32}[M 2] I{i64}[M 2])) (setf (values s i) (topk X :k 2)) (return (softmax s :axis -1) i)",
        1,
    ),
    "running sums of a softmax": ("((X{f32}[M N]) -> (Y{f32}[M N])) (return (cumsum (softmax X :axis -1) :axis 1))", 1),
    "a row and its sum": ("((X{f32}[M N]) -> (Y{f32}[M N] S{f32}[M])) (setf y (exp X)) (return y (sum y :axis 1))", 1),
    "a mean and what is around it, over the axes beside the rows": (
        "((X{f32}[2 M N]) -> (S{f32}[1 M 1] Y{f32}[1 M 1])) (return (sum X :axis (0 2) :keepdims t) (var X :axis (0 2) :keepdims t))",
        1,
    ),
    # other rows, columns, tiles, a sort: apart
    "the next row": (
        "((X{f32}[M N](where M > 1)) -> (Y{f32}[M N] Z{i64}[M])) (setf y (softmax X :axis -1)) (return y (argmax (roll (cumsum y :axis 1) 1 :axis 0) :axis 1))",
        2,
    ),
    "columns": ("((X{f32}[N N]) -> (Y{f32}[N N])) (return (cumsum (softmax X :axis -1) :axis 0))", 2),
    "a product": ("((X{f32}[M K] W{f32}[K N]) -> (Y{f32}[M N])) (return (cumsum (matmul X W) :axis -1))", 2),
    "sorted": ("((X{f32}[M N]) -> (Y{f32}[M N])) (return (sort (softmax X :axis -1)))", 4),
}


def module(text: str) -> Module:
    return make_nests(fuse(cascade(before(text), TARGET, OPTIONS), TARGET, OPTIONS), TARGET, OPTIONS)


def check(name: str, text: str, joined: Module) -> None:
    verify(joined)
    graph, legal = naive(text), legalize(joined, TARGET, OPTIONS)
    for seed, (m, n) in enumerate([(1, 3), (2, 64), (5, 65), (3, 131)]):
        sizes = {s.name: {"M": m, "N": n}.get(s.name, 3) for s in graph.sizes}
        if "M" in sizes and m == 1 and "where M > 1" in text:
            sizes["M"] = 2
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


@pytest.mark.parametrize("name", ONE)
def test_softmax_and_its_largest_are_one_kernel(name: str) -> None:
    apart = module(ONE[name])
    joined = join_rows(apart, TARGET, OPTIONS)
    assert len(apart.kernels) > 1
    assert len(joined.kernels) == 1, show(joined)
    assert all(t.shape[0].op == "where" for t in joined.temps)  # of few long rows alone, which are worked off in chunks
    assert any(isinstance(s, Alloc) and len(s.buffer.shape) == 1 and s.buffer.space == "private" for s in statements(joined.kernels[0].body))
    check(name, ONE[name], joined)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_joined_and_what_is_not(name: str) -> None:
    text, count = OTHERS[name]
    joined = join_rows(module(text), TARGET, OPTIONS)
    assert len(joined.kernels) == count, show(joined)
    check(name, text, joined)


def test_a_row_that_somebody_else_reads_stays_in_memory() -> None:
    """The softmax is an output here: it is written, and read again from the cache."""
    text = "((X{f32}[M N]) -> (P{f32}[M N] I{i64}[M])) (setf p (softmax X :axis -1)) (return p (argmax (cumsum p :axis 1) :axis 1))"
    joined = join_rows(module(text), TARGET, OPTIONS)
    assert len(joined.kernels) == 1
    assert "P" in joined.kernels[0].buffers
    check("output", text, joined)


@needs_cc
def test_compiled() -> None:
    """On clang, beside NumPy: rows of -inf, huge magnitudes, ties; few rows that are long enough to be worked off in chunks."""
    named = luminal.compile(f"(composite naive {ONE['by name']})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 3), (7, 8), (33, 257), (2, 5000), (3, 70_001)]:
        x = rng.standard_normal((m, n)).astype(np.float32)
        x[m // 2] *= 1e4
        x[0, : n - 1] = -np.inf
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        y, i = named(x)
        order = np.argsort(-p, axis=1, kind="stable")[:, :3]
        assert np.allclose(y, np.take_along_axis(p, order, 1), rtol=1e-5, atol=1e-9)
        assert np.allclose(np.take_along_axis(p, i, 1), y, rtol=1e-5, atol=1e-9)
        assert all(len(set(row)) == 3 for row in i.tolist())


def test_means_that_keep_the_axes_they_went_along_join_as_those_that_do_not() -> None:
    head = "(composite batch ((X{f32}[N C H W]) -> (Y{f32}[N C H W]))"
    kept = f"""{head}
      (setf m (mean X :axis (0 2 3) :keepdims t))
      (setf v (mean (square (- X m)) :axis (0 2 3) :keepdims t))
      (return (/ (- X m) (sqrt (+ v 1e-5)))))"""
    left = f"""{head}
      (setf m (mean X :axis (0 2 3)))
      (setf v (mean (square (- X (reshape m 1 C 1 1))) :axis (0 2 3)))
      (return (/ (- X (reshape m 1 C 1 1)) (sqrt (+ (reshape v 1 C 1 1) 1e-5)))))"""
    for text in (kept, left):
        f = luminal.compile(text)
        assert [len(t.shape) for t in f.compilation.module.temps] == [1, 1]
        assert len(f.compilation.module.kernels) == 2
