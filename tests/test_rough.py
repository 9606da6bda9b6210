"""Steps of cascades on tiles: sums that stay where they are read (`leave`), exponentials of a few digits (`rough`); and windows, whose panels are looked through as far as they are packed."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.instructions import ROUGH, ROUGH_EXP
from luminal.ir.kernel import Module
from luminal.ir.text import read, show
from luminal.passes.schedule import Facts, StepError, replay, unique
from scheduling import same
from small_attention import agrees, offer, small

WEIGHTS = """kernels weights v1
size M
in A: f32[M]
out W: bf16[M]
out S: f32[]
kernel weights_0(A, W, S):
  for i in 0 .. 1 parallel:
    alloc acc: f32[] register
    acc[] = 0.0:f32
    for k in 0 .. M reduce:
      let x: f32 = A[k] - 3.0:f32
      let v: bf16 = cast.bf16(exp(where(x < -62.0:f32, -inf:f32, x)))
      W[k] = v
      acc[] add= cast.f32(v)
    S[] = acc[]
"""


def test_rough_reads_what_is_not_rounded() -> None:
    """The sum too takes the instruction's value; an exponential that may be denormal is left alone."""
    before = read(WEIGHTS)
    assert isinstance(before, Module)
    kernel, facts = unique(before.kernels[0]), Facts.of(before)
    after = before.with_kernels((replay(kernel, facts, "rough k"),))
    text = show(after)
    for line in ("let e: f32 = ins.rough_exp:f32(x, -62.0:f32)", "let v: bf16 = ins.rounded:bf16(e)", "W[k] = v", "acc[] add= e"):
        assert line in text, line
    assert "cast.f32(v)" not in text
    inline = read(WEIGHTS.replace("W[k] = v", "W[k] = cast.bf16(exp(where(x < -62.0:f32, -inf:f32, x)))"))
    assert isinstance(inline, Module)
    assert "W[k] = ins.rounded:bf16(ins.rough_exp:f32(x, -62.0:f32))" in show(replay_one(inline, "rough k"))
    weight = read(WEIGHTS.replace("exp(where(x < -62.0:f32, -inf:f32, x))", "ins.weight:f32(x, -62.0:f32)"))
    assert isinstance(weight, Module)
    assert "let e: f32 = ins.rough_exp:f32(x, -62.0:f32)" in show(replay_one(weight, "rough k"))
    for old, new in (
        ("x < -62.0:f32", "x < -90.0:f32"),
        ("x < -62.0:f32", "-62.0:f32 < x"),
        ("-inf:f32, x", "0.0:f32, x"),
        ("exp(where(x < -62.0:f32, -inf:f32, x))", "exp(x)"),
    ):
        other = read(WEIGHTS.replace(old, new))
        assert isinstance(other, Module)
        with pytest.raises(StepError, match="rounds no exponential"):
            replay_one(other, "rough k")
    with pytest.raises(StepError, match="more than store"):
        replay(kernel, facts, "rough i")


def replay_one(m: Module, script: str) -> Module:
    return m.with_kernels((replay(unique(m.kernels[0]), Facts.of(m), script),))


LEFT = """kernels left v1
size M
in A: f32[4, 8]
in F: f32[]
out B: f32[2, 4, 8]
kernel left_0(A, F, B):
  for i in 0 .. 1 parallel:
    alloc W: f32[8, 8] private
    let t: f32 = F[]
    for q in 0 .. 2:
      alloc acc: f32[4, 8] stack
      for j in 0 .. 4:
        for k in 0 .. 8:
          acc[j, k] = 1.0:f32
      for p in 0 .. 3 reduce:
        for j1 in 0 .. 4:
          for k1 in 0 .. 8:
            acc[j1, k1] add= A[j1, k1]
      for j2 in 0 .. 4:
        for k2 in 0 .. 8:
          W[q * 4 + j2, k2] = acc[j2, k2] * t
    for r in 0 .. 2 parallel:
      for j3 in 0 .. 4 parallel:
        for k3 in 0 .. 8 parallel:
          B[r, j3, k3] = W[r * 4 + j3, k3] + 1.0:f32
"""


