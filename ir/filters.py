"""What `--fast` admits for short filters: fewer multiplications and more additions, on tiles of neighbouring results.

    Y[…, p, …] = Σ over c, k of X[…, c, p + k] · W[…, c, k]          k in 0 .. r

A kept and a reduced axis of constant extent r add up to a position of one operand, the other has the reduced axis alone.  With the matrices of F(m, r) (`toom_cook.py`), t = p // m and i = p % m:

    U[ξ, …, c]    = Σ_k taps[ξ, k] · W[…, c, k]                      once
    V[ξ, c, …, t] = Σ_k data[ξ, k] · X[…, c, m·t + k]                a tile for each t
    M[ξ, …, t]    = Σ_c U[ξ, …, c] · V[ξ, c, …, t]                   n = m + r - 1 products instead of m · r: a contraction as any other, in a batch of n
    Y[…, p]       = Σ_ξ out[i, ξ] · M[ξ, …, t]

and, along a second such axis, the same inside of it (Winograd's F(2×2, 3×3) and F(4×4, 3×3)).  Nothing here asks whether the whole is a convolution.  The tensors between are real (`contiguous`): X
with its padding once, each in an order in which what lies side by side in memory is transformed alike: c for the data, an axis that only the taps have for the taps and the products.  Tiles reach past the end
of X, where zeros are read, and of Y, where results are dropped.

Whether that pays depends on the sizes: where they are not known they choose at run time between this and the filter as it stands (a `where` on them alone, `passes/nests/choices.py`), and there are no tiles,
nor memory for them, where it does not.

`shortened` writes this into a graph, so that the ordinary rules of the error bound (`ir/interpret/bounds.py`) say what a kernel made under `--fast` may be off by.  An infinity or a NaN in X spreads
over the results of its tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from .bounds import Known
from .build import Builder, Tensor
from .evaluate import evaluate
from .expr import FALSE, ONE, TRUE, ZERO, Expr, axis, both, ceildiv, const, product, where
from .graph import Graph, Node, View, contiguous_node, elementwise, identity, make, node_of, reduce_node
from .primops import OPS
from .record import record, replace
from .simplify import assuming, simplify
from .toom_cook import Matrix, short_filter, straight_line
from .walks import leaves

TILES = (2, 4)  # results of a tile: from 6 on the numbers on the way are a thousand times those of the filter
TAPS = range(2, 6)
POINTS = 6  # of F(m, r), at most
NOMINAL = 256  # what a size is taken for that nothing is known of
# What it costs beside a multiplication to make an element of V or to make a result of one of M; and to make one of U, of which there are so many that they come from memory where there are few tiles.
# Zen 5, 64 … 256 channels, beside another library that uses the same caches; of U Golden Cove, 256 channels, where a block's piece of it stays in the second cache: 10 × 10 positions take 0.74 of the
# time of the filter as it stands in one thread and 1.1 in two, 12 × 12 0.79 and 0.96, 14 × 14 0.72 and 0.65 to 0.92, 20 × 20 a half
TRANSFORMED = 30
TRANSFORMED_TAP = 12
AXES = 2  # that are shortened in one contraction: what is lost is multiplied


@record
class Window:
    """A kept axis, the reduced axis that is added to it, the taps, and how many results are a tile."""

    kept: int
    reduced: int
    taps: int
    tile: int = 1

    @property
    def points(self) -> int:
        return self.tile + self.taps - 1


def shortened(graph: Graph) -> Graph:
    """The graph with every filter that this pays for written as above."""
    known = assuming(Known(graph.size_info()), both(*graph.requires))
    sizes = {s.name: min(max(NOMINAL, s.min), s.max) for s in graph.sizes}
    done: dict[Node, View] = {}
    for n in graph.nodes():
        new = n
        if n.args:
            looks_through = n.op in OPS or n.op in ("contiguous", "reduce")
            args = tuple(_through(a, done[a.node], looks_through) for a in n.args)
            new = n if args == n.args else make(n.op, n.dtype, n.shape, args, n.attr, n.span)
        found = _Filter.of(new, known)
        windows, pays = found.choice(known, sizes) if found is not None else ((), FALSE)
        done[n] = _Writer(graph, found, windows, pays).view() if found is not None and windows else identity(new)
    return graph.with_outputs(tuple(node_of(done[n], n.shape, n.span) for _, n in graph.outputs))


def _through(view: View, found: View, may: bool) -> View:
    """An operand that reads a node, reading what stands for that; `may`: its user takes any view."""
    if not may or found.is_identity:
        return View(node_of(found, view.node.shape, view.node.span), view.index, view.domain, view.fill)
    inner = found.through(view.places)
    return View(inner.node, inner.index, view.domain, view.fill)


@record
class _Filter:
    """A sum of products of which one factor is read through windows; views over the kept, then the reduced axes.  `data` is written for windows at 0: its kept axes stand for positions."""

    node: Node
    data: View
    taps: View
    windows: tuple[Window, ...]

    @staticmethod
    def of(n: Node, known: Known) -> _Filter | None:
        if n.op != "reduce" or n.attr.combiner != "add" or n.dtype.name not in ("f32", "f64"):
            return None
        product_ = n.args[0]
        if product_.node.op != "mul" or not product_.is_identity or product_.node.shape != n.shape + n.attr.extents:
            return None
        kept, reduced = range(n.rank), range(n.rank, product_.node.rank)
        for data, taps in (product_.node.args, product_.node.args[::-1]):
            windows: list[Window] = []
            filters = _axes(taps)
            for r in reversed(reduced):
                extent = product_.node.shape[r]
                if len(windows) == AXES or not extent.is_const or extent.attr not in TAPS or r not in filters:
                    continue
                for p in reversed(kept):
                    if p in filters or p not in _axes(data) or any(w.kept == p for w in windows):
                        continue
                    moved = _tidy(data.through({axis(p): axis(p) - axis(r)}), known)  # a position, beyond the extent of the axis
                    if r not in _axes(moved):
                        windows.insert(0, Window(p, r, extent.attr))
                        data = moved
                        break
            found = _Filter(n, data, taps, tuple(windows))
            if windows and found.multiplies():
                return found
        return None

    def multiplies(self) -> bool:
        """Whether the rest is a product of matrices: a kept axis that only the taps have, a reduced one that both have."""
        extents = self.node.shape + self.node.attr.extents
        data, taps = _axes(self.data), _axes(self.taps)
        real = [k for k, e in enumerate(extents) if e is not ONE and all(k not in (w.kept, w.reduced) for w in self.windows)]
        return any(k < self.node.rank and k in taps - data for k in real) and any(k >= self.node.rank and k in taps & data for k in real)

    def choice(self, known: Known, sizes: Mapping[str, int]) -> tuple[tuple[Window, ...], Expr]:
        """The windows with the tiles that cost least at these sizes, and the condition under which that is less than the filter as it stands; no windows where it does not hold at these."""
        options = [tuple(replace(w, tile=m) for w in self.windows) for m in TILES if all(m + w.taps - 1 <= POINTS for w in self.windows)]
        if not options:
            return (), FALSE
        direct = self.cost(tuple(replace(w, tile=1) for w in self.windows))
        best = min(options, key=lambda windows: evaluate(self.cost(windows), sizes))
        pays = simplify(self.cost(best).lt(direct), known)
        return (best, pays) if evaluate(pays, sizes) else ((), pays)

    def cost(self, windows: tuple[Window, ...]) -> Expr:
        """Multiplications, and what transforming elements of the operands and of the results costs beside them; a tile of one result is no tile."""
        extents = self.node.shape + self.node.attr.extents
        slid, folded = {w.kept for w in windows}, {w.reduced for w in windows}
        data, taps = _axes(self.data) - slid, _axes(self.taps) - folded
        others = [k for k in range(len(extents)) if k not in slid | folded]
        rows = product(extents[k] for k in others if k < self.node.rank and k in data and k not in taps)
        columns = product(extents[k] for k in others if k < self.node.rank and k in taps and k not in data)
        depth = product(extents[k] for k in others if k >= self.node.rank)
        tiles, points = rows, 1
        for w in windows:
            tiles = tiles * ceildiv(extents[w.kept], w.tile)
            points *= w.points
        if all(w.tile == 1 for w in windows):
            return depth * columns * tiles * points
        return (depth * columns * (tiles + TRANSFORMED_TAP) + (depth + columns) * tiles * TRANSFORMED) * points


def _axes(view: View) -> frozenset[int]:
    """The axes of its user that a view depends on."""
    parts = (*view.index, view.domain) if view.domain is not None else view.index
    return frozenset(a.attr for e in parts for a in leaves(e, "axis"))


def _tidy(view: View, known: Known) -> View:
    domain = None if view.domain is None else simplify(view.domain, known)
    return View(view.node, tuple(simplify(e, known) for e in view.index), domain, view.fill)


class _Writer:
    """The nodes of one shortened filter.

    Axes have names while it is written: the number of an axis of the filter's domain, and for each window the strings `x`, `t`, `ξ`, `i` with its number: positions, tiles, points, places in a tile.
    """

    def __init__(self, graph: Graph, found: _Filter, windows: tuple[Window, ...], pays: Expr) -> None:
        self.b = Builder(graph.size_info(), graph.requires)
        self.b.span = found.node.span
        self.found, self.windows, self.pays = found, windows, pays
        node = found.node
        extents = node.shape + node.attr.extents
        self.extents: dict[int | str, Expr] = dict(enumerate(extents))
        for k, w in enumerate(windows):
            tiles = self.b.tidy(ceildiv(extents[w.kept], w.tile))
            more = -(-(w.taps - 1) // w.tile)  # tiles whose first elements the last window reaches
            self.extents |= {
                f"t{k}": tiles,
                f"T{k}": tiles + more,
                f"x{k}": (tiles + more) * w.tile,
                f"ξ{k}": const(w.points),
                f"i{k}": const(w.tile),
            }
        slid, folded = {w.kept for w in windows}, {w.reduced for w in windows}
        self.in_data, self.in_taps = _axes(found.data) - slid, _axes(found.taps) - folded
        real = [a for a, e in enumerate(extents) if e is not ONE and a not in slid | folded]
        kept = [a for a in real if a < node.rank]
        self.shared: list[int | str] = [a for a in kept if a in self.in_data and a in self.in_taps]
        self.of_data: list[int | str] = [a for a in kept if a in self.in_data and a not in self.in_taps]
        *self.of_taps, self.column = (a for a in kept if a not in self.in_data and a in self.in_taps)
        *self.summed, self.depth = (a for a in real if a >= node.rank)
        # where the filter is computed as it stands there are no tiles
        self.tiles = [*self.of_data, *(f"t{k}" for k in range(len(windows)))]
        self.extents[self.tiles[0]] = self.if_pays(self.extents[self.tiles[0]])

    def if_pays(self, extent: Expr) -> Expr:
        return extent if self.pays is TRUE else where(self.pays, extent, ZERO)

    # ---- tensors with named axes

    def shape(self, names: Sequence[int | str]) -> tuple[Expr, ...]:
        return tuple(self.extents[a] for a in names)

    def tensor(self, view: View, names: Sequence[int | str]) -> Tensor:
        """A view over the filter's own domain, as a tensor over some named axes; an axis that has no name is of extent 1."""
        mapping = {axis(k): ZERO for k in range(self.found.node.rank + len(self.found.node.attr.extents))}
        mapping |= {axis(self._number(a)): axis(k) for k, a in enumerate(names)}
        return Tensor(view.through(mapping), self.shape(names))

    def _number(self, name: int | str) -> int:
        return name if isinstance(name, int) else self.windows[int(name[1:])].kept

    def combined(self, matrices: Sequence[Matrix], part: Callable[[tuple[int, ...]], Tensor], at: Sequence[int]) -> Tensor:
        """A matrix for each window times the parts, one after the other without anything stored between, stacked as new axes at these places (each behind those of the windows before), made real."""
        values = {p: part(p) for p in itertools.product(*(range(len(m[0])) for m in matrices))}
        for k, matrix in enumerate(matrices):
            done: dict[tuple[int, ...], Tensor] = {}
            for before, after in dict.fromkeys((p[:k], p[k + 1 :]) for p in values):
                column = [values[(*before, j, *after)] for j in range(len(matrix[0]))]
                done |= {(*before, i, *after): x for i, x in enumerate(self.rows(matrix, column))}
            values = done
        return self.real(self.stacked([values[p] for p in sorted(values)], [len(m) for m in matrices], at))

    def rows(self, matrix: Matrix, column: list[Tensor]) -> list[Tensor]:
        """A matrix times a column."""
        steps, rows = straight_line(matrix)
        values = list(column)
        for s in steps:
            values.append(self.sum(s.terms, values))
        return [self.sum(row.terms, values) for row in rows]

    def stacked(self, parts: list[Tensor], extents: Sequence[int], at: Sequence[int]) -> Tensor:
        """Parts as the positions along new axes, the last one's side by side."""
        shape, position = [*parts[0].shape], ZERO
        for extent, place in zip(extents, at, strict=True):
            shape.insert(place, const(extent))
            position = position * extent + axis(place)
        old = {axis(k): axis(place) for k, place in enumerate(p for p in range(len(shape)) if p not in at)}
        views = [x.view.through(old) for x in parts]
        result = views[-1]
        for k in reversed(range(len(views) - 1)):  # a chain that ends with the last row: nothing is masked
            condition = self.b.mask(position.le(k), tuple(shape))
            result = identity(elementwise("where", tuple(shape), condition.view, views[k], result, span=self.b.span))
        return Tensor(result, tuple(shape))

    def real(self, x: Tensor) -> Tensor:
        """The tensor, in memory."""
        return self.b.of(contiguous_node(x.view, x.shape, self.b.span))

    def sum(self, terms: Sequence[tuple[int, Fraction]], values: Sequence[Tensor]) -> Tensor:
        """Σ coefficient · value; what is no number of the dtype is divided by."""
        b, result = self.b, None
        for k, c in sorted(terms, key=lambda t: t[1] < 0):
            x, size = values[k], abs(c)
            if size.numerator != 1:
                x = b.elementwise("mul", x, b.constant(float(size.numerator)))
            if size.denominator != 1:
                exact = size.denominator & (size.denominator - 1) == 0
                x = (
                    b.elementwise("mul", x, b.constant(1 / size.denominator))
                    if exact
                    else b.elementwise("div", x, b.constant(float(size.denominator)))
                )
            if result is None:
                result = x if c > 0 else b.elementwise("neg", x)
            else:
                result = b.elementwise("add" if c > 0 else "sub", result, x)
        assert result is not None
        return result

    def at(self, x: Tensor, place: int, index: Expr, extent: Expr | None) -> Tensor:
        """x with axis `place` read at `index`, over a new axis of this extent (None: the axis is gone)."""
        shape = [*x.shape]
        if extent is None:
            shape.pop(place)
            mapping = [axis(k) if k < place else index if k == place else axis(k - 1) for k in range(x.rank)]
        else:
            shape[place] = extent
            mapping = [index if k == place else axis(k) for k in range(x.rank)]
        return Tensor(x.view.through({axis(k): e for k, e in enumerate(mapping)}), tuple(shape))

    def side(self, view: View, lanes: int | str) -> View:
        """The view of a tensor in which an axis of the filter is the innermost: neighbours in memory are transformed side by side."""
        assert isinstance(lanes, int)
        moving = [k for k, e in enumerate(view.index) if axis(lanes) in leaves(e, "axis")]
        if len(moving) != 1 or moving[0] == len(view.index) - 1:
            return view
        # what is behind that axis in memory is one axis of the copy, as long as it can be
        at, shape = moving[0], view.node.shape
        behind, whole = [*range(at + 1, len(shape))], self.b.tidy(product(shape[at + 1 :]))
        index: list[Expr] = [*(axis(k) for k in range(at)), axis(at + 1)]
        pieces = axis(at)
        for k in behind:
            inner = self.b.tidy(product(shape[k + 1 :]))
            index.append(pieces // inner if k == behind[0] else pieces // inner % shape[k])
        flat = reduce(lambda position, k: position * shape[k] + view.index[k], behind, ZERO)
        first, *rest = (*shape[:at], whole, shape[at])
        turned = self.real(Tensor(View(view.node, tuple(index)), (self.if_pays(first), *rest)))
        return View(turned.view.node, (*view.index[:at], flat, view.index[at]), view.domain, view.fill)

    # ---- the parts

    def transformed_taps(self) -> tuple[Tensor, list[int | str]]:
        names = [*self.shared, *self.of_taps, *(a for a in (*self.summed, self.depth) if a in self.in_taps)]
        x = self.tensor(self.side(self.found.taps, self.column), [*names, *(w.reduced for w in self.windows), self.column])
        x = Tensor(x.view, (self.if_pays(x.shape[0]), *x.shape[1:]))

        def part(taps: tuple[int, ...]) -> Tensor:
            found = x
            for j in taps:
                found = self.at(found, len(names), const(j), None)
            return found

        x = self.combined([short_filter(w.tile, w.taps).taps for w in self.windows], part, range(len(self.windows)))
        return x, [*(f"ξ{k}" for k in range(len(self.windows))), *names, self.column]

    def transformed_data(self) -> tuple[Tensor, list[int | str]]:
        b, last = self.b, len(self.windows) - 1
        others = [*self.shared, *self.of_data, *(a for a in self.summed if a in self.in_data)]
        x = self.tensor(self.found.data, [*others, *(f"x{k}" for k in range(last + 1)), self.depth])
        for k, w in enumerate(self.windows):  # zeros where no result that is kept reads
            x = b.masked(x, axis(len(others) + k).lt(b.tidy(self.extents[w.kept] + w.taps - 1)), 0.0)
        x = self.real(x)

        def part(places: tuple[int, ...]) -> Tensor:
            found = x
            for k, (w, j) in enumerate(zip(self.windows, places, strict=True)):
                found = self.at(found, len(others) + k, axis(len(others) + k) * w.tile + j, self.extents[f"t{k}"])
            return found

        x = self.combined([short_filter(w.tile, w.taps).data for w in self.windows], part, range(len(self.windows)))
        return x, [*(f"ξ{k}" for k in range(last + 1)), *others, *(f"t{k}" for k in range(last + 1)), self.depth]

    def products(self) -> tuple[Tensor, list[int | str]]:
        """M over points, what both operands have, all tiles in one axis, what the taps have."""
        taps, taps_names = self.transformed_taps()
        data, data_names = self.transformed_data()
        tiles = self.tiles
        names: list[int | str] = [*(f"ξ{k}" for k in range(len(self.windows))), *self.shared, *self.of_taps, "tile", self.column]
        self.extents["tile"] = self.b.tidy(product(self.shape(tiles)))
        domain = [*names, *self.summed, self.depth]
        where = {a: axis(k) for k, a in enumerate(domain)}
        inner = ONE
        for a in reversed(tiles):
            position = where["tile"] // inner
            where[a] = position if a == tiles[0] else position % self.extents[a]
            inner = self.b.tidy(inner * self.extents[a])
        views = [x.view.through({axis(k): where[a] for k, a in enumerate(n)}) for x, n in ((data, data_names), (taps, taps_names))]
        shape = self.shape(domain)
        known = self.b.known(shape)
        factors = elementwise("mul", shape, *(_tidy(v, known) for v in views), span=self.b.span)
        x = self.real(self.b.of(reduce_node("add", self.shape(names), shape[len(names) :], identity(factors), self.b.span)))
        back = ZERO  # the tiles apart again
        new = [*names[:-2], *tiles, self.column]
        for a in tiles:
            back = back * self.extents[a] + axis(new.index(a))
        index = [*(axis(k) for k in range(len(names) - 2)), back, axis(len(new) - 1)]
        return Tensor(View(x.view.node, tuple(index)), self.shape(new)), new

    def view(self) -> View:
        """What stands for the filter, over its axes."""
        b, node = self.b, self.found.node
        x, names = self.products()
        last = len(self.windows) - 1
        # what is kept in the order of the result, the points, the tiles, the columns side by side; a row of tiles, or of results, is consecutive
        kept = [a for a in range(node.rank) if a in (*self.shared, *self.of_taps, *self.of_data)]
        order = [*kept, *(f"{c}{k}" for c in "ξt" for k in range(last + 1)), self.column]
        x = b.transpose(x, [names.index(a) for a in order])

        def part(points: tuple[int, ...]) -> Tensor:
            found = x
            for j in points:
                found = self.at(found, len(kept), const(j), None)
            return found

        x = self.combined([short_filter(w.tile, w.taps).out for w in self.windows], part, [len(kept) + 2 * k + 1 for k in range(last + 1)])
        index: list[Expr] = [axis(a) for a in kept]
        for w in self.windows:
            index += [axis(w.kept) // w.tile, axis(w.kept) % w.tile]
        assert isinstance(self.column, int)
        short = View(x.view.node, (*index, axis(self.column)))
        if self.pays is TRUE:
            return short
        short = replace(short, domain=self.pays, fill=0.0)
        return identity(elementwise("where", node.shape, b.mask(self.pays, node.shape).view, short, identity(node), span=b.span))
