"""Short rows with reductions are worked off several at a time: what waits at the end of a reduction (a fold, a division, a root) waits for all of them at once.

    for i in 0 .. M parallel:                 for i.0 in 0 .. M // 4 parallel:
      for p in 0 .. N // 16 reduce:             for p in 0 .. N // 16 reduce:
        for q in 0 .. 16 vector:                  for i.1 in 0 .. 4 unroll:
          acc[q] add= X[i, p, q]        →           for q in 0 .. 16 vector:
      let m = Σ acc / N                               acc[i.1, q] add= X[4·i.0 + i.1, p, q]
      for j in 0 .. N // 16:                    for i.1 in 0 .. 4 unroll:
        …                                         m[i.1] = Σ acc[i.1] / N
                                                for i.1 in 0 .. 4:
                                                  for j in 0 .. N // 16: …

Each row is summed as it was alone.  A pass over 512 floats is some 30 cycles, but after each reduction 60 more go by until the next pass has what it needs.  (Golden Cove, one thread, layer norm from the
second cache: rows of 64 2.3, of 128 1.9, of 512 1.5, of 768 1.2 times as fast.)  A cascade that works its rows off in tiles has one tile there, and is no exception.  What the rows store is stored row by row: see `jam`.
A row that is one maximum of floats is no exception either: what puts its lanes together takes as long as a short row.
"""

from __future__ import annotations

from ....ir.expr import ONE, TRUE, ZERO, Expr, both, call, const, var
from ....ir.kernel import Block, If, Kernel, Let, Loop, Store, statements
from ....ir.simplify import simplify
from ....ir.walks import substitute
from .. import cost, roles
from ..affine import upper
from ..plan import Plan
from ..steps.streams import large
from ..tree import StepError, all_loops, reads
from .rows_in_turn import in_turn
from .traffic import threads
from .vectors import by_columns, tabulated, vectors, vectors_inside


