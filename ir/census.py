"""Which operators a graph is made of, as it stands or once every derived operator is decomposed."""

from __future__ import annotations

from collections.abc import Iterable

from .complex_forms import split
from .decompose import DECOMPOSITIONS, expand
from .dtypes import f32
from .expr import Expr, call, var
from .graph import Graph, Node
from .primops import OPS
from .walks import postorder


def operators(graph: Graph, native: Iterable[str] = OPS) -> dict[str, int]:
    """Operator → how often it stands in the graph (a node counts once, however many points it has), in the order of the first use.
    Derived operators that are not in `native` are counted as the primops that they become.

    Operators on complex numbers are counted as what they are in components, where `native` is not the whole table.

    Reductions by add are `sum_reduce`, by anything else `max_reduce` with the combiner behind it where it is not max.  What is no primop keeps its own
    name: `update` (a store into a part) and `nest` (loops that stay loops)."""
    kept = frozenset(native)
    found: dict[str, int] = {}
    for node in graph.nodes():
        for name in _names(node, kept):
            found[name] = found.get(name, 0) + 1
    return found


def _names(node: Node, native: frozenset[str]) -> list[str]:
    if node.op in OPS and any(d.is_complex for d in (node.dtype, *(a.dtype for a in node.args))) and native != frozenset(OPS):
        return [e.op for e in postorder(*(expand(part, native) for part in _components(node))) if e.op in OPS]
    if node.op in DECOMPOSITIONS and node.op not in native:
        operands = [var(f"x{k}", a.dtype) for k, a in enumerate(node.args)]
        return [e.op for e in postorder(expand(call(node.op, *operands), native)) if e.op in OPS]
    if node.op == "reduce":
        combiner = node.attr.combiner
        return ["sum_reduce" if combiner == "add" else "max_reduce" if combiner == "max" else f"max_reduce.{combiner}"]
    if node.op in ("input", "const") or (node.op == "nest" and node.attr.result):
        return []
    return [node.op]


def _components(node: Node) -> tuple[Expr, ...]:
    """A row on complex numbers in components: one expression, or one for each part."""
    operands = [var(f"x{k}", a.dtype) for k, a in enumerate(node.args)]
    pairs = tuple((var(f"{x.attr}.re", f32), var(f"{x.attr}.im", f32)) if x.dtype.is_complex else x for x in operands)
    found = split(call(node.op, *operands, to=node.dtype), pairs)
    return found if isinstance(found, tuple) else (found,)


__all__ = ["operators"]
