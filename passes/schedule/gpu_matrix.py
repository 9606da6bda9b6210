"""The plan for a contraction of 16-bit floats on a GPU: a block computes a tile of the result, each of its warps a piece of that on tensor cores.

for tile block.x:
  for t in 0 .. 256 thread.x:
    alloc acc: [4, 2, 4, 2] register
    for p.0 in 0 .. ceil(K / 32):
      A.packed, B.packed = …               what the tile needs of both operands, as it lies in memory, zeros beyond their ends, through shared memory
      barrier                              (the next piece is on its way into registers)
      acc += A.packed ⊗ B.packed           what a warp multiplies together (`warps.py`)
      barrier
    C[…] = f(acc)
"""

from __future__ import annotations

from ...ir.dtypes import f32
from ...ir.expr import ONE
from ...ir.instructions import FRAGMENTS
from ...ir.kernel import Kernel, Loop, Store, statements
from . import gpu_tiles, roles, warps
from .affine import constant_extent
from .plan import Plan
from .tree import all_loops, around

DEPTH = 32  # of the reduction, at once in shared memory
AT_ONCE = 8  # elements that a thread copies at once: 16 bytes
PAD = 8  # elements behind each row there: rows one below the other begin in different banks
# that share a tile's rows and its columns: four of 64 by 64 each load two thirds of what eight of 64 by 32 do, for which shared memory is too slow
WARPS = {128: (2, 2), 64: (2, 2)}


def fits(plan: Plan, found: roles.Contraction) -> bool:
    """Whether the target's tensor cores multiply and add as the contraction does."""
    if plan.options.strict or found.accumulator.dtype is not f32:
        return False
    operands = {x.operand for x in FRAGMENTS.values() if x.name in plan.target.instructions}
    sums = [s for s in statements(plan.loop(found.reduced[-1]).body) if isinstance(s, Store) and s.buffer == found.accumulator.name]
    if len(sums) != 1 or sums[0].combiner != "add" or sums[0].value.op != "mul":
        return False
    dtypes = {a.args[0].dtype for a in sums[0].value.args if a.op == "cast"}
    return len(dtypes) == 1 and all(a.op == "cast" for a in sums[0].value.args) and dtypes <= operands


def tile(plan: Plan, found: roles.Contraction, side: int) -> None:
    """`side`: of a tile.  StepError where the kernel is no such contraction."""
    row, column = found.rows[-1], found.column
    form = roles.shape(plan.kernel)
    if form.axes[-2:] != (row, column):
        plan.do("reorder", *(a for a in form.axes if a not in (row, column)), row, column)
    outer = roles.shape(plan.kernel).axes[:-2]
    depth = plan.collapsed(found.reduced)
    along = {b: gpu_tiles.runs_along(plan, b, depth) for b in (*found.row_operands, *found.column_operands)}
    blocks, cut = [], list[tuple[str, str, str, str]]()
    for axis, deal, count in zip((row, column), (warps.rows, warps.columns), WARPS[side], strict=True):
        before = plan.kernel
        plan.do("split", axis, side, tail="pad")
        block, inner = plan.added(before)
        blocks.append(block)
        cut.append(deal(plan, inner, count))
    (down, high, half, line), (across, wide, pair, beside) = cut
    threads, piece = [down, across, line, pair], [high, half, wide, beside]
    plan.do("reorder", *blocks, *threads, *piece)
    before = plan.kernel
    plan.do("split", depth, DEPTH, tail="pad")
    pieces, inside = plan.added(before)
    plan.tried("factors", inside)  # there are conditions to ask, if the depth is no multiple
    plan.do("expand", found.accumulator.name, *threads, *piece)
    plan.do("fission", *threads, *piece)
    nest = [s.axis for s in around(plan.kernel, pieces) if isinstance(s, Loop)][:-1][-8:]
    plan.do("reorder", pieces, *nest[:4], inside, *nest[4:])
    plan.do("serial", pieces)
    renamed = dict(zip((*threads, *piece), nest, strict=True))
    copies: list[str] = []
    for operands, axes in zip((found.row_operands, found.column_operands), cut, strict=True):
        own = [renamed[a] for a in axes]
        for b in dict.fromkeys(operands):
            before = plan.kernel
            if along[b]:
                plan.do("stage", b, *own, inside, at=pieces, space="shared", pad=PAD, plain=1)
            else:
                plan.do("stage", b, inside, *own, at=pieces, space="shared", spare=PAD, plain=1)
            copies.append(plan.newest(before))
            _in_pieces(plan, copies[-1], before)
    block = plan.collapsed([*outer, *blocks])
    plan.do("bind", block, "block.x")
    count = WARPS[side][0] * WARPS[side][1]
    plan.do("cooperate", block, 32 * count)
    plan.do("fetch", pieces, *copies)
    for turn in plan.loop(pieces).body:
        if isinstance(turn, Loop) and isinstance(lanes := turn.body[0], Loop) and lanes.kind == "vector":
            plan.tried("interior", turn.axis, lanes.axis, fixed=1)  # what is copied at once is asked about at once, where it has borders
    plan.do("matrix", inside)
    for s in all_loops(plan.kernel):
        length = constant_extent(s)
        if s.kind in ("serial", "reduce") and s.step is ONE and length is not None and length <= gpu_tiles.UNROLLED:
            plan.do("unroll", s.axis)
    plan.note(f"reuse along `{row}` and `{column}`: tiles of {side}×{side} by {count} warps on tensor cores, operands through shared memory")


def _in_pieces(plan: Plan, packed: str, before: Kernel) -> None:
    """A thread copies eight elements that lie side by side at once."""
    *_, beside, last = plan.copying(packed, before)
    if (plan.extent(last) or 0) < AT_ONCE:
        last = plan.collapsed([beside, last])
    if (plan.extent(last) or 0) > AT_ONCE:
        earlier = plan.kernel
        plan.do("split", last, AT_ONCE, tail="perfect")
        last = plan.added(earlier)[1]
    plan.do("vectorize", last)
