"""Schedules keep the meaning: every step, random scripts, and the automatic schedule of every kernel in tests/kernels, at sizes around the blocks, without a race."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.errors import SourceError
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import const, size
from luminal.ir.graph import Size
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Loop, Module, expressions, statements, substitute_block
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.walks import substitute
from luminal.passes.schedule import Facts, StepError, apply, replay, schedule, unique
from luminal.passes.schedule.tree import loads_in
from random_schedules import random_line

KERNELS = {p.stem: p for p in sorted((Path(__file__).parent / "kernels").glob("*.kernel"))}
# A small machine, so that small sizes pass every block: tiles of 2×8, panels of 8, row blocks of a few tiles.
CPU = Target("clang", "small", "small", vector_bytes=16, vector_registers=8, l1=128, l2=512, cores=2, threads=True)
GPU = Target("cuda", "gpu", "gpu", gpu=True)


def module(name: str) -> Module:
    found = read(KERNELS[name].read_text())
    assert isinstance(found, Module)
    return found


def sizes_of(m: Module, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Nothing, one, a few odd ones around the blocks, and one longer than two panels; each a multiple of what it is declared to be."""
    for sizes in _any_sizes(m, rng):
        yield whole(m, sizes)


def whole(m: Module, sizes: dict[str, int]) -> dict[str, int]:
    return {s.name: -(-sizes[s.name] // s.multiple) * s.multiple for s in m.sizes}


def _any_sizes(m: Module, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    if not m.sizes:
        yield {}
        return
    yield {s.name: 0 for s in m.sizes}
    yield {s.name: 1 for s in m.sizes}
    many = len(m.sizes) > 3
    for _ in range(2):
        yield {s.name: int(rng.choice([0, 1, 2, 3, 5, 7] if many else [0, 1, 2, 3, 5, 7, 8, 9, 17])) for s in m.sizes}
    yield {s.name: 2 if many else 5 for s in m.sizes} | {s.name: 19 for s in m.sizes if s.name in "KM"}
    yield {s.name: 3 for s in m.sizes} | {s.name: 21 for s in m.sizes if s.name in "NW"}


def arrays(m: Module, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {}
    for p in m.ports:
        shape = tuple(evaluate(e, sizes) for e in p.shape)
        limit = None if p.index_limit is None else max(1, evaluate(p.index_limit, sizes))
        values = rng.integers(0, limit, shape) if limit else rng.integers(-8, 9, shape) if p.dtype.is_integer else rng.standard_normal(shape)
        found[p.name] = np.asarray(values).astype(np.float64 if p.dtype.is_float else numpy_dtype(p.dtype))
    return found


def same(before: Module, after: Module, seed: int = 0) -> None:
    """Both modules give the same results (exactly, but for the order of sums) and the second one no race; checked on every size class."""
    rng = np.random.default_rng(seed)
    for sizes in sizes_of(before, rng):
        start = arrays(before, sizes, rng)
        expected = {n: a.copy() for n, a in start.items()}
        found = {n: a.copy() for n, a in start.items()}
        code = run(before, expected, sizes, exact=True)
        assert run(after, found, sizes, exact=True, check=True, seed=seed) == code, (sizes, seed)
        for p in before.ports:
            if code == 0 and p.role != "in":
                np.testing.assert_allclose(found[p.name], expected[p.name], rtol=1e-9, atol=1e-9, err_msg=f"{p.name} at {sizes}, seed {seed}")


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_cpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options()))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_where_every_result_is_streamed(name: str) -> None:
    """With a last cache of nothing loops begin at lines; the interpreter says where these are."""
    before = module(name)
    same(before, schedule(before, replace(CPU, vector_bytes=32, l3=2), Options()))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_strictly(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options(strict=True)))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_gpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, GPU, Options(level=0)))


@pytest.mark.parametrize("name", KERNELS)
def test_the_recorded_script_replays(name: str) -> None:
    before = module(name)
    for target in (CPU, GPU):
        for old, new in zip(before.kernels, schedule(before, target, Options()).kernels, strict=True):
            again = replay(unique(old), Facts.of(before), new.schedule)
            assert replace(new, notes=()) == replace(again, notes=())


