"""How an operand lies along an axis where it does not move by one element at a time: in pieces of it (x // 2), kept from an end (min(x, S - 1)), or some elements apart."""

from __future__ import annotations

from ....ir.bounds import Known
from ....ir.expr import Expr, var
from ....ir.kernel import Loop
from ....ir.primops import OPS
from ....ir.simplify import simplify
from ....ir.walks import postorder, rewrite, substitute
from .. import roles
from ..affine import minus, stride, taken_apart

APART = 16  # elements: each lane that is gathered brings a line that the next ones want too, or one that is nobody else's


def in_pieces(address: Expr, axis: str, width: int) -> bool:
    """Whether vectors along an axis find an operand beside each other though it moves by pieces of them, as x // 2 does."""
    if not taken_apart(address, axis):
        return False
    known = Known({})
    lanes = (simplify(substitute(address, {var(axis): var(axis) * width + k}), known) for k in range(width))
    first = next(lanes)
    return all(minus(e, first).is_const for e in lanes)


def bare(address: Expr, axis: str) -> Expr:
    """An address whose positions along the axis are not kept from running over an end, `min(e, S - 1)`."""

    def rule(n: Expr) -> Expr | None:
        moving = [a for a in n.args if axis in a.names]
        return moving[0] if n.op == "min" and len(moving) == 1 else None

    return rewrite(address, rule)


def some_apart(address: Expr, axis: str) -> bool:
    """Whether neighbours along an axis are one to `APART` elements from each other, whatever the sizes: in the same few lines of memory."""
    step = stride(address, axis)
    return step is not None and 1 <= abs(step) <= APART


def gathered(loop: Loop, addresses: list[Expr]) -> bool:
    """Whether a reduction is worth vectors though some operands are gathered: others are consecutive, and what is done with the elements is more than to add them up."""
    work = sum(
        n.op in OPS for s in loop.body for e in s.expressions() for n in postorder(e) if n.op not in ("add", "mul", "sub") and not n.is_position
    )
    return work > 0 and roles.units(addresses, loop.axis) > 0 and all(stride(a, loop.axis) is not None for a in addresses)
