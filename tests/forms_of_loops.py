"""Every form of the loop style: what `test_loops_forms.py` runs, with plain Python that says what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from forms_in_loops import TENSORS
from luminal.ir.program import BAD_INDEX, BAD_SIZE

SEED = 31
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """`text`: ports and code; `python(**inputs and sizes)` gives the outputs by name, or an error code."""

    text: str
    sizes: tuple[dict[str, int], ...]
    python: Callable[..., dict[str, Any] | int]
    given: tuple[Arrays, ...] = ({},)  # inputs that are not drawn, each tried


def reals(*shape: int) -> np.ndarray:
    return np.random.default_rng(SEED + sum(shape)).standard_normal(shape).astype(np.float32)


def between(a: Any, n: int, start: int, stop: int, step: int) -> dict[str, Any] | int:
    """Y[i] = A[i] + i for i from start to stop by step; an index outside is an error."""
    if step == 0:
        return BAD_SIZE
    trips = range(start, stop, step)
    if any(not 0 <= i < n for i in trips):
        return BAD_INDEX
    y = np.zeros(n)
    for i in trips:
        y[i] = a[i] + i
    return {"Y": y}


def collatz(A: Any, N: int) -> dict[str, Any]:
    counts = []
    for x in map(int, A):
        n = 0
        while x != 1 and n < 20:
            x, n = (x // 2 if x % 2 == 0 else 3 * x + 1), n + 1
        counts.append(n)
    return {"Y": counts}


def accumulated(A: Any, B: Any, N: int) -> dict[str, Any]:
    a = A.astype(float)
    return {"P": a + B, "Q": a - B, "R": a * B, "S": a / B, "T": np.maximum(a, B), "U": np.minimum(a, B), "C": a + 1, "D": a - 1}


def of_scalars(A: Any, N: int) -> dict[str, Any]:
    a = A.astype(float)
    parts = [a.sum(), -a.sum(), np.prod(1 + a / 4), 1 / np.prod(2 + a / 8), max(a.max(initial=-np.inf), -9), min(a.min(initial=np.inf), 9), N, -N]
    return {"Y": np.array(parts)}


def sorted_rows(A: Any, M: int, N: int) -> dict[str, Any]:
    return {"A": np.sort(A, 1)}


def spmv(R: Any, J: Any, V: Any, X: Any, M: int, N: int, K: int) -> dict[str, Any] | int:
    y = np.zeros(M)
    for i in range(M):
        for p in range(R[i], R[i + 1]):
            if not 0 <= p < K or not 0 <= J[p] < N:
                return BAD_INDEX
            y[i] += V[p] * X[J[p]]
    return {"Y": y}


def at(A: Any, I: Any, M: int, N: int) -> dict[str, Any] | int:  # noqa: E741
    return {"Y": A[I]} if all(0 <= i < N for i in I) else BAD_INDEX


def put(A: Any, I: Any, Y: Any, M: int, N: int) -> dict[str, Any] | int:  # noqa: E741
    if not all(0 <= i < N for i in I):
        return BAD_INDEX
    y = Y.copy()
    for m in range(M):
        y[I[m]] += A[m]
    return {"Y": y}


def put_and_forget(I: Any, Y: Any, M: int, N: int) -> dict[str, Any] | int:  # noqa: E741
    found = put(np.ones(M), I, Y, M, N)
    return found if isinstance(found, int) else found | {"I": np.zeros(M)}


def recurrence(A: Any, N: int) -> dict[str, Any]:
    y, x = np.zeros(N), 0.5
    for i in range(N):
        x = 0.9 * x + A[i]
        y[i] = x
    return {"Y": y}


def first_greatest(A: Any, N: int) -> dict[str, Any]:
    return {"K": int(np.argmax(A)) if N else -1, "best": A.max(initial=-np.inf)}


def squares(A: Any, M: int, N: int) -> dict[str, Any]:
    y = np.zeros((M, N))
    for i in range(M):
        w = [A[i, j] ** 2 for j in range(N)]
        for j in range(N):
            y[i, j] = w[N - 1 - j] + (w[j - 1] if j else 0)
    return {"Y": y}


def lcs(A: Any, B: Any, M: int, N: int) -> dict[str, Any]:
    table = np.zeros((M + 1, N + 1), int)
    for i in range(M):
        for j in range(N):
            table[i + 1, j + 1] = table[i, j] + 1 if A[i] == B[j] else max(table[i, j + 1], table[i + 1, j])
    return {"Y": table[M, N]}


ONE_SIZE = ({"N": 0}, {"N": 1}, {"N": 7})
CSR = {"R": np.array([0, 2, 2, 5], np.int32), "J": np.array([0, 3, 1, 1, 2], np.int32)}
STEPS = ((0, 7, 1), (6, -1, -1), (0, 7, 2), (6, 0, -3), (3, 3, 1), (5, 2, 1), (2, 5, -1), (0, 7, 0), (0, 8, 1), (-1, 3, 1), (6, -2, -1))

FORMS: dict[str, Form] = {
    "dotimes": Form("((A{f32}[N]) -> (Y{f32}[N])) (dotimes (i N) (setf (aref Y i) (* 2 (aref A i))))", ONE_SIZE, lambda A, N: {"Y": 2 * A}),
    "a count that is an expression": Form(
        "((A{f32}[N]) -> (Y{f32}[N])) (dotimes (i (floordiv (+ N 1) 2)) (setf (aref Y (* 2 i)) (aref A i)))",
        ONE_SIZE,
        lambda A, N: {"Y": np.where(np.arange(N) % 2 == 0, A[np.arange(N) // 2], 0)},
    ),
    "a negative count": Form(
        "((A{f32}[N]) -> (Y{f32}[N])) (dotimes (i (- N 3)) (setf (aref Y i) 1))", ONE_SIZE, lambda A, N: {"Y": np.arange(N) < N - 3}
    ),
    "lists": Form(
        "((A{f32}[N] &key (w (1 -2 3)) (at (0 2 1)) (none ())) -> (Y{f32}[N] Z{f32}[N]))"
        " (dotimes (i (- N (aref at (- (length at) 2)))) (dotimes (k (length w)) (let ((m (- 2 k)))"
        " (incf (aref Y i) (* (aref w m) (aref A (+ i (aref at m))))))))"
        " (loop (k 2 -1 -1) (dotimes (q (aref at k)) (dotimes (i N) (setf (aref Z i) (+ (* 2 (aref Z i)) (if (< k 2) (aref w (+ k q)) q))))))"
        " (dotimes (k (length none)) (setf (aref Y 0) (aref none k)))",
        ONE_SIZE,
        lambda A, N: {"Y": [A[i] - 2 * A[i + 2] + 3 * A[i + 1] if i < N - 2 else 0 for i in range(N)], "Z": np.full(N, -1)},
    ),
    "negative bounds": Form("(() -> (Y{f32}[6])) (loop (i -3 3) (setf (aref Y (+ i 3)) i))", ({},), lambda: {"Y": np.arange(-3, 3)}),
    "by a number": Form(
        "((A{f32}[N]) -> (Y{f32}[N])) (loop (i (- N 1) -1 -2) (setf (aref Y i) (aref A i))) (loop (i 0 N 3) (incf (aref Y i) 10))",
        ONE_SIZE,
        lambda A, N: {"Y": np.where((N - 1 - np.arange(N)) % 2 == 0, A, 0) + 10 * (np.arange(N) % 3 == 0)},
    ),
    "bounds and steps at run time": Form(
        "((A{f32}[N] from{i64}[] to{i64}[] by{i64}[]) -> (Y{f32}[N])) (loop (i from to by) (setf (aref Y i) (+ (aref A i) i)))",
        ({"N": 7},),
        lambda A, N, **by: between(A, N, by["from"], by["to"], by["by"]),
        tuple({"from": start, "to": stop, "by": step} for start, stop, step in STEPS),
    ),
    "steps that are sizes": Form(
        "((A{f32}[N] B{f32}[K]) -> (Y{f32}[N])) (loop (i 0 N K) (setf (aref Y i) (aref A i)))",
        ({"N": 7, "K": 1}, {"N": 7, "K": 3}, {"N": 3, "K": 7}),
        lambda A, B, N, K: {"Y": np.where(np.arange(N) % K == 0, A, 0)},
    ),
    "while": Form(
        """((A{i64}[N]) -> (Y{i64}[N])) (dotimes (i N)
          (set x (aref A i))
          (while (/= x 1) :max 20
            (if (= (mod x 2) 0) (set x (floordiv x 2)) (set x (+ 1 (* 3 x))))
            (incf (aref Y i))))""",
        ({"N": 5},),
        collatz,
        ({"A": np.array([1, 2, 3, 27, 6])},),
    ),
    "progn and let": Form(
        """((A{f32}[N]) -> (Y{f32}[N])) (progn (dotimes (i N) (let ((x (aref A i)) (y 3)) (let ((x (* x y)) (z x))
          (progn (incf (aref Y i) x) (incf (aref Y i) z))))))""",
        ONE_SIZE,
        lambda A, N: {"Y": 4 * A},
    ),
    "set: one dtype for all assignments": Form(
        """((A{f32}[M N]) -> (Y{f32}[M])) (dotimes (i M)
          (set s 0) (set n 0)
          (dotimes (j N) (if (> (aref A i j) 0) (progn (incf s (aref A i j)) (incf n))))
          (setf (aref Y i) (/ s (+ 1 n))))""",
        ({"M": 0, "N": 2}, {"M": 3, "N": 0}, {"M": 5, "N": 7}),
        lambda A, M, N: {"Y": np.where(A > 0, A, 0).sum(1) / (1 + (A > 0).sum(1))},
    ),
    "set: seen from inner loops and behind branches": Form(
        """((A{f32}[N]) -> (Y{f32}[N])) (dotimes (i N)
          (if (> (aref A i) 0) (set x (aref A i)))
          (dotimes (k 3) (set z (* x k)) (set x (+ x z)))
          (setf (aref Y i) x))""",
        ONE_SIZE,
        lambda A, N: {"Y": 6 * np.where(A > 0, A, 0)},
    ),
    "make-array": Form(
        """((A{f32}[M N]) -> (Y{f32}[M N])) (dotimes (i M)
          (make-array w f32 (N))
          (dotimes (j N) (setf (aref w j) (* (aref A i j) (aref A i j))))
          (dotimes (j N) (setf (aref Y i j) (+ (aref w (- N 1 j)) (if (> j 0) (aref w (- j 1)) 0)))))""",
        ({"M": 0, "N": 3}, {"M": 3, "N": 1}, {"M": 4, "N": 9}),
        squares,
    ),
    "make-array: a table that is filled in order": Form(
        """((A{i32}[M] B{i32}[N]) -> (Y{i64}[])) (dotimes (once 1)
          (make-array t1 i64 ((+ M 1) (+ N 1)))
          (dotimes (i M) (dotimes (j N) (setf (aref t1 (+ i 1) (+ j 1))
            (if (= (aref A i) (aref B j)) (+ 1 (aref t1 i j)) (max (aref t1 i (+ j 1)) (aref t1 (+ i 1) j))))))
          (set Y (aref t1 M N)))""",
        ({"M": 0, "N": 2}, {"M": 6, "N": 9}),
        lcs,
    ),
    "accumulations into elements": Form(
        """((A{f32}[N] B{f32}[N]) -> (P{f32}[N] Q{f32}[N] R{f32}[N] S{f32}[N] T{f32}[N] U{f32}[N] C{f32}[N] D{f32}[N]))
          (setf P A) (setf Q A) (setf R A) (setf S A) (setf T A) (setf U A) (setf C A) (setf D A)
          (dotimes (i N)
            (incf (aref P i) (aref B i)) (decf (aref Q i) (aref B i)) (mulcf (aref R i) (aref B i)) (divcf (aref S i) (aref B i))
            (maxf (aref T i) (aref B i)) (minf (aref U i) (aref B i)) (incf (aref C i)) (decf (aref D i)))""",
        ONE_SIZE,
        accumulated,
    ),
    "accumulations into scalars": Form(
        """((A{f32}[N]) -> (Y{f32}[8])) (dotimes (once 1)
          (set p 0) (set q 0) (set r 1.0) (set s 1.0) (set t1 -9.0) (set u 9.0) (set c 0) (set d 0)
          (dotimes (i N)
            (incf p (aref A i)) (decf q (aref A i)) (mulcf r (+ 1 (/ (aref A i) 4))) (divcf s (+ 2 (/ (aref A i) 8)))
            (maxf t1 (aref A i)) (minf u (aref A i)) (incf c) (decf d))
          (setf (aref Y 0) p (aref Y 1) q (aref Y 2) r (aref Y 3) s (aref Y 4) t1 (aref Y 5) u (aref Y 6) c (aref Y 7) d))""",
        ONE_SIZE,
        of_scalars,
    ),
    "if": Form(
        """((A{f32}[N]) -> (Y{f32}[N])) (dotimes (i N)
          (if (< i 2) (setf (aref Y i) 1) (if (> (aref A i) 0) (setf (aref Y i) (if (> (aref A i) 1) 3 2))))
          (if (= i 5) (incf (aref Y i) 10)))""",
        ONE_SIZE,
        lambda A, N: {"Y": np.where(np.arange(N) < 2, 1, np.where(A > 1, 3, np.where(A > 0, 2, 0))) + 10 * (np.arange(N) == 5)},
    ),
    "an index from a tensor": Form(
        "((A{f32}[N] I{i32}[M]) -> (Y{f32}[M])) (dotimes (m M) (setf (aref Y m) (aref A (aref I m))))",
        ({"N": 5, "M": 4},),
        at,
        tuple({"I": np.array(i, np.int32)} for i in ([0, 4, 4, 2], [0, 1, 5, 2], [3, -1, 0, 0], [2**31 - 1, 0, 0, 0])),
    ),
    "stores at an index from a tensor": Form(
        "((A{f32}[M] I{i64}[M] Y{f32}[N]) -> (Y)) (dotimes (m M) (incf (aref Y (aref I m)) (aref A m)))",
        ({"N": 5, "M": 4},),
        put,
        tuple({"I": np.array(i)} for i in ([0, 4, 4, 2], [4, 1, 5, 2], [3, -1, 0, 0], [-(2**63), 2**63 - 1, 0, 0])),
    ),
    "an index that is changed behind its use": Form(
        "((I{i32}[M] Y{f32}[N]) -> (Y I)) (dotimes (m M) (incf (aref Y (aref I m))) (setf (aref I m) 0))",
        ({"N": 5, "M": 4},),
        put_and_forget,
        tuple({"I": np.array(i, np.int32)} for i in ([0, 4, 4, 2], [4, 1, 5, 2])),
    ),
    "an index that is a port": Form(
        "((A{f32}[N] k{i32}[]) -> (Y{f32}[])) (dotimes (once 1) (setf Y (aref A k)))",
        ({"N": 5},),
        lambda A, k, N: {"Y": A[k]} if 0 <= k < N else BAD_INDEX,
        ({"k": 0}, {"k": 4}, {"k": 5}, {"k": -1}),
    ),
    "bounds that are data": Form(
        """((R{i32}[(+ M 1)] J{i32}[K] V{f32}[K] X{f32}[N]) -> (Y{f32}[M]))
          (dotimes (i M) (loop (p (aref R i) (aref R (+ i 1))) (incf (aref Y i) (* (aref V p) (aref X (aref J p))))))""",
        ({"M": 3, "K": 5, "N": 4},),
        spmv,
        (
            CSR,
            CSR | {"R": np.array([0, 2, 2, 6], np.int32)},
            CSR | {"J": np.array([0, 3, 1, 4, 2], np.int32)},
            CSR | {"R": np.array([-1, 2, 2, 2], np.int32)},
        ),
    ),
    "a linear recurrence": Form(
        "((A{f32}[N]) -> (Y{f32}[N])) (dotimes (once 1) (set x 0.5) (dotimes (i N) (set x (+ (* 0.9 x) (aref A i))) (setf (aref Y i) x)))",
        ONE_SIZE,
        recurrence,
    ),
    "a running sum": Form("((A{f32}[N]) -> (A)) (loop (i 1 N) (incf (aref A i) (aref A (- i 1))))", ONE_SIZE, lambda A, N: {"A": np.cumsum(A)}),
    "the first greatest": Form(
        """((A{f32}[N]) -> (K{i64}[] best{f32}[])) (dotimes (once 1) (set K -1) (set best -inf)
          (dotimes (i N) (if (> (aref A i) best) (progn (set best (aref A i)) (set K i)))))""",
        ONE_SIZE,
        first_greatest,
    ),
    "insertion sort": Form(
        """((A{f32}[M N]) -> (A)) (dotimes (i M) (loop (j 1 N)
          (set x (aref A i j)) (set k j)
          (while (and (> k 0) (> (aref A i (- k 1)) x)) :max N
            (setf (aref A i k) (aref A i (- k 1)))
            (decf k))
          (setf (aref A i k) x)))""",
        ({"M": 2, "N": 1}, {"M": 3, "N": 9}),
        sorted_rows,
    ),
    "sieve": Form(
        """((K{u8}[N]) -> (Y{u8}[N])) (dotimes (i N) (setf (aref Y i) (if (< i 2) 0 1)))
          (loop (i 2 N) (if (= (aref Y i) 1) (loop (j (* 2 i) N i) (setf (aref Y j) 0))))""",
        ({"N": 0}, {"N": 40}),
        lambda K, N: {"Y": np.array([n > 1 and all(n % d for d in range(2, n)) for n in range(N)], int)},
    ),
    "half precision": Form(
        "((A{f16}[M N]) -> (Y{f16}[M])) (dotimes (i M) (set s 0) (dotimes (j N) (incf s (aref A i j))) (setf (aref Y i) s))",
        ({"M": 3, "N": 9},),
        lambda A, M, N: {"Y": A.astype(float).sum(1)},
    ),
}


FORMS |= {name: Form(*row) for name, row in TENSORS.items()}
