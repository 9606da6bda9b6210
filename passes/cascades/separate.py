"""The algebra behind cascades: what of a reduction's body varies along the reduced axis, and what earlier reductions over it do to the rest.

A body is looked at as a product whose factors are X (vary along the axis), R (earlier reductions, the same at every position of it) or exponentials of sums of
both.  R factors come out of a sum by distributivity (`pull`).  What remains is *separable* where R stands only in exponents, as a term that is added to X
terms: then  Σ exp(x − m′) = exp(m − m′) · Σ exp(x − m), so a sum over what was seen so far moves to a new m by one factor (`separate`).

    exp(s − m) / l · v      pull: 1 / l;    separate: exp, term −m beside s
    exp(tanh(s − m))        not separable: `tanh` mixes both

Every function works in the domain of the node that it looks at; `varying` are the $ axes of that domain which move with the reduced axis.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.expr import Expr, axis
from ...ir.graph import Node, Shape, View, const_node, elementwise, identity, make, scalar
from ...ir.primops import OPS
from ...ir.record import record, replace
from ...ir.walks import leaves
from ..reading import reads_of
from ..rules.pattern import same_view, through
from ..walk import Walk

Axes = frozenset[Expr]
EXPONENTIALS = ("exp", "exp2")
_LOGARITHM = {"exp": "log", "exp2": "log2"}


class Mixed(Exception):
    """A body that is not separable; the message says which factor is in the way."""


@record
class Pulled:
    """An R factor of a product, over the domain of the body; divided by where `inverse`.  Casts between floats that stood around it are left out.

    With `where` it is a condition: the product is 0 but where it holds (True), or does not hold (False).  Where not all of the conditions `under` which it stood hold, nothing is multiplied by it."""

    view: View
    inverse: bool
    where: bool | None = None
    under: tuple[View, ...] = ()

    def through(self, outer: View) -> Pulled:
        return replace(self, view=looked_through(outer, self.view), under=tuple(looked_through(outer, c) for c in self.under))


@record
class Term:
    """`sign · scales · view` inside an exponent."""

    view: View
    sign: int
    scales: tuple[Pulled, ...]

    def through(self, outer: View) -> Term:
        return Term(looked_through(outer, self.view), self.sign, tuple(s.through(outer) for s in self.scales))


@record
class Exponent:
    """The R terms of one exponential factor, the X terms beside them, and the conditions but where all of which hold it is left out."""

    base: str
    moving: tuple[Term, ...]
    fixed: tuple[Term, ...]
    under: tuple[View, ...] = ()

    def through(self, outer: View, inverse: bool) -> Exponent:
        sign = -1 if inverse else 1
        terms = [tuple(Term(t.view, t.sign * sign, t.scales).through(outer) for t in ts) for ts in (self.moving, self.fixed)]
        return Exponent(self.base, terms[0], terms[1], () if inverse else tuple(looked_through(outer, c) for c in self.under))


def varying_in(view: View, varying: Axes) -> Axes:
    """The axes of the view's source that move with the reduced axis."""
    return frozenset(axis(k) for k, e in enumerate(view.index) if varying.intersection(leaves(e, "axis")))


def looked_through(outer: View, inner: View) -> View:
    moved = through(outer, inner)
    assert moved is not None  # a masked view is never looked into
    return moved


def moves(view: View, varying: Axes) -> bool:
    """Whether what a view reads varies with these axes."""
    return bool(varying_in(view, varying)) or (view.domain is not None and bool(varying.intersection(leaves(view.domain, "axis"))))


def keeps_in_range(view: View, inverse: bool) -> bool:
    """Whether an extreme stands in what a factor divides by (`inverse`: the factor as a whole does), but in no exponent, as in the sum of a softmax with one term more."""
    stack, seen = [(view.node, inverse)], set()
    while stack:
        n, below = stack.pop()
        if (n, below) in seen:
            continue
        seen.add((n, below))
        if n.op == "reduce":
            if below and n.attr.combiner in ("max", "min"):
                return True
        elif n.op in OPS and n.op not in EXPONENTIALS and n.dtype.is_float:  # what only decides is no factor
            stack.extend((a.node, below != (n.op == "recip" or (n.op == "div" and k == 1))) for k, a in enumerate(n.args))
    return False


