"""Schedule steps keep the meaning: each by itself, and random scripts of them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from luminal.ir.kernel import Loop, Module, statements
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.schedule import Facts, StepError, apply, replay, schedule, unique
from random_schedules import random_line
from scheduling import CPU, HALVES, KERNELS, module, same

ELASTIC = "split i 3 tail=pad\nexpand acc i.1\nfission i.1 around=p\nreorder p i.1.b\nexpand tile i.1.b"
IN_BLOCKS = "split j 16 tail=pad\nsplit j.1 8\nsplit j.1.1 4\nreorder j.0 i\nvectorize j.1.1.1\nunroll j.1.1.0"
TILE = "split i 2 tail=pad\nsplit j 16 tail=pad\nsplit j.1 8\nsplit j.1.1 4\nreorder i.0 j.0 j.1.0 i.1 j.1.1.0 j.1.1.1\nvectorize j.1.1.1\nunroll j.1.1.0\nunroll i.1"
CHUNKS = "split p 8\nsplit i 4 tail=cut\naccumulate p.0 outside=i.1 space=private\nsplit i.1 2 tail=perfect\nsplit j 32 tail=cut\nexpand acc j.1\nfission j.1\nreorder p.1 j.1.b\nvectorize j.1.b"
PANELS = "split i 2 tail=pad\nsplit j 32 tail=pad\nreorder j.0 i.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nreorder p i.1.b j.1.b\nstage B j.0 p j.1.b space=shared"
# partial sums of blocks along p
BLOCKS = (
    "split p 3\n{}split i 2 tail=pad\nsplit j 32 tail=pad\nreorder i.0 j.0 i.1 j.1\n{}expand acc i.1 j.1\nfission i.1 j.1\nreorder p.1 i.1.b j.1.b"
)
ASKED = "split i 2 tail=pad\nsplit j 4 tail=pad\nreorder i.0 j.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nonce i.1.c j.1.c"
SQUARES = "split i 4 tail=cut\nexpand acc i.1\nfission i.1\nreorder j i.1.b\nsplit j 4 tail=cut"
# what a GPU's block does with a tile: a thread for each 2×2 of 4×4, operands through memory that its threads share
GPU_TILE = (
    "split i 4 tail=pad\nsplit i.1 2\nsplit j 4 tail=pad\nsplit j.1 2\nreorder i.0 j.0 i.1.0 j.1.0 i.1.1 j.1.1\nsplit p 4 tail=pad\nfactors p.1\n"
    "expand acc i.1.0 j.1.0 i.1.1 j.1.1\nfission i.1.0 j.1.0 i.1.1 j.1.1\nreorder p.0 i.1.0.b j.1.0.b p.1 i.1.1.b j.1.1.b\nserial p.0\n"
    "stage A p.1 i.1.0.b i.1.1.b at=p.0 space=shared order=i.1.0.b,i.1.1.b,p.1 spare=3\nstage B p.1 j.1.0.b j.1.1.b at=p.0 space=shared\n"
    "collapse i.0 j.0\nbind i.0_j.0 block.x\ncooperate i.0_j.0 4"
)
# cells of an array, which each thread has of each row that it has
CELLS = (
    "split i 4 tail=pad\nexpand t i.1\nportion 8 t\nfission i.1 around=k,j,l\nsplit i.1 2\nsplit k 2\nsplit i.1.b 2\nsplit j 2\nsplit i.1.c 2\nsplit l 2\n"
    "reorder i.1.0 k.0 i.1.1 k.1\nreorder i.1.b.0 j.0 i.1.b.1 j.1\nreorder i.1.c.0 l.0 i.1.c.1 l.1\ndivide t 1 4 2\ndivide t 0 2 2\n"
    "collapse i.0 i.0.n\nbind i.0_i.0.n block.x\ncooperate i.0_i.0.n 8"
)
GOOD = {
    "cooperate": ("softmax", "bind i block.x\ncooperate i 8"),
    "cooperate beside other threads": ("column_sum", "split j 4\nbind j.1 thread.x\nbind j.0 block.x\ncooperate j.1 4"),
    "cooperate on all there is": ("total_sum", "whole all\nbind all block.x\ncooperate all 2"),
    "cooperate on what a row gives too": ("two_reductions", "bind i block.x\ncooperate i 4"),
    "cooperate on a tile": ("gemm", GPU_TILE),
    "cooperate on a tile, with threads left over": ("gemm", GPU_TILE.replace("cooperate i.0_j.0 4", "cooperate i.0_j.0 8")),
    "cooperate on the cells of an array": ("onto", CELLS),
    "portion": ("onto", "portion 4 t"),
    "portion of what rows have side by side": ("onto", "split i 2 tail=pad\nexpand t i.1\nportion 4 t"),
    "divide": ("onto", "portion 6 t\ndivide t 0 3 2\nsplit k 2\nsplit j 3"),
    "gaps": ("onto", "split i 2 tail=pad\nexpand t i.1\nportion 4 t\ngaps t 3"),
    "onto": ("onto", "split j 4\nexpand acc j.1\nfission j.1\nonto acc"),
    "onto one element": ("onto", "onto acc"),
    "partials": ("row_sum", "split p 8 tail=pad\nreorder p.1 p.0\npartials p.1"),
    "partials of two loops": ("row_sum", "split p 8 tail=pad\nsplit p.1 4\nreorder p.1.0 p.1.1 p.0\npartials p.1.0 p.1.1"),
    "fetch": ("gemm", f"{GPU_TILE}\nfetch p.0 A.packed B.packed"),
    "ring": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed"),
    "ring of two places": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed slots=2"),
    "ring, copies behind the products": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed slots=4 behind=1"),
    "ring, whole pieces first": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed\npeel p.0 fixed=1 over=i.0_j.0.t"),
    "fetch, all before any is stored": ("gemm", f"{GPU_TILE}\nfetch p.0 A.packed B.packed ahead=0"),
    "factors": ("gemm", "split p 4 tail=pad\nfactors p.1"),
    "stage with room between": ("gemm", "stage B j p space=shared spare=3"),
    "once": ("taken_again", ASKED),
    "once, in vectors": ("taken_again", f"{ASKED}\nvectorize j.1.e\nvectorize j.1.f\nunroll i.1.e\nvectorize j.1.g"),
    "split guard": ("pointwise", "split i 4\nsplit j 3"),
    "split cut": ("softmax", "split p 4 tail=cut\nsplit p.t 2 tail=cut\nsplit i 3 tail=cut"),
    "split aligned": (
        "softmax",
        "split p 8 tail=cut\nsplit p.t 2 aligned=1\nsplit q 4 tail=cut\nsplit q.t 2 tail=cut aligned=1\nsplit i 8 tail=cut\nsplit i.t 4 tail=pad aligned=1",
    ),
    "split pad": ("softmax", "split i 4 tail=pad"),
    "split pad of a reduction": ("softmax", "split p 4 tail=pad"),
    "first lanes of a reduction": ("row_sum", "split p 8 tail=pad\nrfactor p.1\nvectorize p.1"),
    "split clamp": ("softmax", "split i 4 tail=clamp"),
    "split clamp of a nest": ("matmul_bias", "split i 4 tail=clamp\nsplit j 8 tail=pad\nreorder i.0 j.0 i.1 j.1"),
    "first lanes": ("pointwise", "split j 4 tail=pad\nvectorize j.1"),
    "first lanes of what is read and written": (
        "gemm",
        "split j 4 tail=pad\nexpand acc j.1\nfission j.1\nreorder p j.1.b\nvectorize j.1\nvectorize j.1.b\nvectorize j.1.c",
    ),
    "interior with guards": ("transpose", "tile i j 4 8 tail=pad\ninterior i.1 j.1 guards=1"),
    "variants": ("gemm", "variant K * N <= 20\nsplit i 4 tail=clamp\nvariant M <= 4\nsplit j 3\nvariant\nsplit p 8\naccumulate p.0"),
    "variants of a part": ("gemm", "split i 4\nvariant N <= 2\nvariant\nsplit j 3"),
    "split pad of a nest": ("matmul_bias", "split i 4 tail=pad\nsplit j 8 tail=pad\nreorder i.0 j.0 i.1 j.1"),
    "reorder": ("broadcast", "reorder j g i"),
    "reorder a reduction outside": ("column_sum", "split j 4 tail=pad\nexpand acc j.1\nfission j.1\nreorder p j.1.b"),
    "collapse": ("broadcast", "collapse g i\ncollapse g_i j"),
    "collapse a reduction": ("total_sum", "collapse p q"),
    "tile": ("transpose", "tile i j 4 8"),
    "tile padded": ("transpose", "tile i j 4 8 tail=pad"),
    "unroll": ("pointwise", "unroll j 4"),
    "vectorize": ("pointwise", "split j 4 tail=cut\nvectorize j.1"),
    "parallel": ("broadcast", "parallel i"),
    "serial": ("broadcast", "serial g"),
    "bind": ("broadcast", "split j 4\nbind j.1 thread.x\nbind j.0 block.x\nbind i block.y\nbind g block.z"),
    "interior": ("transpose", "tile i j 4 8 tail=pad\ninterior i.1 j.1"),
    "interior of an axis padded twice": ("transpose", "split j 2 tail=pad\nsplit j.1 5 tail=pad\ninterior j.1.1"),
    "interior of one axis": ("pointwise", "split j 4 tail=pad\ninterior j.1"),
    "peel": ("row_sum", "split p 4 tail=pad\npeel p.0"),
    "peel lanes": ("row_sum", "split p 4 tail=pad\nrfactor p.1\npeel p.0\nvectorize p.1"),
    "peel over rows": ("column_sum", "split j 4 tail=pad\npeel j.0"),
    "expand and fission": ("softmax", "split i 4 tail=pad\nexpand m i.1\nexpand s i.1\nfission i.1"),
    "jam": ("softmax", "split i 4 tail=cut\njam i.1"),
    "jam vectors": ("softmax", "split p 4 tail=cut\nrfactor p.1\nvectorize p.1.b\nvectorize p.1.c\nvectorize p.1\nsplit i 3 tail=cut\njam i.1"),
    "jam inside a row": ("gemm", "split j 4 tail=cut\njam j.1"),
    "jam a table of each": ("softmax_short", "tabulate q j\nsplit i 2 tail=cut\njam i.1"),
    "jam rows of any length": ("kept", "split i 2 tail=cut\njam i.1"),
    "jam what is stored": ("kept", "split i 2 tail=cut\njam i.1 stores=1"),
    "jam what a position decides": ("groups", "part j\nsplit i 2 tail=cut\njam i.1"),
    "decide": ("softmax", "short j 8\nvariant N <= 4\ndecide\nsplit j.s 2 tail=cut\nvariant\nsplit p 4"),
    "decide a tile": ("softmax", "split p 8\nserial p.0\nvariant N <= 8\ndecide\nsplit i 2 tail=cut\njam i.1\nvariant"),
    "fission around stores": ("kept", "expand m i\nexpand w i\nexpand s i\nfission i stores=s"),
    "join": ("kept", "join j q"),
    "join, in vectors": (
        "kept",
        "join j q\nsplit q 8 tail=cut\nrfactor q.1\nvectorize q.1\nsplit q.t 4 tail=pad\nrfactor q.t.1 skip=1\nvectorize q.t.1",
    ),
    "join what both store": ("kept_twice", "join j q"),
    "join before a reduction": ("both_ways", "join p j"),
    "join what is added at its own place, in vectors": (
        "both_ways",
        "join p j\njoin p k\nsplit p 8 tail=cut\nrfactor p.1\nvectorize p.1.b\nvectorize p.1.c\nvectorize p.1\nsplit p.t 4 tail=pad\nrfactor p.t.1 into=p.1.c\nvectorize p.t.1",
    ),
    "expand over a length": ("softmax", "expand m i\nexpand s i\nfission i"),
    "stage": ("gemm", "split p 4\nsplit i 4 tail=pad\nstage A p.0 p.1 i.1 at=i.0"),
    "stage once": ("gemm", "stage B j p"),
    "stage in another order": ("gemm", "stage B j p order=p,j name=T space=shared align=32"),
    "stage as long as an axis is": (
        "transpose",
        "split i 4\nstage X i.1 j at=i.0 exact=j\ncollapse i.1 j\nsplit i.1_j 8 tail=cut\nvectorize i.1_j.1\nparallel i.0\nregion",
    ),
    "stage a prologue": ("prologue", "stage A p at=i"),
    "spill": ("gemm", "split j 8 tail=pad\nexpand acc j.1\nfission j.1\nspill acc j.1.c\nspill acc j.1"),
    "spill turned": (
        "gemm",
        "split i 3 tail=pad\nsplit j 8 tail=pad\nreorder i.0 j.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nspill acc i.1.c turned=4",
    ),
    "spill turned into whole vectors": (
        "gemm_transposed",
        "split i 4 tail=pad\nsplit j 8 tail=pad\nreorder i.0 j.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nspill acc i.1.c turned=4",
    ),
    "part": ("convolution_padded", "part j 2"),
    "part by what positions are divided by": ("pieces", "part j"),
    "part into groups": ("groups", "part j"),
    "short": ("gemm", "short p 3\nsplit p.s 4 tail=pad"),
    "short of a parallel loop": ("gemm", "short j 4\nunswitch i\nsplit j.s 4 tail=pad"),
    "short of what a cut leaves": ("gemm", "split j 8 tail=cut\nshort j.t 4"),
    "short of several": ("convolution_padded", "short r 1"),
    "version": ("total_sum", "version 1 p q\nsplit p 3\nunroll q.v"),
    "version of rows": ("gemm", "split i 4\nversion 4 i.1\nunroll i.1.v"),
    "version of some": ("gemm", "split i 4 tail=pad\nreorder i.0 j i.1\nversion 1 p"),
    "share": ("gemm", "share i 3\nshare j 2 multiple=4\nreorder i.0 j.0 i.1 j.1"),
    "share from a first position": ("transpose", "split i 3 tail=cut\nshare i.t 2 whole=2"),
    "share in whole parts": ("gemm", "share i 8 multiple=2 whole=4\nshare j 6 whole=3\nreorder i.0 j.0 i.1 j.1"),
    "share beside an axis": ("broadcast", "share i 2 multiple=2 beside=g\ncollapse g i.0"),
    "share tiles": ("gemm", "split i 4 tail=pad\nshare i.0 2 multiple=2\nparallel i.0.0"),
    "deal": ("gemm", "deal i 3\ndeal j 1"),
    "deal and sieve": ("upsampled", "deal k 3\nsieve q\ndeal l 2\nsieve r"),
    "sieve by what is no class": ("upsampled", "sieve q\nsieve r"),
    "sieve and window": (
        "upsampled",
        "split l 12\nsplit k 6\ndeal k.1 3\ndeal l.1 2\nreorder k.0 l.0 k.1.0 l.1.0 j k.1.1 l.1.1\nsieve q\nsieve r\nwindow X l.1.1 k.1.1 q r at=l.1.0 multiple=3 lanes=4\nsplit l.1.1 3 tail=pad",
    ),
    "window": ("convolution", "reorder g h o\nwindow X c r at=h"),
    "window over a row": ("convolution", "reorder g o h\nwindow X h c r at=o"),
    "window with room": ("convolution", "window X h c r at=o multiple=3 lanes=4\nsplit h 3 tail=pad"),
    "window padded beyond what fills it": (
        "convolution",
        "split h 64\nwindow X h.1 c r at=h.0 multiple=8 lanes=4\nsplit h.1 8 tail=pad\nsplit h.1.0 2 tail=pad",
    ),
    "window with strides, taps apart and zeros": (
        "convolution_padded",
        "part j 2\nwindow X l k p q r at=j.1 multiple=4,2 lanes=4\nsplit l 4 tail=pad\nsplit k 2 tail=pad",
    ),
    "collapse with names": ("broadcast", "collapse i j named=1\ncollapse g i_j named=1\nparallel g_i_j"),
    "accumulate into the output": ("gemm", "split p 8\naccumulate p.0 into=C"),
    "accumulate under an epilogue": ("matmul_bias", "split p 8\naccumulate p.0 into=C"),
    "accumulate in a buffer": ("gemm_scaled", "split p 8\naccumulate p.0"),
    "accumulate in a buffer of tiles": ("gemm_scaled", "split p 8\ntile i j 2 4 tail=pad\nsplit i.0 3\naccumulate p.0"),
    "accumulate in a buffer of one thread": ("gemm_scaled", "split p 8\nsplit i 3\naccumulate p.0 outside=i.1 space=private"),
    "a guard that never holds everywhere": (
        "gemm",
        "split i 6 tail=pad\nreorder i.1 j\nsplit i.1 8 tail=pad\nreorder i.1.0 j i.1.1\ninterior j i.1.1 fixed=1",
    ),
    "accumulate onto what is added to": ("onto", "split p 8\naccumulate p.0 into=t outside=j"),
    "accumulate onto it in vectors": ("onto", "split p 8\naccumulate p.0 into=t outside=j\nsplit j 8 tail=pad\nexpand acc j.1\nfission j.1"),
    "accumulate across one loop": ("matmul_bias", "split p 8\naccumulate p.0 into=C outside=j"),
    "compute_at": ("two_stage", "compute_at t j"),
    "compute_at after splits": ("two_stage", "split j 4\ncompute_at t j.1"),
    "hold": ("chain", "hold j exp"),
    "hold over a length": ("chain", "hold j exp\nexpand j.exp j"),
    "hold, in loops of their own": (
        "chain",
        "split j 100 tail=perfect\nhold j.1 exp\nexpand j.1.exp j.1\nfission j.1\nsplit j.1 4 tail=cut\nvectorize j.1.1",
    ),
    "tabulate": ("softmax_short", "tabulate q j"),
    "tabulate, in vectors": (
        "softmax_short",
        "tabulate q j\nsplit q 8 tail=cut\nrfactor q.1\nvectorize q.1\nsplit q.t 4 tail=pad\nrfactor q.t.1 skip=1\nvectorize q.t.1\nsplit j 4 tail=cut\nvectorize j.1",
    ),
    "tabulate, with lanes beyond the end": ("softmax_short", "tabulate q j\nsplit q 8 tail=pad\nrfactor q.1\nvectorize q.1"),
    "align a collapsed axis": ("pointwise", "collapse i j\nalign i_j Y\nsplit i_j 8 tail=cut\nvectorize i_j.1"),
    "align what is read": ("transpose", "align i X"),
    "align what is read, of long rows": ("transpose", "align i X least=100 trips=20\nsplit i 8 tail=pad"),
    "line_tiles": ("transpose", "line_tiles j 32 Y"),
    "line_tiles, rows kept and stored": (
        "transpose",
        "split i 8\nline_tiles j 16 Y\nreorder j.0 i.1\nsplit i.1 4\nstage X i.1.1 j.1 at=i.1.0 space=stack\neven i.1.1 j.1\nsplit j.1 4 tail=perfect\nvectorize j.1.1\n"
        "align j.1.b Y\nsplit j.1.b 4 tail=cut\nvectorize j.1.b.1\nstream_store Y least=100",
    ),
    "even": ("transpose", "line_tiles j 32 Y\nreorder j.0 i\neven i j.1"),
    "peel, with guards that stay": (
        "transpose",
        "split i 4 tail=pad\nreorder j i.1\nsplit j 8 tail=clamp\nreorder i.1 j.1\npeel j.0 clamps=1 fixed=1",
    ),
    "stream_store": ("pointwise", "split j 4 tail=cut\nvectorize j.1\nstream_store Y least=100"),
    "prefetch": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 i"),
    "prefetch of the same loop": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 q.0 trips=4"),
    "prefetch of what stands near": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 q.0 near=4096"),
    "prefetch in places": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 i places=4 most=4096 over=64"),
    "prefetch into the second cache": ("softmax", f"{HALVES}\nprefetch X q.0 i places=4 cache=2"),
    "prefetch of what is large": ("pointwise", "collapse i j\nsplit i_j 8 tail=cut\nvectorize i_j.1\nprefetch X i_j.0 i_j.0 trips=4 least=100"),
    "prefetch of what the iterations of a tile read apart": ("broadcast", f"{TILE}\nprefetch X j.1.0 j.1.0 near=64"),
    "prefetch of what each iteration of a tile reads": ("broadcast", f"{TILE}\nprefetch b j.1.0 j.1.0 near=64"),
    "prefetch what memory chooses": ("table", "split j 8 tail=cut\nvectorize j.1\nprefetch W j.0 i bytes=64"),
    "prefetch through a guard": ("table", "split j 8 tail=pad\nvectorize j.1\nprefetch W j.0 i bytes=64"),
    "rfactor": ("row_sum", "split p 8 tail=cut\nrfactor p.1\nvectorize p.1"),
    "rfactor of a tail": (
        "row_sum",
        "split p 8 tail=cut\nrfactor p.1\nvectorize p.1\nsplit p.t 4 tail=pad\nrfactor p.t.1 into=p.1.c\nvectorize p.t.1",
    ),
    "rfactor of the tail of a tail": (
        "row_sum",
        "split p 8 tail=cut\nrfactor p.1\nsplit p.t 4 tail=cut\nrfactor p.t.1 into=p.1.c\nsplit p.t.t 2 tail=pad\nrfactor p.t.t.1 into=p.t.1.c",
    ),
    "rfactor of what may be empty": ("row_sum", "split p 8 tail=cut\nsplit p.t 2 tail=cut\nrfactor p.t.1 skip=1\nvectorize p.t.1"),
    "split_reduction": ("total_sum", "split_reduction p 4"),
    "split_reduction of a long axis": ("total_sum", "collapse p q\nsplit_reduction p_q 3 least=2"),
    "split_reduction of each row": ("row_sum", "serial i\nsplit_reduction p 4"),
    "split pad of a scan": ("running_sum", "split j 4 tail=pad"),
    "write_back": ("running_sum", f"{SQUARES}\nwrite_back Y j.1 i.1.b\nreorder i.1.d j.1.b\nunroll i.1.d\nvectorize j.1.b"),
    "write_back under a condition": ("running_sum", f"{SQUARES}\nsplit j.t 4 tail=pad\nwrite_back Y j.t.1 i.1.c"),
    "write_back of a loop cut twice": ("running_sum", f"{SQUARES}\nsplit j.1 2 tail=perfect\nwrite_back Y j.1.0 j.1.1 i.1.b"),
    "write_back of what is there": ("spikes", f"{SQUARES.replace('acc', 'v')}\nwrite_back S j.1 i.1.b filled=1\nselect i.1.b\nvectorize i.1.b"),
    "select what a branch alone may compute": ("branches", f"{SQUARES.replace('acc', 'v')}\nselect i.1.b\nwrite_back Y j.1 i.1.b\nvectorize i.1.b"),
    "mirror": ("transpose", "tile i j 4 4 tail=pad\nmirror j.1\nmirror i.1"),
    "mirror what asks for an end": ("ends", "mirror j"),
    "count_up": ("backwards", "count_up j\nsplit j 4 tail=pad"),
    "search": ("first_position", "search p 4"),
    "search, in vectors": ("first_position", "search p 8\nsplit p.1 4 tail=cut\nrfactor p.1.1\nvectorize p.1.1"),
    "search in pieces of a row": ("first_position", "serial i\nsplit_reduction p 3\nsearch p.1 2"),
    "rows side by side": ("between", "split i 3\nexpand acc i.1\nfission i.1 around=p\nreorder p i.1.b"),
    "rows side by side, as far as any of them goes": ("up_to_the_row", f"{ELASTIC}\nfission i.1.b around=k,q"),
    "unswitch": ("matmul_bias", "split p 8\naccumulate p.0\nsplit j 4 tail=pad\nexpand acc j.1\nfission j.1\nunswitch j.1"),
    "region": ("gemm", "split p 8\naccumulate p.0 into=C\nstage B p.1 j at=p.0 space=shared\nregion"),
    "region around a loop": ("broadcast", "serial g\nregion i"),
    "region with a queue": ("gemm", "split p 8\naccumulate p.0 into=C\nstage B p.1 j at=p.0 space=shared\nregion queue=i"),
    "prefetch_panel": ("gemm", f"{PANELS}\nprefetch_panel B.packed p i.0 j.0"),
    "prefetch_chunk": ("gemm_scaled", f"{CHUNKS}\nprefetch_chunk B p.1 i.1.0 p.0"),
    "fit": ("matmul_bias", "fit i i 3 2\nsplit i.f 3 tail=clamp\nsplit i 2 tail=clamp"),
    "fit of an inner loop": ("gemm_scaled", "fit i j 5 4\nsplit j.f 5\nsplit j 4"),
    "prefetch_tile": ("gemm", f"{PANELS}\nunroll i.1.c\nvectorize j.1.c\nprefetch_tile C p"),
    "skip": ("gemm_lower", f"{PANELS}\nskip p"),
    "skip, tiles kept between blocks": ("gemm_lower", BLOCKS.format("", "accumulate p.0 outside=i.0\n") + "\nskip p.1"),
    "skip, tiles read element by element": ("gemm_lower", f"{PANELS}\nspill acc i.1.c\nskip p"),
    "prefetch_rows": ("gemm", f"{PANELS}\nunroll i.1.b\nprefetch_rows A p i.0"),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_step_keeps_the_meaning(case: str) -> None:
    name, script = GOOD[case]
    before = module(name)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before), script),))
    assert after.kernels[0].schedule == tuple(script.splitlines())
    same(before, after)
    assert read(show(after)) == after


def test_partials_store_at_their_own_positions_too() -> None:
    text = (
        "kernels kept v1\nsize M\nin X: f32[M, 8]\nout W: f32[M, 8]\nout S: f32[M]\n\nkernel kept_0(X, W, S):\n  for i in 0 .. M parallel:\n"
        "    alloc s: f32[] register\n    s[] = 0.0:f32\n    for p in 0 .. 8 reduce:\n      let v: f32 = X[i, p] * 2.0:f32\n"
        "      W[i, p] = v\n      s[] add= v\n    S[i] = s[]\n"
    )
    before = read(text)
    assert isinstance(before, Module)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before), "split p 4 tail=perfect\npartials p.0"),))
    assert "s.parts[p.0] = s.own[]" in show(after)
    same(before, after)
    elsewhere = read(text.replace("W[i, p] = v", "W[i, p // 2] = v"))
    assert isinstance(elsewhere, Module)
    with pytest.raises(StepError, match="one scalar alone"):
        replay(unique(elsewhere.kernels[0]), Facts.of(elsewhere), "split p 4 tail=perfect\npartials p.0")


def test_strict_sums_read_a_table_that_vectors_have_filled() -> None:
    before = module("softmax_short")
    script = "tabulate q j\nsplit q.s 4 tail=cut\nvectorize q.s.1"
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before, strict=True), script),))
    same(before, after)


@pytest.mark.parametrize("seed", range(24))
def test_random_scripts_keep_the_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = module(str(rng.choice([n for n in KERNELS if n not in ("scatter", "batched")])))
    facts = Facts.of(before)
    start = schedule(before, CPU, Options()).kernels[0].schedule  # a part of the automatic schedule brings random steps to deeper nests
    parts = [list(lines) for _, lines in itertools.groupby(start, lambda line: line.startswith("variant"))]
    # what is taken for sizes of 1 needs these to be known
    ways = [
        lines
        for before_, lines in zip([[""], *parts], parts, strict=False)
        if not lines[0].startswith("variant") and not before_[-1].endswith("== 1")
    ] or [[]]
    start = ways[rng.integers(0, len(ways))]
    after = before.with_kernels((replay(unique(before.kernels[0]), facts, start[: rng.integers(0, len(start) + 1)] if seed % 2 else ()),))
    enough = len(after.kernels[0].schedule) + 6
    lines = random.Random(seed)
    for _ in range(150):
        try:
            after = after.with_kernels((apply(after.kernels[0], facts, random_line(after.kernels[0], lines)),))
        except StepError:
            continue
        if len(after.kernels[0].schedule) >= enough:
            break
    print(seed, before.name, after.kernels[0].schedule)
    same(before, after, seed)
    assert replay(unique(before.kernels[0]), facts, after.kernels[0].schedule) == after.kernels[0]


def test_parts_whose_names_are_taken_are_found_by_the_steps_that_make_them() -> None:
    """`i.1` is a loop of its own here: `unroll i 4` unrolls the part of i, and `tile` brings the parts of i outside."""
    before = read(
        "kernels r v1\nsize M\nin A: f32[M, 8]\nout Y: f32[M, 8]\n\nkernel r_0(A, Y):\n"
        "  for i in 0 .. M parallel:\n    for i.1 in 0 .. 8 parallel:\n      Y[i, i.1] = A[i, i.1] * 2.0:f32\n"
    )
    assert isinstance(before, Module)
    kernel, facts = unique(before.kernels[0]), Facts.of(before)
    unrolled = [s.axis for s in statements(apply(kernel, facts, "unroll i 4").body) if isinstance(s, Loop) and s.kind == "unroll"]
    assert unrolled == ["i.1.b"]
    tiled = apply(kernel, facts, "tile i i.1 4 2")
    assert [s.axis for s in statements(tiled.body) if isinstance(s, Loop)] == ["i.0", "i.1.0", "i.1.b", "i.1.1"]
