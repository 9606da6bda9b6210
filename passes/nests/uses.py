"""Where the values of a graph would be computed if they were inlined, and which of them are made real for it: the rules at the head of `fuse.py`, by what they cost."""

from __future__ import annotations

from ...ir.bounds import Known
from ...ir.dtypes import DType
from ...ir.expr import ONE, ZERO, Expr, axis, both, const, in_range, var
from ...ir.graph import Graph, Node, Shape, View, operand_domain, postorder, reduced_extents, state_axes, state_count
from ...ir.instructions import INSTRUCTIONS
from ...ir.primops import OPS
from ...ir.record import record, replace
from ...ir.simplify import assuming, prove, prove_le, simplify
from ...ir.target import Target
from ...ir.walks import leaves, substitute
from ..cascades.block_sums import block_sums
from ..cascades.made_again import made_again, readers_of
from ..cascades.scores import spread
from ..costs import nominal, operation, points, read, write
from ..products.by_sizes import by_sizes
from ..reading import reads_of
from .choices import order
from .finished import leads_to, readers
from .level_zero import LEAVES, STRUCTURAL
from .planes import Planes, made_of, planes

MAX_USES = 8
IN_WORDS = frozenset(d for row in INSTRUCTIONS.values() for d in (row.left, row.right))
SPREAD = 32  # of what positions decide, and vectors: a tensor of all rows by all columns would be the largest there is, and tiles that it masks whole would not be left out
SHARE = 16  # how many times as many elements it has then as what it is made of
MIXED = 256  # planes of scores that are mixed, and rows that they are mixed for: with more, packed panels are worth a tensor of scores
WIDENED = 8  # operations that make a byte a float: as long as writing and reading it cost, for 32 rows that are read four at a time
IN_A_BYTE = 4  # elements that are packed into one
REREAD = 4  # operations in a tile of a cascade that cost no more than reading their result again there, however many rows share it


def _is_literal(n: Node) -> bool:
    """A complex number that is known: where it is used, its components stand."""
    return n.op == "complex" and all(a.node.op == "const" and a.domain is None for a in n.args)


@record
class Use:
    """Where a value would be computed: in the kernel of `root`, at `index` (over the variables of `loops`), inside `loops`, outermost first."""

    root: tuple[Node, int]  # the real node, and which of its kernels
    index: tuple[Expr, ...]
    loops: tuple[tuple[Expr, Expr], ...]  # variable, extent
    parallel: int  # how many of the loops are the root's own
    spread: bool  # the root's kernel has loops of its own, so work outside of them all would be done by one thread, or by each
    covered: bool = False  # under a mask or at positions that data decides
    kept: bool = False  # in a tile of a cascade, which keeps it for all positions of the tile
    packed: DType | None = None  # of an operand of a contraction in tiles, the sums' dtype: evaluated where panels are packed, for all tiles


def _in_order(use: Use) -> bool:
    """Whether this is what is scattered: the loops go in the order of positions that are data, so a product there has neither tiles nor threads."""
    return use.root[0].op == "scatter" and use.root[1] == 1


