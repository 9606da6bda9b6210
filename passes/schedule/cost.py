"""The cost model: numbers of a schedule from the numbers of the target, each with its reason.

Registers bound the tile, the caches bound the blocks (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008), memory traffic decides
what is worth a vector.  Blocks depend on sizes and target alone, never on the number of threads, so results have the same bits for any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir.dtypes import DType, u32
from ...ir.instructions import MOST_TILES, SIDE
from ...ir.target import LINE, Target

VECTORS = 2  # vectors side by side in a register tile: one load of a row's element serves both
# The same where columns are read where they lie and there are 32 registers: fewer loads for each multiply-add, which counts twice where rows begin anywhere, so that each vector lies on two lines (Golden Cove, arrays 16 bytes off a line: 64³ 1.15, 128³ 1.2, 192³ 1.3 × as fast as with two).
WIDE_VECTORS = 4
# Tiles of columns behind which a single vector that is left over does not count.  (Emerald Rapids, one thread, f32, against fewer rows: 64×64×256 1.06, 64×64×304 1.05, 32×256×448 1.15 × as fast; 64³ 0.96, 100³ 0.91.)
SINGLE_AMONG = 5
MOST_ACCUMULATORS = 8  # of a maximum that keeps NaN: an instruction more waits for each (Golden Cove, rows of 4096 from the second cache: logsumexp and softmax take 0.93 of the time)
FEW_VECTORS = 4  # that a loop has at most: what whole ones save by asking nothing, a loop more costs, and so does asking for the next few
TURNS = 8  # of so many, at least: before and after the loop each is a few instructions
ACCUMULATORS = 4  # independent vectors of a reduction: latency of an add × adds a cycle, on machines of the last ten years
STRIP = 8  # of them side by side along a kept axis where that many registers are free: rows are read a page's eighth at a time (decode 1.08 × of 4)
COLUMNS_IN_LANES = 16  # elements of rows, one in each lane, that are put into columns: about as many registers hold them
# Bytes of such an element, at least; shorter ones are not permuted by one instruction but for so many lanes at most, where something else is wider.  (Zen 4, clang, AVX-512 and AVX2, 10⁶ rows: grey of three bytes 0.13 and 0.25, a sum of three f16 0.15 and 0.36, colours of 1080p 0.36 and 0.46 of the time; three bytes turned round, 64 and 32 lanes, 1.5 and 1.7.)
BYTES_IN_LANES, NARROW_LANES = 4, 16
# Operations for each element stored from which on rows of short elements are worth their columns though vectors are less than a register, in place of what a C compiler makes of scalars.  (Zen 4, AVX2 and AVX-512, sorted rows of 4 to 12 bytes or halves: clang 0.07 to 0.5, gcc 0.05 to 0.45 of the time; rows of 3, 7 operations: 0.5 and 1.4 to 2.2; of a minimum or a choice: up to 3.)
LONG_ROWS = 8
# Elements of a row from which on it is a vector of its own, though less than one of the machine's: a bias on rows of 4, 5 and 10 floats 1.3 to 8, one-hot rows of 10 4, a tanh of rows of 3 10 times as fast.
OWN_VECTOR = 4
# Elements of a row that is reduced, up to which each lane has one of its own; of maxima of floats, which take more to put together (Zen 4, AVX-512, 40000 floats in rows of 5, 6, 7, 8: sums 1.0, 1.15, 1.33, 1.5; maxima of 7, 8, 9, 10, 12 0.74, 0.84, 0.92, 0.96, 1.24 of the time).
ROW_OF_LANE, ROW_OF_LANE_NAN = 5, 9
SHORT = 64  # rows that are summed up: the pieces of them that a strip leaves are in the first cache when the next strip comes
IN_FLIGHT = 10  # sums that two pipes want to be at work on at a time, each waiting four cycles for what was added last
LOADED = 4  # registers that hold what is loaded for several sums, not the sums
ONE_VECTOR = 0.85  # of the products that two vectors of columns get done in a tile, one does: each takes an element of a row, and as many loads as products (Zen 4, AVX2, the gradient of filters of 3 × 3 and 5 × 5)
# Rows of a tile without packing: two vectors side by side fill the latency of an FMA, few rows are computed in vain at a border.  And rows that are left over, up to which they are a tile of their own: one vector of columns waits for what was added last with fewer.  (Granite Rapids, one thread, f32, beside tiles of four rows, arrays at a line and 16 bytes off: 17×64×64 0.84 and 0.81, 30×60×60 0.86, 50³ 0.91 and 0.94, 64³ 0.96 and 0.92, 100³ 0.92, 112³ 0.91 and 0.85, 160³ 0.89 and 0.77, 20×100×50 1.04 of the time; of eight, the last of which had rows twice: 18×64×48 0.88, 12×64×16 0.85, 300 of 20×28×24 0.95.)
DIRECT_ROWS, FEW_LEFT = 8, 4
# Multiply-adds for each lane of a vector up to which a product that is packed takes longer than one read where it lies, where the last cache is far: copies go from one thread's cache to another's and wait for each other.
# (Golden Cove, two threads, f32: 128³ 2.2 × and 192³ 1.5 × as long packed, 256³ 0.9, 300³ 0.7, 512³ 0.35; rows read where they lie are strided, and lines of arrays that NumPy made are split.)
UNPACKED = 1 << 19
# Second caches that an operand read in place in wide tiles may take which up to `OWN_ROWS` rows use, where the last cache is near.  (Zen 4, AVX-512, one thread, f32, panels of each thread's own beside: 17 rows of 512² to 1024² 1.3 to 1.45, 32 rows 1.1 to 1.3, 64 and 128 rows 1.03 to 1.15 × as long, two threads 0.95 to 1.4; of 1500² tiles in place take up to five times as long; AVX2, narrow tiles, 64 rows of 512² 1.3 and 1.9 times.)
BEYOND = 4
COLUMN_PANELS = (
    2  # of columns, up to which low tiles read twice as much in place (Granite Rapids, AVX2, two threads, 4096 × 4096 × 32 0.6 of the time)
)
SHALLOW = 16  # of a reduction up to which nothing is packed (two threads, f32, against panels: 4096×4096×4 1.8, 100000×64×5 1.6, 7×100000×5 2.1, 1000×1000×16 1.2 × as fast)
DOTTED_DEPTH = 1024  # of their reduction at a time: what rows and columns hold of it is in the first cache
DOTTED_ROWS = 8  # rows for which columns that lie along the reduction are read as they lie, from one end to the other
# The same of small floats, which an instruction multiplies by pairs, or in tiles, when they are packed.  (Granite Rapids, bf16, one thread, beside tiles of packed columns: 1, 2 and 4 rows by 1024² 0.18, 0.24 and 0.32, by 4096² 0.19 to 0.22 of the time; 8 by 1024² as long as tiles of columns that are copied as they lie, by 256² 1.17.)
DOTTED_SMALL_FLOATS = 4
# Rows for which they are where an instruction multiplies words of them (two threads, i8, against panels: 8 rows of 1024 to 4096 0.18 to 0.25, 32 0.5, 64 by 1024² 0.8, 96×192×768 1.6, 128³ 1.5; in one thread 2.4, 2.1 of the time).
DOTTED_WORDS = 64
# Elements of a reduction from which on few columns are turned over for it: with fewer, the sums of lanes cost more than lanes that stay empty.
TURNED_DEPTH = 64
# And rows for each of these columns: with fewer, turning them over takes longer than lanes that stay empty.  (Two threads, f32, in place against turned over: 5×7×100000 1.7, 16×7×10000 2.1, 32×7×1000 1.45, 16×4×1000 1.1, 16×2×1000 0.8, 64×2×1000 0.45, 256×4×1000 0.65, 2000×8×1000 0.6 × as fast.)
TURNED_ROWS = 8
# And of these columns at most, and those of words turned over too.  (Zen 4, one thread, beside strips: 2000×512×10 as they lie 0.42, 2048×512×12 turned over 0.52; bytes beside tiles in place: by 12 0.42 and 0.15, by 24 and 48 0.84, 0.85 and 0.2, 0.3.)
TURNED_COLUMNS, TURNED_WORDS = 16, 48
# The same of bytes that are multiplied in tiles else, and rows up to which their columns are streamed by.  (Granite Rapids, one thread, turned over or streamed beside packed tiles: 2048×512×4 0.74, ×12 1.9, 1000×1024×5 0.8, 4000×1024×16 1.96; 1, 2, 4 rows by 1024² 0.45, 0.8, 1.3, 8 2.7, 4 and 16 by 256² 1.3 and 4 times as long.)
TURNED_TILES, STREAMED_TILES = 6, 3
DOTTED_BLOCKED = 16  # and rows for which they are read so in blocks; with more they are packed
# The same where there are registers for tiles of four rows.  (Zen 4, f32, against panels of each thread's own: 20 rows of 1000² and 2048² 0.70 and 0.67 of the time, 24 of 1024 × 4096 0.98 and with two threads 0.81, 32 of it and of 4096 × 1024 1.0 and 0.86, 48 of 1000² and 2048² 0.92 and more than 1; AVX2, tiles of two rows, 20 of 2048² 1.34.)
DOTTED_TILES, DOTTED_DOUBLES = 32, 20
OWN_ROWS = 128  # rows for which each thread packs its own panels of columns
STRIP_ROWS = 48  # rows of each thread from which on it packs strips of columns for itself (two threads, f32, against panels of each thread's own columns: 112×1000×1000 0.99, 96×512×2000 1.05, 100×512×512 1.09, 112×300×300 1.15, 120×512×200 1.36, 64×512×2000 0.91 × as fast)
# Rows of each thread from which on it does so in pieces of a deep reduction, and columns for each of them, where the result is small, as a layer's gradient by its weights is (two threads, f32, against panels; rows side by side: 5000×128×128 1.5, 20000×64×64 1.67, 8000×100×100 1.36, 4096×256×256 1.2 to 1.5, 1500×350×350 1.0, 2048×512×512 0.76 × as fast; along the reduction 64×20000×64 1.48, 64×1000×256 1.11).
DEEP_ROWS, DEEP_WIDTH = 24, 4
STRIP_DEPTH = 32  # and elements of the reduction: with fewer, what takes the time is the result, which strips go through in short pieces (1000 × 16 × 1000: 0.85 × as fast as whole rows), and no copy pays (Granite Rapids, one thread, in place beside panels: 30000×17×64 0.47, 10000×20×200 0.65, 1000×24×1000 0.84, 10000×32×200 0.68 of the time)
STRIP_TILES = 64  # tiles of rows that strips go by before the next rows: what they read of 512 along the reduction stays in the second cache
# Multiply-adds for each lane of a vector from which on strips are packed, and up to which rows that are read in place are no slower than panels of them.  (Golden Cove, one thread, f32, arrays 16 bytes off a line, against tiles in place: 136³ and 144³ 0.85, 176³ 0.87, 128×144×256 0.83, 128³, 128×512×100, 256×96×256 and 192³ 0.96, 160³ and 128×256×128 1.05 × as fast; against panels, two threads: 256³ 1.2, 384³ 1.1, 512³ 1.05; f64 256³ 1.25.)
STRIP_WORK, MOST_STRIP_WORK = 7 << 16, 1 << 23
MOST_SIDE_WORK = 4194304  # the same where a tile's rows lie side by side, so that each step reads another line (one thread, f32, against panels: 256³ 1.08, 384³ 1.07, 512³ 0.96 × as fast)
SCREENED = 8  # registers that do not accumulate where two ways to multiply meet after a tile: clang 14 spills accumulators inside the loop with fewer
PIECE_DEPTH = 64  # of the last axis of a reduction from which on shared panels hold one position of the others (two threads: 3×70×1301×81 1.6, 4×700×301×801 1.2, 8×1000×500×1000 1.1 × as fast; 50×60×64×40, with little work in each, 0.66)
STREAM_TILES = 8  # column tiles whose sums stay in the first cache while the column operand streams by
# Bytes of the last cache that a core can count on, for a result and for what it is made of: a rented one shares it with strangers.  (Two cores beside 260 MB: copies of 8 MB 44 GB/s by plain and 61 by streaming stores, of 32 MB 25 and 53; what was stored is then read at 60 and 52 in place of 31.  Two beside 32 MB, one thread and two, past the caches: relu of 8, 10, 12, 16 MB 1.42, 1.1, 0.8, 0.7 and 0.5 to 1.5, 1.2, 0.87, 0.66 of the time, x + y, whose three tensors are half as large again, of 4, 6, 8, 12 1.06, 0.84, 0.53, 0.61 and 0.95, 1.14, 0.64, 0.66; AVX2 relu of 8, 10, 12 1.7, 1.3, 0.98, x + y of 4, 6, 8 1.26, 1.05, 0.63.)
SHARE = 12 << 20
STREAM_DEPTH = 8  # its rows that are read side by side: so many products before a sum goes back to memory
WINDOW_ROWS = 4  # rows of results that share a copy of what their windows read
# The same where vectors are along the row, so that a copy is used for a few results only, and rows of results that share what is loaded of the filter and the loops over it.  (Depthwise, 64 channels of 56 × 56 by 3 × 3, two threads: 16 rows and tiles of 2 1.6 times as fast as 4 rows one by one, 8 and 2 1.5, 16 and 4 1.5; 64 channels of 224 × 224 to 3 1.3 times; columns of a tile of short rows: loads of 64 bytes that begin anywhere lie in two lines, of 32 in one every other time.)
ALONG_ROWS, ALONG_TILE, USUAL_TAPS, NARROW_ROW = 16, 2, 3, 8
# Threads that share blocks of WINDOW_ROWS evenly: more have other axes to share, and shorter blocks copy more than they use.  (28 × 28, 128 channels to 128, two threads, eight blocks for seven 1.13 times as fast.)
EVENLY = 4
EVEN_ROWS = 8  # positions of a tile where tiles as long as registers allow are emptier: rows of a power of two fill them, and with two vectors of columns there are more sums than are in flight
WINDOW_TILES = 8  # register tiles of a block: along such a row, fewer where it has several, for its copy has room for whole blocks (Granite Rapids, one thread, 3 × 3, 2 for 8 along a row: rows of 12 of 256 channels 0.92, 14 0.90, 28 of 128 0.94, 56 of 64 0.96, 112 1.0 of the time, AVX2 0.95, 0.91, 1.0; rows alone, with 5 and 9 taps 1.03)
TURN_ROWS = 16  # rows of results for which a panel of columns is packed that is used by one thread alone
# Of its reduction at a time, where there are few taps beside: whole squares that are turned over, however many taps, and a piece of a panel stays in the first cache for all tiles.
# (7 × 7 positions, 512 channels to 512 by 3 × 3: 1.26 times as fast as by 2 where the number of taps is free, 1.1 times as fast as by 64 where it is fixed.)
TURN_DEPTH, TURN_TAPS = 16, 64
TURN_LONG = 2  # the same where the rest of the reduction may be as long as one likes
TURN_PANELS = 2  # wide panels from which on tiles of half a row and a wide panel, which one thread packs, take less time than those of few positions and a panel that threads pack together: one for each of two threads
TURN_IMAGES = 4  # and positions along the axis before
STRIP_PANELS = 4  # panels of columns that are copied side by side (1024² floats, rows of 4 KiB: 0.9 ms for 1.3 of 20; with 8 and 16 the same)
# Of the second cache the part that a panel of packed columns may take which comes from there, and bytes of it that such a panel has in the first at least.  The deeper panels are, the less often partial sums come and go.  (Golden Cove, 2 MiB, two threads, f32, 1024 for 512: 1000³ and 1536³ 1.05 × as fast.)
PANEL_PART, PANEL_LEAST = 16, 2
# Where there are fewer registers, and register tiles are low: the part of the first cache that a panel has.  (Granite Rapids, AVX2, depths of 256 for 1024, gemm of 512³ to 1536³: f32 1.01 to 1.12, two threads 1.04 to 1.08; f64 1.09 to 1.16, two threads 1.18 to 1.21 × as fast.)
MANY_REGISTERS, LOW_PART = 32, 2
# Bytes from which on the last cache is that of many cores, and a panel from there is waited for (Golden Cove, 105 MiB, asked for ahead: 1000³ 1.07, 2048³ 1.2 × as fast)
FAR = 64 << 20
COLUMN_TILES = 4  # register tiles of columns in a block: it amortises the copy, and there are blocks enough to be shared evenly
FEW_COLUMNS = 8  # with fewer columns, most lanes of a vector of them are empty: vectors along the row do more
FEWER_COLUMNS = 2  # the same where vectors along the row would be gathered
PIECES = 64  # of a reduction without parallel loops, at most: enough to be shared evenly by as many threads as read memory at its full speed
PIECE = 4096  # elements of such a piece, or a multiple: what one core sums faster than another is woken
# Bytes that are asked for ahead of time: of rows that memory chooses (300 floats 1.3 × as fast, 32 1.2 ×), and of what a long axis reads in order, across the end of a page (exp of 4096² by 1, 2, 4 and 8 KiB ahead: 0.97, 1.02, 1.04 and 1.07 of a copy, without 0.96).  With less one waits, with more the first cache loses what it holds.
AHEAD = 8192
# Places at once in which the next row is asked for.  In one thread that waits for each line (10 GB/s), softmax and logsumexp of 4096² take 0.88 and 0.84 of the time with one place, layer norm 0.71.
PLACES = 4
NEXT_ROW_CACHE = 2  # how near it comes: in the first cache it would take the place of the row that is worked on, and of what all rows share (rows of 4096: RMS norm 1.02 to 1.07, layer norm 1.0 to 1.2 times as fast)
# Of the first cache the part that a row may take where the next one comes there all the same, since rows share nothing: results, or what they are made of, have their places there too.  (4096²: softmax 0.92, logsumexp 0.95 to 0.97, log_softmax 0.85 to 1.0 of the time, layer norm without scale and shift 0.86, rows divided by their norm 0.90; logsumexp of 1024 × 16384 0.96.  Where strangers share the cores, softmax 0.99 to 1.05.)
ROWS_NEAR = 3
# Bytes after which such a hint is given again, beside stores that go past the caches, and once more; rows that are longer than so many.  Stores that wait for memory take each buffer that becomes free, and hints that find none are dropped: the row is read by the pass that it was asked for.  (Zen 4, RMS norm of 4096² 0.93 of the time where a copy is 54 GB/s, in one thread 0.84, of 1000 × 16384 0.87; of 4096 × 4097 0.88; of 2048 columns 1.04, in the second cache 1.08; by AVX2, whose stores of half a line take longer to issue, 0.97 to 1.07, so not there.  By hand, 40 instructions that do nothing beside each line, for which stores do not pile up, 0.7 in one thread, 0.9 in two.)
AGAIN, AGAIN_ROW = 2048, 8192
# Passes over rows that come from memory, side by side: rows of a block, where before the first and behind the last a pass has none beside it; turns of the columns, with fewer what is done beside them weighs more (softmax of 256 to 3000 columns 0.79 to 0.93, of 100 and 160 0.98, of 128 whose rows begin anywhere 1.6 of the time); places where the next row is asked for (with four, rows of 2048 take 0.93 and not 0.82 of the time, others as long).
REGISTERS_IN_TURN = 32  # at least, for passes side by side: AVX2 with 16 is slower so, why was not looked into (Zen 4, softmax of 4096² floats 1.16 times as long so by clang, 1.28 by gcc)
ROWS_IN_TURN, TURNS_IN_TURN, PLACES_IN_TURN = 64, 4, 2
BLOCKS_IN_TURN = 4  # for each thread, at least: fewer are shared unevenly
# Of what memory takes the part that they may compute for, or more of it: with more to compute than that, memory does not wait (softmax of f32 0.86 to 0.97, of f64 0.87 to 0.99, of bf16 1.0 to 1.03, of tanh 1.0 to 1.04 of the time; where none computes for long, rows divided by their norm 0.93 to 1.02).
COMPUTED_IN_TURN = 2
KEPT_IN_TURN = 2  # rows that lie between the passes (softmax of the sum of two matrices, with three of them, 0.92 to 1.19 of the time)
NEXT_ROW = 4  # of the second cache the part that a row may take which is asked for while another is worked on (layer norm: rows of a quarter of it 0.8 of the time, of a half 1.15)
MATRIX_AHEAD = 32  # rows of a matrix that are asked for ahead of a register tile: of tiles of 64 floats, which read half of a row of 128 each, as many bytes as `NEAR` (from memory 16 rows take 1.15 to 1.2 × as long, 64 as long as 32; from the second cache 16 rows 0.98)
CHUNK_ROWS = 8  # rows of results for which a matrix is read in chunks: some register tiles, and as many as a block of few rows has
CHUNK = 32  # rows of such a chunk: two of 128 floats are in the first cache (eight queries, two threads, against tile by tile: 64 floats 1.14 to 1.18, 128 floats 1.06 to 1.17 times as fast; with 64 rows these 0.99 to 1.08)
LOW_ROWS = 16  # that share a matrix so low that a strip of it stays in the first cache, from which on they go by strip by strip (triangular systems)
CHUNK_PART = 3 / 4  # of the first cache that two chunks may take, the one that is read and the next
POINTERS = 8  # rows that are read side by side: their addresses, and those of what is asked for, are in registers (16 of them: 1.15 × the time, from the second cache)
NEAR = 8192  # bytes ahead that is asked for of what a loop reads once, from one end to the other, in pieces: as much as a core needs on its way for 60 GB/s (with 4096 0.85 of it); twice that leaves the first cache too soon
# Bytes ahead that are asked for into the second cache beside, and chunks of `CHUNK` rows, where a buffer comes from memory (`far_least`): that answers later than the last cache, and the first cache has few lines on their way at a time.  (Two threads, a cache of 8192 positions, 128 floats deep, in busy hours: four queries of eight heads by hand 1.15 to 1.45 times as fast, with 16 KiB as fast as with 64, in a calm hour no faster; one query of eight heads 1.08, of 32 heads 1.1.)  Tiles of a long axis ask so far ahead too (Zen 4, against the next tile in four places at once: logsumexp of 4096² 0.78 to 0.86, of 10^7 0.84 to 0.92, layer norm of 200 × 100000 0.93, log_softmax of 1000 × 20000 0.86 to 0.99, of 4096², whose rows are read again, 0.96 to 1.08 of the time; 16 KiB ahead logsumexp of 4096² 0.87 to 0.94, 8 KiB 1.1 to 1.2).
NEXT_FAR, FAR_CHUNKS = 32768, 3
# What comes from memory is asked for so often at most, from so many bytes ahead on, and fewer times the more vector operations a line takes: one fewer for each time that these fit into so many.  A core waits for few lines at a time, and drops what it is asked for beside them; where a line is soon worked on, that is the rule.  Where nothing is dropped, each hint costs the second cache a turn.  (Zen 4, two threads, a cache of 8192 positions, f32, against once; where a plain read is 100 GB/s, 55, 30: one query of eight heads 128 floats deep, twice 0.98, 0.90, 0.84, three times 1.06, 0.87, 0.81, four times 1.19, 0.86, 0.76; one of 32 heads 64 deep, from memory, 0.85, 0.77 and 0.73;
# four queries of eight heads twice 0.88, 0.98, 0.89, three times 0.96, 0.94, 0.87, four times 1.05, 0.91, 0.92; eight 64 deep four times 1.02 to 1.05, and with AVX2 four 1.0 to 1.18.  From 32 to 64 KiB ahead all takes as long.
# Of buffers that the last cache may hold, from 8 to 32 MB, three times costs one query 1.33 of the time in a calm hour and brings 0.78 in a busy one, so they are asked for once, 1.09 and 0.97.)
FAR_TIMES, DROPPED_WORK, FARTHEST, FARTHEST_CHUNKS = 3, 4, 49152, 6
FAR_LEAST = 24 << 20  # bytes of a matrix from which on the rows of a sum are asked for from memory
# Bytes ahead of which rows that one reduction reads are asked for in the second cache where they come from memory, and of such a row at least, on machines with a wide first cache.  (Granite Rapids, one thread and two, sums of rows of 64, 128, 512, 4096, 16384 floats, 60 to 80 MB: 0.58 to 0.82 and 0.92, 0.77 and 0.84, 0.98 and 0.88, 0.99 and 0.97, 0.99 and 1.0 of the time, by 8 and 32 KiB as long; of 33, between two loops of the same rows one of which asks, 1.25 and 1.5;
# from the last cache, 2048², as long; from the second one 1.3.)
ONCE_AHEAD, ONCE_ROW = 16384, 256
# Bytes ahead of which machines with a wide first cache are asked for short rows that are worked off together, to be read and to be stored into.  (Granite Rapids, one thread, 40 to 77 MB, 1, 2, 4 KiB: softmax of 20, 33, 64, 128 floats 0.87, 0.87, 0.86, 0.81, 0.81, 0.80, 0.97, 0.94, 1.06, 0.79, 0.90, 1.03 of the time, layer norm of 20, 40, 64, 128 0.94, 0.92, 0.89, 0.86, 0.80, 0.76, 0.87, 0.91, 0.97, 0.76, 0.86, 0.83, RMS norm 0.90, 0.79, 0.75, 0.87, 0.85, 0.81, 0.79, 0.83, 0.85, 1.0.)
GROUP_AHEAD = 2048
FAR_PART = 4  # of the last cache the part that such a buffer has at least
HELD = 256  # values between two loops that each compute a part of them: in the first cache, and many times the work of starting a loop
LONG = 1 << 16  # elements of a row that two threads share sooner than one reads them (sums, two threads: 100000 floats 4.9 µs in pieces, 4.5 in one)
WHOLE_ROWS = 16384  # columns of such a reduction where an axis outside of it is shared: memory is read from one end to the other (a vector times 4096² floats 1.1 to 1.15 times as fast as by COLUMNS)
COLUMNS = 1024  # of a reduction over rows that are read once: long pieces of each row for the prefetcher, accumulators in the first cache
SEARCHED = 4096  # positions that are looked at before it is asked whether one is found
SIDE_BY_SIDE = 64  # rows with accumulators each, of reductions that jump through memory (Zen 4, sums over first and last axis, one thread and two: 128×128×784 0.62 and 0.67, 2000×100×50 0.71 and 0.71 of the time, 64×2048×49 by 32, 64, 128 rows 2.17, 1.73, 1.69 ms; what the last cache holds, in two threads, 1.06 to 2.8)
JUMPS, FEW_LINES = 8, 4  # of a row, at least; lines of a piece that no prefetcher follows
# Bytes of a row up to which rows from memory are worked off together too, half of it with one reduction whose row is stored, and not past the caches (Zen 4, 50 to 77 MB, rows of 20, 33, 64, 100, 128 floats: layer norm 2.1, 2.3, 1.3 to 2, 1.5, 0.8 to 1.3, softmax 1.9, 2.3, 2.0, 1.5, 1.3, RMS norm 1.4, 1.8, 1.3, 0.94, 0.7, maxima of 100 1.25 × as fast).
# And vectors of all rows that are, beyond which what waits at the end of one is little beside it: a third with one reduction, a quarter with nothing behind it (softmax and norms of four rows of 1000 floats 0.84 to 1.0 of the time, of 1500 0.87 to 1.15; `docs/design/rows.md`).
TOGETHER_ANYWHERE, VECTORS_TOGETHER = 512, 256
ROWS = 4  # of such a reduction that are read side by side
WIDE_FIRST = 48 << 10  # bytes of a first cache that has room for what several rows ask for, beside what they share
# Rows of a sum that come from memory: where some are up to so many bytes in all, the next ones are asked for one after the other, longer ones side by side, so many bytes ahead.  (Zen 4, two threads, beside the latter: 30000 × 500 floats 0.65, 8000 × 2048 0.95 to 1.05, 4096² 1.0 to 1.08, 2048 × 8192 1.02 to 1.1 of the time.)
BLOCK_AHEAD, SIDE_AHEAD = 1 << 16, 2048
TURNS_AHEAD = 4  # turns of a loop over several rows that are asked for: the prefetchers of machines follow fewer streams, and none across a page
BLOCK_ROWS = 64  # rows of a block that one thread takes: more amortise nothing (a panel of columns comes from the caches anyway), fewer blocks are shared unevenly
THREADS = 256  # of a GPU block, each for a position of its own
EACH = 4  # positions of a thread (H100: x + y at 99 % of a copy, 89 % by one each)
# Threads for one row, and how much each of them reduces between two barriers, at least.  (H100, rows of 8192: layer norm 0.23 ms, 0.33 by 256, for as many rows as a processor then works on lie in its first cache, where what is read again is found; softmax, in pieces of 4096, 0.24 by 256, 0.37 by 512.)
ROW_THREADS, ROW_WORK = 512, 16
WARP = 32  # threads of a GPU that run in step and read memory together
LINES = 16  # of as many threads, one behind the other, where a reduction goes across memory (H100, sums of columns, 8192² floats: 0.125 ms, of 8 lines 0.135; of 32, beside which a thread has 64 registers, 0.121)
ALONE, WARP_ROW = 16, 1024  # most elements of a row for which one thread is enough, and for which a warp is
TILE = 16  # side of a GPU block over two axes, a thread for each cell
TURN_SIDE = 32  # of a square that a GPU's block turns over
FEW_ROWS = 8  # of a contraction on a GPU, for which a tile would be mostly empty
TURNED = 16  # side of a square block that is turned over in registers, at most: the rows fit in as many registers
SQUARE = 32  # side of a transposition's tile, element by element: 32 lines of one operand, 32 of the other, in the first cache
SHORT_ROW = 16  # lines, below which rows that begin anywhere are stored several as one where they lie one behind the other, when they are turned over (how long their tiles are: `cost_turned.py`)
# Lines of a row from which on it is stored from its first whole line to its last; shorter ones go through the caches, and rows of a few whole lines, one behind the other, past them in pieces, wherever the first begins.  (Zen 4, one
# thread, 32 to 64 MB of floats, arrays 16 bytes past a line: a bias on rows of 16, 20, 30, 48, 64 4.24, 4.93, 3.30, 1.78, 1.59 ms, cut at lines 13.9, 9.69, 8.79, 4.4 to 10, 3.42; of 100 and 200 2.88 and 2.99, cut 2.62 and 2.11;
# windows of 16 to 48 of a signal 2.4 to 2.9, by AVX2 2.4 to 2.6, cut 24 to 66.)
LEAST_LINES = 4
# The same where neighbours are read beside it, of planes that are far, as in steps of time.  (Granite Rapids, one thread, f64: fields of 1000 × 1200, 1000 × 1201, 500 × 603 0.83, 0.88, 0.90, means of 601², 1001², 1300², 2801² 0.95, 0.98, 0.94, 0.98 of the time.  What the second cache holds takes 1.05 to 1.3 of the time so.)
LINES_ANYWHERE = 32
PLANE_PART = 4  # of the second cache, which an array has that is far with a few others


class InPlace(NamedTuple):
    """Up to what packing the column operand costs more than it saves: elements of it, tiles of rows; of more rows than `rows`, multiply-adds."""

    elements: int
    tiles: int
    rows: int = 0  # 0: any
    work: int = 0


FEW = InPlace(1 << 62, 2)  # any that stays in the cache
FEW_WORDS = InPlace(1 << 15, 4)  # packed, neighbours are multiplied by one instruction
# The same of small floats, which are multiplied half as fast in place: a copy pays for rows and work enough, however large it is, later where threads wait for it.  (Zen 4, bf16, packed, one thread and two: 16×256² 1.26, 64³ 1.3, 100³ 0.84 and 1.35, 32×256² 0.74 and 1.4, 32×512² 0.8 and 1.43, 128³ 0.7 and 1.35, 20×1000² 0.8 and 1.0, 1000×20×1000 0.65 and 0.79, 4096×64×64 0.58 and 0.76 of the time.)
FEW_SMALL_FLOATS = InPlace(1 << 62, 2, rows=32, work=1 << 21)
FEWEST_ON_TILES = 9  # rows that share what is read once: fewer are done sooner by vectors (Sapphire Rapids, a cache of 8192 by 128 in bf16: eight 0.94 × as fast on tiles, nine 1.1, twelve 1.2, sixteen 1.7)
FEW_OF_TILES = InPlace(1 << 11, 2)  # and tiles of them (64³ as fast, 128³ 3 × as fast packed; 32 rows by 1024² 1.4 ×, 16 rows 0.8)


# Elements of columns that lie along the reduction from which on they are the rows of tiles where there are fewer rows: squares that are turned over take longer than copies.  (Granite Rapids, one thread, bf16: 16, 64 and 256 rows by 1024² 0.6, 0.7
# and 0.85, 16 by 4096² 0.5, 512 by 1024² 0.9, 1000³ 1.05, 16 by 512² 1.06, 16, 64 and 256 by 256² 1.16, 1.02 and 1.03 of the time.)
EXCHANGED = 1 << 19


class Blocking(NamedTuple):
    """Register tile rows × columns, depth of a panel, tiles of a row block; rows of a tile without packing, and rows and columns of a wider one (0: none); and why."""

    rows: int
    columns: int
    depth: int
    tiles: int
    direct_rows: int
    reasons: tuple[str, ...]
    wide_rows: int = 0
    wide_columns: int = 0
    deep: int = 0  # the depth where panels are shared by all threads


def blocking(target: Target, dtype: DType, spare: int = 4) -> Blocking:
    """The blocks of a contraction that accumulates in `dtype`; so many registers do not."""
    lanes = target.lanes(dtype)
    columns = VECTORS * lanes
    rows = max(1, (target.vector_registers - spare) // VECTORS)
    panel = columns * dtype.bytes
    depth = _power_below(PANEL_LEAST * target.l1 // panel, 64, 1024)
    deep = _power_below(max(PANEL_LEAST * target.l1, target.l2 // PANEL_PART) // panel, 64, 1024)
    comes = f"is a small part of the second cache ({target.l2 >> 10} KiB), and partial sums seldom come and go"
    if low := target.vector_registers < MANY_REGISTERS:
        deep = _power_below(target.l1 // LOW_PART // panel, 64, 1024)
        comes = f"stays in the first cache ({target.l1 >> 10} KiB), for so low a tile needs the next of its vectors soon"
    tiles = max(1, min(BLOCK_ROWS // rows, target.l2 * 2 // 5 // (rows * deep * dtype.bytes)))
    reasons = (
        f"register tile {rows}×{columns}: {rows * VECTORS} of {target.vector_registers} vector registers accumulate, the others hold {VECTORS} vectors of columns and a row's element",
        f"blocks of {depth} along the reduction: a panel of {columns} columns ({depth * panel >> 10} KiB) streams through the first cache ({target.l1 >> 10} KiB)"
        if deep == depth and not low
        else f"blocks of {deep} along the reduction: a panel of {columns} columns ({deep * panel >> 10} KiB) {comes}",
        f"row blocks of {tiles} tiles: {tiles * rows} rows, few enough to be shared evenly; their {tiles * rows * deep * dtype.bytes >> 10} KiB stay in the second cache ({target.l2 >> 10} KiB)",
    )
    wide_rows = (target.vector_registers - WIDE_VECTORS - 1) // WIDE_VECTORS
    wide = (wide_rows, WIDE_VECTORS * lanes) if wide_rows * WIDE_VECTORS > min(rows, DIRECT_ROWS) * VECTORS else (0, 0)
    return Blocking(rows, columns, depth, tiles, min(rows, DIRECT_ROWS), reasons, *wide, deep=deep)


def tile_blocking(target: Target) -> Blocking:
    """The blocks of a contraction that is multiplied by an instruction on tiles; the depth in words."""
    side = MOST_TILES * SIDE
    depth = _power_below(target.l2 // 16 // (side * u32.bytes), SIDE, 1 << 12)
    tiles = max(1, target.l2 * 2 // 5 // (side * depth * u32.bytes))
    reasons = (
        f"tiles of {side}×{side}: {MOST_TILES * MOST_TILES} of the tile registers accumulate, the others hold the operands",
        f"blocks of {depth} words along the reduction: a panel of {side} rows or columns ({depth * side * u32.bytes >> 10} KiB) and those that it meets stay in the second cache ({target.l2 >> 10} KiB)",
    )
    return Blocking(side, side, depth, tiles, DIRECT_ROWS, reasons, deep=depth)


def strip_depth(target: Target, rows: int, size: int) -> int:
    """Elements of the reduction for which a thread's rows, which all strips go by, stay in the second cache with a strip beside them.  Where that is all that a thread has of them, strips are packed once by each, and the
    amount of work does not count (Emerald Rapids, 2 MiB, two threads, f32, against panels: 576³ 1.13, 640³ 1.08, 768³, 768×400×768 and 500×768×1000 1.07, 512×2048×512 1.09 × as fast; 896³, with two blocks of rows each, the
    same, 1024×512×1024 0.92, 512×512×4096 0.93)."""
    return target.l2 * 3 // 5 // (rows * size) // 256 * 256


def panels_ahead(target: Target) -> bool:
    """Whether the next packed panel is asked for while one is worked on."""
    return target.l3 >= FAR


def stream_bytes(target: Target, stored: int = 1, read: int = 1) -> int:
    """From how many bytes on a result is stored past the caches: where it does not fit in our cores' part of the last one together with what it is made of, `read` bytes for each `stored`.  0: never, where whole lines are no vectors."""
    return min(target.l3, SHARE * target.cores) * stored // (stored + max(stored, read)) if target.vector_bytes >= 16 else 0


