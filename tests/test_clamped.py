"""Positions that are clamped before they become integers: nothing is asked about them where a float holds the last one, and loops over them are vectors."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.kernel import Check, If, Kernel, statements

SEED = 19
LINE = """(composite line ((X{{u8}}[N](where N > 0) F{{f32}}[M]) -> (Y{{u8}}[M]))
  (dotimes (i M) (setf (aref Y i) (aref X (cast i64 {position})))))"""
CLAMPED = {
    "the least last": "(max 0 (min (- N 1) (aref F i)))",
    "the most last": "(min (- N 1) (max 0 (aref F i)))",
    "rounded down": "(floor (max 0 (min (- N 1) (+ 1 (floor (aref F i))))))",
    "half as far": "(min 3 (max 0 (min (- N 1) (aref F i))))",
}
NOT = {
    "not below": "(min (- N 1) (aref F i))",
    "not above": "(max 0 (aref F i))",
    "one too far": "(max 0 (min N (aref F i)))",
    "added to": "(+ 1 (max 0 (min (- N 1) (aref F i))))",
}
WARP = """(composite warp ((X{f32}[C H W](where H > 0, W > 0) F{f32}[2 H W]) -> (Y{f32}[C H W]))
  (dotimes (c C) (dotimes (y H) (dotimes (x W)
    (let ((fx (+ x (aref F 0 y x))) (fy (+ y (aref F 1 y x))))
      (let ((i (cast i64 (max 0 (min (- W 1) (floor fx))))) (j (cast i64 (max 0 (min (- H 1) (floor fy))))))
        (setf (aref Y c y x) (aref X c j i))))))))"""


def compilation_of(text: str) -> Compilation:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return found


def asking(k: Kernel) -> list[Check]:
    """The checks of a kernel that are not behind a condition on sizes."""
    behind = {id(t) for s in k.body if isinstance(s, If) for t in statements((s,))}
    bad = {id(s) for s in statements(k.body) if isinstance(s, Check) and any(name == "bad" for name in s.condition.buffers)}
    return [s for s in statements(k.body) if isinstance(s, Check) and id(s) not in behind | bad]


@pytest.mark.parametrize("name", CLAMPED)
def test_nothing_is_asked(name: str) -> None:
    kernels = compilation_of(LINE.format(position=CLAMPED[name])).module.kernels
    assert not any(map(asking, kernels))
    assert any(line.startswith("vectorize") for line in kernels[-1].schedule)


@pytest.mark.parametrize("name", NOT)
def test_what_is_asked(name: str) -> None:
    assert any(map(asking, compilation_of(LINE.format(position=NOT[name])).module.kernels))


def test_one_loop_asks_about_enormous_sizes() -> None:
    """About both axes, in one kernel, behind one condition."""
    kernels = compilation_of(WARP).module.kernels
    looking = [k for k in kernels if "positions" in k.name or any(isinstance(s, Check) for s in k.body)]
    assert len(looking) == 1 and not any(map(asking, kernels))


@needs_cc
def test_values() -> None:
    f, rng = luminal.compile(WARP, runtime="clang"), np.random.default_rng(SEED)
    for c, h, w in ((1, 1, 1), (0, 3, 4), (3, 5, 17), (2, 9, 64)):
        x, flow = rng.standard_normal((c, h, w)).astype(np.float32), 4 * rng.standard_normal((2, h, w)).astype(np.float32)
        for wrong in (np.inf, -np.inf, np.nan):
            flow[rng.random(flow.shape) < 0.1] = wrong
        places = flow + np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")[::-1]).astype(np.float32)
        i, j = (np.nan_to_num(np.clip(np.floor(places[k]), 0, n - 1)).astype(int) for k, n in ((0, w), (1, h)))
        np.testing.assert_array_equal(f(x, flow), x[:, j, i])


@needs_cc
def test_the_last_of_an_enormous_axis_may_be_outside() -> None:
    """A float of 24 bits does not hold 2²⁴ + 3, and 2²⁴ + 4 is no position."""
    n = (1 << 24) + 4
    f = luminal.compile(LINE.format(position=CLAMPED["the least last"]), runtime="clang")
    x, inside = np.arange(n).astype(np.uint8), np.array([0, 5, 1 << 24, np.nan], np.float32)
    np.testing.assert_array_equal(f(x, inside), x[np.nan_to_num(inside).astype(int)])
    with pytest.raises(ValueError, match="index out of range"):
        f(x, np.array([1, np.inf], np.float32))
    np.testing.assert_array_equal(f(x[:-4], np.array([1, np.inf], np.float32)), [1, x[-5]])
