"""The plan for few rows that share each tile of a loop over tiles, where a machine multiplies tiles (`ir/instructions.py`).

    for batch (workshare)                        what is read along the columns belongs to it alone: nothing is packed for others
      pack the rows                              words along the reduction: the few columns of the first product
      for p in tiles
        for positions.0 in the tile              32 of them
          copy what lies along the reduction     as it lies: the rows of the product (keys)
          tile: positions × rows                 turned over while it is stored, row by row
        …                                        what is left of a tile, in vectors, row by row
        pack what is kept for the rows           words along the positions
        for columns.0
          pack what lies along the columns       pairs of its rows side by side (values)
          tile: rows × columns

What costs is the side of which much is read, once: it is copied as it lies, or two rows of it at a time, never turned over.  What is turned over is the scores of few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.instructions import MOST_TILES, SIDE, Tile
from ....ir.kernel import Loop, Store, statements
from .. import roles
from ..affine import stride
from ..roles import Contraction
from ..rows.vectors import vectors_inside
from ..tree import all_loops, loads_in, local_buffers
from . import contractions
from .tiles import RegisterTile

if TYPE_CHECKING:
    from .cascades import Cascade

LONG = MOST_TILES * SIDE  # of the axis of which there is much


def few_on_tiles(found: Cascade) -> bool:
    """Schedule it; False (and an unchanged plan) where not all products are what the target's tiles multiply.  StepError where a step does not apply."""
    plan = found.plan
    saved = plan.kernel
    for name, b in local_buffers(plan.kernel).items():
        if b.space == "private":
            plan.tried("narrow", name)
    instructions = [t for n in found.nests if (t := contractions.instructions(plan, n)[1]) is not None]
    if len(instructions) < len(found.nests):
        plan.kernel = saved
        return False
    found.order_rows()
    row = plan.collapsed(found.row_axes)
    plan.do("split", row, SIDE, tail="pad")
    found.block_rows(f"{row}.1")
    tiles: list[RegisterTile] = []
    for nest, instruction in zip(found.nests, instructions, strict=True):
        tiles.append(_tile(found, nest, instruction))
    for t, nest in zip(tiles, found.nests, strict=True):
        _pack(found, t, nest, f"{row}.0")
    for t, instruction in zip(tiles, instructions, strict=True):
        if instruction.dot.least:
            contractions.screened(plan, t.depth, t.once)
        t.tensorize(instruction.name)
        plan.note(f"{instruction.dot.neighbours} neighbours along `{t.depth}` are multiplied by one {instruction.name}")
    for t in tiles:
        _turn(found, t)
        t.finish()
    vectors_inside(plan)
    plan.shared((*found.batch_axes, f"{row}.0"))
    (work,) = roles.shape(plan.kernel).axes
    plan.do("parallel", work)
    plan.tried("region", work)
    plan.note(f"blocks of {SIDE} rows share each tile along `{found.along}`, multiplied by tiles")
    return True


def _lies_along(found: Cascade, nest: Contraction) -> bool:
    """Whether what moves with the columns of a product lies along its reduction."""
    plan, (deep,) = found.plan, nest.reduced
    loads = [n for s in statements((plan.loop(deep),)) if isinstance(s, Store) for n in loads_in(s.value) if n.attr in nest.column_operands]
    return all(stride(plan.facts.buffers[n.attr].address(n.args), deep) == 1 for n in loads)


def _tile(found: Cascade, nest: Contraction, instruction: Tile) -> RegisterTile:
    """Register tiles for one product: [few, many] → [many.0, few.0, row.1, column.1], where the rows are what lies along the reduction, if that is what there is much of."""
    plan, many, (deep,) = found.plan, nest.column, nest.reduced
    few = next(x.axis for x in all_loops(plan.kernel) if len(x.body) == 1 and isinstance(x.body[0], Loop) and x.body[0].axis == many)
    row, column = (many, few) if _lies_along(found, nest) else (few, many)
    plan.do("split", few, SIDE, tail="pad")
    plan.do("split", many, LONG, tail="pad")
    plan.do("reorder", f"{many}.0", f"{few}.0", f"{row}.1", f"{column}.1")
    plan.do("dot", deep, instruction.dot.name, multiple=SIDE)
    t = RegisterTile(plan, nest.accumulator.name, row, column, deep, words=True, apart=instruction.dot.least > 0)
    t.accumulate()
    return t


def _pack(found: Cascade, t: RegisterTile, nest: Contraction, home: str) -> None:
    """Copy what the tiles multiply: what the few rows read once inside `home`, or for each tile of the axis; the other operand right before it is multiplied."""
    in_memory = [b for b in nest.row_operands if b in found.plan.facts.buffers]
    kept = tuple(b for b in nest.row_operands if b not in found.plan.facts.buffers)
    if t.row == nest.column:
        t.stage_columns(in_memory, (), home, space="private")
        t.cut(SIDE)
        t.stage_rows(nest.column_operands, f"{t.column}.0", f"{t.row}.0", along=True)
    else:
        t.stage_columns(nest.column_operands, (), found.along, space="private", along=True)
        t.cut(SIDE)
        t.stage_rows(kept, f"{t.row}.0", found.along)
        t.stage_rows(in_memory, f"{t.row}.0", home)


def _turn(found: Cascade, t: RegisterTile) -> None:
    """What is stored along the rows of the tile is turned over."""
    plan = found.plan
    local = local_buffers(plan.kernel)
    lanes = plan.target.lanes(local[t.accumulator].dtype)
    for outer, inner in t.nests(t.accumulator):
        stores = [
            local[s.buffer].address(s.index)
            for s in statements(inner.body)
            if isinstance(s, Store) and s.buffer in local and s.buffer != t.accumulator
        ]
        if stores and all(stride(a, outer.axis) == 1 for a in stores):
            plan.do("spill", t.accumulator, outer.axis, turned=lanes)
            plan.do("split", outer.axis, lanes, tail="perfect")
            plan.do("reorder", f"{outer.axis}.0", inner.axis, f"{outer.axis}.1")
            plan.do("unroll", inner.axis)
            plan.do("vectorize", f"{outer.axis}.1")
