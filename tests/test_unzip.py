"""Every other one of consecutive elements is taken out of two vectors: the same elements as lane by lane, nothing read beyond the last, through the interpreter and as C."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.interpret import kernel, program
from luminal.ir.interpret.program import unzip
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.passes.hoist import hoist
from luminal.passes.lower import lower
from luminal.passes.simplify_index import simplify_index

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
TARGET = Target("clang", "test", "test", vector_bytes=32)
TEXT = """kernels pairs v1
size N
in X: i32[STEP * N + ROOM]
out Y: i32[N]
kernel pairs_0(X, Y):
  schedule "split i 8 TAIL"
  for i.0 in 0 .. OUTER:
    for i.1 in 0 .. 8 vector:
      BODY
"""
WHOLE = "Y[i.0 * 8 + i.1] = X[(i.0 * 8 + i.1) * STEP] * 3:i32"
PADDED = f"if i.0 * 8 + i.1 < N:\n        {WHOLE}"


def module(step: int, room: int, padded: bool) -> Module:
    parts = {"STEP": str(step), "ROOM": str(room), "TAIL": "tail=pad" if padded else "tail=cut", "OUTER": "(N + 7) // 8" if padded else "N // 8"}
    text = TEXT.replace("BODY", PADDED if padded else WHOLE)
    for name, value in parts.items():
        text = text.replace(name, value)
    found = read(text)
    assert isinstance(found, Module)
    return found


@pytest.mark.parametrize("padded", [False, True], ids=["whole vectors", "first lanes"])
@pytest.mark.parametrize("room", [-1, 0])  # less one: the last element that is read is the last there is
def test_two_loads_and_no_gather(padded: bool, room: int) -> None:
    before = module(2, max(room, 0), padded)
    if room < 0:
        before = read(show(before).replace("i32[2 * N]", "i32[max(2 * N - 1, 0)]").replace("i32[N * 2]", "i32[max(N * 2 - 1, 0)]"))
        assert isinstance(before, Module)
    lowered = lower(before, TARGET, Options())
    after = hoist(simplify_index(lowered, TARGET, Options()), TARGET, Options())
    assert "unzip(" in show(after) and "gather" not in show(after), show(after)
    assert read(show(after)) == after
    rng = np.random.default_rng(SEED)
    for n in (0, 1, 4, 7, 8, 9, 13, 16, 23, 24):
        x = rng.integers(-99, 99, max(2 * n + room, 0)).astype(np.int32)
        wanted, found = ({"X": x.copy(), "Y": np.full(n, 7, np.int32)} for _ in range(2))
        assert kernel.run(before, wanted, {"N": n}, check=True) == program.run(after, found, {"N": n}, check=True) == 0
        np.testing.assert_array_equal(found["Y"], wanted["Y"], f"N = {n}")


def test_other_steps_are_gathered() -> None:
    assert "gather" in show(lower(module(3, 0, False), TARGET, Options()))


def test_meaning() -> None:
    x = np.arange(15)
    np.testing.assert_array_equal(unzip(x[:8], x[7:]), x[::2])


@needs_cc
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_compiled(dtype: str) -> None:
    """Small whole numbers are exact in every type."""
    f = luminal.compile(
        f"(composite every ((X{{{dtype}}}[M N]) -> (Y{{{dtype}}}[M L] S{{{dtype}}}[M])) (setf y (slice X _ (_ _ 2))) (return (* y 2) (max y :axis 1)))",
        runtime="clang",
    )
    rng = np.random.default_rng(SEED)
    kind = {"f32": np.float32, "i8": np.int8}[dtype]
    for m, n in [(1, 1), (3, 31), (2, 32), (5, 33), (3, 64), (2, 127), (1, 130)]:
        x = rng.integers(0, 30, (m, n)).astype(kind)
        y, largest = f(x)
        np.testing.assert_array_equal(y, x[:, ::2] * 2, f"{m} x {n}")
        np.testing.assert_array_equal(largest, x[:, ::2].max(1), f"{m} x {n}")
