"""Steps that write a nest twice, so that each copy is for some sizes: `short`, `version`, `fit`."""

from __future__ import annotations

from itertools import pairwise

from ....ir.expr import ONE, Expr, both, ceildiv, const, minimum
from ....ir.kernel import Block, If, Kernel, Loop, statements
from ....ir.record import replace
from ....ir.renaming import defined
from ..affine import extent
from ..tree import Facts, StepError, around, find, fresh, names_taken, rename, replace_in, replace_loop


def short(kernel: Kernel, facts: Facts, axis: str, most: int) -> Kernel:
    """A copy of a reduction for where its inner loop has few iterations, or of a parallel loop: what is known of these can then be made use of.

                                             if N <= 16:
                                               for p.s in 0 .. M reduce:
        for p in 0 .. M reduce:                  for q.s in 0 .. min(16, N) reduce:
          for q in 0 .. N reduce:      →           S
            S                                else:
                                               for p in 0 .. M reduce:
                                                 for q in 0 .. N reduce:
                                                   S

    The reductions around a reduction that hold nothing else are copied with it; the extent depends on none of them.
    """
    path = around(kernel, axis)
    loop = top = path[-1]
    assert isinstance(loop, Loop)
    for s in reversed(path[:-1]):
        if not isinstance(s, Loop) or "parallel" in (s.kind, loop.kind) or s.kind != "reduce" or len(s.body) != 1:
            break
        top = s
    assert isinstance(top, Loop)
    length = extent(loop)
    if loop.step is not ONE or loop.kind not in ("reduce", "parallel") or length.names & {s.axis for s in statements((top,)) if isinstance(s, Loop)}:
        raise StepError(f"short: `{axis}` is no reduction or parallel loop in steps of 1 whose extent is the same for all that is copied")
    taken = names_taken(kernel)
    names = {n: fresh(f"{n}.s", taken) for n in defined((top,))}
    few = rename(replace_in((top,), loop, (replace(loop, stop=loop.start + minimum(const(most), length)),)), names)
    return replace_loop(kernel, top.axis, lambda old: (If(length.le(most), few, (old,)),))


def version(kernel: Kernel, facts: Facts, trips: int, *axes: str) -> Kernel:
    """A copy of nested reductions or parallel loops for where each has exactly so many iterations: a compiler that knows them leaves no loop, and steps that want to know them take the copy.

                                             if (M == 3) & (N == 3):
                                               for p.v in 0 .. 3 reduce:
        for p in 0 .. M reduce:                  for q.v in 0 .. 3 reduce:
          for q in 0 .. N reduce:      →           S
            S                                else:
                                               for p in 0 .. M reduce:
                                                 for q in 0 .. N reduce:
                                                   S

    Nothing stands between the loops, and the extents depend on none of them.
    """
    loops = [find(kernel, axis) for axis in axes]
    inside = {s.axis for s in statements((loops[0],)) if isinstance(s, Loop)}
    nested = all(outer.body == (inner,) for outer, inner in pairwise(loops))
    if not nested or any(x.kind not in ("reduce", "parallel") or x.step is not ONE or extent(x).is_const or extent(x).names & inside for x in loops):
        raise StepError(
            f"version: {', '.join(axes)} are no reductions or parallel loops one inside the other in steps of 1 whose extents are free, and the same for all that is copied"
        )
    taken = names_taken(kernel)
    names = {n: fresh(f"{n}.v", taken) for n in defined((loops[0],))}
    known: Block = loops[-1].body
    for x in reversed(loops):
        known = (replace(x, stop=x.start + trips, body=known),)
    counted = both(*(extent(x).eq(trips) for x in loops))
    assert counted is not None
    return replace_loop(kernel, axes[0], lambda old: (If(counted, rename(known, names), (old,)),))


def fit(kernel: Kernel, facts: Facts, axis: str, row: str, one: int, other: int) -> Kernel:
    """A copy of a parallel loop for where tiles of so many iterations of one inside it leave less of the last tile empty than tiles of another length.

                                             if ceildiv(N, 10) * 11 < ceildiv(N, 8) * 9:
                                               for p.f in 0 .. M parallel:
        for p in 0 .. M parallel:                for q.f in 0 .. N parallel:
          for q in 0 .. N parallel:      →         S
            S                                else:
                                               for p in 0 .. M parallel:
                                                 for q in 0 .. N parallel:
                                                   S

    To begin and to end a tile takes about as long as one iteration of it.  The extent depends on nothing inside the loop.
    """
    loop = around(kernel, axis)[-1]
    assert isinstance(loop, Loop)
    inside = {s.axis for s in statements((loop,)) if isinstance(s, Loop)}
    if loop.kind != "parallel" or row not in inside or (length := extent(find(kernel, row))).names & inside:
        raise StepError(f"fit: `{axis}` is no parallel loop that holds `{row}`, or the extent of that is not the same for all that is copied")
    taken = names_taken(kernel)
    names = {n: fresh(f"{n}.f", taken) for n in defined((loop,))}
    better = tile_cost(length, one).lt(tile_cost(length, other))
    return replace_loop(kernel, axis, lambda old: (If(better, rename((loop,), names), (old,)),))


def tile_cost(length: Expr, rows: int) -> Expr:
    """What tiles of so many iterations take, in iterations."""
    return ceildiv(length, rows) * (rows + 1)
