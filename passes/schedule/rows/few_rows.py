"""The plan for reductions of rows where the sizes decide how they are shared: few long rows, rows that lie side by side between the axes that are reduced, all others.

    for i in 0 .. M parallel:                  if M < 8 and M % 4 != 0 and 65536 <= N:
      for p in 0 .. N reduce:         →          for i in 0 .. M:
        acc[] add= X[i, p]                         … the pieces of a row in parallel, their results put together in order
      Y[i] = acc[]                             else:
                                                 … rows in parallel

    for i in 0 .. M parallel:                  for i.0 in 0 .. ceil(M / 64) parallel:
      for p in 0 .. N reduce:                    alloc acc: f32[64] register
        for q in 0 .. K reduce:       →          for p in 0 .. N reduce:
          acc[] max= X[p, i, q]                    for i.1 in 0 .. min(64, M - 64·i.0):
      Y[i] = acc[]                                   for q in 0 .. K reduce: acc[i.1] max= X[p, 64·i.0 + i.1, q]
                                                 …

    for i in 0 .. M parallel:                  if N <= 6:
      for p in 0 .. N reduce:         →          for i.0 in 0 .. M // 16 parallel:
        acc[] max= X[i, p]                         for p in 0 .. N reduce:
      Y[i] = acc[]                                   for i.1 in 0 .. 16 vector: acc[i.1] max= X[16·i.0 + i.1, p]
                                                   …

Row by row, the second would jump through memory for each: it takes K elements at a time, now 64·K.  From the caches that is no matter, unless K elements are a small part of a line.
"""

from __future__ import annotations

from itertools import pairwise

from ....ir.conditions import disjunction
from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, const, mod, product, var
from ....ir.kernel import Alloc, Kernel, Let, Loop, Store, perfect, statements
from ....ir.simplify import simplify
from ....ir.target import LINE
from .. import cost, roles
from ..plan import Plan
from ..steps.streams import large
from ..steps.variants import choose
from ..tree import StepError, reads
from .columns_inside import strips
from .ones import of_ones
from .rows_together import by_length
from .several_rows import several_rows, shares
from .traffic import threads
from .vectors import by_columns, chunks, vectors_inside


def few_rows(plan: Plan) -> bool:
    """Schedule the kernel in each way; False, and nothing done, where rows hold more than reductions, or the sizes leave one way only."""
    form = roles.shape(plan.kernel)
    loops = [s for s in form.body if isinstance(s, Loop)]
    if not form.chain or not loops or any(x.kind != "reduce" or x.step is not ONE for x in loops) or by_columns(plan):
        return False
    if any(not isinstance(s, Let) for s in plan.kernel.body[:-1]) or any(x.stop.names & set(form.axes) for x in loops):
        return False
    rows = product(tuple(x.stop for x in form.chain))
    parts = of_ones(plan)
    long = both(*(const(2 * cost.LONG).le(_length(x)) for x in loops)) or TRUE
    lane = cost.ROW_OF_LANE_NAN if any(roles.keeps_nan(x) for x in roles.innermost(form.body)) else cost.ROW_OF_LANE
    few = both(*(_length(x).le(const(lane)) for x in loops)) or TRUE
    for condition, attempt in (
        (few, _in_lanes),
        (both(_unevenly(rows, plan.target.cores), long), _shared_rows),
        (
            both(const(cost.SIDE_BY_SIDE * (plan.target.cores - 1)).lt(rows), const(cost.JUMPS).le(loops[0].stop), _jumps(plan, loops[0])),
            _side_by_side,
        ),
    ):
        holds = simplify(condition or TRUE, plan.facts.known)
        part = plan.another(holds if attempt is _in_lanes else None)
        if not (holds.is_const and not holds.attr) and holds.names <= plan.facts.sizes.keys() and attempt(part, form):
            plan.note(*part.notes)
            parts.append((None if holds.is_const else holds, part.kernel))
            if holds.is_const:
                break
    else:
        parts += _from_memory(plan)
        parts += by_length(plan)
    plan.kernel = choose(plan.kernel, parts) if len(parts) > 1 else parts[0][1]
    return True


def _length(loop: Loop) -> Expr:
    """The positions of a nest of reductions."""
    return product(tuple(x.stop for x in perfect((loop,))[0]))


def _unevenly(rows: Expr, cores: int) -> Expr:
    """Where some cores would be left without a row, or with one of two: elsewhere whole rows are shared well enough, and nothing is put together afterwards."""
    return both(rows.lt(const(2 * cores)), call("not_equal", mod(rows, const(cores)), ZERO)) or TRUE


