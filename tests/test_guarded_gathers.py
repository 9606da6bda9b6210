"""Rows that data chooses, read under a condition in loops: what is multiplied with them, beside float64 in NumPy; which positions are asked about; and that a check stands before all that it is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Check, statements, written
from stages import graph_after

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
V3 = "x86-64-v3"
Array = np.ndarray
AB = "A{f32}[M K] I{i64}[K] B{f32}[V N]"
LOOPS = "(dotimes (i M) (dotimes (j N) (dotimes (p K) {})))"
ADD = "(incf (aref C i j) (* (aref A i p) (aref B (aref I p) j)))"


class Form(NamedTuple):
    """`wanted`: what the condition is, over [i, p], of A and I, with V rows to choose from."""

    ports: str
    loops: str
    wanted: str


FORMS = {
    "not negative": Form(AB, LOOPS.format(f"(if (>= (aref I p) 0) {ADD})"), "(I >= 0) & (A == A)"),
    "before the end": Form(AB, LOOPS.format(f"(if (< (aref I p) V) {ADD})"), "(I < V) & (A == A)"),
    "inside": Form(AB, LOOPS.format(f"(if (and (>= (aref I p) 0) (< (aref I p) V)) {ADD})"), "(I >= 0) & (I < V) & (A == A)"),
    "an if in an if": Form(AB, LOOPS.format(f"(if (>= (aref I p) 0) (if (< (aref I p) V) {ADD}))"), "(I >= 0) & (I < V) & (A == A)"),
    "what it is multiplied with": Form(AB, LOOPS.format(f"(if (> (aref A i p) 0) {ADD})"), "A > 0"),
    "a triangle": Form(AB, LOOPS.format(f"(if (<= p i) {ADD})"), "np.arange(K) <= np.arange(M)[:, None]"),
    "a number chosen": Form(
        AB, LOOPS.format("(incf (aref C i j) (* (aref A i p) (if (>= (aref I p) 0) (aref B (aref I p) j) 0.0)))"), "(I >= 0) & (A == A)"
    ),
    "named": Form(
        AB,
        "(dotimes (i M) (dotimes (p K) (let ((q (aref I p))) (if (>= q 0) (dotimes (j N) (incf (aref C i j) (* (aref A i p) (aref B q j))))))))",
        "(I >= 0) & (A == A)",
    ),
    "summed first": Form(
        AB,
        "(dotimes (i M) (dotimes (j N) (set s 0.0) (dotimes (p K) (if (>= (aref I p) 0) (incf s (* (aref A i p) (aref B (aref I p) j))))) (setf (aref C i j) s)))",
        "(I >= 0) & (A == A)",
    ),
}
SIZES = ((0, 3, 4, 5), (3, 0, 4, 5), (3, 4, 0, 5), (1, 1, 1, 1), (2, 7, 5, 3), (33, 17, 19, 8), (70, 90, 129, 50))  # M, N, K, V
ALWAYS_INSIDE = ("inside", "an if in an if")


def text_of(name: str) -> str:
    return f"(composite form (({FORMS[name].ports}) -> (C{{f32}}[M N])) {FORMS[name].loops})"


def wanted(name: str, a: Array, i: Array, rows: int) -> Array:
    found = eval(FORMS[name].wanted, {"np": np}, {"A": a, "I": i, "V": rows, "M": a.shape[0], "K": a.shape[1]})
    return np.broadcast_to(found, a.shape)


def reference(name: str, a: Array, i: Array, b: Array) -> Array:
    holds = wanted(name, a, i, len(b))
    rows = b.astype(np.float64)[np.clip(i, 0, len(b) - 1)] if len(b) else np.zeros((len(i), b.shape[1]))
    left = a.astype(np.float64)[:, :, None]
    with np.errstate(invalid="ignore"):
        if name == "a number chosen":
            return (left * np.where(holds[:, :, None], rows[None], 0)).sum(1)
        return np.where(holds[:, :, None], left * rows[None], 0).sum(1)


def arrays(name: str, sizes: tuple[int, int, int, int], rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Positions outside stand where nobody wants them."""
    m, n, k, v = sizes
    a, b, i = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((v, n)).astype(np.float32), rng.integers(0, v, k)
    for p, far in zip(range(0, k, 5), (-1, v, -(1 << 62), (1 << 63) - 1) * k, strict=False):
        changed = i.copy()
        changed[p] = far
        if m and n and not wanted(name, a, changed, v)[:, p].any():  # where nothing is stored, nobody says whether positions are looked at
            i = changed
    return a, i, b


@cache
def kernel(name: str) -> Callable[..., Any]:
    return luminal.compile(text_of(name), runtime="clang")


