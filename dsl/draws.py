"""Which ports are used as indices, and into how long an axis: tests draw them inside."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import Expr, minimum
from ..ir.graph import Node, View
from ..ir.graph import postorder as nodes_of
from ..ir.kernel import Alloc, Let, Nest, expressions, statements
from ..ir.walks import postorder


def index_limits(outputs: Sequence[Node]) -> dict[str, Expr]:
    """Port → the least extent of the axes that its elements index, through gathers, scatters and the loads of nests."""
    found: dict[str, Expr] = {}

    def note(port: str | None, extent: Expr) -> None:
        if port is not None:
            found[port] = minimum(found[port], extent) if port in found else extent

    nests: set[int] = set()
    for node in nodes_of(*outputs):
        if node.op == "gather":
            for view, extent in zip(node.args[1:], node.attr.extents, strict=True):
                note(_port(view), extent)
        elif node.op == "scatter":
            for view, extent in zip(node.args[2:], node.shape, strict=True):
                note(_port(view), extent)
        elif node.op == "nest" and node.attr.nest is not None and id(node.attr.nest) not in nests:
            nests.add(id(node.attr.nest))
            for buffer, extent in _nest_limits(node.attr.nest):
                operand = next((k for k, b in enumerate(node.attr.nest.operands) if b.name == buffer), None)
                if operand is not None:
                    note(_port(node.args[operand]), extent)
    return found


def _port(view: View) -> str | None:
    """The input port that a view reads, through casts."""
    node = view.node
    while node.op in ("cast", "contiguous") and node.args:
        node = node.args[0].node
    return node.attr.name if node.op == "input" and node.dtype.is_integer else None


def _nest_limits(nest: Nest) -> list[tuple[str, Expr]]:
    """(buffer, extent) wherever an element of the buffer is, alone or by a name, an index along an axis of this extent."""
    body = list(statements(nest.body))
    shapes = {b.name: b.shape for b in (*nest.operands, *nest.results, *(s.buffer for s in body if isinstance(s, Alloc)))}
    named = {s.name: s.value for s in body if isinstance(s, Let)}
    found: list[tuple[str, Expr]] = []
    for s in body:
        exprs = list(expressions(s))
        accesses = [(e.attr, e.args) for root in exprs for e in postorder(root) if e.op == "load"]
        name, at = getattr(s, "buffer", None), getattr(s, "index", None)
        if isinstance(name, str) and at is not None:
            accesses.append((name, at))
        for buffer, index in accesses:
            for e, extent in zip(index, shapes.get(buffer, ()), strict=False):
                inner = _plain(e)
                inner = _plain(named.get(inner.attr, inner)) if inner.op == "var" else inner
                if inner.op == "load":
                    found.append((inner.attr, extent))
    return found


def _plain(e: Expr) -> Expr:
    return e.args[0] if e.op == "cast" else e
