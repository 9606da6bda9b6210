"""Two values between which the sizes choose at run time: a `where` on a condition without positions.

    y = where(2 N < D, one, two)        →        if (2 * N < D) for …: y[…] = one        else for …: y[…] = two

Only one of them is computed (`make_nests.py` and `nest_body.py` see to that), so what each is made of is fused as if it stood alone.  What is stored for one of them alone has an extent of 0 where the sizes
choose the other (`extents_where`): there is no memory for it, and no work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...ir.expr import ZERO, Expr, where
from ...ir.graph import Graph, Node, Shape, View, condition_of, contiguous_node, elementwise, identity, make, postorder, truth, users, with_operands
from ...ir.primops import OPS
from ...ir.record import replace
from ...ir.walks import leaves


class BySizes(NamedTuple):
    """`one` where the condition holds, `two` elsewhere; views over the same extents."""

    first: Expr
    one: View
    two: View

    def node(self, shape: Shape) -> Node:
        return elementwise("where", shape, truth(self.first), self.one, self.two, span=self.two.node.span)

    @property
    def sides(self) -> tuple[View, View]:
        return self.one, self.two


def by_sizes(n: Node) -> BySizes | None:
    """The choice that a node is; None where it is something else, or positions choose."""
    first = condition_of(n.args[0]) if n.op == "where" else None
    return None if first is None or leaves(first, "axis") else BySizes(first, *n.args[1:])


def extents_where(wanted: Expr | None, extents: Shape) -> Shape:
    """Extents of nothing where it is not wanted."""
    return extents if wanted is None or not extents else (where(wanted, extents[0], ZERO), *extents[1:])


def replaced(ir: Graph, better: Mapping[Node, Node | BySizes]) -> Graph:
    """The graph with other values in the place of some.  What follows a choice pointwise follows both of its values, so that it stays in one kernel with each."""
    readers, outputs = users(ir), {n for _, n in ir.outputs}
    done: dict[Node, Node] = {}
    chosen: dict[Node, BySizes] = {}

    def real(n: Node) -> Node:
        if n not in chosen:
            return done[n]
        return contiguous_node(identity(chosen[n].node(n.shape)), n.shape, n.span)

    for n in ir.nodes():
        new = better.get(n)
        if isinstance(new, BySizes):
            chosen[n] = BySizes(new.first, *(replace(v, node=_on(v.node, done)) for v in new.sides))
        elif new is not None:
            done[n] = _on(new, done)
        elif (first := _followed(n, chosen)) is not None and all(
            len(readers[a.node]) == 1 and a.node not in outputs for a in n.args if a.node in chosen
        ):
            sides = (
                tuple(chosen[a.node].sides[k].through(a.places) if a.node in chosen else replace(a, node=done[a.node]) for a in n.args)
                for k in (0, 1)
            )
            chosen[n] = BySizes(first, *(identity(make(n.op, n.dtype, n.shape, args, n.attr, n.span)) for args in sides))
        else:
            done[n] = with_operands(n, {a.node: real(a.node) for a in n.args})
    return ir.with_outputs(tuple(chosen[n].node(n.shape) if n in chosen else done[n] for _, n in ir.outputs))


def _followed(n: Node, chosen: Mapping[Node, BySizes]) -> Expr | None:
    """The condition of all choices that a node reads, if it follows one of them pointwise."""
    read = [a for a in n.args if a.node in chosen]
    alike = n.op in OPS and any(a.is_all(n.shape) for a in read)
    first = {chosen[a.node].first for a in read}
    return next(iter(first)) if alike and len(first) == 1 and all(a.domain is None for a in read) else None


def _on(n: Node, done: Mapping[Node, Node]) -> Node:
    """A node on what has taken the place of the nodes that it is made of."""
    made: dict[Node, Node] = {}
    for m in postorder(n):
        made[m] = done[m] if m in done else with_operands(m, made)
    return made[n]
