"""Sums of products up to a position, of what is multiplied with the positions before it: in chunks.

    o[i, e] = Σ_(j ≤ i) (Σ_d q[i, d] · k[j, d]) · v[j, e]

        →    u[c, d, e] = Σ_t k[c C + t, d] · v[c C + t, e]                                          of each chunk
             s[c, d, e] = Σ_(b < c) u[b, d, e]                                                        a running sum
             o[c, r, e] = Σ_d q[c C + r, d] · s[c, d, e] + Σ_(t ≤ r) (Σ_d q[c C + r, d] · k[c C + t, d]) · v[c C + t, e]

So N positions take 2 N D E + N C (D + E) products in place of N² (D + E) / 2.  (Linear attention; for the chunks see Hua et al., "Transformer quality in linear time", 2022.)  Before the position or behind
it; `j < i` alike.  Where the sizes are such that chunks take as many, the sum is taken as it is written; the sizes choose at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir.bounds import Known
from ...ir.expr import ZERO, Expr, axis, both, ceildiv, const, product, where
from ...ir.graph import Node, Shape, View, const_node, contiguous_node, elementwise, identity, iota_node, reduce_node, scalar, scan_node
from ...ir.simplify import simplify
from .by_sizes import BySizes
from .chosen_products import reads_inside
from .sums_of_products import Factor, Product, as_it_lies

CHUNK = 64  # positions: longer ones take more products, shorter ones store more sums


class _Triangle(NamedTuple):
    """Which positions are summed for which."""

    position: int  # the axis of the result
    summed: int
    strict: bool  # not the position itself
    behind: bool  # what stands behind it


def in_chunks(group: Sequence[Product], known: Known) -> dict[Node, Node]:
    """Sums that share one inside, in chunks; nothing where some of them is something else."""
    found = [c for p in group if (c := _chunks(p, known)) is not None]
    if len(found) < len(group):
        return {}
    many = simplify(max(found, key=lambda c: len(c.alone)).many, known)
    return {c.p.node: c.node(many) for c in found}


def _chunks(p: Product, known: Known) -> _Chunks | None:
    t = _triangle(p)
    if t is None or len(p.inside) != 1 or any(f.view.domain is not None and f.view.fill != 0 for f in p.factors):
        return None
    if not all(reads_inside(f.view, p.extents, known) for f in p.factors):
        return None  # the condition keeps it inside
    deep = frozenset(range(len(p.extents))) - p.kept - {t.summed}
    rows, columns = ([f for f in p.factors if (t.summed in f.axes) is behind] for behind in (False, True))
    if any(t.position in f.axes for f in columns) or not all(any(f.axes & deep for f in side) for side in (rows, columns)):
        return None
    return _Chunks(p, t, rows, columns, deep)


def _triangle(p: Product) -> _Triangle | None:
    if len(p.conditions) != 1 or len(p.node.attr.extents) != 1:
        return None
    c = p.conditions[0]
    summed = p.node.rank
    if c.op not in ("less_than", "less_equal") or any(a.op != "axis" for a in c.args):
        return None
    first, second = (a.attr for a in c.args)
    position = second if first == summed else first
    if summed not in (first, second) or not position < p.node.rank or p.extents[position] is not p.extents[summed]:
        return None
    return _Triangle(position, summed, c.op == "less_than", first != summed)


class _Chunks:
    """Axes of the product keep their numbers; behind them are that of chunks, of a position in its chunk, and of one that is summed."""

    def __init__(self, p: Product, t: _Triangle, rows: list[Factor], columns: list[Factor], deep: frozenset[int]) -> None:
        self.p, self.t, self.rows, self.columns, self.deep = p, t, rows, columns, tuple(sorted(deep))
        self.chunk, self.row, self.column = range(len(p.extents), len(p.extents) + 3)
        self.alone = p.kept & frozenset().union(*(f.axes for f in columns)) - frozenset().union(*(f.axes for f in rows))
        self.positions = p.extents[t.position]
        a, b = (product(p.extents[k] for k in sorted(axes)) for axes in (deep, self.alone))
        # half of all positions for each, or those of a chunk (a tile is not split) and what is summed of each chunk, twice
        self.many = ((a + b) * (2 * CHUNK) + a * b * 4).lt(self.positions * (a + b))

    def node(self, many: Expr) -> Node:
        p, t = self.p, self.t
        self.count, self.before = (where(many, n, ZERO) for n in (ceildiv(self.positions, const(CHUNK)), (self.positions - 1) // CHUNK))
        self.extents = (*p.extents, self.count, const(CHUNK), const(CHUNK))
        kept = tuple(b for a in range(p.node.rank) for b in ((self.chunk, self.row) if a == t.position else (a,)))
        near, far = self._near(kept), self._far(kept)
        value = elementwise("add", near.shape, identity(far), identity(near), span=p.node.span)
        for v in p.scale:
            value = elementwise("mul", near.shape, identity(value), v, span=p.node.span)
        result = contiguous_node(identity(value), value.shape, p.node.span)
        at = axis(t.position)
        index = tuple({self.chunk: at // CHUNK, self.row: at % CHUNK}.get(k, axis(k)) for k in kept)
        return BySizes(many, View(result, index, many, 0), identity(p.node)).node(p.node.shape)

    def _near(self, kept: Sequence[int]) -> Node:
        """What positions of a chunk add for each other, as it is written, with scores that are stored."""
        p, t = self.p, self.t
        inside, beside = ([f for f in p.factors if bool(f.axes & {*self.deep}) is deep] for deep in (True, False))
        axes = set().union(*(f.axes for f in inside)) - {*self.deep, t.position, t.summed}
        own = (*sorted(axes), self.chunk, self.row, self.column)
        scores = self._sum(own, self.deep, [self._moved(f) for f in inside], self.extents)
        row, column = (axis(own.index(k)) for k in (self.row, self.column))
        first, second = (identity(iota_node(e, scores.shape)) for e in ((row, column) if t.behind else (column, row)))
        counts = elementwise("less_than" if t.strict else "less_equal", scores.shape, first, second)
        zero = scalar(const_node(0.0 if scores.dtype.is_float else 0, scores.dtype))
        weights = elementwise("where", scores.shape, identity(counts), identity(scores), zero, span=p.node.span)
        stored = contiguous_node(identity(weights), weights.shape, p.node.span)
        views = [View(stored, tuple(map(axis, own))), *(self._moved(f) for f in beside)]
        return self._sum(kept, (self.column,), views, self.extents)

    def _far(self, kept: Sequence[int]) -> Node:
        """What all chunks before add to each position of a chunk."""
        t = self.t
        axes = set().union(*(f.axes for f in self.columns)) - {t.summed}
        own = (*sorted(axes & self.p.kept - self.alone), self.chunk, *sorted(axes - self.p.kept), *sorted(self.alone))
        at, last = axis(self.chunk), (self.p.extents[t.position] - 1) // CHUNK
        chunk = last - at if t.behind else at
        before_last = tuple(self.before if a == self.chunk else e for a, e in enumerate(self.extents))
        of_chunk = self._sum(own, (self.column,), [self._moved(f, chunk) for f in self.columns], before_last)
        k = own.index(self.chunk)
        sums = scan_node("add", k, identity(of_chunk), of_chunk.shape, self.p.node.span)
        before = (last - at if t.behind else at) - 1
        view = View(sums, tuple(before if a == self.chunk else axis(a) for a in own), ZERO.le(before), 0)
        return self._sum(kept, self.deep, [*(self._moved(f) for f in self.rows), view], self.extents)

    # ---- parts

    def _moved(self, f: Factor, chunk: Expr | None = None) -> View:
        """A factor at a position of a chunk; 0 behind the last position.  It is stored so: what is read in tiles has no conditions."""
        t = self.t
        mine = next((a for a in (t.position, t.summed) if a in f.axes), None)
        if mine is None:
            return f.view
        own = tuple(b for a in as_it_lies(f.view) for b in ((self.chunk, self.row) if a == mine else (a,)))
        places = {a: axis(n) for n, a in enumerate(own)}
        at = places[self.chunk] * CHUNK + places[self.row]
        v = f.view.through({axis(mine): at} | {axis(a): e for a, e in places.items() if a < self.chunk})
        shape = tuple(self.extents[a] for a in own)
        padded = View(v.node, v.index, both(v.domain, at.lt(self.p.extents[mine])), 0)
        stored = contiguous_node(padded, shape, self.p.node.span)
        row = self.row if mine == t.position else self.column
        read = {self.chunk: axis(self.chunk) if chunk is None else chunk, self.row: axis(row)}
        return View(stored, tuple(read.get(a, axis(a)) for a in own))

    def _sum(self, own: Sequence[int], summed: Sequence[int], views: Sequence[View], extents: Shape) -> Node:
        places = {axis(a): axis(n) for n, a in enumerate((*own, *summed))}
        domain = tuple(extents[a] for a in (*own, *summed))
        value, *others = (v.through(places) for v in views)
        for v in others:
            value = identity(elementwise("mul", domain, value, v, span=self.p.node.span))
        return reduce_node("add", domain[: len(own)], domain[len(own) :], value, self.p.node.span)
