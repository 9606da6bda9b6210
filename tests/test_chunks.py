"""Rows that share a matrix which is read once: in chunks, in which each register tile asks for as much of the next one."""

from __future__ import annotations

from itertools import pairwise

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import f32
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import ZERO, const, load, size, var
from luminal.ir.kernel import If, Kernel, Loop, Prefetch, Stmt, Store, statements
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.cascade import cascade
from luminal.passes.make_nests import make_nests
from luminal.passes.schedule import schedule
from luminal.passes.schedule.steps import hint_lines
from luminal.passes.simplify import simplify
from running import TARGET, composite

pytestmark = pytest.mark.usefixtures("plain_c")
WIDE = replace(TARGET, vector_bytes=64, vector_registers=32, l1=48 << 10, l2=2 << 20, l3=105 << 20)
GROUPED = """(composite grouped ((Q{f32}[G A D] K{f32}[G M D] V{f32}[G M E]) -> (O{f32}[G A E]))
  (setf s (einsum "gad,gjd->gaj" Q K))
  (return (einsum "gaj,gje->gae" (softmax s :axis -1) V)))"""


def planned(text: str, target: Target = WIDE) -> Kernel:
    options = Options()
    graph = cascade(simplify(composite(text), target, options), target, options)
    return schedule(make_nests(graph, target, options), target, options).kernels[0]


def test_eight_rows_go_by_a_chunk_before_the_next_is_read() -> None:
    """The loop over chunks stands around the two register tiles, which are written out for four rows each; fewer rows, one tile of them, go through all of a tile of the cascade."""
    steps = planned(GROUPED.replace(" A ", " 8 ").replace(" E]", " 64]")).schedule
    assert any(line.startswith("accumulate ") and " into=acc" in line for line in steps), steps
    assert any(line.startswith("prefetch_chunk V ") for line in steps)
    for few in (4, 7):
        assert not any(line.startswith("prefetch_chunk") for line in planned(GROUPED.replace(" A ", f" {few} ").replace(" E]", " 64]")).schedule)


def test_what_the_last_cache_does_not_hold_is_asked_for_further_ahead() -> None:
    """How much that is, is a matter of the machine: a quarter of its last cache, for there are two such buffers, and others on the machine."""
    for l3 in (8 << 20, 32 << 20):
        steps = planned(GROUPED.replace(" A ", " 8 "), replace(WIDE, l3=l3)).schedule
        far = [line for line in steps if "cache=2" in line]
        assert any(line.startswith("prefetch K ") for line in far) and any(line.startswith("prefetch_chunk V ") for line in far)
        assert all(f"least={l3 // 4}" in line for line in far)


@pytest.mark.parametrize(("l1", "columns", "rows"), [(48 << 10, 128, 32), (32 << 10, 128, 16), (32 << 10, 64, 32), (32 << 10, 0, 32)])
def test_two_chunks_are_in_the_first_cache(l1: int, columns: int, rows: int) -> None:
    """The one that is read and the next, beside what they are weighted with."""
    text = GROUPED.replace(" A ", " 8 ").replace(" E]", f" {columns}]" if columns else " E]")
    steps = planned(text, replace(WIDE, l1=l1)).schedule
    deep = next(line for line in steps if line.startswith("prefetch_chunk V ")).split()[-1].split(".")[0]
    assert f"split {deep} {rows}" in steps


def test_strips_of_columns_go_by_a_chunk_before_the_next_is_read() -> None:
    """One tile of rows and two strips: the loop over chunks stands around both, and each asks for its part of the next chunk."""
    kernel = planned(GROUPED.replace(" A ", " 4 ").replace(" E]", " 128]"))
    chunk, _, deep = next(line for line in kernel.schedule if line.startswith("prefetch_chunk V ")).split()[:1:-1]
    around = next(s for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == chunk)
    strips = next(s for s in statements(around.body) if isinstance(s, Loop) and s.stop is const(2))
    loop = next(s for s in statements(strips.body) if isinstance(s, Loop) and s.axis == deep)
    hints = [s for s in statements(loop.body) if isinstance(s, Prefetch) and s.cache == 1]
    asked = [
        128 * evaluate(h.index[1], at | dict.fromkeys(h.index[1].names - at.keys(), 0)) + evaluate(h.index[2], at) + evaluate(h.ahead, at)
        for o in (0, 1)
        for p in range(32)
        for at in ({chunk: 1, strips.axis: o, deep: p},)
        for h in hints
    ]
    assert sorted(asked) == list(range(128 * 32 * 2, 128 * 32 * 3, 16))


