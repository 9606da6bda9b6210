"""graph → kernels: one kernel for each node that is made real.

Real are: outputs, `contiguous`, `nest`, `scatter`, `update`, `scan`, and the operands of a `nest`.  Everything else is computed where it is used
(`nest_body.py`), so what is fused was decided before, by the `contiguous` nodes that `fuse` put in.

    %1 = reduce.add f32[M, N] over [K] …          for i in 0 .. M parallel:
    %2 = add f32[M, N] C %1                         for j in 0 .. N parallel:
    output C = %2                        →            alloc acc: f32[] register
                                                      acc[] = 0.0:f32
                                                      for p in 0 .. K reduce:
                                                        acc[] add= mul(A[i, p], B[p, j])
                                                      C[i, j] = add(C[i, j], acc[])

1. Each real node (the results of one nest together) becomes a `Piece`: its statements, over *versions*, one name a tensor in memory.
2. `homes.py` binds versions to buffers: an output to its port, a new version to the memory of the one that it replaces where nobody is hurt by
   that, the rest to temporaries; it says what must be copied first and in which order the pieces run.
3. The pieces become kernels, in order, with the copies that were found necessary.
"""

from __future__ import annotations

import itertools

from ..ir.bounds import Known
from ..ir.dtypes import INDEX
from ..ir.expr import FALSE, TRUE, Expr, axis, both, call, cast, const, load
from ..ir.graph import Graph, Node, View, real_node, reduced_extents, state_axes, state_count
from ..ir.kernel import Block, Buffer, If, Kernel, Let, Loop, Module, written
from ..ir.record import replace
from ..ir.renaming import Names, defined, rename_buffers, unique_locals
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from ..ir.text.expressions import show_expr
from ..ir.walks import substitute
from .nests.borders import split_borders
from .nests.choices import choice, order, size_condition
from .nests.homes import Piece, bind, loads, zeros_block
from .nests.nest_body import OUTPUT_AXES, NestBody
from .nests.stored_whole import stored_whole
from .reading import several_reductions

REAL = frozenset({"contiguous", "nest", "scatter", "update", "scan"})


def make_nests(ir: Graph, target: Target, options: Options) -> Module:
    graph = _distinct_outputs(ir)
    return _Maker(graph, target, options).module()


def _distinct_outputs(graph: Graph) -> Graph:
    """Every output a node of its own that computes something: a second output of one node, or a port that is returned, becomes a copy."""
    seen: set[Node] = set()
    outputs = []
    for name, node in graph.outputs:
        unchanged = node.op == "input" and node.attr.name == name
        while not unchanged and (node in seen or node.op == "input"):
            node = real_node(node)
        seen.add(node)
        outputs.append(node)
    return graph.with_outputs(tuple(outputs))


def _reasons(graph: Graph, target: Target) -> tuple[str, ...]:
    """What the sizes choose, and what is in the way of a cascade."""
    if not several_reductions(graph.nodes()):
        return ()
    from .cascade import why_not
    from .cascades.made_again import several_times
    from .reassociate import chosen_orders

    return (*chosen_orders(graph), *several_times(graph), *why_not(graph, target))


