"""graph → graph: reductions over one axis whose bodies depend on earlier reductions over it become one pass with corrections.

    m = max_p s                                    m = max_p s
    l = Σ_p exp(s − m)                             l = Σ_p exp(s − m)            corrected by exp(previous m − m)
    o = Σ_p exp(s − m) / l · v            →        a = Σ_p exp(s − m) · v        corrected by exp(previous m − m)
                                                   o = a / l

1. R factors leave a sum by distributivity: Σ x · r = r · Σ x.
2. A sum whose body is then separable (`separate.py`) becomes a state of a *cascade*, beside the reductions that it depends on.  While the axis is worked off tile by tile,
   the earlier states are those of what was seen so far; when they move, the sum is multiplied by a factor that depends on their old and new values alone.
   A body that is a polynomial in earlier states becomes several sums around a point that moves with them (`moments.py`): variance, its kin, entropy.
3. Reductions of the same scores are states of one cascade too, corrected or not (`cascade_groups.py`); so are loops that walk them in order (`cascade_folds.py`).
4. States, and what they are made of, are f32 where they were smaller floats; casts between floats are transparent.
5. Exponents are subtracted before they are exponentiated, exp(previous m − m), and each exponential is taken relative to the extreme of its own argument, so nothing overflows.
   Where the extreme is that of nothing yet (−∞: all masked so far) exponentials are relative to 0 and give 0; a row that is masked to the end sums to 0, and 0 / 0 is NaN, as it is
   without this pass.  Where what is made of such a sum would not be NaN by itself (m + log l), the sum is made NaN there (`masked_rows.py`).

Nothing here knows an operation by name but `exp` and `exp2`.  What is not separable stays as it is; `why_not` says which factor is in the way.  The pass uses real algebra on
float sums, so --strict leaves it out.  (The rule is that of "online" softmax, Milakov and Gimelshein, 2018, and of FlashAttention, Dao et al., 2022, for any separable body.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from ..ir.bounds import Known
from ..ir.dtypes import INDEX, DType, bool_
from ..ir.expr import ONE, ZERO, axis, both
from ..ir.graph import (
    Graph,
    Node,
    View,
    condition_of,
    const_node,
    elementwise,
    identity,
    iota_node,
    postorder,
    reduce_node,
    rewrite,
    scalar,
    state_count,
    truth,
)
from ..ir.instructions import FRAGMENTS, INSTRUCTIONS
from ..ir.primops import OPS
from ..ir.simplify import assuming, prove_le
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .cascades.cascade_folds import with_folds
from .cascades.cascade_groups import groups
from .cascades.cascade_nodes import Redirected, State, as_dtype, view_as, wide
from .cascades.kept_terms import kept_terms
from .cascades.masked_exponents import masked_exponents
from .cascades.masked_rows import leaves_out
from .cascades.moments import moments
from .cascades.row_by_row import row_by_row
from .cascades.scores import pointwise_reads
from .cascades.selections import selection
from .cascades.separate import EXPONENTIALS, Body, Exponent, Mixed, Pulled, Term, beside, guarded_extremes, moves, unguarded, varying_in
from .reading import reads_of
from .rules.pattern import same_view, through
from .walk import run


def cascade(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    nodes = ir.nodes()
    if options.strict or sum(n.op in ("reduce", "nest") for n in nodes) < 2 or any(n.op == "cascade" for n in nodes):
        return ir
    found = Finder(ir, target.gpu)
    separated = rewrite(row_by_row(ir), found.rule)
    found_groups = groups(separated, found.states, target, found.reasons)
    if not target.gpu:
        found_groups = with_folds(separated, found_groups, found.states)
    return Redirected(found_groups, found, multiplied(target)).graph(separated) if found_groups else separated


def multiplied(target: Target) -> frozenset[DType]:
    """The small floats of which the target multiplies neighbours, in vectors or in tiles."""
    operands = {d for i in INSTRUCTIONS.values() if i.name in target.instructions for d in (i.left, i.right)}
    operands |= {f.operand for f in FRAGMENTS.values() if f.name in target.instructions}
    return frozenset(d for d in operands if d.is_float)


def why_not(graph: Graph, target: Target) -> tuple[str, ...]:
    """What keeps reductions of this graph, which depend on one another over one axis or read the same scores, from being one pass; a sentence each."""
    reductions = [n for n in graph.nodes() if n.op in ("reduce", "nest")]
    extents = Counter(n.attr.extents for n in reductions if n.op == "reduce")
    alike = {n for n in reductions if n.op == "nest" or extents[n.attr.extents] > 1}
    if any(n.op == "cascade" and alike <= {a.node for a in n.args[: state_count(n)]} for n in graph.nodes()):
        return ()  # all of them that are over one axis are one pass
    graph = rewrite(
        graph, lambda n: n.args[0].node if n.op == "cascade" and state_count(n) == 1 else None
    )  # a reduction alone, as others may depend on it
    found = Finder(graph, target.gpu)
    bare = rewrite(graph, lambda n: n.args[0].node if n.op == "contiguous" and n.args[0].is_all(n.shape) else None)
    groups(rewrite(bare, found.rule), found.states, target, found.reasons)
    return tuple(dict.fromkeys(found.reasons))


def earlier_reductions(n: Node) -> dict[Node, tuple[int, ...] | None]:
    """Reductions over as long an axis that the body of `n` reads at the same position all along it: node → which axis of `n` each of its axes is (None: no order of axes)."""
    found: dict[Node, tuple[int, ...] | None] = {}
    varying = frozenset(axis(n.rank + k) for k in range(len(n.attr.extents)))
    seen: set[tuple[Node, tuple[Any, ...]]] = set()
    stack = [n.args[0]]
    while stack:
        view = stack.pop()
        node = view.node
        if (node, view.index) in seen:
            continue
        seen.add((node, view.index))
        if node.op in OPS:
            stack.extend(view.operands)
        elif node.op == "reduce" and node.attr.extents == n.attr.extents:
            plain = all(e.op == "axis" and e not in varying for e in view.index) and len(set(view.index)) == len(view.index)
            places = tuple(e.attr for e in view.index) if plain and view.domain is None else None
            if any(varying.intersection(leaves(e, "axis")) for e in view.index):
                continue  # read along the axis: a vector as any other
            found[node] = places if found.get(node, places) == places else None
    return found


def made_of(n: Node, earlier: Collection[Node]) -> list[Node]:
    """Reductions over other axes that the summed products of `n` have as a factor or a term, the same all along its axis, and that need some of these: they are finished before, unless they leave the sum.

    None that stands in an exponent: outside of it, it could overflow."""
    if n.attr.combiner != "add" or not earlier:
        return []
    varying = frozenset(axis(n.rank + k) for k in range(len(n.attr.extents)))
    fixed = dict.fromkeys(v.node for v in pointwise_reads(n) if v.node.op == "reduce" and v.node not in earlier and not moves(v, varying))
    found = [r for r in fixed if not set(earlier).isdisjoint(postorder(r))]
    exponents: set[Node] = set()
    stack = [n.args[0].node] if found else []
    while stack:
        m = stack.pop()
        if m.op in EXPONENTIALS:
            exponents.update(postorder(m))
        elif m.op in OPS:
            stack.extend(a.node for a in m.args)
    return [r for r in found if r not in exponents]


def logarithm_of_quotient(n: Node) -> Node | None:
    """log (exp x / l) → x − log l: the logarithm of a softmax as an exponent has it.  More than the quotient, it stays finite where that is 0."""
    quotient = n.args[0]
    if quotient.domain is not None or quotient.node.op != "div":
        return None
    above, below = (through(quotient, a) for a in quotient.node.args)
    if above is None or below is None or above.node.op != ("exp" if n.op == "log" else "exp2"):
        return None
    x = through(above, above.node.args[0])
    if x is None:
        return None
    logarithm = View(elementwise(n.op, below.node.shape, identity(below.node), span=n.span), below.index)
    return elementwise("sub", n.shape, x, logarithm, span=n.span)


class Finder:
    """The rewrite of step 1 and 2; remembers the states that it made and what was in the way."""

    def __init__(self, graph: Graph, gpu: bool) -> None:
        self.gpu = gpu
        self.known = assuming(Known(graph.size_info()), both(*graph.requires))
        self.states: dict[Node, State] = {}
        self.reasons: list[str] = []
        self.infinite = guarded_extremes(graph.nodes())

    def rule(self, n: Node) -> Node | None:
        if n.op in ("log", "log2"):
            return logarithm_of_quotient(n)
        earlier = earlier_reductions(n) if n.op == "reduce" else {}
        if not earlier:
            return None
        if self.selected(n, earlier) or not n.dtype.is_float:
            return n
        n = masked_exponents(n, earlier, self.known) if n.attr.combiner == "add" else n
        made = made_of(n, earlier)
        body = Body(frozenset({*earlier, *made}))
        varying = frozenset(axis(n.rank + k) for k in range(len(n.attr.extents)))
        factors: list[Pulled] = []
        if n.attr.combiner == "add" and n.args[0].domain is None:
            rest, found = run(body.pull_operand(n.args[0], varying))
            if found and rest is not None:
                n, factors = reduce_node("add", n.shape, n.attr.extents, rest, n.span), found
        if n.attr.combiner in ("max", "min") and n.args[0].domain is None:
            rest, terms = run(body.pull_terms(n.args[0], varying, n.shape + n.attr.extents))
            if rest is not None and terms:  # max (x − r) = max x − r, in floats too: rounding keeps the order
                return self.with_terms(reduce_node(n.attr.combiner, n.shape, n.attr.extents, rest, n.span), terms)
        try:
            result = self.distributed(n, body) if any(v.node in made for v in pointwise_reads(n)) else None
            if result is None:
                n = self.separated(n, varying)
                result = self.or_nan(n)
        except Mixed as reason:
            result = self.distributed(n, body)
            if result is None:
                place = f" (line {n.span.line})" if n.span.line else ""
                self.reasons.append(f"no cascade: {reason}{place}")
                result = n
        for f in factors:
            result = self.with_factor(as_dtype(wide(n.dtype), result), n, f)
        if factors:
            result = self.or_nothing(result, n)
        return as_dtype(n.dtype, result)

    def distributed(self, n: Node, body: Body) -> Node | None:
        """Σ (x − y) · v as Σ x · v − Σ y · v, where each sum is then separable (or y leaves its own); None where one is not."""
        found = run(body.addends(n.args[0], n.shape + n.attr.extents)) if n.attr.combiner == "add" else ()
        if len(found) < 2:
            return None
        total: Node | None = None
        reasons = len(self.reasons)
        for sign, view in found:
            part: View | None = self.alone(n, view)
            if part is None:
                made = self.rule(reduce_node("add", n.shape, n.attr.extents, view, n.span))
                part = None if made is None or len(self.reasons) > reasons else identity(made)
            if part is None:
                del self.reasons[reasons:]
                return None
            if total is None:
                total = part.node if sign > 0 and part.is_all(n.shape) else None
                total = total or elementwise("neg" if sign < 0 else "add", n.shape, part, *(() if sign < 0 else (scalar(const_node(0.0, n.dtype)),)))
            else:
                total = elementwise("add" if sign > 0 else "sub", n.shape, identity(total), part, span=n.span)
        return total

    def alone(self, n: Node, body: View) -> View | None:
        """The sum of what depends on no earlier reduction, over the axes alone that it varies with; None where it depends on one."""
        if earlier_reductions(reduce_node("add", n.shape, n.attr.extents, body)):
            return None
        moving = set[int]().union(*(v.axes for v in reads_of(body)))
        kept = [k for k in range(n.rank) if k in moving]
        new = {axis(k): ZERO for k in range(n.rank)} | {axis(k): axis(j) for j, k in enumerate((*kept, *range(n.rank, n.rank + len(n.attr.extents))))}
        return View(reduce_node("add", tuple(n.shape[k] for k in kept), n.attr.extents, body.through(new), n.span), tuple(axis(k) for k in kept))

    def selected(self, n: Node, earlier: dict[Node, tuple[int, ...] | None]) -> bool:
        """Whether the reduction is of what stands where an extreme of scores is.  Of what is in memory anyway, that is as well done in two passes."""
        along = axis(n.rank)
        place = next(iter(earlier.values()))
        if self.gpu or len(earlier) != 1 or place is None or not any(v.node.op == "reduce" and along in v.index for v in pointwise_reads(n)):
            return False
        (r,) = earlier
        found = selection(n, r, frozenset(axis(n.rank + k) for k in range(len(n.attr.extents))))
        if found is not None:
            self.states[n] = State(n, tuple(earlier), place, (), selection=found)
        return found is not None

    def with_factor(self, n: Node, summed: Node, f: Pulled) -> Node:
        """`n`, which is made of the sum `summed`, with a factor of its terms."""
        if f.where is None:
            factor, kept = view_as(n.dtype, f.view), self.kept(summed, f)
            if kept is not None:
                factor = self.where_kept(n, kept, factor)
            return elementwise("div" if f.inverse else "mul", n.shape, identity(n), factor, span=n.span)
        zero = scalar(const_node(0.0, n.dtype))
        return elementwise("where", n.shape, f.view, *((identity(n), zero) if f.where else (zero, identity(n))), span=n.span)

    def kept(self, summed: Node, f: Pulled) -> View | None:
        """What is 0, or does not hold, where no term of a sum is multiplied by a factor; None where some term of each row is."""
        state = self.states.get(f.view.node)
        if state is not None and state.selection is None and f.view.domain is None:
            axes = (*f.view.index, *(axis(summed.rank + k) for k in range(len(summed.attr.extents))))
            under = {c.through({axis(k): e for k, e in enumerate(axes)}) for e in state.exponents for c in e.under}
            if under == set(f.under) and self.counts(state):
                return f.view
        return kept_terms(summed, f.under, self.states[summed].places if summed in self.states else (), self.known)

    def counts(self, state: State) -> bool:
        """Whether a sum of exponentials is 0 only where no term is kept, since the largest is 1."""
        body = state.node.args[0].node
        return (
            body.op == "where"
            and body.args[1].node.op in EXPONENTIALS
            and all(self.of_kept(t, e, state.node) for e in state.exponents for t in e.moving)
        )

    def of_kept(self, t: Term, e: Exponent, n: Node) -> bool:
        """Whether the extreme that an exponent is relative to is that of the terms which are kept: then it is NaN only where one of them is."""
        extreme = unguarded(t.view)
        if extreme.node.op != "reduce" or extreme.domain is not None:
            return False
        places = {axis(k): x for k, x in enumerate((*extreme.index, *(axis(n.rank + k) for k in range(len(n.attr.extents)))))}
        body = extreme.node.args[0].through(places)
        if body.domain is not None or body.node.op != "where":
            return False
        test, _, fill = (a.through({axis(k): x for k, x in enumerate(body.index)}) for a in body.node.args)
        return (
            any(same_view(test, c) for c in e.under)
            and fill.node.op == "const"
            and fill.node.attr.value == (float("-inf") if t.sign < 0 else float("inf"))
        )

    def where_kept(self, n: Node, kept: View, factor: View) -> View:
        """A factor, or 1 where nothing is kept: of the rows alone where it has no other axes.  What positions decide is asked where the factor is, and no tensor."""
        own = {e: axis(k) for k, e in enumerate(kept.index)}
        one = scalar(const_node(1.0, n.dtype))
        alone = factor.domain is None and own.keys() >= {a for e in factor.index for a in leaves(e, "axis")}
        condition = condition_of(kept.node.args[0]) if kept.node.op == "contiguous" else None
        if condition is not None and alone:
            return View(elementwise("where", kept.node.shape, truth(condition), factor.through(own), one), kept.index)
        if condition is not None:
            return identity(elementwise("where", n.shape, truth(condition).through({a: e for e, a in own.items()}), factor, one))
        zero = const_node(False if kept.dtype is bool_ else 0.0, kept.dtype)
        none = elementwise("equal", kept.node.shape, identity(kept.node), scalar(zero))
        if alone:
            return View(elementwise("where", kept.node.shape, identity(none), one, factor.through(own)), kept.index)
        return identity(elementwise("where", n.shape, View(none, kept.index), one, factor))

    def with_terms(self, n: Node, terms: list[Term]) -> Node:
        result = n
        for t in terms:
            result = elementwise("add" if t.sign > 0 else "sub", n.shape, identity(result), view_as(n.dtype, t.view), span=n.span)
        return self.or_nothing(result, n)

    def or_nan(self, n: Node) -> Node:
        """What is summed relative to an extreme that is infinite is NaN, where nobody but this pass guards the exponent against that."""
        state, result = self.states.get(n), n
        for e in state.exponents if state is not None and not state.bare else ():
            for t in e.moving:
                extreme = unguarded(t.view)
                if extreme is t.view and extreme.node in self.infinite:
                    end = scalar(const_node(float("inf") if t.sign < 0 else float("-inf"), extreme.dtype))
                    there = identity(elementwise("equal", n.shape, extreme, end))
                    result = elementwise("where", n.shape, there, scalar(const_node(float("nan"), n.dtype)), identity(result), span=n.span)
        return result

    def relative(self) -> dict[Node, tuple[View, ...]]:
        """The sums relative to extremes that nobody but this pass guards: sum → extremes, in its domain."""
        found = {}
        for n, state in self.states.items():
            terms = [t for e in state.exponents for t in e.moving if unguarded(t.view) is t.view]
            if terms and state.moments is None and not state.bare:
                found[n] = tuple(dict.fromkeys(t.view for t in terms))
        return found

    def or_nothing(self, result: Node, n: Node) -> Node:
        """A reduction over no elements is its combiner's identity, also where what was taken out of it is not finite then (0 · 1/0, −∞ − −∞)."""
        empty: View | None = None
        for e in n.attr.extents:
            if not prove_le(ONE, e, self.known):
                here = identity(elementwise("equal", (), scalar(iota_node(e, ())), scalar(const_node(0, INDEX))))
                empty = here if empty is None else identity(elementwise("bit_or", (), empty, here))
        if empty is None:
            return result
        nothing = {"max": float("-inf"), "min": float("inf")}.get(n.attr.combiner, 0.0)
        return elementwise("where", result.shape, empty, scalar(const_node(nothing, result.dtype)), identity(result), span=n.span)

    def separated(self, n: Node, varying: frozenset[Any]) -> Node:
        """The reduction with guarded R terms, remembered as a state; itself where it depends on no earlier one."""
        earlier = earlier_reductions(n)
        if not earlier:
            return n
        if n.attr.combiner != "add":
            raise Mixed(f"a {n.attr.combiner} of what depends on an earlier reduction")
        body = n.args[0]
        place = max((p for p in earlier.values() if p is not None), key=len, default=None)
        earlier = {r: p for r, p in earlier.items() if p is None or len(p) == len(place or ()) or not set(p) < set(place or ())}
        if place is None or set(earlier.values()) != {place} or body.domain is not None:
            raise Mixed("the rows of the reductions are not the same axes")
        inner = varying_in(body, varying)
        try:
            bare = leaves_out(body.node)
            node, within = run(Body(frozenset(earlier), infinite=self.infinite, bare=bare).separate(body.node, inner))
            lenient = None
        except Mixed as reason:
            lenient = Body(frozenset(earlier), True, self.infinite)
            if not self.in_rows(n, place):
                raise
            try:
                node, within = run(lenient.separate(body.node, inner))
            except Mixed:
                raise reason from None
        exponents = tuple(e.through(body, False) for e in within)
        for e in exponents:
            for t in e.moving:
                self.anchored(t, e, n)
        new = reduce_node("add", n.shape, n.attr.extents, View(node, body.index), n.span)
        if lenient is None:
            under = () if all(self.of_kept(t, e, new) for e in exponents for t in e.moving) else (c for e in exponents for c in e.under)
            kept = kept_terms(new, under, place, self.known)
            rows = kept.node if kept is not None and kept.node.rank == len(place) else None
            self.states[new] = State(new, tuple(earlier), place, exponents, leaves_out(body.node), kept=rows)
            return new
        sums = moments(new, lenient)
        for order, m in sums.sums.items():
            if not any(order) or m not in self.states:  # a derivative may be a sum that stands there anyway
                self.states[m] = State(m, tuple(earlier), place, exponents, moments=sums, order=order)
        return sums.sums[(0,) * len(sums.points)]

    def in_rows(self, n: Node, place: tuple[int, ...]) -> bool:
        """Whether a polynomial's sums may run along: one axis, in which memory is consecutive (else a row is no piece of memory that could be in a cache or not), and a number each for a row."""
        if self.gpu or len(n.attr.extents) != 1 or len(place) != n.rank:
            return False
        along = axis(n.rank)
        reads = [v for v in pointwise_reads(n) if any(along in leaves(e, "axis") for e in v.index)]
        return all(v.node.op in ("reduce", "const", "iota") or v.index[-1] is along for v in reads)

    def anchored(self, t: Term, e: Exponent, n: Node) -> None:
        """The term is the extreme of an X term beside it (or an extreme of that and of what does not vary): then no exponential is above 1, and one relative to nothing is 0."""
        v = unguarded(t.view)
        candidates = [v] if v.node.op == "reduce" else [a.through({axis(k): x for k, x in enumerate(v.index)}) for a in v.node.args]
        wanted = "max" if t.sign < 0 else "min"
        for c in candidates:
            r = c.node
            if r.op != "reduce" or r.attr.combiner != wanted or (v.node is not r and v.node.op != wanted):
                continue
            mapping = {axis(k): x for k, x in enumerate(c.index)} | {axis(r.rank + k): axis(n.rank + k) for k in range(len(n.attr.extents))}
            if beside(t, r.args[0].through(mapping), e.fixed):
                return
        raise Mixed(f"an exponent is taken relative to a value that is no {wanted}imum of it")