def test_the_tiles_ask_for_each_line_of_the_next_chunk_once() -> None:
    kernel = planned(GROUPED.replace(" A ", " 8 ").replace(" E]", " 64]"))
    chunk, tile, deep = next(line for line in kernel.schedule if line.startswith("prefetch_chunk V ")).split()[:1:-1]
    loop = next(s for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == deep)
    hints = [s for s in statements(loop.body) if isinstance(s, Prefetch) and s.cache == 1]
    rows = 32
    asked = [
        64 * (evaluate(h.index[1], at | dict.fromkeys(h.index[1].names - at.keys(), 0)))
        + evaluate(h.ahead, at | dict.fromkeys(h.ahead.names - at.keys(), 0))
        for t in (0, 1)
        for p in range(rows)
        for at in ({chunk: 1, tile: t, deep: p},)
        for h in hints
    ]
    assert sorted(asked) == list(range(64 * rows * 2, 64 * rows * 3, 16))


@pytest.mark.parametrize("tiles", [1, 2])
def test_one_body_is_for_any_number_of_tiles(tiles: int) -> None:
    """Whether a block has one register tile of rows or two is known when it runs: both ask for all lines of the next chunk, and for none behind it."""
    kernel = planned(GROUPED.replace(" E]", " 64]"))
    near = [line for line in kernel.schedule if line.startswith("prefetch_chunk V ") and "cache" not in line]
    assert len(near) == 1
    chunk, tile, deep = near[0].split()[:1:-1]
    around = next(s for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == tile)
    loop = next(s for s in statements(around.body) if isinstance(s, Loop) and s.axis == deep)
    hints = [s for s in statements(loop.body) if isinstance(s, Prefetch) and s.cache == 1]
    rows = 32
    asked = {
        64 * evaluate(h.index[1], at | dict.fromkeys(h.index[1].names - at.keys(), 0))
        + evaluate(h.ahead, at | dict.fromkeys(h.ahead.names - at.keys(), 0))
        for t in range(tiles)
        for p in range(rows)
        for at in ({chunk: 1, tile: t, deep: p, "A": 4 * tiles},)
        for h in hints
    }
    assert {n for n in asked if n < 64 * rows * 3} == set(range(64 * rows * 2, 64 * rows * 3, 16))
    assert max(asked) <= 64 * rows * 3 + 64


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize(("depth", "in_order"), [(64, True), (128, True), (100, False)])
def test_neighbours_ask_for_lines_in_the_order_of_addresses(rows: int, depth: int, in_order: bool) -> None:
    """Rows that lie one behind the other are one stream of lines; where each has a part that is read apart, some lines of them, in order as well, or row by row."""
    kernel = planned(GROUPED.replace(" A ", f" {rows} ").replace(" D]", f" {depth}]")).body
    found: list[tuple[Loop, Loop]] = []
    for x in statements(kernel):
        if isinstance(x, Loop) and x.kind == "reduce":
            found += [
                (x, hint)
                for hint in x.body
                if isinstance(hint, Loop) and any(isinstance(s, Prefetch) and s.buffer == "K" for s in statements((hint,)))
            ]
    assert found
    for deep, hint in found:
        assert deep.stop.is_const
        asked = [at for w in range(deep.stop.attr) for at in _asked(hint, {deep.axis: w}, depth)]
        times = sum(isinstance(s, Prefetch) for s in statements((hint,)))
        neighbours = len(asked) // deep.stop.attr // times
        assert times == 1 or all(far > near for far, near in pairwise(asked[:times]))
        for turn in (asked[n::times] for n in range(times)):
            if in_order:
                assert turn == [turn[0] + 16 * k for k in range(neighbours * depth // 16)]
            else:
                assert len(set(turn)) == len(turn) == neighbours * (depth // 16) and max(turn) < turn[0] + neighbours * depth


def _asked(hint: Stmt, at: dict[str, int], depth: int) -> list[int]:
    """The positions that such hints ask for, counted from where they like."""
    if isinstance(hint, Prefetch):
        row, column = (evaluate(e, at | dict.fromkeys(e.names - at.keys(), 1)) for e in hint.index[-2:])
        large = dict.fromkeys(hint.ahead.names - at.keys(), 1 << 16)  # a buffer that comes from memory
        return [row * depth + column + evaluate(hint.ahead, at | large)]
    assert isinstance(hint, Loop)
    return [n for k in range(hint.stop.attr) for s in hint.body for n in _asked(s, at | {hint.axis: k}, depth)]


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v4", "x86-64-v3"])
def test_the_results_of_rows_around_a_block(target: str) -> None:
    """Rows, positions and columns around blocks, chunks and strips; and a NaN stays in its row."""
    kernel = luminal.compile(GROUPED, target=target)
    rng = np.random.default_rng(3)
    for g, a, m, d, e in (
        (2, 8, 300, 16, 64),
        (1, 8, 33, 5, 130),
        (2, 13, 65, 8, 48),
        (1, 8, 1, 4, 17),
        (1, 12, 520, 24, 80),
        (2, 4, 300, 16, 128),
        (1, 7, 70, 5, 130),
    ):
        q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((g, a, d), (g, m, d), (g, m, e)))
        q[0, 2, 0] = np.nan
        s = np.einsum("gad,gjd->gaj", q.astype(np.float64), k)
        p = np.exp(s - s.max(-1, keepdims=True))
        expected = np.einsum("gaj,gje->gae", p / p.sum(-1, keepdims=True), v)
        found = np.asarray(kernel(q, k, v))
        assert np.isnan(found[0, 2]).all() and np.isnan(expected[0, 2]).all()
        found[0, 2] = expected[0, 2] = 0
        assert np.abs(found - expected).max() < 1e-4, (g, a, m, d, e)


def test_large_operands_are_asked_for_further_ahead_too() -> None:
    """Into the second cache, where they have so many bytes: asked among the vectors of a register tile, and by short loops of their own, beside which those for small operands ask no question."""
    asked = {True: 0, False: 0}  # by whether a loop stands twice
    for rows in (1, 8):
        kernel = planned(GROUPED.replace(" A ", f" {rows} ").replace(" D", " 128").replace(" E]", " 128]"))
        for buffer in "KV":
            far = [line for line in kernel.schedule if line.startswith("prefetch") and line.split()[1] == buffer and "cache=2" in line]
            assert far and all("least=" in line for line in far), kernel.schedule

        def hints(block: tuple[Stmt, ...], cache: int) -> int:
            return sum(isinstance(s, Prefetch) and s.cache == cache for s in statements(block))

        choices = [s for s in statements(kernel.body) if isinstance(s, If) and hints(s.body, 2) and not s.condition.kinds]
        for s in choices:
            twice = bool(s.orelse)
            asked[twice] += 1
            if twice:
                times = {1: 3, 8: 1}[rows]
                assert times * hints(s.body, 1) == hints(s.body, 2) == times * hints(s.orelse, 1) and not hints(s.orelse, 2)
            else:
                assert all(isinstance(t, (Prefetch, Loop, If)) for t in statements(s.body)) and not hints(s.body, 1)
    assert asked[True] and asked[False]
    fixed = planned(GROUPED.replace("G ", "1 ").replace(" A ", " 8 ").replace(" M ", " 2048 ").replace(" D", " 64").replace(" E]", " 64]"))
    assert not any("cache=2" in line for line in fixed.schedule)


def test_a_condition_stands_among_many_vectors_and_beside_few() -> None:
    """The loop whose iterations store few vectors stands twice instead."""
    for rows in (1, hint_lines.ASKED_AMONG):
        tile = Loop(
            "r", ZERO, const(rows), (Loop("k", ZERO, const(8), (Store("Y", (var("k"),), load("X", f32, var("k")), "add"),), "vector"),), "unroll"
        )
        whole = Kernel("f", ("X", "Y"), (Loop("p", ZERO, size("N"), (tile,), "serial"),))
        (after,) = hint_lines.asking(whole, "p", (Prefetch("X", (ZERO,), var("p")),), size("N").le(9)).body
        few = rows == 1
        assert isinstance(after, If if few else Loop)
        assert sum(isinstance(s, Loop) and s.axis.startswith("p") for s in statements((after,))) == (2 if few else 1)


def test_no_tile_is_made_of_rows_that_are_fewer() -> None:
    """What tiles of eight and of four rows leave is three rows at most: a tile of two, and one row alone."""
    (above,) = {
        line.split()[1]
        for line in planned(GROUPED).schedule
        if line.startswith("split ") and line.split()[2:] == ["8", "tail=cut"] and ".1.b" in line
    }
    cut = [line.split()[1:3] for line in planned(GROUPED).schedule if line.startswith(f"split {above}") and line.endswith("tail=cut")]
    assert [n for axis, n in cut if axis.removeprefix(above).strip(".t") == ""] == ["8", "4", "2"]