class Streams(NamedTuple):
    """Rows of a reduction that are read side by side, and from how many bytes of a buffer on they are asked for in the second cache, one after the other (0: as machines with a wide first cache do)."""

    rows: int
    least: int


def places(target: Target) -> int:
    """In how many places at once the next row is asked for: machines with a small first cache follow what is asked for in order.  (Zen 4, against four places, clang and gcc: layer norm of 4096² 0.92 and 0.98, RMS norm 0.99 and
    0.96, softmax of 1000 × 16384 0.99 and 0.99 of the time.)"""
    return PLACES if target.l1 >= WIDE_FIRST else 1


def streams(target: Target) -> Streams:
    """A first cache of less than `WIDE_FIRST` has no room for what several rows ask for: what comes from memory is asked for in the second one, what the caches hold not at all, and more rows go by each sum.  (Zen 4, 32 KiB,
    two threads, f32: a matrix times a vector of 1000² and 1500² 0.89, 2048² 0.97 of the time of `TURNS_AHEAD` turns in the first cache; a vector times a matrix of 2048² 0.98, of 1000² 1.03 with eight rows in place of four; asked for
    although it is in the last cache, 2048² takes 1.1.)
    """
    return Streams(ROWS, 0) if target.l1 >= WIDE_FIRST else Streams(2 * ROWS, FAR_LEAST)


