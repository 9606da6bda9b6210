"""The part of the cost model that says how large tiles are that are turned over in registers: how many rows machines follow that are read side by side."""

from __future__ import annotations

from ...ir.target import LINE, Target
from .cost import WIDE_FIRST

# In lines, along loads × along stores: rows of which few lie side by side are read for half a page, and of what is stored four lines one behind the other; the next tile goes
# on along the stores, so that the same pages are written (Zen 4, 4096² floats by hand, of a copy of 85 GB/s: 32 × 4 lines 0.84, 64 × 4 0.75, 16 × 4 0.78, 32 × 2 0.69, all of a row × 2 0.68, × 4 0.70).  Twice as many rows do not fit in the second cache where their distance is a power of two.
PANELS = (32, 4)
LINES_OF_TILE = 4  # of a row that begins anywhere, which are stored one after the other
LINES_READ = 24  # of each row of what is turned over in such a tile, at most: of 16 lines 5000² floats take 1.05 times as long
# Rows that machines with a wide first cache read side by side, and lines of each: they follow 32 streams at a time, each within a page, and a row that is left soon is a stream in vain.  (Granite Rapids, one thread, against the tiles above:
# f32, 128 lines of 32 rows 4096² 0.81, 2048 × 8192 0.80, 8192 × 2048 0.77, 4112 × 4080 0.96, of 16 and 64 rows 4096² 0.95 and 0.93, 64 lines of 32 rows 0.83, 0.81, 0.80, 1.03; f64, of 8, 16, 32, 64 rows 2048 × 4096 1.10, 0.88, 0.87, 1.3;
# bf16, of 32, 64, 128 rows 8192 × 4096 0.69, 0.87, 0.93; rows that begin anywhere, of 5000² floats 0.78, of 4100² 0.89, of 2500 × 5000 doubles 0.70.)
FOLLOWED, LINES_FOLLOWED = 32, 128
# Tiles of shorter rows that stay there (64 × 3136 floats 2.6 to 2.8, 100 × 3249 3, 32 × 3136 1.2 to 1.4 times as fast as by the panels above)
NEAR_PANELS = (128, 128)
# Elements beside each other of what is read, and of what is stored, up to which those that are turned over go one by one, so many along the other axis at a time.  (Zen 4, one thread, f32, against squares, as rows × elements
# that are read: 1000 images of 3 × 224 0.3, 6 × 100 0.45, 8 × 8 0.4, 8 × 64 0.6, 12 × 64 0.9, of 224 × 3 0.5, 64 × 8 1.0; 50000 × 7 1.7, 50000 × 3 0.5 of the time; 8 × 10⁶ 0.7 to 1.0, all of a row at a time 2.4.)
SHORT_READ, SHORT_STORED, PIECE_TURNED = 4, 8, 1024
# Elements of either axis from which on blocks are turned over though other nests stand beside them.  (Zen 4, one thread, images with a border added while their channels come from the end or go there, blocks beside nests that stay together, AVX-512 and AVX2: 3 and 4 channels of 224² 1.6 to 2.5 and 1.6 to 2.5, 6 channels 1.2 to 1.6 and 1.3 to 1.8, 8 channels of 112² 1.0 to 1.3 and 0.8 to 1.0, 12 channels 0.7 and 1.1 of the time.)
FEW_TURNED = 8
LINES_OF_RUN = 4  # of each row of what is turned over in runs
# Lines of a row from which on what is read of it begins at a line too: before the first and after the last are blocks that are not full (Zen 4, 4096² floats 0.76 of the time, 30000 × 512 1.06).
ALIGNED_ROW = 64
LINES_AHEAD = 2  # of each row of such a block: the prefetchers of machines do not follow so many rows
SQUARES_AHEAD = 8  # of rows that are worked off several at a time, a line of each is asked for so many squares before: one thread, running sums of 1000 × 5000 floats 0.5 of the time
LINES_ON = 4  # the same where hints go on to the next tile


def panels(target: Target, line: int) -> tuple[int, int]:
    """Sides of a tile of lines of so many elements, in lines: along loads and along stores.  One line alone is stored so only where it is one vector (by AVX2, bf16 4096² and 4112 × 4080 1.15 and 1.33 of the time, f32 0.74 and 0.67, f64 0.87 and 0.78)."""
    stored = FOLLOWED // line
    return (LINES_FOLLOWED, max(1, stored)) if target.l1 >= WIDE_FIRST and (stored > 1 or target.vector_bytes >= LINE) else PANELS


def line_tiles(target: Target, line: int) -> tuple[int, int]:
    """The same where rows that are stored begin anywhere, so that a line more of them is read: of one or two bytes an element, which are as many rows again, tiles are those of all machines."""
    stored = FOLLOWED // line
    return (LINES_FOLLOWED, stored) if target.l1 >= WIDE_FIRST and stored > 1 else (LINES_READ, LINES_OF_TILE)
