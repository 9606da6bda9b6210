# ruff: noqa: E741
"""The second half of the forms: movement, making, and composites of the library; see `forms_table.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from forms_table import ANY, ARITHMETIC, COMPARE, COMPLEXES, CONTRACT, FLOAT, NUMBER, ONCE, REDUCE, SIGNED, Form
from scipy import special
from threefry import normal, uniform


def put(combine: Any, base: Any, index: Any, updates: Any) -> Any:
    result = base.copy()
    for k, i in enumerate(index):
        result[i] = updates[k] if combine is None else combine(result[i], updates[k])
    return result


def windows(x: Any, size: int, step: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=-1)[..., ::step, :]


def pooled(x: Any, fill: float) -> Any:
    return np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=fill), (3, 2), axis=(2, 3))[:, :, ::2]


def rolled(x: Any) -> Any:
    return np.roll(x, 2, 1)


MOVE = [
    Form("(reshape A (* M N))", np.ravel, ANY), Form("(reshape X -1 N)", lambda X: X.reshape(-1, 5), ANY), Form("(reshape X M (* 2 N))", lambda X: X.reshape(3, 10), ANY), Form("(reshape z 1 1)", lambda z: z.reshape(1, 1), ANY),
    Form("(reshape X (2 -1))", lambda X: X.reshape(2, -1), ANY), Form("(transpose A)", np.transpose, ANY), Form("(transpose X 1 2 0)", lambda X: X.transpose(1, 2, 0), ANY),
    Form("(expand V M N)", lambda V: np.broadcast_to(V, (3, 5)), ANY), Form("(expand (unsqueeze V :axis 1) -1 7)", lambda V: np.broadcast_to(V[:, None], (5, 7)), ANY),
    Form("(squeeze (unsqueeze A :axis (0 -1)) :axis 0)", lambda A: A[..., None], ANY), Form("(squeeze (unsqueeze A :axis 1))", lambda A: A, ANY), Form("(unsqueeze A :axis 1)", lambda A: A[:, None], ANY),
    Form("(slice A (1 M) (0 N 2))", lambda A: A[1:, ::2], ANY), Form("(slice A _ 2)", lambda A: A[:, 2], ANY), Form("(slice A (_ _ -1) (-3 _))", lambda A: A[::-1, -3:], ANY), Form("(slice X ~ (1 3))", lambda X: X[..., 1:3], ANY),
    Form("(pad A (1 2) (0 3))", lambda A: np.pad(A, ((1, 2), (0, 3))), ANY), Form("(pad A (0 1) (2 0) :value 3)", lambda A: np.pad(A, ((0, 1), (2, 0)), constant_values=3)),
    Form("(pad A ~ (1 0) :value -inf)", lambda A: np.pad(A, ((0, 0), (1, 0)), constant_values=-np.inf), FLOAT),
    Form("(concat A B C :axis 1)", lambda A, B, C: np.concatenate((A, B, C), 1), ANY), Form("(concat A (slice B (0 1)))", lambda A, B: np.concatenate((A, B[:1])), ANY),
    Form("(stack A B :axis 1)", lambda A, B: np.stack((A, B), 1), ANY), Form("(stack A B C)", lambda A, B, C: np.stack((A, B, C)), ANY),
    Form("(split A 2 -1 :axis 1)", lambda A: (A[:, :2], A[:, 2:]), ANY, ("T", "T")), Form("(split X 1 1)", lambda X: (X[:1], X[1:]), ANY, ("T", "T")),
    Form("(flip A)", np.flip, ANY), Form("(flip A :axis 1)", np.fliplr, ANY), Form("(flip X :axis (0 2))", lambda X: np.flip(X, (0, 2)), ANY), Form("(roll A 2 :axis 1)", rolled, ANY),
    Form("(roll A -1 :axis 0)", lambda A: np.roll(A, -1, 0), ANY), Form("(tile V 3)", lambda V: np.tile(V, 3), ANY), Form("(tile A 2 1 2)", lambda A: np.tile(A, (2, 1, 2)), ANY),
    Form("(gather A I)", lambda A, I: A[I], ANY), Form("(gather X I :axis 1)", lambda X, I: X.take(I, 1), ANY), Form("(gather V J)", lambda V, J: V[J], ANY),
    Form("(take-along A J :axis 1)", lambda A, J: np.take_along_axis(A, J, 1), ANY), Form("(take-along A J)", lambda A, J: np.take_along_axis(A, J, -1), ANY),
    Form("(scatter A I (transpose (slice W _ _)) :combine set)", lambda A, I, W: put(None, A, I, W.T), ANY), Form("(scatter A I (transpose W))", lambda A, I, W: put(None, A, I, W.T), ANY),
    Form("(scatter A I (transpose W) :combine add)", lambda A, I, W: put(np.add, A, I, W.T)), Form("(scatter A I 2 :axis 0 :combine mul)", lambda A, I: put(np.multiply, A, I, np.full(4, 2))),
    Form("(scatter A I (transpose W) :combine max)", lambda A, I, W: put(np.maximum, A, I, W.T)), Form("(scatter A I (transpose W) :combine min)", lambda A, I, W: put(np.minimum, A, I, W.T)),
    Form("(scatter (transpose A) I W :axis 1 :combine add)", lambda A, I, W: put(np.add, A, I, W.T).T), Form("(triu S)", np.triu, ANY), Form("(tril S :k -1)", lambda S: np.tril(S, -1), ANY),
    Form("(triu A :k 1)", lambda A: np.triu(A, 1), ANY), Form("(tril X :k 1)", lambda X: np.tril(X, 1), ANY), Form("(unfold A :size 3 :step 2 :axis 1)", lambda A: windows(A, 3, 2), ANY),
    Form("(unfold A :size 2)", lambda A: windows(A, 2, 1), ANY), Form("(aref A 1)", lambda A: A[1], ANY), Form("(aref A I (iota K))", lambda A, I: A[I, np.arange(4)], ANY),
]  # fmt: skip

MAKE = [
    Form("(iota N)", lambda: np.arange(5), ONCE, "i64"), Form("(+ V (iota N))", lambda V: V + np.arange(5)), Form("(full (M N) 0.5)", lambda: np.full((3, 5), 0.5), ONCE, "f32"),
    Form("(full (M N) z)", lambda z: np.full((3, 5), z), ANY), Form("(full N 3)", lambda: np.full(5, 3), ONCE, "i64"), Form("(full (M) 2 :dtype T)", lambda: np.full(3, 2), NUMBER),
    Form("(zeros (M N))", lambda: np.zeros((3, 5)), ONCE, "f32"), Form("(ones (M) :dtype T)", lambda: np.ones(3), NUMBER), Form("(* V (ones N))", lambda V: V, FLOAT), Form("(zeros () :dtype T)", lambda: np.zeros(()), ANY),
    Form("(eye (+ M 1))", lambda: np.eye(4), ONCE, "f32"), Form("(eye N :dtype T)", lambda: np.eye(5), ANY), Form("(matmul A (eye N :dtype T))", lambda A: A, FLOAT),
    *[Form(f"(cast {to} A)", lambda A: A, SIGNED, to) for to in (*FLOAT, *SIGNED)], *[Form(f"(cast A :dtype {to})", lambda A: A, FLOAT, to) for to in FLOAT if to != "bf16"],
    Form("(cast bool A)", lambda A: A != 0, ANY, "bool"), Form("(cast i32 A)", lambda A: np.trunc(A) if A.dtype.kind == "f" else A, ANY, "i32"), Form("(cast f32 P)", lambda P: P, ONCE, "f32"),
    Form("(cast u8 (* 100 A))", lambda A: np.trunc(np.clip(100 * A, 0, 255)), FLOAT, "u8"), Form("(cast T (iota N))", lambda: np.arange(5), NUMBER),
    Form("(bitcast T (bitcast u64 A))", lambda A: A, ("f64", "i64", "u64")), Form("(bitcast u32 A)", lambda A: A.astype(np.float32).view(np.uint32), ONCE, "u32"),
    Form("(bitcast A :dtype i16)", lambda A: A.astype(np.float16).view(np.int16), ("f16",), "i16"), Form("(bitcast i8 A)", lambda A: A, ("u8",), "i8"),
    Form("(rand (M N) :seed 7)", lambda: uniform(np.arange(15), 7, 24).reshape(3, 5), ONCE, "f32"), Form("(rand (K) :seed 9 :dtype f64)", lambda: uniform(np.arange(4), 9, 53), ONCE, "f64"),
    Form("(randn (M N) :seed 5 :dtype f64)", lambda: normal(np.arange(15), 5).reshape(3, 5), ONCE, "f64"), Form("(rand (N) :seed 3 :dtype f16)", lambda: uniform(np.arange(5), 3, 11), ONCE, "f16"),
]  # fmt: skip


LIBRARY = [
    Form("(softmax A :axis 0)", lambda A: special.softmax(A, 0), FLOAT), Form("(softmax X)", lambda X: special.softmax(X, -1), FLOAT),
    Form("(layer_norm A V :eps 0.125)", lambda A, V: (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + 0.125) * V, ("f64", "f32")),
    Form("(maxpool2d G :kernel (3 2) :stride (2 1) :padding (1 0))", lambda G: pooled(G, -np.inf).max((-2, -1)), FLOAT),
    Form("(avgpool2d G :kernel (3 2) :stride (2 1) :padding (1 0))", lambda G: pooled(G, 0).mean((-2, -1)), FLOAT),
]  # fmt: skip

FAMILIES = {
    "arithmetic": ARITHMETIC,
    "compare": COMPARE,
    "complex": COMPLEXES,
    "reduce": REDUCE,
    "contract": CONTRACT,
    "move": MOVE,
    "make": MAKE,
    "library": LIBRARY,
}
