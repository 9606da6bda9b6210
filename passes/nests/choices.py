"""What is stacked of a few values that are made of the same things: all of them are computed side by side.

    for c:                                             for c:
      for j in 0 .. 3:                                   for t:
        for t:                                    →        Y[c, 0, t] = X[c, t] + X[c, t + 1]
          Y[c, j, t] = where(j < 1, X[c, t] + X[c, t + 1], …)        Y[c, 1, t] = X[c, t] - X[c, t + 1]
                                                           …

A real tensor *chooses* along axes of small constant extents where it is a chain of `where` on the position along them.  Written out inside the other loops, what the choices share is read and computed
once.  Not along the last axis, where stores would no longer be consecutive.
"""

from __future__ import annotations

import math
from collections.abc import Container

from ...ir.expr import ONE, Expr
from ...ir.graph import Node, postorder
from ...ir.primops import OPS
from ...ir.walks import leaves
from ..products.by_sizes import by_sizes

MOST = 8  # values side by side along one axis: they and what they are made of are to stay in registers


def choice(node: Node) -> tuple[int, ...]:
    """The axes along which a real node chooses between values that share an operand; none where it does not."""
    n = node.args[0].node if node.op == "contiguous" and node.args[0].is_identity else node
    if n.op != "where" or n.shape != node.shape:
        return ()
    chosen: list[Node] = []
    along: set[Expr] = set()
    while n.op == "where":
        condition, value, rest = n.args
        if condition.node.op != "const" or condition.domain is None or (not rest.is_identity and rest.node.op == "where"):
            return ()
        along.update(leaves(condition.domain, "axis"))
        chosen.append(value.node)
        if rest.node.op != "where" or rest.domain is not None:
            chosen.append(rest.node)
            break
        n = rest.node
    axes = sorted(a.attr for a in along)
    extents = [node.shape[k] for k in axes]
    if not all(e.is_const and e.attr <= MOST for e in extents) or math.prod(e.attr for e in extents) != len(chosen):
        return ()
    later = any(e is not ONE for e in node.shape[axes[-1] + 1 :])
    return tuple(axes) if later and _share(chosen) else ()


def _share(values: list[Node]) -> bool:
    """Whether two of them read the same tensor."""
    seen: set[Node] = set()
    for v in values:
        read = {n for n in postorder(v) if n.op not in OPS and n.op not in ("const", "iota")} if v.op in OPS else {v}
        if not seen.isdisjoint(read):
            return True
        seen |= read
    return False


def order(node: Node) -> tuple[int, ...]:
    """The axes of a real node in the order of its loops, those along which it chooses (and that get no loop) last."""
    chosen = choice(node)
    if not chosen:
        return tuple(range(node.rank))
    others = [a for a in range(node.rank) if a not in chosen]
    small = [a for a in others[:-1] if node.shape[a].is_const and node.shape[a].attr <= MOST]
    return (*(a for a in others[:-1] if a not in small), *small, others[-1], *chosen)


def size_condition(node: Node, in_memory: Container[Node]) -> Expr | None:
    """The condition on sizes alone by which some `where` chooses that is computed where a real node is; None where there is none."""
    stack, seen = [a.node for a in node.args], set[Node]()
    if node.op == "where":
        stack.append(node)
    while stack:
        n = stack.pop()
        if n in seen or (n in in_memory and n is not node):
            continue
        seen.add(n)
        found = by_sizes(n)
        if found is not None:
            return found.first
        if n.op in OPS:
            stack += [a.node for a in n.args]
    return None
