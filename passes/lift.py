"""Scalar expressions over loop variables → graph nodes over the domain of those loops.

Every subexpression becomes a node over just the variables that it depends on, in a given order; a load becomes a view of a version of its tensor, in the
variables of its user.  So the body of the loop gemm becomes the very nodes that `(matmul A B)` makes:

    A[i, p] * B[p, j]   over (i, j, p)     →     %m = mul [M, N, K]  %A[$0, $2]  %B[$2, $1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.dtypes import INDEX, bool_
from ..ir.expr import ONE, TRUE, ZERO, Expr, Scalar, axis, both, call, const, in_range, maximum
from ..ir.graph import Node, Shape, View, const_node, elementwise, gather_node, identity, iota_node, reduce_node, scan_node
from ..ir.kernel import identity_of
from ..ir.primops import COMBINERS
from ..ir.record import record, replace
from ..ir.simplify import assuming, prove, simplify
from ..ir.walks import postorder, substitute
from .dependence import positional
from .domains import NotTensor, Trip, within
from .loop_events import Events
from .loop_records import Scan, Sum, Unknown, unstamped


@record
class Operand:
    """A view in terms of loop variables."""

    node: Node
    index: tuple[Expr, ...] = ()
    domain: Expr | None = None
    fill: Scalar = 0
    runs: tuple[Trip, ...] = ()  # the loops that it stands in: only where they run its index is inside

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

    def __init__(self, boxes: dict[Expr, Expr], known: Known, source: Callable[[Expr], tuple[Node, Shape]], found: Events, strict: bool) -> None:
        self.source, self.found, self.strict, self.outside = source, found, strict, known
        self.order = {v: simplify(maximum(count, 0), known) for v, count in boxes.items()}
        self.boxes = boxes
        self.known = known  # where the expression at hand stands
        self.checked: set[Expr] = set()  # what the gathers check
        self.frame: tuple[Trip, ...] = ()  # the loops that it stands in
        self.memo: dict[Expr, Operand] = {}  # of its parts
        self.values: dict[Expr, Operand] = {}  # of the variables that stand for definitions

    def inside(self, loops: Iterable[Trip]) -> Known:
        """What is known inside these loops, whose variables run through their boxes."""
        return within(self.outside, tuple(Trip(t.var, self.boxes[t.var]) for t in loops))

    def view(self, x: Operand, axes: Iterable[Expr], mapping: Mapping[Expr, Expr] | None = None) -> View:
        """The operand read by a node over these axes, which may be fewer than the loops that it stands in; what then need not be inside is not read."""
        over = list(axes)
        left = [t for t in x.runs if t.var not in over]
        if left:
            known = self.inside(t for t in x.runs if t.var in over)
            if not prove(in_range(x.index, x.node.shape), assuming(known, x.domain)):
                x = replace(x, domain=both(x.domain, *(ONE.le(self.boxes[t.var]) for t in left)))
        return x.view(places(over) if mapping is None else mapping)

    def lift(self, root: Expr, guard: Expr | None, loops: tuple[Trip, ...]) -> Operand:
        """The operand that gives `root` inside of `loops` wherever `guard` holds; elsewhere it may give anything."""
        for v in self.found.definitions(root):
            d = self.found.defined[v]
            if v not in self.values:
                body = self.folded(d)
                start = self.one_frame(d.start, d.guard, (*d.around, d.loop)) if isinstance(d, Scan) else None
                operand = self.one_frame(body, d.guard, (*d.around, *d.loops))
                self.values[v] = self.scanned(d, operand, start) if start is not None and isinstance(d, Scan) else self.reduced(d, operand)
        return self.one_frame(root, guard, loops)

    def one_frame(self, root: Expr, guard: Expr | None, loops: tuple[Trip, ...]) -> Operand:
        """An expression in one place, where the definitions that it mentions are lifted."""
        self.known, self.memo, self.frame = self.inside(loops), {}, loops
        contexts = self.contexts(root, guard)
        for n in postorder(root):
            if n in contexts:
                self.memo[n] = self.one(n, contexts[n])
        return self.memo[root]

    def folded(self, d: Sum | Scan | Unknown) -> Expr:
        """What is combined over the whole box of the loops: nothing where a loop has fewer trips than its box."""
        if isinstance(d, Unknown):
            raise NotTensor(d.why, d.span)
        if self.strict and isinstance(d, Sum) and d.dtype.is_float and d.combiner in ("add", "mul"):
            raise NotTensor("--strict keeps the order in which floats are accumulated")
        return self.masked(d.body, d.loops, d.around, identity_of(d.combiner, d.dtype))

    def masked(self, value: Expr, loops: tuple[Trip, ...], around: tuple[Trip, ...], otherwise: Expr) -> Expr:
        known = self.inside((*around, *loops))
        short = both(*(c for c in (t.var.lt(t.count) for t in loops) if not prove(c, known)))
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
        if n in self.values:
            return self.values[n]
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
        views = [self.view(o, axes) for o in operands]
        return Operand(elementwise(n.op, self.shape(axes), *views, to=n.dtype), tuple(axes))

    def folded_over(self, combiner: str, body: Operand, over: list[Expr]) -> Operand:
        axes = [v for v in self.axes(body.variables) if v not in over]
        node = reduce_node(combiner, self.shape(axes), self.shape(over), self.view(body, [*axes, *over]))
        return Operand(node, tuple(axes))

    def moved(self, x: Operand, mapping: Mapping[Expr, Expr], domain: Expr, otherwise: Expr) -> Operand:
        """The operand with variables as `mapping` gives them, where `domain` holds, and `otherwise` elsewhere."""
        index = tuple(substitute(e, mapping) for e in x.index)
        if x.domain is None:
            return replace(x, index=index, domain=domain, fill=otherwise.attr)
        return self.choice(
            domain, replace(x, index=index, domain=substitute(x.domain, mapping)), Operand(const_node(otherwise.attr, otherwise.dtype))
        )

    def reduced(self, d: Sum | Scan | Unknown, body: Operand) -> Operand:
        assert isinstance(d, Sum)
        return self.folded_over(d.combiner, body, [t.var for t in d.loops])

    def scanned(self, d: Scan, body: Operand, start: Operand) -> Operand:
        """The running value: of the trip before this one, unless `d` is inclusive.  The start is combined with the first of the values."""
        t, nothing = d.loop.var, identity_of(d.combiner, d.dtype)
        if d.start is not nothing:
            first = self.apply(call(COMBINERS[d.combiner].op, nothing, const(1, d.dtype)), [start, body])
            body = self.choice(t.lt(1), first, body)
        axes = self.axes({t, *body.variables})
        node = scan_node(d.combiner, axes.index(t), self.view(body, axes), self.shape(axes))
        if d.inclusive:
            return Operand(node, tuple(axes))
        before = Operand(node, tuple(v - 1 if v is t else v for v in axes), ONE.le(t), d.start.attr if d.start.is_const else nothing.attr)
        return before if d.start.is_const else self.choice(ONE.le(t), before, start)

    def choice(self, condition: Expr, a: Operand, b: Operand) -> Operand:
        """One or the other, by a condition on positions."""
        test = Operand(const_node(True, bool_), (), condition, False)
        axes = self.axes({*test.variables, *a.variables, *b.variables})
        return Operand(elementwise("where", self.shape(axes), *(self.view(x, axes) for x in (test, a, b))), tuple(axes))

    def load(self, n: Expr, context: Expr | None) -> Operand:
        node, shape = self.source(n)
        if node.op == "const":
            return Operand(node)
        if not all(is_plain(e) for e in n.args):
            return self.gather(n, node, shape, context)
        inside = in_range(n.args, shape)
        domain = None
        if not prove(inside, self.known):
            domain = None if context is None else simplify(context, self.known)
            if domain is None or not prove(inside, assuming(self.known, context)):
                name = unstamped(n.attr)[0]
                raise NotTensor(f"{self.found.shown(name, n.args)} is not proven to be inside of {name}")
        known = assuming(self.known, domain)
        return Operand(node, tuple(simplify(e, known) for e in n.args), domain, 0, self.frame if n.args else ())

    def gather(self, n: Expr, node: Node, shape: Shape, context: Expr | None) -> Operand:
        """A load at positions that are data; the node checks them."""
        if context is not None:
            raise NotTensor(f"{self.found.shown(unstamped(n.attr)[0], n.args)} is read at a position that is data, under a condition")
        operands = []
        for e, extent in zip(n.args, shape, strict=True):
            operands.append(self.plain(e) if is_plain(e) else self.memo[e])
            self.checked |= {simplify(ZERO.le(e), self.known), simplify(e.lt(extent), self.known)}
        axes = self.axes({v for o in operands for v in o.variables})
        views = tuple(self.view(o, axes) for o in operands)
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
    """What is known where one of the two holds: what they have in common, if that is something."""
    if a is None or b is None:
        return None
    of_b = conjuncts(b)
    return both(*(c for c in conjuncts(a) if c in of_b)) or call("bit_or", a, b)
