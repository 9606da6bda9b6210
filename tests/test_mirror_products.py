"""A product with its own transpose: one half is multiplied, and turned over for the other; what is no such product, or is wanted in part, stays."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.graph import Graph
from luminal.passes import mirror_products, pipeline

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 23
GRAM = "(matmul X (transpose X))"
MIRRORED = {
    "rows": f"(return {GRAM})",
    "columns": "(return (matmul (transpose X) X))",
    "of what is made of them": "(setf d (- X (mean X :axis 1 :keepdims t))) (return (/ (matmul d (transpose d)) (- N 1)))",
    "a loop": "(dotimes (i M) (dotimes (j M) (set s 0.0) (dotimes (k N) (set s (+ s (* (aref X i k) (aref X j k))))) (setf (aref Y i j) s)))",
    "what follows is not the same in both halves": f"(return (+ (* 2.0 {GRAM}) (unsqueeze (cast T (iota M)) :axis 1)))",
}
PLAIN = {
    "two operands": "(return (matmul X (transpose (exp X))))",
    "a half": f"(return (tril {GRAM}))",
    "a sum of it": f"(return (sum {GRAM}))",
    "a row beside the others": "(return (matmul (roll X 1 :axis 0) (transpose X)))",
}


def text_of(body: str, outputs: str = "Y{T}[M M]") -> str:
    return f"(composite halves ((X{{T}}[M N](where N > 1)) -> ({outputs})) {body})"


def shape_of(name: str) -> str:
    return {"columns": "Y{T}[N N]", "a sum of it": "Y{T}[]"}.get(name, "Y{T}[M M]")


def compiled(text: str, config: dict[str, int] | None = None, dtype: str = "f32", **sizes: int) -> Compilation:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", config=config or {}, dtype={"T": dtype}, sizes=dict(sizes)))
    return found


def halves(c: Compilation) -> bool:
    """Whether the pass makes something else of the graph that reaches it."""
    graph = pipeline.run_pipeline(c.elaborate(), "graph", c.target, c.options, stop_after="number_truths")
    assert isinstance(graph, Graph)
    return mirror_products.mirror_products(graph, c.target, c.options) is not graph


@pytest.mark.parametrize("name", MIRRORED)
def test_half_of_it_is_multiplied(name: str) -> None:
    c = compiled(text_of(MIRRORED[name], shape_of(name)))
    assert halves(c)
    assert any("not summed up" in note for k in c.module.kernels for note in k.notes)


@pytest.mark.parametrize("name", PLAIN)
def test_all_of_it_is(name: str) -> None:
    assert not halves(compiled(text_of(PLAIN[name], shape_of(name))))


def test_the_sizes_decide() -> None:
    """Where they are known there is one form alone; few elements are multiplied as they are, of threads more than of one, and so is what pairs of an instruction may be."""
    text = text_of(MIRRORED["rows"])
    assert halves(compiled(text, M=400, N=400)) and not halves(compiled(text, M=400, N=300)) and not halves(compiled(text, M=200, N=3000))
    assert (
        halves(compiled(text, {"OMP": 0}, M=400, N=300))
        and halves(compiled(text, {"OMP": 0}, M=200, N=3000))
        and not halves(compiled(text, {"OMP": 0}, M=60, N=3000))
    )
    assert len(compiled(text, M=400, N=400).module.kernels) == 2 and len(compiled(text, M=400, N=300).module.kernels) == 1
    assert not halves(compiled(text, dtype="bf16"))


def test_no_schedule_is_for_sizes_at_which_nothing_is_done() -> None:
    """Those of few rows belong to the form that is not halved."""
    half, whole = compiled(text_of(MIRRORED["rows"])).module.kernels
    first = [line for line in whole.schedule if line.startswith("variant") and "384 <= " in line]
    assert not any(line.startswith("variant") and ("M == 1" in line or "M <= 8" in line) for line in half.schedule)
    assert first and not any("M == 1" in line or "M <= 8" in line for line in first) and "variant M <= 8" in whole.schedule


@needs_cc
@pytest.mark.parametrize("name", MIRRORED)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_values(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides of the sizes that decide, and at odd ones; where one half is the other, to the last bit."""
    monkeypatch.setattr(mirror_products, "SHARED", 8)
    f, rng = luminal.compile(text_of(MIRRORED[name], shape_of(name)), runtime="clang", dtype={"T": dtype}), np.random.default_rng(SEED)
    for m, n in ((1, 9), (3, 7), (3, 8), (7, 13), (33, 40), (70, 300)):
        x = rng.standard_normal((m, n)).astype(dtype.replace("f", "float"))
        wide = x.astype(np.float64)
        d = wide - wide.mean(1, keepdims=True)
        expected = {
            "columns": wide.T @ wide,
            "of what is made of them": d @ d.T / (n - 1),
            "what follows is not the same in both halves": 2 * (wide @ wide.T) + np.arange(m)[:, None],
        }.get(name, wide @ wide.T)
        found = f(x)
        assert np.allclose(found, expected, rtol=0, atol=(1e-4 if dtype == "f32" else 1e-12) * n)
        rows, elements = (n, m) if name == "columns" else (m, n)
        if "not the same" not in name and min(rows, elements) >= 8:
            assert np.array_equal(found, found.T)
