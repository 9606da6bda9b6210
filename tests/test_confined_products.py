"""Products with a mask along the sum: tiles begin and end where it does, however it is written, and values are what they were."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Module
from luminal.ir.text import read
from luminal.ir.text.expressions import show_expr
from luminal.passes.schedule import Facts, StepError, apply, unique
from luminal.passes.schedule.tree import find

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
SIZES = (
    (1, 1),
    (13, 9),
    (40, 33),
    (157, 130),
    (300, 170),
    (1100, 300),
)  # in place, strips, panels of each thread's own, blocks of rows and along the sum

PORTS = "((A{f32}[N N] B{f32}[N M]) -> (C{f32}[N M]))"
BAND = "(setf i (unsqueeze (iota N) :axis 1)) (setf p (iota N))"
FORMS = {
    "lower": "(return (matmul (tril A) B))",
    "upper": "(return (matmul (triu A :k 2) B))",
    "turned": "(return (matmul (transpose (tril A)) B))",
    "band": f"{BAND} (return (matmul (where (and (<= p (+ i 5)) (<= i (+ p 40))) A 0.0) B))",
    "half the rate": f"{BAND} (return (matmul (where (<= (* 2 p) i) A 0.0) B))",
    "loops": "(dotimes (i N) (dotimes (j M) (loop (p (+ i 1) N) (incf (aref C i j) (* (aref A p i) (aref B p j))))))",
    "columns": "(return (transpose (matmul (transpose B) (transpose (tril A)))))",
}


def text_of(name: str) -> str:
    return f"(composite form ({PORTS[1:-1]}) {FORMS[name]})"


def masked(name: str, a: np.ndarray) -> np.ndarray:
    n = len(a)
    i, p = np.arange(n)[:, None], np.arange(n)
    return {
        "lower": np.tril(a),
        "upper": np.triu(a, 2),
        "turned": np.tril(a).T,
        "band": np.where((p <= i + 5) & (i <= p + 40), a, 0),
        "half the rate": np.where(2 * p <= i, a, 0),
        "loops": np.tril(a, -1).T,
        "columns": np.tril(a),
    }[name]


def schedules(text: str) -> list[str]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return [line for k in found.run("schedule").kernels for line in k.schedule]


@pytest.mark.parametrize("name", FORMS)
def test_sums_begin_and_end_where_the_mask_does(name: str) -> None:
    assert any(line.startswith("confine ") for line in schedules(text_of(name)))


@pytest.mark.parametrize("body", ["(matmul (where (> A 0.0) A 0.0) B)", "(matmul (where (< (iota N) 7) A 0.0) B)", "(matmul A B)"])
def test_what_data_or_the_sum_alone_decide_is_added_up(body: str) -> None:
    assert not any(line.startswith("confine ") for line in schedules(f"(composite form ({PORTS[1:-1]}) (return {body}))"))


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f = luminal.compile(text_of(name))
    rng = np.random.default_rng(SEED)
    for n, m in SIZES:
        a, b = rng.standard_normal((n, n)).astype(np.float32), rng.standard_normal((n, m)).astype(np.float32)
        wanted = masked(name, a.astype(np.float64)) @ b.astype(np.float64)
        np.testing.assert_allclose(f(a, b), wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {SEED}, N={n}, M={m}")


@needs_cc
def test_loops_add_nothing_that_is_not_there() -> None:
    """What a loop does not reach may be anything, in either factor."""
    f = luminal.compile(text_of("loops"))
    rng = np.random.default_rng(SEED)
    for n, m in ((40, 33), (157, 130)):
        a, b = rng.standard_normal((n, n)).astype(np.float32), rng.standard_normal((n, m)).astype(np.float32)
        b[2], a[5, 7:] = np.inf, np.nan
        wanted = np.zeros((n, m))
        for i in range(n):
            wanted[i] = a[i + 1 :, i].astype(np.float64) @ b[i + 1 :].astype(np.float64)
        np.testing.assert_allclose(f(a, b), wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {SEED}, N={n}, M={m}")


ROWS = {
    "a triangle by a vector": ("(return (matmul (tril A) x))", lambda a, x: np.tril(a) @ x),
    "the other by one": ("(return (matmul (triu A :k 1) x))", lambda a, x: np.triu(a, 1) @ x),
    "loops": ("(dotimes (i N) (dotimes (j (+ i 1)) (incf (aref y i) (* (aref A i j) (aref x j)))))", lambda a, x: np.tril(a) @ x),
    "largest": ("(return (max (where (<= (iota N) (unsqueeze (iota N) :axis 1)) (+ A x) -inf) :axis 1))", lambda a, x: np.where(np.tri(len(a)) > 0, a + x, -np.inf).max(1)),
}  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", ROWS)
def test_rows_end_where_the_mask_does(name: str) -> None:
    """What is beyond is not read: it may be NaN.  Inside no element is asked about."""
    body, reference = ROWS[name]
    text = f"(composite rows ((A{{f32}}[N N] x{{f32}}[N]) -> (y{{f32}}[N])) {body})"
    assert any(line.startswith("confine ") for line in schedules(text))
    f, rng = luminal.compile(text), np.random.default_rng(SEED)
    for n in (1, 2, 15, 64, 130, 700):
        a, x = rng.standard_normal((n, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        wanted = reference(a.astype(np.float64), x.astype(np.float64))
        np.testing.assert_allclose(f(a, x), wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {SEED}, N={n}")


KERNEL = """kernels tiles v1
size M
size K
in A: f32[M, K]
out C: f32[M]
kernel tiles_0(A, C):
  for i in 0 .. (M + 3) // 4 parallel:
    alloc acc: f32[4] register
    for r in 0 .. 4 parallel:
      acc[r] = 0.0:f32
    for p in 0 .. K reduce:
      for s in 0 .. 4 parallel:
        acc[s] add= {}
    for t in 0 .. 4 parallel:
      if i * 4 + t < M:
        C[i * 4 + t] = acc[t]
