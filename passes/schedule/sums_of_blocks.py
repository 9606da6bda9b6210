"""The plan for sums of blocks of small integers, each of which is scaled and added to a sum of floats (`passes/block_sums.py`).

    for blocks of rows, column.0 parallel
      pack the column operand                  words [block, p, columns], and what scales the columns [block, columns], the thread's own
      for row.0
        acc[rows, columns] = 0
        for block
          sum[rows, columns] = 0
          for p: sum[rows, columns] = ins.dot4(sum[…], words of B, words of A)       A is read where it lies
          acc[rows, columns] += s[row, block] · t[column, block] · sum[rows, columns]

Sums of integers and of floats are in registers side by side, so tiles have few rows.  Between two of them a block is a few words, so nothing of the operands is divided along the blocks: a panel of columns
comes from the second cache as fast as it is multiplied (Zen 4, one thread: 128 rows by 4096² 151 GMAC/s, 143 in panels of 1024).
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.instructions import Dot
from ...ir.kernel import Alloc, Loop, Store, perfect
from ...ir.simplify import simplify
from . import dots, roles
from .affine import stride
from .cost import ROWS_OF_BLOCKS, TILES_OF_BLOCKS, blocking
from .dotted import in_vectors, signs
from .plan import Plan
from .tiles import RegisterTile, turned
from .tree import StepError, loads_in


class SumsOfBlocks(NamedTuple):
    """What part each axis plays in such a kernel."""

    batch: tuple[str, ...]
    row: str
    column: str
    block: str  # the reduction over blocks
    depth: str  # the one inside a block
    columns: tuple[str, ...]  # the buffers that move with the column
    accumulator: str  # of floats
    sum: str  # of the integers of a block
    dot: Dot


def sums_of_blocks(plan: Plan) -> bool:
    """Schedule such a kernel; False (and an unchanged plan) where it is none."""
    found = _found(plan)
    if found is None:
        return False
    _schedule(plan, found)
    plan.note(
        f"the integers of a block along `{found.depth}` are summed by {found.dot.name} in registers, {found.dot.neighbours} neighbours at a time, and what they come to is scaled and added there too"
    )
    return True


def _found(plan: Plan) -> SumsOfBlocks | None:
    form = roles.shape(plan.kernel)
    accumulators = [s.buffer for s in form.body if isinstance(s, Alloc)]
    blocks = [s for s in form.body if isinstance(s, Loop)]
    stores = [s for s in form.body if isinstance(s, Store) and s.buffer in plan.facts.buffers]
    if len(accumulators) != 1 or len(blocks) != 1 or len(stores) != 1 or blocks[0].kind != "reduce":
        return None
    (acc,), (block,), (result,) = accumulators, blocks, stores
    sums = [s.buffer for s in block.body if isinstance(s, Alloc)]
    inside = [s for s in block.body if isinstance(s, Loop)]
    if len(sums) != 1 or len(inside) != 1 or not acc.dtype.is_float:
        return None
    inner, _ = perfect(tuple(inside), lambda x: x.kind == "reduce")
    try:
        _, s, *sides = dots.factors(plan.kernel, inside[0].axis)
    except StepError:
        return None
    dot = dots.choice(plan.target.instructions, *(f.dtype for f in sides))
    address = simplify(plan.facts.buffers[result.buffer].address(result.index), plan.facts.known)
    beside = [x for x in form.axes if stride(address, x) == 1]
    if len(inner) != 1 or dot is None or dot.result is not s.value.dtype or s.buffer != sums[0].name or not beside:
        return None
    column = beside[-1]
    kept = [f.element.names & {*form.axes} for f in sides]
    across = next((axes for axes in kept if column not in axes), None)
    along = next((axes for axes in kept if column in axes), None)
    if across is None or along is None or len(rows := [x for x in form.axes if x in across - along]) != 1:
        return None
    loads = [n for t in block.body if isinstance(t, (Store, Loop)) for n in loads_in(*(e for u in (t, *_stores(t)) for e in u.expressions()))]
    columns = tuple(dict.fromkeys(n.attr for n in loads if column in n.names and n.attr in plan.facts.buffers))
    batch = tuple(x for x in form.axes if x not in (*rows, column))
    return SumsOfBlocks(batch, rows[0], column, block.axis, inside[0].axis, columns, acc.name, sums[0].name, dot)


def _stores(s: Store | Loop) -> tuple[Store, ...]:
    return tuple(t for t in s.body if isinstance(t, Store)) if isinstance(s, Loop) else ()


def _schedule(plan: Plan, r: SumsOfBlocks) -> None:
    row, column = r.row, r.column
    batch = plan.ordered(row, column)
    in_vectors(plan, signs(plan, r.dot, row, r.depth))
    plan.do("dot", r.depth, r.dot.name)
    plan.do("split", column, blocking(plan.target, r.dot.result).columns, tail="pad")
    plan.do("split", row, ROWS_OF_BLOCKS, tail="clamp")
    plan.do("share", f"{row}.0", TILES_OF_BLOCKS)
    plan.do("reorder", f"{row}.0.0", f"{column}.0", f"{row}.0.1", f"{row}.1", f"{column}.1")
    total = RegisterTile(plan, r.accumulator, row, column, r.block)
    total.accumulate()
    rows, columns = total.compute()
    plan.do("expand", r.sum, rows, columns)
    plan.do("fission", rows, columns)
    tile = RegisterTile(plan, r.sum, row, column, r.depth, words=True)
    plan.do("reorder", r.depth, *tile.compute())
    for buffer in r.columns:
        _stage(plan, tile, buffer, r.block, r.depth)
        _stage(plan, total, buffer, r.block)
    tile.finish()
    total.finish()
    plan.do("parallel", plan.collapsed((*batch, f"{row}.0.0", f"{column}.0")))
    plan.do("region")


def _stage(plan: Plan, tile: RegisterTile, buffer: str, *along: str) -> None:
    """Pack a panel of columns, one for each thread, `along` the blocks and what is in them: one axis."""
    _, columns = tile.compute()
    if not tile.reads(buffer, columns):
        return
    before = plan.kernel
    plan.do("stage", buffer, *along, columns, at=f"{tile.column}.0")
    packed = plan.newest(before)
    *deep, _ = plan.copying(packed, before)
    plan.collapsed(deep)
    turned(plan, packed, before)
