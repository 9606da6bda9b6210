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


def agrees(kernel: luminal.Library, text: str, ports: dict[str, np.ndarray], sizes: tuple[int, ...], note: str) -> None:
    """Within the bound of the composite's own graph in float64."""
    with np.errstate(all="ignore"):
        expected = evaluate(composite(text), ports, dict(zip("HNMDE", sizes, strict=True)))["O"]
        found = np.asarray(kernel(*ports.values()))
    verdict = judge(found, expected, bf16)
    assert verdict.ok, (note, sizes, verdict)
    assert verdict.ill_count < max(found.size, 1), (note, sizes)