class Body:
    """The body of one reduction; `earlier` are the reductions that count as R."""

    def __init__(self, earlier: frozenset[Node], polynomial: bool = False, infinite: frozenset[Node] = frozenset(), bare: bool = False) -> None:
        """`infinite`: see `guarded`; `bare`: nothing is guarded.  With `polynomial`, sums and R factors may stand in the product that is separated: whether it is a polynomial in them is for `moments.py` to say."""
        self.earlier, self.polynomial, self.infinite, self.bare = earlier, polynomial, infinite, bare
        self.nothing = float("inf") if any(r.attr.combiner == "min" for r in earlier) else float("-inf")
        self.holds: dict[Node, bool] = {}

    def has_r(self, node: Node) -> bool:
        """Whether R stands anywhere in the pointwise part of a node."""
        stack = [(node, False)]
        while stack:
            n, done = stack.pop()
            if n in self.holds:
                continue
            if n in self.earlier or n.op not in OPS:
                self.holds[n] = n in self.earlier
            elif done:
                self.holds[n] = any(self.holds[a.node] for a in n.args)
            else:
                stack.append((n, True))
                stack.extend((a.node, False) for a in n.args)
        return self.holds[node]

    # ---- distributivity

    def pull(self, node: Node, varying: Axes) -> Walk:
        """(rest, factors): the node is the product of `rest` (a view over its domain; None is 1) and R factors that do not vary.

        What divides by an extreme stays: Σ (x / max |x|)² is written so that no square overflows.  A condition comes out with what stands inside of it, and before what does not: so
        Σ where(l > 0, x / l, 0) · y / z is where(l > 0, (Σ x · y) / l, 0) / z, and what a choice leaves out may be infinite."""
        if node.op in ("mul", "div") or (node.op in ("recip", "neg", "cast") and node.dtype.is_float and node.args[0].dtype.is_float):
            rests, factors = [], []
            for k, a in enumerate(node.args):
                inverse = node.op == "recip" or (node.op == "div" and k == 1)
                rest, found = yield self.pull_operand(a, varying)
                chosen = any(f.where is not None for f in found)
                if any(f.where is None and keeps_in_range(f.view, f.inverse != inverse) for f in found) or (
                    chosen and (inverse or any(f.where is not None for f in factors))
                ):
                    rest, found = a, []
                rests.append(rest)
                found = [replace(f, inverse=f.inverse != inverse, under=() if inverse else f.under) for f in found]
                factors = [*found, *factors] if chosen else [*factors, *found]
            return (self._product(node, rests) if factors else identity(node)), factors
        if node.op in EXPONENTIALS:
            return (yield self._pull_exponent(node, varying))
        if node.op == "where":
            return (yield self._pull_choice(node, varying))
        return identity(node), []

    def _pull_choice(self, node: Node, varying: Axes) -> Walk:
        condition = node.args[0]
        if not self.has_r(condition.node):
            if is_zero(node.args[2]):
                rest, factors = yield self.pull_operand(node.args[1], varying)
                if factors:
                    one = scalar(const_node(1.0, node.dtype)) if rest is None else rest
                    rest = identity(elementwise("where", node.shape, condition, one, node.args[2], span=node.span))
                    return rest, [replace(f, under=(*f.under, condition)) for f in factors]
        elif not moves(condition, varying):
            for holds, chosen, other in ((True, *node.args[1:]), (False, *node.args[:0:-1])):
                if is_zero(other):
                    rest, factors = yield self.pull_operand(chosen, varying)
                    return rest, [*factors, Pulled(condition, False, holds)]
        return identity(node), []

    def pull_operand(self, a: View, varying: Axes) -> Walk:
        if not self.has_r(a.node):
            return a, []
        if not moves(a, varying):
            return None, [Pulled(a, False)]
        if a.domain is not None:
            return a, []
        rest, factors = yield self.pull(a.node, varying_in(a, varying))
        return (None if rest is None else looked_through(a, rest)), [f.through(a) for f in factors]

    def _pull_exponent(self, node: Node, varying: Axes) -> Walk:
        """exp(x − m − log l) = exp(x − m) · 1/l: R terms leave an exponent, but for extremes, which keep it from overflowing.

        Of the larger of two extremes only that over this axis is R: exp(x − max(m, n)) = exp(x − m) · exp(m − max(m, n))."""
        rest, terms = yield self.pull_terms(node.args[0], varying, node.shape)
        moving = [t for t in terms if not is_extreme(t.view)]
        own = [(t, self._own(t)) for t in terms if is_extreme(t.view)]  # one may stand there twice
        if rest is None or not (moving or any(mine for _, mine in own)) or not own:
            return identity(node), []
        factors = []
        for t, mine in own:
            anchor = t.view if mine is None else guarded(looked_through(t.view, mine), self.nothing, self.infinite)
            rest = identity(elementwise("add" if t.sign > 0 else "sub", node.shape, rest, anchor))
            if mine is not None:
                whole = t.view.node
                below = elementwise("sub", whole.shape, *((identity(whole), mine) if t.sign > 0 else (mine, identity(whole))))
                factors.append(Pulled(View(elementwise(node.op, whole.shape, identity(below)), t.view.index), False))
        for t in moving:
            if t.view.domain is None and t.view.node.op == _LOGARITHM[node.op]:
                factors.append(Pulled(looked_through(t.view, t.view.node.args[0]), t.sign < 0))
            else:
                factors.append(Pulled(View(elementwise(node.op, t.view.node.shape, identity(t.view.node)), t.view.index), t.sign < 0))
        return identity(elementwise(node.op, node.shape, rest, span=node.span)), factors

    def _own(self, t: Term) -> View | None:
        """The one earlier extreme in an extreme of that and of other reductions, over its domain; None where nothing else is reduced there, or more than one is earlier."""
        found: list[View] = []
        others = False
        stack = [] if t.view.domain is not None or t.view.node in self.earlier else [identity(t.view.node)]
        while stack:
            v = stack.pop()
            if v.node in self.earlier:
                found.append(v)
            elif v.node.op == ("max" if t.sign < 0 else "min") and v.domain is None:
                stack += [looked_through(v, a) for a in v.node.args]
            else:
                others = others or any(r.node.op == "reduce" for r in reads_of(v))
        return found[0] if others and len(found) == 1 else None

    def pull_terms(self, view: View, varying: Axes, shape: Shape) -> Walk:
        """(rest, terms), over a domain of this shape: what is read is the sum of `rest` (None is 0) and of R terms that do not vary."""
        node = view.node
        if not self.has_r(node):
            return view, []
        summed = node.op in ("add", "sub", "neg") or (node.op == "cast" and node.dtype.is_float and node.args[0].dtype.is_float)
        if view.domain is not None or node in self.earlier or not summed:
            return (view, []) if moves(view, varying) else (None, [Term(view, 1, ())])
        rests: list[View | None] = []
        found: list[Term] = []
        for k, a in enumerate(node.args):
            rest, terms = yield self.pull_terms(looked_through(view, a), varying, shape)
            sign = -1 if node.op == "neg" or (node.op == "sub" and k == 1) else 1
            rests.append(rest)
            found += [Term(t.view, t.sign * sign, ()) for t in terms]
        left = [r for r in rests if r is not None]
        if not found:
            return view, []
        if len(left) == len(node.args):
            return identity(make(node.op, node.dtype, shape, tuple(left), node.attr, node.span)), found
        if left and node.op == "sub" and rests[0] is None:
            return identity(elementwise("neg", shape, left[0])), found
        return (left[0] if left else None), found

    def addends(self, view: View, shape: Shape) -> Walk:
        """The value over this domain as terms (sign, view), where one factor of a product is a sum that holds R, and no other is; else itself alone.

        A product of two such sums stays: its terms would cancel, where the sums are small.  So does one of exponentials and a difference to an extreme, which is exact as it stands."""
        node = view.node
        if view.domain is not None or not self.has_r(node):
            return [(1, view)]
        args = [looked_through(view, a) for a in node.args]
        if node.op in ("add", "sub"):
            left, right = (yield self.addends(args[0], shape)), (yield self.addends(args[1], shape))
            return left + [(sign if node.op == "add" else -sign, v) for sign, v in right]
        place = {"mul": None, "div": 0, "neg": 0, "cast": 0, "where": 1}.get(node.op, -1)
        with_r = [k for k, a in enumerate(args) if self.has_r(a.node)]
        plain = node.op != "where" or is_zero(args[2])
        if place not in (None, *with_r) or (place is not None and len(with_r) > 1) or not plain or not node.dtype.is_float:
            return [(1, view)]
        sums: dict[int, list[tuple[int, View]]] = {}
        for k in with_r:
            terms = yield self.addends(args[k], shape)
            if len(terms) > 1:
                sums[k] = terms
        if len(sums) != 1 or (len(with_r) > 1 and any(self._of_extremes(v.node) for terms in sums.values() for _, v in terms)):
            return [(1, view)]
        ((k, terms),) = sums.items()
        return [(sign, identity(make(node.op, node.dtype, shape, (*args[:k], v, *args[k + 1 :]), node.attr, node.span))) for sign, v in terms]

    def _of_extremes(self, node: Node) -> bool:
        """Whether an earlier extreme stands in a value, but in no exponent."""
        stack, seen = [node], set()
        while stack:
            n = stack.pop()
            if n in seen or not self.has_r(n) or n.op in EXPONENTIALS:
                continue
            seen.add(n)
            if n.op == "reduce" and n.attr.combiner in ("max", "min"):
                return True
            stack.extend(a.node for a in n.args if n.op in OPS)
        return False

    def _product(self, node: Node, rests: list[View | None]) -> View | None:
        if node.op == "mul":
            left = [r for r in rests if r is not None]
            if len(left) < 2:
                return left[0] if left else None
        elif rests[-1] is None and node.op != "neg":
            return rests[0] if node.op == "div" else None
        one = scalar(const_node(1.0, node.dtype))
        if node.op == "div" and rests[0] is None:
            assert rests[1] is not None
            return identity(elementwise("recip", node.shape, rests[1], span=node.span))
        return identity(elementwise(node.op, node.shape, *(one if r is None else r for r in rests), to=node.dtype, span=node.span))

    # ---- exponents

    def separate(self, node: Node, varying: Axes) -> Walk:
        """(the node with its R terms guarded, its exponents); Mixed where R stands anywhere else."""
        if node.op in EXPONENTIALS:
            arg, terms = yield self._terms(node.args[0], varying)
            moving = tuple(t for t in terms if self.has_r(t.view.node))
            fixed = tuple(t for t in terms if not self.has_r(t.view.node))
            return elementwise(node.op, node.shape, arg, span=node.span), [Exponent(node.op, moving, fixed)]
        product = node.op in ("mul", "div", "recip", "neg") or (node.op == "cast" and node.dtype.is_float and node.args[0].dtype.is_float)
        masked = node.op == "where" and is_zero(node.args[2]) and not self.has_r(node.args[0].node)
        if self.polynomial and node.op in ("add", "sub") and not self._has_exponential(node):
            return node, []
        if not product and not masked:
            raise Mixed(f"`{node.op}` mixes what varies along the axis with an earlier reduction over it")
        args, found = [], []
        for k, a in enumerate(node.args):
            if self.has_r(a.node):
                if not moves(a, varying) and self.polynomial:
                    args.append(a)
                    continue
                if not moves(a, varying):
                    raise Mixed(f"a factor of `{node.op}` is an earlier reduction that stays inside the sum")
                if a.domain is not None:
                    raise Mixed("an earlier reduction is read under a mask")
                inner, exponents = yield self.separate(a.node, varying_in(a, varying))
                inverse = node.op == "recip" or (node.op == "div" and k == 1)
                found += [e.through(a, inverse) for e in exponents]
                a = View(inner, a.index)
            args.append(a)
        if masked:
            found = [replace(e, under=(*e.under, node.args[0])) for e in found]
        return make(node.op, node.dtype, node.shape, tuple(args), node.attr, node.span), found

    def _has_exponential(self, node: Node) -> bool:
        """Whether R stands in an exponent somewhere: beside what has another correction, or none, that is no factor."""
        stack, seen = [node], set()
        while stack:
            n = stack.pop()
            if n in seen or not self.has_r(n) or n in self.earlier:
                continue
            if n.op in EXPONENTIALS:
                return True
            seen.add(n)
            stack.extend(a.node for a in n.args)
        return False

    def _terms(self, view: View, varying: Axes) -> Walk:
        """(the view with its R terms guarded, its terms), of a sum in an exponent."""
        if not self.has_r(view.node):
            return view, [Term(view, 1, ())]
        if not moves(view, varying):
            return view if self.bare else guarded(view, self.nothing, self.infinite), [Term(view, 1, ())]
        node, inner = view.node, varying_in(view, varying)
        if view.domain is not None:
            raise Mixed("an exponent is read under a mask")
        if node.op in ("add", "sub", "neg") or (node.op == "cast" and node.dtype.is_float and node.args[0].dtype.is_float):
            args, found = [], []
            for k, a in enumerate(node.args):
                arg, terms = yield self._terms(a, inner)
                sign = -1 if node.op == "neg" or (node.op == "sub" and k == 1) else 1
                args.append(arg)
                found += [Term(t.view, t.sign * sign, t.scales) for t in terms]
        elif node.op in ("mul", "div"):
            summed = [k for k, a in enumerate(node.args) if self.has_r(a.node)]
            other = [a for k, a in enumerate(node.args) if k not in summed]
            if len(summed) != 1 or moves(other[0], inner) or (node.op == "div" and summed != [0]):
                raise Mixed(f"`{node.op}` in an exponent multiplies an earlier reduction by what varies along the axis")
            arg, terms = yield self._terms(node.args[summed[0]], inner)
            args = [arg if k in summed else a for k, a in enumerate(node.args)]
            found = [Term(t.view, t.sign, (*t.scales, Pulled(other[0], node.op == "div"))) for t in terms]
        else:
            raise Mixed(f"`{node.op}` in an exponent mixes what varies along the axis with an earlier reduction over it")
        changed = make(node.op, node.dtype, node.shape, tuple(args), node.attr, node.span)
        return View(changed, view.index), [t.through(view) for t in found]


