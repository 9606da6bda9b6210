"""graph → graph: of a product, what a gather reads is computed at the gathered positions alone, where all others are only added up.

    %3 = reduce.add f32[R, V] over [D] %2              x · w, for each class         %3 is as it was, for the sums over all classes
    %4 = sub f32[R, V] %3 %lse[$0]              →
    %5 = gather f32[R] over [R, V] %4 iota $0 %Y       at the class of the row       %5 = sub f32[R] (reduce.add f32[R] over [D] X[$0, $1] · gather W %Y) %lse[$0]

So the logits of a loss need no memory (`cascade` makes them tile by tile). Conditions: the gather reads far fewer positions than the product has; whoever else reads the product adds it up; positions
that data decides are those of single axes of tensors in memory, which the gather then checks there.
"""

from __future__ import annotations

from ..ir.expr import Expr, axis
from ..ir.graph import Graph, Node, Shape, View, elementwise, gather_node, identity, iota_node, node_of, operand_domain, reduce_node, rewrite, users
from ..ir.primops import OPS
from ..ir.target import Options, Target
from ..ir.walks import leaves, substitute
from .cascades.scores import spread
from .costs import nominal, points
from .pick import IN_MEMORY
from .walk import Walk, run

FEWER = 16  # times as few positions, so that they cost nothing beside the others


def gather_first(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu or options.strict:  # there is no pass over tiles of the product
        return ir
    readers, values, outputs = users(ir), nominal(ir.size_info()), {n for _, n in ir.outputs}

    def summed(product: Node) -> bool:
        """Whether the product is read, through pointwise operators, by reductions and such gathers alone."""
        stack, seen, sums = [product], {product}, 0
        while stack:
            n = stack.pop()
            if n in outputs and n.op in OPS:
                return False
            for user, k in readers[n]:
                if user.op == "reduce":
                    sums += user.attr.extents != () and not set(user.shape) >= set(product.shape)
                elif user.op not in OPS and (user.op != "gather" or k):
                    return False
                elif user.op in OPS and user not in seen and set(user.shape) >= set(product.shape):
                    seen.add(user)
                    stack.append(user)
        return sums > 0

    def rule(n: Node) -> Node | None:
        if n.op != "gather" or n.args[0].domain is not None or n.args[0].node.op not in (*OPS, "reduce"):
            return None
        products = [p for p in _products(n.args[0].node) if points(p.shape, values) >= FEWER * points(n.shape, values)]
        if not products or not all(p in readers and summed(p) for p in products):
            return None
        return _Gathered(n).value()

    return rewrite(ir, rule)


def _products(node: Node) -> list[Node]:
    """The products of matrices that a value is made of, pointwise."""
    stack, seen, found = [node], {node}, list[Node]()
    while stack:
        n = stack.pop()
        if n.op == "reduce" and spread(n):
            found.append(n)
        for a in n.args if n.op in OPS else ():
            if a.node not in seen:
                seen.add(a.node)
                stack.append(a.node)
    return found


class _Gathered:
    """What a gather reads, over its own positions; None where something would have to be stored for that all the same."""

    def __init__(self, n: Node) -> None:
        self.n = n
        self.at: dict[Expr, Expr] = {}  # positions that are no data
        self.data: dict[Expr, View] = {}
        self.checked: set[Expr] = set()
        for k, index in enumerate(n.args[1:]):
            position = index.node.attr.expr if index.node.op == "iota" and index.domain is None else None
            if position is not None:
                self.at[axis(k)] = substitute(position, index.places)
            else:
                self.data[axis(k)] = index

    def value(self) -> Node | None:
        source = self.n.args[0]
        found = run(self.read(source, self.n.shape, {}))
        if found is None or self.checked != set(self.data):
            return None
        return node_of(found, self.n.shape)

    def read(self, v: View, shape: Shape, reduced: dict[Expr, Expr]) -> Walk:
        """A view over the gather's source (and the axes of a reduction, which are `reduced` to those of `shape`), over `shape`."""
        moving = {a for e in v.index for a in leaves(e, "axis")} & self.data.keys()
        if v.domain is not None and self.data.keys() & set(leaves(v.domain, "axis")):
            return None
        places = self.at | reduced
        if not moving:
            return v.through(places)
        if v.domain is not None:
            return None
        node = v.node
        if node.op in OPS:
            args = []
            for a in v.operands:
                args.append((yield self.read(a, shape, reduced)))
            return None if None in args else identity(elementwise(node.op, shape, *args, to=v.dtype, span=node.span))
        if node.op == "reduce" and not reduced:
            rank = len(self.n.attr.extents)
            own = {axis(node.rank + k): axis(rank + k) for k in range(len(node.attr.extents))}
            further = {axis(rank + k): axis(len(shape) + k) for k in range(len(node.attr.extents))}
            body = yield self.read(node.args[0].through(v.places | own), shape + operand_domain(node, 0)[node.rank :], further)
            return None if body is None else identity(reduce_node(node.attr.combiner, shape, node.attr.extents, body, node.span))
        plain = all(e in self.data or not self.data.keys() & set(leaves(e, "axis")) for e in v.index)
        if (
            node.op not in IN_MEMORY
            or not plain
            or any(self.n.attr.extents[e.attr] is not m for e, m in zip(v.index, node.shape, strict=True) if e in self.data)
        ):
            return None
        self.checked |= moving
        at = tuple(self.data[e] if e in self.data else identity(iota_node(substitute(e, places), shape)) for e in v.index)
        return identity(gather_node(identity(node), node.shape, at, shape, node.span))


__all__ = ["gather_first"]
