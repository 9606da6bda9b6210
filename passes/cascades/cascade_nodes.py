"""The graph in which the states of a cascade are read through it: what `cascade.py` has found, written as nodes.

    m = reduce.max s                            m = reduce.max s
    l = reduce.add exp(s − m)                   l = reduce.add exp(s − m)
    y = … m … l …                        →      y = … cascade result 0 … cascade result 1 …      of m, l; corrected by 1, exp(previous m − m)

Inside, states read one another as they are, in f32 where they were smaller floats.  What is computed in a small float and is a factor of a contraction is rounded to it all the same, once for all that
read it, where the target multiplies neighbours of such numbers by an instruction: so the composite says, and the product is of what that takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.dtypes import DType, bool_, f32
from ...ir.expr import axis
from ...ir.graph import Graph, Node, View, cascade_nodes, const_node, elementwise, identity, make, operand_domain, previous_node, scalar
from ...ir.primops import OPS
from ...ir.record import record
from ...ir.walks import leaves
from ..walk import Walk, run
from .cascade_groups import Group
from .masked_exponents import as_choice
from .masked_factors import masked_factor
from .masked_rows import OUTPUT, Use, lost, nothing_of
from .moments import Moments, Order, addition, before
from .selections import Selection
from .separate import Exponent, guarded, unguarded

if TYPE_CHECKING:
    from ..cascade import Finder


@record
class State:
    """A reduction that depends on earlier ones over its axis, separably."""

    node: Node
    earlier: tuple[Node, ...]
    places: tuple[int, ...]  # for each axis of the earlier ones: which axis of this one
    exponents: tuple[Exponent, ...]
    bare: bool = False  # exponents relative to nothing are NaN, as they are without this pass
    moments: Moments | None = None  # where the body is a polynomial in earlier ones too
    order: Order = ()
    selection: Selection | None = None
    kept: Node | None = None  # whether the choices around its terms keep any, over the rows in the order of its own axes

    @property
    def helpers(self) -> tuple[Node, ...]:
        """What is summed for the sake of this one, over its rows in the order of its own axes."""
        kept = () if self.kept is None else (self.kept,)
        if self.moments is None or any(self.order):
            return kept
        return (*kept, *(m for order, m in self.moments.sums.items() if any(order)))


def wide(d: DType) -> DType:
    """What a cascade computes in: f32 for every float below it."""
    return f32 if d.is_float and d.bits < 32 else d


def as_dtype(d: DType, n: Node) -> Node:
    return n if n.dtype is d else elementwise("cast", n.shape, identity(n), to=d, span=n.span)


def _constant(value: int, d: DType) -> Node:
    return const_node(float(value) if d.is_float else bool(value) if d is bool_ else value, d)


def view_as(d: DType, v: View) -> View:
    if v.node.op == "const" and v.domain is None:
        return View(const_node(v.node.attr.value, d), v.index)
    return v if v.dtype is d else View(as_dtype(d, v.node), v.index, v.domain, v.fill)


def factors(n: Node) -> tuple[Node, ...]:
    """The factors of a sum of products where each misses a kept axis that the other has, before they are made wide; () for other nodes."""
    product = n.args[0] if n.op == "reduce" and n.attr.combiner == "add" else None
    if product is None or product.node.op != "mul" or not product.is_identity:
        return ()
    kept = {axis(a) for a in range(n.rank)}
    first, second = (kept.intersection(x for e in v.index for x in leaves(e, "axis")) for v in product.node.args)
    if not (first - second and second - first):
        return ()
    return tuple(v.node.args[0].node if v.node.op == "cast" and v.node.dtype is wide(v.node.args[0].dtype) else v.node for v in product.node.args)


class Redirected:
    """The graph in which everybody outside of a cascade reads its states through it; inside, states read one another as they are."""

    def __init__(self, groups: dict[Node, Group], found: Finder, multiplied: frozenset[DType] = frozenset()) -> None:
        """`multiplied`: the small floats of which the target multiplies neighbours."""
        self.groups, self.states, self.known, self.infinite = groups, found.states, found.known, found.infinite
        self.rounded = {f for both in map(factors, groups) if all(f.dtype in multiplied for f in both) for f in both if f.op in OPS}
        self.finder = found
        self.lost: dict[Use, tuple[View, ...]] = {}
        self.done: dict[tuple[Node, Group | None], Node] = {}
        self.cascades: dict[Group, tuple[Node, ...]] = {}

    def graph(self, graph: Graph) -> Graph:
        self.lost = lost(graph, self.finder.relative(), self.states)
        return graph.with_outputs(tuple(run(self.output(n)) for _, n in graph.outputs))

    def output(self, n: Node) -> Walk:
        new = yield self.visit(n, None)
        if (n, OUTPUT) in self.lost:
            bare = yield self.masked(identity(new), self.lost[n, OUTPUT])
            return self.finder.or_nothing(bare.node, n)
        return new

    def visit(self, n: Node, inside: Group | None) -> Walk:
        """What stands for a node, read by what is outside of all cascades or inside of one; inside, small floats are computed in f32."""
        key = (n, inside)
        if key not in self.done:
            group = self.groups.get(n)
            if group is not None and group is not inside:
                result = as_dtype(n.dtype, (yield self.result(n, group)))
            elif (
                n.op == "cast"
                and inside is None
                and n.args[0].is_identity
                and n.args[0].node.shape == n.shape
                and n.args[0].node in self.groups
                and n.dtype is wide(n.args[0].dtype)
            ):
                result = yield self.result(n.args[0].node, self.groups[n.args[0].node])  # not rounded to the small float on the way
            else:
                result = yield self.rebuilt(n, inside)
                if group is not None and not self.finder.gpu:
                    result = masked_factor(result)
            self.done[key] = result
        return self.done[key]

    def result(self, n: Node, group: Group) -> Walk:
        if group not in self.cascades:
            self.cascades[group] = yield self.cascade(group)
        return self.cascades[group][group.states.index(n)]

    def masked(self, v: View, extremes: tuple[View, ...]) -> Walk:
        """What is read of a sum; NaN where nothing was left of its row, but for an axis without elements."""
        n, d = v.node, v.dtype
        for e in extremes:
            extreme = View((yield self.visit(e.node, None)), e.index)
            there = identity(elementwise("equal", n.shape, extreme, scalar(const_node(nothing_of(e.node), extreme.dtype))))
            n = elementwise("where", n.shape, there, scalar(const_node(float("nan"), d)), identity(n), span=n.span)
        return View(n, v.index)

    def rebuilt(self, n: Node, inside: Group | None) -> Walk:
        widened = inside is not None and (n.op in OPS or n.op in ("reduce", "previous")) and n.op != "bitcast"
        within = widened or n in self.groups
        args = []
        for k, a in enumerate(n.args):
            new = View((yield self.visit(a.node, inside if within else None)), a.index, a.domain, a.fill)
            if (n, k) in self.lost and inside is None:
                bare = yield self.masked(new, self.lost[n, k])
                new = View(self.finder.or_nothing(bare.node, a.node), bare.index)
            new = view_as(wide(a.dtype) if widened else a.dtype, new)
            args.append(as_choice(new, operand_domain(n, k), self.known) if widened else new)
        d = wide(n.dtype) if widened else n.dtype
        if n.op == "cast" and args[0].dtype is d and args[0].is_all(n.shape):
            result = args[0].node
        else:
            same = d is n.dtype and all(a.node is b.node for a, b in zip(args, n.args, strict=True))
            result = n if same else make(n.op, d, n.shape, tuple(args), n.attr, n.span)
        return as_dtype(d, as_dtype(n.dtype, result)) if widened and n in self.rounded else result

    def cascade(self, group: Group) -> Walk:
        states, factors, additions = [], [], []
        for n in group.states:
            rows = group.places[n]
            others = [a for a in range(n.rank) if a not in rows]
            index = tuple(axis(rows.index(a) if a in rows else len(rows) + others.index(a)) for a in range(n.rank))
            states.append(View((yield self.visit(n, group)), index))
            state = self.states.get(n)
            if state is not None and not set(state.earlier) <= set(group.states):
                state = None  # what it depends on is finished before, and does not move
            if state is not None and state.selection is not None:
                pair = state.selection.corrections(group.rows, rows, n)
                factors.append(identity((yield self.visit(pair[0], group))))
                additions.append(identity((yield self.visit(pair[1], group))))
                continue
            c = _correction(state, rows, group, self.infinite) if state is not None and state.exponents else _constant(1, n.dtype)
            c = yield self.visit(c, group)
            factors.append(identity(c))
            if state is None or state.moments is None:
                additions.append(scalar(_constant(0, wide(n.dtype))))
                continue
            a = addition(state.moments, state.order, group.rows, rows, frozenset(state.earlier))
            if state.exponents:
                a = identity(elementwise("mul", group.rows, a, identity(_correction(state, rows, group, self.infinite))))
            additions.append(View((yield self.visit(a.node, group)), a.index))
        return cascade_nodes(group.rows, tuple(states), tuple(factors), tuple(additions))


def _correction(state: State, rows: tuple[int, ...], group: Group, infinite: frozenset[Node]) -> Node:
    """By what the sum so far is multiplied when the earlier states move: Π exp(Σ ± scales · (now − previous)), over the rows."""
    to_rows = {axis(a): axis(j) for j, a in enumerate(rows)}
    result: View | None = None
    for e in state.exponents:
        moved: View | None = None
        for t in e.moving:
            view = t.view.through(to_rows)
            now = guarded(view, float("-inf") if t.sign < 0 else float("inf"), infinite)
            last = unguarded(view)
            earlier = View(before(last.node, frozenset(state.earlier)), last.index)
            difference = (now, earlier) if t.sign > 0 else (earlier, now)
            term = identity(elementwise("sub", group.rows, *difference))
            for s in t.scales:
                term = identity(elementwise("div" if s.inverse else "mul", group.rows, term, s.view.through(to_rows)))
            moved = term if moved is None else identity(elementwise("add", group.rows, moved, term))
        if moved is not None:
            factor = identity(elementwise(e.base, group.rows, moved))
            result = factor if result is None else identity(elementwise("mul", group.rows, result, factor))
    assert result is not None
    if not state.bare:
        return result.node
    # relative to nothing before and after, what was NaN stays so; relative to a number after, nothing has been there yet
    stays: View | None = None
    for t in (t for e in state.exponents for t in e.moving):
        last = unguarded(t.view.through(to_rows))
        same = identity(elementwise("equal", group.rows, View(before(last.node, frozenset(state.earlier)), last.index), last))
        stays = same if stays is None else identity(elementwise("bit_and", group.rows, stays, same))
    assert stays is not None
    if state.kept is not None:  # nothing was kept before
        some = View(previous_node(state.kept), tuple(axis(rows.index(a)) for a in sorted(rows)))
        nothing = identity(elementwise("equal", group.rows, some, scalar(const_node(False, some.dtype))))
        stays = identity(elementwise("bit_or", group.rows, stays, nothing))
    return elementwise("where", group.rows, stays, scalar(const_node(1.0, result.dtype)), result)
