"""Where the elements of a swizzled array lie: so that threads that read, or bring, eight pieces of 16 bytes at a time find them in different banks of memory, whether these are neighbours of a row or one below the other.

    alloc a: f16[64, 128] shared align 1024 swizzle 128

Rows of so many elements of 16 bits (64, or a multiple of it that is a power of two) are cut into lines of 64, which fill all banks once.  Eight lines one below the other follow one another, then the eight beside them, and then those of the next eight
rows; and of a line the pieces of eight elements change places, by the exclusive or of the piece and the line:

    element     c of row r             lies at    r // 8 · 8 · row + c // 64 · 512 + r % 8 · 64 + (c % 64 ^ r % 8 · 8)

It is how `wgmma` has it in its mode of 128 bytes (PTX ISA, "Swizzling modes").  Addresses say nothing of it: element n of the array is number n, as without, and what is read is what was stored.  Only the runtime that declares the array
goes by it (`placed` in `runtimes/cuda/helpers/matrix.j2`), as do `ldmatrix` and `wgmma`.  Pieces stay whole, so eight neighbours are moved at once where they begin at a multiple of eight.
"""

from __future__ import annotations

from .dtypes import DType

PIECE = 8  # elements that stay side by side, and lines that change the places of their pieces, each in another way
LINE = 64  # elements of 16 bits that fill all banks once
ALIGN = 1024  # bytes: eight lines


def fits(dtype: DType, count: int, row: int) -> bool:
    """Whether so many elements are whole groups of eight such rows."""
    return dtype.bytes == 2 and dtype.lanes == 1 and row >= LINE and row & (row - 1) == 0 and count % (PIECE * row) == 0


def placed(n: int, row: int) -> int:
    """Where element n lies in an array of such rows."""
    r, c = divmod(n, row)
    return r // PIECE * PIECE * row + c // LINE * PIECE * LINE + r % PIECE * LINE + (c % LINE ^ r % PIECE * PIECE)
