"""The body of one kernel while it is being written: scopes, and the value of any graph node at any point inside them.

    scope      one open loop (or the kernel itself); statements are appended to it, and its loop is appended to the scope around it when it closes
    value      a node at a point becomes an expression: pointwise nodes by substitution through their views, tensors in memory by a load
    reduction  an accumulator and its loops, placed just inside the loops of the axes that occur in the point ("compute at")
    gather     positions become `let`s behind a `check`, placed in the same way

The *guard* of a value is the conjunction of the view domains on the way to it.  What is read under `where(guard, …)` is lazy, but a reduction or a
position is a statement of its own, so it is written under the guard.  Placement depends only on the names in point and guard; therefore one memo
serves all scopes, and what does not depend on an inner loop is computed outside of it.

Walks over the graph are generators on an explicit stack: a chain of ten thousand nodes is no deeper for Python than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...ir.bounds import Known
from ...ir.dtypes import INDEX, DType, bool_
from ...ir.expr import FALSE, ONE, TRUE, ZERO, Expr, axis, both, call, cast, const, in_range, load, make, product, var
from ...ir.graph import Node, Shape, View, state_axes
from ...ir.kernel import Alloc, Block, Buffer, Check, If, Let, Loop, Stmt, Store, identity_of
from ...ir.primops import OPS
from ...ir.program import BAD_INDEX
from ...ir.renaming import Names
from ...ir.simplify import assuming, prove, simplify
from ...ir.walks import postorder, substitute
from ..walk import Walk, run
from .clamped import inside as inside_of

if TYPE_CHECKING:
    from .nest_cascade import CascadeLoops

Point = tuple[Expr, ...]

OUTPUT_AXES = "ijklmno"
REDUCED_AXES = "pqrstuvw"
DEPTH = 24  # a deeper expression is cut by a `let`: C compilers limit the nesting of parentheses, and people do too


class Scope:
    """The inside of one loop, or of the kernel (depth 0)."""

    __slots__ = ("around", "axis", "body", "depth", "extent", "kind", "known", "start")

    def __init__(self, around: Scope | None, known: Known, axis_name: str = "", extent: Expr = ZERO, kind: str = "", start: Expr = ZERO) -> None:
        self.around, self.axis, self.start, self.extent, self.kind = around, axis_name, start, extent, kind
        self.depth: int = 0 if around is None else around.depth + 1
        self.known = known  # of sizes and of the variables of the loops around
        self.body: list[Stmt] = []


class NestBody:
    """One kernel under construction.  `home(node)` names the buffer where a node is in memory, or None where it is to be computed here."""

    def __init__(
        self,
        names: Names,
        known: Known,
        home: Callable[[Node], str | None],
        scalars: frozenset[str],
        unchecked: bool,
        instructions: frozenset[str] = frozenset(),
        gpu: bool = False,
    ) -> None:
        self.instructions, self.gpu = instructions, gpu
        self.names, self.home, self.scalars, self.unchecked = names, home, scalars, unchecked
        self.root = Scope(None, known)
        self.current = self.root
        self.where: dict[str, Scope] = {}  # the scope in which a loop variable, a `let` or an accumulator is defined
        self.memo: dict[tuple[Node, Point, Expr | None, Expr | None], Expr] = {}
        self.kept: dict[tuple[Node, Point], Expr] = {}  # values that are in a tile of a cascade now, computed wherever the tile's positions are
        self.planes: dict[Node, Callable[[Point], Expr | None]] = {}  # the same of scores that are mixed: at any of their planes
        self.notes: list[str] = []  # for `--why`
        self.nothing = Known({})
        self.cascades: dict[tuple[tuple[View, ...], Point], CascadeLoops] = {}
        self.loops_of: Callable[[NestBody, Node, Point], CascadeLoops] | None = None  # None: as `nest_cascade` writes them
        self.asked: dict[tuple[View, ...], set[int]] = {}  # of a cascade: the states that somebody outside of it reads; not there: any of them
        self.mixed: dict[tuple[View, ...], list[int]] = {}  # see `mixing`
        self.lets: dict[Expr, Expr] = {}  # value -> the name that it has in an outer scope
        self.shapes: dict[str, Shape] = {}
        self.inside: dict[Expr, list[Expr] | None] = {}  # load -> the guards under one of which its index is inside; None = always

    @property
    def block(self) -> Block:
        return tuple(self.root.body)

    # ---- scopes

    def enter(self, extent: Expr, kind: str, letters: str, start: Expr = ZERO, name: str = "", within: Expr | None = None) -> Expr:
        """Open a loop from `start` up to `extent` inside the current scope; gives its variable (of an extent of 1 there is no loop, and the position is 0).

        Of an elastic loop nothing is taken for known but that it stays `within` what the longest has: it may run over what others have.
        """
        if extent is ONE and start is ZERO:
            return ZERO
        name = name or self.names.fresh(*letters)
        known = self.current.known.with_ranges({name: (start, extent - 1, 1) if within is None else (ZERO, within - 1, 1)})
        self.current = self.where[name] = Scope(self.current, known, name, extent, kind, start)
        return var(name)

    def leave(self, around: Scope) -> None:
        """Close the current loop; `around` becomes current."""
        scope = self.current
        if scope is around:
            return
        around.body.append(Loop(scope.axis, scope.start, scope.extent, tuple(scope.body), scope.kind))
        self.current = around

    def branch(self, known: Known) -> Scope:
        """Open a branch inside the current scope; what it holds goes where its maker puts it."""
        self.current = Scope(self.current, known)
        return self.current

    def set_aside(self, nodes: Set[Node]) -> dict[tuple[Node, Point, Expr | None, Expr | None], Expr]:
        """Take out the remembered values of these nodes."""
        found = {key: e for key, e in self.memo.items() if key[0] in nodes}
        for key in found:
            del self.memo[key]
        return found

    def forget(self, around: Scope, changing: Set[Node]) -> None:
        """Close a branch, with the values that only it has names for, and those of nodes that are something else in another branch."""
        self.current = around
        self.memo = {key: e for key, e in self.memo.items() if key[0] not in changing and self.placed(e).depth <= around.depth}
        self.lets = {e: name for e, name in self.lets.items() if self.placed(name).depth <= around.depth}

    @contextmanager
    def nest(self, shape: Shape, kind: str = "parallel") -> Iterator[Point]:
        """Statements inside one loop an axis of `shape`, the first axis outermost; gives the point."""
        around, point = [], []
        for extent in shape:
            around.append(self.current)
            point.append(self.enter(extent, kind, OUTPUT_AXES))
        yield tuple(point)
        for outer in reversed(around):
            self.leave(outer)

    def accumulator(self, scope: Scope, dtype: DType, combiner: str) -> str:
        """A scalar of `scope` that starts as the identity; its name."""
        acc = self.names.fresh("acc")
        self.where[acc] = scope
        scope.body.append(Alloc(Buffer(acc, dtype, (), "register")))
        scope.body.append(Store(acc, (), identity_of(combiner, dtype)))
        return acc

    def placed(self, *exprs: Expr | None) -> Scope:
        """The outermost scope in which all names of the expressions are defined."""
        deepest = self.root
        for e in exprs:
            for name in () if e is None else (*e.names, *e.buffers):
                scope = self.where.get(name)
                if scope is not None and scope.depth > deepest.depth:
                    deepest = scope
        return deepest

    # ---- statements

    def named(self, position: Expr, wanted: str, least: int, most: int | None) -> Expr:
        """A `let` in the current scope for a position, of which nothing is known but its bounds; itself where it needs no name."""
        if position.op in ("const", "var", "size"):
            return position
        scope, name = self.current, self.names.fresh(wanted)
        scope.body.append(Let(name, position))
        scope.known = scope.known.with_ranges({name: (const(least), position if most is None else const(most), 1)})
        self.where[name] = scope
        return var(name)

    def store(self, buffer: str, index: Point, value: Expr, combiner: str = "") -> None:
        scope = self.current
        scope.body.append(Store(buffer, index, self.shared(value, scope), combiner))

    def shared(self, value: Expr, scope: Scope) -> Expr:
        """`value` with what it uses twice (or nests too deeply) put into `let`s of `scope`.

        A `let` is evaluated whether or not the `where` around its use would have been, so one that holds a guarded load repeats the guard.
        """
        uses: dict[Expr, int] = {}
        order = list(postorder(value))
        for n in order:
            for a in n.args:
                uses[a] = uses.get(a, 0) + 1
        if len(order) < DEPTH and not any(count > 1 and a.op in OPS for a, count in uses.items()):
            return value  # as nearly all are
        done: dict[Expr, Expr] = {}
        depth: dict[Expr, int] = {}
        data: set[Expr] = set()  # depends on more than positions
        exposed: dict[Expr, tuple[Expr, ...]] = {}  # the guarded loads that evaluating n performs
        for n in order:
            new = make(n.op, n.dtype, tuple(done[a] for a in n.args), n.attr)
            done[n] = new
            depth[n] = 1 + max((depth[a] for a in n.args), default=0)
            if n.op == "load" or (n.op == "var" and n.attr in self.scalars) or any(a in data for a in n.args):
                data.add(n)
            own = (n,) if n.op == "load" and self.inside.get(n) else ()
            evaluated = n.args[:1] if n.op == "where" else n.args
            exposed[n] = tuple(dict.fromkeys((*own, *(x for a in evaluated for x in exposed[a]))))
            if n.op not in OPS or n is value or n not in data or (n.op == "cast" and n.args[0].op == "load"):
                continue
            if uses[n] > 1 or depth[n] >= DEPTH:
                name = self.names.fresh("t")
                guard = both(*(self.either(x) for x in exposed[n]))
                scope.body.append(Let(name, new if guard is None else call("where", guard, new, const(0, n.dtype))))
                self.where[name] = scope
                done[n], depth[n], exposed[n] = var(name, n.dtype), 0, ()
        return done[value]

    def either(self, guarded: Expr) -> Expr | None:
        """The condition under which a load is inside its buffer: one of the guards under which it is used, or that it is inside, if that says less.

        What compares positions with extents ends where a loop is cut; that every other position wants the load, which the guards may say, does not.
        """
        guards = self.inside[guarded]
        if guards is None:
            return None
        condition = guards[0]
        for g in guards[1:]:
            condition = call("bit_or", condition, g)
        used = simplify(condition, self.current.known)
        within = simplify(in_range(guarded.args, self.shapes[guarded.attr]), self.current.known)
        condition = within if len(list(postorder(within))) <= len(list(postorder(used))) else used
        return None if condition is TRUE else condition

    # ---- values

    def value(self, node: Node, point: Point) -> Expr:
        """The node computed here (even where it has a home), as an expression at `point`."""
        return run(self._computed(node, point, None, None))

    def read(self, view: View, point: Point) -> Expr:
        """What an operand's view gives at `point` of its user's domain."""
        return run(self._read(view, point, None))

    def _read(self, view: View, point: Point, guard: Expr | None, assumed: Expr | None = None) -> Walk:
        """`assumed` is what a `where` around the value tests already, so that the mask need not be tested again."""
        mapping = {axis(k): e for k, e in enumerate(point)}
        user = self.current
        known = assuming(user.known, guard)
        domain = None if view.domain is None else simplify(substitute(view.domain, mapping), known)
        fill = const(view.fill, view.dtype)
        if domain is FALSE:
            return fill
        if domain is TRUE:
            domain = None
        index = tuple(simplify(substitute(e, mapping), assuming(known, domain)) for e in view.index)
        inner = both(guard, domain)
        if self.home(view.node) is None:
            index, inner = self.outward(view, mapping, index, inner)
            self.current = self.placed(*index, inner)
        value = yield self._node(view.node, index, inner, assumed if view.node.op == "where" else None)
        self.current = user
        if inner is None:
            value = self.hoisted(value, index)
        if domain is None or (assumed is not None and simplify(domain, assuming(assuming(user.known, guard), assumed)) is TRUE):
            return value
        if value is TRUE and fill is FALSE:
            return domain
        return call("where", domain, value, fill)

    def outward(self, view: View, mapping: dict[Expr, Expr], index: Point, guard: Expr | None) -> tuple[Point, Expr | None]:
        """Index and guard of a value that may be computed outside of the current loop, where less is known: above all, that the loop runs at all."""
        scope = self.placed(*index, guard)
        if scope.depth >= self.current.depth:
            return index, guard
        known = assuming(scope.known, guard)
        index = tuple(simplify(substitute(e, mapping), known) for e in view.index)
        inside = both(*(both(ZERO.le(e), e.lt(extent)) for e, extent in zip(index, view.node.shape, strict=True)))
        if inside is None or prove(inside, known):
            return index, guard
        between, loop = guard, self.current
        while loop is not scope:
            between = both(between, simplify(ONE.le(loop.extent), known) if loop.axis else None)
            assert loop.around is not None
            loop = loop.around
        return index, between

    def hoisted(self, value: Expr, index: Point) -> Expr:
        """A `let` for a computed value that is the same at every position of some inner loop of its user."""
        if value.op not in OPS or value.dtype in (INDEX, bool_) or (value.op == "cast" and not value.args[0].args):
            return value
        scope = self.placed(*index, value)
        if scope.depth >= self.current.depth:
            return value
        found = self.lets.get(value)
        if found is None:
            name = self.names.fresh("t")
            scope.body.append(Let(name, self.shared(value, scope)))
            self.where[name] = scope
            found = self.lets[value] = var(name, value.dtype)
        return found

    def _node(self, node: Node, point: Point, guard: Expr | None, assumed: Expr | None) -> Walk:
        key = (node, point, guard, assumed)
        found = self.kept.get((node, point)) or self.memo.get(key)
        if found is None and node in self.planes:
            found = self.planes[node](point)
        if found is None:
            name = self.home(node)
            found = (yield self._computed(node, point, guard, assumed)) if name is None else self._load(node, name, point, guard)
            self.memo[key] = found
        return found

    def _load(self, node: Node, name: str, point: Point, guard: Expr | None) -> Expr:
        if name in self.scalars:
            return var(name, node.dtype)
        result = load(name, node.dtype, *point)
        self.shapes[name] = node.shape
        if guard is None:
            self.inside[result] = None
        else:
            guards = self.inside.setdefault(result, [])
            if guards is not None and guard not in guards:
                guards.append(guard)
        return result

    def _computed(self, node: Node, point: Point, guard: Expr | None, assumed: Expr | None) -> Walk:
        if node.op == "const":
            return const(node.attr.value, node.dtype)
        if node.op == "iota":
            assert node.attr.expr is not None
            value = substitute(node.attr.expr, {axis(k): e for k, e in enumerate(point)})
            return simplify(value, assuming(self.current.known, guard))
        if node.op == "reached":
            return product(node.attr.extents)
        if node.op == "reduce":
            return (yield self._reduce(node, point, guard))
        if node.op == "gather":
            return (yield self._gather(node, point, guard))
        if node.op == "cascade":
            return (yield self._cascade(node, point, guard))
        operands: list[Expr] = []
        for k, a in enumerate(node.args):
            tested = assumed if node.op == "where" else None
            if node.op == "where" and k > 0 and operands[0].is_position:
                tested = both(tested, operands[0] if k == 1 else simplify(call("bit_not", operands[0]), self.nothing))
            operands.append((yield self._read(a, point, guard, tested)))
            if node.op == "where" and k == 0 and operands[0].is_const:  # there is no choice here
                return (yield self._read(node.args[1 if operands[0].attr else 2], point, guard))
        if node.op == "contiguous":
            return operands[0]
        return call(node.op, *operands, to=node.dtype)

    def _reduce(self, node: Node, point: Point, guard: Expr | None) -> Walk:
        scope, user = self.placed(*point, guard), self.current
        acc = self.accumulator(scope, node.dtype, node.attr.combiner)
        inner = Scope(scope, scope.known) if guard is not None else scope  # what stands under `if guard`
        around, reduced = [], []
        self.current = inner
        for extent in node.attr.extents:
            around.append(self.current)
            if extent.op == "where":  # what the sizes choose, which the guard may ask too
                extent = simplify(extent, assuming(scope.known, guard))
            reduced.append(self.enter(extent, "reduce", REDUCED_AXES))
        value = yield self._read(node.args[0], (*point, *reduced), guard)
        self.store(acc, (), value, node.attr.combiner)
        for outer in reversed(around):
            self.leave(outer)
        if guard is not None:
            scope.body.append(If(guard, tuple(inner.body)))
        self.current = user
        return load(acc, node.dtype)

    def _cascade(self, node: Node, point: Point, guard: Expr | None) -> Walk:
        assert guard is None, "fuse makes what is read under a mask real"
        places, _ = state_axes(node, node.attr.result)
        at = dict(zip(places, point, strict=True))
        mixing = self.mixing(node)
        rows = tuple(ZERO if j in mixing else at[j] for j in range(len(node.attr.extents)))
        found = self.cascades.get((node.args, rows))
        if found is None:
            from .nest_cascade import CascadeLoops

            user, self.current = self.current, self.placed(*rows)
            found = self.cascades[node.args, rows] = (self.loops_of or CascadeLoops)(self, node, rows)
            yield found.loops()
            self.current = user
        return found.value(node.attr.result, point)

    def mixing(self, cascade: Node) -> list[int]:
        """The rows of a cascade for which the same scores are mixed: the loops over these stand inside that over tiles."""
        if self.loops_of is not None:
            return []
        if cascade.args not in self.mixed:
            from .planes import planes

            self.mixed[cascade.args] = sorted({j for p in planes(cascade, lambda n: self.home(n) is not None) for j in p.rows})
        return self.mixed[cascade.args]

    def _gather(self, node: Node, point: Point, guard: Expr | None) -> Walk:
        positions = []
        for view, extent in zip(node.args[1:], node.attr.extents, strict=True):
            index = yield self._read(view, point, guard)
            positions.append(self.position(cast(INDEX, index), extent, guard, inside_of(view, extent, self.current.known)))
        return (yield self._read(node.args[0], tuple(positions), guard))

    def position(self, index: Expr, extent: Expr, guard: Expr | None = None, sure: Expr = FALSE) -> Expr:
        """An index that data decides: a name for it, and a check that it lies in 0 … extent-1 wherever the guard holds.  `sure`: a condition on sizes under which it does."""
        known = assuming(self.current.known, guard)
        inside = simplify(call("bit_and", ZERO.le(index), index.lt(extent)), known)
        if inside is TRUE:
            return index
        scope = self.placed(index, guard)
        if any(n.op == "load" for n in postorder(index)):
            name = self.names.fresh("at")
            value = self.shared(index, scope)
            scope.body.append(Let(name, value if guard is None else call("where", guard, value, ZERO)))
            self.where[name] = scope
            index = var(name)
            inside = call("bit_and", ZERO.le(index), index.lt(extent))
        if not self.unchecked and sure is not TRUE:
            inside = inside if sure is FALSE else call("bit_or", sure, inside)
            scope.body.append(Check(inside if guard is None else call("bit_or", call("bit_not", guard), inside), BAD_INDEX))
        return index
