"""The plan for many rows that share each tile of a cascade: the order of its loops, what is asked for ahead of time, what is folded side by side, who takes which block."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.kernel import Kernel, Loop, statements
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.passes.cascade import cascade
from luminal.passes.make_nests import make_nests
from luminal.passes.schedule import schedule
from luminal.passes.simplify import simplify
from running import TARGET, composite

pytestmark = pytest.mark.usefixtures("plain_c")
NEAR = replace(TARGET, vector_bytes=64, vector_registers=32, l1=48 << 10, l2=2 << 20, l3=16 << 20)
FAR = replace(NEAR, l3=105 << 20)

WEIGHTS = """(composite attention ((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E]))
  (setf s (einsum "hid,hjd->hij" Q K))
  SCORES
  (return (einsum "hij,hje->hie" (softmax s :axis -1) V)))"""
PLAIN = WEIGHTS.replace("  SCORES\n", "")
CAUSAL = WEIGHTS.replace("SCORES", "(setf s (where (<= (iota M) (unsqueeze (iota N) :axis 1)) s -inf))")
WINDOW = WEIGHTS.replace("SCORES", "(setf back (- (unsqueeze (iota N) :axis 1) (iota M))) (setf s (where (and (<= 0 back) (< back 64)) s -inf))")
BLOCKS = WEIGHTS.replace("SCORES", "(setf s (where (= (floordiv (iota M) 64) (floordiv (unsqueeze (iota N) :axis 1) 64)) s -inf))")
PREFIX = WEIGHTS.replace("SCORES", "(setf s (where (or (<= (iota M) (unsqueeze (iota N) :axis 1)) (< (iota M) 40)) s -inf))")
SINKS = """(composite sinks ((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] Z{f32}[H]) -> (O{f32}[H N E]))
  (setf s (einsum "hid,hjd->hij" Q K))
  (setf z (unsqueeze Z :axis (1 2)))
  (setf m (max (max s :axis -1 :keepdims t) z))
  (setf p (exp (- s m)))
  (return (/ (einsum "hij,hje->hie" p V) (+ (sum p :axis -1 :keepdims t) (exp (- z m))))))"""


def planned(text: str, target: Target = NEAR) -> Kernel:
    """The first kernel as it is scheduled for many rows, of sizes that nobody knows."""
    options = Options()
    graph = cascade(simplify(composite(text), target, options), target, options)
    return schedule(make_nests(graph, target, options), target, options).kernels[0]


def many_rows(text: str, target: Target = NEAR) -> list[str]:
    """The steps of the last variant, which is for whatever the others leave."""
    steps = planned(text, target).schedule
    return list(steps[[k for k, line in enumerate(steps) if line.split()[0] == "variant"][-1] :])


def test_a_panel_of_columns_serves_all_rows_of_a_block_and_the_next_is_asked_for_where_the_last_cache_is_far() -> None:
    near, far = many_rows(PLAIN), many_rows(PLAIN, FAR)
    assert "reorder m.0 j.1.b.0 j.1.b.1 m.1" in near and "reorder o.0 j.1.e.0 j.1.e.1 o.1" in near
    asked = [line for line in far if line.startswith("prefetch_panel")]
    assert asked == ["prefetch_panel K.packed q j.1.b.0 m.0", "prefetch_panel V.packed u j.1.e.0 o.0", "prefetch_panel V.packed.b u.b j.1.i.0 o.t.0"]
    assert [line for line in far if line not in asked] == near


def test_rows_that_begin_inside_a_tile_leave_out_what_lies_before() -> None:
    """Panels of columns are the same for all rows; which of the first tile a block of rows begins with is a matter of its rows."""
    steps = many_rows(WINDOW)
    assert "split m 32 tail=pad aligned=1" in steps and "stage K i p m.0 q m.1.b space=shared" in steps
    assert not any("aligned" in line for line in many_rows(CAUSAL))
    inside = [s for s in statements(planned(WINDOW).body) if isinstance(s, Loop) and s.axis in ("m.0", "u")]
    assert all("p" in s.start.names for s in inside) and {s.axis for s in inside} == {"m.0", "u"}


@pytest.mark.parametrize(
    ("size", "tiles"),
    [
        ("80", ["split o 32 tail=cut", "split o.t 16 tail=pad"]),
        ("72", ["split o 32 tail=cut", "split o.t 16 tail=pad"]),
        ("96", ["split o 32 tail=pad"]),
        ("12", ["split o 16 tail=pad"]),
    ],
    ids=["five vectors", "four and a half", "six", "less than one"],
)
def test_columns_that_whole_register_tiles_leave_over_have_a_narrower_one(size: str, tiles: list[str]) -> None:
    steps = many_rows(PLAIN.replace("V{f32}[H M E]", f"V{{f32}}[H M {size}]").replace("O{f32}[H N E]", f"O{{f32}}[H N {size}]"))
    assert [line for line in steps if line.split()[0] == "split" and line.split()[1] in ("o", "o.t")] == tiles


def test_columns_of_converted_numbers_are_whole_tiles() -> None:
    """Instructions on tiles multiply them, 32 at a time."""
    kernel = planned(PLAIN.replace("f32", "bf16"))
    assert not any("leave over" in note for note in kernel.notes) and any("leave over" in note for note in planned(PLAIN).notes)


@pytest.mark.parametrize(("text", "queue"), [(PLAIN, False), (WINDOW, False), (CAUSAL, True)], ids=["all", "a window", "causal"])
def test_blocks_are_a_queue_where_rows_go_through_different_numbers_of_tiles(text: str, queue: bool) -> None:
    assert many_rows(text)[-1] == ("region queue=i_j.0" if queue else "region")


def test_nothing_is_known_of_a_tile_from_where_one_row_begins() -> None:
    """A row goes through one tile at most, from which it has no more than 128 positions; the other rows of its block may begin in another."""
    steps = many_rows(BLOCKS)
    assert any(line.startswith("stage K") and line.endswith("space=shared") for line in steps), steps
    assert steps[-1] == "region"


def test_what_a_row_keeps_of_a_tile_is_folded_for_the_rows_of_a_register_tile_side_by_side() -> None:
    """As many as a vector has lanes, or a part of them that is more than half: 14 rows in 16 lanes, 6 rows in 4 lanes (f64) as twice 3."""
    kernel = planned(PLAIN)
    assert {"`r` for 14 of `j.1.d` side by side, folded together", "`s` for 14 of `j.1.h` side by side, folded together"} <= set(kernel.notes)
    narrow = planned(PLAIN.replace("f32", "f64"), replace(TARGET, vector_bytes=32, vector_registers=16))
    assert {"`r` for 3 of `j.1.d` side by side, folded together", "`s` for 3 of `j.1.h` side by side, folded together"} <= set(narrow.notes)


def test_one_value_a_row_that_takes_a_function_is_computed_by_vectors() -> None:
    notes = planned(PLAIN).notes
    assert any("one value a row, computed for all rows of a block by vectors" in note for note in notes), notes


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("text", [PLAIN, CAUSAL, WINDOW, BLOCKS, PREFIX, SINKS], ids=["plain", "causal", "window", "blocks", "prefix", "sinks"])
def test_the_results_of_blocks_that_are_not_full(text: str, target: str) -> None:
    """Rows and positions around register tiles, blocks and tiles of a cascade; and a NaN stays in its row."""
    kernel = luminal.compile(text, target=target)
    rng = np.random.default_rng(5)
    for h, n, m, d, e in (
        (2, 17, 40, 8, 33),
        (1, 28, 128, 16, 16),
        (1, 29, 129, 5, 20),
        (2, 61, 300, 64, 64),
        (1, 42, 15, 3, 1),
        (1, 30, 140, 24, 80),
        (2, 29, 70, 8, 45),
    ):
        q, k, v, z = (rng.standard_normal(s).astype(np.float32) for s in ((h, n, d), (h, m, d), (h, m, e), (h,)))
        q[0, n // 2, 0] = np.nan
        s = np.einsum("hid,hjd->hij", *(x.astype(np.float64) for x in (q, k)))
        back = np.arange(n)[:, None] - np.arange(m)
        if text is CAUSAL:
            s = np.where(back >= 0, s, -np.inf)
        if text is WINDOW:
            s = np.where((back >= 0) & (back < 64), s, -np.inf)
        if text is BLOCKS:
            s = np.where(np.arange(n)[:, None] // 64 == np.arange(m) // 64, s, -np.inf)
        if text is PREFIX:
            s = np.where((back >= 0) | (np.arange(m) < 40), s, -np.inf)
        sink = z.astype(np.float64)[:, None, None] if text is SINKS else np.full((h, 1, 1), -np.inf)
        with np.errstate(invalid="ignore"):
            largest = np.maximum(s.max(-1, keepdims=True), sink)
            p = np.exp(s - largest)
            expected = np.einsum("hij,hje->hie", p, v.astype(np.float64)) / (p.sum(-1, keepdims=True) + np.exp(sink - largest))
        found = np.asarray(kernel(q, k, v, z) if text is SINKS else kernel(q, k, v))
        there = np.isfinite(expected).all(-1)
        assert np.isnan(found[~there]).all(), (h, n, m, d, e)
        assert np.abs(found[there] - expected[there]).max() < 1e-4, (h, n, m, d, e)
