"""Few rows that share each tile of a cascade, multiplied by a machine's tiles: what there is much of are the rows of the first product, copied as it lies."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import bf16, f32
from luminal.ir.kernel import Alloc, Module, statements
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.cascade import cascade
from luminal.passes.make_nests import make_nests
from luminal.passes.schedule import Facts, StepError, replay, schedule, unique
from luminal.passes.simplify import simplify
from running import TARGET, composite
from scheduling import same
from small_attention import ATTENTION, SIGMOID, WITH_TILES, agrees, masked_rows_agree, offer, small

pytestmark = pytest.mark.usefixtures("plain_c")
SIZES = ((1, 9, 1, 1, 1), (2, 9, 70, 33, 20), (1, 16, 600, 64, 64), (3, 12, 300, 40, 72), (1, 32, 1100, 7, 40), (2, 8, 300, 16, 16))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)


def products(source: str) -> int:
    return sum("tile_bf16_f32(" in line and "static" not in line for line in source.splitlines())


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("text", [ATTENTION, SIGMOID], ids=["softmax", "sigmoid"])
def test_all_sizes_of_rows_and_of_numbers(text: str, target: str, offered: None) -> None:
    """Rows, positions and columns that fill no tile; weights and values down to denormal numbers and 0, which the instruction would take for zeros."""
    kernel = luminal.compile(text, target=target)
    assert products(kernel.source) == 4, "two for few rows, two for many"
    rng = np.random.default_rng(7)
    for h, n, m, d, e in SIZES:
        q, k, v = (rng.standard_normal(s) for s in ((h, n, d), (h, m, d), (h, m, e)))
        data = {
            "normal": (q, k, v),
            "weights from 1 to nothing": (q * 12 / np.sqrt(d), k, v),
            "denormal keys": (q * 2.0**120 / np.sqrt(d), k * 2.0**-128, v),
            "denormal values": (q, k, v * 2.0**-130),
            "values of all sizes": (q * 8 / np.sqrt(d), k, v * np.exp2(rng.integers(-120, 100, v.shape))),
        }
        for note, (a, b, c) in data.items():
            agrees(kernel, text, {"Q": small(a), "K": small(b), "V": small(c)}, (h, n, m, d, e), note)


@needs_cc
def test_rows_without_weights(offered: None) -> None:
    masked_rows_agree(SIZES[1:])


def scheduled(rows: str) -> Module:
    """Attention of so many rows, for a target with tiles."""
    target, options = replace(TARGET, instructions=WITH_TILES, vector_bytes=64, vector_registers=32), Options()
    graph = cascade(simplify(composite(ATTENTION.replace("H N D", f"H {rows} D").replace("H N E", f"H {rows} E")), target, options), target, options)
    return schedule(make_nests(graph, target, options), target, options)


def test_which_rows_are_multiplied_by_tiles() -> None:
    """Those that are more than vectors do sooner; free sizes choose as the kernel runs."""

    def parts(rows: str) -> list[bool]:
        (kernel,) = scheduled(rows).kernels
        found: list[list[str]] = [[]]
        for line in kernel.schedule:
            if line.startswith("variant"):
                found.append([])
            found[-1].append(line)
        return [any(line.startswith("tensorize") for line in part) for part in found if part]

    assert parts("4")[0] is False
    assert parts("12")[0] is True
    assert parts("N") == [False, True, True]
    (kernel,) = scheduled("N").kernels
    assert next(line for line in kernel.schedule if line.startswith("variant")).endswith("& N <= 8")


ROUNDED = """kernels rounded v1
size M
in A: f32[M]
out B: f32[M]
kernel rounded_0(A, B):
  for i in 0 .. 1 parallel:
    alloc w: f32[M] private
    for k in 0 .. M parallel:
      w[k] = cast.f32(cast.bf16(exp(A[k])))
    for j in 0 .. M parallel:
      B[j] = w[j] * A[j]
"""


def test_narrow_keeps_the_meaning() -> None:
    """What is rounded already is kept so; nothing else is."""
    before = read(ROUNDED)
    assert isinstance(before, Module)
    kernel, facts = unique(before.kernels[0]), Facts.of(before)
    after = before.with_kernels((replay(kernel, facts, "narrow w"),))
    assert [s.buffer.dtype for s in statements(after.kernels[0].body) if isinstance(s, Alloc)] == [bf16]
    text = show(after)
    assert "w[k] = cast.bf16(exp(A[k]))" in text
    assert "cast.f32(w[j]) * A[j]" in text
    same(before, after)
    for wrong, reason in (("B", "no local buffer"), ("v", "no local buffer")):
        with pytest.raises(StepError, match=reason):
            replay(kernel, facts, f"narrow {wrong}")
    wide = before.with_kernels((replay(kernel, facts, "unrounded w"),))
    assert "w[k] = exp(A[k])" in show(wide) and "B[j] = w[j] * A[j]" in show(wide)
    with pytest.raises(StepError, match="made wider again"):
        replay(wide.kernels[0], facts, "unrounded w")
    with pytest.raises(StepError, match="no local buffer"):
        replay(kernel, facts, "unrounded B")
    plain = read(ROUNDED.replace("cast.f32(cast.bf16(exp(A[k])))", "exp(A[k])"))
    assert isinstance(plain, Module)
    with pytest.raises(StepError, match="not been rounded to one smaller type"):
        replay(unique(plain.kernels[0]), Facts.of(plain), "narrow w")
    assert f32 is next(s.buffer.dtype for s in statements(kernel.body) if isinstance(s, Alloc))
