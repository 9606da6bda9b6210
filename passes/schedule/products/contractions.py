"""The plan for kernels with reuse in two directions: register tiles, packed panels, cache blocks, one team of threads.

    for p.0                                    blocks of the reduction; partial sums live in the output, or else in a buffer of tiles
      pack the column operand (workshare)      panels [column.0, p.1, columns], shared
      for row blocks (workshare)
        pack the row operand                   panels [tiles, p.1, rows], one a thread
        for column.0, tiles
          acc[rows, columns] in registers

The layout of the loops is that of Goto and van de Geijn (2008); which axis takes which part is read off the accesses (`roles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ....ir.expr import ONE, TRUE, Expr, both, const, product
from ....ir.instructions import SIDE, Dot, Tile
from ....ir.kernel import If, Kernel, Store, statements
from ....ir.record import changing, replace
from ....ir.simplify import simplify
from .. import roles
from ..cost import (
    DOTTED_BLOCKED,
    DOTTED_ROWS,
    DOTTED_SMALL_FLOATS,
    DOTTED_WORDS,
    EXCHANGED,
    FEW,
    FEW_OF_TILES,
    FEW_SMALL_FLOATS,
    FEW_WORDS,
    PIECE_DEPTH,
    SCREENED,
    STREAMED_TILES,
    STRIP_WORK,
    Blocking,
    blocking,
    tile_blocking,
)
from ..plan import Plan
from ..roles import Contraction
from ..steps import dots
from ..steps.skips import is_masked
from ..steps.variants import choose
from ..tree import StepError
from . import sliding
from .direct import direct, in_place, is_idle, more_rows, shallow, streamed, tried_where
from .dotted import dotted, dotted_words, in_vectors, signs, turned
from .one_position import one_position
from .own_panels import own_panels
from .straight import straightened
from .strips import strips
from .tiles import RegisterTile


def instructions(plan: Plan, found: Contraction) -> tuple[Dot | None, Tile | None]:
    """The target's instructions that multiply neighbours along the reduction of this contraction, for vectors and for tiles, as far as it has them."""
    if plan.facts.strict and found.accumulator.dtype.is_float:
        return None, None
    try:
        _, s, a, b = dots.factors(plan.kernel, found.reduced[-1])
    except StepError:
        return None, None
    rows, columns = (b, a) if found.column in a.element.names else (a, b)
    dot, tile = dots.choice(plan.target.instructions, a.dtype, b.dtype), dots.tile(plan.target.instructions, rows.dtype, columns.dtype)
    result = s.value.dtype
    return dot if dot is not None and dot.result is result else None, tile if tile is not None and tile.dot.result is result else None


