"""The plan for sums of blocks of small integers, each of which is scaled and added to a sum of floats (`passes/cascades/block_sums.py`).

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

Where no instruction multiplies words, integers of a block are added up as floats that hold all such sums (`floats` in `terms.py`): tiles have as many rows as registers hold of these, whose sums of all blocks
come and go once a block, and rows are made floats for each tile (Zen 4, AVX2, one thread: 128 rows by 1024² 12.4 → 3.5 ms).
"""

from __future__ import annotations

from typing import NamedTuple

from ....ir.dtypes import i32
from ....ir.expr import Expr, const, product
from ....ir.instructions import Dot
from ....ir.kernel import Alloc, Kernel, Loop, Store, perfect
from ....ir.simplify import simplify
from .. import roles
from ..affine import stride
from ..cost import blocking, few_rows_of_blocks, first_lanes
from ..plan import Plan
from ..steps import dots
from ..steps.variants import choose
from ..tree import StepError, loads_in
from .direct import tried_where
from .dotted import in_vectors, signs, tiles_in_lanes
from .tiles import RegisterTile, turned

# Rows of a register tile with sums of integers and of floats; and tiles of a block of rows, for each of which a panel of columns is packed.  (Zen 4, blocks of 32 bytes, 1024², one thread: 128 rows by tiles of 4, 8, 12, 14 172, 172, 162,
# 133 GMAC/s, 16 rows 131, 131, 94, 81.)
ROWS, TILES = 4, 64


