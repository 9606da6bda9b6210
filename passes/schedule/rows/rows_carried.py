"""Rows along which something is carried from one position to the next, several at a time, one in each lane.

    for i in 0 .. M parallel:               for i.0 in 0 .. M // 16 parallel:
      s[] = 0                                 s[0 .. 16] = 0
      for j in 0 .. N:                        for j.0 in 0 .. N // 16:
        s[] = f(s[], X[i, j])          →        X.packed = 16 × 16 of X, turned over in registers
        Y[i, j] = s[]                           for j.1 in 0 .. 16:
                                                  for i.1 in 0 .. 16 vector:
                                                    s[i.1] = f(s[i.1], X.packed[j.1, i.1])
                                                    Y.kept[j.1, i.1] = s[i.1]
                                                16 × 16 of Y = Y.kept, turned over in registers
                                              … what is left of the row, a square too, of which some columns are not there
                                            … what is left of the rows, four at a time, and one by one

What f is does not matter, and each row is worked off in its own order.  One row alone waits for each position as long as its operations take one after the other, and memory is consecutive along the rows, so
that lanes without squares would be gathered.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeGuard

from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, const
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, statements, written
from ....ir.primops import OPS
from ....ir.simplify import simplify
from ....ir.walks import postorder
from ...costs import operation
from .. import cost, cost_turned, roles
from ..affine import constant_extent, stride
from ..plan import Plan
from ..steps.chains import LONG
from ..tree import StepError, local_buffers, reads, storing
from .joined_axes import follow
from .traffic import streamed
from .vectors import by_columns, vectors, vectors_inside

FEWER = 4  # rows at a time of what whole vectors leave over


def rows_carried(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel with so many rows at a time, and where that is not always the shortest time, with the condition on the sizes, and as it is for all others; nothing where its rows are others."""
    part = plan.another()
    for s in roles.shape(part.kernel).body:
        if isinstance(s, Loop) and s.step is const(-1):
            part.do("count_up", s.axis)
    form = roles.shape(part.kernel)
    if not form.chain or not _carried(part, form) or by_columns(part) is not None:
        return []
    width = cost.lanes(plan.target, roles.widest(form.body))
    with plan.attempt("rows are worked off one by one") as attempt:
        _several(part, _one_row(part, form), width)
    if attempt.refused:
        return []
    stops = [const(width).le(x.stop - x.start) for x in form.body if _waits(x)]
    room = sum(b.elements * b.dtype.bytes * width for b in _arrays(form.body).values())
    near = [room.le(const(plan.target.l2))] if isinstance(room, Expr) else []
    condition = simplify(both(*([] if _dear(form.body) else stops), *near) or TRUE, plan.facts.known)
    if condition is FALSE or (condition is not TRUE and not (plan.alone and condition.names <= plan.facts.sizes.keys())):
        return []
    plan.note(*part.notes)
    if condition is TRUE:
        return [(None, part.kernel)]
    plan.note(f"rows of fewer than {width} positions wait for little, and of some the second cache holds fewer")
    rest = plan.another()
    vectors(rest)
    return [(condition, part.kernel), (None, rest.kernel)]


def _several(plan: Plan, row: str, width: int) -> None:
    """As many rows at a time as a vector has lanes; of what is left over, fewer."""
    carried = [s for s in plan.loop(row).body if _waits(s)]
    done: list[str] = []
    for lanes in dict.fromkeys((width, min(FEWER, width))):
        if lanes < 2 or cost.square(plan.target, lanes) != lanes or (plan.extent(row) or lanes) < lanes:
            continue
        before = plan.kernel
        plan.do("split", row, lanes, tail="cut")
        _, inner, *rest = plan.added(before)
        _side_by_side(plan, inner, lanes)
        done.append(str(lanes))
        if not rest:
            break
        row = rest[0]
    if not done:
        raise StepError("there are fewer of them than lanes")
    for x in [s.axis for s in plan.kernel.body if isinstance(s, Loop)]:
        plan.do("parallel", x)
    if not any(written(x.body) & plan.facts.buffers.keys() for x in carried):
        streamed(plan)  # in squares, rows are stored a vector at a time, wherever lines begin
    if any(isinstance(s, Alloc) and s.buffer.space == "private" and not s.buffer.elements.is_const for s in statements(plan.kernel.body)):
        plan.tried("region")  # memory of rows is allocated once a thread
    plan.note(
        f"what is carried along a row waits for itself: {' and '.join(done)} rows at a time, one a lane, in squares that are turned over in registers"
    )


def _carried(plan: Plan, form: roles.Shape) -> bool:
    """Whether a loop of the rows, over consecutive memory, carries something from one position to the next, and none but such and loops of independent iterations and reductions are there."""
    loops = [s for s in form.body if isinstance(s, Loop)]
    carried = [x for x in loops if _waits(x)]
    if not carried or not all(isinstance(s, (Loop, Store, Let, Alloc)) for s in form.body):
        return False
    axes, held = set(form.axes), {**plan.facts.buffers, **_arrays(form.body)}
    for x in loops:
        if x.stop.names & axes or x.start.names & axes or x.kind not in ("serial", "reduce", "parallel"):
            return False
    for x in carried:
        if x.step is not ONE:
            return False
        if not all(isinstance(s, (Store, Let, If)) for s in statements(x.body)):
            return False
        if not {n.attr for n in reads(x.body) if n.args}.isdisjoint(written(x.body)):
            return False
        along = [stride(a, x.axis) for a in roles.accesses(x.body, held)]
        if not along or not {*along} <= {0, 1, -1}:
            return False
    return True