def contract(plan: Plan) -> bool:
    """Schedule a contraction, or another reduction through windows; False (and an unchanged plan) where the kernel is none."""
    if plan.target.vector_bytes == 0:
        return False
    found = roles.contraction(plan.kernel, plan.facts)
    if found is not None and (not found.rows or not found.accumulator.dtype.is_float | found.accumulator.dtype.is_integer):
        found = None
    dot, tiles = (None, None) if found is None else instructions(plan, found)
    parts = _Parts(plan, plan.kernel)
    if dot is None or dot.result.is_float:
        for attempt in sliding.ATTEMPTS if sliding.through_windows(plan) else ():
            parts.add(attempt)
    if parts.found:
        parts.first(sliding.one_position)
    if found is None and not parts.found:
        return False
    if not parts.found:
        assert found is not None
        found = straightened(plan, found)
        block = blocking(plan.target, found.accumulator.dtype)
        few = FEW_OF_TILES if tiles is not None else FEW if dot is None else FEW_SMALL_FLOATS if dot.result.is_float else FEW_WORDS
        if dot is None or dot.result.is_integer:
            parts.add(lambda part: turned(part, found, dot, tiles is not None))
        if dot is None and found.batch:
            parts.add(lambda part: one_position(part, (found.column,)))
        if dot is None:
            parts.add(lambda part: strips(part, found, block))
        if in_place(plan, found):
            if dot is None:
                parts.add(lambda part: shallow(part, found, block))
            most = STREAMED_TILES if tiles is not None and tiles.dot.result.is_integer else 0
            parts.add(lambda part: streamed(part, found, block, few, most))
            parts.add(lambda part: more_rows(part, found, block, few))
            parts.add(lambda part: direct(part, found, block, few))
        if dot is not None and dot.result.is_integer:
            parts.add(lambda part: dotted_words(part, found, dot, DOTTED_WORDS if tiles is None else DOTTED_BLOCKED))
        if not in_place(plan, found):
            most = DOTTED_SMALL_FLOATS if dot is not None and dot.result.is_float else DOTTED_ROWS
            for blocks in (False, True) if dot is None else (False,):
                parts.add(lambda part, blocks=blocks: dotted(part, found, blocks, most))
        if tiles is not None and not in_place(plan, found):
            parts.add(lambda part: _exchanged(part, found))
        if dot is None:
            parts.add(lambda part: own_panels(part, found, block))
        if dot is None and len(found.reduced) > 1:
            parts.add(lambda part: _in_pieces(part, found, block))
        if not parts.complete:
            rows, columns, along = (", ".join(f"`{name}`" for name in names) for names in (found.row_operands, found.column_operands, found.rows))
            plan.note(
                f"`{found.accumulator.name}` reuses {rows} along `{found.column}` and {columns} along {along}: packed panels and a register tile"
            )
            parts.rest(lambda rest: _packed(rest, found, block, dot, tiles))
    elif not parts.complete:
        parts.rest(lambda rest: _few_columns(rest, found))
    plan.kernel = parts.chosen()
    return True