def _jumps(plan: Plan, loop: Loop) -> Expr:
    """Whether row by row is slow where each row takes a piece, then jumps: what is read is more than the last cache, or than our part of it where pieces are few lines, or a piece is so small a part of a line that other rows read it again."""
    read = [plan.facts.buffers[name] for name in dict.fromkeys(n.attr for n in reads((loop,))) if name in plan.facts.buffers]
    inner = loop.body[0]
    if not isinstance(inner, Loop):
        return FALSE
    found: list[Expr] = []
    for b in read:
        piece = _length(inner) * b.dtype.bytes
        few = both(piece.le(const(cost.FEW_LINES * LINE)), large(plan.facts, b.name, cost.stream_bytes(plan.target))) or TRUE
        found += [large(plan.facts, b.name, plan.target.l3), simplify(few, plan.facts.known), piece.le(const(LINE // 2))]
    return disjunction(tuple(found), plan.facts.known)


def _shared_rows(plan: Plan, form: roles.Shape) -> bool:
    """The threads share each row."""
    for axis in form.axes:
        plan.do("serial", axis)
    pieces = chunks(plan, form.axes)
    if not any(line.startswith("split_reduction") for line in plan.kernel.schedule):
        return False
    vectors_inside(plan, pieces)
    plan.note(f"rows of {2 * cost.LONG} or more that {plan.target.cores} cores would share unevenly: threads share each of them")
    return True


def _in_lanes(plan: Plan, form: roles.Shape) -> bool:
    """A row in each lane: rows of so few elements that to put what lanes hold together takes longer than to load each for its own."""
    plan.do("decide")
    width, kept = cost.lanes(plan.target, roles.widest(form.body)), form.axes[-1]
    if width < 2 or (plan.extent(kept) or width) < width:
        return False
    with plan.attempt("short rows are worked off as long ones") as attempt:
        for a in reversed(form.axes[:-1]):
            if not _neighbours(plan, a, kept):
                break
            kept = plan.collapsed((a, kept))
        strips(plan, kept, width)
        threads(plan)
    return not attempt.refused


def _side_by_side(plan: Plan, form: roles.Shape) -> bool:
    """The outer axis of the one reduction outside of many rows, each with accumulators of its own."""
    loops = [s for s in form.body if isinstance(s, Loop)]
    outer = loops[0]
    if len(loops) != 1 or len(outer.body) != 1 or not isinstance(inner := outer.body[0], Loop):
        return False
    kept, moved = form.axes[-1], [n for n in reads((inner,)) if outer.axis in n.names]
    order = [[next((k for k, e in enumerate(n.args) if axis in e.names), -1) for axis in (outer.axis, kept, inner.axis)] for n in moved]
    if not moved or not all(0 <= a < b < c for a, b, c in order):
        return False
    try:
        vectors_inside(plan, side_by_side=1)
        for a in reversed(form.axes[:-1]):
            if not _neighbours(plan, a, kept):
                break
            kept = plan.collapsed((a, kept))
        plan.do("split", kept, cost.SIDE_BY_SIDE)
        for s in plan.loop(f"{kept}.1").body:
            if isinstance(s, Alloc):
                plan.do("expand", s.buffer.name, f"{kept}.1")
        earlier = plan.kernel
        plan.do("fission", f"{kept}.1", around=outer.axis)
        pieces = [f"{kept}.1", *plan.added(earlier)]
        plan.do("reorder", outer.axis, next(x for x in pieces if any(isinstance(s, Loop) and s.axis == outer.axis for s in plan.loop(x).body)))
    except StepError as e:
        plan.note(f"`{outer.axis}` stays inside `{kept}`: {e}")
        return False
    for n in moved:
        plan.tried("prefetch", n.attr, f"{inner.axis}.0", outer.axis)
    threads(plan)
    plan.note(f"{cost.SIDE_BY_SIDE} iterations of `{kept}` side by side inside `{outer.axis}`: memory is read in pieces of so many rows")
    return True


def _from_memory(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """Rows that share an operand and come from memory: more of them side by side, with fewer vectors each."""
    buffer, ahead = shares(plan), cost.streams(plan.target)
    if not buffer or not ahead.least:
        return []
    condition = simplify(large(plan.facts, buffer, ahead.least), plan.facts.known)
    if condition is FALSE or not condition.names <= plan.facts.sizes.keys():
        return []
    part = plan.another()
    vectors_inside(part, side_by_side=cost.ACCUMULATORS // 2)
    if not several_rows(part, ahead.rows, cost.rows_ahead(plan.target)):
        return []
    plan.note(f"where `{buffer}` comes from memory:", *part.notes)
    return [(condition, part.kernel)]


def _neighbours(plan: Plan, a: str, b: str) -> bool:
    """Whether the two axes are neighbouring indices of all that is touched in memory."""
    touched = [(n.attr, n.args) for n in reads(plan.kernel.body)] + [
        (s.buffer, s.index) for s in statements(plan.kernel.body) if isinstance(s, Store)
    ]
    found = [index for name, index in touched if name in plan.facts.buffers]
    pairs = [{(x, y) for x, y in pairwise(index)} for index in found]
    return all((var(a), var(b)) in p for p in pairs)
