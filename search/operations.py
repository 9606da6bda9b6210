"""What a graph computes and moves, counted from its nodes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..ir.evaluate import evaluate

if TYPE_CHECKING:
    from ..ir.expr import Expr
    from ..ir.graph import Graph

# Real operations of a complex one; of the others, one.
_COMPLEX = {"add": 2, "sub": 2, "neg": 2, "mul": 6, "fma": 8, "div": 11, "recip": 6, "abs": 4}


def work_of(graph: Graph, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Arithmetic operations of the graph as it stands, and bytes of its ports (each input read once, each output written once)."""
    from ..ir.primops import OPS

    flops = 0
    for node in graph.nodes():
        if node.op in ("reduce", "scan"):
            flops += _count(node.shape, sizes) * _count(node.attr.extents, sizes) * (_COMPLEX[node.attr.combiner] if node.dtype.is_complex else 1)
        elif node.op not in OPS or node.op in ("cast", "bitcast", "where", "complex", "real", "imag"):
            continue
        elif any(d.is_complex for d in (node.dtype, node.args[0].dtype)):
            flops += _count(node.shape, sizes) * _COMPLEX.get(node.op, 1)
        elif node.dtype.is_float:
            flops += _count(node.shape, sizes) * (2 if node.op == "fma" else 1)
    moved = 0
    for port in graph.ports:
        moved += _count(port.shape, sizes) * port.dtype.bytes * (2 if port.role == "inout" else 1)
    return flops, moved


def _count(shape: tuple[Expr, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(max(evaluate(extent, sizes), 0) for extent in shape)


__all__ = ["work_of"]
