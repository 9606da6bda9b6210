"""The plan for sums of blocks of small integers, each scaled and added to a sum of floats (`passes/block_sums.py`).

    pack the row operand                       words [row.0, block, p, rows], by all threads together
    for column.0 parallel
      pack the column operand                  words [block, p, columns], and what scales the columns [block, columns], the thread's own
      for row.0
        acc[rows, columns] = 0
        for block
          sum[rows, columns] = 0 in registers
          for p: sum[rows, columns] = ins.dot4(sum[…], words of A, words of B)
          acc[rows, columns] += s[row, block] · t[column, block] · sum[rows, columns]
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.expr import Expr, const
from ...ir.instructions import Dot
from ...ir.kernel import Alloc, Loop, Store, statements
from ...ir.simplify import simplify
from . import dots
from .affine import stride
from .cost import Blocking, blocking
from .plan import Plan
from .roles import shape
from .tiles import RegisterTile, turned
from .tree import StepError, loads_in


class Sums(NamedTuple):
    batch: tuple[str, ...]
    row: str
    column: str
    block: str  # the loop over blocks
    depth: str  # the one inside a block
    row_operand: str
    column_operand: str
    scales: tuple[str, ...]  # of columns
    accumulator: str
    sum: str
    dot: Dot


def sums_of_blocks(plan: Plan) -> bool:
    """Schedule such a kernel; False (and an unchanged plan) where it is none."""
    found = _found(plan)
    if found is None:
        return False
    _schedule(plan, found)
    return True


def _found(plan: Plan) -> Sums | None:
    """The roles of the axes of such a kernel; None where it is something else."""
    form = shape(plan.kernel)
    allocs = [s.buffer for s in form.body if isinstance(s, Alloc)]
    loops = [s for s in form.body if isinstance(s, Loop)]
    if len(form.chain) < 2 or len(allocs) != 1 or len(loops) != 1 or loops[0].kind != "reduce":
        return None
    inner = [s for s in loops[0].body if isinstance(s, Loop)]
    inside = [s.buffer for s in loops[0].body if isinstance(s, Alloc)]
    if len(inner) != 1 or len(inside) != 1 or not inside[0].dtype.is_integer or not allocs[0].dtype.is_float:
        return None
    block, deep = loops[0].axis, inner[0].axis
    try:
        _, s, a, b = dots.factors(plan.kernel, deep)
    except StepError:
        return None
    dot = dots.choice(plan.target.instructions, a.dtype, b.dtype)
    stores = [s for s in form.body if isinstance(s, Store) and s.buffer in plan.facts.buffers]
    if dot is None or dot.result is not inside[0].dtype or len(stores) != 1:
        return None
    address = simplify(plan.facts.buffers[stores[0].buffer].address(stores[0].index), plan.facts.known)
    (column,) = [x for x in form.axes if stride(address, x) == 1][-1:] or ("",)
    a, b = (b, a) if column in a.element.names else (a, b)
    rows = [x for x in form.axes if x in a.element.names and x not in b.element.names]
    if column not in b.element.names or column in a.element.names or len(rows) != 1:
        return None
    batch = tuple(x for x in form.axes if x not in (*rows, column))
    others = [n for s in loops[0].body if isinstance(s, Store) and not s.index for n in loads_in(s.value) if n.attr in plan.facts.buffers]
    scales = tuple(dict.fromkeys(n.attr for n in others if column in n.names))
    names = [next(iter(sorted(f.element.buffers))) for f in (a, b)]
    return Sums(batch, rows[0], column, block, deep, *names, scales, allocs[0].name, inside[0].name, dot)


def _schedule(plan: Plan, r: Sums) -> None:
    from .dotted import in_vectors, signs

    row, column, block = r.row, r.column, blocking(plan.target, plan.facts.buffers[r.scales[0]].dtype if r.scales else r.dot.result)
    batch = plan.collapsed(plan.ordered(column, row))
    in_vectors(plan, signs(plan, r.dot, row, r.depth))
    plan.do("dot", r.depth, r.dot.name)
    height = plan.extent(row)
    plan.do("split", column, block.columns, tail="pad")
    plan.do("split", row, block.rows if height is None else max(1, min(block.rows, height)), tail="clamp")
    plan.do("reorder", f"{column}.0", f"{row}.0", f"{row}.1", f"{column}.1")
    plan.do("expand", r.accumulator, f"{row}.1", f"{column}.1")
    plan.do("fission", f"{row}.1", f"{column}.1")
    around, across = plan.summing(r.accumulator, r.block, 2)
    plan.do("reorder", r.block, around, across)
    plan.do("expand", r.sum, around, across)
    plan.do("fission", around, across)
    tile = RegisterTile(plan, r.sum, row, column, r.depth, words=True)
    rows, columns = tile.compute()
    plan.do("reorder", r.depth, rows, columns)
    whole = RegisterTile(plan, r.accumulator, row, column, r.block)
    before = plan.kernel
    plan.do("stage", r.column_operand, r.block, r.depth, columns, at=f"{column}.0")
    packed = plan.newest(before)
    first, second, *_ = plan.copying(packed, before)
    plan.do("collapse", first, second)
    turned(plan, packed, before)
    for buffer in r.scales:
        before = plan.kernel
        _, c = whole.compute()
        plan.do("stage", buffer, r.block, c, at=f"{column}.0")
        turned(plan, plan.newest(before), before)
    before = plan.kernel
    plan.do("stage", r.row_operand, *((batch,) if batch else ()), f"{row}.0", r.block, r.depth, rows, space="shared")
    packed = plan.newest(before)
    *outer, first, second, _ = plan.copying(packed, before)
    plan.do("collapse", first, second)
    turned(plan, packed, before)
    plan.do("parallel", plan.collapsed(outer))
    tile.finish()
    whole.finish()
    plan.do("parallel", plan.collapsed((*((batch,) if batch else ()), f"{column}.0")))
    plan.do("region")
