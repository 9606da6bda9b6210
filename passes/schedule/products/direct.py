"""The plans for contractions that read their operands where they lie, without packing and without memory of their own.

*Direct*: the column operand stays in the caches, and is read again for each of not too many tiles of rows.

    for batch, outer rows, row.0 parallel
      for column.0
        acc[rows, columns] in registers
      for the reduction
        acc[row.1, column.1] add= A[row, p] · B[p, column]      the last rows are computed again, of the last columns only the first lanes are read
        C[row, column] = …                                       only what is inside

Nothing is copied, so nothing has to be amortised: small sizes run at the speed of large ones.  Where there are registers for a wide tile, there are several such nests inside the loop over row.0: whole
tiles of columns, and one for what is left over, of as many vectors as that takes: what is computed in vain is less than one (48³ 1.18, 100³ 1.05 × as fast as with narrow tiles alone).  Four vectors side by
side are loaded for few rows, three for more of them.  A single vector that these leave over takes more than half as long as two (`_Shape`): where the number of columns is free, there are tiles of four for such sizes.
Rows that whole tiles leave over are a tile of their own where they are few (`_by_rows`), so that few are computed again behind the last.

*Streamed*: there are few rows, so the column operand is read from memory about once, and that is what takes the time: it is read in the order in which it lies.

    for batch, column.0.0 parallel                                  blocks of columns
      for row.0
        acc[rows, column tiles, columns] in the first cache
        for reduction.0
          for column.0.1, row.1
            acc[…] += A[row, p] · B[p, column] for the 8 p of reduction.1

Elsewhere, and where vectors of the column operand are not consecutive in memory, panels have to be packed (`contractions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, const, mod, product, size
from ....ir.kernel import Alloc, Store, statements
from ....ir.record import changing
from ....ir.simplify import assuming, simplify
from ....ir.walks import postorder
from ... import costs
from .. import roles
from ..affine import stride
from ..cost import (
    BEYOND,
    COLUMN_PANELS,
    DIRECT_ROWS,
    FEW,
    FEW_LEFT,
    OWN_ROWS,
    SHALLOW,
    SINGLE_AMONG,
    STREAM_DEPTH,
    STREAM_TILES,
    STRIP_DEPTH,
    UNPACKED,
    VECTORS,
    Blocking,
    InPlace,
    first_lanes,
    panels_ahead,
)
from ..plan import Plan
from ..roles import Contraction
from ..tree import StepError, all_loops, loads_in
from .tiles import RegisterTile


def direct(plan: Plan, found: Contraction, block: Blocking, few: InPlace = FEW) -> Expr | None:
    """Schedule a contraction whose column operand stays in the second cache: the condition on the sizes; None (and an unchanged plan) where it never does.

    `few`: what is too little to be packed."""
    reason = f"the column operand stays in the second cache ({plan.target.l2 >> 10} KiB), or near it for the few rows that use it: register tile {block.direct_rows}×{block.columns}, nothing packed"
    return tried_where(plan, simplify(_fits(plan, found, block, few), plan.facts.known), reason, lambda: tiles(plan, found, block))


def more_rows(plan: Plan, found: Contraction, block: Blocking, few: InPlace = FEW) -> Expr | None:
    """The same where tiles with a vector less and more rows leave no single vector over, and how many columns there are is known at run time."""
    if not block.wide_columns or plan.extent(found.column) is not None:
        return None
    narrow = _shapes(plan, block)[1]
    if narrow is None:
        return None
    many = const(SINGLE_AMONG * narrow.whole[0]).le(plan.loop(found.column).stop)
    condition = simplify(
        call("bit_and", call("bit_or", many, _comes_out(plan, found.column, narrow)), _fits(plan, found, block, few)), plan.facts.known
    )
    reason = f"register tiles {narrow.rows}×{narrow.whole[0]} leave no single vector over, which would be multiplied as slowly as two, or are many"
    return tried_where(plan, condition, reason, lambda: tiles(plan, found, block, shape=narrow))


def shallow(plan: Plan, found: Contraction, block: Blocking) -> Expr | None:
    """Schedule a contraction of so short a reduction that a copy of the operands is as much work as the product, and not little of it: the condition on the sizes; None (and an unchanged plan) where it never holds."""
    short = product(plan.loop(axis).stop for axis in found.reduced).le(const(SHALLOW))
    several = const(plan.target.lanes(found.accumulator.dtype)).lt(
        plan.loop(found.column).stop
    )  # vectors of columns: of one, these tiles would be half empty
    condition = simplify(both(short, several, _unpacked(plan, found).lt(_work(plan, found))) or TRUE, plan.facts.known)
    reason = f"the reduction is short, a copy of the operands would be as much work: register tile {block.direct_rows}×{block.columns}, nothing packed, threads share rows and columns"
    return tried_where(plan, condition, reason, lambda: tiles(plan, found, block, columns=block.columns, both_ways=True))


def _length(plan: Plan, found: Contraction) -> Expr:
    """Elements of the column operand."""
    return product(plan.loop(axis).stop for axis in (*found.reduced, found.column))


def _near(plan: Plan, found: Contraction, few: InPlace) -> int:
    """How many of them stay in the second cache, beside what else goes through it."""
    return min(plan.target.l2 * 3 // 4 // found.accumulator.dtype.bytes, few.elements)


def far(plan: Plan, found: Contraction) -> Expr:
    """Whether the column operand of floats does not stay in the second cache."""
    return const(_near(plan, found, FEW)).lt(_length(plan, found))


def _fits(plan: Plan, found: Contraction, block: Blocking, few: InPlace) -> Expr:
    """The column operand stays in the second cache, or in a few times that and there are not many rows, but enough for all threads.  Where the last cache is far: it stays in the second one, and too little is done with it to pay
    for a copy, or with each of its elements, or one vector holds all columns, of which panels would be half empty."""
    target, dtype = plan.target, found.accumulator.dtype
    length, rows, columns = _length(plan, found), plan.loop(found.rows[-1]).stop, plan.loop(found.column).stop
    most, beyond = _near(plan, found, few), min(target.l2 * BEYOND // dtype.bytes, few.elements) if block.wide_columns else 0
    near = length.le(const(most))
    if panels_ahead(target):
        short = product(plan.loop(axis).stop for axis in found.reduced).lt(const(STRIP_DEPTH))
        return (
            both(near, call("bit_or", call("bit_or", short, columns.le(const(target.lanes(dtype)))), _work(plan, found).le(_unpacked(plan, found))))
            or TRUE
        )
    limits = ((const(DIRECT_ROWS * target.cores), rows), (rows, const(OWN_ROWS)), (length, const(beyond)))
    near = near if beyond <= most else call("bit_or", near, both(*(a.le(b) for a, b in limits)) or TRUE)
    if not block.wide_columns:  # a copy of the rows serves few panels, and deep ones do not stay in the first cache
        twice = min(2 * target.l2 // dtype.bytes, few.elements)
        near = call("bit_or", near, both(length.le(const(twice)), columns.le(const(COLUMN_PANELS * block.columns))) or TRUE)
    return near if not few.rows else both(near, call("bit_or", rows.le(const(few.rows)), _work(plan, found).le(const(few.work)))) or TRUE


def _work(plan: Plan, found: Contraction) -> Expr:
    return product(plan.loop(axis).stop for axis in (*found.reduced, found.column, *found.rows))


def _unpacked(plan: Plan, found: Contraction) -> Expr:
    return const(UNPACKED * plan.target.lanes(found.accumulator.dtype))


def streamed(plan: Plan, found: Contraction, block: Blocking, few: InPlace = FEW, most: int = 0) -> Expr | None:
    """Schedule a contraction of few rows, or of so few that a tile of `direct` would be half empty: the condition on the sizes; None (and an unchanged plan) where it is never worth it.  `few` as for `direct`; `most` rows, if not 0."""
    if len(found.rows) != 1 or len(found.reduced) != 1:
        return None
    rows, far = plan.loop(found.rows[0]).stop, const(_near(plan, found, few)).lt(_length(plan, found))
    condition = call("bit_and", rows.le(const(few.tiles * block.direct_rows)), call("bit_or", rows.le(const(block.direct_rows * 2 // 3)), far))
    condition = simplify(rows.le(const(most)) if most else condition, plan.facts.known)
    reason = "few rows: the column operand is read once, as it lies, in blocks of columns whose sums stay in the first cache"
    return tried_where(plan, condition, reason, lambda: _stream(plan, found, block))


def tried_where(plan: Plan, condition: Expr, reason: str, steps: Callable[[], None]) -> Expr | None:
    """Take some steps for the sizes of a condition: the condition; None (and an unchanged plan) where it holds of nothing but empty tensors, or a step refuses."""
    filled = both(*(ONE.le(size(name)) for name in plan.facts.sizes)) or TRUE
    if simplify(condition, assuming(plan.facts.known, filled)) is FALSE or is_idle(plan, condition):
        return None
    with plan.attempt(f"not where `{condition}` alone") as attempt:
        steps()
    if attempt.refused:
        return None
    plan.note(f"where `{condition}`, {reason}")
    return condition


def is_idle(plan: Plan, condition: Expr) -> bool:
    """Whether a kernel has nothing to do where a condition holds: what the sizes choose another way for is as long as `where(c, n, 0)`."""
    lengths = dict.fromkeys(x.stop for x in all_loops(plan.kernel.body) if x.start is ZERO and x.stop.op == "where")
    chosen = [e.args[0] for e in lengths if e.args[2] is ZERO and e.args[0].names <= plan.facts.sizes.keys()]
    return any(simplify(both(c, condition) or TRUE, plan.facts.known) is FALSE for c in chosen)


def in_place(plan: Plan, found: Contraction) -> bool:
    """Whether vectors along the column are consecutive in memory wherever they are read and stored, and nothing dear is computed on the way to a product."""
    nest = plan.loop(found.reduced[0])
    column = found.column
    for s in statements((nest,)):
        for e in s.expressions():
            if any(costs.operation(n.op) > 1 for n in postorder(e) if n.op != "load" and not n.dtype.is_integer):
                return False
            if any(
                column in n.names and stride(simplify(plan.facts.buffers[n.attr].address(n.args), plan.facts.known), column) != 1
                for n in loads_in(e)
                if n.attr in plan.facts.buffers
            ):
                return False
    stores = [s for s in statements(plan.kernel.body) if isinstance(s, Store) and s.buffer == found.output]
    return all(stride(plan.facts.buffers[s.buffer].address(s.index), column) == 1 for s in stores)


class _Shape(NamedTuple):
    """A register tile where there are registers for a wide one: its rows, the columns of whole tiles, widest first, and those of the one tile for what is left over, narrowest first; and the same of a tile of a few rows (none: there is none such)."""

    rows: int
    whole: tuple[int, ...]
    rest: tuple[int, ...]
    few: tuple[int, ...] = ()


def _shapes(plan: Plan, block: Blocking) -> tuple[_Shape, _Shape | None]:
    """The wide tile, and where first lanes are loaded by one instruction the one with a vector less and more rows."""
    lanes = block.columns // VECTORS
    if not first_lanes(plan.target):
        return _Shape(block.wide_rows, (block.wide_columns, block.columns), (lanes, block.columns)), None
    vectors = block.wide_columns // lanes
    rows = min(block.direct_rows, (plan.target.vector_registers - vectors) // (vectors - 1))
    wide, narrow = (tuple(k * lanes for k in range(1, most + 1)) for most in (vectors, vectors - 1))
    return _Shape(block.wide_rows, wide[-1:], wide, wide[-1:]), _Shape(rows, narrow[-1:], narrow, (narrow[0], narrow[-1]))


def _comes_out(plan: Plan, column: str, shape: _Shape) -> Expr:
    """Whether whole tiles leave nothing over, or more than one vector; or there is no more than one."""
    columns, width, lanes = plan.loop(column).stop, shape.whole[0], shape.rest[0]
    return call("bit_or", columns.le(const(lanes)), const(lanes).le(mod(columns + (width - 1), const(width))))


def tiles(
    plan: Plan, found: Contraction, block: Blocking, clamps: bool = False, shape: _Shape | None = None, columns: int = 0, both_ways: bool = False
) -> None:
    """Register tiles of operands that are read where they lie.  StepError.

    `clamps`: tiles that are whole have code of their own, which keeps no row from running over the end.  `shape`: of the tiles, where the sizes are to decide that.
    `columns`: of tiles that are all of one width.  `both_ways`: threads share columns too."""
    plan.ordered(*found.rows, found.column)
    row, column, outer = found.rows[-1], found.column, (*found.batch, *found.rows[:-1])
    height, width = plan.extent(row), plan.extent(column)
    guarded = [b for b in found.column_operands if _is_guarded(plan, b, column)]
    nest = _Nest(plan, found.accumulator.name, found.reduced, f"{row}.1", column)
    if not columns and block.wide_columns and not guarded and (width is None or width > block.columns):
        wide, narrow = _shapes(plan, block)
        if shape is None:
            shape = (
                narrow if narrow is not None and width is not None and simplify(_comes_out(plan, column, narrow), plan.facts.known) is TRUE else wide
            )
        _by_rows(nest, shape, guarded, clamps)
    elif shape is not None:
        raise StepError("no tile of columns is wide")
    else:
        most = columns or block.columns
        plan.do("split", column, most if width is None or width > most // 2 else most // 2, tail="pad")
        plan.do("split", row, block.direct_rows if height is None else max(1, min(block.direct_rows, height)), tail="clamp")
        if columns:
            nest.whole_apart(guarded, rows_alone=not both_ways)
        else:
            nest.tile(guarded, clamps)
    plan.do("parallel", plan.collapsed((*outer, f"{row}.0", *((f"{column}.0",) if both_ways else ()))))


def _by_rows(nest: _Nest, shape: _Shape, guarded: list[str], clamps: bool) -> None:
    """Tiles of rows, and one of a few where no more are left over."""
    plan, inner = nest.plan, nest.row
    row, few = inner.removesuffix(".1"), FEW_LEFT
    height = plan.extent(row)
    if clamps or not shape.few or shape.rows <= few or (height is not None and not 0 < height % shape.rows <= few < height):
        plan.do("split", row, shape.rows if height is None else max(1, min(shape.rows, height)), tail="clamp")
        return _by_widths(nest, shape, guarded, clamps)
    plan.do("split", row, shape.rows)
    plan.do("short", inner, few)
    left = _Nest.of(plan, f"{inner}.s", f"{nest.column}.s")
    for part, rows in ((left, few), (nest, shape.rows)):
        plan.do("split", part.row, rows, tail="clamp")
        part.row = f"{part.row}.1"
    _rest(left, shape.few, guarded, clamps)
    return _by_widths(nest, shape, guarded, clamps)


def _by_widths(nest: _Nest, shape: _Shape, guarded: list[str], clamps: bool) -> None:
    """Whole tiles of columns, each width of what the one before has left over, and the narrowest that holds the rest; all of the same rows, so that one loop is shared by threads."""
    plan, length = nest.plan, nest.plan.extent(nest.column)
    if not shape.whole:
        return _rest(nest, shape.rest, guarded, clamps)
    width, narrower = shape.whole[0], shape._replace(whole=shape.whole[1:])
    if length is not None and length < width:
        return _by_widths(nest, narrower, guarded, clamps)
    if length is not None and length % width == 0:
        plan.do("split", nest.column, width)
        return nest.tile(guarded, clamps, border=True)
    plan.do("split", nest.column, width, tail="cut")
    before = plan.kernel
    plan.do("fission", nest.row)
    (second,) = plan.added(before)
    others = _Nest.of(plan, second, f"{nest.column}.t")
    nest.tile(guarded, clamps)
    return _by_widths(others, narrower, guarded, clamps)


def _rest(nest: _Nest, widths: tuple[int, ...], guarded: list[str], clamps: bool) -> None:
    """One tile, as narrow as it may be."""
    plan, length = nest.plan, nest.plan.extent(nest.column)
    nests: list[tuple[_Nest, int]] = []
    for width in widths[:-1] if length is None else ():
        before = plan.kernel
        plan.do("short", nest.column, width)
        few = plan.added(before)[0]
        before = plan.kernel
        plan.do("unswitch", nest.row)
        (other,) = (x for x in plan.added(before) if x != nest.row)
        nests.append((_Nest.of(plan, nest.row, few), width))
        nest = _Nest.of(plan, other, nest.column)
    nests.append((nest, widths[-1] if length is None else next((w for w in widths if length <= w), widths[-1])))
    for part, width in nests:
        plan.do("split", part.column, width, tail="pad")
        part.tile(guarded, clamps, border=True)


@changing
class _Nest:
    """One nest of tiles; `column` is split already, `row` is the part of the rows that is inside a tile."""

    plan: Plan
    accumulator: str
    reduced: tuple[str, ...]
    row: str
    column: str

    @staticmethod
    def of(plan: Plan, row: str, column: str) -> _Nest:
        """The nest inside of a loop over columns that a step has made: its names are those of copies."""
        body = plan.loop(column).body
        (accumulator,) = (s.buffer.name for s in body if isinstance(s, Alloc))
        return _Nest(plan, accumulator, tuple(x.axis for x in all_loops(body) if x.kind == "reduce"), row, column)

    def tile(self, guarded: list[str], clamps: bool, border: bool = False) -> None:
        self.plan.do("reorder", f"{self.column}.0", self.row, f"{self.column}.1")
        self.in_registers(f"{self.column}.1", guarded, clamps, border)

    def whole_apart(self, guarded: list[str], *, rows_alone: bool) -> None:
        """The same, tiles of whole rows (and, without `rows_alone`, whole columns) by code of their own: their rows are neither asked for nor kept from running over the end."""
        plan, row, outer, inner = self.plan, self.row, f"{self.column}.0", f"{self.column}.1"
        plan.do("reorder", outer, row, inner)
        axes = (outer, row) if rows_alone else (row, inner)
        before = plan.kernel
        if not plan.tried("interior", *axes, clamps=1, guards=1):
            copied = plan.added(before)[1 if rows_alone else 0 :]
            _Nest.of(plan, copied[0], copied[1]).in_registers(copied[1], guarded, clamps=False, border=True)
        self.in_registers(inner, guarded, clamps=False, border=True)

    def in_registers(self, column: str, guarded: list[str], clamps: bool, border: bool) -> None:
        """The tile in whose rows the loop over a vector's columns stands."""
        plan, row = self.plan, self.row
        plan.do("expand", self.accumulator, row, column)
        plan.do("fission", row, column)
        tile = RegisterTile(plan, self.accumulator, row, column, self.reduced[0])
        r, c = plan.summing(self.accumulator, self.reduced[0], 2)
        plan.do("reorder", *self.reduced, r, c)
        for depth in self.reduced:
            plan.tried("confine", depth)
        tile.wanted()
        for buffer in guarded:  # what is asked of each element is asked once for all rows
            plan.do("stage", buffer, c, at=self.reduced[-1], space="register")
            plan.do("vectorize", f"{c}.s")
        if not guarded and not border:
            plan.tried("interior", *self.reduced, r, c, clamps=1 if clamps else "")
        for outermost, inner in tile.nests(self.accumulator):
            plan.do("vectorize", inner.axis)
            plan.do("unroll", outermost.axis)


