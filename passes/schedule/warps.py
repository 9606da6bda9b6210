"""Tensor cores: how rows and columns of a tile are dealt out to warps and their threads (`rows`, `columns`), and the step that says so: `matrix`."""

from __future__ import annotations

from ...ir.kernel import Kernel
from ...ir.warps import HALF, NoProduct, product
from .plan import Plan
from .tree import Facts, StepError, around, local_buffers, of_kind

ROWS, COLUMNS = 16, 8  # of a tile of the instruction
PAIR = 2  # columns side by side that a thread has


def matrix(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Let the threads of a warp multiply together what each of them adds up by itself.

        for k in 0 .. 32 reduce:                                              for k in 0 .. 32 reduce matrix:
          for mi in 0 .. 4:                                                     …
            for h in 0 .. 2:
              for ni in 0 .. 4:                                         →
                for j in 0 .. 2:
                  acc[mi, h, ni, j] add= cast.f32(A[t // 32, mi, h, t // 4 % 8, k]) *
                                         cast.f32(B[k, ni, t % 4, j])

    `axis` is the outermost loop of a nest around one sum of products of 16-bit floats in memory that the threads of a block share.  `ir/warps.py` says which rows and columns the threads have, and how their
    operands lie.  The tensor cores add up 16 products in an order of their own, which --strict forbids.
    """
    path = around(kernel, axis)
    loop = path[-1]
    if facts.strict:
        raise StepError("matrix: products are added in an order of their own, and --strict forbids it")
    try:
        product(loop, path[:-1], local_buffers(kernel))  # pyright: ignore[reportArgumentType]
    except NoProduct as e:
        raise StepError(f"matrix: {e}") from None
    return of_kind(kernel, path, "matrix")


def rows(plan: Plan, axis: str, warps: int) -> tuple[str, str, str, str]:
    """An axis of a constant extent split into the warp, the tile of 16 rows, the half of that, and the thread's row of eight."""
    warp, inner = _split(plan, axis, (plan.extent(axis) or 0) // warps)
    tile, inner = _split(plan, inner, ROWS)
    return (warp, tile, *_split(plan, inner, HALF))


def columns(plan: Plan, axis: str, warps: int) -> tuple[str, str, str, str]:
    """An axis of a constant extent split into the warp, the tile of 8 columns, the thread's pair of these, and which of the two."""
    warp, inner = _split(plan, axis, (plan.extent(axis) or 0) // warps)
    tile, inner = _split(plan, inner, COLUMNS)
    return (warp, tile, *_split(plan, inner, PAIR))


def _split(plan: Plan, axis: str, factor: int) -> tuple[str, str]:
    before = plan.kernel
    plan.do("split", axis, factor, tail="perfect")
    outer, inner = plan.added(before)
    return outer, inner
