"""Reductions inside a row whose operands are consecutive along a kept loop (a vector times a matrix): vectors of accumulators along that one, the reduction outside of them.

    for o in 0 .. E parallel:                for o.0 in 0 .. E // 64:
      acc[] = 0                                acc[0 .. 64] = 0
      for p in 0 .. N reduce:          →       for p in 0 .. N reduce:
        acc[] add= W[p] * V[p, o]                acc[0 .. 64] add= W[p] * V[p, o.0 · 64 + 0 .. 64]
      Y[o] = acc[]                             Y[o.0 · 64 + 0 .. 64] = acc[0 .. 64]
                                             … what is left of E

So is a running sum along a row's other axis (its windows, 8 × 500 × 512 floats, 4.7 → 0.6 ms).

Where it stands in a loop over rows that all read the same matrix, a register tile: each vector of the matrix is loaded once for several rows.

    for r in 0 .. R parallel:                for r.0 in 0 .. R // 4:
      for o in 0 .. E parallel:                for o.0 in 0 .. E // 64:
        …                              →         acc[0 .. 4, 0 .. 64] = 0
          acc[] add= W[r, p] * V[p, o]           for p in 0 .. N reduce:
                                                   for r.1 in 0 .. 4 unroll:
                                                     acc[r.1, 0 .. 64] add= W[r.0 · 4 + r.1, p] * V[p, o.0 · 64 + 0 .. 64]
                                                 …
                                             … what is left of R, row by row

Read once a row, the matrix would come from the second cache each time, and what arithmetic there is for each of its lines would wait for it.
"""

from __future__ import annotations

from itertools import pairwise

from ....ir.kernel import Alloc, If, Let, Loop, perfect
from ....ir.places import homes_in
from .. import cost, roles
from ..affine import constant_extent, step_within
from ..plan import Plan
from ..tree import all_loops, find, local_buffers, loop_around
from .side_by_side import moving_with, sharing


def consecutive(plan: Plan, x: Loop) -> tuple[Loop, int] | None:
    """The kept loop that operands of a reduction are consecutive along, and the lanes of its vectors; None where it is no such reduction."""
    around = loop_around(plan.kernel, x)
    if x.kind not in ("reduce", "serial") or around is None or around.kind != "parallel" or around.axis in roles.shape(plan.kernel).axes:
        return None
    kept = {n: b for n, b in local_buffers(plan.kernel).items() if b.space == "private"}  # memory of a row, or what a loop in order carries on
    addresses = roles.seen_through(roles.accesses(x.body, {**plan.facts.buffers, **kept}), x.body)
    width = cost.lanes(plan.target, roles.widest(around.body, around.axis))
    across, inside = ([step_within(a, loop, width, plan.facts.known) for a in addresses] for loop in (around, x))
    if across.count(1) <= inside.count(1) and sum(step not in (0, 1) for step in across) >= sum(step not in (0, 1) for step in inside):
        return None
    extent = plan.extent(around.axis)
    return None if width < 2 or (extent is not None and extent < width) else (around, width)


def columns_inside(plan: Plan, x: Loop) -> bool:
    """Schedule such a reduction.  False, and nothing done, where it is none."""
    found = consecutive(plan, x)
    if found is None:
        return False
    from .chunks import in_chunks

    around, width = found
    extent = plan.extent(around.axis)
    pad = cost.first_lanes(plan.target)
    with plan.attempt(f"`{around.axis}` is consecutive, but") as attempt:
        most = plan.at_most(x.axis)
        short = most is not None and most <= cost.SHORT
        side = [width * n for n in (cost.STRIP, cost.ACCUMULATORS)[short:] if 2 * n <= plan.target.vector_registers]
        longest = plan.at_most(around.axis)
        alone = [n for n in (*side, width) if longest is None or n <= max(longest, width)]
        together = cost.rows_together(plan.target)
        row = sharing(plan, around, x)
        if row is None or together < 2 or (plan.extent(row) or together) < together:
            _streamed(plan, around.axis, x.axis, () if short else moving_with(plan, around, x), alone, pad)
            return True
        parts = _strips_outside(plan, row, around, x, width)
        for part in parts:
            if len(parts) > 1:
                around, x = _inside(plan, part)
            extent = plan.extent(around.axis)
            factors = [n for n in (width * cost.ACCUMULATORS, width) if extent is None or n <= extent]
            rest = in_chunks(plan, part, around, x, factors, pad) if len(parts) == 1 else part
            if rest == part:
                plan.do("split", part, together, tail="cut")
                _together(plan, f"{part}.1", around, moving_with(plan, around, x), factors, pad)
                rest = f"{part}.t"
            if rest and plan.has(rest):
                around, x = _inside(plan, rest)
                _streamed(plan, around.axis, x.axis, () if short else moving_with(plan, around, x), alone, pad)
    return not attempt.refused


def _strips_outside(plan: Plan, row: str, column: Loop, deep: Loop, width: int) -> list[str]:
    """Rows that share a matrix so low that a strip of its columns stays in the first cache go strip by strip: it comes from further away once for all of them.  The loops over rows: in a strip, and of what columns are left."""
    matrices, depth, rows = moving_with(plan, column, deep), plan.at_most(deep.axis), plan.at_most(row)
    columns, strip = plan.at_most(column.axis), width * cost.ACCUMULATORS
    if len(matrices) != 1 or depth is None or (rows is not None and rows < cost.LOW_ROWS) or (columns is not None and columns < 2 * strip):
        return [row]
    if depth < cost.CHUNK or depth * strip * plan.facts.buffers[matrices[0]].dtype.bytes > plan.target.l1 * cost.CHUNK_PART:
        return [row]
    rest = ""
    with plan.attempt() as attempt:
        plan.do("split", column.axis, strip, tail="cut")
        earlier = plan.kernel
        plan.do("fission", row)
        (rest,) = plan.added(earlier)[:1]
        plan.do("reorder", f"{column.axis}.0", row)
        earlier = plan.kernel
        if not plan.tried("stage", matrices[0], deep.axis, f"{column.axis}.1", at=f"{column.axis}.0"):  # pages of it are many
            plan.do("vectorize", plan.added(earlier)[-1])
    if attempt.refused:
        return [row]
    plan.note(f"`{row}` goes by for one strip of {strip} columns of `{matrices[0]}` after the other: a strip stays in the first cache")
    return [row, rest]


