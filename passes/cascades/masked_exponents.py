"""Exponents under a choice: what a choice leaves out of a sum may as well be left out of the exponent, if that is how its maximum was taken.

    m = max_p where(c, x, −∞)                               m = max_p where(c, x, −∞)
    l = Σ_p where(c, exp(x − m), 0)                  →      l = Σ_p where(c, exp(where(c, x, −∞) − m), 0)

So loops write it, that skip what is masked in each pass. Now the exponent is relative to the maximum of what stands in it, which is what `cascade.py` asks.  A view with a mask, whose fill is 0, becomes a choice.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.bounds import Known
from ...ir.expr import ZERO, Expr, axis, const
from ...ir.graph import Node, Shape, View, const_node, elementwise, identity, iota_node, make, scalar
from ...ir.primops import OPS
from ...ir.record import record
from ...ir.simplify import prove_le
from ...ir.walks import leaves, substitute
from ..rules.pattern import same_view
from ..walk import Walk, run
from .separate import EXPONENTIALS, is_zero, unguarded

_FACTORS = ("mul", "div", "recip", "neg", "cast")


def masked_exponents(n: Node, earlier: Collection[Node], known: Known) -> Node:
    """See the head of this file; `earlier` are the reductions over the axis of `n` that its body reads."""
    shape = n.shape + n.attr.extents
    body = as_choice(n.args[0], shape, known) if n.args[0].fill == 0 else n.args[0]
    if body.domain is None:
        body = View(run(_Rewritten(n, earlier, known).node(body.node, body.index, ())), body.index)
    return n if body.node is n.args[0].node else make(n.op, n.dtype, n.shape, (body,), n.attr, n.span)


def as_choice(v: View, shape: Shape, known: Known) -> View:
    """A computed value under a mask as a choice, where it may be computed everywhere; else the view.  The choice has the axes of the value, if these say what is masked: then all who read it so read one value."""
    if v.domain is None or v.node.op not in (*OPS, "reduce"):
        return v
    own = {e: axis(k) for k, e in enumerate(v.index) if e.op == "axis"}
    if (
        len(own) == v.node.rank
        and own.keys() >= set(leaves(v.domain, "axis"))
        and all(shape[e.attr] is m for e, m in zip(v.index, v.node.shape, strict=True))
    ):
        test = _condition(substitute(v.domain, own), v.node.shape)
        return v if test is None else View(_chosen(test, identity(v.node), v, v.node.shape), v.index)
    known = known.with_domain(shape)
    if not all(prove_le(ZERO, e, known) and prove_le(e, n - 1, known) for e, n in zip(v.index, v.node.shape, strict=True)):
        return v
    test = _condition(v.domain, shape)
    if test is None:
        return v
    return identity(_chosen(test, View(v.node, v.index), v, shape))


def _chosen(test: Node, value: View, v: View, shape: Shape) -> Node:
    return elementwise("where", shape, identity(test), value, scalar(const_node(const(v.fill, v.dtype).attr, v.dtype)), span=v.node.span)


def _condition(e: Expr, shape: Shape) -> Node | None:
    """A condition on positions as a node of this shape; None where it has no such form."""
    if e.op in ("bit_and", "bit_or", "bit_not"):
        parts = [_condition(a, shape) for a in e.args]
    elif e.op in ("less_than", "less_equal", "equal", "not_equal"):
        parts = [iota_node(a, shape) for a in e.args]
    else:
        return None
    views = [identity(p) for p in parts if p is not None]
    return elementwise(e.op, shape, *views) if len(views) == len(parts) else None


@record
class _Rewritten:
    n: Node
    earlier: Collection[Node]
    known: Known

    def node(self, node: Node, at: tuple[Expr, ...], under: tuple[View, ...]) -> Walk:
        """What is read at `at`, over the domain of the body, only where all of `under` hold: in its own domain."""
        inside = {axis(k): e for k, e in enumerate(at)}
        zero = next((k for k in (2, 1) if node.op == "where" and is_zero(node.args[k])), 0)
        if not self.holds(node) or not (zero or node.op in _FACTORS or (node.op in EXPONENTIALS and under)):
            return node
        new = []
        for k, a in enumerate(node.args):
            if self.holds(a.node) and (not zero or k == 3 - zero):
                a = as_choice(a, node.shape, self.known) if a.fill == 0 else a
                if a.domain is None:
                    place = tuple(substitute(e, inside) for e in a.index)
                    if node.op in EXPONENTIALS:
                        made = self.exponent(a.node, place, under)
                    else:
                        made = yield self.node(a.node, place, (*under, node.args[0].through(inside)) if zero == 2 else under)
                    a = View(made, a.index)
            new.append(a)
        same = all(a.node is b.node and a.domain is b.domain for a, b in zip(new, node.args, strict=True))
        return node if same else make(node.op, node.dtype, node.shape, tuple(new), node.attr, node.span)

    def exponent(self, node: Node, at: tuple[Expr, ...], under: tuple[View, ...]) -> Node:
        """x − m with what is masked in m masked in x."""
        own = {e: axis(k) for k, e in enumerate(at) if e.op == "axis"}
        if node.op != "sub" or len(own) < node.rank:
            return node
        inside = {axis(k): e for k, e in enumerate(at)}
        x, m = node.args
        extreme = unguarded(m.through(inside))
        r = extreme.node
        if extreme.domain is not None or r not in self.earlier or r.op != "reduce" or r.attr.combiner != "max":
            return node
        places = extreme.places | {axis(r.rank + k): axis(self.n.rank + k) for k in range(len(r.attr.extents))}
        body = as_choice(r.args[0].through(places), self.n.shape + self.n.attr.extents, self.known)
        if body.domain is not None or body.node.op != "where" or not own.keys() >= {a for e in body.index for a in leaves(e, "axis")}:
            return node
        test, kept, fill = body.operands
        masks = fill.node.op == "const" and fill.domain is None and fill.node.attr.value == float("-inf")
        if not masks or not same_view(kept, x.through(inside)) or not any(same_view(test, u) for u in under):
            return node
        return elementwise("sub", node.shape, body.through(own), m, span=node.span)

    def holds(self, node: Node) -> bool:
        """Whether one of the earlier reductions stands in a value."""
        stack, seen = [node], set()
        while stack:
            n = stack.pop()
            if n in self.earlier:
                return True
            if n not in seen and n.op in OPS:
                seen.add(n)
                stack.extend(a.node for a in n.args)
        return False
