"""The statements of one kernel at the program level: flat addresses, plain names, places for its local buffers.

What stays to be done is marked by pragmas: `vector` loops still hold scalar code (`vectors.py` turns it into vectors), `parallel` and `workshare`
loops and regions are judged by `threads.py`, `block` and `thread` loops by `grid.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...ir import kernel as k, polynomial as pl, program as p
from ...ir.bounds import Known
from ...ir.conditions import conjuncts, fixed_sizes
from ...ir.dtypes import INDEX
from ...ir.errors import CompilerBug, Unsupported
from ...ir.expr import FALSE, ONE, ZERO, Expr, call, load, make, total, var
from ...ir.instructions import GROUPED
from ...ir.knowledge import Range
from ...ir.operator_kinds import CHOOSES, DIVIDES
from ...ir.primops import COMBINERS
from ...ir.record import replace
from ...ir.simplify import assuming, prove_le
from ...ir.target import Target
from ...ir.walks import always, postorder, rebuild, substitute, substitution
from ...ir.warps import product
from .names import Names
from .truths import evaluated

STACK_BYTES: Final = 16 << 10  # a local buffer of constant size above this goes to the heap
PRAGMAS: Final = {"serial": "", "elastic": "", "reduce": ""}  # the other kinds keep their names


class Place(NamedTuple):
    """Where a buffer of the kernel level lives: in the memory `name`, or in a variable of that name."""

    buffer: k.Buffer
    name: str
    scalar: bool = False
    named: k.Buffer | None = None  # the same with names for the sums among its extents

    def address(self, index: tuple[Expr, ...], extents: dict[Expr, Expr]) -> Expr:
        """The flat position.  Multiplied by sums of sizes, each index would be as many terms as their products have.

        What is divided by such a sum cancels against the same name, which `extents` has; where something of several terms divides, such as a product of sums written out, the address has the sums themselves.
        """
        if self.named is None:
            return self.buffer.address(index)
        if any(e.kinds & DIVIDES for e in index):
            index_named = tuple(map(substitution(extents), index))
            divisors = (n.args[1] for n in postorder(*index_named) if n.op in ("floordiv", "mod"))
            if any(len(pl.poly(d)) > 1 for d in divisors):
                return self.buffer.address(index)
            index = index_named
        return self.named.address(index)


class Axis(NamedTuple):
    var: Expr
    start: Expr
    stop: Expr
    step: Expr

    def first(self) -> Expr:
        return self.var.eq(self.start)

    def last(self) -> Expr:
        """The next trip would be past the end, which end depends on the sign of the step."""
        after = self.var + self.step
        up, down = self.stop.le(after), after.le(self.stop)
        if self.step.is_const:
            return up if self.step.attr > 0 else down
        return call("where", ZERO.lt(self.step), up, down)


def span(b: k.Buffer) -> Expr:
    """Elements from the first to the last of a buffer that has any."""
    if not b.strides:
        return b.elements
    return pl.expr(pl.poly(total((extent - 1) * stride for extent, stride in zip(b.shape, b.strides, strict=True)) + 1))


class Scope(NamedTuple):
    """What the names of the kernel level stand for here; a block works on a copy."""

    values: dict[str, Expr]  # lets and loop variables
    places: dict[str, Place]
    axes: dict[str, Axis]
    extents: dict[Expr, Expr]  # names for sums of sizes

    def copy(self) -> Scope:
        return Scope(dict(self.values), dict(self.places), dict(self.axes), dict(self.extents))

    def flat(self, e: Expr) -> Expr:
        """`e` with flat addresses, variables for scalars, and comparisons for first and last."""
        values = self.values.keys()  # the loop variables of `axes` are among them
        if not e.buffers and values.isdisjoint(e.names):
            return e
        done: dict[Expr, Expr] = {}
        for n in postorder(e):
            if n.op == "var":
                done[n] = self.values.get(n.attr, n)
                continue
            if n.is_const or (not n.buffers and values.isdisjoint(n.names)):
                done[n] = n
                continue
            args = tuple([done[a] for a in n.args])
            match n.op:
                case "load":
                    place = self.places[n.attr]
                    done[n] = var(place.name, n.dtype) if place.scalar else load(place.name, n.dtype, place.address(args, self.extents))
                case "first":
                    done[n] = self.axes[n.attr].first()
                case "last":
                    done[n] = self.axes[n.attr].last()
                case _:
                    done[n] = rebuild(n, args)
        return done[e]


class Flattener:
    """Walks the statements of one kernel."""

    def __init__(self, target: Target, names: Names, known: Callable[[], Known]) -> None:
        self.target = target
        self.names = names
        self._known = known  # of the sizes
        self._around: tuple[k.Loop | Expr, ...] = ()  # the loops around, and the conditions that hold inside of them
        self._variables: set[str] = set()  # names whose value changes
        self._lanes: frozenset[str] = frozenset()  # inside a vector loop: its axis and what its body names
        self._team: list[p.Stmt] | None = None  # inside a region: the shared memory that is to stand before it
        self.loops: set[str] = set()  # the kinds of loops that were met
        self.kinds = 0  # the operators in what is stored and named
        self.checks = False  # whether there were any

    def block(self, block: k.Block, scope: Scope) -> p.Block:
        return self.inside(block, scope.copy())

    def inside(self, block: k.Block, scope: Scope) -> p.Block:
        """A block in a scope of its own."""
        result: list[p.Stmt] = []
        for s in block:
            if isinstance(s, (k.Store, k.Let)):
                self.kinds |= s.value.kinds
            if isinstance(s, (k.Store, k.Let)) and self._lanes:
                lets, s = self.eager(s, scope, block)
                result.extend(lets)
            for t in self.statement(s, scope):
                defined = result[-1] if result else None
                if isinstance(t, p.Assign) and defined == p.Define(t.name, t.value.dtype, None, mutable=True) and t.name not in t.value.names:
                    result[-1] = p.Define(t.name, t.value.dtype, t.value, mutable=True)
                else:
                    result.append(t)
        return tuple(result)

    def eager(self, s: k.Store | k.Let, scope: Scope, block: k.Block) -> tuple[p.Block, k.Store | k.Let]:
        """In a vector loop: guarded loads that are sure to be inside their buffer come before the statement, so that a choice lane by lane is no branch."""
        choices = (
            [n for n in postorder(s.value) if n.op == "where" and not self._lanes.isdisjoint(n.args[0].names)] if s.value.kinds & CHOOSES else []
        )
        guarded = dict.fromkeys(n for c in choices for n in postorder(c.args[1], c.args[2]) if n.op == "load" and n.args)
        if not guarded:
            return (), s
        visited = performed(block, scope)
        asked = {c for choice in choices for c in conjuncts(choice.args[0])}  # of which nothing around has shown that it holds
        lets: list[p.Stmt] = []
        names: dict[Expr, Expr] = {}
        for n in guarded:
            positions = list(zip(n.args, scope.places[n.attr].buffer.shape, strict=True))
            open_ = [position for position in positions if position not in visited and not collapsed(*position, scope)]
            if not open_ or (asked.isdisjoint([index.lt(extent) for index, extent in open_]) and self.proven(positions)):
                names[n] = var(self.names.fresh(f"{n.attr}.value"), n.dtype)
                lets.append(p.Define(names[n].attr, n.dtype, scope.flat(n)))
        return tuple(lets), replace(s, value=substitute(s.value, names))

    def proven(self, positions: Sequence[tuple[Expr, Expr]]) -> bool:
        """Whether the bounds of the loops around, and the conditions there, say that these indices are inside these extents; those of the lanes, which run over the end, are
        looked at first, and nothing more where one is outside."""
        if not all(index.is_position for index, _ in positions):
            return False
        known = self._known()
        for s in self._around:
            if isinstance(s, k.Loop):
                known = known.with_ranges({s.axis: Range(s.start, s.stop - 1)}) if s.step is ONE else known
            else:
                known = assuming(known, s)
        in_lanes_first = sorted(positions, key=lambda position: self._lanes.isdisjoint(position[0].names))
        return all(prove_le(index + 1, extent, known) and prove_le(ZERO, index, known) for index, extent in in_lanes_first)

    def under(self, condition: Expr, block: k.Block, scope: Scope) -> p.Block:
        """A block where a condition holds."""
        outside, fixed = self._around, fixed_sizes(condition)
        self._around = (*outside, *(c for c in conjuncts(condition) if c.is_position))
        if fixed:  # what is consecutive there is seen to be
            scope = scope.copy()
            scope.places.update({n: Place(k.sized(x.buffer, fixed), x.name, x.scalar) for n, x in scope.places.items()})
        body = self.block(block, scope)
        self._around = outside
        return body

    def statement(self, s: k.Stmt, scope: Scope) -> p.Block:
        if isinstance(s, k.Let):
            value = scope.flat(s.value) if self._lanes else evaluated(scope.flat(s.value))
            name = self.names.fresh(s.name)
            if self._lanes:
                self._lanes |= {s.name}
            scope.values[s.name] = var(name, value.dtype)
            return (p.Define(name, value.dtype, value),)
        if isinstance(s, k.Alloc):
            return self.alloc(s.buffer, scope)
        if isinstance(s, k.Store):
            return (store(s, scope),)
        if isinstance(s, k.Loop):
            return self.loop(s, scope)
        if isinstance(s, k.If):
            body, orelse = self.under(s.condition, s.body, scope), self.under(call("bit_not", s.condition), s.orelse, scope)
            return (p.If(scope.flat(s.condition), body, orelse),)
        if isinstance(s, k.While):
            return self.while_(s, scope)
        if isinstance(s, k.Region):
            return self.region(s, scope)
        if isinstance(s, k.Barrier):
            return (p.Barrier(s.later),)
        if isinstance(s, k.Prefetch):
            place = scope.places[s.buffer]
            return (p.Prefetch(place.name, place.address(tuple(map(scope.flat, s.index)), scope.extents) + scope.flat(s.ahead), s.cache, s.write),)
        assert isinstance(s, k.Check)
        self.checks = True
        return (p.If(call("bit_not", scope.flat(s.condition)), (p.Fail(s.code),)),)

    def loop(self, s: k.Loop, scope: Scope) -> p.Block:
        """The bounds are taken once, before the first trip: what the body could change of them is kept in a `let`."""
        before: list[p.Stmt] = []
        self.loops.add(s.kind)
        if s.kind == "matrix":
            return (self.matrix(s, scope),)
        bounds = [e if e.is_const else scope.flat(e) for e in (s.start, s.stop, s.step)]
        for place, bound in enumerate(bounds):
            if bound.buffers or not self._variables.isdisjoint(bound.names):
                bounds[place] = var(self.names.fresh(f"{s.axis}.{('start', 'stop', 'step')[place]}"))
                before.append(p.Define(bounds[place].attr, INDEX, bound))
        axis = Axis(var(self.names.fresh(s.axis)), *bounds)
        inner = scope.copy()
        inner.values[s.axis] = axis.var
        inner.axes[s.axis] = axis
        lanes, outside = self._lanes, self._around
        if s.kind == "vector" or lanes:
            self._lanes = lanes | {s.axis}
        self._around = (*outside, s)
        body = self.inside(s.body, inner)
        self._lanes, self._around = lanes, outside
        return (*before, p.For(axis.var.attr, axis.start, axis.stop, body, axis.step, PRAGMAS.get(s.kind, s.kind)))

    def matrix(self, s: k.Loop, scope: Scope) -> p.Stmt:
        found = product(s, [x for x in self._around if isinstance(x, k.Loop)], {name: place.buffer for name, place in scope.places.items()})
        rows, columns = ((scope.places[x.buffer].name, scope.flat(x.address), x.line, x.tile, x.step) for x in (found.rows, found.columns))
        return p.Matrix(
            found.instruction.name,
            found.tiles,
            scope.places[found.result].name,
            scope.flat(found.address),
            found.distances,
            rows,
            columns,
            found.group and GROUPED in self.target.instructions,
        )

    def while_(self, s: k.While, scope: Scope) -> p.Block:
        if s.limit is None:
            return (p.While(scope.flat(s.condition), self.block(s.body, scope)),)
        trips = var(self.names.fresh("trips"))
        # lazily: past the limit the condition may load what is not there
        condition = call("where", trips.lt(scope.flat(s.limit)), scope.flat(s.condition), FALSE)
        body = (*self.block(s.body, scope), p.Assign(trips.attr, trips + 1))
        return (p.Define(trips.attr, trips.dtype, ZERO, mutable=True), p.While(condition, body))

    def region(self, s: k.Region, scope: Scope) -> p.Block:
        """Memory that a team shares is there before the team is."""
        if self._team is not None:
            raise CompilerBug("lower", "a region inside a region")
        team: list[p.Stmt] = []
        self._team = team
        body = self.block(s.body, scope)
        self._team = None
        return (*team, p.Region(body))

    def alloc(self, b: k.Buffer, scope: Scope) -> p.Block:
        b = k.Buffer(b.name, b.dtype, tuple(map(scope.flat, b.shape)), b.space, tuple(map(scope.flat, b.strides)), b.align, b.swizzle)
        name = self.names.fresh(b.name)
        if not b.shape and b.space != "shared":
            scope.places[b.name] = Place(b, name, scalar=True)
            self._variables.add(name)
            return (p.Define(name, b.dtype, None, mutable=True),)
        lets, named = self.extents(b, scope)
        scope.places[b.name] = Place(b, name, named=named)
        memory = self.memory(b, name)
        if b.space == "shared" and self._team is not None:
            self._team.append(memory)
            return ()
        return (memory, *lets)

    def extents(self, b: k.Buffer, scope: Scope) -> tuple[p.Block, k.Buffer | None]:
        """Names for the extents of a buffer that are sums, where something is multiplied by them, and the buffer with these."""
        sums = [e for e in dict.fromkeys(b.shape[1:]) if e.op == "add"] if not b.strides else []
        if not sums or len(pl.poly(b.steps[0])) <= 2:
            return (), None
        lets: list[p.Stmt] = []
        for e in sums:
            if e not in scope.extents:
                scope.extents[e] = var(self.names.fresh(f"{b.name}.extent"))
                lets.append(p.Define(scope.extents[e].attr, INDEX, e))
        return tuple(lets), replace(b, shape=tuple([scope.extents.get(e, e) for e in b.shape]))

    def memory(self, b: k.Buffer, name: str) -> p.Stmt:
        count = span(b)
        small = count.is_const and (b.space in ("register", "stack") or count.attr * b.dtype.bytes <= STACK_BYTES)
        if self.target.gpu:
            if not count.is_const:
                raise Unsupported("symbolic local buffer", f"the buffer {b.name} needs a constant size on a GPU, not {count!r}")
            space = "stack" if b.space == "private" else b.space
            return p.Array(name, b.dtype, max(1, count.attr), space, b.align, b.swizzle)
        if small:
            return p.Array(name, b.dtype, max(1, count.attr), "register" if b.space == "register" else "stack", b.align)
        return p.Scratch(name, b.dtype, count, b.align or 64)


Positions = frozenset[tuple[Expr, Expr]]


def collapsed(index: Expr, extent: Expr, scope: Scope) -> bool:
    """Whether the index is the outer one of two axes that are one loop: x // n of a loop over extent · n."""
    if index.op != "floordiv" or index.args[0].op != "var":
        return False
    loop = scope.axes.get(index.args[0].attr)
    return loop is not None and loop.start is ZERO and loop.step is ONE and pl.poly(loop.stop) == pl.poly(extent * index.args[1])


