"""Tiles of the planes of scores that are mixed (`planes.py`), in the loop over tiles of a cascade: [planes, positions of the tile], read at any plane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.expr import Expr, axis, const, load
from ...ir.graph import Node
from ...ir.kernel import Alloc, Buffer
from ...ir.record import record
from ...ir.walks import leaves, substitute
from ..walk import Walk
from .planes import planes

if TYPE_CHECKING:
    from .nest_body import NestBody, Point

STEP = 32  # a tile that holds scores is worked off in multiples of this: vectors and register tiles without tails


@record
class KeptPlanes:
    """Planes of scores that are mixed, kept for a whole tile: the node, the position that it is read at (None: any plane), its buffer, [planes, position]."""

    node: Node
    index: tuple[Expr | None, ...]
    buffer: str


class TilesOfPlanes:
    """Part of `CascadeLoops`."""

    body: NestBody
    cascade: Node
    rows: Point
    mixing: list[int]
    mixed_rows: Point
    planes: list[KeptPlanes]
    tile: int
    begin: Expr
    length: Expr
    padded: bool
    positions: Callable[[], Expr]
    rounded: Callable[[Point, int], Point]
    seed: Callable[[Point, Expr, bool], Expr]
    filled: Callable[[Point, Expr], Point]

    @property
    def mixed_extents(self) -> Point:
        return tuple(self.cascade.attr.extents[j] for j in self.mixing)

    def stage_planes(self, start: Point) -> Walk:
        """A tile of each plane of the scores that are mixed, for all rows that have them in common; then of what is mixed, for each of these rows."""
        rows = {axis(j): e for j, e in enumerate(self.rows)}
        mixing = {axis(j) for j in self.mixing}
        found = planes(self.cascade, lambda n: self.body.home(n) is not None)
        indices: dict[Node, tuple[Expr | None, ...]] = {p.node: p.index for p in found}
        indices |= {
            p.mixed: tuple(None if e in mixing else e for e in p.at)
            for p in found
            if p.rows and all(e in mixing or mixing.isdisjoint(leaves(e, "axis")) for e in p.at)
        }
        for node, index in indices.items():
            yield self.stage_plane(node, tuple(None if e is None else substitute(e, rows) for e in index), start)

    def stage_plane(self, node: Node, index: tuple[Expr | None, ...], start: Point) -> Walk:
        from .nest_body import OUTPUT_AXES

        body, tile = self.body, self.body.current
        extents = tuple(n for n, e in zip(node.shape, index, strict=True) if e is None)
        name = body.names.fresh("planes")
        tile.body.append(Alloc(Buffer(name, node.dtype, (*extents, const(self.tile)), "private")))
        body.where[name] = tile
        with body.nest(extents) as at:
            plane, free = body.current, iter(at)
            inner = body.enter(self.positions(), "parallel", OUTPUT_AXES, self.begin)
            point = tuple(next(free) if e is None else e for e in index)
            value = yield body._computed(node, self.filled(point, self.seed(start, inner, self.padded)), None, None)
            body.store(name, (*at, inner), value)
            body.leave(plane)
        self.planes.append(KeptPlanes(node, index, name))

    def in_plane(self, p: KeptPlanes, point: Point, along: Expr, inner: Expr) -> Expr | None:
        """What a tile has of a plane at a point; None where that is another position along the axis."""
        expected = self.filled(tuple(e for e in p.index if e is not None), along)
        if tuple(x for x, e in zip(point, p.index, strict=True) if e is not None) != expected:
            return None
        return load(p.buffer, p.node.dtype, *(x for x, e in zip(point, p.index, strict=True) if e is None), inner)
