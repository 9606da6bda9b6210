"""Which ports are used as indices or bounds, and of how long an axis: tests draw them inside."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import Expr, minimum
from ..ir.graph import Node, View, postorder as nodes_of
from ..ir.kernel import Alloc, Let, Nest, statements
from ..ir.record import record
from ..ir.walks import postorder
from .loop_bounds import bounds_of_loops


@record
class Drawn:
    """How a port is drawn: integers from 0 to below `limit`; `rising`: the axis along which they rise from 0 to the greatest."""

    limit: Expr
    rising: int | None = None


def draws(outputs: Sequence[Node]) -> dict[str, Drawn]:
    """Port → the least extent of the axes that its elements index, through gathers, scatters and the loads of nests, or that the loops which they bound run along."""
    found: dict[str, Drawn] = {}

    def note(port: str | None, extent: Expr, rising: int | None = None) -> None:
        if port is not None:
            old = found.get(port)
            found[port] = Drawn(extent, rising) if old is None else Drawn(minimum(old.limit, extent), rising if old.rising is None else old.rising)

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
            views = {b.name: view for b, view in zip(node.attr.nest.operands, node.args, strict=True)}
            for buffer, extent in _nest_limits(node.attr.nest):
                if buffer in views:
                    note(_port(views[buffer]), extent)
            for buffer, most, rising in bounds_of_loops(node.attr.nest):
                if buffer in views:
                    note(_port(views[buffer]), most + 1, rising if _as_it_is(views[buffer]) else None)
    return found


def _as_it_is(view: View) -> bool:
    """Nothing but casts between the port and its use: its axes are the port's."""
    while view.is_identity and view.node.op in ("cast", "contiguous"):
        view = view.node.args[0]
    return view.is_identity


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
        exprs = list(s.expressions())
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