@pytest.mark.parametrize("name", FORMS)
def test_loops_are_tensors(name: str) -> None:
    ops = [n.op for n in graph_after("raise_loops", text_of(name)).nodes()]
    assert "gather" in ops and "nest" not in ops


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f, rng = kernel(name), np.random.default_rng(SEED)
    for sizes in SIZES:
        found = arrays(name, sizes, rng)
        np.testing.assert_allclose(f(*found), reference(name, *found), rtol=2e-5, atol=2e-4, err_msg=f"{name} at {sizes}")


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_nothing_leaks(name: str) -> None:
    """What the condition leaves out may be anything; what it does not shows."""
    f, rng = kernel(name), np.random.default_rng(SEED)
    for bad in (np.inf, -np.inf, np.nan):
        a, i, b = arrays(name, (37, 53, 41, 30), rng)
        b[29], b[5, ::7], b[0, 50], a[8, 30], a[30, 2:7] = bad, bad, 0.0, bad, bad
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(f(a, i, b), reference(name, a, i, b), rtol=2e-5, atol=2e-4, err_msg=f"{name}, {bad}")


@needs_cc
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("rows", [0, 7])
def test_positions_that_are_wanted_are_asked_about(name: str, rows: int) -> None:
    """Outside of the table, be it right behind its end or before it, is an error wherever somebody wants it, and nowhere else."""
    f, rng = kernel(name), np.random.default_rng(SEED)
    a, b = rng.standard_normal((9, 6)).astype(np.float32), rng.standard_normal((rows, 20)).astype(np.float32)
    for place in range(6):
        for far in (-1, rows, rows + 1, (1 << 63) - 1, -(1 << 63)):
            i = np.zeros(6, np.int64)
            i[place] = far
            holds = wanted(name, a, i, rows)
            if ((i < 0) | (i >= rows))[holds.any(0)].any():
                assert name not in ALWAYS_INSIDE
                with pytest.raises(ValueError, match="out of range"):
                    f(a, i, b)
            else:
                np.testing.assert_allclose(f(a, i, b), reference(name, a, i, b), rtol=2e-5, atol=2e-4)


def test_rows_that_are_read_once_stay_loops() -> None:
    """Loops pass over what they do not want: that is less than to look at it."""
    bag = "(composite bag ((E{f32}[V D] I{i64}[B L]) -> (Y{f32}[B D])) (dotimes (b B) (dotimes (l L) (if (>= (aref I b l) 0) (dotimes (d D) (incf (aref Y b d) (aref E (aref I b l) d)))))))"
    assert any(n.op == "nest" for n in graph_after("raise_loops", bag).nodes())


@needs_cc
def test_copies() -> None:
    text = "(composite copy ((E{f32}[V D] I{i64}[B]) -> (Y{f32}[B D])) (dotimes (b B) (if (>= (aref I b) 0) (dotimes (d D) (setf (aref Y b d) (aref E (aref I b) d))))))"
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for v, d, b in ((0, 3, 4), (5, 0, 3), (5, 3, 0), (7, 33, 100)):
        e, i = rng.standard_normal((v, d)).astype(np.float32), rng.integers(-2, v, b) if v else np.full(b, -1)
        e[:1] = np.inf
        rows = e[np.maximum(i, 0)] if v else np.zeros((b, d))
        np.testing.assert_array_equal(f(e, i), np.where((i >= 0)[:, None], rows, 0))


# ---- checks stand before what they are for

JOINED = {
    "rows of an index that is computed": "((E{f32}[V D] A{i64}[B L] C{i64}[B L]) -> (I{i64}[B L] Y{f32}[B D])) (setf I (+ A C)) (return I (sum (gather E I :axis 0) :axis 1))",
    "one pass over the index": "((E{f32}[V] I{i64}[L]) -> (Y{f32}[] Z{i64}[])) (return (sum (gather E I :axis 0)) (sum I))",
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_checks_come_first(name: str) -> None:
    """A kernel that looks at positions joins no other, and what reads there does not move before it."""
    (found,) = compilations(f"(composite c {JOINED[name]})", Settings(runtime="clang", target=V3))
    kernels = found.module.kernels
    looks = [k for k, x in enumerate(kernels) if any(isinstance(s, Check) for s in statements(x.body))]
    assert len(looks) == 1 and not written(kernels[looks[0]].body) & {"Y", "Z", "I"}
    reads = [k for k, x in enumerate(kernels) if "E" in x.buffers]
    assert min(reads) > looks[0]


@needs_cc
@pytest.mark.parametrize("name", JOINED)
def test_far_positions_are_not_read(name: str) -> None:
    f = luminal.compile(f"(composite c {JOINED[name]})", runtime="clang")
    far = np.zeros((200, 20), np.int64)
    far[3, 4] = -(1 << 40)
    with pytest.raises(ValueError, match="out of range"):
        if "one pass" in name:
            f(np.zeros(10, np.float32), far.ravel())
        else:
            f(np.zeros((10, 64), np.float32), far, np.zeros_like(far))
