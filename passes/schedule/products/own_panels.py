"""The plan for contractions of not many rows whose column operand is large: each thread packs the panels that it uses, and works on all rows with them.

    pack the row operand                           panels [row.0, p.0, p.1, rows], by all threads together
    for batch, column.0 parallel
      for p.0                                    blocks of the reduction; partial sums live in the output
        pack the column operand                  one panel [p.1, columns], the thread's own
        for row.0
          acc[rows, columns] in registers

Rows are packed too: tiles that read them in place would read rows of 2ⁿ elements through the same few lines of the first cache.  What threads pack for each other goes from one core's cache to another's, at
a sixth of the speed at which a core reads its own (12 GB/s of 70 on Golden Cove); where many rows use a panel that is little (`contractions.py`).
"""

from __future__ import annotations

from ....ir.expr import Expr, const
from ..cost import OWN_ROWS, Blocking
from ..plan import Plan
from ..roles import Contraction
from ..steps.skips import is_masked
from .direct import tried_where
from .tiles import RegisterTile, turned


def own_panels(plan: Plan, found: Contraction, block: Blocking) -> Expr | None:
    """Schedule such a contraction: the condition on the sizes; None (and an unchanged plan) where it never holds or a step refuses."""
    if len(found.rows) != 1 or len(found.reduced) != 1:
        return None
    condition = plan.loop(found.rows[0]).stop.le(const(OWN_ROWS))
    reason = "not many rows: each thread packs the panels of columns that it uses"
    return tried_where(plan, condition, reason, lambda: _schedule(plan, found, block))


def _schedule(plan: Plan, found: Contraction, block: Blocking) -> None:
    (row,), column, (depth,) = found.rows, found.column, found.reduced
    batch = plan.collapsed(plan.ordered(column, row))
    length, height = plan.extent(depth), plan.extent(row)
    outer, blocks, at = (batch,) if batch else (), (), f"{column}.0"
    if length is None or length > block.depth:
        whole = plan.kernel
        plan.do("split", depth, block.depth)
        masked = is_masked(whole, found.accumulator.name, row, column) and "what a mask leaves out is not summed up, and would be read"
        if refused := masked or plan.tried("accumulate", f"{depth}.0", into=found.output, outside=row):
            plan.kernel = whole
            plan.note(f"panels as long as the reduction: {refused}")
        else:
            at, blocks, depth = f"{depth}.0", (f"{depth}.0",), f"{depth}.1"
    plan.do("split", column, block.columns, tail="pad")
    plan.do("split", row, block.direct_rows if height is None else max(1, min(block.direct_rows, height)), tail="clamp")
    plan.do("reorder", f"{column}.0", *blocks, f"{row}.0", f"{row}.1", f"{column}.1")
    tile = RegisterTile(plan, found.accumulator.name, row, column, depth)
    tile.accumulate()
    tile.confine()
    tile.stage_own_columns(found.column_operands, at)
    for buffer in found.row_operands:
        before = plan.kernel
        r, _ = tile.compute()
        if not tile.reads(buffer, r):
            continue
        plan.do("stage", buffer, *outer, f"{row}.0", *blocks, depth, r, space="shared", whole=f"{row}.0" if tile.confined else "")
        packed = plan.newest(before)
        around = plan.copying(packed, before)[:-2]
        turned(plan, packed, before)
        plan.do("parallel", plan.collapsed(around))
    tile.wanted()
    tile.finish()
    plan.do("parallel", plan.collapsed((*outer, f"{column}.0")))
    plan.do("region")
