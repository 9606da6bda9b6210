"""Cascades with sums around moving points (`moments.py`): they run in tiles only where a row is longer than what stays in a cache, and read each tile once for all sums around one point.

    if N <= 65536:                      the row is in a cache when it is read again: one reduction after the other, as they are defined
      for p: m += X[p]
      for p: v += (X[p] − m / N)²
    else:                               the row comes from memory once
      for p.0 in tiles: …

Where the length is known there is no `if`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import FALSE, TRUE, Expr, const, load
from ...ir.graph import Node, View, postorder
from ...ir.kernel import Block, If
from ...ir.primops import OPS
from ...ir.simplify import assuming, simplify
from ..walk import Walk

if TYPE_CHECKING:
    from .nest_body import Point
    from .nest_cascade import CascadeLoops

CACHED = 1 << 18  # bytes that are still in the second cache when they are read again


def is_zero(v: View) -> bool:
    return v.node.op == "const" and v.node.attr.value == 0


def around_points(c: CascadeLoops, order: list[int]) -> Walk:
    """The loops of a cascade in which something depends on what was reached."""
    changing: set[Node] = set()
    for n in postorder(*(a.node for a in c.cascade.args)):
        if n.op == "reached" or any(a.node in changing for a in n.args):
            changing.add(n)
    outside = c.body.set_aside(changing)  # of a cascade around this one, over as long an axis
    if c.wanted or c.chunk is not None:
        yield c.tiles(order)
    else:
        yield _by_length(c, order, changing)
    c.body.set_aside(changing)
    c.body.memo.update(outside)


def _by_length(c: CascadeLoops, order: list[int], changing: set[Node]) -> Walk:
    """Whole reductions or tiles, as long as a row is."""
    body, outer = c.body, c.body.current
    (extent,) = c.states[0].attr.extents
    short = simplify(extent.le(const(max(1, CACHED // max(1, _bytes(c))))), outer.known)
    branches: list[Block] = []
    for condition, write in ((short, _whole), (FALSE if short is TRUE else TRUE, lambda c, order: c.tiles(order))):
        if condition is FALSE:
            branches.append(())
            continue
        inner = body.branch(assuming(outer.known, short if write is _whole else None))
        yield write(c, order)
        branches.append(tuple(inner.body))
        body.forget(outer, changing)
    if short in (TRUE, FALSE):
        outer.body.extend(branches[0] or branches[1])
    else:
        outer.body.append(If(short, branches[0], branches[1]))


def _bytes(c: CascadeLoops) -> int:
    """Of what is read for one position of the axis."""
    read: dict[Node, None] = {}
    for state in c.states:
        stack, seen = [state.args[0].node], set()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if c.body.home(n) is not None and n.rank:
                read[n] = None
            elif n.op in OPS:
                stack.extend(a.node for a in n.args)
    return sum(n.dtype.bytes for n in read)


def _whole(c: CascadeLoops, order: list[int]) -> Walk:
    """The states that somebody asks for, one after the other; those that do not read one another in one loop."""
    from .nest_body import REDUCED_AXES

    body, outside = c.body, dict(c.body.kept)
    (extent,) = c.states[0].attr.extents
    assert c.reached is not None
    body.kept[c.reached, ()] = extent
    asked = _asked(c)
    for batch in batches(c, [k for k in order if k in asked]):
        scope = body.current
        parts = [
            body.accumulator(scope, c.states[k].dtype, c.states[k].attr.combiner) for k in batch
        ]  # of this branch: what is made of them stays in it
        inner = body.enter(extent, "reduce", REDUCED_AXES)
        for k, part in zip(batch, parts, strict=True):
            body.store(part, (), (yield body._read(c.states[k].args[0], (*c.at(k, ()), inner), None)), c.states[k].attr.combiner)
        body.leave(scope)
        for k, part in zip(batch, parts, strict=True):
            result = body.kept[c.states[k], c.point(c.states[k])] = load(part, c.states[k].dtype)
            body.store(c.names[k], (), result)
    body.kept = outside


def _asked(c: CascadeLoops) -> set[int]:
    """The states that are read outside, or by the bodies of those."""
    found = set(c.body.asked.get(c.cascade.args, range(len(c.states))))
    for k in reversed(range(len(c.states))):
        if k in found:
            found |= {j for j, s in enumerate(c.states) if s in c.pointwise(c.states[k].args[0].node)}
    return found


def batches(c: CascadeLoops, order: list[int]) -> list[list[int]]:
    """States in runs that one loop over a tile computes: sums around points that have moved already."""
    found: list[list[int]] = []
    for k in order:
        alone = c.reached is None or bool(c.wanted) or bool(c.further[k][1])
        if found and not alone and not any(c.states[j] in c.pointwise(c.states[k].args[0].node) for j in found[-1]):
            found[-1].append(k)
        else:
            found.append([k])
    return found


def move_together(c: CascadeLoops, batch: list[int], start: Point) -> Walk:
    """Several states in one tile, in one loop."""
    from .nest_body import REDUCED_AXES

    body, tile = c.body, c.body.current
    for k in batch:
        yield c.correct(k)
    parts = [body.accumulator(tile, c.states[k].dtype, c.states[k].attr.combiner) for k in batch]
    inner: Expr = body.enter(c.length, "reduce", REDUCED_AXES, c.begin)
    along = c.seed(start, inner, False)
    for k, part in zip(batch, parts, strict=True):
        value = yield body._read(c.states[k].args[0], (*c.at(k, ()), *start[:-1], along), None)
        body.store(part, (), value, c.states[k].attr.combiner)
    body.leave(tile)
    for k, part in zip(batch, parts, strict=True):
        state, new = c.states[k], c.combined(k, (), part)
        if state in c.read:
            body.kept[state, c.point(state)] = c.named("now", new)
        else:
            body.store(c.names[k], (), new)