def _waits(s: Stmt) -> TypeGuard[Loop]:
    """A loop whose iterations wait for each other, of more than a few."""
    return isinstance(s, Loop) and s.kind == "serial" and (constant_extent(s) or FEWER) >= FEWER


def _arrays(block: Block) -> dict[str, Buffer]:
    """What a row has to itself, but for scalars."""
    return {s.buffer.name: s.buffer for s in block if isinstance(s, Alloc) and s.buffer.shape}


def _dear(block: Block) -> bool:
    """Whether a position takes longer than it waits for the one before: vectors of a few of them pay."""
    values = [s.value for s in statements(block) if isinstance(s, (Let, Store))]
    return any(n.op in OPS and operation(n.op) >= LONG for n in postorder(*values))


def _one_row(plan: Plan, form: roles.Shape) -> str:
    """The axis of the rows: all kept axes as one, where they move everything as one would."""
    addresses = roles.accesses(form.body, plan.facts.buffers)
    one = all(inner.start is ZERO and follow(a, outer, inner) for outer, inner in pairwise(form.chain) for a in addresses)
    return plan.collapsed(form.axes) if one else form.axes[-1]


def _side_by_side(plan: Plan, row: str, width: int) -> None:
    """So many rows, one a lane where something is carried, and one after the other where nothing is."""
    for s in plan.loop(row).body:
        if isinstance(s, Alloc):
            plan.do("expand", s.buffer.name, row)
    before = plan.kernel
    plan.do("fission", row)
    for lanes in (row, *plan.added(before)):
        (inner, *_) = plan.loop(lanes).body
        if not isinstance(inner, Loop):
            plan.do("vectorize", lanes)
        elif _waits(inner):
            _carrying(plan, inner.axis, lanes, width)
        else:
            vectors_inside(plan, roles.innermost((inner,)))


def _carrying(plan: Plan, along: str, lanes: str, width: int) -> None:
    """A loop that carries something, in squares."""
    plan.do("reorder", along, lanes)
    before = plan.kernel
    plan.do("split", along, width, tail="cut")
    outer, position, *rest = plan.added(before)
    _square(plan, outer, position, lanes)
    for buffer in sorted({n.attr for n in reads(plan.loop(outer).body)} & plan.facts.buffers.keys()) if width > FEWER else ():
        plan.tried("prefetch", buffer, outer, outer, trips=cost_turned.SQUARES_AHEAD, cache=cost.NEXT_ROW_CACHE)
    if rest:
        left = rest[0]
        (last,) = (s.axis for s in plan.loop(left).body if isinstance(s, Loop))
        before = plan.kernel
        plan.do("split", left, width, tail="pad")
        outer, position = plan.added(before)[:2]
        _square(plan, outer, position, last)


def _square(plan: Plan, around_it: str, position: str, lanes: str) -> None:
    """A square block: what is read of it and what is stored are turned over in registers."""
    body = plan.loop(lanes).body
    both = {position, lanes}
    arrays = {*plan.facts.buffers, *(name for name, b in local_buffers(plan.kernel).items() if len(b.shape) > 1)}
    while found := [n.attr for n in reads(plan.loop(lanes).body) if n.attr in arrays and both <= n.names]:
        before = plan.kernel
        plan.do("stage", found[0], position, lanes, at=around_it, space="stack", several=1)
        along, across = plan.copying(plan.newest(before), before)
        _ascending(plan, along)
        plan.do("unroll", along)
        plan.do("vectorize", across)
    for buffer in sorted(written(body) & arrays):
        before = plan.kernel
        ((_, loops), *_) = storing((plan.loop(position),), buffer)
        plan.do("write_back", buffer, *(x.axis for x in loops), filled=1)
        *filling, along, across = plan.added(before)
        if filling:
            _ascending(plan, filling[0])
            plan.do("unroll", filling[0])
            plan.do("vectorize", filling[1])
        _ascending(plan, along)
        plan.do("reorder", across, along)
        plan.do("unroll", across)
        plan.do("vectorize", along)
    plan.tried("select", lanes)
    if any(isinstance(s, If) for s in plan.loop(lanes).body):
        raise StepError(f"what `{lanes}` does under a condition is no choice between values")
    plan.do("vectorize", lanes)


def _ascending(plan: Plan, axis: str) -> None:
    """What lies in memory in the other direction is moved as it lies."""
    held = {**plan.facts.buffers, **local_buffers(plan.kernel)}
    if any(stride(a, axis) == -1 for a in roles.accesses(plan.loop(axis).body, held)):
        plan.do("mirror", axis)
