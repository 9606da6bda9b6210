"""What is gathered of a product is computed at the gathered positions, so that the product needs no memory where all others are only added up."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, after, before, nests
from compilers import needs_cc
from luminal.ir.graph import Graph
from luminal.ir.text import show
from luminal.passes.gather_first import gather_first
from running import TARGET, agree, draw, meaning

pytestmark = pytest.mark.usefixtures("plain_c")

LOGITS = '(setf l (log_softmax (einsum "rd,vd->rv" X W) :axis -1)) (setf at (squeeze (take-along l (unsqueeze I :axis 1) :axis 1) :axis 1))'
PORTS = "X{f32}[R D] W{f32}[V D] I{i64}[R]"
LOSSES = {
    "likelihood": (f"(({PORTS}) -> (L{{f32}}[R])) {LOGITS} (return (- at))", lambda _, at: -at),
    "focal": (f"(({PORTS}) -> (L{{f32}}[R])) {LOGITS} (setf p (- 1 (exp at))) (return (- (* p p at)))", lambda _, at: -((1 - np.exp(at)) ** 2) * at),
    "smoothed": (f"(({PORTS}) -> (L{{f32}}[R])) {LOGITS} (return (- (+ (* 0.9 at) (* 0.1 (mean l :axis -1)))))", lambda logs, at: -(0.9 * at + 0.1 * logs.mean(1))),
}  # fmt: skip
STAY = {
    "who stores it all the same": f"(({PORTS}) -> (L{{f32}}[R] S{{f32}}[R V])) {LOGITS} (return at l)",
    "whoever gathers as many": '((X{f32}[R D] W{f32}[V D] I{i64}[V]) -> (L{f32}[R V] S{f32}[R])) (setf s (einsum "rd,vd->rv" X W)) (return (transpose (gather (transpose s) I :axis 0)) (sum s :axis -1))',
    "what is in memory": "((X{f32}[R V] I{i64}[R]) -> (L{f32}[R])) (setf l (log_softmax X :axis -1)) (return (squeeze (take-along l (unsqueeze I :axis 1) :axis 1) :axis 1))",
}


def rewritten(text: str) -> tuple[Graph, Graph]:
    graph = before(text)
    return graph, gather_first(graph, TARGET, OPTIONS)


@pytest.mark.parametrize("name", LOSSES)
def test_logits_need_no_memory(name: str) -> None:
    graph, found = rewritten(LOSSES[name][0])
    assert " = gather f32[R, 1, D] over [V, D]" in show(found)
    module = nests(after(found))
    assert not any({"R", "V"} <= {str(e) for e in t.shape} for t in module.temps), show(module)
    for seed, sizes in enumerate(({"R": 3, "V": 5, "D": 2}, {"R": 1, "V": 1, "D": 1})):
        inputs = draw(graph, sizes, seed)
        inputs["I"] %= sizes["V"]
        agree(meaning(found, inputs, sizes), meaning(graph, inputs, sizes), graph, name)


@pytest.mark.parametrize("name", STAY)
def test_others_stay(name: str) -> None:
    graph, found = rewritten(STAY[name])
    assert found.outputs == graph.outputs


@needs_cc
@pytest.mark.parametrize("name", LOSSES)
def test_compiled(name: str) -> None:
    text, reference = LOSSES[name]
    f = luminal.compile(f"(composite loss {text})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for rows, classes, depth in [(1, 1, 1), (33, 1031, 16), (5, 300, 64), (0, 4, 2)]:
        x, w = (rng.standard_normal((n, depth)).astype(np.float32) for n in (rows, classes))
        index = rng.integers(0, classes, rows)
        s = x.astype(np.float64) @ w.T
        s -= s.max(1, keepdims=True, initial=-np.inf)
        logs = s - np.log(np.exp(s).sum(1, keepdims=True))
        np.testing.assert_allclose(f(x, w, index), reference(logs, logs[np.arange(rows), index]), rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="index"):
        f(np.ones((2, 2), np.float32), np.ones((4, 2), np.float32), np.array([0, 4]))