class _Maker:
    def __init__(self, graph: Graph, target: Target, options: Options) -> None:
        self.graph, self.target, self.options = graph, target, options
        self.scalars = frozenset(p.name for p in graph.ports if p.role == "scalar")
        nodes = graph.nodes()
        walking = {a.node for n in nodes if n.op == "cascade" for a in n.args[: state_count(n)]}
        real = {n for _, n in graph.outputs} | {n for n in nodes if n.op in REAL and n not in walking}
        real |= {a.node for n in nodes if n.op == "nest" and n not in walking for a in n.args}
        self.real = [n for n in nodes if n in real and n.op != "input"]
        self.names = Names(s.name for s in graph.sizes)
        self.names.taken.update(name for name, _ in graph.derived)
        self.names.taken.update(p.name for p in graph.ports)
        # While pieces are made, a version has a name that nobody can have written; temporaries are named in the end.
        self.version: dict[Node, str] = {n: n.attr.name for n in nodes if n.op == "input"}
        self.version.update((n, f"%{k}") for k, n in enumerate(self.real))
        self.known = assuming(Known(graph.size_info()), both(*graph.requires))
        self.rows = {n: found for n in self.real if (found := self._cascades_of(n))} if any(n.op == "cascade" for n in nodes) else {}
        self.asked: dict[tuple[View, ...], set[int]] = {}
        self.cascades: dict[tuple[View, ...], Node] = {}  # one node for each
        self.mixed: dict[tuple[Node, ...], dict[tuple[View, ...], list[int]]] = {}  # of `NestBody.mixing`, by what is computed
        for n in nodes:
            if n.op == "cascade":
                self.asked.setdefault(n.args, set()).add(n.attr.result)
                self.cascades[n.args] = n
        self.buffers = [Buffer(self.version[n], n.dtype, n.shape) for n in self.real]

    def module(self) -> Module:
        graph = self.graph
        pieces: list[Piece] = []
        done: set[Node] = set()
        for node in self.real:
            if node not in done:
                group = self._group(node)
                done.update(group)
                pieces.append(self._divided(group, self._piece(node, group)))
        outputs = {self.version[n]: name for name, n in graph.outputs if n.op != "input"}
        plan = bind(graph, pieces, self.buffers, outputs, self.names.taken)
        locals_ = Names((*self.names.taken, *(name for block, _ in plan.kernels for name in defined(block))))
        names = {t.name: locals_.fresh("temp") for t in plan.temps}
        temps = tuple(replace(t, name=names[t.name]) for t in plan.temps)
        order = [p.name for p in graph.ports] + [t.name for t in temps]
        shapes = {**{p.name: p.shape for p in graph.ports}, **{t.name: t.shape for t in temps}}
        kernels: list[Kernel] = []
        for renamed, notes in plan.kernels:
            block = rename_buffers(renamed, names)
            if self.target.gpu and len(launches := self._launches(block)) > 1:
                *others, block = launches
                for part in others:
                    used = loads(part).keys() | written(part)
                    kernels.append(Kernel(f"{graph.name}_{len(kernels)}", tuple(n for n in order if n in used and n not in self.scalars), part))
            if self.options.level > 0 and not self.target.gpu:  # there, a mask is cheap and one loop a grid
                block = split_borders(block, self.known, Names((*locals_.taken, *names.values())).fresh, shapes)
            used = loads(block).keys() | written(block)
            if len(kernels) == len(plan.kernels) - 1 and self.options.level > 1:
                notes = (*notes, *_reasons(graph, self.target))
            kernels.append(Kernel(f"{graph.name}_{len(kernels)}", tuple(n for n in order if n in used and n not in self.scalars), block, notes=notes))
        return Module(graph.name, graph.sizes, graph.ports, temps, tuple(kernels), graph.derived, graph.requires, graph.documentation, graph.source)

    def _launches(self, block: Block) -> list[Block]:
        """On a GPU, where no block of threads waits for the others: parallel loops that stand one after the other, under a condition on the sizes, apart."""
        branch = block[0] if len(block) == 1 and isinstance(block[0], If) else None
        body = block if branch is None else branch.body
        names = tuple(s for s in body if isinstance(s, Let))
        loops = [s for s in body if not isinstance(s, Let)]
        if len(loops) < 2 or not all(isinstance(s, Loop) and s.kind == "parallel" for s in loops):
            return [block]
        parts = [(*names, s) for s in loops]
        if branch is None:
            return parts
        return [(If(branch.condition, part, branch.orelse if part is parts[-1] else ()),) for part in parts]

    # ---- pieces

    def _cascades_of(self, node: Node) -> dict[tuple[View, ...], tuple[int, ...]]:
        """The cascade that is computed where a real node is, if there is one and it is read at one row alone: its operands, and which axes of the node its rows are."""
        found: dict[tuple[View, ...], set[tuple[Expr, ...]]] = {}
        if node.op in ("nest", "scan", "scatter", "update"):
            return {}
        seen: set[tuple[Node, tuple[Expr, ...]]] = set()
        extents: tuple[Expr, ...] = ()
        stack = [(node, tuple(axis(k) for k in range(node.rank)))]
        while stack:
            n, at = stack.pop()
            if (n, at) in seen or (n in self.version and n is not node and n.op != "cascade"):
                continue
            seen.add((n, at))
            if n.op == "cascade":
                places, _ = state_axes(n, n.attr.result)
                rows = dict(zip(places, at, strict=True))
                found.setdefault(n.args, set()).add(tuple(rows[j] for j in range(len(n.attr.extents))))
                extents = n.attr.extents
                continue
            mapping = {axis(k): e for k, e in enumerate(at)}
            stack += [(a.node, tuple(substitute(e, mapping) for e in a.index)) for a in n.args]
        if len(found) != 1:
            return {}
        ((args, rows_of),) = found.items()
        if len(rows_of) != 1:
            return {}
        (index,) = rows_of
        plain = len(set(index)) == len(index) and all(
            e.op == "axis" and e.attr < node.rank and node.shape[e.attr] is n for e, n in zip(index, extents, strict=True)
        )
        return {args: tuple(e.attr for e in index)} if plain else {}

    def _group(self, node: Node) -> list[Node]:
        """The real nodes that one piece computes: all results of a nest, all that are made of one cascade row by row, else the node alone."""
        for args in self.rows.get(node, ()):
            return [n for n in self.real if args in self.rows.get(n, ())]
        if node.op != "nest":
            return [node]
        return [n for n in self.real if n.op == "nest" and n.attr.nest == node.attr.nest and n.args == node.args]

    def _body(self, *computing: Node, known: Known | None = None) -> NestBody:
        """An empty kernel; every real node but these is in memory."""
        body = NestBody(
            Names(self.names.taken),
            known or self.known,
            lambda n: None if n in computing else self.version.get(n),
            self.scalars,
            self.options.unchecked,
            self.target.instructions,
            self.target.gpu,
        )
        body.asked = self.asked
        body.mixed = self.mixed.setdefault(computing, {})
        return body

    def _piece(self, node: Node, group: list[Node]) -> Piece:
        match node.op:
            case "nest":
                return self._nest(node, group)
            case "scan":
                return self._scan(node)
            case "scatter":
                return self._scatter(node)
            case "update":
                return self._update(node)
            case _ if len(group) > 1:
                return self._side_by_side(group)
            case _:
                return self._pointwise(node)

    def _pointwise(self, node: Node) -> Piece:
        """Every element by itself; what is made of a cascade in two ways, where short rows are better off without."""
        name, notes, blocks = self.version[node], [], []
        by_size = None if self.target.gpu else size_condition(node, self.version)
        if by_size is not None:
            return Piece((name,), self._two_ways(node, name, by_size))
        plain, short = self._short(node)
        for n, holds in ((plain, short), (node, None if short is None else simplify(call("bit_not", short)))):
            if holds is FALSE:
                continue
            body = self._body(node, n)
            body.root.known = assuming(self.known, holds)
            self._each(body, name, n)
            blocks.append(body.block)
            notes += body.notes
            if short is None or short is TRUE:
                break
        if short is None or len(blocks) == 1:
            return Piece((name,), blocks[0], notes=tuple(notes))
        from .nests.short_rows import either

        return Piece((name,), either(short, blocks[0], blocks[1], self.names.taken), notes=tuple(notes))

    def _two_ways(self, node: Node, name: str, condition: Expr) -> Block:
        """A value that depends on the sizes alone in another way: a nest for each."""
        blocks: list[Block] = []
        for holds in (condition, simplify(call("bit_not", condition), self.known)):
            body = self._body(node)
            body.root.known = assuming(self.known, holds)
            self._each(body, name, node)
            blocks.append(body.block)
        fresh = Names((*self.names.taken, *defined(blocks[1]))).fresh
        return (If(condition, unique_locals(blocks[0], fresh), blocks[1]),)

    def _each(self, body: NestBody, name: str, node: Node) -> None:
        """Store every element, those that differ in a choice side by side; what is made of a cascade row by row, wherever the axes of its rows stand."""
        chosen = () if self.target.gpu else choice(node)  # there, every element is a thread's own
        rows = () if self.target.gpu else next(iter(self.rows.get(node, {}).values()), ())
        inside = {rows[j] for j in self._mixing(node, body)}
        axes = (
            (*(a for a in rows if a not in inside), *inside, *(a for a in range(node.rank) if a not in rows))
            if not chosen
            else order(node)[: -len(chosen)]
        )
        with body.nest(tuple(node.shape[a] for a in axes)) as found:
            at = dict(zip(axes, found, strict=True))
            for places in itertools.product(*(range(node.shape[a].attr) for a in chosen)):
                at |= {a: const(k) for a, k in zip(chosen, places, strict=True)}
                point = tuple(at[a] for a in range(node.rank))
                body.store(name, point, body.value(node, point))

    def _mixing(self, node: Node, body: NestBody) -> list[int]:
        """Of the rows of the cascade that is computed where a node is: those whose loops stand inside it."""
        return [j for args in self.rows.get(node, ()) for j in body.mixing(self.cascades[args])]

    def _short(self, node: Node) -> tuple[Node, Expr | None]:
        """The node without its cascade, and under which condition that is better; the node itself and None where it never is."""
        if node not in self.rows or self.target.gpu:
            return node, None
        from .nests.short_rows import short_row, without_cascades

        plain = without_cascades(node, self.version)
        ((places),) = self.rows[node].values()
        condition = short_row(node, plain, len(places)) if places == tuple(range(len(places))) else None
        condition = None if condition is None else simplify(condition, self.known)
        return (node, None) if condition is None or condition is FALSE else (plain, condition)

    def _divided(self, group: list[Node], piece: Piece) -> Piece:
        """A piece that computes a cascade row by row, with what takes its place where rows are few and long (`split_cascade.py`)."""
        rows = self.rows.get(group[0], {})
        if not rows:
            return piece
        from .nests.split_cascade import Split, part_buffers, write_parts, write_results

        for args in rows:
            cascade = self.cascades[args]
            if self.target.gpu:
                split = Split.of_blocks(cascade, self.known, self.target.cores)
            else:
                split = Split.of(cascade, self.known, self._mixing(group[0], self._body(*group)))
            if any(a.node.op == "nest" for a in args):
                continue  # two halves of a loop cannot be merged
            if self.options.level < 2 or split.few is FALSE or len(reduced_extents(cascade.args[0].node)) != 1:
                continue
            parts = part_buffers(cascade, split, len(self.buffers))
            self.buffers += parts
            known = assuming(self.known, split.few)
            body = self._body(*group, known=known)
            body.names.taken.update(defined(piece.block))
            split = split.named(body, cascade)
            write_parts(body, cascade, split, parts)
            write_results(body, cascade, split, parts, {n: self.rows[n][args] for n in group}, self.version)
            note = f"where `{show_expr(split.few)}`, chunks of a row are worked off side by side, and their states merged in order"
            block = body.block
            if split.few is not TRUE:
                block = (If(split.few, block, piece.block),)
            return piece._replace(writes=(*piece.writes, *(b.name for b in parts)), block=block, notes=(*piece.notes, note))
        return piece

    def _side_by_side(self, group: list[Node]) -> Piece:
        """What is made of one cascade, stored side by side inside the loops over its rows."""
        body = self._body(*group)
        (args,) = self.rows[group[0]]
        outside = [j for j in range(len(self.rows[group[0]][args])) if j not in body.mixing(self.cascades[args])]
        extents = tuple(group[0].shape[self.rows[group[0]][args][j]] for j in outside)
        with body.nest(extents) as rows:
            for n in group:
                at = dict(zip((self.rows[n][args][j] for j in outside), rows, strict=True))
                with body.nest(tuple(e for k, e in enumerate(n.shape) if k not in at)) as further:
                    inner = iter(further)
                    point = tuple(at[k] if k in at else next(inner) for k in range(n.rank))
                    body.store(self.version[n], point, body.value(n, point))
        return Piece(tuple(self.version[n] for n in group), body.block, notes=tuple(body.notes))

    def _scan(self, node: Node) -> Piece:
        """The scanned axis innermost and serial, its running value in a scalar; the other axes parallel."""
        body, k = self._body(node), node.attr.axis
        with body.nest(node.shape[:k] + node.shape[k + 1 :]) as others:
            outer = body.current
            acc = body.accumulator(outer, node.dtype, node.attr.combiner)
            point = (*others[:k], body.enter(node.shape[k], "serial", OUTPUT_AXES), *others[k:])
            body.store(acc, (), body.read(node.args[0], point), node.attr.combiner)
            body.store(self.version[node], point, load(acc, node.dtype))
            body.leave(outer)
        return Piece((self.version[node],), body.block)

    def _update(self, node: Node) -> Piece:
        """`at` is injective, so the points are independent."""
        body, name = self._body(node), self.version[node]
        with body.nest(node.attr.extents) as point:
            mapping = {axis(k): e for k, e in enumerate(point)}
            body.store(name, tuple(substitute(e, mapping) for e in node.attr.at), body.read(node.args[1], point))
        return self._with_base(node, Piece((name,), body.block))

    def _scatter(self, node: Node) -> Piece:
        """In row-major order: points may meet, and of two that `set` one position the later one wins; along axes that are axes of the result too they do not."""
        body, name = self._body(node), self.version[node]
        with body.nest(node.attr.extents, "serial") as point:
            value = body.read(node.args[1], point)
            index = tuple(body.position(cast(INDEX, body.read(v, point)), e) for v, e in zip(node.args[2:], node.shape, strict=True))
            body.store(name, index, value, "" if node.attr.combiner == "set" else node.attr.combiner)
            for e in point:
                if e.op == "var" and e in index:
                    body.where[e.attr].kind = "parallel"
        return self._with_base(node, Piece((name,), body.block))

    def _with_base(self, node: Node, piece: Piece) -> Piece:
        """Add how the result starts: as a copy of a tensor in memory, or as something that is computed."""
        base, name = node.args[0], self.version[node]
        if base.is_all(node.shape) and base.node in self.version:
            return piece._replace(starts=((name, self.version[base.node]),))
        body = self._body()
        with body.nest(node.shape) as point:
            body.store(name, point, body.read(base, point))
        return piece._replace(before=(body.block,))

    def _nest(self, node: Node, group: list[Node]) -> Piece:
        """The statements as they stand; a result that is an operand too starts as a copy of it, another one as zeros, unless all of it is stored."""
        nest = node.attr.nest
        assert nest is not None
        names = {b.name: self.version[a.node] for b, a in zip(nest.operands, node.args, strict=True)}
        wanted = {n.attr.result: self.version[n] for n in group}
        starts: list[tuple[str, str]] = []
        before: list[Block] = []
        made: list[str] = []
        for k, b in enumerate(nest.results):
            version = wanted.get(k) or f"%{len(self.buffers)}"
            if k not in wanted:
                self.buffers.append(Buffer(version, b.dtype, b.shape))
            if b.name in names:
                starts.append((version, names[b.name]))
            elif not stored_whole(nest.body, b):
                before.append(zeros_block(Buffer(version, b.dtype, b.shape), Names(self.names.taken)))
            made.append(version)
        names.update((b.name, version) for b, version in zip(nest.results, made, strict=True))
        block = unique_locals(nest.body, Names((*self.names.taken, *names)).fresh)
        return Piece(tuple(made), rename_buffers(block, names, self.scalars), tuple(starts), tuple(before), nest.notes)
