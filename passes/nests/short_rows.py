"""Rows that are short enough for a table: the reductions of a cascade run one after the other there, and what the row's results share with them is computed once.

    for i:                                 for i:
      … the cascade over tiles …             if N <= 8192:
      for j:                                   m = max over p of X[i, p]
        Y[i, j] = exp(X[i, j] - m) / l   →     l = Σ over q of exp(X[i, q] - m)
                                               for j: Y[i, j] = exp(X[i, j] - m) / l
                                             else:
                                               … the cascade over tiles …
                                               for j: Y[i, j] = exp(X[i, j] - m) / l

One pass over a row pays where the row leaves the caches; in them, a second evaluation of an exponential costs more than reading again.  That the shared value
then goes to a table is the business of the schedule (`schedule/tables.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ...ir.expr import Expr, const
from ...ir.graph import Node, View, identity, make, with_operands
from ...ir.kernel import Block, If, Loop, nested
from ...ir.primops import OPS
from ...ir.renaming import Names, defined, unique_locals
from ..cascades.separate import unguarded
from ..costs import IN_CACHE, TABLE, operation
from ..walk import Walk, run


def without_cascades(node: Node, in_memory: Container[Node]) -> Node:
    """The node with each state of a cascade a reduction by itself again, as far as what is in memory."""
    done: dict[Node, Node] = {}
    stack = [node]
    while stack:
        n = stack[-1]
        if n in done or (n in in_memory and n is not node):
            done[n] = done.get(n, n)
            stack.pop()
            continue
        source = [n.args[n.attr.result].node] if n.op == "cascade" else [a.node for a in n.args]
        waiting = [m for m in source if m not in done]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if n.op == "cascade":
            done[n] = done[source[0]]
        else:
            done[n] = with_operands(n, done)
        if n.op == "cast" and n.args[0].node.op == "cascade" and n.dtype.is_float:  # states are f32 where they were smaller floats
            done[n] = run(_narrowed(done[n], {}))
        extreme = unguarded(identity(done[n]))
        if extreme.is_all(n.shape) and extreme.node.op == "reduce":  # a guard for extremes of a part of the row
            done[n] = extreme.node
    return done[node]


def _narrowed(node: Node, done: dict[Node, Node]) -> Walk:
    """A cast of a widened reduction as the reduction of what was not widened; where that is nothing, the cast itself."""
    small, wide = node.dtype, node.args[0].node

    def walk(n: Node) -> Walk:
        if n.dtype is not wide.dtype:
            return n
        if n not in done:
            if n.op == "cast" and n.args[0].dtype is small and n.args[0].is_all(n.shape):
                done[n] = n.args[0].node
            elif n.op in OPS or n.op == "reduce":
                args = []
                for a in n.args:
                    args.append(View((yield walk(a.node)), a.index, a.domain, a.fill))
                done[n] = make(n.op, small, n.shape, tuple(args), n.attr, n.span)
            else:
                done[n] = make("cast", small, n.shape, (identity(n),))
        return done[n]

    return (yield walk(wide)) if node.args[0].is_identity and wide.op == "reduce" and wide.shape == node.shape else node


def short_row(node: Node, plain: Node, rows: int) -> Expr | None:
    """The condition under which `plain` (the node without cascades) is computed by a table, its first axes being the rows; None where none would be of use.

    A table is of use where a reduction over the node's one other axis, of a value at the same position along it, shares something dear with the node itself.
    """
    if node.rank != rows + 1:
        return None
    shared = _pointwise(plain)
    for n in shared:
        for a in n.args:
            r = a.node
            if r.op != "reduce" or len(r.attr.extents) != 1 or r.attr.extents[0] is not node.shape[-1] or r.shape != node.shape[:-1]:
                continue
            inside = [m for m in _pointwise(r.args[0].node) if m in shared] if r.args[0].is_identity else []
            if any(operation(m.op) > 3 * IN_CACHE for m in inside):
                widest = max(4, *(m.dtype.bytes for m in inside))  # smaller floats are computed as f32
                return node.shape[-1].le(const(TABLE // widest))
    return None


def _pointwise(node: Node) -> dict[Node, None]:
    """The node and what it is made of at its own position."""
    found: dict[Node, None] = {}
    stack = [node]
    while stack:
        n = stack.pop()
        if n in found or n.op not in OPS or n.shape != node.shape:
            continue
        found[n] = None
        stack += [a.node for a in n.args if a.is_identity]
    return found


def either(condition: Expr, short: Block, long: Block, taken: Iterable[str]) -> Block:
    """One nest of two, with the condition inside the loops that both have around everything."""
    loops: list[Loop] = []
    while len(short) == len(long) == 1 and isinstance(a := short[0], Loop) and isinstance(b := long[0], Loop) and a.axis == b.axis:
        loops.append(a)
        short, long = a.body, b.body
    names = Names((*taken, *(x.axis for x in loops), *defined(long)))  # the rows' loops keep their names
    return nested(loops, (If(condition, unique_locals(short, names.fresh), long),))
