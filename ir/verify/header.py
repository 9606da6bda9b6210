"""Rules on what all levels begin with: sizes, ports, derived sizes, preconditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..dtypes import INDEX, bool_
from ..expr import Expr
from ..graph import Graph, Port, Size
from ..kernel import Module
from ..program import Program
from ..walks import postorder
from .rule import Rule, repeated

_ROLES = ("in", "out", "inout", "scalar")


def size_names(sizes: Iterable[Size], ports: Iterable[Port]) -> frozenset[str]:
    """The free sizes, and the strides that are given at run time."""
    return frozenset(s.name for s in sizes) | {n for p in ports for n in p.strided}


def undeclared(e: Expr, sizes: frozenset[str], rank: int) -> Iterator[str]:
    """What an expression over sizes and $0 … $(rank-1) may not mention."""
    for n in postorder(e):
        if n.op == "size" and n.attr not in sizes:
            yield f"{e!r} mentions {n.attr}, which is no declared size"
        elif n.op == "axis" and not 0 <= n.attr < rank:
            yield f"{e!r} mentions ${n.attr} in a domain of rank {rank}"
        elif n.op in ("var", "load", "first", "last", "to_line"):
            yield f"{e!r} mentions {n!r}, which is no size"


def header_rules(level: type) -> tuple[Rule, ...]:
    """The rules for a subject of this level: the level itself, or what holds it as `whole`."""

    def whole(x: object) -> Graph | Module | Program:
        return x if isinstance(x, level) else x.whole  # type: ignore[union-attr, attr-defined, return-value]

    def sizes(x: object) -> Iterator[str]:
        for s in whole(x).sizes:
            if s.min > s.max or s.multiple < 1 or s.min < 0:
                yield f"size {s.name} has min {s.min}, max {s.max}, multiple {s.multiple}"

    def names(x: object) -> Iterator[str]:
        w = whole(x)
        for name in repeated([*(s.name for s in w.sizes), *(p.name for p in w.ports)]):
            yield f"{name} is declared twice"

    def ports(x: object) -> Iterator[str]:
        w = whole(x)
        known = size_names(w.sizes, w.ports)
        for p in w.ports:
            if p.role not in _ROLES:
                yield f"port {p.name} has the role {p.role!r}"
            if p.dtype.lanes != 1:
                yield f"port {p.name} has the vector type {p.dtype}"
            if p.order and sorted(p.order) != list(range(len(p.shape))):
                yield f"port {p.name} has the order {p.order} for {len(p.shape)} axes"
            if len(p.strided) > len(p.shape):
                yield f"port {p.name} has more strides than axes"
            if p.pairs and not p.dtype.is_complex:
                yield f"port {p.name} of {p.dtype} has no pairs"
            if p.role == "scalar" and p.shape:
                yield f"scalar {p.name} has {len(p.shape)} axes"
            for e in p.shape if p.index_limit is None else (*p.shape, p.index_limit):
                yield from (f"port {p.name}: {text}" for text in undeclared(e, known, 0))

    def facts(x: object) -> Iterator[str]:
        w = whole(x)
        known = size_names(w.sizes, w.ports)
        for name, e in w.derived:
            yield from undeclared(e, known, 0)
            if e.dtype is not INDEX:
                yield f"derived {name} is {e.dtype}"
        for e in w.requires:
            yield from undeclared(e, known, 0)
            if e.dtype is not bool_:
                yield f"require {e!r} is {e.dtype}"

    return (
        Rule("sizes", "0 <= min <= max and multiple >= 1", sizes),
        Rule("header-names", "names of sizes and ports are unique", names),
        Rule("ports", "ports have a known role, an order that permutes their axes, and shapes over declared sizes", ports),
        Rule("facts", "derived sizes are i64, preconditions bool, both over declared sizes", facts),
    )
