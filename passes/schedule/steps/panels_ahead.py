"""The steps that ask for what comes next while register tiles work on what they share: `prefetch_panel` for packed panels, `prefetch_chunk` and `prefetch_rows` for operands as they lie, `prefetch_tile` for where the results go."""

from __future__ import annotations

from ....ir.bounds import Known
from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, ceildiv, const, mod, product, var, where
from ....ir.kernel import Block, If, Kernel, Let, Loop, Prefetch, Store, nested, reads, statements, with_body
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.target import LINE
from ....ir.walks import substitute
from ..affine import constant_extent, extent, inside, minus, same_position, stride, upper
from ..tree import Facts, Never, StepError, all_loops, around, find, fresh, local_buffers, names_taken, replace_loop
from .hint_lines import asking
from .streams import large


def prefetch_panel(kernel: Kernel, facts: Facts, buffer: str, depth: str, tile: str, panel: str) -> Kernel:
    """Ask, while the loop over `panel` is at one panel of a local buffer, for the next one: a line of it in each iteration of `depth`, until all of it is asked for.

        for j.0:                                   for j.0:
          for i.0:                                   for i.0:
            for p.1 in 0 .. P:            →            for p.1 in 0 .. P:
              … B.packed[j.0, p.1, k] …                  prefetch B.packed[j.0, 0, 0] ahead (the panel) + (i.0 % 2 · P + p.1) · 16
                                                         … B.packed[j.0, p.1, k] …

    A hint changes no value.  A panel lies in memory along `depth`, here two lines for each of its iterations, and is read once for each iteration of `tile`, which stands between the two loops: the first two
    ask for one half each, and what later ones ask for has come.  Behind the last panel it is asked for what there need not be.
    """
    loops = [s for s in around(kernel, depth) if isinstance(s, Loop)]
    names = [x.axis for x in loops]
    if panel not in names or tile not in names[names.index(panel) :]:
        raise StepError(f"prefetch_panel: `{depth}` is not inside `{tile}`, or that not inside `{panel}`")
    loop = loops[-1]
    held = local_buffers(kernel).get(buffer)
    if held is None or loop.step is not ONE:
        raise StepError(f"prefetch_panel: `{buffer}` is no local buffer, or `{depth}` does not run in steps of 1")
    inner = {var(s.axis): ZERO for s in statements(loop.body) if isinstance(s, Loop)}
    loads = [n for n in reads((loop,)) if n.attr == buffer]
    starts = {tuple(substitute(i, {**inner, var(depth): loop.start}) for i in n.args) for n in loads}
    rows = {stride(held.address(n.args), depth) for n in loads}
    if len(starts) != 1 or len(rows) != 1:
        raise StepError(f"prefetch_panel: `{depth}` reads not one panel of `{buffer}`")
    (start,), (row,) = starts, rows
    line = LINE // held.dtype.bytes
    address = held.address(start)
    ahead = minus(substitute(address, {var(panel): var(panel) + ONE}), address)
    if row is None or row < line or row % line or ahead is ZERO or ahead.buffers or any(axis in ahead.names for axis in names):
        raise StepError(
            f"prefetch_panel: `{buffer}` is not in panels along `{depth}`, of whole lines for each of its iterations, one for each of `{panel}`"
        )
    lines = row // line
    done = minus(var(depth), loop.start)
    asked = done if lines == 1 else mod(var(tile), const(lines)) * extent(loop) + done
    hint = Prefetch(buffer, start, ahead + asked * line)
    return replace_loop(kernel, depth, lambda x: (with_body(x, (hint, *x.body)),))