def performed(block: k.Block, scope: Scope) -> Positions:
    """(index, extent) for every axis of what the block is sure to access, and for every loop around it: such an index is inside such an extent."""
    if any(isinstance(s, (k.Check, k.While)) for s in block):
        return frozenset()
    found = {(var(name), a.stop) for name, a in scope.axes.items() if a.start is ZERO and a.step is ONE}
    for s in block:
        if isinstance(s, (k.Store, k.Let)):
            accesses = [(n.attr, n.args) for n in always(s.value) if n.op == "load"]
            if isinstance(s, k.Store):
                accesses.append((s.buffer, s.index))
            for name, index in accesses:
                place = scope.places.get(name)  # None: allocated further down in this block
                if place is not None:
                    found.update(zip(index, place.buffer.shape, strict=True))
    return frozenset((i, extent) for i, extent in found if not i.buffers)


def store(s: k.Store, scope: Scope) -> p.Stmt:
    place = scope.places[s.buffer]
    value = scope.flat(s.value)
    target = scope.flat(load(s.buffer, place.buffer.dtype, *s.index))
    if s.combiner:
        value = _by_instruction(s.combiner, target, value) or call(COMBINERS[s.combiner].op, target, value)
    return (
        p.Assign(place.name, value)
        if place.scalar
        else p.StoreTo(place.name, target.args[0], value, None if s.stream is None else scope.flat(s.stream))
    )


def _by_instruction(combiner: str, target: Expr, value: Expr) -> Expr | None:
    """An instruction that adds to its first operand, which changes nothing, accumulates itself."""
    if value.op != "ins" or combiner != "add" or value.args[0] is not k.identity_of(combiner, value.dtype):
        return None
    return make("ins", value.dtype, (target, *value.args[1:]), value.attr)


def trips(start: Expr, stop: Expr, step: Expr) -> Expr:
    """How often a loop runs, where it runs at all (negative otherwise)."""
    if step is ONE:
        return stop - start
    if step.is_const:
        return (stop - start + (step.attr - 1 if step.attr > 0 else step.attr + 1)) // step
    raise CompilerBug("lower", f"the step {step!r} needs a sign")
