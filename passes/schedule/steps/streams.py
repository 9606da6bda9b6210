"""The steps that store a result past the caches: `stream_store`, and `align`, so that it is stored in whole lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....ir.dtypes import INDEX
from ....ir.expr import FALSE, TRUE, ZERO, Expr, call, const, minimum, mod, to_line, var, where
from ....ir.kernel import Block, Buffer, If, Kernel, Let, Loop, Prefetch, Stmt, Store, map_block, statements, substitute_block, with_body
from ....ir.places import homes_in
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.target import LINE
from ....ir.walks import postorder, substitute
from ..affine import constant_extent, divides, inside, row_step, stride
from ..tree import Facts, Never, StepError, all_loops, around, copy, find, fresh, names_taken, reads, replace_loop, storing

OPEN_LINES = 8  # that are stored in halves one after the other: by hand, Zen 4, 4096² floats turned over in squares of 8, 5.8 ms through the caches, 3.3 so; not measured on others


def stream_store(kernel: Kernel, facts: Facts, buffer: str, least: int = 0) -> Kernel:
    """Store a result past the caches where it has `least` bytes or more: what would be evicted before anybody reads it need not be fetched either, so a line is written
    without being read first.

        for i in 0 .. M:                     for i in 0 .. M:
          Y[i] = exp(X[i])            →        Y[i] = exp(X[i]) stream 16777216 <= M * 4

    `buffer` is a port or lives between kernels; this kernel only stores it, never accumulates into it, and reads nothing of it.  Where a loop comes back to a row after others, as in a transposition, and the
    rows do not begin at lines, half a line would be stored now and half later, each on its own way to memory: a store waits for whole lines, which `N % 16 = 0` may decide when it runs.  What comes back to a
    row for less than a line is not stored past the caches (bf16 of 4096² turned over, 32 bytes of a row at a time: 39 ms, where whole lines take 4.6), but where it does so right after no more than 8 rows: so many lines
    machines put together at once.
    """
    if buffer not in facts.buffers:
        raise StepError(f"stream_store: `{buffer}` is local, or no buffer")
    stores = storing(kernel.body, buffer)
    if not stores:
        raise StepError(f"stream_store: the kernel does not store `{buffer}`")
    if any(s.combiner for s, _ in stores) or any(buffer in e.buffers for s in statements(kernel.body) for e in s.expressions()):
        raise StepError(f"stream_store: the kernel reads `{buffer}` again")
    condition = large(facts, buffer, least)
    if condition is FALSE:
        raise Never(f"stream_store: `{buffer}` never has {least} bytes")
    if not all(loops for _, loops in stores):
        raise StepError(f"stream_store: one element of `{buffer}` is stored in no loop")
    cut = {s.name: s for s in statements(kernel.body) if isinstance(s, Let) and buffer in s.value.names and to_line(buffer) in postorder(s.value)}
    conditions = {id(s): _whole(facts, s, loops, condition, cut) for s, loops in stores}
    if all(c is FALSE for c in conditions.values()):
        raise StepError(f"stream_store: half a line of `{buffer}` at a time")

    def one(s: Stmt) -> Block | None:
        found = conditions.get(id(s), FALSE)
        return (replace(s, stream=found),) if isinstance(s, Store) and found is not FALSE else None

    return kernel.with_body(map_block(kernel.body, one), homes_in(kernel))


def _whole(facts: Facts, store: Store, path: Sequence[Loop], condition: Expr, cut: Mapping[str, Let]) -> Expr:
    """The condition, and that rows begin at lines where a loop goes from row to row inside of one that moves on in a row by whole lines; but where each row begins, by a name of `cut`, at a line of its own."""
    held = facts.buffers[store.buffer]
    address = held.address(store.index)
    if divides(address, [x.axis for x in path]):  # of a collapsed axis
        address = simplify(address, inside(path, facts.known))
    begins = address.names.union(*[x.start.names for x in path if x.axis in address.names]).intersection(cut)
    moves = [(x, abs(stride(address, x.axis) or 0)) for x in path[:-1]]
    lanes = constant_extent(path[-1]) if path[-1].kind == "vector" else None
    vector = (lanes or 0) * abs(stride(address, path[-1].axis) or 0)  # elements: of results that take turns in memory, more than lanes
    if lanes is not None and len(path) > 2 and moves[-1][1] == vector:
        # what a row ends with is less than a vector and goes through the caches: a part of its line must not go past them, nor one part long before the other
        at_lines = bool(begins) or any(cut.keys() & x.stop.names for x in path)
        if at_lines and vector * held.dtype.bytes % LINE:
            return FALSE
        for name in cut.keys() & begins.union(*[x.stop.names for x in path]):
            condition = call("bit_and", condition, _cut_at_lines(cut[name].value))
        waits = any(x.kind == "reduce" for x in all_loops((path[0],)))
        for row in () if at_lines else [row_step(address, x) for x in path[:-2]]:
            condition = FALSE if row is None else call("bit_and", condition, mod(row, const(LINE // held.dtype.bytes if waits else vector)).eq(0))
    for k, loop in enumerate(path):
        row = row_step(address, loop) if loop.kind != "vector" and any(m for _, m in moves[:k]) else None
        if row is None or any(s is cut[name] for name in begins for s in statements(loop.body)):
            continue
        steps = [m for _, m in moves[:k] if m and (not row.is_const or m < abs(row.attr))]
        parts = [x for x, m in moves[:k] if m in steps and m * held.dtype.bytes % LINE]
        if path[-1].kind == "vector" and parts and not (parts == [path[k - 1]] and _few(loop)):
            return FALSE
        if steps:
            condition = _from_lines(condition, row, held)
    return simplify(condition, facts.known)


def _cut_at_lines(begin: Expr) -> Expr:
    """When a row is cut where `align` says, at a line."""
    chosen = [n.args[0] for n in postorder(begin) if n.op == "where" and any(m.op == "to_line" for m in postorder(n.args[1]))]
    return chosen[0] if chosen else TRUE


def _few(rows: Loop) -> bool:
    return rows.start.is_const and rows.stop.is_const and rows.stop.attr - rows.start.attr <= OPEN_LINES


def _from_lines(condition: Expr, row: Expr | None, held: Buffer) -> Expr:
    """The condition, and that rows so far apart begin at lines if one does."""
    return condition if row is None else call("bit_and", condition, mod(row, const(LINE // held.dtype.bytes)).eq(0))


def align(kernel: Kernel, facts: Facts, axis: str, buffer: str, least: int = 0, trips: int = 0) -> Kernel:
    """Begin a loop where what it stores, or else reads, begins a line of the cache; what is before that becomes a loop of its own.

        for i in 0 .. M parallel:              for i in 0 .. M parallel:
          for j in 0 .. N parallel:              let j.a = min(N, (to_line(Y) - i·N) % 16)
            Y[i, j] = X[i, j]          →         for j.h in 0 .. j.a parallel:
                                                   Y[i, j.h] = X[i, j.h]
                                                 for j in j.a .. N parallel:
                                                   Y[i, j] = X[i, j]

    From `least` bytes of `buffer` on: where a result goes past the caches, half a line costs as much as two.  malloc and NumPy begin 16 bytes past a line.  With `trips`, loops that have fewer of them begin where
    they did: a short one would be two short ones.  A hint as to where to cut: wherever the memory begins, the same is stored.  `axis` is parallel, in steps of 1, and consecutive elements of the buffer are stored along it, or read where it is not stored; loops between them count from their start.
    """
    path = around(kernel, axis)
    loop = find(kernel, axis)
    if loop.kind != "parallel" or loop.step != const(1):
        raise StepError(f"align: `{axis}` is no parallel loop in steps of 1")
    if buffer not in facts.buffers:
        raise StepError(f"align: `{buffer}` is local, or no buffer")
    held = facts.buffers[buffer]
    known = inside(path, facts.known)  # a collapsed axis stores at (x // N)·N + x % N, which is x
    stored = [s.index for s in statements(loop.body) if isinstance(s, Store) and s.buffer == buffer]
    touched = [held.address(index) for index in stored or [n.args for n in reads(loop.body) if n.attr == buffer]]
    addresses = (simplify(a, known) if divides(a, [axis]) else a for a in touched)
    address = next((a for a in addresses if stride(a, axis) == 1), None)
    if address is None or LINE % held.dtype.bytes or held.dtype.bytes == LINE:
        raise StepError(f"align: along `{axis}` no lines of `{buffer}` are stored or read")
    condition = large(facts, buffer, least)
    if trips:
        condition = call("bit_and", condition, const(trips).le(loop.stop - loop.start))
    for x in all_loops(loop.body):  # rows that take turns
        condition = _from_lines(condition, row_step(address, x), held)
    condition = simplify(condition, facts.known)
    inner = {var(x.axis): x.start for x in all_loops(loop.body)}
    address = substitute(address, {**inner, var(axis): loop.start})
    if address.buffers or address.names & {*(x.axis for x in all_loops(loop.body)), *(s.name for s in statements(loop.body) if isinstance(s, Let))}:
        raise StepError(f"align: where `{buffer}` is stored is only known inside `{axis}`")
    if condition is FALSE:
        raise StepError(f"align: `{buffer}` never has {least} bytes, its rows do not begin at lines, or are short")
    before = to_line(buffer) - address
    before = mod(before if condition is TRUE else where(condition, before, ZERO), const(LINE // held.dtype.bytes))
    taken = names_taken(kernel)
    begin, head = fresh(f"{axis}.a", taken), fresh(f"{axis}.h", taken)
    first = Loop(head, loop.start, var(begin, INDEX), copy(substitute_block(loop.body, {var(axis): var(head)}), taken), loop.kind, span=loop.span)
    return replace_loop(kernel, axis, lambda x: (Let(begin, minimum(loop.stop, loop.start + before)), first, replace(x, start=var(begin, INDEX))))


def prefetch_end(kernel: Kernel, facts: Facts, buffer: str, axis: str, least: int = 0) -> Kernel:
    """Ask, before anything of a row is worked on, for the line that the row ends in, to be stored into.

        for i in 0 .. M:                       for i in 0 .. M:
          …                             →        prefetch Y[i, N - 1] ahead 0 write
          for j in 0 .. N parallel:              …
            Y[i, j] = …                          for j in 0 .. N parallel:
                                                   Y[i, j] = …

    A hint changes no value.  Where rows do not begin at lines, the end of one and the begin of the next share a line, which is no whole one for either: it is read before it is stored into, and what is to go past the
    caches waits behind it.  The loop over `axis` stores into `buffer` in one place, and where its last iteration does is known outside of the row.  With `least`, from so many bytes of it on.
    """
    path = around(kernel, axis)
    loop, row = path[-1], next((s for s in reversed(path[:-1]) if isinstance(s, Loop)), None)
    assert isinstance(loop, Loop)
    stored = {s.index for s in statements(loop.body) if isinstance(s, Store) and s.buffer == buffer}
    if row is None or buffer not in facts.buffers or len(stored) != 1:
        raise StepError(f"prefetch_end: `{axis}` is no loop along the rows of `{buffer}`")
    last = tuple(substitute(e, {var(axis): loop.stop - 1}) for e in stored.pop())
    inner = {s.axis if isinstance(s, Loop) else s.name for s in statements(row.body) if isinstance(s, (Loop, Let))}
    if any(e.buffers or e.names & inner for e in last):
        raise StepError(f"prefetch_end: where a row of `{buffer}` ends is only known inside `{row.axis}`")
    if any(isinstance(s, Prefetch) and s.write and s.buffer == buffer and s.index == last for s in statements(row.body)):
        raise StepError(f"prefetch_end: `{row.axis}` asks for where a row of `{buffer}` ends already")
    condition = large(facts, buffer, least)
    if condition is FALSE:
        raise Never(f"prefetch_end: `{buffer}` never has {least} bytes")
    hint: Block = (Prefetch(buffer, last, ZERO, write=True),)
    hint = hint if condition is TRUE else (If(condition, hint),)
    return replace_loop(kernel, row.axis, lambda x: (with_body(x, (*hint, *x.body)),))


def large(facts: Facts, buffer: str, least: int) -> Expr:
    """Whether a buffer has `least` bytes or more."""
    held = facts.buffers[buffer]
    return simplify(const(least).le(held.elements * held.dtype.bytes), facts.known)
