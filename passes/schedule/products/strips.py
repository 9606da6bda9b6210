"""The plan for contractions whose rows lie along the reduction, or side by side: each thread has rows of its own, reads them where they lie, and packs the columns that it multiplies them with.

    for batch, blocks of rows parallel
     for pieces of a longer reduction, or positions of all its axes but the last, where the output can hold the sums so far
      for column.0                               strips as wide as the registers allow; another such nest has narrower ones of what is left over
        pack the column operand                  one strip [p, columns], the thread's own
        for row.0, row.1
          acc[rows, columns] in registers        A[row, p] is read where it lies

A tile's few rows are read from one end to the other, one element of each for many multiply-adds: a copy would make nothing faster.  Nor would it where these elements lie side by side, a line for each step
(A transposed, 256³ floats 1.09, 384³ 1.07 × as fast as in panels, in one thread).  A strip is read once for each tile of rows: its copy begins at a line, lies
in few pages and on all sets of a cache, whatever the length of the operand's rows.  Threads share nothing that one of them writes, so none waits for another; the same columns are packed by each, which
many rows pay for.  What is made of the rows first (a triangle of them, a scale) is made once, into a copy of the thread's own, that lies as they do.
"""

from __future__ import annotations

from ....ir.expr import ONE, TRUE, Expr, as_expr, both, call, const, mul, product
from ....ir.kernel import Alloc, statements
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import postorder
from ..affine import stride
from ..cost import (
    DEEP_ROWS,
    DEEP_WIDTH,
    MOST_SIDE_WORK,
    MOST_STRIP_WORK,
    STRIP_DEPTH,
    STRIP_ROWS,
    STRIP_TILES,
    STRIP_WORK,
    VECTORS,
    Blocking,
    strip_depth,
)
from ..plan import Plan
from ..roles import Contraction
from ..steps.skips import is_masked
from ..tree import all_loops, loads_in
from .direct import tried_where
from .tiles import RegisterTile


def strips(plan: Plan, found: Contraction, block: Blocking) -> Expr | None:
    """Schedule such a contraction: the condition on the sizes; None (and an unchanged plan) where it never holds or a step refuses."""
    if len(found.rows) != 1 or not block.wide_columns:
        return None
    if not _most(plan, found):
        return None
    if (plan.extent(found.column) or block.wide_columns) < block.wide_columns:
        return None
    outer, once = found.reduced[:-1], block.wide_rows * STRIP_TILES  # rows that stay in the second cache while all strips go by
    piece = max(block.depth, strip_depth(plan.target, once, found.accumulator.dtype.bytes))
    short = simplify(plan.loop(found.reduced[-1]).stop.le(piece), plan.facts.known) is TRUE
    pieces = not outer and not short and _in_pieces(plan, found, block, piece)
    condition = _worth(plan, found, block, once, piece, pieces)
    reason = "rows are read as they lie, and each thread packs strips of columns for its own"
    facts = plan.facts
    if outer and condition is not TRUE:
        plan.facts = replace(facts, assumed=condition)
    found_condition = tried_where(plan, condition, reason, lambda: _schedule(plan, found, block, piece if pieces else 0))
    plan.facts = facts
    return found_condition