def test_leave_multiplies_where_sums_are_read() -> None:
    before = read(LEFT)
    assert isinstance(before, Module)
    after = replay_one(before, "leave acc")
    text = show(after)
    assert "acc" not in text.split("schedule", 1)[1].split("\n", 1)[1]
    for line in ("W[q * 4 + j, k] = 1.0:f32", "W[q * 4 + j1, k1] add= A[j1, k1]", "B[r, j3, k3] = W[r * 4 + j3, k3] * t + 1.0:f32"):
        assert line in text, line
    same(before, after)
    plain = read(LEFT.replace("acc[j2, k2] * t", "acc[j2, k2]"))
    assert isinstance(plain, Module)
    assert "W[r * 4 + j3, k3] + 1.0:f32" in show(replay_one(plain, "leave acc"))
    same(plain, replay_one(plain, "leave acc"))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("acc[j2, k2] * t", "acc[j2, k2] + t", "one factor"),
        ("acc[j2, k2] * t", "acc[j2, k2] * A[j2, k2]", "one factor"),
        ("W[q * 4 + j2, k2] = ", "W[q * 4 + j2, k2] add= ", "local buffer of its type"),
        ("W[q * 4 + j2, k2] = ", "W[q, k2] = ", "rows of"),
        ("acc[j, k] = 1.0:f32", "acc[j, k] = W[j, k]", "read too early"),
        ("alloc acc: f32[4, 8] stack", "alloc acc: f32[4, 8] private", "no sums"),
        ("for j2 in 0 .. 4", "for j2 in 0 .. 3", "copy all"),
    ],
)
def test_leave_is_refused(old: str, new: str, reason: str) -> None:
    other = read(LEFT.replace(old, new))
    assert isinstance(other, Module)
    with pytest.raises(StepError, match=reason):
        replay_one(other, "leave acc")


WINDOW = """(composite window ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E] &key (window 70)) -> (O{bf16}[H N E]))
  (setf back (- (+ (unsqueeze (iota N) :axis 1) (- M N)) (iota M)))
  (setf s (where (and (>= back 0) (< back window)) (einsum "hid,hjd->hij" Q K) -inf))
  (return (einsum "hij,hje->hie" (softmax s :axis -1) V)))"""


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_windows_on_tiles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which part of a panel is multiplied depends on the rows: it is looked through as far as it is packed.  Small values beside the window are no reason for a wrong result."""
    offer(monkeypatch)
    kernel = luminal.compile(WINDOW, target=target)
    called = [line for line in kernel.source.splitlines() if "tile_bf16_f32(" in line and "static" not in line]
    assert len(called) >= 4, called
    rng = np.random.default_rng(9)
    for h, n, m, d, e in ((2, 57, 130, 33, 20), (1, 150, 165, 64, 64), (1, 130, 520, 7, 40), (1, 300, 300, 16, 33)):
        q, k, v = (rng.standard_normal(s) for s in ((h, n, d), (h, m, d), (h, m, e)))
        for values in (v, v * 2.0**-130, np.where(rng.random(v.shape) < 0.1, v * 2.0**-130, v)):
            agrees(kernel, WINDOW, {"Q": small(q / np.sqrt(d)), "K": small(k), "V": small(values)}, (h, n, m, d, e), "window")


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_weights_of_few_digits(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores from 0 down to where weights are nothing, infinite and NaN: weights over their sum, by values that tell them apart."""
    offer(monkeypatch)
    text = """(composite weights ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E]) -> (O{bf16}[H N E]))
      (return (einsum "hij,hje->hie" (softmax (einsum "hid,hjd->hij" Q K) :axis -1) V)))"""
    kernel = luminal.compile(text, target=target)
    assert ROUGH_EXP.name in kernel.source
    m = 64
    q = small(np.ones((1, 64, 1)))
    v = small(np.eye(m)[None])
    k = small(-np.linspace(0, 70, m).reshape(1, m, 1))
    found = np.asarray(kernel(q, k, v)).astype(np.float64)
    exact = np.exp(k.astype(np.float64).reshape(m))
    exact /= exact.sum()
    seen = exact > 2.0**-88
    assert abs(found[0, :, seen].T / exact[seen] - 1).max() < 2 * 2.0**-8 + 2 * ROUGH, (
        "a weight and a result are rounded to 8 bits, a weight and the sum are rough"
    )
    assert (found[0][:, exact < 2.0**-92] == 0).all()
    for odd in (np.inf, np.nan):
        k2 = k.copy()
        k2[0, 5] = odd
        assert np.isnan(np.asarray(kernel(q, k2, v)).astype(np.float32)).all()
    k2 = k.copy()
    k2[0, 5] = -np.inf
    assert (np.asarray(kernel(q, k2, v)).astype(np.float32)[0, :, 5] == 0).all()
