# ruff: noqa: E741
"""Tensor expressions inside loops: the part of `forms_of_loops.py` that is on tensors.  A row is text, sizes, plain Python and, where inputs are not drawn, those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from luminal.ir.program import BAD_INDEX
from scipy import special

Row = tuple[Any, ...]
MN: tuple[dict[str, int], ...] = ({"M": 4, "N": 5}, {"M": 1, "N": 1}, {"M": 3, "N": 0}, {"M": 0, "N": 2})
FULL = tuple(s for s in MN if s["N"])  # softmax, max and mean of nothing are not asked for
MNK = ({"M": 4, "N": 5, "K": 3}, {"M": 2, "N": 1, "K": 1})
DEEP = ({"T": 4, "N": 3}, {"T": 1, "N": 1})


def rows(
    ports: str, out: str, code: str, python: Callable[..., Any], sizes: tuple[dict[str, int], ...] = MN, given: Any = ({},), before: str = ""
) -> Row:
    """The composite f of these ports with one output Y; Python gives Y, or an error code."""

    def run(**inputs: Any) -> Any:
        y = python(**inputs)
        return y if isinstance(y, int) else {out.split("{")[0]: y}

    return f"{before}(composite f (({ports}) -> ({out})) {code})", sizes, run, given


def matrix(out: str, code: str, python: Callable[[Any], Any], sizes: tuple[dict[str, int], ...] = MN, before: str = "") -> Row:
    """Of one matrix A[M N]."""
    return rows("A{f32}[M N]", f"Y{out}", code, lambda A, M, N: python(A), sizes, before=before)


def apart(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: np.array([f(r) for r in a]).reshape(a.shape)


def power(A: Any, N: int) -> Any:
    v = np.ones(N)
    for _ in range(6):
        v = A @ v
        v = v / np.sqrt((v * v).sum())
    return v


def forward(L: Any, b: Any, N: int) -> Any:
    return np.linalg.solve(np.tril(L, -1) + np.eye(N), b)


def recurrent(X: Any, W: Any, T: int, N: int) -> Any:
    h, found = np.zeros(N), []
    for x in X:
        h = np.tanh(x + W @ h)
        found.append(h)
    return np.array(found)


def halved(r: Any) -> Any:
    while abs(r).max() > 0.5:
        r = r * 0.5
    return r


def scattered(A: Any, J: Any, M: int, N: int, K: int) -> Any:
    y = A.copy()
    for i in range(M):
        np.add.at(y[i], J[i], 1)
    return y


def mixed_rows(a: Any) -> Any:
    return np.array([a[i] - a[i - 1] if i % 2 else a[i].sum() + 0 * a[i] for i in range(len(a))]).reshape(a.shape)


SUM = "(composite total ((a{f32}[L]) -> (s{f32}[])) (dotimes (i L) (incf s (aref a i)))) "
RUNNING = "(composite running ((a{f32}[L]) -> (s{f32}[L])) (let ((t 0.0)) (dotimes (i L) (incf t (aref a i)) (setf (aref s i) t)))) "
TIMES = "(composite times ((a{f32}[] n{i64}[]) -> (s{f32}[])) (dotimes (i n) (incf s a))) "

TENSORS: dict[str, Row] = {
    "tensors: sum": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (sum (aref A i))))", lambda a: a.sum(1)),
    "tensors: slice": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (prod (slice A i _))))", lambda a: a.prod(1)),
    "tensors: two reductions": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (- (max (aref A i)) (mean (aref A i)))))", lambda a: a.max(1) - a.mean(1), FULL),
    "tensors: rows": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (* i 0.5 (aref A i))))", lambda a: a * 0.5 * np.arange(len(a))[:, None]),
    "tensors: update": matrix("{f32}[M N]", "(dotimes (i M) (dotimes (k 3) (incf (aref Y i) (aref A i))) (maxf (aref Y i) (iota N)))", lambda a: np.maximum(3 * a, np.arange(a.shape[1]))),
    "tensors: decf": matrix("{f32}[N]", "(dotimes (i M) (decf Y (aref A i)))", lambda a: -a.sum(0)),
    "tensors: divcf": rows("A{f32}[M N]", "A", "(dotimes (i M) (divcf (aref A i) (+ 3 (abs (aref A i)))))", lambda A, M, N: A / (3 + abs(A))),
    "tensors: reversed in place": rows("A{f32}[M N]", "A", "(dotimes (i M) (setf (aref A i) (flip (aref A i))))", lambda A, M, N: A[:, ::-1].copy()),
    "tensors: an element of what is stored": rows("A{f32}[M N]", "A", "(dotimes (i M) (setf (aref A i) (- (aref A i) (aref A i 0))))", lambda A, M, N: A - A[:, :1], FULL),
    "tensors: softmax by hand": matrix("{f32}[M N]", "(dotimes (i M) (let ((e (exp (- (aref A i) (max (aref A i)))))) (setf (aref Y i) (/ e (sum e)))))", lambda a: special.softmax(a, 1), FULL),
    "tensors: softmax": matrix("{f32}[M N]", "(dotimes (i M) (set e (softmax (aref A i))) (setf (aref Y i) e))", lambda a: special.softmax(a, 1), FULL),
    "tensors: a library composite of two": rows("A{f32}[M N] w{f32}[N]", "Y{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (layer_norm (aref A i) w)))",
        lambda A, w, M, N: (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + 1e-5) * w, FULL),
    "tensors: matmul": rows("A{f32}[M N] W{f32}[N K]", "Y{f32}[M K]", "(dotimes (i M) (setf (aref Y i) (max (matmul (aref A i) W) 0)))", lambda A, W, M, N, K: np.maximum(A @ W, 0), MNK),
    "tensors: a product kept": rows("A{f32}[M N] W{f32}[N K]", "Y{f32}[M K]", "(dotimes (i M) (set h (matmul (aref A i) W)) (setf (aref Y i) (- h (mean h))))",
        lambda A, W, M, N, K: A @ W - (A @ W).mean(1, keepdims=True), MNK),
    "tensors: power iteration": rows("A{f32}[N N]", "Y{f32}[N]", "(setf v (ones N)) (dotimes (k 6) (setf v (matmul A v)) (setf v (/ v (sqrt (sum (* v v)))))) (return v)", power, ({"N": 4}, {"N": 1})),
    "tensors: substitution": rows("L{f32}[N N] b{f32}[N]", "Y{f32}[N]", "(dotimes (i N) (setf (aref Y i) (- (aref b i) (sum (* (slice L i (0 i)) (slice Y (0 i)))))))", forward, ({"N": 5}, {"N": 1}, {"N": 0})),
    "tensors: recurrent": rows("X{f32}[T N] W{f32}[N N]", "Y{f32}[T N]", "(set h (zeros N)) (dotimes (k T) (setf h (tanh (+ (aref X k) (matmul W h)))) (setf (aref Y k) h))", recurrent, DEEP),
    "tensors: triangle": matrix("{f32}[M]", "(loop (i (- M 1) -1 -1) (setf (aref Y i) (sum (slice A i (0 (min i N))))))", lambda a: np.array([a[i, :i].sum() for i in range(len(a))])),
    "tensors: a row by data": rows("A{f32}[M N] I{i64}[K]", "Y{f32}[K N]", "(dotimes (i K) (setf (aref Y i) (aref A (aref I i))))",
        lambda A, I, M, N, K: A[I] if all(0 <= i < M for i in I) else BAD_INDEX, ({"M": 4, "N": 2, "K": 3},), ({"I": [3, 0, 3]}, {"I": [0, 4, 0]}, {"I": [0, -1, 0]})),
    "tensors: gather": rows("A{f32}[M N] I{i64}[K]", "Y{f32}[M]", "(dotimes (i M) (setf (aref Y i) (sum (gather (aref A i) I))))",
        lambda A, I, M, N, K: A[:, I].sum(1) if all(0 <= i < N for i in I) else BAD_INDEX, ({"M": 4, "N": 2, "K": 3},), ({"I": [1, 0, 1]}, {"I": [0, 2, 0]})),
    "tensors: positions at run time": rows("A{f32}[M N] n{i64}[]", "Y{f32}[]", "(dotimes (k 2) (incf Y (sum (slice A (+ n k) _))))",
        lambda A, n, M, N: A[n : n + 2].sum() if 0 <= n < M - 1 else BAD_INDEX, ({"M": 4, "N": 2},), ({"n": 0}, {"n": 2}, {"n": 3}, {"n": -1})),
    "tensors: a branch of rows": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (if (= (mod i 2) 1) (- (aref A i) (aref A (- i 1))) (+ (sum (aref A i)) (* 0 (aref A i))))))", mixed_rows),
    "tensors: a branch of numbers": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (if (> i 0) (sum (aref A (- i 1))) 0)))", lambda a: np.concatenate([np.zeros(min(1, len(a))), a[:-1].sum(1)])),
    "tensors: a condition": matrix("{f32}[M]", "(dotimes (i M) (if (all (> (aref A i) -1)) (setf (aref Y i) 1) (setf (aref Y i) 2)))", lambda a: np.where((a > -1).all(1), 1, 2)),
    "tensors: while": matrix("{f32}[M N]", "(dotimes (i M) (set v (aref A i)) (while (> (max (abs v)) 0.5) :max 99 (set v (* 0.5 v))) (setf (aref Y i) v))", apart(halved), FULL),
    "tensors: scan": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (cumsum (aref A i) :axis 0)))", lambda a: a.cumsum(1)),
    "tensors: scatter": rows("A{f32}[M N] J{i64}[M K]", "Y{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (scatter (aref A i) (aref J i) 1 :combine add)))", scattered, ({"M": 4, "N": 3, "K": 5},)),
    "tensors: argmax": matrix("{i64}[M]", "(dotimes (i M) (setf (aref Y i) (argmax (aref A i))))", lambda a: a.argmax(1), FULL),
    "tensors: sorted": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (sort (aref A i))))", lambda a: np.sort(a, 1), FULL),
    "tensors: two values": rows("A{f32}[M 5]", "Y{f32}[M]", "(dotimes (i M) (setf (values p q) (split (aref A i) 2 3)) (setf (aref Y i) (- (sum p) (sum q))))", lambda A, M: A[:, :2].sum(1) - A[:, 2:].sum(1), ({"M": 3},)),
    "tensors: a mask of positions": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (where (<= (iota N) i) (aref A i) 0)))", np.tril),
    "tensors: a float of the loop": rows("A{f64}[M N]", "Y{f64}[M]", "(dotimes (i M) (setf (aref Y i) (sum (* (sqrt (+ i 1)) 0.1 (aref A i)))))", lambda A, M, N: (A * 0.1 * np.sqrt(np.arange(M) + 1)[:, None]).sum(1)),
    "tensors: half precision": rows("A{f16}[M N]", "Y{f16}[M]", "(dotimes (i M) (setf (aref Y i) (sum (aref A i))))", lambda A, M, N: A.astype(float).sum(1)),
    "tensors: a composite with loops": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (total (* 2 (aref A i)))))", lambda a: 2 * a.sum(1), before=SUM),
    "tensors: a composite with loops and rows": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (running (aref A i))))", lambda a: a.cumsum(1), before=RUNNING),
    "tensors: two of them": matrix("{f32}[M N]", "(dotimes (i M) (setf (aref Y i) (+ (running (running (aref A i))) (total (aref A i)))))", lambda a: a.cumsum(1).cumsum(1) + a.sum(1, keepdims=True), before=SUM + RUNNING),
    "tensors: a composite of numbers with loops": matrix("{f32}[M]", "(dotimes (i M) (setf (aref Y i) (times (aref A i 0) (+ i 1))))", lambda a: a[:, 0] * (1 + np.arange(len(a))), FULL, before=TIMES),
    "tensors: upper case": matrix("{f32}[M]", "(DOTIMES (I M) (SETF (AREF Y I) (SUM (AREF A I))))", lambda a: a.sum(1)),
}  # fmt: skip
