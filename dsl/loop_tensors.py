"""Tensor expressions inside loops: `(dotimes (i M) (setf (aref Y i) (sum (* (aref A i) w))))`.

An expression that has a tensor in it is built as a graph, as it is outside of loops, with the loop variables among the sizes; the graph becomes statements of the
iteration at hand at once (`loop_lowering`), so it sees the memory as it is there.  What it must know of its sizes (an index inside, two extents that
divide) is proven from the bounds of the loops around, or checked where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir.bounds import Known
from ..ir.build import Builder
from ..ir.dtypes import DType, f32, f64
from ..ir.expr import FALSE, TRUE, ZERO, Expr, as_expr, both, call, cast, const, load, var
from ..ir.graph import Node, Port, Shape, View, const_node, elementwise as elementwise_node, input_node, iota_node
from ..ir.kernel import Alloc, Buffer, Check, If, Let, Store
from ..ir.program import BAD_INDEX, BAD_SIZE
from ..ir.simplify import assuming, simplify
from ..ir.tensor import BuildError, Tensor, show_shape
from ..ir.walks import postorder
from . import arguments, scalars
from .evaluate import Evaluator
from .frame import Broken, Silenced
from .locals import Memory, Rows
from .loop_lowering import Lowering
from .recovery import Reader
from .scalars import Scalar, has_loads
from .sexpr import Form, List, Symbol
from .source import error
from .tensorial import tensorial

if TYPE_CHECKING:
    from .ground import Ground
    from .loop_values import LoopValues


class InnerBuilder(Builder):
    """Proves from what holds where the expression stands; a precondition that is neither proven nor refuted is checked there."""

    def __init__(self, walk: Ground) -> None:
        outer = walk.evaluator.builder
        super().__init__(outer.sizes)
        self._equal = dict(outer._equal)
        self.walk = walk
        self.span = outer.span

    def known(self, shape: Shape = ()) -> Known:
        scope = self._scopes.get(shape)
        if scope is None:
            base = assuming(self.walk.known, both(*self.requires))
            scope = self._scopes[shape] = base.with_domain(shape) if shape else base
        return scope

    def require(self, condition: Expr, code: str, message: str, *notes: str) -> None:
        condition = self.tidy(condition)
        if condition is FALSE:
            raise BuildError(code, message, *notes)
        if condition is not TRUE:
            self.walk.emit_check(Check(condition, BAD_INDEX if code == "E0319" else BAD_SIZE, self.span))
            self.requires.append(condition)
            self._scopes.clear()
            self._learn(condition)

    def forget(self) -> None:
        """What is known has changed."""
        self._scopes.clear()

    def position(self, x: Tensor) -> Expr:
        """Also a number that the iteration reads: `(slice A (aref I i) _)`."""
        held = self.numbers.get(x.view.node.attr.name) if x.view.node.op == "input" and not x.rank else None
        if held is not None and x.dtype.is_integer:
            return simplify(cast(ZERO.dtype, held), self.known())
        return super().position(x)

    numbers: dict[str, Expr]


class Inside(Evaluator):
    """Evaluates one tensor expression where the walk is."""

    def __init__(self, values: LoopValues) -> None:
        walk = values.walk
        super().__init__(walk.session, walk.frame)
        self.values, self.walk = values, walk
        self.inputs: dict[str, Memory | Expr] = {}
        self.inner = InnerBuilder(walk)
        self.inner.numbers = {}
        self.lowering = Lowering(walk, self.inputs)

    @contextmanager
    def building(self) -> Iterator[None]:
        """The session builds for this expression, composites that are called in it included."""
        session, walk = self.session, self.walk
        before = session.builder, session.taken
        session.builder, session.taken = self.inner, walk.taken
        try:
            yield
        finally:
            session.builder, session.taken = before

    @property
    def reader(self) -> Reader:
        return self.values.reader

    def value(self, form: Form) -> Any:
        if isinstance(form, (Symbol, List)) and not tensorial(self.values, form):
            if isinstance(form, Symbol):
                found = self.frame.resolve(form.name, form.place)
                if found is not None and isinstance(found.value, (tuple, str, bool, DType)):
                    return found.value
            found = self.values.value(form)
            return self.number(found) if isinstance(found, Scalar) else found
        return super().value(form)

    def name(self, form: Symbol) -> Any:
        found = self.frame.resolve(form.name, form.place)
        if found is None:
            memory = self.walk.output(form)
            return super().name(form) if memory is None else self.memory(memory)
        match found.value:
            case Broken():
                raise Silenced
            case Memory():
                return self.memory(found.value)
            case Tensor():
                return self.memory(self.walk.memory(found))
            case _:
                return super().name(form)

    def call(self, form: List) -> Any:
        head = (form.head or "").lower()
        if head == "aref":
            with self.session.nested(form):
                return self.guarded(form, lambda: self.element(form))
        if head == "if" and len(form.items) == 4 and not tensorial(self.values, form.items[1]):
            return self.choice(form)
        return super().call(form)

    # ---- leaves

    def memory(self, m: Memory) -> Tensor:
        """A tensor of the nest as it is now."""
        self.inputs[m.name] = m
        dtype, weak = self.walk.kinds.dtype(m.key), self.walk.kinds.weak(m.key)
        return self.inner.of(input_node(Port(m.name, dtype, m.shape, "in")), weak if weak == "int" else "")

    def number(self, x: Scalar) -> Tensor:
        """A number of the iteration; one that is read from memory gets a name, so that it is read once."""
        if has_loads(x.expr):
            named = self.walk.fresh("t")
            own = scalars.strong(x)
            self.walk.block.append(Let(named, own))
            x = Scalar(var(named, own.dtype), x.weak if x.weak == "int" else "")
        if x.weak == "int":
            return self.inner.integer(x.expr)
        if x.weak == "float":
            return self.weak_float(x.expr)
        if x.expr.is_const:
            return self.inner.constant(x.expr.attr, x.expr.dtype)
        return self.inner.of(self.held(x.expr))

    def held(self, e: Expr) -> Node:
        """The node of a number that is computed outside of the graph."""
        key = f"{len(self.inputs)}"  # no name of a user's
        self.inputs[key] = self.inner.numbers[key] = e
        return input_node(Port(key, e.dtype, (), "scalar"))

    def weak_float(self, root: Expr) -> Tensor:
        """An expression of float literals and plain integers, held in f64, as the builder has it: in f32, made again in the dtype that it is needed in."""
        nodes: dict[Expr, Node] = {}
        span = self.inner.span
        for n in postorder(root):
            if n.dtype is not f64:
                nodes[n] = self.held(n)  # of use only where an operator on floats reads it, as a condition is read
            elif n.is_const:
                nodes[n] = const_node(n.attr, f32, span)
            elif n.op == "cast":
                nodes[n] = elementwise_node("cast", (), View(iota_node(as_expr(n.args[0]), (), span), ()), to=f32)
            else:
                nodes[n] = elementwise_node(n.op, (), *(View(nodes[a], ()) for a in n.args))
        return Tensor(View(nodes[root], ()), (), "float")

    # ---- forms

    def element(self, form: List) -> Tensor:
        """`(aref T i…)` with fewer indices than T has axes, which leaves the rest, or with tensors of integers."""
        base, *indices = arguments.tensors(self, form.items[1:])
        if len(indices) > base.rank:
            raise error("E0505", f"`{form.items[1].source_text}` has {base.rank} axes, found {len(indices)} indices", form.place)
        self.inner.span = form.place.span
        if all(not i.rank for i in indices):
            return self.inner.slice(base, [self.inner.position(i) for i in indices])
        if len(indices) < base.rank:
            raise error("E0505", f"`aref` with integer tensors needs an index for each of the {base.rank} axes, found {len(indices)}", form.place)
        return self.inner.gather_at(base, indices)

    def choice(self, form: List) -> Any:
        """`(if c a b)` with a condition of the iteration: only the chosen branch is computed."""
        problems = arguments.Problems()
        test: bool | Expr = TRUE  # where it is wrong, the branches are looked at all the same
        with problems:
            test = self.values.condition(form.items[1])
        if isinstance(test, bool):
            return self.value(form.items[2 if test else 3])
        walk, b = self.walk, self.inner
        branches: list[tuple[list[Any], Tensor]] = []
        for f, holds in ((form.items[2], test), (form.items[3], call("bit_not", test))):
            with problems, walk.inner(body=False) as block, self.assuming(holds):
                branches.append((block, arguments.tensor(self, f)))
        problems.finish()
        (_, x), (_, y) = branches
        plain = x.weak == y.weak == "int"
        x, y = self.guarded(form, lambda: tuple(b.strong(t) for t in b.unify(x, y, what="the branches of if")))
        shape = self.guarded(form, lambda: b.broadcast_shape(x.shape, y.shape))
        name = self.guarded(form, lambda: self.lowering.array(x.dtype, shape))
        for (block, _), t, holds in zip(branches, (x, y), (test, call("bit_not", test)), strict=True):
            outer, walk.block = walk.block, block
            try:
                with self.assuming(holds):
                    self.guarded(form, lambda t=t: self.lowering.store(b.expand(t, shape), name, (), ""))
            finally:
                walk.block = outer
        walk.block.append(If(test, tuple(branches[0][0]), tuple(branches[1][0])))
        key = (form.place.start, "choice")
        walk.kinds.found[key] = "int" if plain else x.dtype  # as this walk has it
        return self.memory(Memory(name, shape, key))

    @contextmanager
    def assuming(self, condition: Expr) -> Iterator[None]:
        """What is proven and computed for one branch holds there alone."""
        walk, lowering = self.walk, self.lowering
        before = walk.known, self.inner.requires, dict(lowering.arrays), dict(lowering.scalars), dict(lowering.memo)
        walk.known = walk.known if has_loads(condition) else assuming(walk.known, condition)
        self.inner.requires = list(self.inner.requires)
        self.inner.forget()
        try:
            yield
        finally:
            walk.known, self.inner.requires, lowering.arrays, lowering.scalars, lowering.memo = before
            self.inner.forget()

    def finished(self, form: Form, x: Tensor) -> Scalar | Rows:
        if x.rank:
            return Rows(self, x)
        if x.integer is not None:
            return Scalar(x.integer, "int")
        return Scalar(self.guarded(form, lambda: self.lowering.scalar(x)))

    def updated(self, name: Symbol, value: Tensor) -> None:
        raise error(
            "E0607",
            f"`{name.name}` would be updated in place by a call inside a loop",
            name.place,
            f"help: (setf {name.name} …) with what the call gives, and a copy as operand: (+ 0 {name.name})",
        )


def evaluate(values: LoopValues, form: Form) -> Any:
    """The value of an expression that has a tensor in it: a Scalar where it has no axes, else Rows."""
    walk = values.walk
    guards = [g for g in values.guards if g is not TRUE]
    if not guards:
        return run(values, form)
    condition = both(*guards)
    assert condition is not None
    values.guards, kept = [], values.guards
    try:
        with walk.inner(body=False) as block:
            walk.known = assuming(walk.known, both(*(g for g in guards if not has_loads(g))))
            x = run(values, form)
            if not isinstance(x, Scalar) or not block:
                return x
            own = scalars.strong(x)
            cell = walk.fresh("t")
            block.append(Store(cell, (), own))
    finally:
        values.guards = kept
    walk.block += [Alloc(Buffer(cell, own.dtype, (), "register")), Store(cell, (), const(0, own.dtype)), If(condition, tuple(block))]
    return Scalar(load(cell, own.dtype))


def run(values: LoopValues, form: Form) -> Any:
    inside = Inside(values)
    with inside.building():
        x = inside.value(form)
        if isinstance(x, tuple) and all(isinstance(t, Tensor) for t in x):
            return tuple(inside.finished(form, t) for t in x)
        return inside.finished(form, x) if isinstance(x, Tensor) else x


def store(rows: Rows, memory: Memory, at: tuple[Expr, ...], combiner: str, form: Form, *notes: str) -> None:
    """Write rows to the elements of memory that the indices leave; the dtype has been agreed upon.  `notes` go to a mistake."""
    inside, b = rows.inside, rows.inside.inner
    to = inside.walk.kinds.dtype(memory.key)
    wanted = memory.shape[len(at) :]

    if rows.tensor.rank > len(wanted):
        place = f"an array of shape {show_shape(wanted)}" if wanted else "one element"
        raise error(
            "E0313",
            f"a tensor of shape {show_shape(rows.tensor.shape)} does not fit into {place}",
            form.place,
            "help: (aref T i) has one axis less than T",
            *notes,
        )

    def write() -> None:
        x = b.retype(rows.tensor, to) if rows.tensor.weak else rows.tensor
        inside.lowering.store(b.expand(x, wanted), memory.name, at, combiner)

    with inside.building():
        inside.guarded(form, write)


def updated(rows: Rows, head: str, memory: Memory, at: tuple[Expr, ...], form: List) -> Rows:
    """What `decf` adds and what `divcf` stores."""
    inside, b = rows.inside, rows.inside.inner

    def change() -> Tensor:
        if head == "decf":
            return b.elementwise("neg", rows.tensor)
        return b.elementwise("div", b.slice(inside.memory(memory), list(at)), rows.tensor)

    if head not in ("decf", "divcf"):
        return rows
    with inside.building():
        return Rows(inside, inside.guarded(form, change))
