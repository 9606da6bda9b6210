"""What a cascade computes in a small float and multiplies (the weights of attention in bf16): rounded to it once, and multiplied on tiles."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.dtypes import bf16, f32
from luminal.ir.instructions import TILES
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.cascade import cascade
from luminal.passes.schedule import Facts, StepError, replay, unique
from luminal.passes.simplify import simplify
from running import TARGET, composite, outputs
from scheduling import same
from small_attention import ATTENTION, SIGMOID, SQUARED, WITH_TILES, agrees, masked_rows_agree, offer, small

pytestmark = pytest.mark.usefixtures("plain_c")
SIZES = ((1, 1, 1, 1, 1), (2, 57, 130, 33, 20), (1, 150, 65, 64, 64), (1, 130, 520, 7, 40))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("text", [ATTENTION, SIGMOID], ids=["softmax", "sigmoid"])
@pytest.mark.parametrize("instructions", [WITH_TILES, WITH_TILES - set(TILES)], ids=["tiles", "vectors"])
def test_both_products_of_a_cascade(instructions: frozenset[str], text: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and weighted sums, of wide data: weights of every size down to denormal numbers and 0, and values that are denormal, huge, or 0 where the weight is large."""
    offer(monkeypatch, instructions)
    kernel = luminal.compile(text, target=target)
    name = "tile_bf16_f32(" if "tile_bf16" in instructions else "dot2_bf16_f32x"
    called = [line for line in kernel.source.splitlines() if name in line and "static" not in line]
    assert len(called) >= 2, called
    rng = np.random.default_rng(7)
    for h, n, m, d, e in SIZES:
        q, k, v = (rng.standard_normal(s) for s in ((h, n, d), (h, m, d), (h, m, e)))
        nothing = np.where(np.arange(m)[:, None] % 3 == 0, 0.0, v)
        data = {
            "normal": (q, k, v),
            "weights from 1 to nothing": (q * 40 / np.sqrt(d), k, v),
            "denormal values": (q, k, v * 2.0**-130),
            "values of all sizes": (q * 20 / np.sqrt(d), k, v * np.exp2(rng.integers(-120, 100, v.shape))),
            "zeros under the largest weights": (np.abs(q) * 10, k - 2.0 * (np.arange(m)[:, None] % 3 != 0), nothing),
        }
        for note, (a, b, c) in data.items():
            agrees(kernel, text, {"Q": small(a), "K": small(b), "V": small(c)}, (h, n, m, d, e), note)


def test_small_weights_are_kept(offered: None) -> None:
    """Squares of weights are 2^-130 here, which a tile takes for 0, and what they weigh is 2^100: they are found while they are written."""
    (compilation,) = compilations(SQUARED, Settings(target="native", sizes={"D": 1}))
    q, k, v = np.ones((1, 20, 1)), np.full((1, 40, 1), -45.0), np.full((1, 40, 3), 2.0**100)
    k[0, 0], v[0, 0] = 0, 0
    found = outputs(compilation.module, {"Q": small(q), "K": small(k), "V": small(v)}, {"H": 1, "N": 20, "M": 40, "E": 3}, 0)
    assert found is not None
    np.testing.assert_allclose(found["O"].astype(float), 39 * np.exp(-90.0) * 2.0**100, rtol=0.02)


@needs_cc
def test_rows_without_weights(offered: None) -> None:
    masked_rows_agree(SIZES[1:])


def casts(text: str, instructions: frozenset[str]) -> int:
    """How many values the cascade rounds to bf16 inside."""
    target, options = replace(TARGET, instructions=instructions), Options()
    graph = cascade(simplify(composite(text), target, options), target, options)
    inside = [n for n in graph.nodes() if n.op == "cast" and n.dtype is f32 and n.args[0].node.op == "cast" and n.args[0].node.dtype is bf16]
    return len(inside)