def is_zero(view: View) -> bool:
    return view.node.op == "const" and view.domain is None and view.node.attr.value == 0


def is_extreme(v: View) -> bool:
    node = unguarded(v).node
    return node.op in ("max", "min") or (node.op == "reduce" and node.attr.combiner in ("max", "min"))


def guarded(v: View, end: float, infinite: frozenset[Node]) -> View:
    """Where an earlier extreme is still what it is of nothing (−∞ of a maximum: all was masked so far), 0 instead: exponentials relative to it are then 0, not NaN.

    Of the `infinite` extremes, which somebody guards against both infinities, every guard is that one, so that all exponentials relative to them are the same.
    """
    bare = unguarded(v)
    node, d = bare.node, bare.node.dtype
    if node in infinite:
        nothing = elementwise("isinf", node.shape, identity(node))
    elif bare is not v:
        return v
    else:
        nothing = elementwise("equal", node.shape, identity(node), scalar(const_node(end, d)))
    return View(elementwise("where", node.shape, identity(nothing), scalar(const_node(0.0, d)), identity(node)), bare.index, bare.domain, bare.fill)


def guarded_extremes(nodes: Iterable[Node]) -> frozenset[Node]:
    """The nodes that some choice guards against both infinities: x of `where(isinf(x), 0, x)`."""
    views = [(n, unguarded(identity(n))) for n in nodes if n.op == "where"]
    return frozenset(v.node for n, v in views if v.node is not n and v.domain is None and n.args[0].node.op == "isinf")


def unguarded(v: View) -> View:
    """The extreme that a guard is made of: x of `where(isinf(x), 0, x)` and of `where(x = −∞, 0, x)`."""
    node = v.node
    if node.op == "where" and v.domain is None and node.args[0].domain is None and node.args[1].node.op == "const":
        test, x = node.args[0], node.args[2]
        if test.node.op in ("isinf", "equal") and same_view(looked_through(test, test.node.args[0]), x):
            return looked_through(v, x)
    return v


def beside(term: Term, body: View, fixed: Iterable[Term]) -> bool:
    """Whether an exponent holds, with the opposite sign and the same scales, the very value whose extreme the R term is."""
    return any(same_view(t.view, body) and t.sign == -term.sign and _same(t.scales, term.scales) for t in fixed)


def _same(a: tuple[Pulled, ...], b: tuple[Pulled, ...]) -> bool:
    return len(a) == len(b) and all(same_view(x.view, y.view) and x.inverse == y.inverse for x, y in zip(a, b, strict=True))