def _inside(plan: Plan, row: str) -> tuple[Loop, Loop]:
    """The loop over columns in one over rows, and the reduction in that."""
    around = next(s for s in plan.loop(row).body if isinstance(s, Loop))
    return around, next(s for s in around.body if isinstance(s, Loop))


def _streamed(plan: Plan, column: str, deep: str, matrices: tuple[str, ...], factors: list[int], pad: bool) -> None:
    """Row by row; the `matrices`, which go by once, are asked for ahead of time."""
    known = homes_in(plan.kernel).keys() - {deep}
    strips(plan, column, *factors, pad=pad)
    for x in [x for x in all_loops(plan.kernel) if x.kind == "reduce" and x.axis not in known]:
        wide = next((n for s in x.body if isinstance(s, Loop) and s.kind == "vector" and (n := constant_extent(s))), 1)
        for matrix in matrices:
            rows = max(1, cost.NEAR // (wide * plan.facts.buffers[matrix].dtype.bytes))
            if not plan.tried("prefetch", matrix, x.axis, x.axis, trips=rows):
                plan.note(f"`{x.axis}` asks for what it reads of `{matrix}` {rows} rows later")
                far = cost.far_hints(plan.target, 1)
                # a strip that is half of a row goes by half of the bytes in a chunk
                plan.tried("prefetch", matrix, x.axis, x.axis, trips=2 * far.pop("near") // cost.NEAR * rows, **far)


def _together(plan: Plan, rows: str, column: Loop, matrices: tuple[str, ...], factors: list[int], pad: bool) -> None:
    """Register tiles: the loop over `rows` goes inside of the reduction, around the vectors along `column`; the `matrices` are asked for ahead of time."""
    count = plan.extent(rows)
    strips(plan, column.axis, *factors, pad=pad)
    parts = [s.axis for s in plan.loop(rows).body if isinstance(s, Loop)]
    earlier = plan.kernel
    if len(parts) > 1:
        plan.do("fission", rows)
    for piece in [rows, *plan.added(earlier)]:
        (part,) = (s for s in plan.loop(piece).body if isinstance(s, Loop))
        plan.do("reorder", part.axis, piece)
        for inner in expanded(plan, piece):
            plan.do("unroll", inner)
        for deep in (x.axis for x in all_loops(plan.loop(part.axis).body) if x.kind == "reduce"):
            for matrix in matrices:
                plan.tried("prefetch", matrix, deep, deep, trips=cost.MATRIX_AHEAD)
    plan.note(
        f"{count} rows of `{rows.removesuffix('.1')}` share what is read along `{column.axis}`: it is loaded once for all of them, and asked for ahead of time"
    )


def strips(plan: Plan, axis: str, *factors: int, pad: bool = False) -> None:
    """Vectors of accumulators along a kept axis, so many elements side by side; what is left by the next of `factors`, and at last one by one, or (`pad`) by a vector of which only the first lanes are there."""
    for factor in factors:
        if not plan.has(axis):
            return
        plan.do("split", axis, factor, tail="pad" if pad and factor == factors[-1] else "cut")
        for piece in expanded(plan, f"{axis}.1", near=True):
            _vectorized(plan, piece)
        plan.note(f"vectors of {factor} along the kept axis `{axis}`, the reduction outside of them")
        axis = f"{axis}.t"


def _vectorized(plan: Plan, axis: str) -> None:
    """A piece of a strip as a vector, in both ways of a choice that is the same for all of it."""
    earlier = plan.kernel
    body = find(plan.kernel, axis).body
    if len(body) == 1 and isinstance(body[0], If) and body[0].orelse:
        plan.do("unswitch", axis)
    for piece in (axis, *plan.added(earlier)):
        plan.do("vectorize", piece)


def expanded(plan: Plan, axis: str, near: bool = False) -> list[str]:
    """Expand what the loop over `axis` allocates (copies `near` each other, where that is to be a vector), distribute it over the statements and bring loops outside, vectors excepted, as deep as they go.  The axes of the pieces."""
    body = find(plan.kernel, axis).body
    for s in body:
        if isinstance(s, Alloc):
            plan.do("expand", s.buffer.name, axis, near=1 if near and s.buffer.shape else "")
    pieces = [axis]
    rest = [s for s in body if not isinstance(s, (Alloc, Let))]
    if len(rest) > 1:
        earlier = plan.kernel
        several = any(not isinstance(s, Loop) and not isinstance(t, Loop) for s, t in pairwise(rest))
        plan.do("fission", axis, around=",".join(s.axis for s in rest if isinstance(s, Loop)) if several else "")
        pieces += plan.added(earlier)
    for piece in pieces:
        inner, block = perfect(find(plan.kernel, piece).body, lambda x: x.kind != "vector")
        if inner:
            plan.do("reorder", *(x.axis for x in inner), piece)
            if any(
                isinstance(s, Loop) and s.kind != "vector" for s in block
            ):  # several statements in a loop around them: what a cascade does with a tile
                pieces += expanded(plan, piece, near)[1:]
    return pieces
