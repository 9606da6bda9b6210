"""graph → graph: sums of products under a choice are multiplied without it, and where what comes out is not finite the sum is taken again as it is written.

    C[i, j] = Σ_p where(c[i, p], a[i, p] · b[p, j], 0)

        →    S[i, j] = Σ_p where(c[i, p], a[i, p], 0) · b[p, j]
             for rows of i:
               if Σ_i Σ_j S[i, j] · 0 ≠ 0:                                    an infinity or NaN
                 for i, j:
                   if S[i, j] · 0 ≠ 0: S[i, j] = Σ_p where(c[i, p], a[i, p] · b[p, j], 0)

Loops pass over what is masked, `if (<= p i)`: the term is *not added*, so an infinite b must not show where the choice leaves it out.  A sum that is finite holds no 0 · ∞ and no 0 · NaN: what the choice
would have left out was zeros, of which the factor that has the choice's axes holds as many as there are.  So S is a contraction like any other, in register tiles and panels, and the rows of it are looked at once.
A choice between several products is in `chosen_products.py`, several that are added up are in `added_products.py`, the loops that take a sum again in `taken_again.py`.
Of integers nothing need be asked, and a choice that is the same all along the sum stands around it.  What a cascade is made of has the same from `nest_guarded.py`, tile by tile.

Conditions: two operands that are each used again along an axis that the other has, or through windows that move (else each element is read once, and a choice costs nothing beside that: a filter of 63 taps over
two channels of a million samples took 43 ms and takes 3, a blur of 3 × 3 over 2048² 15 and 1.9); the choice is one of the axes of
a factor, which is read at each position of them once, so that it is as large without what the choice leaves out as with it.  Where the choice, or what is multiplied, is made by many operators, the sum stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bounds import Known, fact
from ..ir.conditions import conjuncts
from ..ir.expr import Expr, axis, both
from ..ir.graph import (
    Graph,
    Node,
    View,
    condition_of,
    const_node,
    contiguous_node,
    elementwise,
    identity,
    make,
    postorder,
    reduce_node,
    truth,
    with_operands,
)
from ..ir.polynomial import atoms, is_constant, linear
from ..ir.primops import OPS
from ..ir.simplify import assuming
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .cascades.separate import is_zero
from .products.added_products import added_products
from .products.chosen_products import Choice, chosen_products, product_of, reused, there
from .products.shifted_sums import sum_of_sums, where_it_pays
from .products.taken_again import taken_again
from .reading import factors
from .rules.pattern import same_view


def ask_after(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu:
        return ir  # a mask is cheap there
    nodes = ir.nodes()
    within = {m for n in nodes if n.op == "cascade" for a in n.args for m in postorder(a.node)}
    taken = {s.name for s in ir.sizes}
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    done: dict[Node, Node] = {}
    for n in nodes:
        done[n] = with_operands(n, done)
        if n not in within:
            done[n] = _bare(_beside(done[n], n, within), known, taken, options)
            if done[n].op == "reduce" and done[n].args[0].node.op == "reduce" and _alone(n.args[0].node, ir) and not options.strict:
                done[n] = _of_sums(done[n], known, taken, target, options)
    return ir.with_outputs(tuple(done[n] for _, n in ir.outputs))


def _beside(n: Node, before: Node, within: set[Node]) -> Node:
    """The node with a choice beside a product of which it reads a part at its own positions: the product ends with it, while one that is read under a mask would be made for itself."""
    masked = {
        k: v
        for k, (v, was) in enumerate(zip(n.args, before.args, strict=True))
        if v.domain is not None and was.node not in within and View(v.node, v.index).is_all(n.shape) and _shares_both_ways(v.node)
    }
    if not masked or (n.op not in OPS and n.op != "contiguous"):
        return n
    chosen = (
        identity(elementwise("where", n.shape, truth(v.domain), identity(v.node), View(const_node(v.fill, v.dtype), ()), span=v.node.span))
        if k in masked
        else v
        for k, v in enumerate(n.args)
    )
    return make(n.op, n.dtype, n.shape, tuple(chosen), n.attr, n.span)


def _shares_both_ways(n: Node) -> bool:
    """Whether a sum is of products of which each of two factors is used again along an axis that the other has."""
    if n.op != "reduce" or n.attr.combiner != "add":
        return False
    axes = [f.axes & set(range(n.rank)) for f in factors(n.args[0])]
    return any(a - b and b - a for a in axes for b in axes)


def _alone(n: Node, ir: Graph) -> bool:
    """Whether one operand alone reads a node."""
    return sum(a.node is n for m in ir.nodes() for a in m.args) == 1 and all(m is not n for _, m in ir.outputs)


def _of_sums(n: Node, known: Known, taken: set[str], target: Target, options: Options) -> Node:
    """A sum of sums with one sum without a choice in its place where that pays; the node itself where it is something else."""
    whole = sum_of_sums(n, known)
    bare = n if whole is None else _bare(whole, known, taken, options, lambda b, factor: where_it_pays(n, b, factor.axes, known, target))
    return n if bare is whole else bare


def _bare(n: Node, known: Known, taken: set[str], options: Options, chosen: Callable[[Node, View], Node | None] = lambda bare, _: bare) -> Node:
    """The value of a sum without the choice around what it adds up; the node itself where it is something else, or nothing is `chosen` of the sum and the factor that has the choice."""
    found = _choice(n)
    if found is None:
        if options.strict:
            return n
        again = added_products(n, lambda m: _bare(m, known, taken, options))
        return again if again is not n else chosen_products(n, known, taken, lambda m: _bare(m, known, taken, options))
    if options.strict and len(found.factors) > 2:
        return n
    used = found.test.axes
    if all(a < n.rank for a in used):
        if not all(there(f, found, known) for f in found.factors):
            return n
        value = reduce_node("add", n.shape, n.attr.extents, product_of(found, found.factors), n.span)
        return elementwise("where", n.shape, found.test, identity(value), found.zero, span=n.span)
    own = [k for k, factor in enumerate(found.factors) if _left_out(factor, found)]
    for k in (*own, *(k for k in range(len(found.factors)) if k not in own)):
        factor = found.factors[k]
        others = (*found.factors[:k], *found.factors[k + 1 :])
        if not used <= factor.axes or not _again(factor, found, others) or not all(there(f, found, known) for f in others):
            continue
        masked = factor if k in own else _masked(factor, found, known)
        if masked is not None:
            value = product_of(found, (*found.factors[:k], masked, *found.factors[k + 1 :]))
            bare = chosen(reduce_node("add", n.shape, n.attr.extents, value, n.span), masked)
            if bare is None:
                return n
            return bare if n.dtype.is_integer else taken_again(n, bare, taken)
    return n


def _left_out(factor: View, found: Choice) -> bool:
    """Whether a factor is 0 wherever the choice leaves it out as it stands: it is read by an index that is behind the end there."""
    node = factor.node
    if node.op != "gather" or factor.domain is not None or node.args[0].domain is None or node.args[0].fill != 0:
        return False
    outside = conjuncts(node.args[0].domain)
    for k, (at, extent) in enumerate(zip(node.args[1:], node.attr.extents, strict=True)):
        if at.node.op != "where" or at.domain is not None or axis(k).lt(extent - 1) not in outside:
            continue
        test, _, otherwise = at.operands
        if otherwise.node.op == "iota" and otherwise.node.attr.expr is extent - 1 and same_view(test.through(factor.places), found.test):
            return True
    return False


def _masked(factor: View, found: Choice, known: Known) -> View | None:
    """A factor with the choice around it: a view where positions alone decide, and tie what is summed to what is not (products begin and end where that does), or windows stand over an edge; else a tensor as large as itself
    where it is read at each position once."""
    axes = [e.attr for e in factor.index if e.op == "axis"]  # in the order in which it lies in memory
    plain = factor.domain is None and len(factor.index) == len(axes) == len(set(axes)) and there(factor, found, known)
    condition = condition_of(found.test)
    if condition is not None and plain and _ends(condition, found.node.rank):
        real = factor.node if factor.node.op == "input" else contiguous_node(identity(factor.node), factor.node.shape, found.node.span)
        return View(real, factor.index, condition, 0)
    if plain:
        inside = {axis(a): axis(j) for j, a in enumerate(axes)}
        masked = elementwise("where", found.extents(axes), found.test.through(inside), factor.through(inside), found.zero, span=found.node.span)
        # what lies in memory as it is multiplied may be read in place: 8 of 256 × 256 by 256 × 64, 1.4 of PyTorch's speed, 0.43 where panels are packed and masked meanwhile
        masked = contiguous_node(identity(masked), masked.shape, found.node.span)
        return View(masked, tuple(axis(a) for a in axes))
    if condition is not None and factor.node.op == "input" and factor.fill == 0:
        return View(factor.node, factor.index, both(factor.domain, condition), factor.fill)
    return None


def _ends(condition: Expr, rank: int) -> bool:
    """Whether part of a condition on positions says from or up to where along the sum something is, for each position of what is not summed up."""
    for f in (f for part in conjuncts(condition) for f in fact(part)):
        for a in (a for a in atoms(f) if a.op == "axis" and a.attr >= rank):
            slope, rest = linear(f, a) or ({}, {})
            axes = {x.attr for b in atoms(rest) for x in leaves(b, "axis")}
            if is_constant(slope) and a.attr not in axes and min(axes, default=rank) < rank:
                return True
    return False


def _choice(n: Node) -> Choice | None:
    """The sum as one of products under a choice that are worth register tiles."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.rank < 1 or not (n.dtype.is_float or n.dtype.is_integer):
        return None
    view = n.args[0]
    if view.domain is not None and view.fill == 0:
        test, product = truth(view.domain), View(view.node, view.index)
    elif view.domain is None and view.node.op == "where" and is_zero(view.node.args[2]):
        test, product = view.operands[:2]
    else:
        return None
    negative = product.node.op == "neg" and product.domain is None
    if negative:
        product = product.operands[0]
    found = Choice(n, test, tuple(factors(product)), negative)
    return found if any(_again(f, found, found.factors) for f in found.factors) else None


def _again(factor: View, found: Choice, others: tuple[View, ...]) -> bool:
    """Whether an operand and another are each used again: along an axis that the other one has, or because the operand is read through windows."""
    axes, kept = factor.axes, set(range(found.node.rank))
    slides = any(kept & used and used - kept for used in ({a.attr for a in leaves(e, "axis")} for e in factor.index))
    return reused(found, axes, others) or (slides and any(axes & kept - f.axes for f in others))