def far_least(target: Target) -> int:
    """Bytes of a buffer from which on it is taken to come from memory: others are read beside it, and the last cache serves more than one core.  (Zen 4, 32 MiB, two threads, keys and values of eight heads together: 33.6 MB, eight
    queries 64 floats deep 0.91, four 128 deep 0.57, one 0.63 of the time without; 16.8 MB 0.97, 1.01 and 1.0; Golden Cove, 105 MiB, buffers of 16 MB 1.06.)
    """
    return target.l3 // FAR_PART


def far_hints(target: Target, rows: int) -> dict[str, int]:
    """How so many rows of results, which share what they read, ask for what comes from memory: options of `prefetch`."""
    times = _times(target, rows)
    far = {"near": FARTHEST, "times": times} if times > 1 else {"near": NEXT_FAR}
    if times == FAR_TIMES:
        far["often"] = target.l3
    return {**far, "cache": NEXT_ROW_CACHE, "least": far_least(target)}


def far_chunks(target: Target, rows: int) -> dict[str, int]:
    """The same of `prefetch_chunk`."""
    times = _times(target, rows)
    far = {"chunks": FARTHEST_CHUNKS, "times": times} if times > 1 else {"chunks": FAR_CHUNKS}
    return {**far, "cache": NEXT_ROW_CACHE, "least": far_least(target)}


