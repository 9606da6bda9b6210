"""Rows that come from memory and go back there: the passes over a row run side by side, each on a row of its own (`pipelines.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, const, product, var
from ....ir.kernel import Alloc, Block, If, Kernel, Loop, Store, statements, written
from ....ir.primops import OPS
from ....ir.simplify import simplify
from ....ir.text.expressions import show_expr
from ....ir.walks import postorder, substitute
from ...costs import TABLE, operation, read, write
from .. import cost, roles
from ..affine import upper
from ..plan import Plan
from ..steps.chains import LONG
from ..tree import StepError, all_loops, reads
from .traffic import streamed, threads
from .vectors import by_columns, tabulated, vectors_inside


def in_turn(plan: Plan) -> tuple[Expr | None, Kernel] | None:
    """The kernel with its passes side by side, and the condition on the sizes under which that pays; None where it never does."""
    condition = _long(plan)
    if condition is None:
        return None
    part = plan.another(condition)
    with plan.attempt("passes over a row one after the other") as attempt:
        _side_by_side(part)
    if attempt.refused:
        return None
    (row,) = (line.split()[1].removesuffix(".1") for line in part.kernel.schedule if line.startswith("pipeline "))
    plan.note(
        *part.notes,
        f"{'' if condition is TRUE else f'where `{show_expr(condition)}`, '}the passes over a row of `{row}` run side by side, each on a row of its own: while one waits for memory, another computes",
    )
    return condition, part.kernel


def _long(plan: Plan) -> Expr | None:
    """The condition under which rows come from memory and go back there; None where it never holds, or rows are no rows."""
    form = roles.shape(plan.kernel)
    least = cost.stream_bytes(plan.target)
    if (
        not plan.alone
        or not least
        or plan.target.vector_registers < cost.REGISTERS_IN_TURN
        or not cost.first_lanes(plan.target)
        or not form.chain
        or form.chain[-1].start is not ZERO
        or by_columns(plan)
    ):
        return None
    stored = sorted(written(form.body) & plan.facts.buffers.keys())
    if len(stored) != 1:
        return None
    held = plan.facts.buffers[stored[0]]
    known = [s.condition for s in form.body if isinstance(s, If) and s.condition.names <= plan.facts.sizes.keys()]
    columns: dict[Expr, None] = {}
    passes = [x for s in form.body for x in ((s,) if isinstance(s, Loop) else s.body if isinstance(s, If) else ()) if isinstance(x, Loop)]
    if len(passes) < 2:
        return None
    for x in passes:
        if x.kind == "serial" and (tile := _tile(x)) is not None:
            columns[tile[0]] = None
            known.append(tile[0].le(tile[1]))
        else:
            columns[x.stop] = None
    shortest = const(cost.TURNS_IN_TURN * cost.ACCUMULATORS * cost.lanes(plan.target, held.dtype))
    longest = const(plan.target.l2 // cost.NEXT_ROW // held.dtype.bytes)
    bounds = [c for e in columns if e.names <= plan.facts.sizes.keys() for c in (shortest.le(e), e.le(longest))]
    rows = product([x.stop for x in form.chain])
    if rows.names <= plan.facts.sizes.keys():  # blocks for all threads
        bounds.append(const(cost.ROWS_IN_TURN * cost.BLOCKS_IN_TURN * max(1, plan.target.cores)).le(rows))
    found = simplify(both(*known, *bounds, const(least).le(held.elements * held.dtype.bytes)) or TRUE, plan.facts.known)
    return None if found is FALSE else found


def _tile(along: Loop) -> tuple[Expr, Expr] | None:
    """Of a loop over tiles of a row: how long the row is, and how long the first tile is at most."""
    ends = {substitute(x.stop, {var(along.axis): ZERO}) for x in along.body if isinstance(x, Loop)}
    end = ends.pop() if len(ends) == 1 else None
    if end is None or end.op != "min" or sum(a.is_const for a in end.args) != 1:
        return None
    row, most = sorted(end.args, key=lambda a: a.is_const)
    return row, most


def _side_by_side(plan: Plan) -> None:
    plan.do("decide")
    if any(isinstance(s, If) for s in roles.shape(plan.kernel).body):  # whether there is a tile at all
        plan.do("decide")
    tabulated(plan)
    form = roles.shape(plan.kernel)
    row = form.axes[-1]
    loops = [s for s in form.body if isinstance(s, Loop)]
    if len(loops) < 2 or any(x.start is not ZERO or x.step is not ONE or all_loops(x.body) for x in loops):
        raise StepError("not every loop of a row is a pass over it")
    _worth(plan, form.body, loops)
    if (kept := _kept(plan, row, loops)) > cost.KEPT_IN_TURN:
        raise StepError(f"{kept} rows between the passes would have to stay near")
    first = {n.attr: x.axis for x in reversed(loops) for n in reads((x,)) if n.attr in plan.facts.buffers}  # the pass that comes to a row first
    vectors_inside(plan, side_by_side=cost.ACCUMULATORS, strips=cost.ACCUMULATORS)
    if any(x.kind not in ("vector", "unroll") for x in roles.innermost(plan.loop(row).body)):
        raise StepError("a loop of a row stays scalar")
    plan.do("split", row, cost.ROWS_IN_TURN)
    for buffer, axis in sorted(first.items()):
        if not plan.tried("prefetch", buffer, f"{axis}.0", f"{row}.1", places=cost.PLACES_IN_TURN, cache=cost.NEXT_ROW_CACHE):
            plan.note(f"`{axis}.0` asks for what the next iteration of `{row}.1` reads of `{buffer}`, in {cost.PLACES_IN_TURN} places at once")
    plan.do("pipeline", f"{row}.1", *(f"{x.axis}.0" for x in loops))
    kept = [upper(s.buffer.elements * s.buffer.dtype.bytes, plan.facts.known) for s in statements(plan.kernel.body) if isinstance(s, Alloc)]
    if any(most is None or most > TABLE for most in kept):
        raise StepError("several rows of what the passes share are more than the first cache holds")
    threads(plan)
    streamed(plan)


def _worth(plan: Plan, body: Block, loops: Sequence[Loop]) -> None:
    """One pass computes for so long that memory waits, and all of them together for less long than memory takes."""
    each = [sum(operation(n.op) for n in _computed(x)) for x in loops]
    buffers = plan.facts.buffers
    loaded = {n.attr for n in reads(body)} & buffers.keys()
    memory = sum(read(buffers[b].dtype) for b in loaded) + sum(write(buffers[b].dtype) for b in written(body) & buffers.keys())
    if max(each) < LONG:
        raise StepError("no pass computes for long")
    if sum(each) * cost.COMPUTED_IN_TURN > memory:
        raise StepError("the passes compute for longer than memory takes")


def _kept(plan: Plan, row: str, loops: Sequence[Loop]) -> int:
    """Rows that lie between passes: of what several of them touch, as many as there are passes from the first to the last."""
    users: dict[str, list[int]] = {}
    for k, x in enumerate(loops):
        for n in reads(x.body):
            if x.axis in n.names and (row in n.names or n.attr not in plan.facts.buffers):
                users.setdefault(n.attr, []).append(k)
        for s in statements(x.body):
            if isinstance(s, Store) and s.buffer not in plan.facts.buffers and any(x.axis in e.names for e in s.index):
                users.setdefault(s.buffer, []).append(k)
    return sum(max(found) - min(found) for found in users.values())


def _computed(loop: Loop) -> set[Expr]:
    return {n for s in statements((loop,)) for n in postorder(*s.expressions()) if n.op in OPS and n.dtype.is_float}
