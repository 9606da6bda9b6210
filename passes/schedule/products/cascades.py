"""The plan for a serial loop over tiles, inside rows, that holds contractions: many rows share each tile.

    for p in tiles, for batch (workshare)        pack what the contractions read along their columns, for all rows: panels, shared
    for batch and row blocks (workshare)
      pack what moves with the rows alone        once a block, one panel a thread
      for rows: start the states
      for p in tiles
        for rows, columns: a contraction         register tiles, as in `contractions.py`
        for rows: what is left of a tile         vectors along the tile or along the rows, folded for a register tile's rows side by side
        …
      for rows: the results

Loops over *planes*, as those of heads that are mixed (`planes.py`), stay outside of the rows of a block: `for p in tiles: for planes: for rows, columns: a contraction`; panels are packed for each of them.

A row that is computed alone streams everything that it reads from memory or from the second cache; a block of rows reads each panel once.  Nothing here knows what the loops
compute: it is the layout of FlashAttention-2 (Dao, 2023) that comes out where they are those of attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

from ....ir.expr import ZERO, Expr, product, var
from ....ir.instructions import MOST_TILES, ROUGH_EXP, SIDE, Dot, Tile
from ....ir.kernel import Alloc, If, Let, Loop, Store, statements
from ....ir.record import changing, replace
from ....ir.walks import postorder
from ...costs import operation
from .. import roles
from ..cost import DIRECT_ROWS, SCREENED, Blocking, blocking, lanes
from ..plan import Plan
from ..roles import Contraction
from ..rows.columns_inside import columns_inside
from ..rows.side_by_side import summed
from ..rows.vectors import vectors_along, vectors_inside
from ..steps.chains import LONG
from ..steps.distribute import parts_of
from ..tree import StepError, all_loops, find, loads_in, local_buffers, touched
from . import contractions
from .few_on_tiles import few_on_tiles
from .left_over import Part, by_width, row_of
from .tiles import RegisterTile

# Register tiles of a row block: a panel of columns is read once for each of them.  (Golden Cove, 14 rows each, 8·1024²·64: 2 take 0.95 of the time of 4, whose scores leave the first cache.)
ROW_TILES = 4
LEAST_ROW_TILES = 2
PLANE_ROWS = 12  # of a block at least, where a tile is of several planes


def cascade(plan: Plan) -> bool:
    """Schedule such a kernel; False (and an unchanged plan) where it is none."""
    parts = shared(plan)
    if parts is None:
        return False
    along, nests, rows = parts
    batch = plan.ordered(*rows)
    found = Cascade(plan, along, nests, batch, rows, blocking(plan.target, nests[0].accumulator.dtype))
    if plan.alone:
        on_vectors, on_tiles = zip(*(contractions.instructions(plan, n) for n in nests), strict=True)
        for instructions in (list(on_tiles), list(on_vectors)):
            if any(instructions):
                with plan.attempt(f"without {', '.join(d.name for d in instructions if d)}"):
                    replace(found, instructions=instructions, tiles=[]).run()
                    return True
        found.run()
    else:
        with plan.attempt("without tiles"):
            if few_on_tiles(found):
                return True
        found.few()
    return True


def shared(plan: Plan) -> tuple[str, list[Contraction], tuple[str, ...]] | None:
    """The loop over tiles of such a kernel, the contractions in it, and the rows that share a tile; None where it is none."""
    form = roles.shape(plan.kernel)
    steps = [s for s in form.body if isinstance(s, Loop) and s.kind in ("serial", "elastic")]
    if not form.chain or len(steps) != 1 or (plan.target.vector_bytes == 0 and not plan.target.gpu) or any(x.start is not ZERO for x in form.chain):
        return None
    (along,) = steps
    nests = [n for s in along.body if isinstance(s, Loop) for n in _contractions(s, plan)]
    moving = _moving(nests, plan)
    rows = _rows(form.axes, moving)
    if nests and not rows:
        rows = tuple(a for a in form.axes if a not in moving)
    return (along.axis, nests, rows) if nests and rows else None


def _contractions(loop: Loop, plan: Plan) -> list[Contraction]:
    """What is a contraction: the loop, or in a loop over *planes*, such as heads that are mixed, those of each plane."""
    found = contraction_of(loop, plan)
    if found is not None:
        return [found]
    if loop.kind != "parallel" or loop.start is not ZERO:
        return []
    inside = [n for s in loop.body if isinstance(s, Loop) and (n := contraction_of(s, plan)) is not None]
    return [n._replace(batch=(loop.axis,)) for n in inside]


def sums_inside(loop: Loop) -> bool:
    """Whether a loop holds a reduction for each of its positions."""
    return loop.kind == "parallel" and any(isinstance(s, Loop) and s.kind == "reduce" for s in loop.body)


def rows_of(plan: Plan) -> Expr | None:
    """How many rows share each tile of such a kernel, where that is a matter of its sizes."""
    found = shared(plan)
    if found is None:
        return None
    rows = product([plan.loop(a).stop for a in found[2]])
    return rows if rows.names <= plan.facts.sizes.keys() else None


def contraction_of(loop: Loop, plan: Plan) -> Contraction | None:
    """A loop over columns, each with a scalar reduction: its roles, as far as they can be told without the rows."""
    reduced = [s for s in loop.body if isinstance(s, Loop)]
    allocs = [s.buffer for s in loop.body if isinstance(s, Alloc)]
    if loop.kind != "parallel" or len(reduced) != 1 or len(allocs) != 1 or allocs[0].shape or reduced[0].kind != "reduce":
        return None
    inner = reduced[0]
    if any(isinstance(s, Loop) for s in inner.body):
        return None
    stores = [s for s in loop.body if isinstance(s, Store) and s.buffer != allocs[0].name]
    loads = [n for s in inner.body for n in loads_in(*s.expressions()) if n.attr != allocs[0].name]
    column = tuple(dict.fromkeys(n.attr for n in loads if loop.axis in n.names and n.attr in plan.facts.buffers))
    row = tuple(dict.fromkeys(n.attr for n in loads if loop.axis not in n.names))
    if len(stores) != 1 or not column or not row:
        return None
    return Contraction((), (), loop.axis, (inner.axis,), row, column, allocs[0], stores[0].buffer)


def _moving(nests: list[Contraction], plan: Plan) -> set[str]:
    """The axes that column operands move with."""
    columns = {(n.column, b) for n in nests for b in n.column_operands}
    used: set[str] = set()
    for s in statements(plan.kernel.body):
        for n in loads_in(*s.expressions()):
            if any(b == n.attr and axis in n.names for axis, b in columns):
                used |= n.names
    return used


def _rows(chain: tuple[str, ...], moving: set[str]) -> tuple[str, ...]:
    """The innermost kept axes that no column operand moves with: all of these rows read the same columns."""
    rows: list[str] = []
    for axis in reversed(chain):
        if axis in moving:
            break
        rows.insert(0, axis)
    return tuple(rows)


def _dear(row: Loop) -> list[str]:
    """Where a loop over rows stores one value a row that takes a function which, for a single number, is a call."""
    stores = [s for s in row.body if isinstance(s, Store) and not s.combiner and s.index == (var(row.axis),)]
    return [s.buffer for s in stores if any(operation(n.op) >= LONG for n in postorder(s.value))]


def rough(plan: Plan) -> None:
    """What is rounded for the instructions is computed to as many digits."""
    if ROUGH_EXP.name in plan.target.instructions:
        for x in roles.innermost(plan.kernel.body):
            if not plan.tried("rough", x.axis):
                plan.note(f"exponentials of `{x.axis}` have the digits that are left of them")


def distribute(plan: Plan, axis: str, around: tuple[str, ...]) -> None:
    """Fission around some loops; what several parts use is kept for every row."""
    body = find(plan.kernel, axis).body
    bare = tuple(s for s in body if not isinstance(s, Alloc))
    parts = parts_of(bare, around)
    for s in body:
        if isinstance(s, Alloc) and sum(s.buffer.name in touched(part) for part in parts) > 1:
            plan.do("expand", s.buffer.name, axis)
    if len(parts) > 1:
        plan.do("fission", axis, around=",".join(around))
    elif isinstance(body[0], Let) and isinstance(body[-1], Loop):
        plan.do("sink", body[-1].axis)


FEW_ROWS = 8  # of a block where there are few: their states stay in the first cache, beside what they read of a tile


@changing
class Cascade:
    plan: Plan
    along: str  # the serial loop over tiles
    nests: list[Contraction]
    batch_axes: tuple[str, ...]
    row_axes: tuple[str, ...]
    block: Blocking
    tiles: list[RegisterTile] = field(default_factory=list)
    instructions: Sequence[Dot | Tile | None] = ()  # what multiplies, for each of the nests
    rows: int = 0  # of a register tile

    def few(self) -> None:
        """Few rows: nothing is packed for them; a block works off a tile row by row, while the tile is in the near caches, as vectors."""
        plan = self.plan
        for name in local_buffers(plan.kernel):
            plan.tried("unrounded", name)
        self.order_rows()
        row = plan.collapsed(self.row_axes)
        plan.do("split", row, min(FEW_ROWS, plan.extent(row) or FEW_ROWS))
        self.block_rows(f"{row}.1")
        vectors_inside(plan)
        plan.shared((*self.batch_axes, f"{row}.0"))
        (work,) = roles.shape(plan.kernel).axes
        plan.do("parallel", work)
        plan.tried("region", work)  # states of a block are allocated once a thread
        plan.note(f"blocks of {FEW_ROWS} rows share each tile along `{self.along}`, in the caches")

    def run(self) -> None:
        plan = self.plan
        self.order_rows()
        uneven = self.uneven()
        batch, row = self.plan.collapsed(self.batch_axes), self.plan.collapsed(self.row_axes)
        height = plan.extent(row)
        instructions = self.instructions or [None] * len(self.nests)
        if any(isinstance(i, Dot) and i.least for i in instructions):
            self.block = blocking(plan.target, self.nests[0].accumulator.dtype, SCREENED)
        most = self.block.rows
        if on_tiles := any(isinstance(t, Tile) for t in instructions):
            most = MOST_TILES * SIDE
            if height is not None and height < most:
                raise StepError(f"{height} rows are few for tiles")
        self.rows = rows = most if height is None else max(1, min(most, height))
        row_tiles = self.row_tiles(rows)
        plan.do("split", row, rows * row_tiles, tail="pad")
        self.block_rows(f"{row}.1")
        parts = [p for nest, i in zip(self.nests, instructions, strict=True) for p in by_width(plan, nest, i, self.block.columns)]
        self.nests, instructions = [p.nest for p in parts], [p.instruction for p in parts]
        for part in parts:
            self.tile(part, DIRECT_ROWS if on_tiles and not isinstance(part.instruction, Tile) else rows)
        outer = (batch, self.along) if batch else (self.along,)
        for t, nest in zip(self.tiles, self.nests, strict=True):
            t.stage_columns(nest.column_operands, (*nest.batch, *outer))
        for t, instruction in zip(self.tiles, instructions, strict=True):
            if isinstance(instruction, Tile):
                t.cut(SIDE)
        work = self.plan.collapsed((batch, f"{row}.0")) if batch else f"{row}.0"
        for t, nest, instruction in zip(self.tiles, self.nests, instructions, strict=True):
            t.stage_rows(tuple(b for b in nest.row_operands if b in plan.facts.buffers), f"{t.row}.0", work, outer=nest.batch)
            if instruction is not None and not t.lies():  # words of what is kept for a tile
                t.stage_rows(tuple(b for b in nest.row_operands if b not in plan.facts.buffers), f"{t.row}.0", self.along)
        for t, instruction in zip(self.tiles, instructions, strict=True):
            if instruction is not None:
                dot = instruction.dot if isinstance(instruction, Tile) else instruction
                if dot.least:
                    contractions.screened(plan, t.depth)
                if isinstance(instruction, Tile):
                    t.tensorize(instruction.name)
                plan.note(f"{dot.neighbours} neighbours along `{t.depth}` are multiplied by one {instruction.name}")
        for t, instruction in zip(self.tiles, instructions, strict=True):
            t.finish()
            if t.piece:
                plan.tried("leave", t.accumulator)
            if not isinstance(instruction, Tile):
                t.ahead(f"{t.row}.0", f"{t.column}.0")
        self.rest()
        plan.do("region", queue=work if uneven and not on_tiles else "")
        if uneven and not on_tiles:
            plan.note(f"not all rows go through as many tiles along `{self.along}`: each block is for the next thread that is free")
        plan.note(
            f"blocks of {rows * row_tiles} rows share each tile along `{self.along}`; register tiles of {rows}×{self.block.columns}, panels of columns packed once for all rows"
        )

    def uneven(self) -> bool:
        """Whether rows differ in how many tiles they go through: one end of the loop moves with them.  Where both do, they go through as many."""
        loop = find(self.plan.kernel, self.along)
        return sum(not e.names.isdisjoint(self.row_axes) for e in (loop.start, loop.stop)) == 1

    def row_tiles(self, rows: int) -> int:
        """Register tiles of a row block: what is kept of a tile for its rows stays in the first cache, beside a panel of columns."""
        allocs = [s.buffer for s in statements(find(self.plan.kernel, self.along).body) if isinstance(s, Alloc)]
        kept = sum(b.dtype.bytes * math.prod(int(e.attr) for e in b.shape) for b in allocs if b.shape and all(e.is_const for e in b.shape))
        least = LEAST_ROW_TILES if not self.planes() else -(-PLANE_ROWS // rows)  # what is kept of those is in the second cache
        return max(least, min(ROW_TILES, self.plan.target.l1 * 2 // 3 // max(1, rows * kept)))

    def order_rows(self) -> None:
        """Rows that decide which tiles are worked off go outside of the others: in a block they are neighbours, and so are the ends of their tiles."""
        bounds = {n for x in all_loops(self.plan.kernel) if x.axis == self.along for n in x.start.names | x.stop.names}
        order = tuple(sorted(self.row_axes, key=lambda a: a not in bounds))
        if order != self.row_axes and not self.plan.tried("reorder", *self.batch_axes, *order):
            self.row_axes = order

    def block_rows(self, row: str) -> None:
        """The loop over the rows of a block goes inside the loop over tiles, and around each contraction of it and what stands between them."""
        plan = self.plan
        distribute(self.plan, row, (self.along,))
        inner = self.outside(self.along)
        plan.do("reorder", self.along, inner)
        planes = self.planes()
        distribute(self.plan, inner, (*planes, *(n.column for n in self.nests if not n.batch)))
        for plane in planes:
            inner = self.outside(plane)
            plan.do("reorder", plane, inner)
            mixes = tuple(s.axis for s in plan.loop(inner).body if isinstance(s, Loop) and sums_inside(s))
            distribute(self.plan, inner, mixes)
        for x in all_loops(plan.kernel):
            dear = _dear(x) if x.kind == "parallel" else []
            for s in x.body if dear and planes else ():
                if isinstance(s, Alloc) and s.buffer.shape:  # what a row keeps of a tile is used before and after
                    plan.do("expand", s.buffer.name, x.axis)
            if dear and not plan.tried("fission", x.axis, stores=",".join(dear)):
                plan.note(f"{', '.join(dear)}: one value a row, computed for all rows of a block by vectors")

    def planes(self) -> tuple[str, ...]:
        """The loops inside that over tiles around contractions of all rows, one for each of their positions."""
        return tuple(dict.fromkeys(p for n in self.nests for p in n.batch))

    def outside(self, axis: str) -> str:
        """The loop that holds this one alone."""
        for x in all_loops(self.plan.kernel):
            if len(x.body) == 1 and isinstance(x.body[0], Loop) and x.body[0].axis == axis:
                return x.axis
        raise StepError(f"`{axis}` stands beside others in a loop")

    def tile(self, part: Part, rows: int) -> None:
        """Register tiles for one contraction: [row, column] → [row.0, column.0, row.1, column.1]."""
        plan, nest, instruction = self.plan, part.nest, part.instruction
        column = nest.column
        row = row_of(plan, nest)
        plan.do("split", row, rows, tail="perfect")
        if part.columns:
            plan.do("split", column, part.columns, tail="pad", aligned=1 if self.along in plan.loop(column).start.names else "")
        tiles = (f"{column}.0", f"{row}.0")  # a panel of columns serves all rows of the block at once
        plan.do("reorder", *(tiles[::-1] if isinstance(instruction, Tile) else tiles), f"{row}.1", f"{column}.1")
        dot = instruction.dot if isinstance(instruction, Tile) else instruction
        if dot is not None:
            plan.do("dot", nest.reduced[0], dot.name, multiple=SIDE if isinstance(instruction, Tile) else "")
        t = RegisterTile(plan, nest.accumulator.name, row, column, nest.reduced[0], dot is not None, dot is not None and dot.least > 0)
        t.accumulate()
        self.tiles.append(t)

    def folded(self) -> None:
        """What a row keeps of a tile is folded for rows of a register tile side by side: as many as a vector has lanes, or more than half as many."""
        plan = self.plan
        for x in all_loops(plan.kernel):
            reduced = [s for s in x.body if isinstance(s, Loop)]
            if x.kind != "parallel" or len(reduced) != 1 or reduced[0].kind != "reduce" or any(isinstance(s, Loop) for s in reduced[0].body):
                continue
            (r,) = reduced
            width = lanes(plan.target, roles.widest(r.body))
            group = next((n for n in range(width, width // 2, -1) if self.rows % n == 0), 0)
            if not group:
                continue
            with plan.attempt(f"`{r.axis}` for one `{x.axis}` after the other"):
                plan.do("split", x.axis, group, tail="perfect")
                summed(plan, (f"{x.axis}.1",), r.axis, width)
                plan.note(f"`{r.axis}` for {group} of `{x.axis}` side by side, folded together")

    def rest(self) -> None:
        """Vectors for what is no contraction; what a row keeps of a tile is added up while it is made."""
        plan = self.plan
        for x in all_loops(plan.kernel):
            loops = [s for s in x.body if isinstance(s, Loop)]
            for a, b in pairwise(loops):
                saved = plan.kernel
                if b.kind != "reduce" or plan.tried("join", a.axis, b.axis):
                    continue
                one = plan.kernel
                if plan.tried("split", b.axis, lanes(plan.target, roles.widest(b.body)), tail="perfect"):
                    plan.kernel = saved  # a reduction that stores too cannot be padded
                else:
                    plan.kernel = one
                    plan.note(f"`{b.axis}` adds up what `{a.axis}` keeps, in one loop")
        rough(plan)
        for x in roles.innermost(plan.kernel.body) if self.planes() else ():
            columns_inside(plan, x)
        self.folded()
        for x in roles.innermost(plan.kernel.body):
            if x.kind not in ("parallel", "reduce") or not plan.has(x.axis):
                continue
            guarded = isinstance(x.body[0], If)
            if guarded:
                for o in all_loops(plan.kernel):
                    if len(o.body) > 1 and any(s is x for s in o.body):  # another result is stored beside it
                        plan.tried("fission", o.axis, around=x.axis)
                x = find(plan.kernel, x.axis)
                outer = [o.axis for o in all_loops(plan.kernel) if len(o.body) == 1 and o.body[0] is x]
                earlier = plan.kernel
                plan.tried("interior", *outer, x.axis)
                added = plan.added(earlier)
                for border in [y for y in roles.innermost(plan.kernel.body) if y.axis in added]:
                    vectors_along(plan, border)
                x = find(plan.kernel, x.axis)
            vectors_along(plan, x)
