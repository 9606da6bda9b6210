"""widen_scatters: scatters that add or multiply small floats do so in f32, as reductions do.

    %3 = scatter.add f16[K] over [N] base updates i   →   %3 = scatter.add f32[K] over [N] cast.f32(base) cast.f32(updates) i
                                                          %4 = cast f16[K] %3

Otherwise every update would be rounded to the small type when it is put back into memory.  Only types that the target does not compute with are widened.
"""

from __future__ import annotations

from ..ir.dtypes import f32
from ..ir.graph import Graph, Node, Shape, View, elementwise, identity, rewrite, scatter_node
from ..ir.target import Options, Target


def widen_scatters(graph: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""

    def rule(node: Node) -> Node | None:
        if node.op != "scatter" or node.attr.combiner not in ("add", "mul") or not node.dtype.is_float or node.dtype.name in target.arithmetic:
            return None
        base, updates = wide(node.shape, node.args[0]), wide(node.attr.extents, node.args[1])
        found = scatter_node(node.attr.combiner, base, updates, node.args[2:], node.attr.extents, node.shape, node.span)
        return elementwise("cast", node.shape, identity(found), to=node.dtype, span=node.span)

    return rewrite(graph, rule)


def wide(domain: Shape, x: View) -> View:
    return identity(elementwise("cast", domain, x, to=f32, span=x.node.span))
