"""The plan for large results that are turned over and whose rows do not begin at lines of the cache: tiles that are moved to where lines begin, row by row.

    for i.1.0:                                            i: rows of the result, along which the operand is consecutive; j: along a row of the result
      for i.s in 0 .. 16, j.s in 0 .. 144:                  in squares that are turned over in registers
        X.packed[i.s, j.s] = X[j.s, i.s]
      for i.1.1 in 0 .. 16:
        for j.1 in b .. 128 + b vector:                     b = (to_line(Y) - i·M) % 16
          Y[i, j.1] = X.packed[i.1.1, j.1]                  past the caches, in whole lines

What a square stores of such a row is the end of one line and the beginning of the next: through the caches each is read before it is written, and evicted between its two halves, for rows are pages apart; past the caches half a line is as
dear as two.  So it is with squares whose rows are less than a line, wherever rows begin: shorter vectors than lines, elements of less than 4 bytes.  Tiles overlap by a line in what they read, which is still near.  (Emerald Rapids, two threads,
4100² floats 34 → 5 ms, where a copy takes 3; 5000² 38 → 7.5; bf16 of 4096² 39 → 4.6, bytes of 8192² 159 → 9.5; with AVX2 4096² floats 28 → 5.)
"""

from __future__ import annotations

from ...ir.expr import FALSE, TRUE, ZERO, Expr, both, const, mod
from ...ir.kernel import Kernel, Store
from ...ir.record import replace
from ...ir.simplify import simplify
from ...ir.target import LINE
from . import cost, roles
from .affine import inside, row_step
from .joined_axes import joined
from .parts import parted
from .plan import Plan
from .streams import large
from .traffic import streamed, threads
from .transpositions import turned, turning
from .tree import StepError, less, reads
from .vectors import strip, tabulated


def by_lines(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for results that are stored past the caches and whose rows begin anywhere, with the condition on the sizes (none where they are known to be so); nothing where there is no such result."""
    found = _rows(plan) if plan.alone else None
    if found is None:
        return []
    condition, a, b, stored = found
    part = Plan(plan.kernel, replace(plan.facts, assumed=condition), plan.target, plan.options)
    try:
        _in_line_tiles(part, a, b, stored)
    except StepError as e:
        plan.note(f"rows that do not begin at lines are stored as others are: {e}")
        return []
    plan.note(*part.notes)
    return [(None if condition is TRUE else condition, part.kernel)]


def _rows(plan: Plan) -> tuple[Expr, str, str, str] | None:
    """When rows are stored past the caches and squares would not store whole lines of them; the axis along which an operand is consecutive that the result is not, the one along which the result is, and the result."""
    plan = Plan(plan.kernel, plan.facts, plan.target, plan.options)
    joined(plan)
    form = roles.shape(plan.kernel)
    least = cost.stream_bytes(plan.target)
    if not least or not cost.first_lanes(plan.target) or len(form.chain) < 2 or len(form.body) != 1:
        return None
    (store,) = form.body
    axes = turning(plan, form, roles.positions(form, plan.facts))
    if not isinstance(store, Store) or store.buffer not in plan.facts.buffers or axes is None:
        return None
    a, b = axes
    held = plan.facts.buffers[store.buffer]
    line = LINE // held.dtype.bytes
    parts = _parts_of_lines(plan, form, store, a)
    long = [plan.loop(b).stop, plan.loop(a).stop]
    if line < 2 or parts is None or any(not e.names <= plan.facts.sizes.keys() or e.buffers for e in long):
        return None
    condition = both(large(plan.facts, store.buffer, least), parts, const(2 * cost.LINES_OF_TILE * line).le(long[0]), const(cost.TURNED).le(long[1]))
    condition = simplify(condition or TRUE, plan.facts.known)
    return None if condition is FALSE else (condition, a, b, store.buffer)


def _parts_of_lines(plan: Plan, form: roles.Shape, store: Store, a: str) -> Expr | None:
    """When squares would store parts of lines: where rows along `a` do not all begin at the same place of a line, or always, if a row of a square is less than one; None where the sizes do not say."""
    held = plan.facts.buffers[store.buffer]
    if _side(plan, form) * held.dtype.bytes < LINE:
        return TRUE
    address = simplify(held.address(store.index), inside(form.chain, plan.facts.known))
    step = next(row_step(address, x) for x in form.chain if x.axis == a)
    return less(ZERO, mod(step, const(LINE // held.dtype.bytes))) if step is not None and step.names <= plan.facts.sizes.keys() else None


def _side(plan: Plan, form: roles.Shape) -> int:
    """The side of the squares."""
    return min(cost.lanes(plan.target, roles.widest(form.body)), cost.TURNED)


def _in_line_tiles(plan: Plan, a: str, b: str, stored: str) -> None:
    """The steps."""
    plan.do("decide")
    tabulated(plan)
    parted(plan)
    joined(plan)
    form = roles.shape(plan.kernel)
    held = plan.facts.buffers[stored]
    width, side = cost.lanes(plan.target, roles.widest(form.body)), _side(plan, form)
    if side < 2:
        raise StepError("their elements are no lanes")
    others = tuple(x for x in form.axes if x not in (a, b))
    if (order := (*others, a, b)) != form.axes:
        plan.do("reorder", *order)
    plan.do("split", a, cost.LINES_READ * LINE // held.dtype.bytes)
    rows, row = f"{a}.1", f"{b}.1"
    plan.do("line_tiles", b, cost.LINES_OF_TILE * LINE // held.dtype.bytes, stored)
    plan.do("reorder", f"{b}.0", rows)
    before = plan.kernel
    plan.do("unswitch", rows)
    other, *_ = plan.added(before)
    _packed(plan, rows, row, side, width)
    _packed(plan, other, f"{row}.b", side, width)
    if len(others) == 0:
        plan.do("collapse", f"{a}.0", f"{b}.0")
    threads(plan)
    streamed(plan)
    plan.note(f"rows of `{stored}` that begin anywhere are stored in whole lines: tiles along `{b}` begin where lines do")


def _packed(plan: Plan, rows: str, row: str, side: int, width: int) -> None:
    """Some rows of a tile at a time: what turns over in squares that are kept, and each row stored from there."""
    earlier = plan.kernel
    plan.do("split", rows, side)
    block, rows = plan.added(earlier)[:2]
    for buffer in dict.fromkeys(n.attr for n in reads(plan.loop(row).body) if n.attr in plan.facts.buffers and {rows, row} <= n.names):
        if any(n.attr == buffer for n in reads(plan.loop(row).body)):
            before = plan.kernel
            plan.do("stage", buffer, rows, row, at=block, space="stack")
            *_, along_loads, along_row = plan.copying(plan.newest(before), before)
            turned(plan, along_loads, along_row, side, ahead=block)
    strip(plan, row, width)
