"""Sums for few rows and their neighbours, with rows in the lanes: what moves with the neighbours is read a few elements at a time, which serve all rows of a vector.

    for r in 0 .. 4:                              for g in 0 .. 4:                                             (16 lanes)
      for p in 0 .. 16:                             acc.lanes[0 .. 4, 0 .. 4, 0 .. 4] = 0
        acc[] = 0                                   for w.0 in 0 .. D / 4:
        for w in 0 .. D reduce:              →        for p in 0 .. 4 unroll:
          acc[] add= Q[r, w] * K[p, w]                  for r, w.1 vector:
        tile[r, p] = f(acc[])                             acc.lanes[p, r, w.1] add= Q.packed[w.0, r, w.1] * K[4·g + p, 4·w.0 + w.1]
                                                    acc[r, p] = Σ over w.1 of acc.lanes[p, r, w.1]
                                                    for r, p: tile[r, 4·g + p] = f(acc[r, p])

Sums with a lane for each element of the reduction put 16 lanes together for each score (`side_by_side.py`): at a depth of 64 half as long as multiplying.  Here it is 4 lanes, of a few vectors at a time, and
pieces of K are loaded repeated, which no more than a load takes, and no piece lies across the end of a line where a whole vector would.
"""

from __future__ import annotations

from ....ir.expr import ZERO
from ....ir.kernel import Alloc, Loop, statements, written
from ....ir.places import homes_in
from ....ir.record import changing
from ..cost import NEAR, POINTERS, far_hints, lanes, rows_in_lanes
from ..plan import Plan
from ..tree import all_loops, find, loads_in, path_to


@changing
class RowsInLanes:
    """Tiles of such sums: the loops over their rows, each (the axis, vectors, rows of a vector), and over the rows that are left ("" where none are)."""

    plan: Plan
    width: int  # lanes
    home: str  # the loop inside which what the rows read is the same for all tiles
    tiles: list[tuple[str, int, int]]
    rest: str

    @property
    def fewer(self) -> int:
        """What is left is fewer rows than this."""
        _, blocks, rows = self.tiles[-1]
        return blocks * rows

    @staticmethod
    def of(plan: Plan, above: str, width: int) -> RowsInLanes | None:
        """Cut the loop over the rows in tiles; None (and an unchanged plan) where none are worth it."""
        row = next(s for s in plan.loop(above).body if isinstance(s, Loop))
        deep = next(s for s in row.body if isinstance(s, Loop))
        inside = [n for s in deep.body for n in loads_in(*s.expressions()) if deep.axis in n.names]
        mine = {n for n in inside if row.axis not in n.names}
        if len(mine) != 1 or len(inside) != 2 or deep.start is not ZERO or any(lanes(plan.target, n.dtype) != width for n in inside if n not in mine):
            return None  # what is converted while it is loaded would be converted for each vector of rows
        (operand,) = mine
        path = path_to(plan.kernel.body, lambda s: isinstance(s, Loop) and s.axis == above)
        around = [s.axis for s in path[:-1] if isinstance(s, Loop) and s.axis in operand.names]
        if operand.attr not in plan.facts.buffers or operand.attr in written(plan.kernel.body) or not around:
            return None  # what the kernel writes is not copied
        tiles: list[tuple[str, int, int]] = []
        for blocks, rows in rows_in_lanes(width):
            together = blocks * rows
            if above and (plan.extent(above) or together) >= together:
                earlier = plan.kernel
                plan.do("split", above, together, tail="cut")
                _, inner, *rest = plan.added(earlier)
                tiles.append((inner, blocks, rows))
                above = rest[0] if rest else ""
        return RowsInLanes(plan, width, around[-1], tiles, above) if tiles else None

    def schedule(self) -> None:
        for above, blocks, rows in self.tiles:
            self._tile(above, blocks, rows)

    def _tile(self, above: str, blocks: int, rows: int) -> None:
        plan, width = self.plan, self.width
        row = next(s for s in plan.loop(above).body if isinstance(s, Loop))
        deep = next(s for s in row.body if isinstance(s, Loop))
        operands = [n for s in deep.body for n in loads_in(*s.expressions()) if deep.axis in n.names]
        (mine,), (moving,) = ({n.attr for n in operands if (row.axis in n.names) == moves} for moves in (False, True))
        around = next(s.axis for s in all_loops(plan.kernel) if any(t is plan.loop(above) for t in s.body))
        block, r = self._split(above, rows)
        outer, each = self._split(row.axis, min(POINTERS, width // blocks))
        group, neighbour = self._split(each, width // rows)
        piece, lane = self._split(deep.axis, width // rows, "cut")
        plan.do("stage", mine, around, piece, block, r, lane, at=self.home)
        plan.do("reorder", outer, group, block, r, neighbour)
        plan.do("rfactor", lane)
        line, _ = self._split(piece, rows, "cut")
        sums, partial = (s.buffer.name for s in statements((find(plan.kernel, neighbour),)) if isinstance(s, Alloc))
        plan.do("expand", sums, group, block, r, neighbour)
        plan.do("expand", partial, group, neighbour, block, r)
        known = homes_in(plan.kernel).keys() - {group}
        plan.do("fission", group, block, r, neighbour)
        for s in all_loops(plan.kernel):
            if s.axis not in known:
                nest = [s]
                while len(nest) < 4:
                    nest.append(next(t for t in nest[-1].body if isinstance(t, Loop)))
                known |= {x.axis for x in all_loops((s,))}
                self._piece(*(x.axis for x in nest))
        if not plan.tried("prefetch", moving, line, outer, near=NEAR):
            plan.note(f"`{line}` asks for what stands {NEAR >> 10} KiB behind what it reads of `{moving}`")
            plan.tried("prefetch", moving, line, outer, **far_hints(plan.target, blocks * rows))
        plan.note(
            f"{blocks * rows} rows of `{above}`, {rows} in the lanes of a vector: what `{moving}` holds is read {width // rows} elements at a time"
        )

    def _split(self, axis: str, factor: int, tail: str = "perfect") -> tuple[str, str]:
        earlier = self.plan.kernel
        self.plan.do("split", axis, factor, tail=tail)
        outer, inner, *_ = self.plan.added(earlier)
        return outer, inner

    def _piece(self, group: str, block: str, row: str, neighbour: str) -> None:
        """One statement of what was the body, in a nest of its own."""
        plan = self.plan
        inner = plan.loop(neighbour).body[0]
        if not isinstance(inner, Loop):
            plan.do("vectorize", neighbour)
            unrolled = (group, block, row)
        elif inside := [x.axis for x in all_loops(inner.body)]:  # multiplied
            *piece, lane = inside
            plan.do("reorder", inner.axis, *piece, group, neighbour, block, row, lane)
            plan.do("vectorize", plan.collapsed((row, lane)))
            unrolled = (*piece, group, neighbour, block)
        elif inner.kind == "parallel":  # the sums begin
            plan.do("reorder", group, neighbour, block, row, inner.axis)
            plan.do("vectorize", plan.collapsed((row, inner.axis)))
            unrolled = (group, neighbour, block)
        elif inner.start is ZERO:  # folded
            plan.do("vectorize", inner.axis)
            unrolled = (group, block, row, neighbour)
        else:  # what is left of the reduction
            plan.do("reorder", inner.axis, group, block, row, neighbour)
            unrolled = (group, block, row, neighbour)
        for axis in reversed(unrolled):
            plan.do("unroll", axis)
