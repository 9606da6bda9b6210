"""Composites that nobody has published, each one kernel, and every combination of what attention is varied with; in numpy with float64 beside the compiled kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, PLACES, SEED, before, check_one_pass, nests
from compilers import needs_cc
from luminal.ir.expr import size
from luminal.ir.text import show
from luminal.passes.cascade import cascade
from running import TARGET

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])


def spread(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    p, j = softmax(scores(q, k)), np.arange(k.shape[1])
    centre = (p * j).sum(-1, keepdims=True)
    return (p * (j - centre) ** 2).sum(-1)


def push_pull(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = scores(q, k)
    return (softmax(s) - softmax(-s)) @ v


def sharpened(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    e = np.exp((s := scores(q, k)) - s.max(-1, keepdims=True))
    return (e * e) @ v / e.sum(-1, keepdims=True) ** 2


def two_temperatures(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = scores(q, k)
    return softmax(s) @ v - softmax(0.25 * s) @ v


def signed(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = scores(q, k)
    return (softmax(np.abs(s)) * np.where(s < 0, -1, 1)) @ v


def surprise(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    p = softmax(scores(q, k))
    return -(p * np.log(p)).sum(-1)


def gated(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = scores(q, k)
    return softmax(s) @ v / (1 + np.exp(-s.mean(-1, keepdims=True)))


def strongest(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (softmax(scores(q, k)) @ v).max(-1)


def cut(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = scores(q, k)
    i, j = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
    return softmax(np.where((j <= i + 40) & (s > 0.25), s, -np.inf)) @ v


# name -> (composite, the same in numpy)
INVENTED: dict[str, tuple[str, Callable[..., Any]]] = {
    # how far apart the positions are that a query attends to: the variance of a position under softmax
    "spread": (
        f"(({QKV}) -> (Y{{f32}}[H N])) {SCORES} (setf p (softmax s :axis -1)) (setf j (cast f32 (iota M))) "
        "(setf d (- j (sum (* p j) :axis -1 :keepdims t))) (return (sum (* p (* d d)) :axis -1))",
        spread,
    ),
    # towards what is like the query, away from what is unlike it: a maximum and a minimum of the same scores
    "push and pull": (f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (return (- (einsum "hij,hje->hie" (softmax s :axis -1) V) (einsum "hij,hje->hie" (softmax (- s) :axis -1) V)))', push_pull),
    # squares of the weights
    "sharpened": (
        f"(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (setf e (exp (- s (max s :axis -1 :keepdims t)))) (setf l (sum e :axis -1 :keepdims t)) "
        '(return (/ (einsum "hij,hje->hie" (* e e) V) (* l l)))',
        sharpened,
    ),
    # two softmaxes of the same scores, at two temperatures
    "two temperatures": (
        f"(({QKV}) -> (O{{f32}}[H N E])) {SCORES} "
        '(return (- (einsum "hij,hje->hie" (softmax s :axis -1) V) (einsum "hij,hje->hie" (softmax (* 0.25 s) :axis -1) V)))',
        two_temperatures,
    ),
    # weights by the size of a score, with its sign
    "signed": (f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (return (einsum "hij,hje->hie" (* (softmax (abs s) :axis -1) (where (< s 0) -1.0 1.0)) V))', signed),
    # the entropy of attention, as the definition says it
    "surprise": (f"(({QKV}) -> (Y{{f32}}[H N])) {SCORES} (setf l (log_softmax s :axis -1)) (return (- (sum (* (exp l) l) :axis -1)))", surprise),
    # attention that is gated by the mean of its scores
    "gated": (f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (return (* (sigmoid (mean s :axis -1 :keepdims t)) (einsum "hij,hje->hie" (softmax s :axis -1) V)))', gated),
    # the largest channel of what attention gives: a reduction of all that a cascade's row has
    "strongest": (f'(({QKV}) -> (Y{{f32}}[H N])) {SCORES} (return (max (einsum "hij,hje->hie" (softmax s :axis -1) V) :axis -1))', strongest),
    # a mask by position and by the scores themselves: nothing below a threshold is attended to
    "cut": (f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} {PLACES} (setf s (where (and (<= j (+ i 40)) (> s 0.25)) s -inf)) (return (einsum "hij,hje->hie" (softmax s :axis -1) V))', cut),
}  # fmt: skip


@pytest.mark.parametrize("name", INVENTED)
def test_invented(name: str) -> None:
    check_one_pass(name, INVENTED[name][0], 1)


@needs_cc
@pytest.mark.parametrize("name", INVENTED)
def test_invented_compiled(name: str) -> None:
    """On clang, with tails and several tiles, and with scores of some hundreds."""
    text, reference = INVENTED[name]
    f = luminal.compile(f"(composite naive {text})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, m, d, e, scale in [(5, 64, 3, 33, 1), (57, 300, 16, 16, 1), (13, 129, 8, 8, 30)]:
        q, k, v = (rng.standard_normal((2, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e)))
        q *= scale
        with np.errstate(all="ignore"):
            want = reference(*(x.astype(np.float64) for x in (q, k, v)))
        got = f(q, k, v)
        size_of_scores = np.abs(scores(q, k)).max()  # an exponential carries the rounding of its argument, which is as large as this
        assert (np.isnan(got) <= np.isnan(want)).all()
        allowed = 8 * np.finfo(np.float32).eps * (1 + size_of_scores) * (1 + np.nanmax(np.abs(want))) * (m if name == "spread" else 1)
        assert np.nanmax(np.abs(got - want)) < allowed, (name, n, m)


# ---- every combination of what attention is varied with

HEADS = {  # grouped or not: the ports, the scores, the product with the values
    False: ("Q{f32}[H N D]", '(einsum "hid,hjd->hij" Q K)', '(einsum "hij,hje->hie" p V)'),
    True: ("Q{f32}[H G N D]", '(einsum "hgid,hjd->hgij" Q K)', '(einsum "hgij,hje->hgie" p V)'),
}
OPTIONAL = ("grouped", "causal", "window", "bias", "alibi", "cap", "scale", "sink")


def varied(chosen: frozenset[str], dtype: str = "f32") -> str:
    """Attention with these of OPTIONAL."""
    grouped = "grouped" in chosen
    queries, products, values = HEADS[grouped]
    of_head = ":axis (1 2 3)" if grouped else ":axis (1 2)"
    ports = [queries, "K{f32}[H M D]", "V{f32}[H M E]"]
    code = [f"(setf s (* {products} (rsqrt D)))"]
    if chosen & {"causal", "window", "alibi"}:
        code.append(PLACES)
    if "scale" in chosen:
        ports.append("A{f32}[H]")
        code.append(f"(setf s (* s (unsqueeze A {of_head})))")
    if "cap" in chosen:
        code.append("(setf s (* 30 (tanh (/ s 30))))")
    if "bias" in chosen:
        ports.append("B{f32}[N M]")
        code.append("(setf s (+ s B))")
    if "alibi" in chosen:
        ports.append("C{f32}[H]")
        code.append(f"(setf s (+ s (* (unsqueeze C {of_head}) (cast f32 (- j i)))))")
    if "causal" in chosen:
        code.append("(setf s (where (<= j i) s -inf))")
    if "window" in chosen:
        code.append("(setf s (where (and (< (- i j) 5) (< (- j i) 5)) s -inf))")
    if "sink" in chosen:
        ports.append("Z{f32}[H]")
        code.append(
            f"(setf g (unsqueeze Z {of_head})) (setf m (max (max s :axis -1 :keepdims t) g)) (setf p (exp (- s m))) "
            f"(return (/ {values} (+ (sum p :axis -1 :keepdims t) (exp (- g m)))))"
        )
    else:
        code.append(f"(setf p (softmax s :axis -1)) (return {values})")
    result = "O{f32}[H G N E]" if grouped else "O{f32}[H N E]"
    text = f"(({' '.join(ports)}) -> ({result})) {' '.join(code)}"
    return text.replace("{f32}", f"{{{dtype}}}").replace("(cast f32", f"(cast {dtype}")


COMBINATIONS = [frozenset(name for name, on in zip(OPTIONAL, choice, strict=True) if on) for choice in product((False, True), repeat=len(OPTIONAL))]


def test_combinations_are_one_kernel() -> None:
    """Every second of all: each three of the variations meet in each of their eight ways."""
    for chosen in COMBINATIONS:
        if len(chosen) % 2:
            continue
        module = nests(cascade(before(varied(chosen)), TARGET, OPTIONS))
        assert len(module.kernels) == 1, (sorted(chosen), show(module))
        assert not any({size("N"), size("M")} <= set(t.shape) for t in module.temps), sorted(chosen)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_combinations_of_small_floats_are_one_kernel(dtype: str) -> None:
    for chosen in random.Random(f"{SEED} {dtype}").sample(COMBINATIONS, 24):
        module = nests(cascade(before(varied(chosen, dtype)), TARGET, OPTIONS))
        assert len(module.kernels) == 1, (sorted(chosen), show(module))
        assert not any({size("N"), size("M")} <= set(t.shape) for t in module.temps), sorted(chosen)


@pytest.mark.parametrize("seed", range(3))
def test_some_combinations_mean_the_same(seed: int) -> None:
    chosen = random.Random(f"{SEED} {seed}").choice(COMBINATIONS)
    check_one_pass(", ".join(sorted(chosen)), varied(chosen), 1, rounds=1)
