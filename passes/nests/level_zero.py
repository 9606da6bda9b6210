"""What is made real at level 0: every operator, but for a pointwise operand that one reduction alone reads (the products of a matmul would not fit in memory)."""

from __future__ import annotations

from ...ir.graph import Graph, Node, rewrite, users
from ...ir.primops import OPS

STRUCTURAL = frozenset({"nest", "scatter", "update", "scan", "contiguous"})
LEAVES = frozenset({"input", "const", "iota", "reached"})


def without_cascades(graph: Graph) -> Graph:
    """Each state a reduction by itself again."""
    return rewrite(graph, lambda n: n.args[n.attr.result].node if n.op == "cascade" else None)


def every_operator(graph: Graph) -> set[Node]:
    found = users(graph)

    def inside_a_reduction(n: Node) -> bool:
        return n.op in OPS and len(found[n]) == 1 and found[n][0][0].op == "reduce"

    def stored_already(n: Node) -> bool:
        return len(found[n]) == 1 and found[n][0][0].op == "contiguous" and found[n][0][0].args[0].is_identity

    return {n for n in found if n.op not in LEAVES | STRUCTURAL and not inside_a_reduction(n) and not stored_already(n)}
