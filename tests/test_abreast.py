"""Iterations that run the same `while`s go side by side in lanes; others stay one by one."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import While, statements
from luminal.ir.text import read
from luminal.passes.schedule.steps.abreast import abreast, varying
from luminal.passes.schedule.tree import Facts, StepError

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 7
POWERS = """(composite powers ((X{f32}[M] K{i64}[]) -> (Y{f32}[M]))
  (dotimes (m M)
    (set sum 1.0)
    (set k K)
    (while (< 0 k)
      (set sum (+ 1.0 (* sum (aref X m))))
      (set k (- k 1)))
    (setf (aref Y m) sum)))"""
HALVED = """(composite halved ((X{f32}[M]) -> (Y{f32}[M] C{i64}[M]))
  (dotimes (m M)
    (set x (abs (aref X m)))
    (set count 0)
    (while (< 1.0 x)
      (set x (* 0.5 x))
      (set count (+ count 1)))
    (setf (aref Y m) x)
    (setf (aref C m) count)))"""
GIVEN = """(composite given ((X{f32}[M] K{i64}[]) -> (Y{f32}[M]))
  (dotimes (m M)
    (set sum 1.0)
    (set k K)
    (let ((x (* 2.0 (aref X m))))
      (while (< 0 k)
        (set sum (+ 1.0 (* sum x)))
        (set k (- k 1)))
      (setf (aref Y m) sum))))"""


def steps(text: str) -> list[str]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v4"))
    return [line for k in found.module.kernels for line in k.schedule]


def series(x: np.ndarray, k: int) -> np.ndarray:
    found = np.ones_like(x)
    for _ in range(k):
        found = np.float32(1) + found * x
    return found


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_the_same_number_of_turns(target: str) -> None:
    assert "abreast m.1" in steps(POWERS)
    f = luminal.compile(POWERS, target=target)
    for m, k in ((0, 3), (1, 4), (31, 0), (64, 5), (150, 7), (70, -1)):
        x = np.random.default_rng(SEED).integers(-2, 3, m).astype(np.float32)
        np.testing.assert_array_equal(f(x, k), series(x, k), err_msg=f"{m}, {k}")


@needs_cc
def test_a_number_of_turns_that_data_decides_stays() -> None:
    assert not any(line.startswith("abreast") for line in steps(HALVED))
    f = luminal.compile(HALVED)
    x = np.random.default_rng(SEED).standard_normal(77).astype(np.float32) * 100
    y, count = f(x)
    np.testing.assert_array_equal(y, np.abs(x) * np.float32(0.5) ** count)
    assert (y <= 1).all() and count.max() > 3


@needs_cc
def test_what_is_given_before_the_turns() -> None:
    f = luminal.compile(GIVEN)
    for m, k in ((5, 2), (100, 6)):
        x = np.random.default_rng(SEED).integers(-2, 3, m).astype(np.float32)
        np.testing.assert_array_equal(f(x, k), series(2 * x, k))


@needs_cc
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("right", [False, True])
def test_a_search_in_lanes(dtype: type, right: bool) -> None:
    name = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32"}[np.dtype(dtype).name]
    text = f"(composite s ((S{{{name}}}[N] V{{{name}}}[M]) -> (I)) (return (searchsorted S V :right {'t' if right else 'nil'})))"
    assert "abreast m.1" in steps(text)
    f = luminal.compile(text)
    for n, m in ((0, 40), (1, 33), (2, 64), (7, 1), (8, 100), (9, 31), (1000, 500), (1024, 65), (37, 0)):
        rng = np.random.default_rng(n)
        s, v = np.sort(rng.integers(-50, 50, n).astype(dtype)), rng.integers(-60, 60, m).astype(dtype)
        if np.dtype(dtype).kind == "f" and n > 3:
            s[-2:], v[::7] = np.nan, np.nan
        np.testing.assert_array_equal(f(s, v), np.searchsorted(s, v, "right" if right else "left"), err_msg=f"{n}, {m}")


KERNEL = """kernels one v1
size M
in X: f32[M]
in K: i64[1]
out Y: f32[M]
kernel one_0(X, K, Y):
  alloc sum: f32[8] register
  for w in 0 .. 8 parallel:
    alloc k: i64[] register
    k[] = K[0]
    sum[w] = 1.0:f32
    while 0 < k[]:
      let x: f32 = X[w]
      sum[w] = sum[w] * x + 1.0:f32
      k[] = k[] - 1
    Y[w] = sum[w]
"""


def test_the_step_keeps_the_meaning() -> None:
    module = read(KERNEL)
    (kernel,) = module.kernels
    (loop,) = kernel.body[1:]
    assert varying(loop) == {"w", "x", "sum", "Y"}
    after = abreast(kernel, Facts.of(module), "w")
    assert sum(isinstance(s, While) for s in statements(after.body)) == 1 and not any(
        isinstance(s, While) for t in after.body if t.blocks() and not isinstance(t, While) for s in statements((t,))
    )
    for k in (0, 1, 5):
        x = np.random.default_rng(SEED).integers(-2, 3, 8).astype(np.float32)
        results = []
        for m in (module, module.with_kernels((after,))):
            arrays = {"X": x, "K": np.array([k]), "Y": np.zeros(8, np.float32)}
            run(m, arrays, {"M": 8})
            results.append(arrays["Y"])
        np.testing.assert_array_equal(*results)
        np.testing.assert_array_equal(results[0], series(x, k))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("while 0 < k[]:", "while sum[w] < 9.0:f32:", "differs"),
        ("    k[] = K[0]\n", "    k[] = K[0]\n    let z: f32 = X[w]\n", "is given before"),
        ("parallel", "serial", "not parallel"),
    ],
)
def test_what_is_refused(old: str, new: str, why: str) -> None:
    text = KERNEL.replace(old, new)
    if "let z" in new:
        text = text.replace("sum[w] * x", "sum[w] * z").replace("      let x: f32 = X[w]\n", "")
    if new == "serial":
        text = text.replace("0 .. 8 serial", "0 .. 8")
    module = read(text)
    with pytest.raises(StepError, match=why):
        abreast(module.kernels[0], Facts.of(module), "w")
