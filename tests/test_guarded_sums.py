"""Sums of products under a choice, as loops write them that pass over what is masked (`passes/cascades/masked_factors.py`): multiplied without the choice, and what it leaves out does not show, whatever it is."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import after, before, nests
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, statements
from luminal.ir.target import Options
from luminal.passes.schedule import schedule
from scheduling import CPU, GPU, module, same

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
# a condition of i, j and the score s; what numpy says of it; sizes N, D, E beside and on those of tiles
MASKS = {
    "every other one": ("(= (mod (+ i j) 2) 0)", lambda i, j, s, A: (i + j) % 2 == 0, (131, 4, 5)),
    "what came before": ("(<= j i)", lambda i, j, s, A: j <= i, (150, 8, 80)),
    "a window": ("(and (<= (- i 9) j) (<= j i))", lambda i, j, s, A: (i - 9 <= j) & (j <= i), (270, 4, 33)),
    "what belongs together": ("(and (= (aref A i) (aref A j)) (<= j i))", lambda i, j, s, A: (A[i] == A[j]) & (j <= i), (128, 3, 32)),
    "scores above a threshold": ("(> s 0.1)", lambda i, j, s, A: s > 0.1, (131, 4, 17)),
    "one after the other": ("(and (<= j i) (<= (aref A j) (aref A i)))", lambda i, j, s, A: (j <= i) & (A[j] <= A[i]), (140, 4, 16)),
    "nothing of some rows": ("(< (+ i 2) j)", lambda i, j, s, A: i + 2 < j, (33, 5, 7)),
}  # fmt: skip


def sizes_of(name: str) -> dict[str, int]:
    return dict(zip("HNDE", (2, *MASKS[name][2]), strict=True))


def drawn(n: int, d: int, e: int, dtype: type = np.float32) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(SEED)
    return (*(rng.standard_normal((2, n, x)).astype(dtype) for x in (d, d, e)), np.sort(rng.integers(0, 4, n)).astype(np.int32))


def composite(condition: str, dtype: str = "f32") -> str:
    score = "(let ((s 0.0)) (dotimes (k D) (incf s (* (aref Q h i k) (aref K h j k))))"
    return f"""(composite guarded ((Q{{{dtype}}}[H N D] K{{{dtype}}}[H N D] V{{{dtype}}}[H N E] A{{i32}}[N]) -> (O{{{dtype}}}[H N E]))
  (dotimes (h H)
    (dotimes (i N)
      (let ((top -inf) (total 0.0))
        (dotimes (j N) {score} (if {condition} (set top (max top s)))))
        (dotimes (j N) {score}
          (if {condition}
            (progn
              (set w (exp (- s top)))
              (incf total w)
              (dotimes (e E) (incf (aref O h i e) (* w (aref V h j e))))))))
        (dotimes (e E) (setf (aref O h i e) (/ (aref O h i e) total)))))))"""


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, a: np.ndarray, mask) -> np.ndarray:
    scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float64)
    i, j = np.indices(scores.shape[1:])
    result = np.full((*scores.shape[:2], v.shape[2]), np.nan)
    for h, row in np.ndindex(scores.shape[:2]):
        kept = np.broadcast_to(mask(i, j, scores[h], a), scores.shape[1:])[row]
        if kept.any():
            weights = np.exp(scores[h, row, kept] - scores[h, row, kept].max())
            result[h, row] = weights @ v[h, kept].astype(np.float64) / weights.sum()
    return result


@needs_cc
@pytest.mark.parametrize("name", MASKS)
def test_nothing_leaks(name: str) -> None:
    condition, mask, (n, d, e) = MASKS[name]
    f = luminal.compile(composite(condition), runtime="clang", sizes=sizes_of(name))
    q, k, v, a = drawn(n, d, e)
    for bad in (0.0, np.inf, -np.inf, np.nan):
        v[:, n - 3] = v[:, n // 2, 1] = v[:, 7, : e // 2] = bad
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(q, k, v, a), expected(q, k, v, a, mask), rtol=3e-4, atol=3e-5, err_msg=f"{name}, {bad}")


@needs_cc
def test_sizes_and_doubles() -> None:
    """One function for all sizes, few rows and many."""
    condition, mask, _ = MASKS["every other one"]
    f = luminal.compile(composite(condition, "f64"), runtime="clang")
    for n, d, e in ((70, 4, 20), (9, 3, 3), (261, 1, 1)):
        q, k, v, a = drawn(n, d, e, np.float64)
        v[:, 5], v[:, n // 2, e // 2] = np.inf, np.nan
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(q, k, v, a), expected(q, k, v, a, mask), rtol=1e-9, err_msg=f"{n}, {d}, {e}")


@needs_cc
def test_neighbours_keep_their_bits() -> None:
    """What is taken again is so for the sums alone that are not finite."""
    name = "every other one"
    f = luminal.compile(composite(MASKS[name][0]), runtime="clang", sizes=sizes_of(name))
    q, k, v, a = drawn(*MASKS[name][2])
    before = f(q, k, v, a).copy()
    v[0, 20, 3] = np.inf
    after = f(q, k, v, a)
    assert np.array_equal(np.delete(before, 3, 2), np.delete(after, 3, 2))
    assert np.isinf(after[0, ::2, 3]).all() and np.isfinite(after[0, 1::2, 3]).all()


@pytest.mark.parametrize("name", MASKS)
def test_is_multiplied_without_the_choice(name: str) -> None:
    """One kernel, that asks once for each tile whether its sums are finite."""
    (compilation,) = compilations(composite(MASKS[name][0]), Settings(runtime="clang", target="x86-64-v3", sizes=sizes_of(name)))
    (kernel,) = compilation.module.kernels
    assert any(line.startswith("once ") for line in kernel.schedule) == (MASKS[name][2][0] > 128)  # one tile is no loop, and no register tile


@pytest.mark.parametrize("name", ["what came before", "a window", "what belongs together", "one after the other"])
def test_tiles_of_nothing_are_left_out(name: str) -> None:
    made = nests(after(before(composite(MASKS[name][0]).removeprefix("(composite guarded ").removesuffix(")"))))
    assert any(isinstance(s, Loop) and s.kind == "elastic" for k in made.kernels for s in statements(k.body))


def test_a_sum_that_is_taken_again_is_scheduled_as_any_other() -> None:
    before = module("taken_again")
    for target in (CPU, GPU):
        same(before, schedule(before, target, Options()))
