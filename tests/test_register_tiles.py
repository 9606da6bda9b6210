"""Composites that are products, or products around a cascade, are worked off in register tiles however their parts are written: no layout, mask, weight or scale falls back to loops
without them.  Beside float64 in NumPy, compiled, at sizes with tails."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 20
QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(setf s (/ (einsum "hid,hjd->hij" Q K) (sqrt D)))'
SIZES = {"H": 2, "N": 57, "M": 301, "D": 20, "E": 33, "P": 6}
Reference = Callable[..., np.ndarray]


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def within(q: np.ndarray, k: np.ndarray, v: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    d = apart(x, y)
    near = d < 1
    s = np.where(near, scores(q, k) - d, -np.inf)
    m = s.max(-1, keepdims=True)
    p = np.where(near, np.exp(s - np.where(m == -np.inf, 0, m)), 0)
    return p @ v / (p.sum(-1, keepdims=True) + 1e-9)


def kernel_of_distances(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    w = np.exp(-apart(q[0], k[0]) / 8)
    return w @ v[0] / (w.sum(-1, keepdims=True) + 1e-9)


def linear(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k = (np.where(x > 0, x + 1, np.exp(x)) for x in (q, k))
    return q @ (k.swapaxes(1, 2) @ v) / (1e-6 + (q * k.sum(1, keepdims=True)).sum(-1, keepdims=True))


# name: ports, body, what it is in NumPy, how many kernels (or parts of one) are register tiles
FORMS: dict[str, tuple[str, str, Reference, int]] = {
    "heads last but one": (f"{QKV} -> O{{f32}}[N H E]", f'{SCORES} (return (einsum "hij,hje->ihe" (softmax s) V))', lambda q, k, v: (softmax(scores(q, k)) @ v).swapaxes(0, 1), 1),
    "rows last": (f"{QKV} -> O{{f32}}[H E N]", f'{SCORES} (return (einsum "hij,hje->hei" (softmax s) V))', lambda q, k, v: (softmax(scores(q, k)) @ v).swapaxes(1, 2), 1),
    "a column of biases": (f"{QKV} B{{f32}}[M] -> O{{f32}}[H N E]", f'{SCORES} (return (einsum "hij,hje->hie" (softmax (+ s B)) V))', lambda q, k, v, b: softmax(scores(q, k) + b) @ v, 1),
    "a temperature for each head": (
        f"{QKV} T{{f32}}[H] -> O{{f32}}[H N E]",
        "(setf q (/ Q (sqrt (+ (sum (* Q Q) :axis -1 :keepdims t) 1e-6)))) (setf k (/ K (sqrt (+ (sum (* K K) :axis -1 :keepdims t) 1e-6))))"
        ' (setf s (* (einsum "hid,hjd->hij" q k) (exp (reshape T (H 1 1))))) (return (einsum "hij,hje->hie" (softmax s) V))',
        lambda q, k, v, t: softmax(np.einsum("hid,hjd->hij", unit(q), unit(k)) * np.exp(t)[:, None, None]) @ v, 1,
    ),
    "two products in a score": (
        f"{QKV} R{{f32}}[H N P] S{{f32}}[M P] -> O{{f32}}[H N E]",
        '(setf s (+ (einsum "hid,hjd->hij" Q K) (einsum "hip,jp->hij" R S))) (return (einsum "hij,hje->hie" (softmax s) V))',
        lambda q, k, v, r, s: softmax(np.einsum("hid,hjd->hij", q, k) + np.einsum("hip,jp->hij", r, s)) @ v, 1,
    ),
    "a mask of distances, and rows without any key": (
        f"{QKV} X{{f32}}[N P] Y{{f32}}[M P] -> O{{f32}}[H N E]",
        f"{SCORES} (setf x (- (reshape X (N 1 P)) (reshape Y (1 M P)))) (setf d (sum (* x x) :axis -1)) (setf s (where (< d 1) (- s d) -inf))"
        " (setf m (max s :axis -1 :keepdims t)) (setf p (where (< d 1) (exp (- s (where (= m -inf) 0 m))) 0))"
        ' (return (/ (einsum "hij,hje->hie" p V) (+ 1e-9 (sum p :axis -1 :keepdims t))))',
        within, 2,
    ),
    "weights of distances": (
        "Q{f32}[1 N D] K{f32}[1 M D] V{f32}[1 M E] -> O{f32}[N E]",
        "(setf x (- (reshape Q (N 1 D)) (reshape K (1 M D)))) (setf w (exp (/ (sum (* x x) :axis -1) -8)))"
        " (return (/ (matmul w (reshape V (M E))) (+ (sum w :axis -1 :keepdims t) 1e-9)))",
        kernel_of_distances, 2,
    ),
    "linear attention": (
        f"{QKV} -> O{{f32}}[H N E]",
        '(setf q (where (> Q 0) (+ Q 1) (exp Q))) (setf k (where (> K 0) (+ K 1) (exp K))) (setf c (einsum "hjd,hje->hde" k V))'
        ' (return (/ (einsum "hid,hde->hie" q c) (+ 1e-6 (sum (* q (sum k :axis 1 :keepdims t)) :axis -1 :keepdims t))))',
        linear, 3,
    ),
    "distances by a matrix for each centre": (
        "Q{f32}[N D] R{f32}[P D] S{f32}[P D D] -> O{f32}[N P]", '(setf x (- (unsqueeze Q :axis 1) R)) (return (einsum "npi,pij,npj->np" x S x))',
        lambda q, r, s: np.einsum("npi,pij,npj->np", q[:, None] - r, s, q[:, None] - r, optimize=True), 1,
    ),
    "a scale for each row": (
        "Q{f32}[N D] R{f32}[D M] V{f32}[N] -> O{f32}[N M]", "(return (/ (matmul Q R) (+ 1e-2 (abs (reshape V (N 1))))))", lambda q, k, v: q @ k / (1e-2 + np.abs(v)[:, None]), 1,
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    ports, body, _, _ = FORMS[name]
    before, after = ports.split(" -> ")
    return f"(composite tiled (({before}) -> ({after})) {body})"


@pytest.mark.parametrize("name", FORMS)
def test_register_tiles(name: str) -> None:
    (found,) = compilations(text_of(name), Settings(runtime="clang", target="x86-64-v3"))
    module = found.run("schedule")
    notes = [note for k in module.kernels for note in k.notes]
    assert sum("; register tiles of" in note or "and a register tile" in note for note in notes) == FORMS[name][3], notes
    assert not any(note.startswith(("not cascade", "not contraction")) for note in notes), notes


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_meaning(name: str) -> None:
    f = luminal.compile(text_of(name), runtime="clang")
    rng = np.random.default_rng(SEED)
    for sizes in (SIZES, {**SIZES, "N": 6, "M": 128, "E": 64, "D": 64}):
        inputs = [
            rng.standard_normal([sizes.get(w) or int(w) for w in port.split("[")[1].rstrip("]").split()]).astype(np.float32)
            for port in ports_of(name)
        ]
        want = FORMS[name][2](*(x.astype(np.float64) for x in inputs))
        got = f(*inputs)
        assert np.abs(got - want).max() <= 200 * np.finfo(np.float32).eps * (1 + np.abs(want).max()), (name, sizes)


def ports_of(name: str) -> list[str]:
    before = FORMS[name][0].split(" -> ")[0]
    return before.replace("] ", "]\n").split("\n")
