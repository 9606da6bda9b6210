"""Sums of products of which each is chosen from several: what all of them have in common is multiplied with what is chosen of the rest.

    Σ_p where(c[p], a[i, p] · b[p, j], -a[i, p] · b[p, j])        →        Σ_p where(c[p], a[i, p], -a[i, p]) · b[p, j]
    Σ_p where(c[p, j], a[i, p], where(d[p, j], -a[i, p], 0))      →        Σ_p a[i, p] · where(c[p, j], 1, where(d[p, j], -1, 0)), and looked at where it is not finite
    Σ_p where(c[i, p], a[i, p] · b[p, j], a[i, p] · d[p, j])      →        a sum for each branch, where each is one of products by itself

So are matrices of signs, of three values, of which one half is scaled.  Where one of the products is always added the value is the same, term by term.

Conditions: the common factor, and what is chosen beside it, are each used again along an axis of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.bounds import Known
from ...ir.expr import ZERO, Expr, axis, call, const
from ...ir.graph import Node, View, condition_of, const_node, contiguous_node, elementwise, identity, reduce_node, scalar, truth
from ...ir.record import record
from ...ir.simplify import assuming, prove_le, simplify
from ..cascades.separate import is_zero
from ..reading import factors, reads_of
from ..rules.pattern import same_view
from .taken_again import taken_again

LEAVES = 8  # products to choose from, at most


@record
class Choice:
    """A sum of products under a choice."""

    node: Node
    test: View
    factors: tuple[View, ...]
    negative: bool

    @property
    def zero(self) -> View:
        return scalar(const_node(0.0 if self.node.dtype.is_float else 0, self.node.dtype))

    def extents(self, axes: list[int]) -> tuple[Expr, ...]:
        every = (*self.node.shape, *self.node.attr.extents)
        return tuple(every[a] for a in axes)


def there(v: View, found: Choice, known: Known) -> bool:
    """Whether all that a factor is made of is there also where the choice leaves it out, and of what is gathered less than there are terms: it is made real."""
    domain = (*found.node.shape, *found.node.attr.extents)
    return reads_inside(v, domain, known) and not any(r.node.op == "gather" and r.node.rank == len(domain) for r in reads_of(v))


def reads_inside(v: View, domain: tuple[Expr, ...], known: Known) -> bool:
    """Whether all that a value is made of is there on a whole domain, whatever is asked around the value."""
    inside = known.with_domain(domain)
    return all(
        prove_le(ZERO, e, within) and prove_le(e, n - 1, within)
        for r in reads_of(v)
        for within in (assuming(inside, r.domain),)
        for e, n in zip(r.index, r.node.shape, strict=True)
    )


def reused(found: Choice, axes: set[int], others: Iterable[View]) -> bool:
    """Whether an operand with these axes, and another, are each used again along an axis that the other one has."""
    kept = {a for a, e in enumerate(found.node.shape) if not e.is_const or e.attr > 1}
    return any(axes & kept - b and b & kept - axes for b in (v.axes for v in others))


def product_of(found: Choice, of: tuple[View, ...]) -> View:
    shape = (*found.node.shape, *found.node.attr.extents)
    value = of[0]
    for f in of[1:]:
        value = identity(elementwise("mul", shape, value, f, span=found.node.span))
    return identity(elementwise("neg", shape, value, span=found.node.span)) if found.negative else value


# ---- the choice


@record
class _Leaf:
    """A product, in a choice between several; none of no factors that is 0."""

    factors: tuple[View, ...]
    negative: bool


@record
class _Chosen:
    test: View
    yes: _Chosen | _Leaf | None
    no: _Chosen | _Leaf | None


_Tree = _Chosen | _Leaf | None  # None: nothing is added


def _tree(v: View) -> _Tree:
    if is_zero(v):
        return None
    if v.domain is not None and v.fill == 0:
        return _Chosen(truth(v.domain), _tree(View(v.node, v.index)), None)
    if v.domain is None and v.node.op == "where":
        test, yes, no = v.operands
        return _Chosen(test, _tree(yes), _tree(no))
    negative = v.domain is None and v.node.op == "neg"
    product = v.operands[0] if negative else v
    return _Leaf(tuple(factors(product)), negative)


def _leaves(t: _Tree) -> list[_Leaf | None]:
    return [*_leaves(t.yes), *_leaves(t.no)] if isinstance(t, _Chosen) else [t]


def _tests(t: _Tree) -> list[View]:
    return [t.test, *_tests(t.yes), *_tests(t.no)] if isinstance(t, _Chosen) else []


def chosen_products(n: Node, known: Known, taken: set[str], bare_of: Callable[[Node], Node]) -> Node:
    """A sum of products of which each is chosen, and all have one factor in common: that one is multiplied with what is chosen of the others."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.rank < 2 or not (n.dtype.is_float or n.dtype.is_integer):
        return n
    tree = _tree(n.args[0])
    leaves_of = _leaves(tree)
    products = [leaf for leaf in leaves_of if leaf is not None]
    if not 1 < len(leaves_of) <= LEAVES or not products:
        return n
    tests = _tests(tree)
    for common in products[0].factors:
        others = [_without(leaf, common) for leaf in products]
        left = [f for o in others if o is not None for f in o]
        axes = set[int]().union(*(v.axes for v in (*tests, *left)))
        found = Choice(n, tests[0], (common,), False)
        if None in others or common.domain is not None or len(axes) == n.rank + len(n.attr.extents) or not there(common, found, known):
            continue
        if not _apart(found, axes, common):
            continue
        order = _as_it_lies((*left, *tests), axes)
        extents = found.extents(order)
        chosen = _rest(tree, common, {axis(a): axis(k) for k, a in enumerate(order)}, extents, n)
        chosen = View(contiguous_node(chosen, extents, n.span), tuple(map(axis, order)))
        bare = reduce_node("add", n.shape, n.attr.extents, product_of(found, (chosen, common)), n.span)
        return bare if None not in leaves_of or n.dtype.is_integer else taken_again(n, bare, taken)
    return _one_by_one(n, bare_of)


