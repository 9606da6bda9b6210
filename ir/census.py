"""Which operators a graph is made of, as it stands or once every derived operator is decomposed."""

from __future__ import annotations

from collections.abc import Iterable

from .decompose import DECOMPOSITIONS, expand
from .expr import call, postorder, var
from .graph import Graph, Node
from .primops import OPS


def operators(graph: Graph, native: Iterable[str] = OPS) -> dict[str, int]:
    """Operator → how often it stands in the graph (a node counts once, however many points it has), in the order of the first use.
    Derived operators that are not in `native` are counted as the primops that they become.

    Reductions by add are `sum_reduce`, by anything else `max_reduce` with the combiner behind it where it is not max.  What is no primop keeps its own
    name: `update` (a store into a part) and `nest` (loops that stay loops)."""
    kept = frozenset(native)
    found: dict[str, int] = {}
    for node in graph.nodes():
        for name in _names(node, kept):
            found[name] = found.get(name, 0) + 1
    return found


def _names(node: Node, native: frozenset[str]) -> list[str]:
    if node.op in DECOMPOSITIONS and node.op not in native:
        operands = [var(f"x{k}", a.dtype) for k, a in enumerate(node.args)]
        return [e.op for e in postorder(expand(call(node.op, *operands), native)) if e.op in OPS]
    if node.op == "reduce":
        combiner = node.attr.combiner
        return ["sum_reduce" if combiner == "add" else "max_reduce" if combiner == "max" else f"max_reduce.{combiner}"]
    if node.op in ("input", "const") or (node.op == "nest" and node.attr.result):
        return []
    return [node.op]


__all__ = ["operators"]
