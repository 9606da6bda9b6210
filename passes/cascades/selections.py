"""Reductions of what stands where an extreme is: the position of a maximum, a value there, how many there are.

    m = min_p s                                    m = min_p s
    i = min_p (p where s = m, else ∞)      →       i = min_p (p where s = m, else ∞)          ∞ again when m moves

While the axis is worked off, elements that were the extreme of what was seen so far are not when a further one is found; then the reduction starts again.  Elements that are NaN make the
extreme NaN for good, so they may count beside it, as they do in argmax.
"""

from __future__ import annotations

from ...ir.expr import axis
from ...ir.graph import Node, Shape, View, const_node, elementwise, identity, previous_node, scalar
from ...ir.record import record
from ..rules.pattern import same_view
from .separate import Axes, Body, moves


@record
class Selection:
    """A reduction of `where(x = extreme, …, fill)`."""

    extreme: View  # over the kept axes
    fill: Node  # of rank 0

    def corrections(self, rows: Shape, places: tuple[int, ...], combined: Node) -> tuple[Node, Node]:
        """(factor, addition): 1 and 0 while the extreme stays where it is, else 0 and the fill."""
        now = self.extreme.through({axis(a): axis(j) for j, a in enumerate(places)})
        last = View(previous_node(now.node), now.index)
        same = elementwise("equal", rows, last, now)
        if last.dtype.is_float:
            same = elementwise("bit_or", rows, identity(same), identity(elementwise("isnan", rows, last)))
        d = combined.dtype
        one, zero = (scalar(const_node(float(v) if d.is_float else v, d)) for v in (1, 0))
        factor = elementwise("where", rows, identity(same), one, zero)
        return factor, zero.node if _is_zero(self.fill) else elementwise("where", rows, identity(same), zero, scalar(self.fill))


def _is_zero(n: Node) -> bool:
    return n.op == "const" and n.attr.value == 0


def selection(n: Node, earlier: Node, varying: Axes) -> Selection | None:
    """What a reduction (over the `varying` axes) selects by, if that is all that it does with the earlier reduction.  A product with a selection of 0 is one."""
    body = n.args[0]
    product = n.attr.combiner == "add" and body.node.op == "mul" and body.domain is None
    if product and Body(frozenset({earlier})).has_r(body.node):
        factors = body.operands
        mixed = [a for a in factors if Body(frozenset({earlier})).has_r(a.node)]
        body = mixed[0] if len(mixed) == 1 else body
    node = body.node
    if body.domain is not None or node.op != "where" or any(a.domain is not None for a in node.args):
        return None
    condition, _, fill = body.operands
    if fill.node.rank or fill.node.op not in ("const", "iota") or (product and not _is_zero(fill.node)):
        return None
    tests = [condition]
    while any(t.node.op == "bit_or" for t in tests):
        k = next(k for k, t in enumerate(tests) if t.node.op == "bit_or")
        tests[k : k + 1] = tests[k].operands
    if any(t.domain is not None for t in tests):
        return None
    operands = [(t.node.op, t.operands) for t in tests]
    equal = [args for op, args in operands if op == "equal"]
    if len(equal) != 1:
        return None
    x, extreme = equal[0] if moves(equal[0][0], varying) else reversed(equal[0])
    r = extreme.node
    if moves(extreme, varying) or extreme.domain is not None or r.op != "reduce" or r.attr.combiner not in ("max", "min"):
        return None
    along = extreme.places | {axis(r.rank + k): axis(n.rank + k) for k in range(len(n.attr.extents))}
    if not same_view(r.args[0].through(along), x):
        return None
    if not all(op == "equal" or (op == "isnan" and same_view(args[0], x)) for op, args in operands):
        return None
    return Selection(extreme, fill.node)
