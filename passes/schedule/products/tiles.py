"""One contraction in register tiles: how its accumulator becomes a tile, how its operands are packed, how its borders are taken apart.

Used by the plans that know where such a contraction stands: `contractions.py` (a kernel that is one) and `cascades.py` (several inside a loop over tiles).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ....ir.expr import INDEX, Expr
from ....ir.instructions import SIDE
from ....ir.kernel import If, Kernel, Let, Loop, Store, statements
from ....ir.record import changing
from ....ir.simplify import simplify
from ....ir.walks import postorder
from ... import costs
from .. import cost
from ..affine import constant_extent, step_within, stride
from ..plan import Plan
from ..tree import all_loops, loads_in, local_buffers, reads, touched


@changing
class RegisterTile:
    """`row` and `column` are split already: `row.1` and `column.1` are the tile; `depth` is the reduction inside it."""

    plan: Plan
    accumulator: str
    row: str
    column: str
    depth: str
    words: bool = False  # what is packed are words of neighbours along the reduction, which may end inside one
    apart: bool = False  # panels are packed one after the other, for what is found in each meanwhile
    piece: str = ""  # the inner part of the reduction, where tiles of it are multiplied by one instruction
    once: list[str] = field(default_factory=list)  # panels of what is read once, copied as it lies
    confined: bool = False  # the reduction begins and ends where a mask of the tile does

    def accumulate(self) -> None:
        """The scalar accumulator becomes the tile, and the reduction runs outside of it."""
        plan = self.plan
        plan.do("expand", self.accumulator, f"{self.row}.1", f"{self.column}.1")
        plan.do("fission", f"{self.row}.1", f"{self.column}.1")
        r, c = self.compute()
        plan.do("reorder", self.depth, r, c)
        self.doubted()

    def confine(self) -> None:
        """Where a mask along the reduction holds nowhere in a tile, nothing is read or added up."""
        if not self.plan.tried("confine", self.depth):
            self.confined = True
            self.plan.note(f"`{self.depth}` begins and ends where a mask of a tile does")

    def doubted(self) -> None:
        """Sums that are taken again where they are not finite: that is asked once for the tile, which is then summed row by row, in memory."""
        plan = self.plan
        for outer in [loops[-2] for loops in plan.around_store(self.accumulator) if len(loops) > 1]:
            inner = outer.body[0]
            if isinstance(inner, Loop) and isinstance(inner.body[0], If) and outer.body == (inner,):
                before = plan.kernel
                if plan.tried("once", outer.axis, inner.axis):
                    continue
                lanes, rows, columns, every = plan.added(before)[:4]  # what asks; the sums of those that are taken again come after it
                for axis in (lanes, columns):
                    plan.do("vectorize", axis)
                plan.do("unroll", rows)
                plan.tried("vectorize", every)

    def compute(self) -> tuple[str, str]:
        """The row and column axes of the nest that accumulates."""
        row, column = self.plan.summing(self.accumulator, self.depth, 2)
        return row, column

    def cut(self, words: int) -> None:
        """Tiles have so many words along the reduction."""
        r, c = self.compute()
        self.plan.do("split", self.depth, words, tail="perfect")
        self.depth, self.piece = f"{self.depth}.0", f"{self.depth}.1"
        self.plan.do("reorder", self.depth, r, c, self.piece)

    def tensorize(self, instruction: str) -> None:
        """Tiles are multiplied by one instruction, and their sums are in memory; where that is for some panels only, the others are multiplied in vectors."""
        plan = self.plan
        for loops in plan.around_store(self.accumulator):
            if loops[-1].kind == "reduce":
                *_, deep, r, c, piece = (x.axis for x in loops)
                if piece == self.piece:
                    plan.do("tensorize", r, instruction)
                else:
                    plan.do("split", r, cost.DIRECT_ROWS)
                    plan.do("reorder", f"{r}.0", deep, piece, f"{r}.1", c)
                    plan.do("vectorize", c)
                    plan.do("unroll", f"{r}.1")

    # ---- packing

    def stage_columns(self, buffers: Sequence[str], outer: tuple[str, ...], at: str = "", space: str = "shared", along: bool = False) -> None:
        """Panels of columns, one for each position of the `outer` axes and of the tiles of columns, packed by all threads together inside the loop over `at` (none: at the start of the kernel).
        `along`: copied as they lie, for what is read once: of all panels so many rows as a tile has words."""
        plan = self.plan
        for buffer in buffers:
            _, c = self.compute()
            if not self.reads(buffer, c):
                continue
            before = plan.kernel
            plan.do("stage", buffer, *outer, f"{self.column}.0", self.depth, c, at=at, space=space, whole=f"{self.column}.0" if self.confined else "")
            packed = plan.newest(before)
            *around, deep, inner = plan.copying(packed, before)
            if not turned(plan, packed, before):
                if along:
                    plan.do("split", deep, SIDE, tail="perfect")
                    plan.do("reorder", f"{deep}.0", around[-1], f"{deep}.1", inner)
                    deep = f"{deep}.1"
                    plan.tried("interior", deep, inner, fixed=1)
                self.in_vectors(packed, deep, inner)
                if along:
                    self.asked_ahead(buffer, deep)
                    self.once.append(packed)
                    continue
                if not self.apart:
                    self.in_strips(around[-1], packed, before)
            for _ in around[1:]:
                first, second, *_ = plan.copying(packed, before)
                if plan.tried("collapse", first, second):
                    break

    def stage_own_columns(self, buffers: Sequence[str], at: str) -> None:
        """Panels of columns that each thread packs for itself, one for each iteration of `at`."""
        plan = self.plan
        for buffer in buffers:
            before = plan.kernel
            _, c = self.compute()
            if not self.reads(buffer, c):  # it was packed with what it is multiplied by or added to
                continue
            plan.do("stage", buffer, self.depth, c, at=at)
            packed = plan.newest(before)
            *_, deep, inner = plan.copying(packed, before)
            if not turned(plan, packed, before):
                self.in_vectors(packed, deep, inner)

    def ahead(self, tile: str, panel: str) -> None:
        """Where the last cache is far away, the next panel of columns is on its way while one is worked on."""
        plan = self.plan
        if not cost.panels_ahead(plan.target):
            return
        panels = sorted({n.attr for n in reads(plan.loop(self.depth).body)} - set(plan.facts.buffers))
        if [p for p in panels if not plan.tried("prefetch_panel", p, self.depth, tile, panel)]:
            plan.note(f"the last cache ({plan.target.l3 >> 20} MiB) is far away: while one panel of columns is worked on, the next is asked for")
        self.results_ahead()

    def results_ahead(self) -> None:
        """Where the last cache is far away, what a tile is put together with, or stored in, comes while it is summed up."""
        plan = self.plan
        if not cost.panels_ahead(plan.target):
            return
        if asked := [b for b in plan.facts.buffers if not plan.tried("prefetch_tile", b, self.depth)]:
            plan.note(f"while a tile is summed up, the lines come of {', '.join(f'`{b}`' for b in asked)} that it is put together with, or stored in")

    def wanted(self, end: int = 0) -> None:
        """Where a mask of the result holds nowhere in a tile, nothing is added up: before `finish`, which asks of whole tiles what it can.

        `end`: by where the loop ends.  Clang 14 keeps tiles of operands in panels in registers either way, and is faster so (Granite Rapids, f64, PolyBench's syrk 500×600 0.88 of the time); of strips it does not (256² floats of
        512 terms 1.5 times as long as without a mask, by an `if` 0.88)."""
        if not self.plan.tried("skip", self.depth, end=end or ""):
            self.plan.note("tiles of which the mask of the result leaves nothing are not summed up")

    def in_vectors(self, packed: str, deep: str, inner: str, side_by_side: Callable[[Plan, str, str], bool] | None = None) -> None:
        """Copy panels along `inner`, in vectors where what is copied is consecutive."""
        plan = self.plan
        if self.words:
            plan.tried("interior", inner, fixed=1, clamps=1 if clamped(plan.loop(inner)) else "")
        staged = plan.kernel
        if clamped(plan.loop(inner)):
            plan.tried("interior", deep, inner, clamps=1)
        if (side_by_side or consecutive)(plan, packed, inner):
            for loops in plan.around_store(packed) if self.words else ():
                plan.tried("vectorize", loops[-1].axis)
            plan.tried("vectorize", inner)
        else:
            plan.kernel = staged

    def in_strips(self, panel: str, packed: str, before: Kernel) -> None:
        """Copy a few neighbouring panels side by side: rows are read in long pieces, and few pages at a time."""
        plan = self.plan
        with plan.attempt():
            plan.do("split", panel, cost.STRIP_PANELS)
            *_, panel, deep, inner = plan.copying(packed, before)
            plan.do("reorder", deep, panel, inner)

    def stage_rows(self, buffers: Sequence[str], tiles: str, at: str, order: str = "", along: bool = False, outer: tuple[str, ...] = ()) -> None:
        """Panels of rows, [outer, tiles, depth, row], one copy for each iteration of `at`.  `along`: copied as they lie, with borders asked for once a tile, for what is read once."""
        for buffer in buffers:
            r, _ = self.compute()
            if self.reads(buffer, r):
                before = self.plan.kernel
                if self.piece:
                    self.plan.do("stage", buffer, *outer, tiles, self.depth, r, self.piece, at=at)
                    packed = self.plan.newest(before)
                    if not turned(self.plan, packed, before, consecutive):
                        *_, deep, inner = self.plan.copying(packed, before)
                        if along:
                            self.plan.tried("interior", deep, inner, fixed=1)
                        self.in_vectors(packed, deep, inner, _in_a_row)
                        if along:
                            self.asked_ahead(buffer, deep)
                            self.once.append(packed)
                    continue
                self.plan.do(
                    "stage",
                    buffer,
                    *outer,
                    tiles,
                    self.depth,
                    r,
                    at=at,
                    order=order and f"{tiles},{r},{self.depth}",
                    whole=tiles if self.confined else "",
                )
                packed = self.plan.newest(before)
                if order or not turned(self.plan, packed, before):
                    if self.words:
                        self.plan.tried("interior", self.plan.copying(packed, before)[-1], fixed=1)
                    else:
                        self.first_lanes(packed, before)

    def first_lanes(self, packed: str, before: Kernel) -> None:
        """Copy panels of rows that lie side by side, each narrower than a vector, by the first lanes of one; neighbouring panels together, so that what is read is in long pieces."""
        plan = self.plan
        *around, deep, inner = plan.copying(packed, before)
        width, lanes = plan.extent(inner), plan.target.lanes(local_buffers(plan.kernel)[packed].dtype)
        if width is None or not lanes // 2 < width < lanes or not cost.first_lanes(plan.target) or not consecutive(plan, packed, inner):
            if self.confined:  # what the mask does not touch is copied as it lies
                plan.tried("interior", inner, masks=1)
            return
        with plan.attempt():
            plan.do("reorder", deep, around[-1], inner)
            plan.tried("interior", inner)
            plan.do("split", inner, lanes, tail="pad")
            plan.do("vectorize", f"{inner}.1")

    def asked_ahead(self, buffer: str, axis: str) -> None:
        """What is copied once, as it lies, is asked for ahead of time."""
        refused = self.plan.tried("prefetch", buffer, axis, axis, near=cost.NEAR)
        self.plan.note(
            f"`{axis}` does not ask for `{buffer}`: {refused}"
            if refused
            else f"`{axis}` asks for what stands {cost.NEAR >> 10} KiB behind what it reads of `{buffer}`"
        )

    def lies(self) -> bool:
        """Whether words of rows lie in a local buffer, as its elements: tiles read them there."""
        from ..steps.tensors import elements

        local = local_buffers(self.plan.kernel)
        nest = self.plan.loop(self.depth)
        return any(
            elements(w, local) is not None for s in statements((nest,)) if isinstance(s, Store) and s.value.op == "ins" for w in s.value.args[1:]
        )

    def reads(self, buffer: str, axis: str) -> bool:
        """Whether the accumulating nest still reads the buffer at positions that depend on the axis."""
        nest = self.plan.loop(self.depth)
        return any(n.attr == buffer and axis in n.names for s in statements((nest,)) if isinstance(s, (Store, Let)) for n in loads_in(s.value))

    def address(self, load: Expr) -> Expr:
        return self.plan.facts.buffers[load.attr].address(load.args)

    # ---- the tile's nests

    def finish(self) -> None:
        """Take the guards out of the interior, and mark what is unrolled and what is a vector.  At a border only the first lanes are stored, or it goes through a tile in memory; where
        a position is kept from running over an end, vectors are gathered."""
        plan, acc = self.plan, self.accumulator
        border: set[str] = set()
        ends: set[str] = set()
        while nests := self.nests(acc):  # steps make new nests: rounds until all are marked
            for outer, inner in nests:
                first_lanes = self.in_lanes(inner)
                if (
                    first_lanes
                    and cost.first_lanes(plan.target)
                    and constant_extent(inner) is not None
                    and (outer.axis in border or not _dear(inner))
                ):
                    self.marked(outer, inner)
                elif outer.axis in border and not first_lanes:
                    self.through_memory(outer, inner)
                elif (
                    outer.axis not in border
                    and (
                        (isinstance(inner.body[0], If) and not plan.tried("unswitch", outer.axis))
                        or self.interior(outer.axis, inner.axis, border, guards=first_lanes)
                    )
                ) or (outer.axis not in ends and clamped(inner) and self.interior(outer.axis, inner.axis, ends, clamps=True)):
                    continue
                elif (first_lanes or all(isinstance(s, (Store, Let)) for s in inner.body)) and constant_extent(inner) is not None:
                    self.marked(outer, inner)
                else:
                    self.through_memory(outer, inner)

    def marked(self, outer: Loop, inner: Loop) -> None:
        """Vectors of a row; rows are written out where their sums are in registers."""
        self.plan.do("vectorize", inner.axis)
        self.plan.do("serial" if self.piece else "unroll", outer.axis)

    def through_memory(self, outer: Loop, inner: Loop) -> None:
        """The nest reads its sums one by one."""
        if self.piece:  # they are in memory
            self.plan.do("serial", inner.axis)
            self.plan.do("serial", outer.axis)
        else:
            self.plan.do("spill", self.accumulator, outer.axis)

    def in_lanes(self, inner: Loop) -> bool:
        """Whether the loop is vectors under guards that only the first lanes pass: then what it touches in memory is consecutive, and no other choice hides a load.  Where functions are computed values may be named, and choices be the same for all
        lanes, or guards themselves: so few lanes of a sum in pieces cost as much as a tile in memory, but functions are not computed one by one."""
        found = statements(inner.body)
        dear = _dear(inner)
        for s in found:
            if isinstance(s, If) and not s.orelse:
                continue
            if not isinstance(s, (Let, Store) if dear else Store):
                return False
            moving = [self.address(n) for n in loads_in(*s.expressions()) if n.attr in self.plan.facts.buffers]
            if isinstance(s, Store) and s.buffer in self.plan.facts.buffers:
                moving.append(self.plan.facts.buffers[s.buffer].address(s.index))
            hidden = (n for n in postorder(*s.expressions()) if n.op == "where" and n.buffers and not (dear and _harmless(n, inner.axis)))
            if any(stride(a, inner.axis) not in (0, 1) for a in moving) or any(hidden):
                return False
        return True

    def nests(self, acc: str) -> list[tuple[Loop, Loop]]:
        """The two-deep nests over the register tile that are not marked yet."""
        found = []
        for outer in all_loops(self.plan.kernel):
            inner = outer.body[0]
            if len(outer.body) != 1 or not isinstance(inner, Loop) or any(isinstance(s, Loop) for s in statements(inner.body)):
                continue
            if outer.kind == inner.kind == "parallel" and acc in touched((inner,)):
                found.append((outer, inner))
        return found

    def interior(self, outer: str, inner: str, border: set[str], guards: bool = False, clamps: bool = False) -> bool:
        earlier = self.plan.kernel
        if self.plan.tried("interior", outer, inner, guards=1 if guards else "", clamps=1 if clamps else ""):
            return False
        border.update(self.plan.added(earlier))
        return True


def _dear(loop: Loop) -> bool:
    """Whether a function is computed of what is read: element by element it would take longer at a border than all else."""
    nodes = (n for s in statements(loop.body) for n in postorder(*s.expressions()) if n.dtype.is_float)
    return any(costs.operation(n.op) > costs.operation("div") for n in nodes if n.op != "load")


def _harmless(choice: Expr, axis: str) -> bool:
    """Whether it is the same for all lanes, or what is loaded where it is there, and 0 elsewhere."""
    condition, value, other = choice.args
    return axis not in condition.names or (value.op == "load" and other.is_const and other.attr == 0)


def clamped(loop: Loop) -> bool:
    """Whether positions in the loop are kept from running over an end."""
    return any(n.op == "min" and n.dtype is INDEX for s in statements(loop.body) for n in postorder(*s.expressions()))


def turned(plan: Plan, packed: str, before: Kernel, side_by_side: Callable[[Plan, str, str], bool] | None = None, most: int = cost.TURNED) -> bool:
    """Copy panels [depth, row or column] in squares that are turned over in registers, where what is copied is consecutive along the depth; False (and an unchanged plan) where it is not.

    `before` is the kernel without the copy; `side_by_side` says what is consecutive (none: `_in_a_row`), `most` how long a square may be.  Of a panel narrower than a vector, the first lanes are stored.
    """
    *_, deep, inner = plan.copying(packed, before)
    lanes, width = min(most, plan.target.lanes(local_buffers(plan.kernel)[packed].dtype)), plan.extent(inner)
    if (
        not 4 <= lanes <= cost.TURNED
        or width is None
        or 2 * width <= lanes
        or not (side_by_side(plan, packed, deep) if side_by_side else _in_a_row(plan, packed, deep, lanes))
    ):
        return False
    with plan.attempt(f"`{packed}` is not turned over in registers") as attempt:
        plan.do("split", deep, lanes, tail="pad")
        if width > lanes and width % lanes:
            _with_a_rest(plan, packed, f"{deep}.1", inner, lanes)
            return True
        plan.do("split", inner, lanes, tail="pad")
        *_, outer, deep, block, inner = plan.copying(packed, before)
        # a few rows to their end, which prefetchers follow, before the next few (a layer of 2048² for 32 rows 0.89, for 64 0.94 of the time)
        plan.do("reorder", *((block, outer) if width > lanes else (outer, block)), deep, inner)
        if width < lanes:  # one block
            plan.do("collapse", outer, block)
        _square(plan, deep, inner)
    return not attempt.refused


def _with_a_rest(plan: Plan, packed: str, deep: str, inner: str, lanes: int) -> None:
    """Copy `lanes` rows or columns along `deep` in squares, and what is left over in one of which the first lanes are stored; few of them one by one.  All that stands beside each other at one depth, for it shares lines of the panel."""
    plan.do("reorder", inner, deep)
    plan.do("split", inner, lanes, tail="cut")
    plan.do("reorder", f"{inner}.0", deep, f"{inner}.1")
    _square(plan, deep, f"{inner}.1")
    rest, along = (x.axis for x in plan.around_store(packed)[-1][-2:])
    if 2 * (plan.extent(rest) or 0) > lanes:
        plan.do("split", rest, lanes, tail="pad")
        rest = plan.collapsed((f"{rest}.0", f"{rest}.1"))
        plan.do("reorder", along, rest)
        _square(plan, along, rest)
    else:
        plan.do("reorder", along, rest)


def _square(plan: Plan, deep: str, inner: str) -> None:
    plan.tried("interior", deep, inner, fixed=1, clamps=1)
    plan.do("unroll", deep)
    plan.do("vectorize", inner)


def consecutive(plan: Plan, copy: str, axis: str) -> bool:
    """Whether what is copied into a local buffer moves by one element with the axis, for all that is read."""
    return all(step == 1 for step in _steps(plan, copy, axis))


def _in_a_row(plan: Plan, copy: str, axis: str, length: int = 0) -> bool:
    """Whether what is copied moves by as many elements with the axis as are put together in it: by one, or by a word of neighbours.  In pieces of a `length`: of a vector where that is 0."""
    steps = _steps(plan, copy, axis, length)
    return len(steps) > 0 and all(step == len(steps) for step in steps)


def _steps(plan: Plan, copy: str, axis: str, length: int = 0) -> list[int | None]:
    """How far each load of what is copied into a local buffer moves with the axis, of those that do within a vector, or a `length`."""
    buffers = {**plan.facts.buffers, **local_buffers(plan.kernel)}
    loop, lanes = plan.loop(axis), length or plan.target.lanes(buffers[copy].dtype)
    for s in statements(plan.kernel.body):
        if isinstance(s, Store) and s.buffer == copy:
            # what `collapse` leaves, (x // N)·N + x % N, is x
            moving = [simplify(buffers[n.attr].address(n.args), plan.facts.known) for n in loads_in(s.value) if axis in n.names]
            return [step for a in moving if (step := step_within(a, loop, lanes, plan.facts.known)) != 0]
    return [None]
