"""What schedule steps refuse, with the reason."""

from __future__ import annotations

import pytest
from luminal.ir.kernel import Module
from luminal.ir.text import read
from luminal.passes.schedule import Facts, StepError, apply, replay, unique
from scheduling import module
from test_schedule_steps import BLOCKS, CHUNKS, GPU_TILE, PANELS, SQUARES

REFUSED = {
    "portion of what is added up": ("kept", "portion 4 w", "not touched along parallel loops"),
    "portion of a number": ("gemm", "portion 4 acc", "no local arrays `acc`"),
    "divide what is as long as a size": ("onto", "divide t 0 3 2", "has an extent of N"),
    "divide in other parts": ("onto", "portion 4 t\ndivide t 0 3 2", "has an extent of 4"),
    "gaps without rows": ("onto", "portion 4 t\ngaps t 2", "no local array `t` of rows"),
    "onto what does not begin as zeros": ("onto", "onto t", "does not begin as zeros"),
    "onto what is no sum": ("max_plus", "onto acc", "does not begin as zeros"),
    "onto an output": ("gemm", "onto acc", "is not local"),
    "partials of a loop as long as a size": ("row_sum", "partials p", "no reductions of constant extents"),
    "cooperate without a block": ("softmax", "cooperate i 8", "bound to no block"),
    "cooperate of an odd number": ("softmax", "bind i block.x\ncooperate i 6", "no power of two"),
    "cooperate twice": ("softmax", "bind i block.x\ncooperate i 8\ncooperate i 8", "threads stand inside `i` already"),
    "cooperate on a scan": ("running_sum", "bind i block.x\ncooperate i 8", "the whole of a serial loop"),
    "cooperate where there is nothing to share": ("pointwise", "collapse i j\nbind i_j block.x\ncooperate i_j 8", "nothing inside `i_j` can be shared"),
    "whole of a name that is taken": ("softmax", "whole i", "`i` is taken"),
    "factors of no product": ("row_sum", "split p 4 tail=pad\nfactors p.1", "no product is added under a condition"),
    "ring of one place": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed slots=1", "not all that stands before the first barrier"),
    "ring of a part of what is copied": ("gemm", f"{GPU_TILE}\nring p.0 A.packed", "not all that stands before the first barrier"),
    "ring of more than threads share": ("gemm", f"{GPU_TILE}\nring p.0 A.packed B.packed slots=1000", "more than a block's threads share"),
    "peel for all of what is not around": ("row_sum", "split p 4 tail=pad\npeel p.0 over=p.1", "not all of p.1 are around"),
    "fetch where nobody waits": ("gemm", "fetch p B", "`p` is no serial loop"),
    "fetch what the loop does not fill": ("gemm", f"{GPU_TILE}\nfetch p.0 B", "is the one that fills `B`"),
    "once of what asks nothing": ("gemm", "split i 2 tail=pad\nsplit j 4 tail=pad\nreorder i.0 j.0 i.1 j.1\nonce i.1 j.1", "does not hold one `if`"),
    "once without a number of rows": ("taken_again", "expand acc i j\nfission i j\nonce i.c j.c", "no parallel loops from 0 to a number"),
    "no such axis": ("gemm", "split k 4", "no axis `k`; the kernel has i, j, p"),
    "no such step": ("gemm", "fuse i j", "no step `fuse`"),
    "too few arguments": ("gemm", "split i", "1 arguments where 2 are expected"),
    "not a number": ("gemm", "split i four", "`four` is no number"),
    "no such option": ("gemm", "split i 4 tails=cut", "no option `tails`"),
    "no such space for partial results": ("gemm_scaled", "split p 8\naccumulate p.0 space=stack", "no space `stack`"),
    "no such tail": ("gemm", "split i 4 tail=mask", "tail=mask is none of"),
    "a factor of zero": ("gemm", "split i 0", "a factor of 0"),
    "not a multiple": ("gemm", "split i 4 tail=perfect", "not known to be a multiple of 4"),
    "clamping a scan": ("running_sum", "split j 4 tail=clamp", "only parallel axes can be"),
    "padding a reduction that does more": ("gemm", "split p 4\nexpand acc j\nfission j\nreorder p.0 p.1 j.b\nsplit p.1 2 tail=pad", "more than accumulate"),
    "two serial loops": ("running_sum", "split j 4\nreorder j.1 j.0", "bounds of `j.1` depend on j.0|neither is known to be parallel"),
    "not a perfect nest": ("gemm", "reorder p j", "not a perfect nest"),
    "collapse of two kinds": ("running_sum", "collapse i j", "not the only statement"),
    "fission of a serial loop": ("running_sum", "fission j", "not known to be independent"),
    "fission around a buffer": ("gemm", "fission j", "expand it first"),
    "jam a reduction": ("gemm", "split p 4 tail=cut\njam p.1", "no parallel loop of constant extent"),
    "jam any number": ("softmax", "jam i", "no parallel loop of constant extent"),
    "jam what memory decides": ("table", "split i 4 tail=cut\njam i.1", "the position `at` is read from memory"),
    "decide without a variant": ("softmax", "short j 8\ndecide\nsplit j.s 2 tail=perfect", "not known to be a multiple"),
    "expand over what the shape depends on": ("gemm", "expand acc j\ndeal i 3\nexpand acc i.1\nexpand acc i.0", "the shape of `acc` depends on i.0"),
    "expand outside the loop": ("gemm", "expand acc p", "not inside p"),
    "vector of a scan": ("running_sum", "split j 4 tail=cut\nvectorize j.1", "not known to be independent"),
    "vector of unknown length": ("pointwise", "vectorize j", "not constant"),
    "vector around a loop": ("gemm", "split j 8 tail=pad\nvectorize j.1", "only stores, lets and guards"),
    "write_back of unknown length": ("running_sum", "write_back Y j", "constant extent"),
    "write_back of what is read": ("backwards", "count_up j\nsplit j 4 tail=cut\nwrite_back s j.1", "reads `s`"),
    "write_back of half the loops": ("running_sum", f"{SQUARES}\nwrite_back Y j.1", "loops around what is stored"),
    "write_back of what meets": ("gemm", "split p 4 tail=cut\nsplit j 4 tail=cut\nwrite_back C j.1 p.1", "store into `C` once|around what is stored"),
    "write_back of what data decides": ("spikes", f"{SQUARES.replace('acc', 'v')}\nwrite_back S j.1 i.1.b", "not stored in every iteration"),
    "select without conditions": ("running_sum", "select j", "nothing into local buffers under a condition"),
    "mirror a scan": ("running_sum", "split j 4 tail=cut\nmirror j.1", "no parallel loop from 0"),
    "count_up upwards": ("running_sum", "count_up j", "steps of -1"),
    "parallel scan": ("running_sum", "parallel j", "not known to be independent"),
    "bind a reduction": ("gemm", "bind p thread.x", "not known to be independent"),
    "bind unknown length": ("pointwise", "bind j thread.x", "no constant extent"),
    "effects outside a grid": ("gemm", "split p 8\naccumulate p.0 into=C\nsplit j 4 tail=pad\nexpand acc j.1\nfission j.1\nbind j.1 thread.x", "repeated by every thread"),
    "stage what is written": ("gemm", "stage C i j", "the kernel writes `C`"),
    "stage what the loop around it writes": ("gemm", "stage C j at=i", "the kernel writes `C`"),
    "stage over too few axes": ("gemm", "stage A p", "in 0 ways"),
    "stage across a bound": ("gemm", "split p 4\nstage A p.1 p.0 at=j", "p.0"),
    "parts of unknown length": ("gemm", "part i 2", "not known to be a multiple of 2"),
    "parts of what is not divided": ("gemm", "part j", "no position along `j` is divided"),
    "version of a loop that holds more": ("gemm", "version 3 j p", "no reductions"),
    "version of loops with something between": ("total_sum", "split q 4\nversion 3 p q.1", "one inside the other"),
    "version of known trips": ("convolution_padded", "version 3 q r", "whose extents are free"),
    "version of what depends": ("total_sum", "split q 4 tail=cut\nversion 3 p q.0\nversion 3 q.0 q.1", "no reductions"),
    "short of a scan": ("running_sum", "short j 4", "no reduction or parallel loop"),
    "share a reduction": ("gemm", "share p 4", "not parallel"),
    "share blocks of nothing": ("gemm", "share i 0", "blocks of 0"),
    "share blocks of other parts": ("gemm", "share i 6 whole=4", "each of whole 4"),
    "share beside an axis inside": ("gemm", "share i 6 multiple=2 beside=j", "`j` is not around `i`"),
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
    "accumulate onto what is not added to": ("onto", "split p 8\naccumulate p.0 into=acc outside=j", "does not add all of the sum to what is in `acc`"),
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
    "line_tiles of half a line": ("transpose", "line_tiles j 24 Y", "are whole lines"),
    "line_tiles across": ("transpose", "line_tiles i 16 Y", "are whole lines"),
    "line_tiles of what is local": ("gemm", "line_tiles j 16 acc", "is local"),
    "line_tiles of a part": ("transpose", "split j 4 tail=cut\nline_tiles j.t 16 Y", "no parallel loop from 0"),
    "even of one bound": ("transpose", "even i j", "could be of one length"),
    "even of what is apart": ("transpose", "line_tiles j 16 Y\neven j.1 i", "is not all that"),
    "even of tiles": ("transpose", "line_tiles j 16 Y\neven j.0 j.1", "changes inside"),
    "stream what is read": ("gemm", "stream_store C", "reads `C` again"),
    "stream what is not stored": ("gemm", "stream_store A", "does not store `A`"),
    "stream one element": ("total_sum", "stream_store y least=4", "in no loop"),
    "stream what is local": ("gemm", "stream_store acc", "is local"),
    "stream what is always small": ("softmax_short", "stream_store Y least=100000", "never has"),
    "prefetch near what is not read": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch Y j.0 j.0 near=64", "reads no consecutive elements"),
    "prefetch what is always small": ("softmax_short", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 i least=100000", "never has"),
    "prefetch of rows that are only known inside": ("chosen_rows", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 j.0 trips=4", "only known inside `j.0`"),
    "prefetch in places of what lies elsewhere": ("softmax", "split q 8 tail=cut\nrfactor q.1\nvectorize q.1\nprefetch X q.0 q.0 places=4 near=64", "from its begin"),
    "prefetch in places of a short row": ("softmax_short", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 i places=4", "no more than a page"),
    "prefetch of what is never so far": ("softmax_short", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 i over=4096", "never so far"),
    "prefetch into no cache": ("softmax", "split q 4 tail=cut\nvectorize q.1\nprefetch X q.0 i cache=3", "1 or 2, not 3"),
    "prefetch without vectors": ("softmax", "prefetch X q i", "no vector loop"),
    "prefetch for a loop inside": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch X i j.0", "not inside"),
    "prefetch what memory chooses, as if sizes did": ("table", "split j 4 tail=cut\nvectorize j.1\nprefetch W j.0 i", "reads the same"),
    "prefetch what sizes choose, as if memory did": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch X j.0 i bytes=64", "no memory decides"),
    "prefetch what is local": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch s j.0 i", "is local"),
    "prefetch what is not read": ("softmax", "split j 4 tail=cut\nvectorize j.1\nprefetch Y j.0 i", "reads no consecutive elements"),
    "rfactor of unknown length": ("row_sum", "rfactor p", "no reduction of constant extent"),
    "rfactor into what combines nothing": ("row_sum", "split p 8 tail=cut\nsplit p.t 4 tail=cut\nrfactor p.t.1 into=p.0", "does more than combine"),
    "rfactor into fewer lanes": (
        "row_sum",
        "split p 4 tail=cut\nrfactor p.1\nsplit p.t 8 tail=pad\nrfactor p.t.1 into=p.1.c",
        "combines no multiple of 8 results",
    ),
    "rfactor into what stands elsewhere": (
        "row_sum",
        "split p 8 tail=cut\nrfactor p.1\nsplit p.t 4 tail=cut\nrfactor p.t.1\nsplit p.t.t 2 tail=pad\nrfactor p.t.t.1 into=p.1.c",
        "does not stand right behind",
    ),
    "split_reduction in a loop": ("row_sum", "split_reduction p 4", "inside a loop that is not serial"),
    "split_reduction of a parallel loop": ("pointwise", "split_reduction i 4", "no reduction loop"),
    "split_reduction into nothing": ("total_sum", "split_reduction p 0", "0 chunks"),
    "prefetch_panel of an operand": ("gemm", f"{PANELS}\nprefetch_panel A p i.0 j.0", "is no local buffer"),
    "prefetch_panel the wrong way round": ("gemm", f"{PANELS}\nprefetch_panel B.packed p j.0 i.0", "is not inside"),
    "prefetch_panel of the same for each": (
        "gemm",
        f"{PANELS.replace('stage B j.0 p j.1.b', 'stage A i.0 p i.1.b')}\nprefetch_panel A.packed p i.0 j.0",
        "not in panels along",
    ),
    "prefetch_tile of what is packed": ("gemm", f"{PANELS}\nprefetch_tile B.packed p", "is no operand"),
    "prefetch_tile of scalars": ("gemm", f"{PANELS}\nprefetch_tile C p", "nothing behind `p` touches `C` in vectors"),
    "skip what no mask leaves out": ("gemm", f"{PANELS}\nskip p", "something of each tile of `acc` is read"),
    "skip what an output holds meanwhile": ("gemm_lower", BLOCKS.format("accumulate p.0 outside=i into=C\n", "") + "\nskip p.1", "something of each tile"),
    "skip sums of one element": ("gemm_lower", "skip p", "something of each tile"),
    "skip what is no sum": ("pointwise", "skip i", "stands in no loop"),
    "prefetch_chunk of what is packed": ("gemm", f"{PANELS}\nprefetch_chunk B.packed p i.0 j.0", "is no operand"),
    "prefetch_chunk of what is other in each tile": ("gemm_scaled", f"{CHUNKS}\nprefetch_chunk B p.1 i.1.0 j.0", "not inside"),
    "prefetch_chunk of one element a row": ("gemm_scaled", f"{CHUNKS}\nprefetch_chunk A p.1 i.1.0 p.0", "reads no rows of `A`"),
    "fit of a reduction": ("gemm", "fit p p 3 2", "is no parallel loop that holds `p`"),
    "prefetch_rows of columns": ("gemm", f"{PANELS}\nunroll i.1.b\nprefetch_rows B p j.0", "does not run from 0 in steps of 1 and read `B` once"),
    "prefetch_rows of a loop": ("gemm", f"{PANELS}\nprefetch_rows A p i.0", "in rows of unrolled loops"),
    "prefetch_rows the wrong way round": ("gemm", f"{PANELS}\nunroll i.1.b\nprefetch_rows A i.0 p", "`i.0` is not inside `p`"),
    "region with a queue of what is not parallel": ("gemm", "split p 8\naccumulate p.0 into=C\nregion queue=p.0", "is not parallel"),
    "region without work": ("scatter", "region", "no loop is parallel"),
    "no guard": ("pointwise", "interior i j", "no guard"),
    "no guard to peel": ("row_sum", "peel p", "no guard of `p` holds up to"),
    "peel a vector": ("row_sum", "split p 4 tail=pad\nrfactor p.1\nvectorize p.1\npeel p.1", "is a vector"),
    "peel in steps of 2": ("steps", "peel q", "does not run from 0 in steps of 1"),
    "expand over steps of -1": ("steps", "expand acc i", "`i` does not run in steps of 1"),
    "stage on the stack what is as long as a size": ("gemm", "stage B p j space=stack", "is no number, which an array on the stack wants"),
    "stage what a loop in steps of -1 reaches": ("steps", "stage Z p", "extent of `p` is not known outside i"),
    "stage over steps of 2": ("steps", "stage W q at=i", "`q` does not start at a position known outside in steps of 1"),
    "rfactor in steps of 2": ("steps", "rfactor q", "no reduction of constant extent"),
    "clamp what other iterations write": ("softmax", "expand m i\nsplit i 5 tail=clamp", "would read `m` again, which it writes"),
    "pad over the extents of a part": ("running_sum", "parallel i\ndeal i 1\nexpand acc i.1\nsplit i.0 4 tail=pad", "the extents of `acc` mean nothing"),
    "pad over the end of a part": ("vecmat", "split j 1024\nexpand acc j.1\nsplit j.1 4 tail=cut\nsplit j.0 5 tail=pad", "positions in `acc` may be out of bounds"),
    "accumulate in steps of 2": ("steps", "accumulate q", "no reduction loop from 0 in steps of 1"),
    "search for a sum": ("row_sum", "search p 4", "does more than to take one minimum"),
    "search twice": ("first_position", "search p 4\nsearch p.1 2", "no minimum of positions"),
    "search in a chunk of the axis": ("first_position", "split p 8\nsearch p.1 2", "may hold a position already|symbolic extent"),
    "search what is no position": ("max_plus", "search p 2", "does more than to take one minimum|no minimum of positions"),
    "join backwards": ("kept", "join q j", "`j` does not come after `q`"),
    "join a loop with itself": ("kept_twice", "join q q", "does not come after"),
    "join loops of two blocks": ("kept", "join i q", "do not stand in one loop"),
    "join two reductions": ("kept", "join p q", "not run over the same range, one of them in any order"),
    "join around a use": ("kept", "join j k", "changes or reads what `j` makes"),
    "join what a name is between": ("both_ways", "join p z", "changes or reads what `z` makes"),
    "join what is stored between": ("both_ways", "join p k", "changes or reads what `k` makes"),
    "join different ranges": ("kept", "split j 4 tail=cut\njoin j.t q", "do not run over the same range"),
    "no if": ("pointwise", "unswitch j", "exactly one `if`"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_step_is_refused_with_the_reason(case: str) -> None:
    name, script, reason = REFUSED[case]
    before = module(name)
    with pytest.raises(StepError, match=reason):
        replay(unique(before.kernels[0]), Facts.of(before), script)


def test_a_step_is_refused_where_what_is_updated_is_no_longer_seen_to_be_safe() -> None:
    """One iteration of the outer loop adds to each element, and a condition says which: of two copies of the inner loop, one reads what the other stores."""
    before = read(
        "kernels r v1\nsize K\nsize M\ninout U: f32[K]\n\nkernel r_0(U):\n"
        "  for i in 0 .. M parallel:\n    for p in 0 .. K parallel:\n      if i == p:\n        U[p] add= U[p]\n"
    )
    assert isinstance(before, Module)
    kernel, facts = unique(before.kernels[0]), Facts.of(before)
    for step in (apply, replay):
        with pytest.raises(StepError, match=r"iterations of i \(parallel\) store U\[.*\] and read U\["):
            step(kernel, facts, "short p 1")
    for line in ("split p 4", "split i 4 tail=cut", "split p 4 tail=cut"):  # no two loops over what is updated, or none over the same of it
        assert apply(kernel, facts, line) == replay(kernel, facts, line)


STRICT = {
    "cooperate": ("softmax", "bind i block.x\ncooperate i 8"),
    "blocks added one by one": ("gemm", "split p 8\naccumulate p.0 into=C"),
    "lane by lane": ("row_sum", "split p 8 tail=cut\nrfactor p.1"),
    "part by part": ("row_sum", "split p 8 tail=cut\npartials p.1"),
    "onto what is there": ("onto", "onto acc"),
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