def by_length(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for short rows, where it has rows that may be short, with the condition on the sizes; and for all others."""
    parts: list[tuple[Expr | None, Kernel]] = []
    condition = _short(plan)
    if condition is not None:
        part = plan.another(condition)
        with plan.attempt("short rows one by one"):
            _together(part)
            plan.note(*part.notes)
            if condition is TRUE:
                return [(None, part.kernel)]
            parts.append((condition, part.kernel))
    turns = in_turn(plan)
    if turns is not None and turns[0] is TRUE:
        return [*parts, (None, turns[1])]
    if turns is not None:
        parts.append(turns)
    condition = from_memory(plan)
    if condition is not None and condition is not TRUE:
        part = plan.another(condition)
        part.do("decide")
        vectors(part)
        if any(line.startswith("prefetch ") and f" near={cost.ONCE_AHEAD} " in line for line in part.kernel.schedule):
            plan.note(*part.notes)
            parts.append((condition, part.kernel))
    rest = plan.another()
    vectors(rest)
    plan.note(*rest.notes)
    return [*parts, (None, rest.kernel)]


def _short(plan: Plan) -> Expr | None:
    """The condition under which rows are short and all of them are in the caches, or very short; None where it never holds, or rows are no rows."""
    form = roles.shape(plan.kernel)
    most = cost.rows_together(plan.target)
    if (
        not plan.alone
        or not form.chain
        or most < 2
        or not cost.first_lanes(plan.target)
        or any(not isinstance(s, Let) for s in plan.kernel.body[:-1])
    ):
        return None
    row = form.chain[-1]
    extent = plan.extent(row.axis)
    loops = _loops(form.body)
    if row.start is not ZERO or row.kind != "parallel" or (extent is not None and extent < most):
        return None
    waits = any(x.kind == "reduce" for x, _ in loops[:-1]) or any(roles.keeps_nan(x) for x, _ in loops)
    if not waits or any(all_loops(x.body) for x, _ in loops):  # or more than rows are reduced
        return None
    lengths = dict.fromkeys(stop for _, stop in loops)
    if any(not e.names <= plan.facts.sizes.keys() or e.buffers for e in lengths) or by_columns(plan):
        return None
    touched = {n.attr for n in reads(form.body) if row.axis in n.names} | {s.buffer for s in statements(form.body) if isinstance(s, Store)}
    sizes = dict.fromkeys(plan.facts.buffers[b].elements * plan.facts.buffers[b].dtype.bytes for b in sorted(touched & plan.facts.buffers.keys()))
    least = const(cost.stream_bytes(plan.target))
    widest = max((plan.facts.buffers[b].dtype.bytes for b in touched & plan.facts.buffers.keys()), default=1)
    reductions, stored = sum(x.kind == "reduce" for x, _ in loops), any(x.kind == "parallel" for x, _ in loops)
    short, shortest = (const(n) for n in cost.short_rows(plan.target, widest, reductions, len(loops) == 1, stored))
    anywhere, cached = (both(*bounds) or TRUE for bounds in ((e.le(shortest) for e in lengths), (e.lt(least) for e in sizes)))
    found = simplify(both(*(e.le(short) for e in lengths), call("bit_or", anywhere, cached)) or TRUE, plan.facts.known)
    return None if found.is_const and not found.attr else found


def from_memory(plan: Plan) -> Expr | None:
    """The condition under which rows that are long enough come from memory, each read by one reduction; None where it never holds, or machines ask for them in time."""
    form = roles.shape(plan.kernel)
    if plan.target.l1 < cost.WIDE_FIRST or not plan.alone or not form.chain:
        return None
    loops = _loops(form.body)
    if len(loops) != 1 or loops[0][0].kind != "reduce" or all_loops(loops[0][0].body) or by_columns(plan):
        return None
    along, length = loops[0]
    row = form.chain[-1].axis
    held = [plan.facts.buffers[b] for b in dict.fromkeys(n.attr for n in reads((along,)) if {row, along.axis} <= n.names) if b in plan.facts.buffers]
    if not held or length.buffers or not length.names <= plan.facts.sizes.keys():
        return None
    bounds = [large(plan.facts, b.name, cost.FAR_LEAST) for b in held]
    found = simplify(both(const(cost.ONCE_ROW // max(b.dtype.bytes for b in held)).le(length), *bounds) or TRUE, plan.facts.known)
    return None if found.is_const and not found.attr else found


def _loops(body: Block) -> list[tuple[Loop, Expr]]:
    """The loops over a row and how far they run in a row that is not too long: the first branch of each condition, the first of the tiles that it is worked off in."""
    found: list[tuple[Loop, Expr]] = []
    for s in body:
        if isinstance(s, Loop) and s.kind == "serial" and s.start is ZERO:
            found += [(x, _in_first(substitute(stop, {var(s.axis): ZERO}))) for x, stop in _loops(s.body)]
        elif isinstance(s, Loop):
            found.append((s, s.stop))
        elif isinstance(s, If):
            found += _loops(s.body)
    return found


def _in_first(stop: Expr) -> Expr:
    """The end of a loop in a tile that holds the whole row."""
    rest = [a for a in stop.args if not a.is_const] if stop.op == "min" else []
    return rest[0] if len(rest) == 1 else stop


def _together(plan: Plan) -> None:
    plan.do("decide")
    form = roles.shape(plan.kernel)
    row, most = form.axes[-1], cost.rows_together(plan.target)
    loops = [x for x, _ in _loops(form.body)]
    if loops != all_loops(form.body) or any(x.step is not ONE or upper(x.stop, plan.facts.known) is None for x in loops):
        raise StepError("not all loops of a row are known to be short")
    read = {b: [x.axis for x in loops if any(n.attr == b for n in reads((x,)))] for b in plan.facts.buffers}
    tabulated(plan)
    vectors_inside(plan, side_by_side=cost.ACCUMULATORS, lines=False)  # before and behind lines would be most of a row
    if any(x.kind not in ("vector", "unroll") for x in roles.innermost(plan.loop(row).body)):
        raise StepError("a loop of a row stays scalar")
    plan.do("split", row, most, tail="cut")
    plan.do("jam", f"{row}.1")
    for buffer, axes in read.items():
        if len(axes) > 1:  # the first waits for memory, the next one has time
            plan.tried("prefetch", buffer, f"{axes[1]}.0", f"{row}.0")
    stored = [b for b in plan.facts.buffers if any(isinstance(s, Store) and s.buffer == b for s in statements(form.body))]
    for buffer in dict.fromkeys((*stored, *(b for b, axes in read.items() if axes))) if stored and plan.target.l1 >= cost.WIDE_FIRST else ():
        plan.tried("prefetch_group", buffer, f"{row}.0", ahead=cost.GROUP_AHEAD, least=cost.stream_bytes(plan.target))
    if plan.has(f"{row}.t"):  # few, and short
        for x in [x for x in all_loops((plan.loop(f"{row}.t"),)) if x.kind == "parallel"]:
            plan.do("serial", x.axis)
    if len(form.axes) == 1:
        plan.do("parallel", f"{row}.0")
    else:
        threads(plan)
    plan.note(f"{most} rows of `{row}` together, where they are short: what each waits for at the end of a reduction is waited for once")
