"""What a thread of a GPU moves at once: eight 16-bit elements that lie side by side, as they are; everything else goes element by element."""

from __future__ import annotations

import pytest
from lowering import GPU, expect, lowered
from luminal.ir.record import replace

MOVING = replace(GPU, vector_bytes=16)
PORTS = "size M\nsize N\nin x: bf16[M, N]\nin f: f32[N]\nout y: bf16[M, N]\nout g: f32[N]\n"
BUFFERS = "x, f, y, g"


def test_eight_elements_as_one() -> None:
    expect(
        """
        for i in 0 .. M block.x:
          alloc held: bf16[8] register
          for j in 0 .. 8 vector:
            held[j] = where(j < N & i < M, x[i, j], 0.0:bf16)
          for k in 0 .. 8 vector:
            y[i, k] = held[k]
        """,
        """
        for i in 0 .. M block.x:
          array held: bf16x8[1] register
          held[0] = where(i < M, vload.8 x[i * N, N], broadcast.8(0.0:bf16))
          y[i * N] = held[0]
        """,
        MOVING,
        ports=PORTS,
        buffers=BUFFERS,
    )


@pytest.mark.parametrize(
    "body",
    [
        "y[i, j] = cast.bf16(cast.f32(x[i, j]) * 2.0:f32)",  # computed
        "g[j] = f[j]",  # four bytes each
        "y[i, j] = x[j, i]",  # not side by side
        "if j < N:\n      y[i, j] = x[i, j]",  # some of them stored
    ],
)
def test_everything_else_goes_one_by_one(body: str) -> None:
    found = lowered(f"for i in 0 .. M block.x:\n  for j in 0 .. 8 vector:\n    {body}", MOVING, ports=PORTS, buffers=BUFFERS)
    assert "x8" not in found
    assert "vload" not in found
    assert "for j in 0 .. 8:" in found


def test_registers_have_no_address() -> None:
    """An array that is filled one by one is read one by one."""
    found = lowered(
        """
        for i in 0 .. M block.x:
          alloc held: bf16[8] register
          for j in 0 .. 8 vector:
            held[j] = x[j, i]
          for k in 0 .. 8 vector:
            y[i, k] = held[k]
        """,
        MOVING,
        ports=PORTS,
        buffers=BUFFERS,
    )
    assert "array held: bf16[8] register" in found
    assert "vload" not in found
