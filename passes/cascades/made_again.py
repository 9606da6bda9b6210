"""Scores that several passes read, one for each direction in which they are reduced: made in each of them, or once, as a tensor.

    dQ[i] = Σ_j f(s[i, j]) · K[j]             made again: twice the work of s, and no memory of rows by columns
    dK[j] = Σ_i f(s[i, j]) · Q[i]             stored: written once and read twice

Asked where cascades are found (`cascade_groups.py`: without one the reductions read a tensor) and where values are placed (`uses.py`: each cascade makes what it reads, or reads it), and answered for `--why`.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.bounds import Known
from ...ir.expr import const, product
from ...ir.graph import Graph, Node, View, state_count
from ...ir.primops import OPS
from ...ir.record import record
from ...ir.simplify import prove_le
from ...ir.text.expressions import show_expr
from .scores import leaves_out, pointwise_reads, spread

MANY = 1 << 30  # bytes of scores that are never stored where they are known to be so many
STORED = 1 << 24  # and that always are, where they are known to be no more: they are in the last cache still


@record
class Again:
    yes: bool
    why: str


def made_again(score: Node, readers: Collection[Node], known: Known, cascades: bool = False) -> Again:
    """Whether scores are made by each pass that reads them.  `readers` are the reductions of all passes, which are `cascades` however that is answered, or else products of a tensor, which are packed.

    Products with the scores are as much work as these, so that making them twice is a part more; beside statistics alone it is twice the time, also where a mask leaves out half of each.
    """
    size = product(score.shape)
    if prove_le(const(MANY // score.dtype.bytes), size, known):
        return Again(True, f"they are known to be {MANY >> 30} GiB or more")
    if not any(spread(n) for n in readers):
        return Again(False, "scores that statistics alone read, in both directions, are stored")
    if any(leaves_out(n) for n in readers):
        return Again(True, "tiles that a mask leaves out are made in none")
    if not cascades and prove_le(size, const(STORED // score.dtype.bytes), known):
        return Again(False, f"scores that would be made twice, and are known to be no more than {STORED >> 20} MiB, are stored")
    return Again(True, "no tensor is as large")


def several_times(graph: Graph) -> list[str]:
    """What `--why` says of scores that several cascades read: they are made in each, or stored."""
    cascades: dict[Node, set[tuple[View, ...]]] = {}
    readers: dict[Node, dict[Node, None]] = {}
    stored: set[Node] = set()
    for args, count in {n.args: state_count(n) for n in graph.nodes() if n.op == "cascade"}.items():
        states = [a.node for a in args[:count]]
        stack, seen = list(states), set[Node]()
        while stack:
            m = stack.pop()
            if m in seen or not (m.op in OPS or m.op in ("reduce", "contiguous")):
                continue
            seen.add(m)
            if m.op == "contiguous":
                m = m.args[0].node
                stored.add(m)
            else:
                stack += [a.node for a in m.args]
            if m.op == "reduce" and spread(m):
                cascades.setdefault(m, set()).add(args)
                readers.setdefault(m, {}).update(dict.fromkeys(states))
    known = Known(graph.size_info())
    found: dict[str, None] = {}
    for m, several in cascades.items():
        again = made_again(m, readers[m], known, cascades=True)
        if len(several) > 1 and again.yes is not (m in stored):
            shape = ", ".join(map(show_expr, m.shape))
            found[f"scores [{shape}] are made in each of {len(several)} passes over them: {again.why}" if again.yes else again.why] = None
    return list(found)


def readers_of(states: Collection[Node]) -> dict[Node, list[Node]]:
    """Which of the states of cascades read what, through pointwise operators."""
    found: dict[Node, list[Node]] = {}
    for s in states:
        for n in dict.fromkeys(v.node for v in pointwise_reads(s)) if s.op == "reduce" else ():
            found.setdefault(n, []).append(s)
    return found