"""


@pytest.mark.parametrize(
    ("value", "ends"),
    [
        ("where(i * 4 + s < M & p <= i * 4 + s, A[i * 4 + s, p], 0.0:f32)", "0 .. min(i * 4 + 4, K)"),
        ("where(i * 4 + s <= p & i * 4 + s < M, A[i * 4 + s, p], 0.0:f32) * 2.0:f32", "i * 4 .. K"),
        ("where(p < min(i * 4 + s, M - 1), A[min(i * 4 + s, M - 1), p], 0.0:f32)", "0 .. min(min(i * 4 + 3, M - 1), K)"),
        ("where(2 * p <= i * 4 + s & i * 4 + s < M, A[i * 4 + s, p], 0.0:f32)", "0 .. min(i * 2 + 2, K)"),
    ],
)
def test_where_a_tile_begins_and_ends(value: str, ends: str) -> None:
    m = read(KERNEL.format(value))
    assert isinstance(m, Module)
    loop = find(apply(unique(m.kernels[0]), Facts.of(m), "confine p"), "p")
    assert f"{show_expr(loop.start)} .. {show_expr(loop.stop)}" == ends


@pytest.mark.parametrize(
    "value",
    [
        "where(p <= i * 4 + s, 0.0:f32, 1.0:f32)",
        "where(p <= i * 4 + s, 2.0:f32, 1.0:f32)",
        "where(p + 1 < K, 2.0:f32, 0.0:f32)",
        "2.0:f32 + where(p <= i * 4 + s, 1.0:f32, 0.0:f32)",
    ],
)
def test_what_is_added_everywhere_is_refused(value: str) -> None:
    m = read(KERNEL.format(value))
    assert isinstance(m, Module)
    with pytest.raises(StepError, match="confine: no mask"):
        apply(unique(m.kernels[0]), Facts.of(m), "confine p")


@needs_cc
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_strict_rules_drop_nothing() -> None:
    """0 times what is not finite is no number, where a term may not be dropped."""
    a = np.random.default_rng(SEED).standard_normal((90, 90), np.float32)
    b = np.random.default_rng(SEED + 1).standard_normal((90, 70), np.float32)
    b[80, 5] = np.inf
    rows = [
        np.isnan(luminal.compile("(composite f ((A{f32}[N N] B{f32}[N M]) -> (C)) (return (matmul (tril A) B)))", strict=strict)(a, b)[:, 5]).sum()
        for strict in (True, False)
    ]
    assert rows[0] == 80 and rows[1] < 16
