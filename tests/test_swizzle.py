"""Where the elements of a swizzled array lie: where the instructions of the machine look for them, and in different banks."""

from __future__ import annotations

import pytest
from luminal.ir.dtypes import f16, f32
from luminal.ir.swizzle import LINE, PIECE, fits, placed


@pytest.mark.parametrize("row", [64, 128, 256])
def test_each_element_has_a_place_and_pieces_stay_whole(row: int) -> None:
    places = [placed(n, row) for n in range(16 * row)]
    assert sorted(places) == list(range(16 * row))
    assert all(places[n] == places[n - n % PIECE] + n % PIECE for n in range(len(places)))
    assert all(placed(n + 8 * row, row) == places[n] + 8 * row for n in range(8 * row))  # groups of rows are alike


@pytest.mark.parametrize("row", [64, 128, 256])
def test_eight_pieces_of_a_row_or_one_below_the_other_fill_all_banks(row: int) -> None:
    for n in range(0, 16 * row, LINE):
        assert sorted(placed(n + PIECE * k, row) % LINE for k in range(8)) == list(range(0, LINE, PIECE))
    for n in range(0, row, PIECE):
        assert sorted(placed(n + k * row, row) % LINE for k in range(8)) == list(range(0, LINE, PIECE))


@pytest.mark.parametrize("row", [64, 128, 256])
def test_it_is_where_four_warps_look(row: int) -> None:
    """PTX ISA, "Matrix descriptor" and "Swizzling modes": lines of 128 bytes, eight to a group; a group is `row` · 16 bytes behind the one above it, 1024 bytes behind the one beside it; and bits 4 to 6 of the
    place, in bytes, are those of the address with bits 7 to 9 put to them by an exclusive or."""
    for r in range(16):
        for c in range(row):
            at = r // 8 * (row * 16) + c // 64 * 1024 + r % 8 * 128 + c % 64 * 2
            assert placed(r * row + c, row) * 2 == at ^ ((at >> 7 & 7) << 4)


def test_what_fits() -> None:
    assert fits(f16, 512, 64) and fits(f16, 4096, 256)
    assert not any((fits(f32, 512, 64), fits(f16.vector(2), 512, 64), fits(f16, 256, 32), fits(f16, 768, 96), fits(f16, 520, 64)))
