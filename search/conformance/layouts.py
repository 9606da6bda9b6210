"""The memory layouts that a kernel is tried in."""

from __future__ import annotations

from ...ir.graph import Graph, Port
from ...ir.record import replace

LAYOUTS = ("row", "column", "permuted")


def laid_out(graph: Graph, layout: str) -> Graph | None:
    """The graph with its ports in memory as `layout` says; None where that changes nothing.

    row       as declared
    column    every port with its axes in the opposite order
    permuted  the ports differ: the first has its axes rotated by one, the second by two, …
    """
    if layout == "row":
        return graph
    ports = tuple(_port(p, k, layout) for k, p in enumerate(graph.ports))
    return None if ports == graph.ports else replace(graph, ports=ports)


def _port(port: Port, place: int, layout: str) -> Port:
    rank = len(port.shape)
    if rank < 2 or port.strided or port.role == "scalar":
        return port
    order = port.memory_order
    if layout == "column":
        return replace(port, order=order[::-1])
    turn = (place + 1) % rank
    return replace(port, order=order[turn:] + order[:turn])
