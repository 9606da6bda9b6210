"""The plan for a contraction of 16-bit floats on a GPU: a block computes a tile of the result, each of its warps a piece of that on tensor cores.

for tile block.x:
  for t in 0 .. 256 thread.x:
    alloc acc: [4, 2, 4, 2] register
    for p.0 in 0 .. ceil(K / 32):
      A.packed, B.packed = …               what the tile needs of both operands, as it lies in memory, zeros beyond their ends, through shared memory
      barrier                              (the next piece is on its way into registers)
      acc += A.packed ⊗ B.packed           what a warp multiplies together (`steps/warps.py`)
      barrier
    C[…] = f(acc)
"""

from __future__ import annotations

from ....ir.dtypes import f32
from ....ir.instructions import FRAGMENTS, GROUPED
from ....ir.kernel import Store, statements
from .. import roles
from ..plan import Plan
from . import dealt, gpu_tiles

# the smallest first; how many warps share rows and columns
SHAPES = (gpu_tiles.Shape(64, 64, (2, 2), 32, 4), gpu_tiles.Shape(128, 128, (2, 2), 32, 3), gpu_tiles.Shape(128, 256, (2, 4), 32, 3))
# where four warps multiply together what 64 rows have
OF_GROUPS = (gpu_tiles.Shape(64, 64, (4, 1), 64, 4), gpu_tiles.Shape(128, 128, (8, 1), 64, 3), gpu_tiles.Shape(128, 256, (8, 1), 64, 4))
# where rows of memory begin anywhere: copies on their way would be of one element each, so pieces come through registers (H100, 1000×999×1001: 0.086 ms, 0.157 so)
UNEVEN = (gpu_tiles.Shape(64, 64, (2, 2), 32, 0), gpu_tiles.Shape(128, 128, (2, 4), 32, 0))


def shapes(plan: Plan) -> tuple[gpu_tiles.Shape, ...]:
    return OF_GROUPS if GROUPED in plan.target.instructions else SHAPES


def fits(plan: Plan, found: roles.Contraction) -> bool:
    """Whether the target's tensor cores multiply and add as the contraction does."""
    if plan.options.strict or found.accumulator.dtype is not f32:
        return False
    operands = {x.operand for x in FRAGMENTS.values() if x.name in plan.target.instructions}
    sums = [s for s in statements(plan.loop(found.reduced[-1]).body) if isinstance(s, Store) and s.buffer == found.accumulator.name]
    if len(sums) != 1 or sums[0].combiner != "add" or sums[0].value.op != "mul":
        return False
    # a factor may be zero under some condition
    factors = [a.args[1] if a.op == "where" and a.args[2].is_const else a for a in sums[0].value.args]
    return all(a.op == "cast" and a.args[0].dtype in operands for a in factors) and len({a.args[0].dtype for a in factors}) == 1


def tile(plan: Plan, found: roles.Contraction, shape: gpu_tiles.Shape) -> None:
    """StepError where the kernel is no such contraction."""
    row, column = found.rows[-1], found.column
    outer = plan.ordered(row, column)
    depth = plan.collapsed(found.reduced)
    along = {b: gpu_tiles.runs_along(plan, b, depth) for b in (*found.row_operands, *found.column_operands)}
    blocks, cut = [], list[tuple[str, str, str, str]]()
    for axis, side, deal, count in zip((row, column), shape[:2], (dealt.rows, dealt.columns), shape.parts, strict=True):
        before = plan.kernel
        plan.do("split", axis, side, tail="pad")
        block, inner = plan.added(before)
        blocks.append(block)
        cut.append(deal(plan, inner, count))
    (down, high, half, line), (across, wide, pair, beside) = cut
    threads, piece = [down, across, line, pair], [high, half, wide, beside]
    plan.do("reorder", *blocks, *threads, *piece)
    operands = [(b, list(axes), along[b]) for group, axes in ((found.row_operands, cut[0]), (found.column_operands, cut[1])) for b in group]
    pieces, inside, copies = gpu_tiles.through_shared(
        plan, found.accumulator.name, depth, threads, piece, operands, shape.depth, by_warps=True, swizzled=True
    )
    block = plan.collapsed([*outer, *blocks])
    plan.do("bind", block, "block.x")
    count = shape.parts[0] * shape.parts[1]
    plan.do("cooperate", block, 32 * count, most=plan.target.shared_bytes)
    if shape.slots and plan.target.copies_ahead:
        gpu_tiles.arrive_ahead(plan, pieces, copies, shape.slots, behind=int(GROUPED in plan.target.instructions))
        plan.do("matrix", inside)
        gpu_tiles.whole_pieces(plan, pieces)
    else:
        plan.do("fetch", pieces, *copies)
        gpu_tiles.ask_at_once(plan, pieces)
        plan.do("matrix", inside)
    gpu_tiles.unrolled(plan)
    plan.note(
        f"reuse along `{row}` and `{column}`: tiles of {shape.rows}×{shape.columns} by {count} warps on tensor cores, operands through shared memory"
    )