def _times(target: Target, rows: int) -> int:
    """How often a line is asked for that each of so many rows of results multiplies."""
    return min(FAR_TIMES, 1 + DROPPED_WORK // (rows * max(1, LINE // target.vector_bytes)))


def chunk(target: Target, row: int) -> int:
    """Rows of a chunk of so many bytes each: half as many where two chunks are as large as the first cache.  (Zen 4, 32 KiB, two threads, four queries 128 floats deep, 67 MB of memory in a calm hour 0.90 to 0.97 of the time, in the second
    cache 1.0; eight queries 64 deep by 16 rows 1.03.)
    """
    return CHUNK if 2 * CHUNK * row <= target.l1 * CHUNK_PART else CHUNK // 2


def first_lanes(target: Target) -> bool:
    """Whether one instruction stores the first lanes of a vector, as from AVX2 on: then the border of a tile needs no code of its own."""
    return target.vector_bytes >= 32


def turned_columns(target: Target, lanes: int) -> int:
    """Columns up to which they are turned over where they could be read in place, by vectors of so many lanes.  Two multiply-adds a cycle, of whole vectors, leave no time for two loads of each.  (Granite Rapids, one thread, in place beside
    turned over, of 1000² by columns, in a quiet hour and beside other work: f32, 5 1.16, 8 0.92 and 1.48, 12 0.82 and 1.06, 16 0.74 and 0.89; f64, 4 0.88 and 1.21, 6 0.74 and 0.98, 8 0.65 and 0.91, 12 0.64 and 0.66 of the time.)"""
    return lanes * 3 // 4 if target.vector_bytes >= 64 and target.multiply_adds > 1 else TURNED_COLUMNS


def few_rows_of_blocks(target: Target) -> int:
    """Rows up to which columns in blocks are read as they lie, for lanes of a block.  (Blocks of 32 bytes, 1024², one thread.  Zen 4: 1, 2, 3 rows as they lie 38, 56, 74, in tiles of 4 70, 68, 65 µs.  Granite Rapids, which does twice as much
    in a cycle, as they lie beside tiles: 3 rows 0.65, 4 0.8, 6 1.0, 8 1.24 of the time; of 4 bits 0.68, 0.8, 1.0, 1.33; 3 and 4 rows by 4096² 0.57 and 0.7.)"""
    return 4 if target.vector_bytes >= 64 and target.multiply_adds > 1 else 2


def rows_together(target: Target) -> int:
    """Rows with accumulators each that share an operand, as far as there are registers for all."""
    return _power_below((target.vector_registers - LOADED) // ACCUMULATORS, 1, ACCUMULATORS)


def rows_dotted(target: Target, size: int) -> int:
    """Rows for which columns of elements of so many bytes that lie along the reduction are read as they lie, in blocks of it.  (Granite Rapids, one thread, f64, in panels of each thread's own beside them: 20, 24, 28 and 32 rows of 1024² 1.1 to
    1.2, 0.9, 1.0 and 0.83, 32 of 2048² 0.72 of the time.)"""
    if rows_together(target) != ACCUMULATORS:
        return DOTTED_BLOCKED
    return DOTTED_DOUBLES if size >= 8 and target.multiply_adds > 1 else DOTTED_TILES


def rows_ahead(target: Target) -> int:
    """Bytes ahead of which rows that share an operand are asked for in the second cache, in the order of addresses: as much as the rows of an iteration are in most cases, for then all of them are there when it begins.
    (Zen 4, 1 MiB, two threads, f32, beside four rows with four vectors each that are asked for 2 KiB ahead side by side: a matrix times a vector of 4096² 0.76, 4100² 0.81, 30000 × 500 0.62, 2048 × 8192 0.81, 512 × 32768 0.99 of the
    time; half as far 1.02, twice as far 1.08 of that.)
    """
    return target.l2 // 4


def short_rows(target: Target, widest: int, reductions: int, alone: bool, stored: bool) -> tuple[int, int]:
    """Elements of so many bytes up to which rows are worked off together from the caches, and wherever they come from; `alone` where a reduction is all that is done, `stored` where the row is."""
    vectors = VECTORS_TOGETHER // (1 if reductions > 1 else 4 if alone else 3) // rows_together(target)
    short = vectors * max(1, target.vector_bytes // widest)
    return short, min(short, TOGETHER_ANYWHERE // widest // (2 if reductions == 1 and stored else 1))


def columns_in_lanes(elements: int, size: int, lanes: int) -> bool:
    """Whether rows of so many elements, of so many bytes each, are put into columns of so many lanes."""
    return 2 <= elements <= COLUMNS_IN_LANES and (size >= BYTES_IN_LANES or (elements > 2 and lanes <= NARROW_LANES))


def rows_in_lanes(width: int) -> tuple[tuple[int, int], ...]:
    """Tiles of sums with rows in the lanes of a vector, (vectors, rows of each): a quarter of the lanes or so, so that few of them are put together, and pieces that are loaded repeated take no shuffle; then
    half as many.  Two vectors of rows share each piece: with one, there are as many loads as multiplications.
    """
    rows = 1 << (width.bit_length() - 1) // 2
    return tuple((2, n) for n in (rows, rows // 2) if n > 1)


def tiles_of_scores(target: Target, width: int) -> tuple[tuple[int, int], ...]:
    """Tiles of sums along rows, (rows, neighbours), each loaded once for all of the other: as many sums as a vector has lanes, which one fold puts together.

    The one nearest to a square comes first, for it loads least, then those of ever fewer rows.
    """
    rows = 1 << (width.bit_length() - 1) // 2
    tiles: list[tuple[int, int]] = []
    while rows > 1:
        if width + width // rows < target.vector_registers:
            tiles.append((rows, width // rows))
        rows //= 2
    return tuple(tiles)


def accumulators(target: Target, sums: Sequence[DType], width: int, slow: bool = False, most: int | None = None) -> int:
    """Vectors side by side for each of several sums that share a loop, as far as there are registers for all; `slow`, where some are maxima of floats, of `most` elements or of any number."""
    each = sum(max(1, width * dtype.bytes // max(1, target.vector_bytes)) for dtype in sums)
    long = most is None or most >= TURNS * MOST_ACCUMULATORS * width
    return _power_below((target.vector_registers - LOADED) // max(1, each), 1, MOST_ACCUMULATORS if slow and long else ACCUMULATORS)


def columns(target: Target, sums: Sequence[DType], shared: bool) -> int:
    """Columns of a reduction over rows that are worked off side by side: all its accumulators stay in the first cache, beside what is read.  No more than a few pages of them where the threads are to share the columns."""
    return _power_below(target.l1 // 2 // max(1, sum(dtype.bytes for dtype in sums)), TURNED, COLUMNS if shared else WHOLE_ROWS)


def _power_below(x: int, least: int, most: int) -> int:
    """The largest power of two ≤ x, within bounds."""
    power = least
    while power * 2 <= min(x, most):
        power *= 2
    return power


def square(target: Target, width: int) -> int:
    """The side of a block of so many lanes that is turned over in registers: as many rows as a vector has lanes where there are registers for them, since only whole vectors are whole lines."""
    return width if width <= target.vector_registers else min(width, TURNED)


def lanes(target: Target, dtype: DType | None) -> int:
    """Elements of one vector of a loop whose widest dtype is this; 1 where vectors do not pay."""
    return 1 if dtype is None or dtype.kind == "complex" else target.lanes(dtype)


def images(target: Target, dtype: DType, positions: int) -> int:
    """Images of so many positions each that share a panel which one thread packs: with as many products for each element of it as where TURN_IMAGES have TURN_ROWS rows of half a tile.

    (Zen 4, 3 × 3 filters of 64 channels from 54 × 54 positions, one thread: 64 channels at a time for 20 0.95 of the time, AVX2 for 4 half of it.)
    """
    products = TURN_IMAGES * TURN_ROWS * (blocking(target, dtype).rows // 2)
    return max(TURN_IMAGES, 2 * _power_below(products // max(1, positions), 1, products))


def few_positions(height: int, width: int, block: Blocking) -> tuple[int, int, int]:
    """A tile of sums for an image of so few positions, as (rows, row, columns): as many whole rows as its accumulators hold, all tiles alike; of one vector of columns where of two more would be empty."""
    lanes = block.columns // VECTORS
    tiles: list[tuple[float, int, int]] = []
    for vectors in range(VECTORS, 0, -1):
        most = max(1, block.rows * VECTORS // (vectors * width))
        rows = -(-height // -(-height // most))
        full = height / (rows * -(-height // rows))
        tiles.append((full * min(1, rows * width * vectors / IN_FLIGHT) * (ONE_VECTOR if vectors == 1 else 1), rows, vectors))
    _, rows, vectors = max(tiles, key=lambda t: t[0])
    return rows, width, vectors * lanes