def test_what_is_rounded() -> None:
    """What a contraction multiplies, where the target does so with neighbours of such numbers; nothing else."""
    assert casts(ATTENTION, WITH_TILES) == 1
    assert casts(ATTENTION, WITH_TILES - {"tile_bf16"}) == 1, "neighbours in vectors"
    assert casts(ATTENTION, WITH_TILES - {"tile_bf16", "dot2_bf16"}) == 0
    assert casts(ATTENTION.replace("bf16", "f32"), WITH_TILES) == 0
    assert casts(ATTENTION.replace("bf16", "f16"), WITH_TILES) == 0
    wide = """(composite wide ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E]) -> (O{bf16}[H N E]))
      (setf s (softmax (einsum "hid,hjd->hij" (cast f32 Q) (cast f32 K)) :axis -1))
      (return (cast bf16 (einsum "hij,hje->hie" s (cast f32 V)))))"""
    assert casts(wide, WITH_TILES) == 0, "weights that the composite has in f32"
    assert casts(wide.replace('e" s (cast f32 V)', 'e" (cast f32 (cast bf16 s)) (cast f32 V)'), WITH_TILES) == 1
    assert casts(wide.replace('(cast bf16 (einsum "hij,hje->hie" s (cast f32 V)))', '(einsum "hij,hje->hie" (cast bf16 s) V)'), WITH_TILES) == 1
    one = '(composite one ((S{bf16}[N M] V{bf16}[M]) -> (O{bf16}[N])) (return (einsum "ij,j->i" (softmax S :axis -1) V)))'
    assert casts(one, WITH_TILES) == 0, "a product in which the values miss a row, and the weights miss nothing"
    mixed = (
        one.replace("V{bf16}[M]", "V{f32}[M E]")
        .replace("O{bf16}[N]", "O{f32}[N E]")
        .replace('"ij,j->i" (softmax S :axis -1)', '"ij,je->ie" (cast f32 (softmax S :axis -1))')
    )
    assert casts(mixed, WITH_TILES) == 0, "times what is wide"
    variance = "(composite spread ((X{bf16}[N M]) -> (Y{bf16}[N])) (return (var X :axis -1)))"
    assert casts(variance, WITH_TILES) == 0


@needs_cc
@pytest.mark.parametrize("sizes", [{}, {"M": 256, "N": 256, "K": 256}], ids=["free", "fixed"])
def test_sizes_that_are_known_keep_the_tiles(sizes: dict[str, int], offered: None) -> None:
    """Panels that are looked through for small numbers are packed one after the other, also where nothing is in the way of packing several side by side."""
    text = "(composite f ((A{bf16}[M K] B{bf16}[K N]) -> (C{bf16}[M N])) (return (matmul A B)))"
    assert "tile_bf16_f32(" in luminal.compile(text, sizes=sizes, target="native").source


KEPT = """kernels kept v1
size M
size K
size N
in A: f32[M, K]
in B: f32[K, N]
out C: f32[M, N]
kernel kept_0(A, B, C):
  for i in 0 .. M parallel:
    alloc row: f32[K] private
    for k in 0 .. K parallel:
      row[k] = exp(A[i, k])
    for j in 0 .. N parallel:
      alloc acc: f32[] register
      acc[] = 0.0:f32
      for p in 0 .. K reduce:
        acc[] add= row[p] * B[p, j]
      C[i, j] = acc[]
"""


def test_what_was_written_before_is_staged() -> None:
    """A local buffer, in front of the nest that reads it; not where that nest writes it."""
    before = read(KEPT)
    assert isinstance(before, Module)
    kernel, facts = unique(before.kernels[0]), Facts.of(before)
    after = before.with_kernels((replay(kernel, facts, "stage row p at=i"),))
    text = show(after)
    assert text.index("row[k] =") < text.index("row.packed[p.s] = row[p.s]") < text.index("row.packed[p] *")
    same(before, after)
    with pytest.raises(StepError, match="in 0 ways"):
        replay(kernel, facts, "stage row p")