def prefetch_chunk(
    kernel: Kernel, facts: Facts, buffer: str, depth: str, tile: str, chunk: str, chunks: int = 1, cache: int = 1, least: int = 0, times: int = 1
) -> Kernel:
    """Ask, while the loop over `chunk` is at some rows of an operand, for its next rows: some lines of them in each iteration of `depth`, each iteration of `tile` for as many.

        for p.0 in 0 .. N / 64:                      for p.0 in 0 .. N / 64:
          for i.0 in 0 .. 2:                           for i.0 in 0 .. 2:
            for p.1 in 0 .. 64:               →          for p.1 in 0 .. 64:
              for k in 0 .. 64 vector:                     prefetch two lines of the next 64 rows, those number 2 · (64·i.0 + p.1) and the next
                … V[64·p.0 + p.1, k] …                     for k in 0 .. 64 vector:
                                                             … V[64·p.0 + p.1, k] …

    A hint changes no value.  What is read inside `depth` is one row for each of its iterations, consecutive along a vector of whole lines, and the same in every iteration of `tile`.  Where nobody knows
    how many of these there are, one alone asks for all, and of several each goes on by half as much: they ask for some lines twice.  Behind the last rows it is asked for what there need not be.

    Rows that are read from one end to the other, by one strip or a loop over strips, are asked for in the order of addresses; of others each iteration asks for its part of a row, that of its strip.

    With `chunks`, for the rows of so many chunks later; with `cache=2`, they come no nearer than the second cache; with `least`, memory is asked only where the buffer has so many bytes or more.
    With `times`, each line is asked for so often, from as many chunks ahead as without, and from that part of them less each time: machines drop hints.
    """
    if times < 1 or chunks % times:
        raise StepError(f"prefetch_chunk: {chunks} chunks are not {times} times as many")
    if chunks < 1 or cache not in (1, 2):
        raise StepError(f"prefetch_chunk: `chunks` is 1 or more, `cache` 1 or 2, not {chunks} and {cache}")
    loops = [s for s in around(kernel, depth) if isinstance(s, Loop)]
    names = [x.axis for x in loops]
    if chunk not in names or tile not in names[names.index(chunk) :] or buffer not in facts.buffers:
        raise StepError(f"prefetch_chunk: `{buffer}` is no operand, `{depth}` not inside `{tile}`, or that not inside `{chunk}`")
    loop, held = loops[-1], facts.buffers[buffer]
    rows, tiles = upper(loop.stop, facts.known), loops[names.index(tile)]
    vectors = [x for x in all_loops(loop.body) if x.kind == "vector"]
    found = {n for x in vectors for n in reads(x.body) if n.attr == buffer}
    if len(found) != 1 or len(vectors) != 1 or rows is None or any(x.start is not ZERO or x.step is not ONE for x in (loop, tiles)):
        raise StepError(f"prefetch_chunk: `{depth}` does not run from 0 to a constant and read `{buffer}` once, or `{tile}` not from 0")
    (read,), (vector,) = found, vectors
    address, line = held.address(read.args), LINE // held.dtype.bytes
    lines = -(-(constant_extent(vector) or 0) // line)
    row, panel = (minus(substitute(address, {var(x): var(x) + ONE}), address) for x in (depth, chunk))
    if stride(address, vector.axis) != 1 or lines == 0 or tile in address.names or same_position(row, ZERO) or not same_position(panel, row * rows):
        raise StepError(f"prefetch_chunk: `{depth}` reads no rows of `{buffer}`, {rows} for each of `{chunk}`, or others for each of `{tile}`")
    count, first = constant_extent(tiles), {var(vector.axis): ZERO}
    each = -(-lines // min(lines, count or 1))
    parts = -(-lines // each)
    part = mod(var(tile), const(parts)) if count else var(tile)
    further = const(each * line) if count else where(tiles.stop.le(ONE), const(each * line), const(-(-each // 2) * line))
    strips = [x for x in loops[names.index(tile) + 1 : -1] if x.axis in address.names]
    if parts * each == lines and _whole_rows(address, row, strips, lines * line, inside(loops, facts.known)):
        turns, turn = product([x.stop for x in strips]), product([var(x.axis) for x in strips]) if strips else ZERO
        first |= {var(x): ZERO for x in (depth, *(x.axis for x in strips))}
        within = ((part * turns + turn) * rows + var(depth)) * further
    else:
        within = part * (each * line) if count else ZERO
    start = tuple(substitute(i, first) for i in read.args)
    hints: Block = tuple(
        Prefetch(buffer, start, panel * (chunks // times * n) + within + k * line, cache) for n in range(times, 0, -1) for k in range(each)
    )
    enough = large(facts, buffer, least)
    if enough is FALSE:
        raise Never(f"prefetch_chunk: `{buffer}` never has {least} bytes")
    return asking(kernel, depth, hints, enough)


def _whole_rows(address: Expr, row: Expr, strips: list[Loop], lanes: int, known: Known) -> bool:
    """Whether strips of so many elements, those of one loop or a single one, are all of a row, but for what is less than another."""
    if len(strips) > 1 or any(x.start is not ZERO or x.step is not ONE or stride(address, x.axis) != lanes for x in strips):
        return False
    rest = row - product([x.stop for x in strips]) * lanes
    return simplify(ZERO.le(rest), known) is TRUE and simplify(rest.lt(lanes), known) is TRUE


def prefetch_rows(kernel: Kernel, facts: Facts, buffer: str, depth: str, tile: str) -> Kernel:
    """Ask, where an iteration of `tile` begins, for the rows of an operand that the next one reads.

        for i.0:                                   for i.0:
          for p in 0 .. P:                           for i.1.n in 0 .. 8 unroll:
            for i.1 in 0 .. 8 unroll:       →          for p.n in 0 .. (P + 15) // 16:
              … A[8·i.0 + i.1, p] …                      prefetch A[8·i.0 + 8 + i.1.n, 16·p.n]
                                                     for p in 0 .. P:
                                                       …

    A hint changes no value.  What is read inside `depth` is consecutive along it, a row for each iteration of the loops inside that it depends on: short pieces of several rows, each too short for the
    prefetchers of machines to follow.  Behind the last tile it is asked for what there need not be.
    """
    path = [s for s in around(kernel, depth) if isinstance(s, Loop)]
    names = [x.axis for x in path]
    if tile not in names[:-1]:
        raise StepError(f"prefetch_rows: `{depth}` is not inside `{tile}`")
    loop, held = path[-1], facts.buffers.get(buffer) or local_buffers(kernel).get(buffer)
    found = [n for n in reads(loop.body) if n.attr == buffer]
    if held is None or len(found) != 1 or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"prefetch_rows: `{depth}` does not run from 0 in steps of 1 and read `{buffer}` once")
    (read,) = found
    rows = [x for x in all_loops(loop.body) if x.axis in read.names]
    lets = {s.name for s in statements((find(kernel, tile),)) if isinstance(s, Let)}
    if (
        stride(held.address(read.args), depth) != 1
        or any(x.kind != "unroll" for x in rows)
        or lets & read.names
        or not _straight(names, tile, read.names)
    ):
        raise StepError(f"prefetch_rows: `{buffer}` is not consecutive along `{depth}`, in rows of unrolled loops")
    taken = names_taken(kernel)
    line = LINE // held.dtype.bytes
    along = fresh(f"{depth}.n", taken)
    at = {var(depth): var(along) * line, var(tile): var(tile) + ONE}
    copies = [replace(x, axis=fresh(f"{x.axis}.n", taken)) for x in rows]
    at |= {var(x.axis): var(c.axis) for x, c in zip(rows, copies, strict=True)}
    hints: Block = (Prefetch(buffer, tuple(substitute(e, at) for e in read.args), ZERO),)
    hints = (Loop(along, ZERO, ceildiv(loop.stop, line), hints, "serial"),)
    return replace_loop(kernel, tile, lambda x: (with_body(x, (*nested(copies, hints), *x.body)),))


def prefetch_tile(kernel: Kernel, facts: Facts, buffer: str, depth: str) -> Kernel:
    """Ask, before the loop over `depth` adds up the sums of a tile, for the lines of an operand that are read or stored behind it.

                                                            for i.1.n in 0 .. 14 unroll:
                                                              prefetch C[14·i.0 + i.1.n, 32·j.0] write
                                                              prefetch C[14·i.0 + i.1.n, 32·j.0] ahead 16 write
        for p.1: acc[…] += …                       →        for p.1: acc[…] += …
        for i.1 in 0 .. 14 unroll:                          for i.1 in 0 .. 14 unroll:
          for j.1 in 0 .. 32 vector:                          for j.1 in 0 .. 32 vector:
            C[14·i.0 + i.1, 32·j.0 + j.1] = acc[i.1, j.1]       C[14·i.0 + i.1, 32·j.0 + j.1] = acc[i.1, j.1]

    A hint changes no value.  What is touched behind the loop is consecutive along a vector, one for each iteration of an unrolled loop.  At a border it is asked for what there need not be.
    """
    held, path = facts.buffers.get(buffer), list(around(kernel, depth))
    loop, outer = path.pop(), path.pop() if path else kernel
    top, outer = (outer, path.pop() if path else kernel) if isinstance(outer, If) else (loop, outer)  # tiles of which nothing is read are left out
    if held is None or not isinstance(outer, (Kernel, Loop)):
        raise StepError(f"prefetch_tile: `{buffer}` is no operand, or `{depth}` stands in no loop")
    behind = outer.body[outer.body.index(top) + 1 :]
    lets = {s.name for s in statements(behind) if isinstance(s, Let)}
    for rows in (x for x in all_loops(behind) if x.kind == "unroll" and x.start is ZERO):
        vectors = [x for x in all_loops(rows.body) if x.kind == "vector"]
        count = constant_extent(vectors[0]) if len(vectors) == 1 else None
        stored = [s.index for s in statements(rows.body) if isinstance(s, Store) and s.buffer == buffer]
        for index in (*stored, *(n.args for n in reads(rows.body) if n.attr == buffer)):
            address = simplify(held.address(index), facts.known)
            if count is None or stride(address, vectors[0].axis) != 1 or rows.axis not in address.names or lets & address.names:
                continue
            along = fresh(f"{rows.axis}.n", names_taken(kernel))
            first = tuple(substitute(e, {var(vectors[0].axis): vectors[0].start, var(rows.axis): var(along)}) for e in index)
            hints: Block = tuple(Prefetch(buffer, first, const(k), 1, bool(stored)) for k in range(0, count, LINE // held.dtype.bytes))
            asked = replace(rows, axis=along, body=hints)
            return replace_loop(kernel, depth, lambda x, asked=asked: (asked, x))
    raise StepError(f"prefetch_tile: nothing behind `{depth}` touches `{buffer}` in vectors, a row for each iteration of an unrolled loop")


def _straight(names: list[str], tile: str, read: frozenset[str]) -> bool:
    """Whether what is read depends on no loop between the tile and its depth."""
    return read.isdisjoint(names[names.index(tile) + 1 : -1])
