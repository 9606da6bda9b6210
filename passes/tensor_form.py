"""The tensor form of a loop nest: each store of `loop_events.py`, in order, as nodes over the box of its loops, and a new version of its tensor."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.dtypes import DType
from ..ir.expr import ONE, TRUE, ZERO, Expr, axis, call, const, load, postorder, substitute
from ..ir.graph import Node, Shape, View, const_node, elementwise, identity, make, update_node
from ..ir.kernel import Nest
from ..ir.polynomial import coefficient, degree, poly
from ..ir.polynomial import expr as from_poly
from ..ir.primops import COMBINERS
from ..ir.program import BAD_INDEX
from ..ir.simplify import prove, prove_equal, prove_le, simplify
from ..ir.target import Options
from .dependence import check_order, within
from .lift import Lift, Operand, places
from .loop_events import Event, Events, NotTensor, Trip, stamped, unstamped
from .nest_body import identity_of


def results(nest: Nest, operands: tuple[Node, ...], known: Known, options: Options) -> tuple[Node, ...]:
    """The nodes of a nest's results.  Raises NotTensor."""
    found = Events(nest)
    check_order(found, known)
    state = _Versions(found, known, options)
    for b in found.arrays:
        dtype, _ = found.arrays[b]
        state.history[b] = [(-1, const_node(const(0, dtype).attr, dtype))]
    for b, node in zip(nest.operands, operands, strict=True):
        state.history[b.name] = [(-1, node)]
    for k, event in enumerate(found.events):
        state.history[event.buffer].append((k, state.stored(k, event)))
    state.check_tests()
    return tuple(state.final(b.name) for b in nest.results)


