"""Loops over rows that were several axes: they get these axes back, and nothing is copied around them."""

from __future__ import annotations

import pytest
from cascades import OPTIONS, SEED, nests
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.legalize import legalize
from luminal.passes.raise_loops import raise_loops
from luminal.passes.row_axes import row_axes
from luminal.passes.simplify import simplify
from running import TARGET, agree, composite, draw, meaning, outputs

# the last element that is above those before it (loops that stay loops), of rows that are one axis; the row itself is counted too
RUN = """(composite runs ((X{f32}[R N]) -> (Y{f32}[R] I{i64}[R 2]))
  (dotimes (r R) (dotimes (n N)
    (if (> (aref X r n) (aref Y r)) (progn (setf (aref Y r) (aref X r n)) (setf (aref I r 0) n) (setf (aref I r 1) r))))))"""
CUT = {  # name -> (a composite, tensors between its kernels)
    "topk": ("(composite c ((X{f32}[A B N](where N >= 2)) -> (Y{f32}[A B 2] I{i64}[A B 2])) (setf (values y i) (topk X :k 2)) (return y i))", 0),
    "rows by number": (
        RUN + "(composite c ((X{f32}[A B C N]) -> (Y{f32}[A B C] I{i64}[A B C 2])) (setf (values y i) (runs (reshape X -1 N))) (return (reshape y A B C) (reshape i A B C 2)))",
        0,
    ),
    "read in another shape": (
        RUN + "(composite c ((X{f32}[A B N]) -> (Y{f32}[B A] I{i64}[(* A B) 2])) (setf (values y i) (runs (reshape X -1 N))) (return (transpose (reshape y A B)) i))",
        2,
    ),
}  # fmt: skip
LEFT = {
    "columns": RUN + "(composite c ((X{f32}[A N B]) -> (Y{f32}[(* A B)])) (setf (values y i) (runs (reshape (transpose X 0 2 1) -1 N))) (return y))",
    "cut otherwise": RUN + "(composite c ((X{f32}[A N](where N % 2 = 0)) -> (Y{f32}[(* 2 A)])) (setf (values y i) (runs (reshape X (* 2 A) (floordiv N 2)))) (return y))",
}  # fmt: skip


@pytest.mark.parametrize("name", [*CUT, *LEFT])
def test_means_the_same(name: str) -> None:
    text, between = CUT.get(name) or (LEFT[name], None)
    graph = composite(text)
    plain = simplify(raise_loops(graph, TARGET, OPTIONS), TARGET, OPTIONS)
    found = row_axes(plain, TARGET, OPTIONS)
    verify(found)
    assert show(read(show(found), "graph")) == show(found)
    assert (found is plain) == (name in LEFT)
    module = nests(found)
    assert between is None or len(module.temps) == between, show(module)
    legal = legalize(module, TARGET, OPTIONS)
    for seed, (a, b, c, n) in enumerate([(2, 3, 2, 4), (1, 1, 1, 2), (3, 1, 2, 6), (0, 2, 1, 2)]):
        sizes = {s.name: {"A": a, "B": b, "C": c, "N": n}[s.name] for s in graph.sizes}
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        want = meaning(graph, inputs, sizes)
        agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, {sizes}")
        agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the kernels, {sizes}")
