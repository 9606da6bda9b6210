"""The step that lets tensor cores add up a tile: `matrix`."""

from __future__ import annotations

from ....ir.kernel import Kernel
from ....ir.warps import NoProduct, product
from ..tree import Facts, StepError, around, local_buffers, of_kind


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
