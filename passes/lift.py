"""Scalar expressions over loop variables → graph nodes over the domain of those loops.

Every subexpression becomes a node over just the variables that it depends on, in a given order; a load becomes a view of a version of its tensor, in the
variables of its user.  So the body of the loop gemm becomes the very nodes that `(matmul A B)` makes:

    A[i, p] * B[p, j]   over (i, j, p)     →     %m = mul [M, N, K]  %A[$0, $2]  %B[$2, $1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..ir.bounds import Known
from ..ir.dtypes import INDEX, bool_
from ..ir.expr import TRUE, ZERO, Expr, Scalar, axis, both, call, maximum, postorder, substitute
from ..ir.graph import Node, Shape, View, const_node, elementwise, gather_node, identity, iota_node, reduce_node
from ..ir.simplify import assuming, prove, simplify
from .dependence import positional, within
from .loop_events import NotTensor, Sum, Trip, unstamped
from .nest_body import identity_of


@dataclass(frozen=True, slots=True)
class Operand:
    """A view in terms of loop variables."""

    node: Node
    index: tuple[Expr, ...] = ()
    domain: Expr | None = None
    fill: Scalar = 0

    @property
    def variables(self) -> set[Expr]:
        exprs = self.index if self.domain is None else (*self.index, self.domain)
        return {n for n in postorder(*exprs) if n.op == "var"}

    def view(self, mapping: Mapping[Expr, Expr]) -> View:
        """Over the axes that `mapping` gives the variables as."""
        domain = None if self.domain is None else substitute(self.domain, mapping)
        return View(self.node, tuple(substitute(e, mapping) for e in self.index), domain, self.fill)


class Lift:
    """`boxes`: all loop variables with their greatest numbers of trips, in the order that axes take.  `source(stamped name)`: the tensor that a load reads, and its shape.
    `known`: of sizes and of the variables."""

    def __init__(self, boxes: dict[Expr, Expr], known: Known, source: Callable[[str], tuple[Node, Shape]], sums: dict[Expr, Sum]) -> None:
        self.source, self.sums = source, sums
        self.order = {v: simplify(maximum(count, 0), known) for v, count in boxes.items()}
        self.known = within(known, tuple(Trip(v, count) for v, count in boxes.items()))
        self.checked: set[Expr] = set()  # what the gathers check
        self.memo: dict[Expr, Operand] = {}

    def lift(self, root: Expr, guard: Expr | None) -> Operand:
        """The operand that gives `root` wherever `guard` holds; elsewhere it may give anything."""
        pending = [(root, guard)]
        for s in self.sums_of(root):
            pending.append((self.summed(s), s.guard))
        for e, g in reversed(pending):
            contexts = self.contexts(e, g)
            for n in postorder(e):
                if n in contexts and n not in self.memo:
                    self.memo[n] = self.one(n, contexts[n])
        return self.memo[root]

    def sums_of(self, root: Expr) -> list[Sum]:
        """The sums inside, outer ones before those that they are made of."""
        found: dict[Expr, None] = {}
        pending = [root]
        while pending:
            for n in postorder(pending.pop()):
                if n in self.sums:
                    found.pop(n, None)
                    found[n] = None
                    pending.append(self.sums[n].body)
        return [self.sums[n] for n in sorted(found, key=list(self.sums).index, reverse=True)]

    def summed(self, s: Sum) -> Expr:
        """What is summed over the whole box of the loops: nothing where a loop has fewer trips than its box."""
        return self.masked(s.body, s.loops, identity_of(s.combiner, s.dtype))

    def masked(self, value: Expr, loops: Iterable[Trip], otherwise: Expr) -> Expr:
        short = both(*(c for c in (t.var.lt(t.count) for t in loops) if not prove(c, self.known)))
        return value if short is None else call("where", short, value, otherwise)

    def contexts(self, root: Expr, guard: Expr | None) -> dict[Expr, Expr | None]:
        """The subexpressions that become tensors, each with what is known where its value is used (None: nothing)."""
        order = list(postorder(root))
        found: dict[Expr, Expr | None] = {root: positional(guard)}
        for n in reversed(order):
            if n not in found or is_plain(n):
                continue
            for k, a in enumerate(n.args):
                if n.op == "load" and is_plain(a):
                    continue
                here = found[n]
                if n.op == "where" and k > 0 and is_plain(n.args[0]):
                    here = both(here, n.args[0] if k == 1 else call("bit_not", n.args[0]))
                found[a] = here if a not in found or found[a] is here else _either(found[a], here)
        return found

    def one(self, n: Expr, context: Expr | None) -> Operand:
        """One subexpression whose operands are lifted."""
        if n in self.sums:
            s = self.sums[n]
            return self.reduced(s.combiner, self.memo[self.summed(s)], [t.var for t in s.loops])
        if n.op == "load":
            return self.load(n, context)
        if n.is_const:
            return Operand(const_node(n.attr, n.dtype))
        if is_plain(n):
            return self.plain(simplify(n, assuming(self.known, context)))
        return self.apply(n, [self.memo[a] for a in n.args])

    def plain(self, n: Expr) -> Operand:
        if n.dtype is bool_:
            return Operand(const_node(True, bool_), (), None if n is TRUE else n, False)
        axes = self.axes({v for v in postorder(n) if v.op == "var"})
        return Operand(iota_node(substitute(n, places(axes)), self.shape(axes)), tuple(axes))

    def apply(self, n: Expr, operands: list[Operand]) -> Operand:
        """The operator of `n` on operands."""
        axes = self.axes({v for o in operands for v in o.variables})
        views = [o.view(places(axes)) for o in operands]
        return Operand(elementwise(n.op, self.shape(axes), *views, to=n.dtype), tuple(axes))

    def reduced(self, combiner: str, body: Operand, over: list[Expr]) -> Operand:
        axes = [v for v in self.axes(body.variables) if v not in over]
        node = reduce_node(combiner, self.shape(axes), self.shape(over), body.view(places([*axes, *over])))
        return Operand(node, tuple(axes))

    def load(self, n: Expr, context: Expr | None) -> Operand:
        node, shape = self.source(n.attr)
        if node.op == "const":
            return Operand(node)
        if not all(is_plain(e) for e in n.args):
            return self.gather(n, node, shape, context)
        inside = both(*(both(ZERO.le(e), e.lt(extent)) for e, extent in zip(n.args, shape, strict=True)))
        domain = None
        if inside is not None and not prove(inside, self.known):
            domain = None if context is None else simplify(context, self.known)
            if domain is None or not prove(inside, assuming(self.known, context)):
                raise NotTensor(f"{unstamped(n.attr)[0]} is read at positions that are not proven to be inside it")
        known = assuming(self.known, domain)
        return Operand(node, tuple(simplify(e, known) for e in n.args), domain)

    def gather(self, n: Expr, node: Node, shape: Shape, context: Expr | None) -> Operand:
        """A load at positions that are data; the node checks them."""
        if context is not None:
            raise NotTensor(f"{unstamped(n.attr)[0]} is read at positions that are data, under a condition")
        operands = []
        for e, extent in zip(n.args, shape, strict=True):
            operands.append(self.plain(e) if is_plain(e) else self.memo[e])
            self.checked |= {simplify(ZERO.le(e), self.known), simplify(e.lt(extent), self.known)}
        axes = self.axes({v for o in operands for v in o.variables})
        views = tuple(o.view(places(axes)) for o in operands)
        return Operand(gather_node(identity(node), shape, views, self.shape(axes)), tuple(axes))

    def axes(self, variables: set[Expr]) -> list[Expr]:
        return [v for v in self.order if v in variables]

    def shape(self, axes: Iterable[Expr]) -> Shape:
        return tuple(self.order[v] for v in axes)


def places(axes: Iterable[Expr]) -> dict[Expr, Expr]:
    return {v: axis(k) for k, v in enumerate(axes)}


def is_plain(e: Expr) -> bool:
    """An integer or a condition of loop variables and sizes alone (not a literal, which any operator takes as it is)."""
    if e.is_const or e.dtype not in (INDEX, bool_) or not e.is_position:
        return e.is_const and e.dtype is INDEX
    return not any(n.op == "var" and n.attr.startswith("%") for n in postorder(e))


def _either(a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else call("bit_or", a, b)
