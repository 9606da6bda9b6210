"""Scores: values that are reductions themselves and are read row by row by others, along one of their axes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from ...ir.expr import ONE, axis
from ...ir.graph import Node, View
from ...ir.primops import OPS
from ...ir.walks import leaves
from ..reading import reads_of

Key = tuple[Node, tuple[int, ...]]  # scores, and which of their axes is reduced


def pointwise_reads(n: Node) -> Iterable[View]:
    """What the body of a reduction reads: every view, over the domain of the body, that is no pointwise operator."""
    return reads_of(n.args[0])


def scores_of(n: Node) -> dict[Key, tuple[int, ...]]:
    """The scores that a reduction over one axis reads, each with the axes of `n` at which its rows are read; nothing where some are read otherwise than row by row."""
    if len(n.attr.extents) != 1 or not n.dtype.is_float or complex_scores(n):
        return {}
    found: dict[Key, tuple[int, ...]] = {}
    along = axis(n.rank)
    for view in pointwise_reads(n):
        if view.node.op != "reduce" or along not in view.index:
            continue
        domain = n.shape + n.attr.extents
        plain = all(e.op == "axis" for e in view.index) and len(set(view.index)) == len(view.index)
        if not plain or any(
            domain[e.attr] is not m for e, m in zip(view.index, view.node.shape, strict=True) if e is along or view.domain is not None
        ):
            return {}
        at = view.index.index(along)
        found[view.node, (at,)] = tuple(e.attr for e in view.index if e is not along)
    most = frozenset(max(found.values(), key=len, default=()))
    if any(not most.issuperset(rows) for rows in found.values()):
        return {}
    return {key: rows for key, rows in found.items() if most == frozenset(rows)}  # what fewer rows read along the axis is a vector as any other


def complex_scores(n: Node) -> bool:
    """Whether a reduction reads products of complex numbers row by row: by itself alone such a product is one of real numbers, of twice the rows and columns, with all that is known of these."""
    return any(v.node.op == "reduce" and v.node.dtype.is_complex and axis(n.rank) in v.index and spread(v.node) for v in pointwise_reads(n))


def spread(score: Node) -> bool:
    """Whether each operand misses some axis of the scores: then they are a product, of more elements than its factors may have; else a statistic of rows, which is less than they are."""
    axes = {axis(k) for k, e in enumerate(score.shape) if e is not ONE}
    operands = [v for v in pointwise_reads(score) if v.node.op not in ("const", "iota")]
    return all(not axes <= {a for e in v.index for a in leaves(e, "axis")} for v in operands)


def private(score: Node, readers: Container[Node], used: Mapping[Node, list[tuple[Node, int]]], outputs: Container[Node]) -> bool:
    """Whether a value is read, through pointwise operators, by these alone."""
    stack, seen = [score], set()
    while stack:
        m = stack.pop()
        if m in outputs:
            return False
        for user, _ in used[m]:
            if user in seen or user in readers:
                continue
            seen.add(user)
            if user.op not in OPS:
                return False
            stack.append(user)
    return True


def leaves_out(n: Node) -> bool:
    """Whether what is reduced is masked by positions, so that there may be tiles of nothing else."""
    stack, seen = [n.args[0].node], set[Node]()
    while stack:
        m = stack.pop()
        if m not in seen and m.op in OPS:
            seen.add(m)
            stack += [a.node for a in m.args]
            if any(a.domain is not None for a in m.args):
                return True
            if m.op == "where" and m.args[0].node.rank and all(v.node.op in ("const", "iota") for v in reads_of(m.args[0])):
                return True
    return False