@changing
class _Parts:
    """The variants of a kernel so far; complete when one of them needs no condition."""

    plan: Plan
    kernel: Kernel  # without any of their steps
    found: list[tuple[Expr | None, Kernel]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return bool(self.found) and self.found[-1][0] is None

    def add(self, attempt: Callable[[Plan], Expr | None]) -> bool:
        """One more, if there is need for it and the attempt gives the condition under which it runs; whether there is one more."""
        if self.complete:
            return False
        part = self.plan.another()
        condition = attempt(part)
        self.plan.note(*part.notes)
        if condition is not None and not is_idle(self.plan, condition):
            self.found.append((None if condition.is_const else condition, part.kernel))
        return condition is not None

    def first(self, attempt: Callable[[Plan], Expr | None]) -> None:
        """One that comes before all others."""
        last, self.found = self.found, []
        self.add(attempt)
        self.found += last

    def rest(self, schedule: Callable[[Plan], object]) -> None:
        """The one for all other sizes."""
        part = self.plan.another()
        schedule(part)
        self.plan.note(*part.notes)
        self.found.append((None, part.kernel))

    def chosen(self) -> Kernel:
        return choose(self.kernel, self.found) if len(self.found) > 1 else self.found[0][1]


def _few_columns(plan: Plan, found: Contraction | None) -> None:
    """So little is reused that nothing is worth a copy."""
    if found is None or not in_place(plan, found) or direct(plan, found, blocking(plan.target, found.accumulator.dtype)) is None:
        from ..rows.vectors import vectors

        vectors(plan)


def _packed(plan: Plan, found: Contraction, block: Blocking, dot: Dot | None, tiles: Tile | None) -> None:
    """With the instruction on tiles where there is one, else with the one on vectors; without it where a step refuses that."""
    if tiles is not None:
        with plan.attempt(f"without {tiles.name}"):
            _Contract(plan, found, tile_blocking(plan.target), tiles.dot, tiles.name).run()
            return
    if dot is not None:
        with plan.attempt(f"without {dot.name}"):
            _Contract(plan, found, blocking(plan.target, found.accumulator.dtype, SCREENED) if dot.least else block, dot).run()
            plan.note(f"{dot.neighbours} neighbours along the reduction are multiplied by one {dot.name}")
            return
    _Contract(plan, found, block).run()


def _exchanged(plan: Plan, found: Contraction) -> Expr | None:
    """Columns that lie along the reduction as the rows of tiles, which are copied as they lie, where there are fewer rows: the condition on the sizes; None (and an unchanged plan) where it is not so, or a step refuses."""
    other = roles.contraction(plan.kernel, plan.facts, found.rows[0]) if len(found.rows) == 1 else None
    if other is None or other.batch != found.batch or other.rows != (found.column,):
        return None
    dot, tiles = instructions(plan, other)
    if dot is None or tiles is None:
        return None
    rows, columns, depth = (plan.loop(axis).stop for axis in (found.rows[0], found.column, other.reduced[-1]))
    limits = ((rows * 2, columns), (const(EXCHANGED), columns * depth))
    fewer = simplify(both(*(a.le(b) for a, b in limits)) or TRUE, plan.facts.known)
    reason = "fewer rows than columns: these lie along the reduction, and are the rows of tiles, which are copied as they lie"
    return tried_where(plan, fewer, reason, lambda: _Contract(plan, other, tile_blocking(plan.target), tiles.dot, tiles.name, exchanged=True).run())


def _in_pieces(plan: Plan, found: Contraction, block: Blocking) -> Expr | None:
    """Panels of one position of all reduced axes but the last, where these are not one: the condition on the sizes; None (and an unchanged plan) where it never holds or a step refuses."""
    *outer, depth = (plan.loop(axis).stop for axis in found.reduced)
    work = product((*(plan.loop(axis).stop for axis in (*found.rows, found.column)), depth))
    least = STRIP_WORK * plan.target.lanes(found.accumulator.dtype)  # threads wait for one another twice in each piece
    limits = ((const(PIECE_DEPTH), depth), (const(least), work), *((ONE, e) for e in outer))
    condition = both(*(simplify(a.le(b), plan.facts.known) for a, b in limits)) or TRUE
    facts, plan.facts = plan.facts, replace(plan.facts, assumed=None if condition is TRUE else condition)

    def steps() -> None:
        if condition is not TRUE:
            plan.do("decide")
        _Contract(plan, found, block, pieces=True).run()

    reason = "panels hold one position of all reduced axes but the last, and are copied as they lie"
    found_condition = tried_where(plan, condition, reason, steps)
    plan.facts = facts
    return found_condition


def screened(plan: Plan, depth: str, lanes: Sequence[str] = ()) -> None:
    """Panels with numbers that the instruction takes for zeros are multiplied without it; which these are is found when they have been packed, or (`lanes`) while they are."""
    earlier = plan.kernel
    plan.do("screen", depth, lanes=",".join(lanes))
    new = [x for x in map(plan.loop, plan.added(earlier)) if x.kind == "reduce"]
    while new:
        chain = [new.pop(0)]
        while new and chain[-1].body == (new[0],):
            chain.append(new.pop(0))
        if len(chain) > 1:
            from ..rows.vectors import vectors_inside

            vectors_inside(plan, [plan.loop(plan.collapsed([x.axis for x in chain]))])


@changing
class _Contract:
    plan: Plan
    roles: Contraction
    block: Blocking
    dot: Dot | None = None  # the instruction that multiplies
    instruction: str = ""  # the one on tiles that does so for many lanes
    pieces: bool = False  # of the reduction, for each position of its axes but the last
    exchanged: bool = False  # rows and columns have changed places: results lie along the rows
    batch: str = ""
    row: str = ""
    depth: str = ""  # the reduction axis inside a block
    homeless: str = ""  # why the output cannot hold the results between blocks
    at: str = ""  # the loop inside which panels are packed; "" is the kernel
    tiles: RegisterTile = field(init=False)
    work: str = ""  # the loop whose iterations the threads share

    def run(self) -> None:
        self.one_axis_each()
        if self.dot is not None:
            in_vectors(self.plan, signs(self.plan, self.dot, self.row, self.depth))
        self.block_reduction()
        self.tile()
        self.tiles.stage_columns(self.roles.column_operands, (self.batch,) if self.batch else (), self.at)
        self.team()
        if self.instruction:
            self.tiles.cut(SIDE)
        order = "rows" if len(self.roles.rows) > 1 else ""
        self.tiles.stage_rows(self.roles.row_operands, f"{self.row}.0.1", self.work, order)
        if self.dot is not None and self.dot.least:
            screened(self.plan, self.tiles.depth)
        if self.instruction:
            self.tiles.tensorize(self.instruction)
        if self.exchanged:
            self.across()
        self.tiles.wanted(end=1)
        self.tiles.finish()
        if not self.instruction:
            self.tiles.ahead(f"{self.row}.0.1", f"{self.roles.column}.0")
        self.plan.do("region", queue="" if self.instruction else self.work)
        self.plan.note(*self.block.reasons)

    def one_axis_each(self) -> None:
        """Order the kept axes batch, rows, column, and collapse those of one role."""
        plan, r = self.plan, self.roles
        self.batch = plan.collapsed(plan.ordered(*r.rows, r.column))
        self.row = self.plan.collapsed(r.rows)
        if self.pieces:
            *outer, self.depth = r.reduced
            self.at = plan.collapsed(outer)
        else:
            self.depth = plan.collapsed(r.reduced)

    def block_reduction(self) -> None:
        """Split the reduction where it may be longer than a block; the output holds the partial results if it can, else `tile` finds them a place."""
        plan = self.plan
        length = plan.extent(self.depth)
        depth = self.block.deep * (1 if self.dot is None else self.dot.neighbours)
        if length is None or length > depth:
            plan.do("split", self.depth, depth)
            self.at, self.depth = plan.collapsed((*((self.at,) if self.at else ()), f"{self.depth}.0")), f"{self.depth}.1"
        if not self.at:
            return
        if is_masked(plan.kernel, self.roles.accumulator.name, self.row, self.roles.column):
            self.homeless = "what a mask leaves out is not summed up, and would be read"
        else:
            self.homeless = plan.tried("accumulate", self.at, into=self.roles.output, outside=self.batch or self.row)

    def tile(self) -> None:
        plan, row, column = self.plan, self.row, self.roles.column
        height, width = plan.extent(row), plan.extent(column)
        rows = self.block.rows if height is None else max(1, min(self.block.rows, height))
        columns = self.block.columns if width is None or width > self.block.columns // 2 else self.block.columns // 2
        if self.instruction and rows < self.block.rows:
            rows = self.block.rows if rows > SIDE else SIDE
        plan.do("split", row, rows, tail="pad")
        plan.do("split", column, columns, tail="pad")
        plan.do("reorder", f"{row}.0", f"{column}.0", f"{row}.1", f"{column}.1")
        plan.do("share", f"{row}.0", self.block.tiles, multiple=plan.target.cores)
        plan.do("reorder", f"{row}.0.0", f"{column}.0", f"{row}.0.1")
        if self.homeless:  # by now it is a tile that is kept, padded, so that it comes and goes without a guard
            plan.note(f"partial results need memory of their own: {self.homeless}")
            plan.do("accumulate", self.at, outside=self.batch or f"{row}.0.0")
        if self.dot is not None:
            plan.do("dot", self.depth, self.dot.name, multiple=SIDE if self.instruction else "")
        screened = self.dot is not None and self.dot.least > 0
        self.tiles = RegisterTile(plan, self.roles.accumulator.name, row, column, self.depth, self.dot is not None, screened)
        self.tiles.accumulate()
        if self.dot is None:
            self.tiles.confine()

    def across(self) -> None:
        """Results lie side by side along the rows of a tile: they are turned over in squares."""
        plan = self.plan
        for outer, inner in self.tiles.nests(self.tiles.accumulator):
            if isinstance(inner.body[0], If):
                plan.tried("unswitch", outer.axis)
        for outer, inner in self.tiles.nests(self.tiles.accumulator):
            if any(isinstance(s, Store) and s.buffer == self.roles.output for s in statements(inner.body)):
                for axis in (outer.axis, inner.axis):
                    plan.do("split", axis, SIDE, tail="perfect")
                plan.do("reorder", *(f"{axis}.{k}" for k in (0, 1) for axis in (inner.axis, outer.axis)))
                plan.do("unroll", f"{inner.axis}.1")
                plan.do("vectorize", f"{outer.axis}.1")

    def team(self) -> None:
        """One parallel loop over batch and row blocks."""
        self.work = f"{self.row}.0.0"
        if self.batch:
            self.work = self.plan.collapsed((self.batch, self.work))