class Planner:
    def __init__(self, graph: Graph, apart: frozenset[Node], target: Target) -> None:
        self.graph, self.apart, self.gpu = graph, apart, target.gpu
        self.in_words = {
            d for row in INSTRUCTIONS.values() if row.name in target.instructions for d in (row.left, row.right)
        }  # what this machine multiplies
        self.reductions: dict[tuple[Node, int], dict[Node, int]] = {}  # computed in the kernels of a root, and inside how many loops
        self.in_tiles: dict[tuple[Node, int], set[Node]] = {}  # those in a tile of a cascade
        self.values = nominal(graph.size_info())
        self.known = Known(graph.size_info())
        self.uses: dict[Node, dict[Use, None]] = {n: {} for n in graph.nodes()}
        self.outputs = {n for _, n in graph.outputs}
        self.operations: dict[Node, float] = {}  # of a node with its pointwise operands
        self.reads: dict[Node, float] = {}  # cost of what it reads from memory, each source once
        self.sources: dict[Node, tuple[Node, ...]] = {}  # what it reads from memory
        self.variables = 0
        self.results: dict[tuple[View, ...], list[Node]] = {}  # of each cascade
        self.states: set[Node] = set()
        self.tiled: set[tuple[Node, int]] = set()  # kernels that hold a cascade of products
        self.along: set[Expr] = set()  # variables of loops along a cascade
        # loops along a cascade: the rows that share what they multiply its weights with
        self.shared: dict[tuple[tuple[Expr, Expr], ...], set[Expr]] = {}
        for n in self.uses:
            if n.op == "cascade":
                self.results.setdefault(n.args, []).append(n)
                self.states.update(a.node for a in n.args[: state_count(n)])
        # loops that stay loops read tensors, but for those that walk along in a cascade
        self.outputs |= {a.node for n in self.uses if n.op == "nest" and n not in self.states for a in n.args if a.node.op not in LEAVES}
        self.read_by = readers(graph.nodes())
        self.planes = [] if self.gpu else [p for found in self.results.values() for p in self.mixed(found[0])]
        self.readers = readers_of(self.states)
        self.blocks = block_sums(graph, target)
        self.in_blocks = {n for r in self.blocks for n in postorder(r.args[0].node)}
        self.in_planes = {n for p in self.planes for n in made_of(p.node)}

    def real(self) -> set[Node]:
        nodes = self.graph.nodes()
        for n in nodes:
            self.estimate(n)
        chosen: set[Node] = set()
        for n in reversed(nodes):
            if n.op in LEAVES or n in self.states or _is_literal(n):
                continue
            if n.op == "cascade":
                if n is self.results[n.args][0]:  # the first of them in order: all users of all are known
                    chosen.update(self.cascade(self.results[n.args]))
            elif n in self.outputs or n.op in STRUCTURAL:
                self.root(n)
            elif self.wants_memory(n):
                chosen.add(n)
                self.root(n)
            else:
                for use in self.uses[n]:
                    self.inlined(n, use)
        return chosen

    def cascade(self, results: list[Node]) -> list[Node]:
        """Compute a cascade where its results are used, or (the results to be made real) in a kernel of its own."""
        rows = len(results[0].attr.extents)
        uses: dict[Use, None] = {}
        local = False  # a row of more results than are known, which a thread of a GPU would have to keep
        for n in results:
            places, further = state_axes(n, n.attr.result)
            for u in self.uses[n]:
                at = dict(zip(places, u.index, strict=True))
                tiled = {v for v, _ in u.loops[: u.parallel]}
                local = local or (self.gpu and any(not e.is_const and at[rows + k] not in tiled for k, e in enumerate(further)))
                uses.setdefault(replace(u, index=tuple(at[j] for j in range(rows))))
        placed = {(u.root, u.index): self.placed(u) for u in uses}
        products = any(v.node.op == "reduce" and self.is_contraction(v.node) for v in results[0].args[: state_count(results[0])])
        ordered = products and any(_in_order(u) for u in uses)
        beside = products and any(u.root in self.tiled for u in uses)  # each wants blocks of rows of its own
        if products:
            self.tiled.update(u.root for u in uses)
        alone = beside or ordered or local or any(n in self.outputs or n in self.apart for n in results)
        if not alone and len(placed) == 1 and not any(u.covered for u in uses):
            ((around, reducing),) = placed.values()
            fits = self.trips(around) <= points(results[0].attr.extents, self.values)
            use = next(iter(uses))
            within = any(v in self.along for v, _ in around)  # each further position of what reads it in a tile would have its own
            if (
                fits
                and not within
                and not reducing
                and (around or not any(u.spread for u in uses))
                and self.unguarded(use, len(around), results[0].attr.extents)
            ):
                self.reductions.setdefault(use.root, {})[results[0]] = len(around)
                self.inside_cascade(results[0], use)
                return []
        loops = self.fresh(results[0].attr.extents)
        self.inside_cascade(results[0], Use((results[0], 0), tuple(v for v, _ in loops), loops, len(loops), bool(loops)))
        apart = beside or local or any(n in self.apart for n in results)
        return [] if not apart and self.side_by_side(results, uses) else [n for n in results if n not in self.outputs]

    def side_by_side(self, results: list[Node], uses: dict[Use, None]) -> bool:
        """Whether the real nodes that use a cascade do so each at its own row, and need nothing of one another: then one kernel makes them all (`make_nests`).

        Statistics alone are for rows that are consecutive in memory; of columns, they are worked out many side by side, and read again by who needs them.
        """
        rows = results[0].attr.extents
        alone = not any(state_axes(results[0], k)[1] for k in range(state_count(results[0])))
        roots = dict.fromkeys(u.root[0] for u in uses)
        for u in uses:
            own = {v: extent for v, extent in u.loops[: u.parallel] if v not in self.along}
            plain = len(set(u.index)) == len(rows) and all(own.get(e) is n for e, n in zip(u.index, rows, strict=True))
            scattered = alone and {v for v, _ in u.loops[: len(rows)]} != set(u.index)
            if not rows or u.covered or not plain or scattered or u.root[0].op in ("nest", "scan", "scatter", "update"):
                return False
        if len({(u.root, u.index) for u in uses}) != len(roots):
            return False
        return not any(n in roots for root in roots for n in postorder(*(a.node for a in root.args)))

    def unguarded(self, use: Use, depth: int, extents: Shape) -> bool:
        """Whether a value may be computed outside of the inner loops of its use without asking first whether they run: it is read inside whatever they do."""
        if depth == len(use.loops):
            return True
        around = use.loops[:depth]
        known = assuming(self.known, both(*self.graph.requires)).with_ranges({v.attr: (0, extent - 1, 1) for v, extent in around})
        known = assuming(known, both(*(ONE.le(extent) for _, extent in around)))
        return prove(in_range(use.index, extents), known)

    def inside_cascade(self, n: Node, use: Use) -> None:
        """What the states of a cascade read is used once for each position of a tile, however many further axes a state has."""
        around, _ = self.placed(use)
        along = self.fresh(reduced_extents(n.args[0].node))
        self.along.update(v for v, _ in along)
        for k, view in enumerate(n.args[: state_count(n)]):
            places, extents = state_axes(n, k)
            further = self.fresh(extents) if view.node.op == "reduce" else ()  # a nest walks its operand once
            if further:
                within = {axis(a) for a, j in enumerate(places) if j >= len(use.index)}
                rows = {e.attr for missing in self.missing(view.node) if within - missing for e in missing - within}
                self.shared.setdefault(along, set()).update(v for a in rows for v in leaves(use.index[places[a]], "var"))
            point = (*use.index, *(v for v, _ in further))
            index = (*(point[j] for j in places if j < len(point)), *(v for v, _ in along))
            self.reading(view.node, 0, replace(use, index=index, loops=(*around, *along, *further), parallel=len(around) + len(along), kept=True))

    def mixed(self, cascade: Node) -> list[Planes]:
        """The planes of the scores that a cascade mixes (`planes.py`), where other rows are left for threads and blocks, and tiles of all planes are not known to leave the second cache."""
        found = planes(cascade, lambda n: n.op in STRUCTURAL or n in self.outputs or n in self.apart)
        rows = cascade.attr.extents
        inside = {k for p in found for k in p.rows}
        if all(e is ONE for k, e in enumerate(rows) if k not in inside):
            return []
        lengths = (e for p in found for e in (*p.mixed.attr.extents, *(rows[k] for k in p.rows)))
        return [] if any(prove_le(const(MIXED + 1), e, self.known) for e in lengths) else found

    def stored_planes(self, real: set[Node]) -> list[Node]:
        """Mixed scores whose planes somebody else wants in memory: they are a tensor too."""
        return [p.mixed for p in self.planes if p.mixed not in real and not made_of(p.node).isdisjoint(real)]

    def branches(self, root: tuple[Node, int], inside: dict[Node, int]) -> list[tuple[tuple[Node, int], dict[Node, int]]]:
        """What is reduced in the kernels of a root, apart for each of two values between which the sizes choose: these are never both computed."""
        choice = by_sizes(root[0].args[0].node if root[0].op == "contiguous" else root[0])
        if choice is None:
            return [(root, inside)]
        sides = (set(postorder(v.node)) for v in choice.sides)
        return [(root, {n: depth for n, depth in inside.items() if n in side}) for side in sides]

    def beside_contractions(self) -> list[Node]:
        """Reductions, and cascades, that are computed in fewer loops than a contraction in the same kernel (that is not in their own tiles); of contractions in as many, each in tiles, all but the last."""
        found = []
        for root, inside in (part for whole, every in self.reductions.items() for part in self.branches(whole, every)):
            depths = {n: depth for n, depth in inside.items() if n not in self.blocks and self.is_contraction(n)}
            deep = max(depths.values(), default=0)
            outside = max((depth for n, depth in depths.items() if n not in self.in_tiles.get(root, ())), default=0)
            found += [n for n, depth in inside.items() if depth < (outside if n.op == "cascade" else deep)]
            *others, _ = [None, *(n for n, depth in inside.items() if depth == deep and n not in self.in_tiles.get(root, ()) and self.wants_tiles(n))]
            found += [n for n in others if n is not None]
        return found

    def wants_tiles(self, n: Node) -> bool:
        """Whether each of two operands of what is summed is used again along an axis that the other varies with, and the work is worth a tensor in memory."""
        missing = self.missing(n) if n.op == "reduce" else []
        both_ways = any(a - b and b - a for a in missing for b in missing)
        return both_ways and points(n.attr.extents, self.values) * (1 + self.operations[n.args[0].node]) > write(n.dtype) + read(n.dtype)

    def estimate(self, n: Node) -> None:
        pointwise = [a.node for a in n.args if a.node.op in OPS or a.node.op == "gather"]
        inner = dict.fromkeys(pointwise)
        self.operations[n] = operation(n.op) + sum(self.operations[m] for m in inner)
        sources = dict.fromkeys(a.node for a in n.args if a.node not in inner and a.node.op not in ("const", "iota"))
        self.reads[n] = sum(read(m.dtype) for m in sources) + sum(self.reads[m] for m in inner)
        self.sources[n] = tuple(dict.fromkeys((*sources, *(s for m in inner for s in self.sources[m]))))

    # ---- the decision

    def wants_memory(self, n: Node) -> bool:
        uses = self.uses[n]
        if not uses:
            return False
        if len(uses) > MAX_USES:
            return True
        if n in self.in_planes and all(u.kept and not u.covered for u in uses):
            return n in self.apart
        if n.op != "reduce":
            return self.pointwise_wants_memory(n)
        return n in self.apart or (n not in self.blocks and self.reduction_wants_memory(n))

    def pointwise_wants_memory(self, n: Node) -> bool:
        if all(u.kept for u in self.uses[n]) and self.operations[n] <= (SPREAD if self.is_spread(n) or self.of_scores(n) else REREAD):
            return False
        if all(u.packed for u in self.uses[n]) and (self.is_widened(n) or self.is_computed_narrow(n)):
            return False
        own = points(n.shape, self.values)
        roots = dict.fromkeys(u.root for u in self.uses[n])
        once = {(u.root, u.index): u for u in self.uses[n] if u.kept}  # whoever reads a tile's value reads the same one
        evaluations = sum(self.trips(self.placed(u)[0]) for u in (*once.values(), *(u for u in self.uses[n] if not u.kept)))
        inlined = evaluations * self.operations[n] + len(roots) * own * self.reads[n]
        stored = own * (self.operations[n] + self.reads[n] + write(n.dtype) + len(roots) * read(n.dtype))
        if len({(u.root, u.index) for u in self.uses[n]}) > 1 and not any(u.kept or u.packed for u in self.uses[n]):
            # a contraction that is read through it alone would be made real for its several readers: so it is finished where it is computed
            held = [m for m in self.sources[n] if self.wants_tiles(m) and leads_to(m, n, self.read_by, self.outputs)]
            inlined += sum(own * write(m.dtype) for m in held)
            stored -= sum(own * read(m.dtype) for m in held)
        return inlined > stored

    def of_scores(self, n: Node) -> bool:
        """Whether it is made of scores, which stay in the tiles of cascades if what is made of them does."""
        return any(m.op == "reduce" and spread(m) for m in self.sources[n])

    def is_spread(self, n: Node) -> bool:
        """Whether it is made of positions, and of tensors that together have a small part of its elements: a mask of rows by columns."""
        return sum(points(m.shape, self.values) for m in self.sources[n]) * SHARE <= points(n.shape, self.values)

    def is_widened(self, n: Node) -> bool:
        """Whether few operations make a value of fewer bytes than it has itself: of weights of 8 bits, or two in a byte, and their scales; of windows that have elements several times.  As an operand of a contraction it is made where panels
        are packed, or rows are read: the bytes of a tensor cost more.  One as wide as what it is made of costs less than the variants that want operands as they lie, but for an integer that
        becomes a float in any of them; one that machines multiply by words or tiles costs less than those, but in sums of blocks, which are of words in all of them."""
        becomes_other = n in self.in_blocks or (n.dtype.is_integer and all(u.packed is not None and u.packed.is_float for u in self.uses[n]))
        if (n.dtype in IN_WORDS and not becomes_other) or self.operations[n] > WIDENED:
            return False
        own = points(n.shape, self.values)
        made_of = {m: min(own, points(m.shape, self.values)) for m in self.sources[n]}  # of a block of bytes that has a scale, the scale
        several = any(count * IN_A_BYTE >= own for count in made_of.values())
        before, after = sum(count * m.dtype.bytes for m, count in made_of.items()), own * n.dtype.bytes
        return several and (before < after or (becomes_other and before == after))

    def is_computed_narrow(self, n: Node) -> bool:
        """Whether it only widens what is computed in fewer bytes, of which machines multiply words (activations that are quantised): these are made real then, and widened where panels are packed."""
        source = n.args[0]
        return (
            n.op == "cast"
            and source.node.op in OPS
            and source.domain is None
            and source.node.dtype in self.in_words
            and source.node.dtype.bytes < n.dtype.bytes
        )

    def reduction_wants_memory(self, n: Node) -> bool:
        placed = {(u.root, u.index): self.placed(u) for u in self.uses[n]}
        if (len(placed) > 1 and not self.made_again(n)) or any(u.covered for u in self.uses[n]):
            return True
        if self.is_contraction(n) and any(_in_order(u) for u in self.uses[n]):
            return True
        own = points(n.shape, self.values)
        if any(self.trips(around) > own for around, _ in placed.values()) or any(self.crosswise(n, u) for u in self.uses[n]):
            return True
        spread = any(u.spread for u in self.uses[n])
        return any((spread and not around) or (reducing and (self.is_contraction(n) or self.lies_across(n))) for around, reducing in placed.values())

    def made_again(self, n: Node) -> bool:
        """Whether scores that several cascades read, each at one place, are made in each (`made_again.py`)."""
        once = {(u.root, u.index) for u in self.uses[n]}
        if self.gpu or not all(u.kept for u in self.uses[n]) or len(once) != len({root for root, _ in once}) or not spread(n):
            return False
        return made_again(n, self.readers.get(n, ()), self.known, cascades=True).yes

    def placed(self, use: Use) -> tuple[tuple[tuple[Expr, Expr], ...], bool]:
        """The loops around a value that is computed as far out as its index allows, and whether one of them reduces."""
        if use.covered:
            return use.loops, len(use.loops) > use.parallel
        mentioned = {v for e in use.index for v in leaves(e, "var")}
        depth = max((k + 1 for k, (v, _) in enumerate(use.loops) if v in mentioned), default=0)
        return use.loops[:depth], depth > use.parallel

    def crosswise(self, n: Node, use: Use) -> bool:
        """Whether scores are a product whose columns other rows share than those of the product with them (heads that are mixed): no block of rows would be a tile of both."""
        loops, rows = next(((along, rows) for along, rows in self.shared.items() if use.kept and set(along) <= set(use.loops)), ((), ()))
        if not rows or not self.wants_tiles(n) or any(n is p.mixed for p in self.planes):
            return False
        along = {axis(a) for a, e in enumerate(use.index) if any(e is v for v, _ in loops)}
        columns = (missing for missing in self.missing(n) if along - missing)
        return not any(v in rows for missing in columns for e in missing for v in leaves(use.index[e.attr], "var"))

    def is_contraction(self, n: Node) -> bool:
        """Some operand of what is summed does not vary along every kept axis, so its elements are used again."""
        return n.op == "reduce" and any(self.missing(n))

    def missing(self, n: Node) -> list[set[Expr]]:
        """For each operand of what is summed: the kept axes along which it does not vary."""
        kept = {axis(k) for k, e in enumerate(n.shape) if not e.is_const or e.attr > 1}
        stack = [(n.args[0], tuple(axis(k) for k in range(len(n.shape) + len(n.attr.extents))))]
        found: list[set[Expr]] = []
        seen: set[tuple[Node, Shape]] = set()
        while stack:
            view, position = stack.pop()
            index = tuple(substitute(e, {axis(k): p for k, p in enumerate(position)}) for e in view.index)
            if (view.node, index) in seen:
                continue
            seen.add((view.node, index))
            if view.node.op in OPS and len(stack) < MAX_USES:
                stack.extend((a, index) for a in view.node.args)
            elif view.node.op not in ("const", "iota"):
                found.append(kept - {a for e in index for a in leaves(e, "axis")})
        return found

    def lies_across(self, n: Node) -> bool:
        """Whether what a reduction inside of another one reads is consecutive along that one: as a tensor, its results are worked out many side by side."""
        outside = {axis(k) for u in self.uses[n] for k, e in enumerate(u.index) if any(e is v for v, _ in u.loops[u.parallel :])}
        found = False
        for view in reads_of(n.args[0]):
            axes = leaves(view.index[-1], "axis") if view.index and view.node.op not in ("const", "iota") else set()
            if any(a.attr >= n.rank for a in axes):
                return False
            found = found or not outside.isdisjoint(axes)
        return found

    def trips(self, loops: tuple[tuple[Expr, Expr], ...]) -> float:
        return points(tuple(extent for _, extent in loops), self.values)

    # ---- where operands are used

    def fresh(self, shape: Shape) -> tuple[tuple[Expr, Expr], ...]:
        self.variables += len(shape)
        return tuple((var(f"v{self.variables - len(shape) + k}"), extent) for k, extent in enumerate(shape))

    def root(self, n: Node) -> None:
        """`n` gets kernels of its own; its operands are used there."""
        if n.op in ("scatter", "update"):
            for k in range(len(n.args)):
                loops = self.fresh(operand_domain(n, k))
                self.reading(n, k, Use((n, min(k, 1)), tuple(v for v, _ in loops), loops, len(loops), bool(loops)))
        elif n.op == "scan":
            loops = self.fresh(n.shape)
            last = n.attr.axis
            nest = (*loops[:last], *loops[last + 1 :], loops[last])
            self.reading(n, 0, Use((n, 0), tuple(v for v, _ in loops), nest, len(loops) - 1, len(loops) > 1))
        elif n.op != "nest":
            loops = self.fresh(n.shape)
            nest = loops if self.gpu else tuple(loops[k] for k in order(n))
            self.inlined(n, Use((n, 0), tuple(v for v, _ in loops), nest, len(loops), bool(loops)))

    def inlined(self, n: Node, use: Use) -> None:
        """The operands of `n` are used where it is computed."""
        around, _ = self.placed(use)
        use = replace(use, loops=around, parallel=min(use.parallel, len(around)))
        if n.op == "reduce":
            self.reductions.setdefault(use.root, {})[n] = min(len(around), n.rank) if n in self.in_planes else len(around)
            if use.kept:
                self.in_tiles.setdefault(use.root, set()).add(n)
            reduced = self.fresh(n.attr.extents)
            index = (*use.index, *(v for v, _ in reduced))
            self.reading(
                n,
                0,
                replace(
                    use,
                    index=index,
                    loops=(*around, *reduced),
                    packed=n.dtype if not use.kept and (n in self.blocks or self.wants_tiles(n)) else None,
                ),
            )
        elif n.op == "gather":
            for k in range(1, len(n.args)):
                self.reading(n, k, use)
            positions = tuple(v for v, _ in self.fresh(n.attr.extents))
            self.reading(n, 0, replace(use, index=positions, covered=True))
        else:
            for k in range(len(n.args)):
                self.reading(n, k, use)

    def reading(self, n: Node, k: int, use: Use) -> None:
        view = n.args[k]
        if view.node.op in LEAVES:
            return
        mapping = {axis(a): e for a, e in enumerate(use.index)}
        index = tuple([substitute(e, mapping) for e in view.index])
        extents = dict(use.loops)
        inside = use.kept
        if any(
            extents.get(e) is not n for e, n in zip(index, view.node.shape, strict=True)
        ):  # else each is the variable of a loop over the whole axis
            known = self.known.with_ranges({v.attr: (0, extent - 1, 1) for v, extent in use.loops})
            index = tuple([simplify(e, known) for e in index])
            inside = inside and all(prove_le(ZERO, e, known) and prove_le(e, n - 1, known) for e, n in zip(index, view.node.shape, strict=True))
        covered = use.covered or (view.domain is not None and not inside)
        self.uses[view.node].setdefault(replace(use, index=index, covered=covered))
