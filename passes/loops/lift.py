"""Scalar expressions over loop variables → graph nodes over the domain of those loops.

Every subexpression becomes a node over just the variables that it depends on, in a given order; a load becomes a view of a version of its tensor, in the
variables of its user.  So the body of the loop gemm becomes the very nodes that `(matmul A B)` makes:

    A[i, p] * B[p, j]   over (i, j, p)     →     %m = mul [M, N, K]  %A[$0, $2]  %B[$2, $1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.bounds import Known
from ...ir.conditions import conjuncts
from ...ir.dtypes import INDEX, DType, bool_
from ...ir.expr import ONE, TRUE, ZERO, Expr, Scalar, axis, both, call, const, in_range, maximum
from ...ir.graph import Node, Shape, View, const_node, contiguous_node, elementwise, gather_node, identity, iota_node, reduce_node, scan_node
from ...ir.kernel import identity_of
from ...ir.primops import COMBINERS
from ...ir.record import record, replace
from ...ir.simplify import assuming, prove, simplify
from ...ir.walks import postorder, substitute
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

    def view(self, mapping: dict[Expr, Expr]) -> View:
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
        self.asked: dict[tuple[tuple[Trip, ...], Expr], None] = {}  # the same as it was written, and the loops that it stands in
        self.frame: tuple[Trip, ...] = ()  # the loops that it stands in
        self.term = False  # whether it is accumulated
        self.memo: dict[Expr, Operand] = {}  # of its parts
        self.wanted: dict[Node, Operand] = {}  # where what is gathered is not 0
        self.place: tuple[Expr, Expr | None] = (ZERO, None)  # it, and where its value is used
        self.conditions: dict[Expr, Expr | None] | None = None  # under which each part is used, data and all, once that was asked
        self.values: dict[Expr, Operand] = {}  # of the variables that stand for definitions

    def inside(self, loops: Iterable[Trip]) -> Known:
        """What is known inside these loops, whose variables run through their boxes."""
        return within(self.outside, tuple(Trip(t.var, self.boxes[t.var]) for t in loops))

    def view(self, x: Operand, axes: Iterable[Expr], mapping: dict[Expr, Expr] | None = None) -> View:
        """The operand read by a node over these axes, which may be fewer than the loops that it stands in; what then need not be inside is not read."""
        over = list(axes)
        left = [t for t in x.runs if t.var not in over]
        if left:
            known = self.inside(t for t in x.runs if t.var in over)
            if not prove(in_range(x.index, x.node.shape), assuming(known, x.domain)):
                x = replace(x, domain=both(x.domain, *(ONE.le(self.boxes[t.var]) for t in left)))
        return x.view(places(over) if mapping is None else mapping)

    def lift(self, root: Expr, loops: tuple[Trip, ...], term: bool = False) -> Operand:
        """The operand that gives `root` inside of `loops`.  `term`: it is accumulated."""
        for v in self.found.definitions(root):
            d = self.found.defined[v]
            if isinstance(d, Sum) and d.around and self.runs_along(d):
                raise NotTensor("a running value that is made anew for each row is only added up")
            if v not in self.values:
                body = self.folded(d)
                start = self.one_frame(d.start, d.guard, (*d.around, d.loop)) if isinstance(d, Scan) else None
                operand = self.one_frame(body, d.guard, (*d.around, *d.loops), isinstance(d, Sum))
                self.values[v] = self.scanned(d, operand, start) if start is not None and isinstance(d, Scan) else self.reduced(d, operand)
        return self.one_frame(root, None, loops, term)

    def runs_along(self, d: Sum) -> bool:
        """Whether what is added up is made of powers, a value that runs along the same loop and reads nothing along it, other ones for each iteration around: rows that are worked out side
        by side keep them in registers, and a tensor would hold one for each term."""
        own, around = {t.var for t in d.loops}, {t.var for t in d.around}
        for s in (self.found.defined[v] for v in self.found.definitions(d.body)):
            if isinstance(s, Scan) and s.loop.var in own:
                used = set(postorder(s.body))
                if s.loop.var not in used and used & around and not any(v in self.found.defined for v in used):
                    return True
        return False

    def one_frame(self, root: Expr, guard: Expr | None, loops: tuple[Trip, ...], term: bool = False) -> Operand:
        """An expression in one place, where the definitions that it mentions are lifted."""
        self.known, self.memo, self.frame, self.term = self.inside(loops), {}, loops, term
        self.place, self.conditions = (root, guard), None
        return self.lifted(root, guard)

    def lifted(self, root: Expr, guard: Expr | None) -> Operand:
        """An expression of the frame, whatever of it is not lifted yet."""
        contexts = self.contexts(root, positional(guard), is_plain)
        for n in postorder(root):
            if n in contexts and n not in self.memo:
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

    def contexts(self, root: Expr, guard: Expr | None, tells: Callable[[Expr], bool]) -> dict[Expr, Expr | None]:
        """The subexpressions that become tensors, each with what is known where its value is used (None: nothing), as far as conditions are of the kind that `tells`."""
        order = list(postorder(root))
        found: dict[Expr, Expr | None] = {root: guard}
        for n in reversed(order):
            if n not in found or is_plain(n):
                continue
            for k, a in enumerate(n.args):
                if n.op == "load" and is_plain(a):
                    continue
                here = found[n]
                if n.op == "where" and k > 0 and tells(n.args[0]):
                    here = both(here, n.args[0] if k == 1 else call("bit_not", n.args[0]))
                elif n.op == "bit_and" and n.dtype is bool_ and k == 1 and tells(n.args[0]):
                    here = both(here, n.args[0])  # where the first does not hold, nobody asks for the second
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
        operands = [self.memo[a] for a in n.args]
        if n.op == "where" and is_zero(n.args[2]) and self.wanted.get(operands[1].node) == operands[0]:
            return operands[1]  # 0 as it is where nobody wants it
        return self.apply(n, operands)

    def plain(self, n: Expr) -> Operand:
        if n.dtype is bool_:
            return Operand(const_node(True, bool_), (), None if n is TRUE else n, False)
        axes = self.axes({v for v in postorder(n) if v.op == "var"})
        return Operand(iota_node(substitute(n, places(axes)), self.shape(axes)), tuple(axes))

    def apply(self, n: Expr, operands: list[Operand]) -> Operand:
        """The operator of `n` on operands."""
        return self.made(n.op, n.dtype, operands)

    def made(self, op: str, dtype: DType, operands: list[Operand]) -> Operand:
        axes = self.axes({v for o in operands for v in o.variables})
        views = [self.view(o, axes) for o in operands]
        return Operand(elementwise(op, self.shape(axes), *views, to=dtype), tuple(axes))

    def folded_over(self, combiner: str, body: Operand, over: list[Expr]) -> Operand:
        axes = [v for v in self.axes(body.variables) if v not in over]
        node = reduce_node(combiner, self.shape(axes), self.shape(over), self.view(body, [*axes, *over]))
        return Operand(node, tuple(axes))

    def moved(self, x: Operand, mapping: dict[Expr, Expr], domain: Expr, otherwise: Expr) -> Operand:
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
            return self.gather(n, node, shape)
        inside = in_range(n.args, shape)
        domain = None
        if not prove(inside, self.known):
            domain = None if context is None else simplify(context, self.known)
            if domain is None or not prove(inside, assuming(self.known, context)):
                name = unstamped(n.attr)[0]
                raise NotTensor(f"{self.found.shown(name, n.args)} is not proven to be inside of {name}")
        known = assuming(self.known, domain)
        return Operand(node, tuple(simplify(e, known) for e in n.args), domain, 0, self.frame if n.args else ())

    def gather(self, n: Expr, node: Node, shape: Shape) -> Operand:
        """A load at positions that are data; the node checks them."""
        guard = self.condition(n)
        operands: list[Operand] = []
        at: list[Operand] = []
        for e, extent in zip(n.args, shape, strict=True):
            operands.append(self.plain(e) if is_plain(e) else self.memo[e])
            for c in (ZERO.le(e), e.lt(extent)):
                if guard is None:
                    self.checked.add(simplify(c, self.known))
                self.asked[self.frame, c if guard is None else call("bit_or", call("bit_not", guard), c)] = None
        if guard is None:
            return self.gathered(node, shape, shape, operands)
        own = {v for o in operands for v in o.variables}
        if self.term and all(t.var in own or t.count is ONE for t in self.frame):
            # each is read once: loops pass over what they do not want
            raise NotTensor(f"{self.found.shown(unstamped(n.attr)[0], n.args)} is read at a position that is data, under a condition")
        wanted = self.anywhere(self.lifted(guard, None), own)
        extents: list[Expr] = []
        for e, extent, operand in zip(n.args, shape, operands, strict=True):
            inside = is_plain(e) and prove(in_range((e,), (extent,)), self.known)
            extents.append(extent if inside else extent + 1)
            at.append(operand if inside else self.behind(wanted, operand, extent))
        found = self.gathered(node, shape, tuple(extents), at)
        self.wanted[found.node] = wanted
        return found

    def condition(self, n: Expr) -> Expr | None:
        """Under which a part of the frame's expression is used at all."""
        if self.conditions is None:
            self.conditions = self.contexts(*self.place, lambda _: True)
        found = self.conditions.get(n)
        return None if found is None else both(*(c for c in conjuncts(found) if not prove(c, self.known)))

    def anywhere(self, condition: Operand, variables: set[Expr]) -> Operand:
        """Over these variables: whether it holds for any of the others."""
        others = [v for v in self.axes(condition.variables) if v not in variables]
        if not others:
            return condition
        found = self.folded_over("or", condition, others)
        node = contiguous_node(identity(found.node), found.node.shape)  # by itself it runs along memory, whatever reads it
        return replace(found, node=node)

    def behind(self, wanted: Operand, index: Operand, extent: Expr) -> Operand:
        """An index where it is wanted, and elsewhere the position behind the last one, where zeros are; what is wanted from there, which is outside, is further outside."""
        end, further = self.plain(extent), self.plain(extent + 1)
        there = self.made("where", INDEX, [self.made("less_than", bool_, [index, end]), index, further])
        return self.made("where", INDEX, [wanted, there, end])

    def gathered(self, node: Node, shape: Shape, extents: Shape, at: list[Operand]) -> Operand:
        """What lies at these positions; zeros behind the end, where there are more of them than the tensor has."""
        axes = list(dict.fromkeys(v for o in at for v in self.axes(o.variables)))  # as they lie there: who makes it real copies rows
        places = tuple(axis(k) for k in range(len(shape)))
        domain = both(*(p.lt(n) for p, n, m in zip(places, shape, extents, strict=True) if n is not m))
        views = tuple(self.view(o, axes) for o in at)
        return Operand(gather_node(View(node, places, domain), extents, views, self.shape(axes)), tuple(axes))

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


def is_zero(e: Expr) -> bool:
    return e.is_const and e.attr == 0 and not str(e.attr).startswith("-")


def _either(a: Expr | None, b: Expr | None) -> Expr | None:
    """What is known where one of the two holds: what they have in common, if that is something."""
    if a is None or b is None:
        return None
    of_b = conjuncts(b)
    return both(*(c for c in conjuncts(a) if c in of_b)) or call("bit_or", a, b)