class SumsOfBlocks(NamedTuple):
    """What part each axis plays in such a kernel."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    block: str  # the reduction over blocks
    depth: str  # the one inside a block
    row_operand: str  # of what is multiplied
    column_operand: str
    columns: tuple[str, ...]  # all the buffers that move with the column
    accumulator: str  # of floats
    sum: str  # of the integers of a block
    dot: Dot | None  # the instruction that multiplies; None where floats do


def sums_of_blocks(plan: Plan) -> bool:
    """Schedule such a kernel; False (and an unchanged plan) where it is none."""
    found = _found(plan)
    if found is None:
        return False
    plan.tried("sink", found.depth, inline=1)  # what is taken from a block
    parts: list[tuple[Expr | None, Kernel]] = []
    few = plan.another()
    condition = _few_rows(few, found)
    plan.note(*few.notes)
    if condition is not None:
        parts.append((None if condition.is_const else condition, few.kernel))
    if not parts or parts[-1][0] is not None:
        rest = plan.another()
        _schedule(rest, found)
        plan.note(*rest.notes)
        parts.append((None, rest.kernel))
    how = "as floats that hold all such sums" if found.dot is None else f"{found.dot.neighbours} neighbours at a time by {found.dot.name}"
    plan.note(f"the integers of a block along `{found.depth}` are summed in registers, {how}, and what they come to is scaled and added there too")
    plan.kernel = choose(plan.kernel, parts) if len(parts) > 1 else parts[0][1]
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
        _, s, *sides = dots.factors(plan.kernel, inside[0].axis, zeros=True)
    except StepError:
        return None
    dot = dots.choice(plan.target.instructions, *(f.dtype for f in sides))
    address = simplify(plan.facts.buffers[result.buffer].address(result.index), plan.facts.known)
    beside = [x for x in form.axes if stride(address, x) == 1]
    if len(inner) != 1 or (dot is not None and dot.result is not s.value.dtype) or s.buffer != sums[0].name or not beside:
        return None
    column = beside[-1]
    across = [f.element for f in sides if column not in f.element.names]
    along = [f.element for f in sides if column in f.element.names]
    rows = tuple(x for x in form.axes if x in across[0].names - along[0].names) if len(across) == 1 else ()
    if not rows:
        return None
    loads = [n for t in block.body if isinstance(t, (Store, Loop)) for n in loads_in(*(e for u in (t, *_stores(t)) for e in u.expressions()))]
    columns = tuple(dict.fromkeys(n.attr for n in loads if column in n.names and n.attr in plan.facts.buffers))
    batch = tuple(x for x in form.axes if x not in (*rows, column))
    return SumsOfBlocks(
        batch, rows, column, block.axis, inside[0].axis, min(across[0].buffers), min(along[0].buffers), columns, acc.name, sums[0].name, dot
    )


def _few_rows(plan: Plan, r: SumsOfBlocks) -> Expr | None:
    """Few rows: the condition on the sizes; None (and an unchanged plan) where a step refuses."""
    words = plan.extent(r.depth)
    neighbours, lanes = 1 if r.dot is None else r.dot.neighbours, plan.target.lanes(i32)
    width = min(lanes, (words or 0) // neighbours)
    if width < 2 or (words or 0) % (width * neighbours) or lanes % width or not first_lanes(plan.target):
        return None
    addresses = roles.accesses(plan.loop(r.depth).body, plan.facts.buffers)
    if any(r.depth in a.names and stride(a, r.depth) != 1 for a in addresses):  # what is taken from a block is the same all along it
        return None

    def steps() -> None:
        plan.ordered(*r.rows, r.column)
        row = plan.collapsed(r.rows)
        if r.dot is None:
            plan.do("floats", r.depth)
        else:
            plan.do("dot", r.depth, r.dot.name, signed=r.column_operand)
        plan.do("distribute", r.depth)
        deep = plan.collapsed((r.block, r.depth))
        found = roles.contraction(plan.kernel, plan.facts, r.column)
        if found is None:
            raise StepError("no contraction is left")
        tiles_in_lanes(plan, found, row, deep, width, False, few=True, clamped=True, narrow=True)

    count = product(plan.loop(x).stop for x in r.rows)
    condition = simplify(count.le(const(few_rows_of_blocks(plan.target))), plan.facts.known)
    return tried_where(plan, condition, "few rows: columns are read as they lie, lanes of a block's words scaled and added", steps)


def _stores(s: Store | Loop) -> tuple[Store, ...]:
    return tuple(t for t in s.body if isinstance(t, Store)) if isinstance(s, Loop) else ()


def _schedule(plan: Plan, r: SumsOfBlocks) -> None:
    column = r.column
    batch = plan.ordered(*r.rows, column)
    row = plan.collapsed(r.rows)
    if r.dot is None:
        plan.do("floats", r.depth)
    else:
        in_vectors(plan, signs(plan, r.dot, row, r.depth))
        plan.do("dot", r.depth, r.dot.name)
    block = blocking(plan.target, i32)
    plan.do("split", column, block.columns, tail="pad")
    plan.do("split", row, block.rows if r.dot is None else ROWS, tail="clamp")
    plan.do("share", f"{row}.0", TILES)
    plan.do("reorder", f"{row}.0.0", f"{column}.0", f"{row}.0.1", f"{row}.1", f"{column}.1")
    total = RegisterTile(plan, r.accumulator, row, column, r.block)
    total.accumulate()
    rows, columns = total.compute()
    plan.do("expand", r.sum, rows, columns)
    plan.do("fission", rows, columns)
    tile = RegisterTile(plan, r.sum, row, column, r.depth, words=r.dot is not None)
    plan.do("reorder", r.depth, *tile.compute())
    for buffer in r.columns:
        _stage(plan, tile, buffer, r.block, r.depth)
        _stage(plan, total, buffer, r.block)
    if r.dot is None:
        before = plan.kernel
        plan.do("stage", r.row_operand, tile.compute()[0], r.block, r.depth, at=f"{row}.0.1")
        in_vectors(plan, plan.copying(plan.newest(before), before)[-1:])
    tile.finish()
    total.finish()
    plan.do("parallel", plan.collapsed((*batch, f"{row}.0.0", f"{column}.0")))
    plan.do("region")


def _stage(plan: Plan, tile: RegisterTile, buffer: str, *along: str) -> None:
    """Pack a panel of columns, one for each thread, `along` the blocks and what is in them: as one axis, or where blocks lie apart, a square of each block."""
    _, columns = tile.compute()
    if not tile.reads(buffer, columns):
        return
    before = plan.kernel
    plan.do("stage", buffer, *along, columns, at=f"{tile.column}.0")
    packed, staged = plan.newest(before), plan.kernel
    *deep, _ = plan.copying(packed, before)
    plan.collapsed(deep)
    if turned(plan, packed, before):
        return
    plan.kernel = staged
    words = plan.extent(deep[-1]) or 1
    if len(deep) > 1 and any(
        turned(plan, packed, before, most=most) for most in (words, words // 2)
    ):  # two numbers in a byte lie in two halves of a block
        block, columns, *_ = plan.copying(packed, before)
        plan.tried("reorder", columns, block)
    else:
        plan.tried("interior", *plan.copying(packed, before), fixed=1)
        plan.tried("vectorize", plan.copying(packed, before)[-1])