@pytest.mark.parametrize("name", ["gemm", "softmax", "transpose"])
def test_what_is_scheduled_stays(name: str) -> None:
    once = schedule(module(name), CPU, Options())
    assert schedule(once, CPU, Options()) == once
    by_hand = once.with_kernels(tuple(replace(k, schedule=()) for k in once.kernels))
    assert schedule(by_hand, CPU, Options()) == by_hand or name == "transpose"


def test_low_levels_leave_a_cpu_kernel_alone() -> None:
    before = module("gemm")
    assert schedule(before, CPU, Options(level=1)) == before


@pytest.mark.parametrize("name", ["gemm", "matmul_bias", "gemm_scaled", "gemm_transposed", "gemm_column_major", "gram", "gemm_i32", "gemm_f16", "gemm_f64",
                                  "max_plus", "batched", "linear", "two_reductions", "prologue", "convolution"])  # fmt: skip
def test_reuse_is_found_whatever_the_operation(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert kernel.schedule[-1] == "region", kernel.notes
    assert len([line for line in kernel.schedule if line.startswith("variant")]) in (0, 2, 3)


def test_long_chains_are_taken_apart() -> None:
    """An exponential of what is computed by a long function: two loops over a strip; what a condition may leave out stays where it is."""
    (kernel,) = schedule(module("chain"), CPU, Options()).kernels
    assert [line for line in kernel.schedule if line.split()[0] in ("hold", "fission")] == ["hold i_j.1 exp 0", "fission i_j.1"]
    (kernel,) = schedule(module("pointwise"), CPU, Options()).kernels
    assert not any(line.startswith("hold") for line in kernel.schedule)


def test_what_is_read_in_place_needs_no_panels() -> None:
    """A contraction in three variants; where an operand's vectors are not consecutive, or something dear is computed on the way, panels are packed whatever the sizes."""
    variants = {name: [line for line in schedule(module(name), AVX512, Options()).kernels[0].schedule if line.startswith("variant")]
                for name in ("gemm", "gemm_scaled", "gemm_transposed", "gemm_column_major", "dear_prologue")}  # fmt: skip
    assert variants == {
        "gemm": ["variant K * N <= 196608", "variant M <= 64", "variant"],
        "gemm_scaled": ["variant K * N <= 196608", "variant M <= 64", "variant"],
        "gemm_transposed": [],
        "gemm_column_major": ["variant K * M <= 196608", "variant N <= 64", "variant"],
        "dear_prologue": [],
    }


@pytest.mark.parametrize("name", ["row_sum", "column_sum", "matvec", "vecmat", "softmax", "softmax_columns", "pointwise", "broadcast", "total_sum"])
def test_memory_bound_kernels_get_vectors(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert any(line.startswith("vectorize") for line in kernel.schedule), kernel.notes


AVX512 = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)


@pytest.mark.parametrize("name", ["gemm", "gemm_scaled", "matmul_bias", "softmax", "column_sum", "transpose"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.scheduled.kernel", show(schedule(module(name), AVX512, Options())))


@pytest.mark.parametrize("name", ["gemm", "softmax"])
def test_golden_gpu(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.grid.kernel", show(schedule(module(name), GPU, Options())))


# ---- the steps, one by one

GOOD = {
    "split guard": ("pointwise", "split i 4\nsplit j 3"),
    "split cut": ("softmax", "split p 4 tail=cut\nsplit p.t 2 tail=cut\nsplit i 3 tail=cut"),
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
    "expand over a length": ("softmax", "expand m i\nexpand s i\nfission i"),
    "stage": ("gemm", "split p 4\nsplit i 4 tail=pad\nstage A p.0 p.1 i.1 at=i.0"),
    "stage once": ("gemm", "stage B j p"),
    "stage in another order": ("gemm", "stage B j p order=p,j name=T space=shared align=32"),
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
    "share": ("gemm", "share i 3\nshare j 2 multiple=4\nreorder i.0 j.0 i.1 j.1"),
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
    "accumulate across one loop": ("matmul_bias", "split p 8\naccumulate p.0 into=C outside=j"),
    "compute_at": ("two_stage", "compute_at t j"),
    "compute_at after splits": ("two_stage", "split j 4\ncompute_at t j.1"),
    "hold": ("chain", "hold j exp"),
    "hold, in loops of their own": (
        "chain",
        "split j 100 tail=perfect\nhold j.1 exp\nexpand j.1.exp j.1\nfission j.1\nsplit j.1 4 tail=cut\nvectorize j.1.1",
    ),
    "tabulate": ("softmax_short", "tabulate q j"),
    "tabulate, in vectors": ("softmax_short", "tabulate q j\nsplit q.s 4 tail=cut\nvectorize q.s.1\nsplit j 4 tail=cut\nvectorize j.1"),
    "stream_store": ("pointwise", "split j 4 tail=cut\nvectorize j.1\nstream_store Y least=100"),
    "prefetch": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 i"),
    "prefetch what memory chooses": ("table", "split j 8 tail=cut\nvectorize j.1\nprefetch W j.0 i bytes=64"),
    "prefetch through a guard": ("table", "split j 8 tail=pad\nvectorize j.1\nprefetch W j.0 i bytes=64"),
    "rfactor": ("row_sum", "split p 8 tail=cut\nrfactor p.1\nvectorize p.1"),
    "rfactor of what may be empty": ("row_sum", "split p 8 tail=cut\nsplit p.t 2 tail=cut\nrfactor p.t.1 skip=1\nvectorize p.t.1"),
    "split_reduction": ("total_sum", "split_reduction p 4"),
    "split_reduction of a long axis": ("total_sum", "collapse p q\nsplit_reduction p_q 3 least=2"),
    "split_reduction of each row": ("row_sum", "serial i\nsplit_reduction p 4"),
    "search": ("first_position", "search p 4"),
    "search, in vectors": ("first_position", "search p 8\nsplit p.1 4 tail=cut\nrfactor p.1.1\nvectorize p.1.1"),
    "search in pieces of a row": ("first_position", "serial i\nsplit_reduction p 3\nsearch p.1 2"),
    "rows side by side": ("between", "split i 3\nexpand acc i.1\nfission i.1 around=p\nreorder p i.1.b"),
    "unswitch": ("matmul_bias", "split p 8\naccumulate p.0\nsplit j 4 tail=pad\nexpand acc j.1\nfission j.1\nunswitch j.1"),
    "region": ("gemm", "split p 8\naccumulate p.0 into=C\nstage B p.1 j at=p.0 space=shared\nregion"),
    "region around a loop": ("broadcast", "serial g\nregion i"),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_step_keeps_the_meaning(case: str) -> None:
    name, script = GOOD[case]
    before = module(name)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before), script),))
    assert after.kernels[0].schedule == tuple(script.splitlines())
    same(before, after)
    assert read(show(after)) == after


REFUSED = {
    "no such axis": ("gemm", "split k 4", "no axis `k`; the kernel has i, j, p"),
    "no such step": ("gemm", "fuse i j", "no step `fuse`"),
    "too few arguments": ("gemm", "split i", "1 arguments where 2 are expected"),
    "not a number": ("gemm", "split i four", "`four` is no number"),
    "no such option": ("gemm", "split i 4 tails=cut", "no option `tails`"),
    "no such tail": ("gemm", "split i 4 tail=mask", "tail=mask is none of"),
    "a factor of zero": ("gemm", "split i 0", "a factor of 0"),
    "not a multiple": ("gemm", "split i 4 tail=perfect", "not known to be a multiple of 4"),
    "padding a scan": ("running_sum", "split j 4 tail=pad", "only parallel axes can be padded"),
    "padding a reduction that does more": ("gemm", "split p 4\nexpand acc j\nfission j\nreorder p.0 p.1 j.b\nsplit p.1 2 tail=pad", "more than accumulate"),
    "two serial loops": ("running_sum", "split j 4\nreorder j.1 j.0", "bounds of `j.1` depend on j.0|neither is known to be parallel"),
    "not a perfect nest": ("gemm", "reorder p j", "not a perfect nest"),
    "collapse of two kinds": ("running_sum", "collapse i j", "not the only statement"),
    "fission of a serial loop": ("running_sum", "fission j", "not known to be independent"),
    "fission around a buffer": ("gemm", "fission j", "expand it first"),
    "expand outside the loop": ("gemm", "expand acc p", "not inside p"),
    "vector of a scan": ("running_sum", "split j 4 tail=cut\nvectorize j.1", "not known to be independent"),
    "vector of unknown length": ("pointwise", "vectorize j", "not constant"),
    "vector around a loop": ("gemm", "split j 8 tail=pad\nvectorize j.1", "only stores, lets and guards"),
    "parallel scan": ("running_sum", "parallel j", "not known to be independent"),
    "bind a reduction": ("gemm", "bind p thread.x", "not known to be independent"),
    "bind unknown length": ("pointwise", "bind j thread.x", "no constant extent"),
    "effects outside a grid": ("gemm", "split p 8\naccumulate p.0 into=C\nsplit j 4 tail=pad\nexpand acc j.1\nfission j.1\nbind j.1 thread.x", "repeated by every thread"),
    "stage what is written": ("gemm", "stage C i j", "the kernel writes `C`"),
    "stage over too few axes": ("gemm", "stage A p", "in 0 ways"),
    "stage across a bound": ("gemm", "split p 4\nstage A p.1 p.0 at=j", "p.0"),
    "parts of unknown length": ("gemm", "part i 2", "not known to be a multiple of 2"),
    "share a reduction": ("gemm", "share p 4", "not parallel"),
    "share blocks of nothing": ("gemm", "share i 0", "blocks of 0"),
    "deal what is in order": ("running_sum", "deal j 2", "not parallel"),
    "deal into nothing": ("gemm", "deal i 0", "0 classes"),
    "sieve what counts everywhere": ("gemm", "sieve p", "every so-many-th position"),
    "sieve what is no reduction": ("upsampled", "sieve k", "every so-many-th position"),
    "sieve twice": ("upsampled", "sieve q\nsieve q", "every so-many-th position"),
    "window of what is written": ("gemm", "window C j at=i", "the kernel writes `C`"),
    "window that misses an axis": ("convolution_padded", "window K p q r l at=k", "does not depend on l"),
    "window of no number": ("convolution", "window X h c r at=o multiple=x", "are no numbers"),
    "window over taps and row apart": ("convolution", "window X h c at=o", "in 0 ways"),
    "spill a written tile turned": ("gemm", "split i 3 tail=pad\nsplit j 8 tail=pad\nreorder i.0 j.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nspill acc i.1 turned=4", "writes `acc`, so it cannot be turned|may be undefined"),
    "accumulate what is read": ("gemm_scaled", "split p 8\naccumulate p.0 into=C", "more than `add=`"),
    "accumulate in another dtype": ("gemm_f16", "split p 8\naccumulate p.0 into=C", "cannot hold f32"),
    "accumulate a cut loop": ("gemm", "split p 8 tail=cut\naccumulate p.0 into=C", "tail=guard|repeated for every block"),
    "accumulate chunks of different length": ("total_sum", "collapse p q\nsplit_reduction p_q 64 least=4096\nsplit p_q.1 32\naccumulate p_q.1.0", "depends on p_q.0"),
    "compute_at the wrong loop": ("two_stage", "compute_at t k", "not the consumer"),
    "compute_at too far out": ("two_stage", "split j 4\ncompute_at t j.0", "not used at one position"),
    "compute_at a sum": ("softmax", "compute_at s j", "used by 3 statements"),
    "compute_at under a guard": ("two_stage", "split j 4 tail=pad\ncompute_at t j.1", "under a condition"),
    "hold what is not there": ("chain", "hold j cos", "computes 0 results of `cos`"),
    "hold one too many": ("chain", "hold j exp 1", "computes 1 results of `exp`"),
    "hold what a choice may leave out": ("chain", "hold j sin", "computes 0 results of `sin`"),
    "hold over a loop": ("chain", "hold i exp", "more than stores and lets"),
    "tabulate of unknown length": ("softmax", "tabulate q j", "more than 32768 bytes"),
    "tabulate one loop": ("softmax_short", "tabulate q", "two loops or more"),
    "tabulate backwards": ("softmax_short", "tabulate j q", "not stand in this order"),
    "tabulate loops of two blocks": ("softmax_short", "tabulate i q", "two loops or more of one block"),
    "tabulate different values": ("softmax_short", "tabulate p q", "share no value"),
    "tabulate a part": ("softmax_short", "split q 4 tail=cut\ntabulate q.0 j", "no plain loop"),
    "stream what is read": ("gemm", "stream_store C", "reads `C` again"),
    "stream what is not stored": ("gemm", "stream_store A", "does not store `A`"),
    "stream what is local": ("gemm", "stream_store acc", "is local"),
    "stream what is always small": ("softmax_short", "stream_store Y least=100000", "never has"),
    "prefetch without vectors": ("softmax", "prefetch X q i", "no vector loop"),
    "prefetch for a loop inside": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch X i j.0", "not inside"),
    "prefetch what memory chooses, as if sizes did": ("table", "split j 4 tail=cut\nvectorize j.1\nprefetch W j.0 i", "reads the same"),
    "prefetch what sizes choose, as if memory did": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 i bytes=64", "no memory decides"),
    "prefetch what is local": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch s j.0 i", "is local"),
    "prefetch what is not read": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch Y j.0 i", "reads no consecutive elements"),
    "rfactor of unknown length": ("row_sum", "rfactor p", "no reduction of constant extent"),
    "split_reduction in a loop": ("row_sum", "split_reduction p 4", "inside a loop that is not serial"),
    "split_reduction of a parallel loop": ("pointwise", "split_reduction i 4", "no reduction loop"),
    "split_reduction into nothing": ("total_sum", "split_reduction p 0", "0 chunks"),
    "region without work": ("scatter", "region", "no loop is parallel"),
    "no guard": ("pointwise", "interior i j", "no guard"),
    "no guard to peel": ("row_sum", "peel p", "no guard of `p` holds up to"),
    "peel in steps of 2": ("steps", "peel q", "does not run from 0 in steps of 1"),
    "expand over steps of -1": ("steps", "expand acc i", "`i` does not run in steps of 1"),
    "stage what a loop in steps of -1 reaches": ("steps", "stage Z p", "extent of `p` is not known outside i"),
    "stage over steps of 2": ("steps", "stage W q at=i", "`q` does not start at a position known outside in steps of 1"),
    "rfactor in steps of 2": ("steps", "rfactor q", "no reduction of constant extent"),
    "clamp what other iterations write": ("softmax", "expand m i\nsplit i 5 tail=clamp", "would read `m` again, which it writes"),
    "pad over the end of a part": ("vecmat", "split j 1024\nexpand acc j.1\nsplit j.1 4 tail=cut\nsplit j.0 5 tail=pad", "positions in `acc` may be out of bounds"),
    "accumulate in steps of 2": ("steps", "accumulate q", "no reduction loop from 0 in steps of 1"),
    "search for a sum": ("row_sum", "search p 4", "does more than to take one minimum"),
    "search twice": ("first_position", "search p 4\nsearch p.1 2", "no minimum of positions"),
    "search in a chunk of the axis": ("first_position", "split p 8\nsearch p.1 2", "may hold a position already|symbolic extent"),
    "search what is no position": ("max_plus", "search p 2", "does more than to take one minimum|no minimum of positions"),
    "no if": ("pointwise", "unswitch j", "exactly one `if`"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_step_is_refused_with_the_reason(case: str) -> None:
    name, script, reason = REFUSED[case]
    before = module(name)
    with pytest.raises(StepError, match=reason):
        replay(unique(before.kernels[0]), Facts.of(before), script)


STRICT = {
    "blocks added one by one": ("gemm", "split p 8\naccumulate p.0 into=C"),
    "lane by lane": ("row_sum", "split p 8 tail=cut\nrfactor p.1"),
    "folding lanes": ("row_sum", "split p 8 tail=cut\nvectorize p.1"),
    "piece by piece": ("total_sum", "split_reduction p 4"),
    "another order of sums": ("total_sum", "reorder q p"),
    "leaving out what is multiplied by zero": ("upsampled", "sieve q"),
}


@pytest.mark.parametrize("case", STRICT)
def test_strict_forbids_another_order_of_a_float_sum(case: str) -> None:
    name, script = STRICT[case]
    before = module(name)
    replay(unique(before.kernels[0]), Facts.of(before), script)
    with pytest.raises(StepError, match="--strict forbids"):
        replay(unique(before.kernels[0]), Facts.of(before, strict=True), script)


def test_a_users_script_replaces_the_automatic_schedule() -> None:
    before = module("gemm")
    (kernel,) = schedule(before, CPU, Options(schedules={"clang": "# tiles\n\ntile i j 4 8  # small ones\n"})).kernels
    assert kernel.schedule == ("tile i j 4 8",)
    with pytest.raises(SourceError, match="line 2, `split z 4`: no axis `z`"):
        schedule(before, CPU, Options(schedules={"clang": "tile i j 4 8\nsplit z 4"}))
    with pytest.raises(SourceError, match="`other`"):
        schedule(before, CPU, Options(schedules={"clang": "kernel other\nsplit i 4"}))


def test_short_rows_are_read_in_turn() -> None:
    before = module("convolution_padded")
    wide = replace(CPU, vector_registers=20)  # tiles of two rows of four
    after = schedule(before, wide, Options())
    script = after.kernels[0].schedule
    assert any(line.startswith("window X") and "space=shared" in line for line in script), script
    assert any(line.startswith("stage K") and "space=private" in line for line in script), script
    same(before, after)


def test_rows_that_memory_chooses_are_asked_for() -> None:
    kernel = schedule(module("table"), CPU, Options()).kernels[0]
    assert "prefetch W j.0 i bytes=8192" in kernel.schedule
    assert "let i.ahead: i64 = I[min(i + max(1, min(16, 512 // max(1, D // 4))), N - 1)] * D - I[i] * D" in show(
        replace(module("table"), kernels=(kernel,))
    )


def test_nothing_is_multiplied_by_a_zero_between_elements() -> None:
    before = module("upsampled")
    after = schedule(before, replace(CPU, vector_registers=20), Options())
    script = after.kernels[0].schedule
    assert script.count("sieve q") == script.count("sieve r") == len([line for line in script if line.startswith("variant")]) >= 2, script
    same(before, after)
    strict = schedule(before, CPU, Options(strict=True)).kernels[0].schedule
    assert strict and not any(line.startswith(("deal", "sieve")) for line in strict)


# ---- random scripts


@pytest.mark.parametrize("seed", range(24))
def test_random_scripts_keep_the_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = module(str(rng.choice([n for n in KERNELS if n not in ("scatter", "batched")])))
    facts = Facts.of(before)
    start = schedule(before, CPU, Options()).kernels[0].schedule  # a part of the automatic schedule brings random steps to deeper nests
    ways = [list(lines) for starts, lines in itertools.groupby(start, lambda line: line.startswith("variant")) if not starts] or [[]]
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


# ---- sizes fixed at compile time, and what is known of free ones


def fixed(m: Module, sizes: dict[str, int]) -> Module:
    """The module with sizes replaced by constants, as -D does."""
    mapping = {size(n): const(v) for n, v in sizes.items()}
    ports = tuple(
        replace(p, shape=tuple(substitute(e, mapping) for e in p.shape), index_limit=p.index_limit and substitute(p.index_limit, mapping))
        for p in m.ports
    )
    kernels = tuple(replace(k, body=substitute_block(k.body, mapping)) for k in m.kernels)
    return replace(m, sizes=(), ports=ports, kernels=kernels)


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_with_fixed_sizes(name: str) -> None:
    rng = np.random.default_rng(7)
    for target in (CPU, GPU):
        for choice in ([1], [2, 8], [3, 16, 20], [0, 4]):
            sizes = whole(module(name), {s.name: int(rng.choice(choice)) for s in module(name).sizes})
            print(name, sizes)
            before = fixed(module(name), sizes)
            same(before, schedule(before, target, Options()))


def test_a_kernel_no_longer_lists_what_it_no_longer_reads() -> None:
    before = module("gemm_i32")
    gone = [n for s in statements(before.kernels[0].body) for e in expressions(s) for n in loads_in(e) if n.attr == "A"]
    block = substitute_block(before.kernels[0].body, dict.fromkeys(gone, const(0, gone[0].dtype)))
    (kernel,) = before.with_kernels((replace(before.kernels[0], body=block),)).kernels
    assert kernel.buffers == tuple(b for b in before.kernels[0].buffers if b != "A")


def test_no_tail_where_the_sizes_are_known_multiples() -> None:
    before = module("pointwise")
    known = replace(before, sizes=(Size("M", 1), Size("N", 1, multiple=4)))
    (kernel,) = schedule(known, CPU, Options()).kernels
    assert not any(s.axis.endswith(".t") for s in statements(kernel.body) if isinstance(s, Loop))
