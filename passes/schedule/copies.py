"""Steps that write a nest twice, so that each copy is for some sizes: `short`, `fit`."""

from __future__ import annotations

from ...ir.expr import ONE, Expr, ceildiv, const, minimum
from ...ir.kernel import If, Kernel, Loop, statements
from ...ir.record import replace
from ...ir.renaming import defined
from .affine import extent
from .tree import Facts, StepError, around, find, fresh, names_taken, rename, replace_in, replace_loop


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
