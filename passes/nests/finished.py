"""Contractions that are finished where they are computed: of which all that is read is one value that is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ...ir.graph import Node
from ...ir.primops import OPS

MOST = 8  # values between a sum and what it becomes


def leads_to(m: Node, n: Node, read_by: Mapping[Node, Sequence[Node]], outputs: Set[Node]) -> bool:
    """Whether all that reads `m` are pointwise values at its own positions that `n` alone is made of."""
    stack, seen = [m], {m}
    while stack:
        x = stack.pop()
        if not read_by[x]:
            return False
        for reader in read_by[x]:
            if reader.op not in OPS or reader in outputs or any(a.node is x and not a.is_all(reader.shape) for a in reader.args):
                return False
            if reader is not n and reader not in seen:
                seen.add(reader)
                stack.append(reader)
        if len(seen) > MOST:
            return False
    return True


def readers(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """What reads each node."""
    found: dict[Node, list[Node]] = {n: [] for n in nodes}
    for n in nodes:
        for m in dict.fromkeys(a.node for a in n.args):
            found[m].append(n)
    return found
