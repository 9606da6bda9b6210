"""What a graph computes and moves, counted from its nodes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..ir.evaluate import evaluate

if TYPE_CHECKING:
    from ..ir.expr import Expr
    from ..ir.graph import Graph
    from ..ir.kernel import Block

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


def iterations(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Statements that loops which stay loops go through, about: inner loops as long as they are halfway through the outer ones, and what data decides as long as the longest size."""
    longest = max(sizes.values(), default=1)
    return sum(_statements(nest.body, dict(sizes), longest) for node in graph.nodes() if node.op == "nest" and (nest := node.attr.nest) is not None)


def _statements(block: Block, known: dict[str, int], longest: int) -> int:
    from ..ir.kernel import If, Let, Loop, While

    found = 0
    for s in block:
        match s:
            case Loop():
                try:
                    start, stop, step = (evaluate(e, known) for e in (s.start, s.stop, s.step))
                except (KeyError, TypeError, ValueError, ZeroDivisionError):
                    start, stop, step = 0, longest, 1
                trips = len(range(start, stop, step or 1))
                found += trips * _statements(s.body, known | {s.axis: start + trips // 2 * step}, longest)
            case While():
                found += longest * _statements(s.body, known, longest)
            case If():
                found += max(_statements(s.body, known, longest), _statements(s.orelse, known, longest))
            case Let():
                try:
                    known[s.name] = evaluate(s.value, known)
                except (KeyError, TypeError, ValueError, ZeroDivisionError):
                    found += 1
            case _:
                found += 1
    return found


def _count(shape: tuple[Expr, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(max(evaluate(extent, sizes), 0) for extent in shape)


__all__ = ["iterations", "work_of"]