def _one_by_one(n: Node, bare_of: Callable[[Node], Node]) -> Node:
    """A sum for each branch of a choice, where each is one of products by itself."""
    view = n.args[0]
    if view.domain is not None or view.node.op != "where" or any(is_zero(a) for a in view.node.args):
        return n
    domain = (*n.shape, *n.attr.extents)
    test, *branches = view.operands
    zero = scalar(const_node(0.0 if n.dtype.is_float else 0, n.dtype))
    sums: list[Node] = []
    for value, holds in zip(branches, (test, _opposite(test, domain)), strict=True):
        chosen = elementwise("where", domain, holds, value, zero, span=n.span)
        one = reduce_node("add", n.shape, n.attr.extents, identity(chosen), n.span)
        sums.append(bare_of(one))
        if sums[-1] is one:
            return n
    return elementwise("add", n.shape, *map(identity, sums), span=n.span)


def _opposite(test: View, domain: tuple[Expr, ...]) -> View:
    condition = condition_of(test)
    if condition is not None:
        return truth(simplify(call("bit_not", condition)))
    if test.domain is None:
        return View(elementwise("bit_not", test.node.shape, identity(test.node)), test.index)
    return identity(elementwise("bit_not", domain, test))


def _as_it_lies(views: Iterable[View], axes: set[int]) -> list[int]:
    """Axes in the order in which something that has them all lies in memory."""
    for r in (r for v in views for r in reads_of(v)):
        own = [e.attr for e in r.index if e.op == "axis"]
        if set(own) == axes and len(own) == len(r.index) == len(axes):
            return own
    return sorted(axes)


def _apart(found: Choice, axes: set[int], common: View) -> bool:
    """Whether what is chosen, which has these axes, and what it is multiplied with are each used again along an axis of the other."""
    kept = {a for a, e in enumerate(found.node.shape) if not e.is_const or e.attr > 1}
    return bool(axes & kept - common.axes) and bool(common.axes & kept - axes)


def _without(leaf: _Leaf, common: View) -> tuple[View, ...] | None:
    """The factors of a product but one, if it has that."""
    at = next((k for k, f in enumerate(leaf.factors) if same_view(f, common)), None)
    return None if at is None else (*leaf.factors[:at], *leaf.factors[at + 1 :])


def _rest(t: _Tree, common: View, inside: dict[Expr, Expr], extents: tuple[Expr, ...], n: Node) -> View:
    """What is chosen, but for the factor that all have, over its own axes."""
    if t is None:
        return scalar(const_node(0.0 if n.dtype.is_float else 0, n.dtype))
    if isinstance(t, _Chosen):
        branches = (_rest(b, common, inside, extents, n) for b in (t.yes, t.no))
        return identity(elementwise("where", extents, t.test.through(inside), *branches, span=n.span))
    left = [f.through(inside) for f in _without(t, common) or ()]
    if not left:
        return scalar(const_node(const(-1 if t.negative else 1, n.dtype).attr, n.dtype))
    first, *more = left
    for f in more:
        first = identity(elementwise("mul", extents, first, f, span=n.span))
    return identity(elementwise("neg", extents, first, span=n.span)) if t.negative else first