def _is_guarded(plan: Plan, buffer: str, column: str) -> bool:
    """Whether the reduction reads the buffer under a condition that depends on the column."""
    nodes = postorder(*(e for s in statements((plan.loop(column),)) if isinstance(s, Store) for e in s.expressions()))
    return any(n.op == "where" and column in n.args[0].names and buffer in n.args[1].buffers for n in nodes)


def _stream(plan: Plan, found: Contraction, block: Blocking) -> None:
    row, column, acc, deep = found.rows[0], found.column, found.accumulator.name, found.reduced[0]
    plan.do("split", column, block.columns, tail="pad")
    plan.do("split", f"{column}.0", STREAM_TILES)
    plan.do("split", row, FEW.tiles * block.direct_rows)  # what streams by does so once
    tile = (f"{row}.1", f"{column}.0.1", f"{column}.1")
    plan.do("reorder", *found.batch, f"{column}.0.0", f"{row}.0", *tile)
    plan.do("expand", acc, *tile)
    plan.do("fission", *tile)
    r, t, c = plan.summing(acc, deep, 3)
    plan.do("reorder", deep, r, t, c)
    plan.do("split", deep, STREAM_DEPTH, tail="cut")
    plan.do("reorder", f"{deep}.0", t, r, f"{deep}.1", c)
    plan.tried("interior", r, f"{deep}.1", c)
    for x in roles.innermost(plan.kernel.body):
        plan.do("vectorize", x.axis)
    for x in all_loops(plan.kernel.body):
        if x.kind == "reduce" and plan.extent(x.axis) == STREAM_DEPTH:
            plan.do("unroll", x.axis)
    plan.do("parallel", plan.collapsed((*found.batch, f"{column}.0.0")))
