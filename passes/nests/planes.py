"""Scores that are mixed: a sum over a short axis, as that of heads, of what is itself scores.

    t[h, i, j] = Σ_g A[h, g] · s[g, i, j]         mixed scores: the rows of a cascade over j are h and i
    s[g, i, j] = Σ_d Q[g, i, d] · K[g, j, d]      its *planes*: the rows h have them all in common

A tile of the planes is made once, for all positions of h, and the loop over h stands inside that over tiles (`nest_cascade.py`):

    for i:
      m[h] = -inf; l[h] = 0; a[h, e] = 0
      for p.0 in tiles:
        for g, p.1: s[g, p.1] = Σ_d Q[g, i, d] · K[g, p, d]
        for h, p.1: t[h, p.1] = Σ_g A[h, g] · s[g, p.1]
        for h: … the states of h and i move

So no scores are stored, and none is made twice.  `uses.py` asks whether that fits the caches: else planes and mixed scores are tensors.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import ONE, ZERO, Expr, axis, var
from ...ir.graph import Node, View, state_axes, state_count
from ...ir.primops import OPS
from ...ir.record import record
from ...ir.simplify import simplify
from ...ir.walks import leaves, substitute
from .masks import ALONG


@record
class Planes:
    """What is mixed, where: the node, its index over the rows (`axis`), `ALONG` and the axes of the sum (None)."""

    node: Node
    index: tuple[Expr | None, ...]
    rows: frozenset[int]  # the rows of the cascade that have it in common
    mixed: Node  # the sum
    at: tuple[Expr, ...]  # its index


def planes(cascade: Node, real: Callable[[Node], bool]) -> list[Planes]:
    """The planes that a cascade's scores are mixed of, those first of which others are mixed; what is `real` is in memory."""
    count, rows = state_count(cascade), len(cascade.attr.extents)
    states = {a.node for a in cascade.args[:count]}
    if any(s.op != "reduce" or len(s.attr.extents) != 1 for s in states):
        return []
    found: dict[Node, Planes] = {}
    for k in range(count):
        places, _ = state_axes(cascade, k)
        stack = _reductions(cascade.args[k].node.args[0], (*(axis(j) for j in places), ALONG), states, real)
        while stack:
            mixed, at = stack.pop()
            if ALONG not in at or any(a.attr >= rows for e in at for a in leaves(e, "axis")):
                continue
            for p, point in _planes_of(mixed, at, real, len(found)):
                if p.node in found:
                    if found[p.node].index != p.index:
                        return []
                    continue
                found[p.node] = p
                stack += _reductions(View(p.node, point), (), states, real)
    return list(reversed(found.values()))


def _reductions(view: View, at: tuple[Expr, ...], states: set[Node], real: Callable[[Node], bool]) -> list[tuple[Node, tuple[Expr, ...]]]:
    """The reductions that a value is made of, pointwise, each with the position that it is read at."""
    found: dict[tuple[Node, tuple[Expr, ...]], None] = {}
    seen: set[tuple[Node, tuple[Expr, ...]]] = set()
    stack = [(view, at)]
    while stack:
        v, at = stack.pop()
        index = tuple(simplify(substitute(e, {axis(a): x for a, x in enumerate(at)})) for e in v.index)
        if (v.node, index) in seen or v.node in states or real(v.node):
            continue
        seen.add((v.node, index))
        if v.node.op == "reduce":
            found[v.node, index] = None
        elif v.node.op in OPS:
            stack += [(a, index) for a in v.node.args]
    return list(found)


def _planes_of(mixed: Node, at: tuple[Expr, ...], real: Callable[[Node], bool], number: int) -> list[tuple[Planes, tuple[Expr, ...]]]:
    """The largest values in a sum that hold scores and miss some of what it moves with; each with its index, in which the axes of the sum have names with that `number`."""
    summed = tuple(ZERO if e is ONE else var(f"%{number}.{k}") for k, e in enumerate(mixed.attr.extents))
    moving = {a for e in at for a in (*leaves(e, "axis"), *leaves(e, "var"))}
    found: list[tuple[Planes, tuple[Expr, ...]]] = []
    stack = [(mixed.args[0], (*at, *summed))]
    while stack:
        v, user = stack.pop()
        index = tuple(simplify(substitute(e, {axis(a): x for a, x in enumerate(user)})) for e in v.index)
        missing = moving - {a for e in index for a in (*leaves(e, "axis"), *leaves(e, "var"))}
        if real(v.node) or v.domain is not None:
            continue
        if ALONG in index and missing and (v.node.op in OPS or v.node.op == "reduce") and _reductions(v, user, set(), real):
            among = [e for e in index if e in summed and e is not ZERO]
            if len(among) == len(set(among)) > 0 and all(e in among or {*summed}.isdisjoint(leaves(e, "var")) for e in index):
                rows = frozenset(a.attr for a in missing if a.op == "axis")
                found.append((Planes(v.node, tuple(None if e in among else e for e in index), rows, mixed, at), index))
        elif v.node.op in OPS:
            stack += [(a, index) for a in v.node.args]
    return found


def made_of(n: Node) -> set[Node]:
    """A value and what it is made of, pointwise, with the reductions in it."""
    found, stack = set[Node](), [n]
    while stack:
        m = stack.pop()
        if m not in found and (m.op in OPS or m.op == "reduce"):
            found.add(m)
            stack += [a.node for a in m.args if m.op in OPS]
    return found
