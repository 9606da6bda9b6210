"""Attention in bf16 for the tests of tiles: composites, a target that offers every instruction, and how results are judged."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from luminal.ir.dtypes import bf16, numpy_dtype
from luminal.ir.instructions import INSTRUCTIONS, LANE_BY_LANE, TILES
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from luminal.ir.record import replace
from luminal.runtimes.clang.driver import Driver
from running import composite

WITH_TILES = frozenset(INSTRUCTIONS) - {"dot4_i8"} | frozenset(LANE_BY_LANE) | frozenset(TILES)

ATTENTION = """(composite attention ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E]) -> (O{bf16}[H N E]))
  (return (einsum "hij,hje->hie" (softmax (einsum "hid,hjd->hij" Q K) :axis -1) V)))"""
MASKED = """(composite masked ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E] B{bf16}[N M]) -> (O{bf16}[H N E]))
  (return (einsum "hij,hje->hie" (softmax (+ (einsum "hid,hjd->hij" Q K) B) :axis -1) V)))"""
SIGMOID = """(composite gated ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E]) -> (O{bf16}[H N E]))
  (setf w (sigmoid (einsum "hid,hjd->hij" Q K)))
  (return (/ (einsum "hij,hje->hie" w V) (sum w :axis -1 :keepdims t))))"""

# weights that are not exponentials themselves: nothing says how small they may be but looking at them while they are written
SQUARED = """(composite squared ((Q{bf16}[H N D] K{bf16}[H M D] V{bf16}[H M E]) -> (O{bf16}[H N E]))
  (setf p (softmax (einsum "hid,hjd->hij" Q K) :axis -1))
  (return (einsum "hij,hje->hie" (* p p) V)))"""


def offer(monkeypatch: pytest.MonkeyPatch, instructions: frozenset[str] = WITH_TILES) -> None:
    """Every instruction is offered; on a machine without it the portable body runs."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=instructions))


def small(x: np.ndarray) -> np.ndarray:
    return x.astype(numpy_dtype(bf16))


def scores_agree(attention: luminal.Library, shapes: list[tuple[int, ...]]) -> None:
    """Softmax of scaled scores as NumPy has it in float64, of scores that are sums of products of tiny numbers too."""
    rng = np.random.default_rng(5)
    for h, n, m, d, e in shapes:
        for scale in (1.0, 2.0**-120):  # products of keys of 2^-120 and queries of 2^120 are as large as others
            q, k, v = (rng.standard_normal((h, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e)))
            k[:, ::2] *= np.float32(2.0**-10)
            ports = [small(x) for x in (q / np.float32(scale), k * np.float32(scale), v)]
            wide = [x.astype(np.float64) for x in ports]
            s = np.einsum("hid,hjd->hij", *wide[:2]) / np.sqrt(d)
            p = np.exp(s - s.max(-1, keepdims=True))
            exact = p / p.sum(-1, keepdims=True) @ wide[2]
            found = np.asarray(attention(*ports)).astype(np.float64)
            assert np.abs(found - exact).max() < 2.0**-8 * (1 + np.abs(exact).max()), (h, n, m, d, e, scale)


def masked_rows_agree(shapes: list[tuple[int, ...]]) -> None:
    """Weights that a mask makes 0 count for nothing, a row of which all are is NaN."""
    kernel = luminal.compile(MASKED, target="native")
    rng = np.random.default_rng(8)
    for h, n, m, d, e in shapes:
        q, k, v = (small(rng.standard_normal(s)) for s in ((h, n, d), (h, m, d), (h, m, e)))
        bias = small(np.where(rng.random((n, m)) < 0.6, -np.inf, 0.0))
        bias[3], bias[4, 1:], bias[5, :-1] = -np.inf, -np.inf, -np.inf
        agrees(kernel, MASKED, {"Q": q, "K": k, "V": v, "B": bias}, (h, n, m, d, e), "masked")
        assert np.isnan(np.asarray(kernel(q, k, v, bias)).astype(np.float32)[:, 3]).all()


def agrees(kernel: luminal.Library, text: str, ports: dict[str, np.ndarray], sizes: tuple[int, ...], note: str) -> None:
    """Within the bound of the composite's own graph in float64."""
    with np.errstate(all="ignore"):
        expected = evaluate(composite(text), ports, dict(zip("HNMDE", sizes, strict=True)))["O"]
        found = np.asarray(kernel(*ports.values()))
    verdict = judge(found, expected, bf16)
    assert verdict.ok, (note, sizes, verdict)
    assert verdict.ill_count < max(found.size, 1), (note, sizes)
