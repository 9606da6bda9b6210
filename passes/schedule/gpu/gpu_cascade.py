"""The plan for contractions inside a loop over tiles, on a GPU: a block has 64 rows, its threads cells of all that these keep.

    for batch, portions of the sums, blocks of rows   block.x
      for p in tiles
        for t in 0 .. 128 thread.x, its cells: scores             contraction, operands through shared memory; kept in registers
        for t: what each thread has of a row, put together in shared memory; for rows: the states move
        for t, its cells: weights                                 into shared memory
        for t, its cells: sums                                    contraction, kept in registers
      for t, its cells: the results

The layout of FlashAttention-2 (Dao, 2023) comes out where the loops are those of attention; nothing here knows what they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ....ir.expr import Expr
from ....ir.instructions import ROUGH_EXP
from ....ir.kernel import Alloc, Kernel, Loop, perfect, statements
from .. import roles
from ..cost import blocking
from ..plan import Plan
from ..products.cascades import Cascade, contraction_of, distribute, shared
from ..tree import StepError, TooMuch, find, local_buffers
from . import gpu_matrix, gpu_tiles

DEEP = 64  # of a contraction's depth at once in shared memory, where warps multiply 64 columns
SIDE = 64  # rows of a block, columns of what they keep
LEAST = 32  # columns


class Digit(NamedTuple):
    """One part of an axis that threads share: how many there are, and whether they are threads' or each thread's own."""

    extent: int
    threads: bool


class Cells(NamedTuple):
    """Which cells of 64 rows and 64 columns a thread has: the digits of both, the outermost first."""

    rows: tuple[Digit, ...]
    columns: tuple[Digit, ...]

    @property
    def threads(self) -> int:
        return prod(d.extent for d in (*self.rows, *self.columns) if d.threads)

    def wide(self, columns: int) -> tuple[Digit, ...]:
        """The same for more columns, or for half as many."""
        if columns % LEAST:
            raise StepError(f"{columns} columns are no multiple of {LEAST}")
        place = next(k for k, d in enumerate(self.columns) if not d.threads)
        found = (Digit(d.extent * columns // SIDE, False) if k == place else d for k, d in enumerate(self.columns))
        return tuple(d for d in found if d.extent > 1)


# four neighbours along the rows, twice four along the columns with half of them between
PIECES = Cells((Digit(16, True), Digit(4, False)), (Digit(2, False), Digit(8, True), Digit(4, False)))


# warps of 32 rows and 32 columns, by tiles of 16 × 8 (`ir/warps.py`)
WARPS = Cells((Digit(2, True), Digit(2, False), Digit(2, False), Digit(8, True)), (Digit(2, True), Digit(4, False), Digit(4, True), Digit(2, False)))


def cascade(plan: Plan) -> list[tuple[Expr | None, Callable[[Plan], None]]]:
    """The schedules of such a kernel, each but the last with the condition on the sizes under which it is taken; none where it is no such kernel."""
    if plan.options.level < 2 or not any(isinstance(s, Loop) and s.kind in ("serial", "elastic") for s in statements(plan.kernel.body)):
        return []
    plan.perfect()
    found = shared(plan)
    if found is None:
        return []
    arrays = sums(plan.kernel)
    on_matrices = all(gpu_matrix.fits(plan, n) for n in found[1])

    def rows(width: int) -> Callable[[Plan], None]:
        def schedule(part: Plan) -> None:
            part.perfect()
            for names in arrays.values():
                part.do("portion", width, *names)
            whole, notes = part.kernel, list(part.notes)
            for shallow in (1, 2):  # what a block's threads share has its limit
                part.kernel, part.notes = whole, list(notes)
                try:
                    _rows(part, WARPS if on_matrices else PIECES, shallow)
                except TooMuch:
                    if shallow == 2:
                        raise
                else:
                    return

        return schedule

    if on_matrices and len(arrays) == 1:
        (length,) = arrays
        return [(length.le(SIDE), rows(SIDE)), (None, rows(2 * SIDE))]
    return [(None, rows(SIDE))]


def sums(kernel: Kernel) -> dict[Expr, list[str]]:
    """The local arrays whose last axis is as long as sizes say, by that length."""
    found: dict[Expr, list[str]] = {}
    for s in statements(kernel.body):
        if isinstance(s, Alloc) and s.buffer.shape and not s.buffer.shape[-1].is_const:
            found.setdefault(s.buffer.shape[-1], []).append(s.buffer.name)
    return found


def _rows(plan: Plan, cells: Cells, shallow: int) -> None:
    """`shallow`: by how much less of a depth goes through shared memory at once."""
    found = shared(plan)
    if found is None:
        raise StepError("a portion of the sums is no contraction")
    along, nests, rows = found
    batch = plan.ordered(*rows)
    row = plan.collapsed(rows)
    before = plan.kernel
    plan.do("split", row, SIDE, tail="pad")
    outer, inner = plan.added(before)
    Cascade(plan, along, nests, batch, rows, blocking(plan.target, nests[0].accumulator.dtype)).block_rows(inner)
    inside = _Block(plan, outer, along, cells, shallow)
    inside.run()
    block = plan.collapsed((*batch, outer))
    plan.do("bind", block, "block.x")
    plan.do("cooperate", block, cells.threads)
    for blocks, depth, copies in inside.blocks:
        plan.tried("fetch", blocks, *copies, ahead=0)
        if cells is WARPS:
            gpu_tiles.ask_at_once(plan, blocks)
            plan.do("matrix", depth)
    gpu_tiles.unrolled(plan)
    by = "on tensor cores, " if cells is WARPS else ""
    plan.note(f"blocks of {SIDE} rows share each tile along `{along}`; {cells.threads} threads have its cells, {by}in registers")


class _Block:
    """What is inside of a block of rows."""

    def __init__(self, plan: Plan, block: str, along: str, cells: Cells, shallow: int) -> None:
        self.plan, self.block, self.along, self.cells, self.shallow = plan, block, along, cells, shallow
        self.shared: set[str] = set()  # arrays that contractions read
        self.parts: list[str] = []  # of sums, in arrays that threads of other rows read beside one another
        self.blocks: list[
            tuple[str, str, list[str]]
        ] = []  # of a contraction's depth: the loop over blocks, what each thread goes through of one, the copies

    def run(self) -> None:
        for x in self.nests():
            self.reductions(x)
        for x in self.nests():
            self.apart(x)
        for x in self.nests():
            found = self.contraction(x)
            if found is not None:
                self.shared.update(b for b in found.row_operands if b not in self.plan.facts.buffers)
        for x in self.nests():
            self.dealt(x)
        for name in self.parts:
            self.plan.do("gaps", name, 1)
        for name in sorted(self.shared):
            self.plan.do("gaps", name, gpu_tiles.PAD if self.cells is WARPS else gpu_tiles.SPARE)
        for name, buffer in local_buffers(self.plan.kernel).items():
            if name not in self.shared and len(buffer.shape) == 2 and buffer.shape[0].attr == SIDE and buffer.shape[1].attr % LEAST == 0:
                self.plan.do("divide", name, 1, *(d.extent for d in self.cells.wide(buffer.shape[1].attr)))
                self.plan.do("divide", name, 0, *(d.extent for d in self.cells.rows))

    def nests(self) -> list[str]:
        """The loops over the rows of the block."""
        bodies = (*find(self.plan.kernel, self.block).body, *find(self.plan.kernel, self.along).body)
        return [s.axis for s in bodies if isinstance(s, Loop) and s.kind == "parallel"]

    def inside(self, row: str) -> list[Loop]:
        return [s for s in find(self.plan.kernel, row).body if isinstance(s, Loop)]

    def contraction(self, row: str) -> roles.Contraction | None:
        (*_, last) = (None, *self.inside(row))
        return contraction_of(last, self.plan) if last is not None else None

    def digits(self, axis: str, digits: Sequence[Digit]) -> list[str]:
        """The axis cut into its digits."""
        found, rest = list[str](), axis
        for k in range(1, len(digits)):
            before = self.plan.kernel
            self.plan.do("split", rest, prod(d.extent for d in digits[k:]), tail="perfect")
            first, rest = self.plan.added(before)
            found.append(first)
        return [*found, rest]

    def reductions(self, row: str) -> None:
        """What a row puts together of a tile: each thread its own, then these.  What it keeps is added up while it is made."""
        for a, b in pairwise(self.inside(row)):
            if b.kind == "reduce":
                self.plan.tried("join", a.axis, b.axis)
        for s in self.inside(row):
            if ROUGH_EXP.name in self.plan.target.instructions:
                self.plan.tried("rough", s.axis)
        for s in self.inside(row):
            if s.kind == "reduce":
                digits = self.cells.wide(self.plan.extent(s.axis) or 0)
                threads, own = _apart(self.digits(s.axis, digits), digits)
                self.plan.do("reorder", *threads, *own)
                before = self.plan.kernel
                self.plan.do("partials", *threads)
                self.parts.append(self.plan.newest(before))

    def apart(self, row: str) -> None:
        """A nest for each loop over columns, and for what stands between."""
        distribute(self.plan, row, tuple(s.axis for s in self.inside(row) if s.kind == "parallel"))

    def dealt(self, row: str) -> None:
        """A nest over columns by threads, and what each of them has."""
        plan, inside = self.plan, self.inside(row)
        if not inside or inside[-1].kind != "parallel":
            return
        if len(inside) > 1:
            raise StepError(f"`{row}` holds more than one loop")
        found = self.contraction(row)
        depth = found.reduced[0] if found else ""
        operands = [] if found is None else [*((b, True) for b in found.row_operands), *((b, False) for b in found.column_operands)]
        along = {b: gpu_tiles.runs_along(plan, b, depth) for b, _ in operands if b in plan.facts.buffers}
        rows = self.digits(row, self.cells.rows)
        of_threads, own = _apart(rows, self.cells.rows)
        count = plan.extent(inside[0].axis) or 0
        if count % LEAST == 0:
            digits = self.cells.wide(count)
            columns = self.digits(inside[0].axis, digits)
            across, beside = _apart(columns, digits)
        else:  # the parts of a reduction, one for each thread
            columns = across = _nest(inside[0])
            beside = []
        if len(across) != len(of_threads):
            raise StepError(f"`{inside[0].axis}` has {count} columns, which a block's threads do not share")
        threads = [a for pair in zip(of_threads, across, strict=True) for a in pair]
        plan.do("reorder", *threads, *own, *beside)
        if found is not None:
            staged = [(b, rows if moves else columns, along[b]) for b, moves in operands if b in along]
            on_matrices = self.cells is WARPS
            deep = (DEEP * SIDE // max(SIDE, count) if on_matrices else gpu_tiles.DEPTH) // self.shallow
            name = found.accumulator.name
            self.blocks.append(gpu_tiles.through_shared(plan, name, depth, threads, [*own, *beside], staged, deep, on_matrices))
            plan.tried("onto", name)


def _apart(axes: Sequence[str], digits: Sequence[Digit]) -> tuple[list[str], list[str]]:
    """Those of threads, and those of what each has."""
    both = list(zip(axes, digits, strict=True))
    return [a for a, d in both if d.threads], [a for a, d in both if not d.threads]


def _nest(loop: Loop) -> list[str]:
    """Parallel loops, each of which holds the next alone."""
    return [loop.axis, *(x.axis for x in perfect(loop.body, lambda x: x.kind == "parallel")[0])]
