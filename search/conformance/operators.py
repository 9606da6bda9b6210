"""One graph for each operator: the contract of a runtime, one row at a time."""

from __future__ import annotations

from collections.abc import Container

from ...ir.dtypes import DTYPES, DType, bool_, i64
from ...ir.expr import ONE, axis, size
from ...ir.graph import (
    Graph,
    Node,
    Port,
    Size,
    View,
    elementwise,
    gather_node,
    identity,
    input_node,
    iota_node,
    make,
    reduce_node,
    scan_node,
    scatter_node,
)
from ...ir.primops import COMBINERS, OPS, accepts

M, N, K = size("M"), size("N"), size("K")


def elementwise_graph(name: str, dtype: DType, available: Container[str]) -> Graph:
    """The operator on vectors of N elements.  A cast goes to every dtype that is available, a bitcast to those of the width."""
    ports = [Port(p, dtype, (N,), "in") for p in ("X", "Y", "Z")[: OPS[name].arity]]
    if name == "where":
        ports = [Port("X", bool_, (N,), "in"), *ports[1:]]
    operands = [identity(input_node(p)) for p in ports]
    if name in ("cast", "bitcast"):
        outputs = [(d.name, elementwise(name, (N,), *operands, to=d)) for d in targets(name, dtype) if d.name in available]
        return _graph(name, (Size("N"),), ports, outputs)
    return _graph(name, (Size("N"),), ports, [("out", elementwise(name, (N,), *operands))])


def targets(name: str, source: DType) -> list[DType]:
    """What a conversion goes to."""
    others = [d for d in DTYPES.values() if d is not source and "complex" not in (d.kind, source.kind)]
    return others if name == "cast" else [d for d in others if d.bits == source.bits and "bool" not in (d.kind, source.kind)]


def structural_graph(name: str, dtype: DType) -> Graph:
    x = Port("X", dtype, (M, N), "in")
    node = input_node(x)
    sizes = (Size("M"), Size("N"))
    if name in ("sum_reduce", "max_reduce"):
        combiners = ("or",) if dtype is bool_ else ("add",)
        if name == "max_reduce":
            combiners = ("and", "or") if dtype is bool_ else tuple(c for c in _combiners(dtype) if c != "add")
        return _graph(name, sizes, [x], [(c, reduce_node(c, (M,), (N,), identity(node))) for c in combiners])
    if name == "scan":
        return _graph(name, sizes, [x], [(c, scan_node(c, 1, identity(node), (M, N))) for c in _combiners(dtype)])
    if name == "contiguous":
        turned = View(node, (axis(1), axis(0)))
        shifted = View(node, (axis(0), axis(1) - ONE), ONE.le(axis(1)), False if dtype is bool_ else 0)
        return _graph(
            name, sizes, [x], [("turned", make("contiguous", dtype, (N, M), (turned,))), ("shifted", make("contiguous", dtype, (M, N), (shifted,)))]
        )
    if name == "iota":
        whole = iota_node(axis(0) * N + axis(1), (M, N))
        return _graph(name, sizes, [], [("out", whole)])
    if name == "gather":
        rows = Port("I", i64, (K,), "in", index_limit=M)
        picked = gather_node(identity(node), (M, N), (View(input_node(rows), (axis(0),)), View(_column(), (axis(0), axis(1)))), (K, N))
        return _graph(name, (*sizes, Size("K")), [x, rows], [("out", picked)])
    combiners = ("set", *_combiners(dtype))
    rows, updates = Port("I", i64, (K,), "in", index_limit=M), Port("U", dtype, (K, N), "in")
    where = (View(input_node(rows), (axis(0),)), View(_column(), (axis(0), axis(1))))
    found = [(c, scatter_node(c, identity(node), identity(input_node(updates)), where, (K, N), (M, N))) for c in combiners]
    return _graph(name, (*sizes, Size("K")), [x, rows, updates], found)


def _combiners(dtype: DType) -> tuple[str, ...]:
    return tuple(c for c in ("add", "max", "min", "mul") if accepts(OPS[COMBINERS[c].op], dtype))


def _column() -> Node:
    """The second index of a gather or scatter of whole rows: the position itself."""
    return iota_node(axis(1), (K, N))


def _graph(name: str, sizes: tuple[Size, ...], ports: list[Port], outputs: list[tuple[str, Node]]) -> Graph:
    out = [Port(n, node.dtype, node.shape, "out") for n, node in outputs]
    return Graph(name, sizes, (*ports, *out), tuple(outputs))


__all__ = ["elementwise_graph", "structural_graph", "targets"]
