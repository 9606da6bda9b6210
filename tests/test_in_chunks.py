"""Sums of products up to a position, in chunks: as many products as there are positions, times a constant, and the same sums."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from running import TARGET, agree, draw, meaning, outputs
from test_reassociate import OPTIONS, ordered, products

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 7
QKV = "Q{f32}[H N D] K{f32}[H N D] V{f32}[H N E]"
PLACES = "(setf i (unsqueeze (iota N) :axis 1)) (setf j (iota N))"
SCORES = '(einsum "hid,hjd->hij" Q K)'
TIMES_V = '(einsum "hij,hje->hie" w V)'


def of(weights: str, result: str = TIMES_V, ports: str = QKV, out: str = "O{f32}[H N E]") -> str:
    return f"(({ports}) -> ({out})) {PLACES} (setf w {weights}) (return {result})"


FORMS = {
    "up to the position": of(f"(where (<= j i) {SCORES} 0)"),
    "before the position": of(f"(where (< j i) (* 0.5 {SCORES}) 0)"),
    "behind it": of(f"(where (<= i j) {SCORES} 0)"),
    "for the others": of(f"(where (<= j i) {SCORES} 0)", '(einsum "hij,hie->hje" w V)'),  # as a gradient sums them
    "and the sums of the weights": of(f"(where (<= j i) {SCORES} 0)", f"(/ {TIMES_V} (+ 1 (abs (sum w :axis -1 :keepdims t))))"),
    "groups of queries": of(
        '(where (<= j i) (einsum "hgid,hjd->hgij" Q K) 0)', '(einsum "hgij,hje->hige" w V)', "Q{f32}[H 2 N D] K{f32}[H N D] V{f32}[H N E]", "O{f32}[H N 2 E]"
    ),
    "factors of rows and of columns": of(
        f"(where (<= j i) (* (unsqueeze A :axis 1) (unsqueeze B :axis 0) {SCORES}) 0)", TIMES_V, f"{QKV} A{{f32}}[N] B{{f32}}[N]"
    ),
    "integers": of(f"(where (<= j i) {SCORES} 0)", TIMES_V, QKV.replace("f32", "i32"), "O{i32}[H N E]"),
}  # fmt: skip

LEFT = {
    "another diagonal": of(f"(where (<= j (+ i 1)) {SCORES} 0)"),
    "a window": of(f"(where (and (<= j i) (< (- i j) 9)) {SCORES} 0)"),
    "a mask of data": of(f"(where W {SCORES} 0)", TIMES_V, f"{QKV} W{{bool}}[N N]"),
    "weights that are no product": of(f"(where (<= j i) (max 0 {SCORES}) 0)"),
    "weights that are wanted": of(f"(where (<= j i) {SCORES} 0)", f"{TIMES_V} w", QKV, "O{f32}[H N E] P{f32}[H N N]"),
    "other positions": of(f"(where (<= (unsqueeze (iota N) :axis 1) (iota M)) {SCORES} 0)", TIMES_V, QKV.replace("H N D] V{f32}[H N", "H M D] V{f32}[H M")),
    "what the condition keeps inside": "((Q{f32}[N D] K{f32}[N D] V{f32}[N E]) -> (O{f32}[N E])) (setf s (matmul Q (transpose K)))"
    " (dotimes (i N) (dotimes (j N) (if (< j i) (dotimes (e E) (incf (aref O i e) (* (aref s i j) (aref V (+ j 1) e)))))))",
    "a softmax": of(f"(softmax (where (<= j i) {SCORES} -inf) :axis -1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_in_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.products.in_chunks.CHUNK", 16)  # from 37 positions on
    graph, found = ordered(FORMS[name])
    named = {"H": 1, "D": 2, "E": 3}
    some = {n: products(found, {**named, "N": n}) for n in (10, 1000, 2000)}
    assert some[10] == products(graph, {**named, "N": 10})
    assert 2 * some[1000] < products(graph, {**named, "N": 1000})
    assert some[2000] < 2.2 * some[1000]
    legal = legalize(make_nests(fuse(found, TARGET, OPTIONS), TARGET, OPTIONS), TARGET, OPTIONS)
    for seed, n in enumerate((0, 1, 10, 38, 48)):
        sizes = {**named, "N": n}
        print(f"seed {seed}, sizes {sizes}")
        inputs = draw(graph, sizes, seed)
        want = meaning(graph, inputs, sizes)
        agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, seed {seed}")
        agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the nests, seed {seed}")


@pytest.mark.parametrize("name", LEFT)
def test_leaves_the_rest(name: str) -> None:
    graph, found = ordered(LEFT[name])
    assert found is graph


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_runs(target: str) -> None:
    f = luminal.compile(f"(composite c {FORMS['and the sums of the weights']})", runtime="clang", target=target)
    rng = np.random.default_rng(SEED)
    for h, n, d, e in [(2, 700, 16, 20), (1, 640, 33, 5), (2, 65, 16, 16), (3, 1, 4, 4), (2, 0, 4, 4)]:
        q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((h, n, d), (h, n, d), (h, n, e)))
        w = np.tril(np.einsum("hid,hjd->hij", q.astype(np.float64), k))
        want = w @ v / (1 + abs(w.sum(-1, keepdims=True)))
        print(f"seed {SEED}, H {h} N {n} D {d} E {e}")
        np.testing.assert_allclose(f(q, k, v), want, rtol=1e-4, atol=1e-4)
