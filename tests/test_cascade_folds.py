"""Loops that walk scores in order, such as an insertion into the k largest, go on from tile to tile of a cascade: no row of scores is in memory, whatever they are scores of."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import PLACES, SEED, after, before, check_one_pass, nests
from compilers import needs_cc
from luminal.ir.text import show

pytestmark = pytest.mark.usefixtures("plain_c")

QK = "Q{f32}[H N D] K{f32}[H M D]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'
BIASED = "(setf s (+ s B))"  # what is drawn for B holds rows of nothing but -inf, and huge numbers
BEST = "(setf (values y i) (topk p :k 3))"


def best(weights: str, more: str = "", results: str = "Y{f32}[H N 3] I{i64}[H N 3]", returned: str = "y i") -> str:
    return f"(({QK} B{{f32}}[N M]) -> ({results})) {SCORES} {BIASED} {more} (setf p {weights}) {BEST} (return {returned})"


# name -> (composite, kernels)
FOLDED: dict[str, tuple[str, int]] = {
    "of a softmax": (best("(softmax s :axis -1)"), 1),
    "of scores": (best("s"), 1),
    "of weights of their own": (best("(* s (abs s))"), 1),
    "of a causal softmax": (best("(softmax s :axis -1)", f"{PLACES} (setf s (where (<= j i) s -inf))"), 1),
    "with a temperature, by hand": (best("(/ e (sum e :axis -1 :keepdims t))", "(setf s (* s 0.25)) (setf e (exp (- s (max s :axis -1 :keepdims t))))"), 1),
    "with a sink": (
        best("(/ e (+ (sum e :axis -1 :keepdims t) (exp (- 0.5 m))))", "(setf m (max (max s :axis -1 :keepdims t) 0.5)) (setf e (exp (- s m)))"),
        1,
    ),
    "positions alone": (best("(softmax s :axis -1)", results="I{i64}[H N 3]", returned="i"), 1),
    "with the logsumexp": (best("(softmax s :axis -1)", results="Y{f32}[H N 3] I{i64}[H N 3] L{f32}[H N]", returned="y i (logsumexp s :axis -1)"), 1),
    # a loop of the user's own: how many scores were above all before them, and the last of these
    "records": (
        f"""(({QK} B{{f32}}[N M]) -> (Y{{f32}}[H N] C{{i64}}[H N])) {SCORES} {BIASED}
        (dotimes (h H) (dotimes (i N) (dotimes (j M)
          (if (or (= j 0) (> (aref s h i j) (aref Y h i))) (progn (setf (aref Y h i) (aref s h i j)) (incf (aref C h i)))))))""",
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_means_the_same(name: str) -> None:
    # exp(-200) is 0 in a float, and so equal to others, but it is not in the order that a row of exact numbers has; exp(-1000) is 0 for the interpreter too
    module = check_one_pass(name, *FOLDED[name], lengths=(3, 5, 64, 65, 129), huge=30)
    assert any("goes on from tile to tile" in note for note in module.kernels[0].notes), show(module)


# what is no such loop
REFUSED = {
    "changed by more than a copy": best("(softmax s :axis -1)").replace(BEST, "(setf y (cumsum p :axis -1)) (setf i (cast i64 y))").replace("[H N 3]", "[H N M]"),
    "not in the order of its scores": best("(- 1 (softmax s :axis -1))"),
    "of sums that are less than what they are made of": "((X{f32}[N M D]) -> (Y{f32}[N 3] I{i64}[N 3])) (setf (values y i) (topk (sum X :axis -1) :k 3)) (return y i)",
    "wanted by somebody else": best("(softmax s :axis -1)", results="Y{f32}[H N 3] P{f32}[H N M]", returned="y p"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_left_alone(name: str) -> None:
    found = after(before(REFUSED[name]))
    assert not any(a.node.op == "nest" for n in found.nodes() if n.op == "cascade" for a in n.args)
    nests(found)


@needs_cc
def test_compiled() -> None:
    """Ties, NaN, infinities, masked rows, tails; over k, and beside numpy with float64."""
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    for k in (1, 2, 8):
        text = f"(composite best (({QK}) -> (Y{{f32}}[H N {k}] I{{i64}}[H N {k}])) (setf (values y i) (topk (softmax (matmul Q (transpose K 0 2 1)) :axis -1) :k {k})) (return y i))"
        f = luminal.compile(text, runtime="clang")
        for h, n, m, d in [(1, 1, 8, 1), (2, 5, 9, 3), (3, 57, 300, 16), (1, 130, 129, 64), (2, 24, 128, 8)]:
            for kind in ("ties", "NaN", "infinity", "masked", "huge"):
                q, keys = (rng.integers(-2, 3, (h, x, d)).astype(np.float32) for x in (n, m))
                if kind in ("NaN", "infinity"):
                    keys[0, m // 2] = np.nan if kind == "NaN" else np.inf
                if kind == "masked":
                    q[:], keys[:, m // 3 :] = 1, -np.inf
                if kind == "huge":
                    keys *= 2.0**60  # most probabilities are 0 in any float; their order is that of the scores
                with np.errstate(all="ignore"):
                    s = np.einsum("hid,hjd->hij", q.astype(np.float64), keys)
                    p = np.exp(s - s.max(-1, keepdims=True))
                    p /= p.sum(-1, keepdims=True)
                want = np.argsort(-np.where(np.isnan(p), 0, s), axis=-1, kind="stable")[..., :k]
                y, at = f(q, keys)
                assert np.allclose(y, np.take_along_axis(p, want, -1), rtol=1e-5, atol=1e-30, equal_nan=True), (kind, k, m)
                assert np.array_equal(at, want), (kind, k, m)
