"""The plan for a contraction on a GPU: a block computes a tile of the result, each of its threads a piece of that in registers.

    for tile block.x:
      for t in 0 .. 256 thread.x:
        alloc acc: [8, 8] register
        for p.0 in 0 .. ceil(K / 16):
          A.packed, B.packed = …               what the tile needs of both operands, zeros beyond their ends, through shared memory
          barrier                              (the next piece is on its way into registers)
          for p.1 in 0 .. 16: acc += A.packed[p.1, …] ⊗ B.packed[p.1, …]
          barrier
        C[…] = f(acc)

A thread's piece is four neighbours along each axis, or twice four with half a tile between them: so threads beside one another read neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....ir.expr import ONE
from ....ir.kernel import Barrier, Block, If, Kernel, Loop, Store, perfect, statements, written
from ....ir.walks import postorder
from .. import roles
from ..affine import constant_extent, stride
from ..plan import Plan
from ..tree import all_loops, around

NEIGHBOURS = 4  # of a piece, along each axis: what one load brings


class Shape(NamedTuple):
    """A tile, and how its rows and its columns are shared: how many times four neighbours a thread has of each, or how many warps there are along each."""

    rows: int
    columns: int
    parts: tuple[int, int]
    depth: int  # of the reduction, at once in shared memory
    slots: int  # pieces of it that are there or on their way
    each: int = 1  # tiles for each processor, with fewer than which smaller ones are as good


# The smallest first.  (H100, f32, beside cuBLAS: 1024³ 0.92, 1536³ 0.93 and in the largest tiles 0.70, of which there are 1.1 for each processor; 4096×512×1024 0.90 and 0.84, of 1.9; 2048³ 0.91 and 0.91; 4096³ 0.92 to 0.95, 8192³ 0.95.)
SHAPES = (Shape(64, 64, (2, 1), 16, 2), Shape(64, 128, (2, 2), 16, 2), Shape(128, 128, (2, 2), 16, 2, 4))
DEPTH = 16  # of the reduction, at once in shared memory, in a cascade
SPARE = 4  # elements behind each of these, where a copy goes along the reduction
PAD = 8  # behind each row where warps multiply: rows one below the other begin in different banks
AT_ONCE = 8  # elements of 16 bits that a thread copies at once: 16 bytes
DEAR = 56  # operations of an element that is copied, above which its text stands once (of a transposed convolution of volumes 82, several times in a text that nvcc takes minutes for)
UNROLLED = 16  # most iterations of a loop over what is in registers


def tile(plan: Plan, found: roles.Contraction, shape: Shape) -> None:
    """StepError where the kernel is no such contraction."""
    row, column = found.rows[-1], found.column
    outer = plan.ordered(row, column)
    depth = plan.collapsed(found.reduced)
    along = {b: runs_along(plan, b, depth) for b in (*found.row_operands, *found.column_operands)}
    rows, columns = (_cut(plan, *cut) for cut in zip((row, column), shape[:2], shape.parts, strict=True))
    threads, piece = [rows[2], columns[2]], [*rows[1:2], rows[3], *columns[1:2], columns[3]]
    piece = [a for a in piece if a]
    plan.do("reorder", rows[0], columns[0], *threads, *piece)
    operands = [
        (b, [a for a in axes[1:] if a], along[b]) for group, axes in ((found.row_operands, rows), (found.column_operands, columns)) for b in group
    ]
    ours = {plan.facts.buffers[b].dtype for b in along} == {found.accumulator.dtype} and found.accumulator.dtype.bytes == 4
    blocks, _, copies = through_shared(plan, found.accumulator.name, depth, threads, piece, operands, shape.depth, at_once=4 if ours else 1)
    block = plan.collapsed([*outer, rows[0], columns[0]])
    plan.do("bind", block, "block.x")
    count = shape.rows * shape.columns // (NEIGHBOURS**2 * shape.parts[0] * shape.parts[1])
    plan.do("cooperate", block, count)
    dear = [s.buffer for s in statements(plan.kernel.body) if isinstance(s, Store) and s.buffer in copies and len(postorder(s.value)) > DEAR]
    if not dear and {plan.facts.buffers[b].dtype for b in along} == {found.accumulator.dtype}:
        arrive_ahead(plan, blocks, copies, shape.slots)
        if plan.target.copies_ahead:
            whole_pieces(plan, blocks)
    unrolled(plan, dear)
    plan.note(
        f"reuse along `{row}` and `{column}`: tiles of {shape.rows}×{shape.columns} by {count} threads, {NEIGHBOURS * shape.parts[0]}×{NEIGHBOURS * shape.parts[1]} each, operands through shared memory"
    )


def through_shared(
    plan: Plan,
    accumulator: str,
    depth: str,
    threads: list[str],
    piece: list[str],
    operands: list[tuple[str, list[str], bool]],
    deep: int,
    by_warps: bool = False,
    at_once: int = 0,
    swizzled: bool = False,
) -> tuple[str, str, list[str]]:
    """The reduction of a nest over threads and what each of them has, block by block, what it reads of these operands by way of shared memory.

    `operands`: each with the axes of the nest that it moves with, and whether its neighbours in memory are neighbours along the reduction.  `deep`: of a block; `by_warps`: who multiply it together.  Gives the loop over blocks and the copies.
    """
    before = plan.kernel
    plan.do("split", depth, deep, tail="pad")
    blocks, inside = plan.added(before)
    plan.tried("factors", inside)
    plan.do("expand", accumulator, *threads, *piece)
    plan.do("fission", *threads, *piece)
    nest = [s.axis for s in around(plan.kernel, blocks) if isinstance(s, Loop)][:-1]
    new_threads, new_piece = nest[-len(threads) - len(piece) :][: len(threads)], nest[-len(piece) :]
    plan.do("reorder", blocks, *new_threads, inside, *new_piece)
    plan.do("serial", blocks)
    renamed = dict(zip((*threads, *piece), (*new_threads, *new_piece), strict=True))
    copies: list[str] = []
    for b, axes, along in dict.fromkeys((b, tuple(axes), along) for b, axes, along in operands):
        own = [renamed[a] for a in axes]
        before = plan.kernel
        if by_warps and along:
            plan.do("stage", b, *own, inside, at=blocks, space="shared", pad=0 if swizzled else PAD, plain=1)
        elif by_warps:
            plan.do("stage", b, inside, *own, at=blocks, space="shared", spare=0 if swizzled else PAD, plain=1)
        elif along:
            plan.do("stage", b, inside, *own, at=blocks, space="shared", order=",".join((*own, inside)), spare=SPARE)
        else:
            plan.do("stage", b, inside, *own, at=blocks, space="shared")
        copies.append(plan.newest(before))
        at_once = at_once or (AT_ONCE if by_warps else 1)
        if at_once > 1 and (by_warps or not along):
            _in_pieces(plan, copies[-1], before, at_once)
        if swizzled:
            plan.do("swizzle", copies[-1], 1 if along else len(own))
    return blocks, inside, copies


def _in_pieces(plan: Plan, packed: str, before: Kernel, at_once: int) -> None:
    """A thread copies so many elements that lie side by side at once."""
    *_, beside, last = plan.copying(packed, before)
    if (plan.extent(last) or 0) < at_once:
        last = plan.collapsed([beside, last])
    if (plan.extent(last) or 0) > at_once:
        earlier = plan.kernel
        plan.do("split", last, at_once, tail="perfect")
        last = plan.added(earlier)[1]
    plan.do("vectorize", last)


def unrolled(plan: Plan, dear: Sequence[str] = ()) -> None:
    """What is in registers is addressed by numbers.  What is copied into the `dear` arrays is not."""
    for s in all_loops(plan.kernel):
        length = constant_extent(s)
        waits = any(isinstance(t, Barrier) for t in statements(s.body)) or not written(s.body).isdisjoint(dear)
        if s.kind in ("serial", "reduce") and s.step is ONE and length is not None and length <= UNROLLED and not waits:
            plan.do("unroll", s.axis)


def arrive_ahead(plan: Plan, blocks: str, copies: Sequence[str], slots: int, behind: int = 0) -> None:
    """What each iteration of a loop over blocks copies is on its way before."""
    if not plan.target.copies_ahead:
        plan.do("fetch", blocks, *copies)
        return
    plan.do("ring", blocks, *copies, slots=slots, behind=behind or "")


def whole_pieces(plan: Plan, blocks: str) -> None:
    """The iterations of a loop over blocks whose copies are inside their operands ask nothing."""
    path = [s for s in around(plan.kernel, blocks) if isinstance(s, Loop)]
    plan.tried("peel", blocks, fixed=1, over=",".join(s.axis for s in path if s.kind.startswith("thread.")))


def ask_at_once(plan: Plan, blocks: str) -> None:
    """What is copied together in each iteration of a loop over blocks is asked about at once, where it has borders."""

    def ask(block: Block) -> None:
        for s in block:
            nest, body = perfect((s,))
            if isinstance(s, If):
                ask(s.body)
            elif nest and len(body) == 1 and isinstance(body[0], Store) and not body[0].combiner:
                plan.tried("interior", *[x.axis for x in nest], fixed=1)

    ask(plan.loop(blocks).body)


def runs_along(plan: Plan, buffer: str, depth: str) -> bool:
    """Whether an operand's neighbours in memory are neighbours along the reduction."""
    found = [a for a in roles.accesses((plan.loop(depth),), {buffer: plan.facts.buffers[buffer]}) if depth in a.names]
    return any(stride(a, depth) == 1 for a in found)


def _cut(plan: Plan, axis: str, side: int, halves: int) -> tuple[str, str, str, str]:
    """The tile, the half (none where there is one), the thread, and its neighbours."""
    before = plan.kernel
    plan.do("split", axis, side, tail="pad")
    block, inner = plan.added(before)
    half = ""
    if halves > 1:
        before = plan.kernel
        plan.do("split", inner, side // halves)
        half, inner = plan.added(before)
    before = plan.kernel
    plan.do("split", inner, NEIGHBOURS)
    thread, neighbours = plan.added(before)
    return block, half, thread, neighbours
