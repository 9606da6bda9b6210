"""How many lanes the vectors of a loop have."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.expr import INDEX, Expr
from ....ir.kernel import loads_in
from ....ir.program import Assign, Block, Define, For, StoreTo, statements
from ....ir.target import Target
from ..affine import difference
from .axis import Serial


def lane_count(s: For, target: Target) -> tuple[int, int]:
    """Lanes of a vector, and the number of vectors: as many lanes of the widest dtype as a register holds and the extent is a multiple of.

    Raises Serial where no vector has as many.
    """
    extent = difference(s.stop, s.start)
    widest = max((d.bits for d in data_types(s.body, s.var)), default=0)
    if not extent.is_const or not widest or not s.step.is_const or s.step.attr != 1:
        raise Serial
    lanes = target.vector_bytes * 8 // widest
    while lanes > 1 and extent.attr % lanes:
        lanes //= 2
    if lanes < 2 or extent.attr <= 0:
        raise Serial
    return lanes, extent.attr // lanes


def data_types(body: Block, along: str) -> list[DType]:
    """The dtypes that the statements load, store and compute with on the way: a cast through a wider dtype needs vectors of that.

    Positions do not count, neither in addresses nor as data, nor as words of as many bits (of which generators of numbers make narrow ones): what they become does.  Nor does a position that is loaded and the same for all lanes, as the index of a row.
    """
    found: list[DType] = []
    moving, named = {along}, {s.name for s in statements(body) if isinstance(s, Define)}
    for s in statements(body):
        if isinstance(s, Define) and s.value is not None and not s.value.names.isdisjoint(moving):
            moving.add(s.name)
        found += [n.dtype for n in loads_in(*s.expressions()) if n.dtype is not INDEX or not n.names.isdisjoint(moving)]
        if isinstance(s, (StoreTo, Assign)):
            found.append(s.value.dtype)
            found += computed_types(s.value, named)
    return found


def computed_types(value: Expr, named: set[str]) -> list[DType]:
    """The dtypes of what a value is computed from, down to its loads; bools have the width of what was compared.  What is `named` may be data."""
    found: list[DType] = []
    pending, seen = [value], {value}
    while pending:
        n = pending.pop()
        position = n.dtype.is_integer and n.dtype.bits == INDEX.bits and not n.buffers and named.isdisjoint(n.names)
        if n.dtype is not INDEX and n.dtype.kind != "bool" and not position:
            found.append(n.dtype)
        fresh = [a for a in n.args if a not in seen] if n.op != "load" else []
        pending += fresh
        seen.update(fresh)
    return found
