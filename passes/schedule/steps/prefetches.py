"""The step that asks for memory before it is needed: `prefetch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ....ir.dtypes import INDEX
from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, const, floordiv, maximum, minimum, mod, var, where
from ....ir.kernel import Block, If, Kernel, Let, Loop, Prefetch, Stmt, reads, statements, substitute_block, with_body, written
from ....ir.simplify import simplify
from ....ir.target import LINE, PAGE
from ....ir.walks import postorder, substitute, substitution
from ..affine import constant_extent, divides, extent, inside_for, minus, stride, upper
from ..tree import Facts, Never, StepError, around, find, fresh, names_taken, replace_loop
from .hint_lines import asking, in_order, in_pieces, unhinted
from .streams import large

MOST_AHEAD = 16  # rows: as many lines may be on their way at once


def prefetch(
    kernel: Kernel,
    facts: Facts,
    buffer: str,
    axis: str,
    row: str,
    trips: int = 1,
    bytes: int = 0,
    near: int = 0,
    least: int = 0,
    places: int = 1,
    most: int = 0,
    over: int = 0,
    on: str = "",
    cache: int = 1,
    again: int = 0,
    times: int = 1,
    often: int = 0,
) -> Kernel:
    """Ask, in each iteration of a loop, for what the next iteration of a loop around it (or the one so many `trips` on), or of itself, reads of a buffer there.

        for i in 0 .. M:                       for i in 0 .. M:
          for j in 0 .. N // 16:                 for j in 0 .. N // 16:
            for k in 0 .. 16 vector:      →        prefetch X[i, j * 16] ahead N
              … X[i, j * 16 + k] …                 for k in 0 .. 16 vector:
                                                     … X[i, j * 16 + k] …

    A hint changes no value.  Inside `axis` stands one vector loop that reads consecutive elements of `buffer`, or an unrolled loop and in it the vector, along one of which they are consecutive (along the
    unrolled one, where a block is turned over): one hint for each line of its rows.  How far the next iteration of `row` is depends on sizes alone.

    With `places`, the hints go through what is asked for in so many places at once, each from a part of its own to where the next begins: so many pages come side by side, where one after the other each
    would begin with a wait that the prefetchers of machines do not see coming.

        for i in 0 .. M:                       for i in 0 .. M:
          for j in 0 .. N // 16:                 for j in 0 .. N // 16:
            for k in 0 .. 16 vector:      →        prefetch X[i, (j % 4 * (N // 16 // 4) + j // 4) * 16] ahead N
              … X[i, j * 16 + k] …                 for k in 0 .. 16 vector:
                                                     … X[i, j * 16 + k] …

    With `on`, a loop around `row`, the last trips of `row` ask for what the next iteration of that loop reads first, where without they would ask for what lies behind the end of its rows.

        for t in 0 .. T:                                for t in 0 .. T:
          for i in 0 .. 32:                               for i in 0 .. 32:
            for j in 0 .. 4:                                for j in 0 .. 4:
              for k in 0 .. 16 vector:           →            prefetch X[t·64 + j, i * 16] ahead where(i + 4 < 32, 64, 64·N - 28·16)
                … X[t·64 + j, i * 16 + k] …                   for k in 0 .. 16 vector:
                                                                …

    Of iterations of a loop between `row` and `axis` that read one line, a vector each, the first asks.

    With `most`, nothing is asked for that lies more than so many bytes ahead: a longer row leaves the caches before it is read.  With `over`, only what lies more than so many ahead.

    With `near`, what lies so many bytes behind each line that is read is asked for: where a loop goes through memory from one end to the other, whatever the lengths of its rows, that is what it reads
    next, and an address that is known anyway.  Of iterations that read one line, the first asks.

        for w in 0 .. D // 16:                         for w in 0 .. D // 16:
          for q in 0 .. 8 unroll:                        for q.p in 0 .. 8 unroll:
            for k in 0 .. 16 vector:           →           prefetch K[p * 8 + q.p, w * 16] ahead 1024
              … K[p * 8 + q, w * 16 + k] …               for q in 0 .. 8 unroll:
                                                           …

    Where the iterations of the unrolled loops read rows that lie one behind the other, each to its end, the hints go through those lines in order, not row by row side by side: prefetchers of machines follow one
    stream better than some that begin a few lines apart (`ahead` counts from where the rows begin).

        for w in 0 .. D // 16:                         for w in 0 .. D // 16:
          for q in 0 .. 8 unroll:                        for q.p in 0 .. 8 unroll:
            for k in 0 .. 16 vector:           →           prefetch K[p * 8, 0] ahead (w * 8 + q.p) * 16 + 1024
              … K[p * 8 + q, w * 16 + k] …               …

    Where the loops inside read each line in pieces (a few elements of a row, and the next ones in the next iteration of an unrolled loop), one hint for each line too.

    With `bytes`, memory decides where an iteration of `row` reads, as in rows of a table by index; the iteration that is asked for is as far ahead as `axis` takes to read so many bytes.

        for i in 0 .. M:                       for i in 0 .. M:
          let at = I[i]                          let at = I[i]
          for j in 0 .. N // 16:                 let ahead = I[min(i + 8192 // 4 // N, M - 1)]·N - at·N
            for k in 0 .. 16 vector:      →      for j in 0 .. N // 16:
              … X[at, j * 16 + k] …                prefetch X[at, j * 16] ahead ahead
                                                   for k in 0 .. 16 vector:
                                                     … X[at, j * 16 + k] …

    What decides is read under no condition, is made of integers, and the kernel does not write it.

    With `cache=2`, it comes no nearer than the second cache: what the row that is worked on holds of the first stays there.

    With `again`, each line is asked for twice instead, so many bytes and twice as many later than it would be: beside hints that are there already, for machines drop some while stores wait for memory.

    With `times`, each line is asked for so often, from as far ahead as without, from two thirds and from one third of that, say: of hints that find as many lines on their way as a core waits for, machines drop some too.
    With `often`, more than once only where the buffer has so many bytes: of a smaller one the other hints ask for what is in the first cache already, and cost little.

    With `least`, memory is asked only where the buffer has so many bytes or more: one that the caches hold needs no hints, which take the place of loads.  Beside `near` a loop of few vectors then stands twice.
    """
    if cache not in (1, 2):
        raise StepError(f"prefetch: `cache` is 1 or 2, not {cache}")
    if times < 1 or (times > 1 and (again or bytes or on or places > 1 or (not near and trips < times))):
        raise StepError("prefetch: only what is asked for in order is asked for several times")
    path = around(kernel, axis)
    loop = path[-1]
    if not any(isinstance(s, Loop) and s.axis == row for s in (path[:-1] if bytes else path)):
        raise StepError(f"prefetch: `{axis}` is not inside `{row}`")
    assert isinstance(loop, Loop)
    if buffer not in facts.buffers:
        raise StepError(f"prefetch: `{buffer}` is local, or no buffer")
    held = facts.buffers[buffer]
    block, inner, outer = _vectors(unhinted(loop))
    if block is None or inner is None or constant_extent(inner) is None or constant_extent(block) is None:
        raise StepError(f"prefetch: no vector loop inside `{axis}`")
    around_it = [*(x for x in path if isinstance(x, Loop)), block, *(() if inner is block else (inner,))]

    def simplified(e: Expr) -> Expr:
        return simplify(e, inside_for(around_it, facts.known, e))

    def address_of(n: Expr) -> Expr:
        address = held.address(n.args)
        return simplified(address) if divides(address, [x.axis for x in around_it]) else address  # a collapsed axis reads (x // N)·N + x % N

    found = [n for n in reads(inner.body) if n.attr == buffer and n.names.isdisjoint(outer)]  # the same in all iterations of the loops between
    read = next((n for n in found if stride(address_of(n), block.axis) == 1), None)
    if read is None:
        block, inner = inner, block
        read = next((n for n in found if stride(address_of(n), block.axis) == 1), None)
    several = inner is block and len({n for n in found if stride(address_of(n), block.axis) == 1}) > 1  # rows side by side
    enough = large(facts, buffer, least)
    if enough is FALSE:
        raise Never(f"prefetch: `{buffer}` never has {least} bytes")
    several_times = large(facts, buffer, often)

    def each_time(far: Sequence[Expr]) -> list[Expr]:
        return [far[0], *(x if several_times is TRUE else where(several_times, x, ZERO) for x in far[1:] if several_times is not FALSE)]

    distances = each_time([const(near * k // times // held.dtype.bytes) for k in range(times, 0, -1)])
    if (read is None or several) and near and not (bytes or most or over or places > 1):
        return asking(kernel, axis, in_pieces(kernel, loop, held, distances, simplified, cache), enough)
    if read is None:
        raise StepError(f"prefetch: `{block.axis}` reads no consecutive elements of `{buffer}`")
    if not read.names.isdisjoint(s.name for s in statements(loop.body) if isinstance(s, Let)):
        raise StepError(f"prefetch: where `{buffer}` is read is only known inside `{axis}`")
    lanes = constant_extent(block) or 0
    before: Block = ()
    if bytes:
        name = fresh(f"{row}.ahead", names_taken(kernel))
        before = (Let(name, _decided(kernel, facts, held.address(read.args), path, find(kernel, row), max(1, bytes // held.dtype.bytes // lanes))),)
        ahead = var(name)
        distances = [ahead]
    elif near:
        ahead = distances[0]
    else:
        address = address_of(read)
        step = find(kernel, row).step

        def far(trips: int) -> Expr:
            return minus(substitute(address, {var(row): var(row) + step * trips}), address)

        distances = each_time([far(trips * k // times) for k in range(times, 0, -1)])
        ahead = distances[0]
        if any(n in ahead.names for n in (x.axis for x in path if isinstance(x, Loop))) or ahead.buffers:
            raise StepError(f"prefetch: the next iteration of `{row}` is not always as far")
        if ahead is ZERO:
            raise StepError(f"prefetch: every iteration of `{row}` reads the same")
        if again and (on or places > 1):
            raise StepError("prefetch: only what is asked for in order is asked for again")
        if on:
            ahead = _going_on(path, find(kernel, row), on, trips, ahead, lambda e: minus(substitute(address, {var(on): e}), address))
            distances = [ahead]
    each = min(lanes, max(1, LINE // held.dtype.bytes))
    starts: list[Expr] = [const(k) for k in range(0, lanes, each)]
    if places > 1:
        if bytes or near or inner is not block or loop.start is not ZERO or loop.step is not ONE or stride(address_of(read), axis) != lanes:
            raise StepError(f"prefetch: `{axis}` reads no row of `{buffer}` from its begin to its end")
        if (at_most := upper(loop.stop * lanes * held.dtype.bytes, facts.known)) is not None and at_most <= PAGE:
            raise StepError(f"prefetch: what `{axis}` reads of `{buffer}` is no more than a page")
        starts = [line * each for line in _spread(loop, len(starts), places)]
    from_begin = {var(axis): ZERO} if places > 1 else {}
    if again:
        distances = [ahead - k * again // held.dtype.bytes for k in (1, 2)]

    hints: Block = tuple(
        Prefetch(buffer, tuple(substitute(e, {**from_begin, var(block.axis): at}) for e in read.args), distance, cache)
        for distance in distances
        for at in starts
    )
    if inner.axis in read.names and inner is not block:
        line = fresh(f"{inner.axis}.p", names_taken(kernel))
        hints = (Loop(line, ZERO, inner.stop, substitute_block(hints, {var(inner.axis): var(line)}), "unroll"),)
        if near:
            hints = in_order(hints, loop, held, simplified)
    within = simplified(ahead.le(const(most // held.dtype.bytes))) if most else TRUE
    beyond = simplified(const(over // held.dtype.bytes).lt(ahead)) if over else TRUE
    if FALSE in (within, beyond):
        raise StepError(f"prefetch: the next iteration of `{row}` is never so far ahead")
    lines = LINE // (lanes * held.dtype.bytes)  # iterations that read one, where a vector is less
    new = mod(var(axis), const(lines)).eq(ZERO) if near and lines > 1 and stride(address_of(read), axis) == lanes else TRUE
    if lines > 1 and not (near or bytes):
        for x in path[[isinstance(s, Loop) and s.axis == row for s in path].index(True) + 1 : -1]:
            if isinstance(x, Loop) and x.start is ZERO and x.step is ONE and stride(address_of(read), x.axis) == lanes:
                new = mod(var(x.axis), const(lines)).eq(ZERO)
    if (near or (axis == row and cache > 1)) and enough is not TRUE:
        return asking(kernel, axis, hints if new is TRUE else (If(new, hints),), enough)
    condition = both(enough, beyond, within, new) or TRUE
    hints = hints if condition is TRUE else (If(condition, hints),)
    return replace_loop(kernel, axis, lambda x: (*before, with_body(x, (*hints, *x.body))))


def _going_on(path: Sequence[Stmt], row: Loop, on: str, trips: int, ahead: Expr, further: Callable[[Expr], Expr]) -> Expr:
    """How far ahead that is where the last trips of a row are followed by the first ones of the next iteration of a loop around it."""
    outer = next((s for s in path[: [s is row for s in path].index(True)] if isinstance(s, Loop) and s.axis == on), None)
    if outer is None or row.start is not ZERO or row.step is not ONE:
        raise StepError(f"prefetch: `{on}` is no loop around `{row.axis}`, or that does not begin at 0 in steps of 1")
    next_one = further(var(on) + outer.step)
    if on in next_one.names or next_one.buffers or next_one is ZERO:
        raise StepError(f"prefetch: the next iteration of `{on}` is not always as far")
    each = floordiv(ahead, const(trips))
    return where((var(row.axis) + trips).lt(row.stop), ahead, next_one + ahead - each * row.stop)


def _spread(loop: Loop, hints: int, places: int) -> list[Expr]:
    """Which lines of a row, counted from its begin, an iteration of a loop with so many hints asks for, that all of them together go through all of the row in so many places.
    Of what does not fill the parts, less than a line for each place, some is left out."""
    even = hints % places == 0
    part = loop.stop * (hints // places) if even else maximum(ONE, floordiv(loop.stop * hints, const(places)))

    def line(k: int) -> Expr:
        """The hint with this number."""
        if even:
            return part * (k % places) + (var(loop.axis) * (hints // places) + k // places)
        at = var(loop.axis) * hints + k
        return mod(at, const(places)) * part + floordiv(at, const(places))

    return [line(k) for k in range(hints)]


def _decided(kernel: Kernel, facts: Facts, address: Expr, path: Sequence[Stmt], row: Loop, trips: int) -> Expr:
    """How much further than here the row is read for which memory is asked now: as many rows ahead as the innermost loop of the path makes so many trips in.

    Where a row begins in its line makes no difference to a hint, and would be worked out anew for each row.
    """
    inner = path[[isinstance(s, Loop) and s.axis == row.axis for s in path].index(True) :]
    meaning: dict[Expr, Expr] = {}
    near: dict[Expr, Expr] = {}
    for outer, below in pairwise(inner):
        if not isinstance(outer, Loop):
            raise StepError(f"prefetch: what `{row.axis}` reads stands under a condition")
        for s in outer.body:
            if s is below:
                break
            if isinstance(s, Let) and _counts_to_a_line(s):
                near[var(s.name)] = ZERO
            elif isinstance(s, Let):
                meaning[var(s.name, s.value.dtype)] = substitute(s.value, meaning)
    address = substitute(address, meaning)
    last = inner[-1]
    assert isinstance(last, Loop)
    rows = maximum(ONE, minimum(const(MOST_AHEAD), floordiv(const(trips), maximum(ONE, simplify(substitute(extent(last), near), facts.known)))))
    ahead = minus(substitute(address, {var(row.axis): minimum(var(row.axis) + rows, row.stop - 1)}), address)
    if not ahead.buffers or row.step is not ONE:
        raise StepError(f"prefetch: no memory decides where `{row.axis}` reads, or it does not run in steps of 1")
    if not ahead.buffers <= facts.buffers.keys() - written(kernel.body) or any(n.dtype.kind not in ("int", "uint", "bool") for n in postorder(ahead)):
        raise StepError("prefetch: what decides is computed, or written by the kernel")
    if any(isinstance(s, Loop) and s.axis in ahead.names for s in inner[1:]):
        raise StepError(f"prefetch: it is not all of the row of `{row.axis}` that is moved")
    return ahead


def _vectors(loop: Loop) -> tuple[Loop | None, Loop | None, tuple[str, ...]]:
    """Along which loop inside this one (or in its interior) lines are read, and which is the vector: the same, or a block that is turned over.  The axes of the unrolled loops around these."""
    outer: list[str] = []
    while True:
        body = (s for t in loop.body for s in (t.body if isinstance(t, If) else (t,)))
        inner = next((s for s in body if isinstance(s, Loop) and s.kind in ("vector", "unroll")), None)
        if inner is None:
            return None, None, ()
        if inner.kind == "vector":
            return inner, inner, tuple(outer)
        vector = next((t for t in inner.body if isinstance(t, Loop) and t.kind == "vector"), None)
        if vector is not None:
            return inner, vector, tuple(outer)
        outer.append(inner.axis)
        loop = inner


class Candidate(NamedTuple):
    """A loop that may ask for the next row; `under`: others read it before, under a condition."""

    buffer: str
    axis: str
    row: str
    under: bool


def candidates(kernel: Kernel, facts: Facts) -> Iterator[Candidate]:
    """What several loops of a row read, one after the other, from the same position on: the last of these loops.

    The first of them waits for memory, the last works in the cache: there memory has time to bring the next row.  Loops under a condition come before those behind it, whichever way is taken.
    """
    yield from _passes(kernel.body, "", facts, {}, frozenset())


_Place = tuple[str, Expr]  # a buffer, and where in it a loop begins to read


def _passes(block: Block, row: str, facts: Facts, near: dict[Expr, Expr], later: frozenset[_Place]) -> Iterator[Candidate]:
    """The candidates of a block; `near` is where loops begin that were aligned (in the line where the row does), `later` what is read again behind the block."""
    readers: dict[_Place, list[str]] = {}
    near = dict(near)
    for k, s in enumerate(block):
        if isinstance(s, Let) and _counts_to_a_line(s):
            near[var(s.name)] = ZERO
        if isinstance(s, If):
            all_near = _aligned(block, near)
            behind = frozenset(place for t in block[k + 1 :] for place in _read_from(t, facts, all_near))
            for body in s.blocks():
                yield from _passes(body, row, facts, near, later | behind)
                for place in (place for t in body for place in _read_from(t, facts, near)):
                    readers.setdefault(place, []).append("")
        elif isinstance(s, Loop):
            yield from _passes(s.body, s.axis, facts, {}, frozenset())
            for place in _read_from(s, facts, near):
                readers.setdefault(place, []).append(s.axis)
    if row:
        last: dict[str, _Place] = {}
        for place, axes in reversed(readers.items()):  # tails come after what they are the tails of
            if len(axes) > 1 and axes[-1]:
                last[place[0]] = place
        for place in reversed(last.values()):
            if place not in later:
                yield Candidate(place[0], readers[place][-1], row, "" in readers[place])


def read_once(kernel: Kernel, facts: Facts) -> Iterator[tuple[str, str]]:
    """What a reduction reads of a row that no other loop of the row reads: (buffer, the loop along the row)."""

    def walk(block: Block, row: str) -> Iterator[tuple[str, str]]:
        found = [(place, s) for s in block if isinstance(s, Loop) for place in _read_from(s, facts, {})]
        for buffer in dict.fromkeys(place[0] for place, _ in found):
            (_, begin), first = next((place, s) for place, s in found if place[0] == buffer)  # those behind it are tails, or read what is near
            if first.kind == "reduce" and row in begin.names and sum(place == (buffer, begin) for place, _ in found) == 1:
                yield buffer, first.axis
        for s in block:
            if isinstance(s, Loop):
                yield from walk(s.body, s.axis)
            elif isinstance(s, If):
                for body in s.blocks():
                    yield from walk(body, row)

    yield from walk(kernel.body, "")


def _counts_to_a_line(s: Let) -> bool:
    """Whether it says how far it is to where a line of the cache begins."""
    return s.value.dtype is INDEX and any(n.op == "to_line" for n in postorder(s.value))


def _aligned(block: Block, near: dict[Expr, Expr]) -> dict[Expr, Expr]:
    return near | {var(s.name): ZERO for s in block if isinstance(s, Let) and _counts_to_a_line(s)}


def _read_from(s: Stmt, facts: Facts, near: dict[Expr, Expr]) -> list[_Place]:
    """From where on a loop over vectors reads; what stands before a line begins is no pass over the row."""
    if not isinstance(s, Loop) or (s.stop.names and s.stop.names <= {e.attr for e in near}):
        return []
    places: list[_Place] = []
    for x, found in _vectors_of(s, facts):
        begin = substitution({**near, var(s.axis): ZERO, var(x.axis): ZERO})
        places += dict.fromkeys((n.attr, begin(facts.buffers[n.attr].address(n.args))) for n in found)
    return places


def _vectors_of(loop: Loop, facts: Facts) -> list[tuple[Loop, list[Expr]]]:
    """The vector loops in a loop, each with what it reads of buffers where that moves with the loop around."""
    vectors = [x for x in loop.body if isinstance(x, Loop) and x.kind == "vector"]
    return [(x, [n for n in reads(x.body) if n.attr in facts.buffers and loop.axis in n.names]) for x in vectors]


def decided(kernel: Kernel, facts: Facts) -> Iterator[tuple[str, str, str]]:
    """What is read of a row that memory chooses: (buffer, the loop along the row, the loop over rows)."""

    def walk(block: Block, row: str, chosen: frozenset[str]) -> Iterator[tuple[str, str, str]]:
        for s in block:
            if isinstance(s, Let) and s.value.buffers and row in s.value.names:
                chosen |= {s.name}
            elif isinstance(s, Loop):
                vectors = _vectors_of(s, facts) if chosen else []
                yield from ((buffer, s.axis, row) for buffer in dict.fromkeys(n.attr for _, found in vectors for n in found if n.names & chosen))
                if not vectors:
                    yield from walk(s.body, s.axis, frozenset())

    yield from walk(kernel.body, "", frozenset())
