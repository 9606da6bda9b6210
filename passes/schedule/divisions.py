"""Positions along an axis that are divided by a size: how often, and whether its extent is a multiple of it."""

from __future__ import annotations

from ...ir import polynomial as pl
from ...ir.bounds import Known
from ...ir.expr import ZERO, Expr, var
from ...ir.kernel import Loop, statements
from ...ir.simplify import prove_le, simplify
from ...ir.walks import postorder


def pieces(loop: Loop, known: Known) -> tuple[Expr, Expr] | None:
    """Into how many pieces, and how long, the positions along a loop from 0 are divided, the shortest ones first; None where they are not, or where the last piece would be shorter."""
    x = var(loop.axis)
    nodes = postorder(*(e for s in statements(loop.body) for e in s.expressions() if loop.axis in e.names))
    divisors = dict.fromkeys(n.args[1] for n in nodes if n.op in ("floordiv", "mod") and n.args[0] is x)
    sizes = [d for d in divisors if d is not ZERO and _of_sizes(d, known)]
    found = [(count, d) for d in sizes if (count := _quotient(loop.stop, d, known)) is not None]
    # those of longer ones are pieces of what is left
    return min(found, key=lambda pair: (len(postorder(pair[1])), pair[1].attr if pair[1].is_const else 0), default=None)


def _of_sizes(divisor: Expr, known: Known) -> bool:
    """Whether a divisor is a length that sizes decide: a product of them, or a sum, as the places of a window along an image, that is known not to be negative."""
    kinds = {n.op for n in postorder(divisor)}
    return kinds <= {"size", "const", "mul", "floordiv"} or (
        kinds <= {"size", "const", "mul", "floordiv", "add", "sub"} and prove_le(ZERO, divisor, known)
    )


def _quotient(length: Expr, divisor: Expr, known: Known) -> Expr | None:
    """How often a divisor goes into a length, where it does exactly."""
    whole, rest = pl.divided(pl.poly(length), pl.poly(divisor))
    if not rest:
        return pl.expr(whole)
    if divisor.op == "floordiv" and divisor.args[1].is_const and known.multiple(pl.poly(divisor.args[0])) % divisor.args[1].attr == 0:
        whole, rest = pl.divided(pl.poly(length), pl.poly(divisor.args[0]))
        if not rest:
            return simplify(pl.expr(whole) * divisor.args[1], known)
    return None