def _worth(plan: Plan, found: Contraction, block: Blocking, once: int, piece: int, pieces: bool) -> Expr:
    """For which sizes: `once` rows of a thread, and so much of the reduction, stay in the second cache; `pieces`: the output holds the sums of one such piece while the next is worked off."""
    *outer, depth = (plan.loop(axis).stop for axis in found.reduced)
    rows, columns, lanes = plan.loop(found.rows[0]).stop, plan.loop(found.column).stop, plan.target.lanes(found.accumulator.dtype)
    work, most = product((rows, columns, depth)), _most(plan, found)

    def within(*limits: tuple[Expr, Expr | int]) -> Expr:
        return both(*(simplify(least.le(as_expr(greatest)), plan.facts.known) for least, greatest in limits)) or TRUE

    def either(a: Expr, b: Expr) -> Expr:
        return simplify(call("bit_or", a, b), plan.facts.known)

    many = (const(STRIP_ROWS * plan.target.cores), rows)
    enough = within(
        *(() if pieces else (many,)), (const(STRIP_DEPTH), depth), (const(STRIP_WORK * lanes), product((work, *outer))), *((ONE, e) for e in outer)
    )
    ranges = within((depth, block.depth), (work, most * lanes))
    if most == MOST_STRIP_WORK:
        any_depth = within((rows, once * plan.target.cores), (columns, mul(const(2), rows)))
        ranges = either(ranges, any_depth if pieces else both(within((depth, piece)), any_depth) or TRUE)
    if pieces:
        small = (product((rows, columns)), MOST_SIDE_WORK * lanes // block.depth)
        deep = within((const(block.depth), depth), (const(DEEP_ROWS * plan.target.cores), rows), (columns, mul(const(DEEP_WIDTH), rows)), small)
        ranges = either(both(within(many), ranges) or TRUE, deep)
    return both(enough, ranges) or TRUE


def _in_pieces(plan: Plan, found: Contraction, block: Blocking, piece: int) -> bool:
    """Whether the output can hold the sums of one piece of the reduction while the next is worked off: not where something is made of the sums in the end, which rows that the last tile has twice would find, or a mask leaves tiles out,
    of which the next piece would read what nobody has stored."""
    if is_masked(plan.kernel, found.accumulator.name, found.rows[0], found.column):
        return False
    part = plan.another()
    with part.attempt() as attempt:
        _cut(part, found, piece)
        part.do("split", found.rows[0], block.wide_rows, tail="clamp")
    return not attempt.refused


def _cut(plan: Plan, found: Contraction, piece: int) -> tuple[str, str]:
    """The loop over pieces of the reduction, around all others, and the one inside a piece; "" where there is only one.  Several axes of it are in pieces as they are."""
    *outer, depth = found.reduced
    if piece:
        plan.do("split", depth, piece)
        outer, depth = [f"{depth}.0"], f"{depth}.1"
    around = plan.collapsed(outer)
    if around:
        plan.do("accumulate", around, into=found.output, outside=found.batch[0] if found.batch else found.rows[0])
    return around, depth


def _most(plan: Plan, found: Contraction) -> int:
    """Up to how much work the row operands are read one by one as they are, for each lane: consecutive along the reduction, or along the rows; 0 where they are neither."""
    row, depth = found.rows[0], found.reduced[-1]
    loads = [n for s in statements((plan.loop(depth),)) for e in s.expressions() for n in loads_in(e) if n.attr in found.row_operands]
    if len(loads) != 1 or loads[0].dtype is not found.accumulator.dtype or row not in loads[0].names:
        return 0
    address = simplify(plan.facts.buffers[loads[0].attr].address(loads[0].args), plan.facts.known)
    if stride(address, depth) == 1:
        return MOST_STRIP_WORK
    return MOST_SIDE_WORK if stride(address, row) == 1 and not _made(plan, found) else 0


def _made(plan: Plan, found: Contraction) -> bool:
    """Whether something is made of the rows' elements (a mask, a scale, a function) before they are multiplied."""
    nodes = postorder(*(e for s in statements((plan.loop(found.reduced[-1]),)) for e in s.expressions()))
    return any(n.op != "load" and found.column not in n.names and any(a.op == "load" and a.attr in found.row_operands for a in n.args) for n in nodes)


def _schedule(plan: Plan, found: Contraction, block: Blocking, piece: int) -> None:
    """`piece`: of the reduction, after which sums go to the output; 0: they never do before their end."""
    (row,), column = found.rows, found.column
    if plan.facts.assumed is not None:
        plan.do("decide")
    plan.ordered(row, column)
    made = _made(plan, found)
    pieces, depth = _cut(plan, found, piece)
    at = (pieces or f"{row}.0.0") if made else ""
    batch = plan.collapsed(found.batch)
    width, acc = plan.extent(column), found.accumulator.name
    plan.do("split", row, block.wide_rows, tail="clamp")
    if plan.target.threads:
        plan.do("share", f"{row}.0", STRIP_TILES, multiple=plan.target.cores, beside=batch)
    else:
        plan.do("share", f"{row}.0", STRIP_TILES)
    if pieces:
        plan.do("reorder", *((batch,) if batch else ()), f"{row}.0.0", pieces)
    if width is not None and width % block.wide_columns == 0:
        plan.do("split", column, block.wide_columns)
        _strips(plan, found, acc, (f"{row}.0.1", f"{row}.1"), column, depth, at)
    else:
        plan.do("split", column, block.wide_columns, tail="cut")
        before = plan.kernel
        plan.do("fission", f"{row}.0.1", f"{row}.1")
        outer, inner = plan.added(before)[:2]
        body = plan.loop(f"{column}.t").body
        (rest,) = (s.buffer.name for s in body if isinstance(s, Alloc))
        (deep,) = (x.axis for x in all_loops(body) if x.kind == "reduce")
        _strips(plan, found, acc, (f"{row}.0.1", f"{row}.1"), column, depth, at)
        plan.do("split", f"{column}.t", _narrow(width, block), tail="pad")
        _strips(plan, found, rest, (outer, inner), f"{column}.t", deep, at)
    plan.do("parallel", plan.collapsed((*((batch,) if batch else ()), f"{row}.0.0")))


def _narrow(width: int | None, block: Blocking) -> int:
    """Columns of the strips for what the wide ones leave over: one strip of as few vectors as hold it, where its length is known (two threads, f32, 256×512×100 1.22, 1000×300×100 1.15, 300³ 1.09 × as fast as with narrow ones)."""
    lanes = block.columns // VECTORS
    return block.columns if width is None else max(VECTORS * lanes, -(-(width % block.wide_columns) // lanes) * lanes)


def _strips(plan: Plan, found: Contraction, accumulator: str, rows: tuple[str, str], column: str, depth: str, at: str) -> None:
    """One nest of strips, of the loop `column` that is split already; `at`: the loop inside which rows are made before any strip goes by, "" where they are read as they are."""
    tiles, row = rows
    plan.do("reorder", f"{column}.0", tiles, row, f"{column}.1")
    plan.do("expand", accumulator, row, f"{column}.1")
    plan.do("fission", row, f"{column}.1")
    r, c = plan.summing(accumulator, depth, 2)
    plan.do("reorder", depth, r, c)
    tile = RegisterTile(plan, accumulator, row.removesuffix(".1"), column, depth)
    tile.confine()
    from ..rows.vectors import vectors_inside

    tile.stage_own_columns(found.column_operands, f"{column}.0")
    if at:
        for buffer in found.row_operands:
            before = plan.kernel
            r, _ = tile.compute()
            if not plan.tried("stage", buffer, tiles, r, depth, at=at, whole=tiles if tile.confined else ""):
                vectors_inside(plan, [plan.loop(plan.copying(plan.newest(before), before)[-1])])
    tile.wanted()
    tile.finish()
    tile.results_ahead()
