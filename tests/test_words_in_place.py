"""Weights that tiles multiply where they were written: zeros beyond the end, words that are neighbours, small numbers found while writing."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.interpret import kernel as kernels, program as programs
from luminal.ir.program import Multiply, statements
from luminal.ir.text import show
from luminal.passes.schedule import StepError
from small_attention import ATTENTION, offer, small
from test_tiles import lowered, scheduled, whole

# One block of rows: W is written to a multiple of 64, zeros from K on, in each of two turns.
WRITTEN = """kernels written v1
size K
size N
in A: bf16[16, K]
in B: bf16[K, N]
out C: f32[2, 16, N]
kernel written_0(A, B, C):
  for t in 0 .. 2:
    alloc W: bf16[16, 128] private
    for r in 0 .. 16 parallel:
      for n in 0 .. (min(K, 128) + 63) // 64 * 64 parallel:
        W[r, n] = cast.bf16(where(n < K, cast.f32(A[r, min(n, K - 1)]) + cast.f32(t), 0.0:f32))
    for i in 0 .. 16 parallel:
      for j in 0 .. N parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for p in 0 .. min(K, 128) reduce:
          acc[] add= cast.f32(W[i, p]) * cast.f32(B[p, j])
        C[t, i, j] = acc[]
"""
SCRIPT = """dot p dot2_bf16 multiple=16
split i 16 tail=perfect
split j 16 tail=pad
reorder i.0 j.0 i.1 j.1
expand acc i.1 j.1
fission i.1 j.1
reorder p i.1.b j.1.b
stage B j.0 p j.1.b at=t
split p 16 tail=perfect
reorder p.0 i.1.b j.1.b p.1
"""
TILES = "tensorize i.1.b tile_bf16"


def inputs(k: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    a, b = whole(rng, "bf16", (16, k)), whole(rng, "bf16", (k, n))
    wide = a.astype(np.float64)
    return a, b, np.stack([(wide + t) @ b.astype(np.float64) for t in range(2)])


@pytest.mark.parametrize(("k", "screen"), [(1, ""), (41, "screen p.0\n")])
def test_the_meaning_stays(k: int, screen: str) -> None:
    module = scheduled(WRITTEN, SCRIPT + screen + TILES)
    assert "W.packed" not in show(module)
    program = lowered(module)
    (found,) = [s for f in program.functions for s in statements(f.body) if isinstance(s, Multiply)]
    assert (found.left[0], found.neighbours) == ("W", 2)
    assert [e.attr for e in found.left[2:]] == [16, 64], "words, not elements"
    n = 5
    a, b, exact = inputs(k, n)
    c = np.zeros((2, 16, n), np.float32)
    assert kernels.run(module, {"A": a, "B": b, "C": c}, {"K": k, "N": n}, check=True) == 0
    assert (c == exact).all()
    flat = {"A": a.reshape(-1), "B": b.reshape(-1), "C": np.zeros(2 * 16 * n, np.float32)}
    assert programs.run(program, flat, {"K": k, "N": n}, check=True) == 0
    assert (flat["C"].reshape(c.shape) == exact).all()


def test_the_smallest_is_found_in_each_turn() -> None:
    """Lanes start anew in the loop around who writes and who reads, and rows that are written go one after the other."""
    text = show(scheduled(WRITTEN, SCRIPT + "screen p.0"))
    turn, written, read = (text.index(s) for s in ("for t in 0 .. 2:", "W.lanes[n] min=", "if 127:u32 <= W.least[]"))
    assert turn < text.index("W.lanes[c] = 65535:u16") < written < text.index("W.least[] = cast.u32(least[])") < read
    assert "for r in 0 .. 16:" in text


WEIGHT = "exp(where(cast.f32(A[r, min(n, K - 1)]) < -62.0:f32, -inf:f32, cast.f32(A[r, min(n, K - 1)])))"
WEIGHTS = WRITTEN.replace("cast.f32(A[r, min(n, K - 1)]) + cast.f32(t)", WEIGHT)


def test_weights_that_end_are_looked_through_where_that_does_not_suffice() -> None:
    """They are 0 or no less than 2^-91, so columns of no less than 2^-20 need nothing of them; nothing is found while they are written."""
    text = show(scheduled(WEIGHTS, SCRIPT + "screen p.0"))
    assert "W.lanes" not in text
    bound, asked, found, read = (
        text.index(s) for s in ("least.b[] = 4607:u32", "if ~(127:u32 <= 4607:u32", "least.b[] min= least.c[]", "<= least.b[]")
    )
    assert bound < asked < found < read
    for value, kept in (
        ("exp(cast.f32(A[r, min(n, K - 1)]))", False),
        (WEIGHT.replace("-62.0:f32, -inf", "-62.0:f32, 0.0"), False),
        (WEIGHT.replace("-62.0", "-88.0"), False),
        (WEIGHT.replace("exp(", "exp2("), True),
        (f"where(r < 3, {WEIGHT}, 0.0:f32)", True),
    ):
        assert ("W.lanes" not in show(scheduled(WEIGHTS.replace(WEIGHT, value), SCRIPT + "screen p.0"))) is kept, value


@pytest.mark.parametrize("least", [0, -19, -24, -60, -130])
def test_small_columns_of_weights(least: int) -> None:
    """Whichever way multiplies them, the sums are those of the loops as they are written."""
    k, n = 41, 5
    rng = np.random.default_rng(k)
    a = whole(rng, "bf16", (16, k)) * np.array(4, "float32")
    b = np.exp2(rng.integers(least, 1, (k, n)).astype(np.float64)) * rng.choice([-1, 1], (k, n))
    found = []
    for module in (scheduled(WEIGHTS, ""), scheduled(WEIGHTS, SCRIPT + "screen p.0")):
        c = np.zeros((2, 16, n), np.float32)
        ports = {"A": small(a), "B": small(b), "C": c}
        assert kernels.run(module, ports, {"K": k, "N": n}, check=True) == 0
        found.append(c.astype(np.float64))
    assert np.abs(found[0] - found[1]).max() <= 2.0**-20 * np.abs(found[0]).max()


def test_what_has_no_sign_is_its_own_magnitude() -> None:
    """Weights are exponentials or zeros: one operation less for each of them."""
    signed = "cast.f32(A[r, min(n, K - 1)]) + cast.f32(t)"
    assert signed in WRITTEN
    for value, zero, asked in (
        (signed, "0.0", 1),
        (f"exp({signed})", "0.0", 0),
        (f"abs({signed})", "0.0", 0),
        (f"exp({signed}) * -1.0:f32", "0.0", 1),
        (f"exp({signed})", "-0.0", 1),
    ):
        text = WRITTEN.replace(signed, value).replace(", 0.0:f32))", f", {zero}:f32))")
        (line,) = [x for x in show(scheduled(text, SCRIPT + "screen p.0")).splitlines() if "W.lanes[n] min=" in x]
        assert line.count("32767") == asked, line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n < K, ", "n < K + 1, "),
        ("n < K, ", "n <= K, "),
        (", 0.0:f32))", ", 1.0:f32))"),
        ("min(K, 128) + 63) // 64 * 64 parallel", "min(K, 128) + 15) // 16 * 16 parallel"),
        ("(min(K, 128) + 63) // 64 * 64 parallel", "min(K, 128) parallel"),
        ("reduce:\n          acc[] add= cast.f32(W[i, p])", "reduce:\n          acc[] add= cast.f32(W[i, 127 - p])"),
    ],
)
def test_what_is_not_known_to_be_zero_is_asked(old: str, new: str) -> None:
    """Neighbours beyond the end are zeros by a choice, which no tile reads in place."""
    assert old in WRITTEN
    text = show(scheduled(WRITTEN.replace(old, new), "dot p dot2_bf16 multiple=16"))
    (line,) = [x for x in text.splitlines() if "ins.dot2_bf16" in x]
    assert line.count("where(") == 4, "both neighbours of both operands"
    with pytest.raises(StepError):
        scheduled(WRITTEN.replace(old, new), SCRIPT + TILES)
    (line,) = [x for x in show(scheduled(WRITTEN, "dot p dot2_bf16 multiple=16")).splitlines() if "ins.dot2_bf16" in x]
    assert line.count("where(") == 2


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_weights_are_not_copied(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    source = luminal.compile(ATTENTION, target=target).source
    calls = [line for line in source.splitlines() if "tile_bf16_f32(" in line and "static" not in line]
    assert any("(const uint32_t *)&tile" in line for line in calls), calls
    assert re.search(r"= rounded_f32x\d+_bf16x\d+\(", source)
    assert not re.search(r"cast_bf16x\d+_f32x\d+\(v\)", source), "sums of weights before they are rounded"
