"""Stores to every so many positions of an axis: what is stored in turn is of one making, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 17
Array = np.ndarray
EVEN = "(setf (aref Y i (* 2 k)) (* 2.0 (aref X i (* 2 k))))"
ODD = "(setf (aref Y i (+ (* 2 k) 1)) (- (aref X i (* 2 k)) (aref X i (+ (* 2 k) 1))))"
PORTS = "X{f32}[M N](where N % 2 = 0)"


class Form(NamedTuple):
    ports: str
    output: str
    loops: str
    expected: Callable[[Array], Array]
    kernels: int = 1


def pairs(x: Array) -> Array:
    y = np.zeros_like(x)
    y[:, ::2], y[:, 1::2] = 2 * x[:, ::2], x[:, ::2] - x[:, 1::2]
    return y


def of_three(x: Array) -> Array:
    y = np.zeros_like(x)
    for d in range(3):
        y[:, d::3] = (d + 1) * x[:, d::3] + x[:, ::3]
    return y


FORMS = {
    "pairs": Form(PORTS, "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {EVEN} {ODD}))", pairs),
    "the other first": Form(PORTS, "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {ODD} {EVEN}))", pairs),
    "one after the other": Form(PORTS, "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {EVEN})) (dotimes (i M) (dotimes (k (floordiv N 2)) {ODD}))", pairs),
    "one of two": Form(PORTS, "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {ODD}))", lambda x: pairs(x) * (np.arange(x.shape[1]) % 2)),
    "three": Form(
        "X{f32}[M N](where N % 3 = 0)", "Y{f32}[M N]",
        "(dotimes (i M) (dotimes (k (floordiv N 3))" + "".join(f"(setf (aref Y i (+ (* 3 k) {d})) (+ (* {d + 1}.0 (aref X i (+ (* 3 k) {d}))) (aref X i (* 3 k))))" for d in range(3)) + "))",
        of_three,
    ),
    "rows": Form(
        "X{f32}[N M](where N % 2 = 0)", "Y{f32}[N M]",
        "(dotimes (k (floordiv N 2)) (dotimes (j M) (setf (aref Y (* 2 k) j) (* 2.0 (aref X (* 2 k) j))) (setf (aref Y (+ (* 2 k) 1) j) (- (aref X (* 2 k) j) (aref X (+ (* 2 k) 1) j)))))",
        lambda x: pairs(x.T.copy()).T,
    ),
    "twice": Form(PORTS, "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {EVEN} {ODD} (setf (aref Y i (* 2 k)) 3.0)))", lambda x: np.where(np.arange(x.shape[1]) % 2, pairs(x), 3)),
    "what was there": Form(PORTS, "Y{f32}[M N]", f"(setf Y (* 5 X)) (dotimes (i M) (dotimes (k (floordiv N 2)) {ODD})) (return Y)", lambda x: np.where(np.arange(x.shape[1]) % 2, pairs(x), 5 * x)),
    "in place": Form(PORTS, "X", "(dotimes (i M) (dotimes (k (floordiv N 2)) (setf (aref X i (* 2 k)) (* 2.0 (aref X i (* 2 k))))))", lambda x: np.where(np.arange(x.shape[1]) % 2, x, 2 * x)),
    "less than all": Form("X{f32}[M N]", "Y{f32}[M N]", f"(dotimes (i M) (dotimes (k (floordiv N 2)) {EVEN}))", lambda x: np.where((np.arange(x.shape[1]) % 2 == 0) & (np.arange(x.shape[1]) < x.shape[1] // 2 * 2), 2 * x, 0), 2),
}  # fmt: skip


def text_of(name: str) -> str:
    form = FORMS[name]
    return f"(composite form (({form.ports}) -> ({form.output})) {form.loops})"


@pytest.mark.parametrize("name", FORMS)
def test_kernels(name: str) -> None:
    (found,) = compilations(text_of(name), Settings(runtime="clang", target="x86-64-v3"))
    assert len(found.module.kernels) == FORMS[name].kernels


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f, rng = luminal.compile(text_of(name), runtime="clang"), np.random.default_rng(SEED)
    for m, n in ((0, 6), (3, 0), (1, 6), (5, 12), (7, 66), (3, 126)):
        x = rng.standard_normal((n, m) if name == "rows" else (m, n)).astype(np.float32)
        if name == "less than all" and n:
            x = x[:, 1:].copy()
        expected = FORMS[name].expected(x.astype(np.float64))
        np.testing.assert_allclose(f(x.copy()), expected, rtol=1e-5, atol=1e-5, err_msg=f"{name} at {m}, {n}")
