"""Which lines `prefetch` asks for of what several rows are read side by side: each line once, and where the rows lie one behind the other, in the order of addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.expr import ONE, TRUE, ZERO, Expr, const, floordiv, var
from ....ir.kernel import Block, Buffer, If, Kernel, Loop, Prefetch, Stmt, Store, nested, perfect, reads, statements, with_body
from ....ir.record import replace
from ....ir.renaming import defined
from ....ir.target import LINE
from ....ir.walks import substitute
from ..affine import constant_extent, minus, row_step, same_position, stride
from ..tree import StepError, copy, fresh, names_taken, replace_loop

ASKED_AMONG = 16  # lines of what an iteration stores, beside which a condition that holds for all iterations costs nothing


def unhinted(loop: Loop) -> Loop:
    """The loop without what only asks for memory, as another step has left there."""

    def hints(s: Stmt) -> bool:
        found = statements((s,))
        return any(isinstance(t, Prefetch) for t in found) and all(isinstance(t, (Prefetch, Loop, If)) for t in found)

    return replace(loop, body=tuple(s for s in loop.body if not hints(s)))


def asking(kernel: Kernel, axis: str, hints: Block, condition: Expr) -> Kernel:
    """The loop with hints before its body.  Under a condition on the sizes a short body stands twice: asked in each iteration, that would cost more than the hints."""
    taken = names_taken(kernel) | set(defined(hints))

    def both_ways(x: Loop) -> Block:
        with_hints = with_body(x, (*hints, *x.body))
        if condition is TRUE:
            return (with_hints,)
        if _lines_stored(unhinted(x).body) >= ASKED_AMONG:
            return (with_body(x, (If(condition, hints), *x.body)),)
        return (If(condition, (with_hints,), copy((x,), taken)),)

    return replace_loop(kernel, axis, both_ways)


def _lines_stored(block: Block, lanes: int = 0) -> int:
    """How many lines the statements of a block store, or elements: those of its unrolled loops are written out, and vectors may be as long as several."""
    found = 0
    for s in block:
        if isinstance(s, Store):
            found += max(1, lanes * s.value.dtype.bytes // LINE)
        elif isinstance(s, Loop):
            count = constant_extent(s) or 1
            found += _lines_stored(s.body, count if s.kind == "vector" else lanes) * (count if s.kind == "unroll" else 1)
        elif isinstance(s, If):
            found += _lines_stored(s.body, lanes)
    return found


def in_pieces(kernel: Kernel, loop: Loop, held: Buffer, ahead: Sequence[Expr], simplified: Callable[[Expr], Expr], cache: int) -> Block:
    """The hints where the loops inside read lines piece by piece: for what is read in one line, one for each iteration of those loops that take more than a line, unrolled, and each distance `ahead`.  Of an `if`, what its condition holds for counts."""
    nest: list[Loop] = []
    block = unhinted(loop).body
    while len(block) == 1 and isinstance(found := block[0], (Loop, If)):
        nest += [found] if isinstance(found, Loop) else []
        block = found.body
    loads = [n for n in reads(block) if n.attr == held.name]
    if not loads or any(x.kind not in ("unroll", "vector") or constant_extent(x) is None or x.start is not ZERO for x in nest):
        raise StepError(f"prefetch: `{loop.axis}` reads no consecutive elements of `{held.name}`")
    taken = names_taken(kernel)
    starts = {n: substitute(held.address(n.args), {var(x.axis): ZERO for x in nest}) for n in loads}
    asked: list[Expr] = []
    for n in loads:  # what another asks for lies in the same line
        between = [minus(starts[n], starts[m]) for m in asked]
        if not any(d.is_const and abs(d.attr) < LINE // held.dtype.bytes for d in between):
            asked.append(n)
    return tuple(hint for n in asked for hint in _lines(loop, nest, held, n, ahead, taken, simplified, cache))


def _lines(
    loop: Loop, nest: Sequence[Loop], held: Buffer, read: Expr, ahead: Sequence[Expr], taken: set[str], simplified: Callable[[Expr], Expr], cache: int
) -> Block:
    """The hints for one of these reads."""
    line = LINE // held.dtype.bytes
    at: dict[Expr, Expr] = {}
    lines: list[Loop] = []
    address = held.address(read.args)
    for x in nest:
        steps = _steps(address, x)
        if steps is not None and min(steps) >= 0 and max(steps) < line:
            at[var(x.axis)] = ZERO
            line -= max(steps)
        else:
            lines.append(replace(x, axis=fresh(f"{x.axis}.p", taken), kind="unroll"))
            at[var(x.axis)] = var(lines[-1].axis)
    if line == LINE // held.dtype.bytes:
        raise StepError(f"prefetch: `{loop.axis}` reads no consecutive elements of `{held.name}`")
    hints = tuple(Prefetch(held.name, tuple(substitute(e, at) for e in read.args), far, cache) for far in ahead)
    return in_order(nested(lines, hints), loop, held, simplified)


def _steps(address: Expr, loop: Loop) -> list[int] | None:
    """How far behind its first trip each trip of a loop of known trips is, or only the first and the last where all are as far from one another; None where that is not known."""
    trips = constant_extent(loop) or 0
    step = row_step(address, loop)
    if step is not None and step.is_const:
        return [0, step.attr * (trips - 1)]
    if step is not None and trips > 1:
        return None
    first = substitute(address, {var(loop.axis): ZERO})
    steps = [minus(substitute(address, {var(loop.axis): const(k)}), first) for k in range(trips)]
    return [s.attr for s in steps] if all(s.is_const for s in steps) else None


def in_order(hints: Block, loop: Loop, held: Buffer, simplified: Callable[[Expr], Expr]) -> Block:
    """Such hints in the order of addresses, where the loop reads rows that lie one behind the other, those of the unrolled loops around the hints, from their begins to their ends."""
    nest, block = perfect(hints)
    asked = [h for h in block if isinstance(h, Prefetch)]
    address, line = held.address(asked[0].index), LINE // held.dtype.bytes
    step = stride(address, loop.axis) or 0
    if not nest or loop.start is not ZERO or step <= 0 or (step % line and line % step):
        return hints
    count, turn = 1, ZERO
    row = minus(substitute(address, {var(nest[-1].axis): var(nest[-1].axis) + ONE}), address)
    for x in reversed(nest):
        further = minus(substitute(address, {var(x.axis): var(x.axis) + ONE}), address)
        if not same_position(further, row * count):
            return hints
        turn, count = turn + var(x.axis) * count, count * (constant_extent(x) or 0)
    if simplified(floordiv(row, const(step))) is not simplified(loop.stop):
        return hints
    piece = max(step, line)
    turn = floordiv(var(loop.axis), const(piece // step)) * count + turn
    begin = {var(x.axis): ZERO for x in (loop, *nest)}
    hints = tuple(replace(h, index=tuple(substitute(e, begin) for e in h.index), ahead=h.ahead + turn * piece) for h in asked)
    return nested(nest, hints)