@dataclass
class _Versions:
    """Every version of every tensor so far, each with the event that made it."""

    found: Events
    known: Known
    options: Options
    history: dict[str, list[tuple[int, Node]]] = field(default_factory=dict)
    checked: set[Expr] = field(default_factory=set)

    def source(self, name: str) -> tuple[Node, Shape]:
        """The tensor that a stamped load reads: a constant node stands for that constant everywhere."""
        buffer, after = unstamped(name)
        node = next(n for k, n in reversed(self.history[buffer]) if k < after)
        return node, self.found.arrays[buffer][1]

    def final(self, buffer: str) -> Node:
        node = self.history[buffer][-1][1]
        shape = self.found.arrays[buffer][1]
        return _full(Operand(node), node.dtype, shape, {}) if node.op == "const" and shape else node

    def check_tests(self) -> None:
        """Every run-time check of the nest must be one that some gather makes."""
        for test in self.found.tests:
            known = within(self.known, test.loops)
            left = [c for c in conjuncts(simplify(test.condition, known)) if c is not TRUE and c not in self.checked]
            if left and not (self.options.unchecked and test.code == BAD_INDEX):
                raise NotTensor("an index is checked while it runs", test.span)

    # ---- one event

    def stored(self, k: int, event: Event) -> Node:
        """The version of the event's tensor after it."""
        dtype, shape = self.found.arrays[event.buffer]
        mentioned = {n for e in event.index for n in postorder(e)}
        kept = [t for t in event.loops if t.var in mentioned]
        kept.sort(key=lambda t: next(d for d, e in enumerate(event.index) if t.var in set(postorder(e))))
        reduced = [t.var for t in event.loops if t.var not in mentioned]
        lift = Lift(self.boxes(event, kept), self.known, self.source, self.found.sums)
        value = self.value(k, event, reduced, lift, dtype)
        self.checked |= lift.checked
        axes = [t.var for t in kept]
        inverse = self.covering(event, axes, lift, shape)
        if inverse is not None:
            if event.combiner and reduced:
                old, _ = self.source(stamped(event.buffer, k))
                if old is not const_node(identity_of(event.combiner, dtype).attr, dtype):
                    base = View(old, ()) if old.op == "const" else identity(old)
                    return elementwise(COMBINERS[event.combiner].op, shape, base, value.view(inverse))
            return _full(value, dtype, shape, inverse)
        if event.combiner and reduced:
            old_value = lift.lift(load(stamped(event.buffer, k), dtype, *event.index), None)
            value = lift.apply(call(COMBINERS[event.combiner].op, identity_of(event.combiner, dtype), const(1, dtype)), [old_value, value])
        return self.updated(k, event, axes, lift, value, shape)

    def value(self, k: int, event: Event, reduced: list[Expr], lift: Lift, dtype: DType) -> Operand:
        """What is stored at each point of the kept loops; for an accumulation over loops, what is accumulated there."""
        old = load(stamped(event.buffer, k), dtype, *event.index)
        value = event.value
        if event.combiner and not reduced:
            value = call(COMBINERS[event.combiner].op, old, value)
        otherwise = identity_of(event.combiner, dtype) if event.combiner and reduced else old
        if event.guard is not None:
            value = call("where", event.guard, value, otherwise)
        value = lift.masked(value, event.loops, otherwise)
        result = lift.lift(value, None)
        if not (event.combiner and reduced):
            return result
        if self.options.strict and dtype.is_inexact and event.combiner in ("add", "mul"):
            raise NotTensor("--strict keeps the order in which floats are accumulated", event.span)
        return lift.reduced(event.combiner, result, reduced)

    def boxes(self, event: Event, kept: list[Trip]) -> dict[Expr, Expr]:
        """The greatest number of trips of every loop over all iterations of the loops around it; kept ones first, in the order of the tensor's axes."""
        loops = {t.var: t for s in self.found.sums.values() for t in s.loops}
        for r in (*self.found.reads, *self.found.events):
            loops.update((t.var, t) for t in r.loops)
        extents: dict[Expr, Expr] = {}
        for t in sorted(loops.values(), key=lambda t: int(t.var.attr.rpartition("~")[2])):
            extents[t.var] = self.box(t, extents)
        first = [t.var for t in kept] + [t.var for t in event.loops if t not in kept]
        return {v: extents[v] for v in (*first, *(v for v in extents if v not in first))}

    def box(self, t: Trip, extents: dict[Expr, Expr]) -> Expr:
        """The greatest number of trips, by putting the variables of outer loops to one end."""
        inside = within(self.known, tuple(Trip(v, e) for v, e in extents.items()))
        count = simplify(t.count, inside)
        for v in reversed(extents):
            if v not in set(postorder(count)):
                continue
            ends = (substitute(count, {v: extents[v] - 1}), substitute(count, {v: ZERO}))
            most = next((e for e in ends if prove_le(count, e, inside)), None)
            if most is None:
                raise NotTensor("the bounds of a loop are no linear function of those around it")
            count = simplify(most, inside)
        return count

    def covering(self, event: Event, axes: list[Expr], lift: Lift, shape: Shape) -> dict[Expr, Expr] | None:
        """The loop variables as functions of the position, where every element is stored; None for a part of the tensor."""
        inverse: dict[Expr, Expr] = {}
        for d, (e, extent) in enumerate(zip(event.index, shape, strict=True)):
            p = poly(e)
            inside = [v for v in axes if v in set(postorder(e))]
            if len(inside) != 1 or inside[0] in inverse or degree(p, inside[0]) != 1:
                return None
            slope, offset = (from_poly(x) for x in coefficient(p, inside[0]))
            least = offset if slope is ONE else offset + 1 - extent
            if (
                slope not in (ONE, const(-1))
                or not prove_equal(least, ZERO, self.known)
                or not prove_equal(lift.order[inside[0]], extent, self.known)
            ):
                return None
            inverse[inside[0]] = slope * (axis(d) - offset)
        return inverse

    def updated(self, k: int, event: Event, axes: list[Expr], lift: Lift, value: Operand, shape: Shape) -> Node:
        for e, extent in zip(event.index, shape, strict=True):
            if not prove(call("bit_and", ZERO.le(e), e.lt(extent)), lift.known):
                raise NotTensor(f"{event.buffer} is stored at positions that are not proven to be inside it", event.span)
        old, _ = self.source(stamped(event.buffer, k))
        base = View(old, ()) if old.op == "const" else identity(old)
        at = tuple(substitute(simplify(e, lift.known), places(axes)) for e in event.index)
        return update_node(base, value.view(places(axes)), lift.shape(axes), at, shape, event.span)


def _full(value: Operand, dtype: DType, shape: Shape, inverse: dict[Expr, Expr]) -> Node:
    """The operand as a node of this shape."""
    view = value.view(inverse)
    if view.is_identity and view.node.shape == shape and view.node.op != "const":
        return view.node
    return make("contiguous", dtype, shape, (view,))
