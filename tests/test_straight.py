"""Axes of a contraction that are one: rows, what is reduced, columns with batches before them; and reductions over axes that are none, in strips."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.contraction_order import kept_names
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read
from luminal.passes.schedule import cost, schedule
from luminal.passes.schedule.products import contractions, strips
from scheduling import same_at
from test_strips import WIDE

HEAD = """kernels several v1
size A
size B
size C
size D
size E
"""
BODY = """kernel several_0(P, X, Y):
  for i in 0 .. A parallel:
    for j in 0 .. B parallel:
      for k in 0 .. E parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for p in 0 .. C reduce:
          for q in 0 .. D reduce:
            acc[] add= mul(P[i, j, p, q], X[p, q, k])
        Y[i, j, k] = acc[]
"""
SEVERAL = f"{HEAD}in P: f32[A, B, C, D]\nin X: f32[C, D, E]\nout Y: f32[A, B, E]\n{BODY}"
PIXELS = f"""{HEAD}in P: f32[A, C]
in X: f32[C, B, E]
out Y: f32[A, B, E]
kernel pixels_0(P, X, Y):
  for i in 0 .. A parallel:
    for j in 0 .. B parallel:
      for k in 0 .. E parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for p in 0 .. C reduce:
          acc[] add= mul(P[i, p], X[p, j, k])
        Y[i, j, k] = acc[]
"""
POOLED = f"""{HEAD}in P: f32[C, A, D]
in X: f32[C, E, D]
out Y: f32[A, E]
kernel pooled_0(P, X, Y):
  for i in 0 .. A parallel:
    for k in 0 .. E parallel:
      alloc acc: f32[] register
      acc[] = 0.0:f32
      for p in 0 .. C reduce:
        for q in 0 .. D reduce:
          acc[] add= mul(P[p, i, q], X[p, k, q])
      Y[i, k] = acc[]
"""
TEXTS = {
    "several": SEVERAL,
    "pixels": PIXELS,
    "pooled": POOLED,
    "rows apart": SEVERAL.replace("Y: f32[A, B, E]", "Y: f32[B, A, E]").replace("Y[i, j, k]", "Y[j, i, k]"),
    "depths apart": SEVERAL.replace("X: f32[C, D, E]", "X: f32[D, C, E]").replace("X[p, q, k]", "X[q, p, k]"),
    "an edge": SEVERAL.replace("P[i, j, p, q]", "where(j < 3, P[i, j, p, q], 0.0:f32)"),
}
JOINED = {
    "several": {("i", "j"), ("p", "q")},
    "pixels": {("j", "k")},
    "pooled": set[tuple[str, str]](),
    "rows apart": {("p", "q")},
    "depths apart": {("i", "j")},
    "an edge": {("p", "q")},
}


def alike(before: Module, *tried: tuple[int, ...]) -> None:
    """At each of the sizes A to E; it is scheduled once."""
    after = schedule(before, WIDE, Options())
    for sizes in tried:
        assert same_at(before, after, dict(zip("ABCDE", sizes, strict=True)), np.random.default_rng(0)) == 0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_ROWS", 4)
    monkeypatch.setattr(strips, "STRIP_DEPTH", 1)
    monkeypatch.setattr(strips, "STRIP_WORK", 1)


@pytest.mark.parametrize("name", TEXTS)
def test_axes_that_are_one(name: str) -> None:
    """Joined where all that is read and stored lies along both as along one, and no condition asks for a piece."""
    module = read(TEXTS[name])
    assert isinstance(module, Module)
    notes = schedule(module, WIDE, Options()).kernels[0].notes
    assert {tuple(note.split("`")[1::2]) for note in notes if "are one axis" in note} == JOINED[name]


@pytest.mark.parametrize("name", TEXTS)
def test_meaning(name: str) -> None:
    before = read(TEXTS[name])
    assert isinstance(before, Module)
    alike(before, (3, 5, 2, 7, 18), (2, 4, 3, 1, 16), (1, 9, 0, 3, 21), (5, 1, 4, 0, 17), (16, 2, 3, 5, 33))


def test_outer_axes_of_a_reduction_are_pieces() -> None:
    """The output holds the sums so far; a thread goes through all pieces by itself."""
    module = read(POOLED)
    assert isinstance(module, Module)
    kernel = schedule(module, WIDE, Options()).kernels[0]
    assert "1 <= C" in kernel.schedule[0] and kernel.schedule[1:3] == ("decide", "accumulate p into=Y outside=i")
    assert "reorder i.0.0 p" in kernel.schedule and kernel.schedule.index("parallel i.0.0") > kernel.schedule.index("reorder i.0.0 p")


def test_names_of_a_product_that_is_contracted_later() -> None:
    """What is summed later lies behind what is kept, unless it is the last axis of the result that a second matrix has behind it."""
    assert kept_names("ij", "kj", ["lj"], "ikl") == [*"ikj"]
    assert kept_names("ab", "bc", ["cd"], "ad") == [*"ac"]
    assert kept_names("bc", "cd", ["ab"], "ad") == [*"bd"]
    assert kept_names("ni", "ij", ["nj"], "n") == [*"nj"]
    assert kept_names("ijk", "kr", ["jr"], "ir") == [*"ijr"]


def test_panels_hold_one_position_of_the_outer_axes() -> None:
    """Where there is too much for strips, or too few rows; a variant of its own, in which what is asked for ahead has the names of its panels."""
    module = read(POOLED)
    assert isinstance(module, Module)
    kernel = schedule(module, replace(WIDE, vector_bytes=64, l1=48 << 10, l2=2 << 20, l3=cost.FAR), Options()).kernels[0]
    (condition,) = (line for line in kernel.schedule if line.startswith(f"variant {cost.PIECE_DEPTH} <= D"))
    steps = kernel.schedule[kernel.schedule.index(condition) + 1 :]
    assert steps[:4] == ("decide", "split q 1024", "collapse p q.0", "accumulate p_q.0 into=Y outside=i")
    assert "prefetch_panel X.packed q.1 i.0.1 k.0" in steps[: steps.index("variant")]


def test_meaning_of_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_ROWS", 1 << 20)
    monkeypatch.setattr(contractions, "STRIP_WORK", 1)
    monkeypatch.setattr(contractions, "PIECE_DEPTH", 2)
    before = read(POOLED)
    assert isinstance(before, Module)
    alike(before, (5, 1, 2, 130, 18), (29, 1, 3, 7, 33), (15, 1, 1, 256, 8))
