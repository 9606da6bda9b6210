"""Sums of products under a choice, in a tile of a cascade: multiplied without it, and looked at.

    for e:                                                 for e:
      for p: s += where(c[p], a[p] · b[p, e], 0)             for p: s += a[p] · b[p, e]                            a is 0 wherever c does not hold (`masked_factors.py`)
      …                                             →        if s · 0 ≠ 0:                                         an infinity or NaN
                                                               for p: again += where(c[p], a[p] · b[p, e], 0)
                                                               s = again
                                                             …

A sum that is finite holds no 0 · ∞ and no 0 · NaN: what the choice would have left out was zeros.  One that is not is taken again, product by product.  So the product is that of any contraction, in
register tiles, and an infinity that nobody adds up does not show; whether all sums of a register tile are finite is asked at once (the step `once`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import ZERO, call, const, load, minimum
from ...ir.kernel import If
from ...ir.simplify import simplify
from ...ir.walks import leaves
from ..walk import Walk

if TYPE_CHECKING:
    from .nest_body import Point
    from .nest_cascade import CascadeLoops


def unless_finite(c: CascadeLoops, part: str, k: int, further: Point, start: Point) -> Walk:
    """Take the sum of this tile that state k adds again, if it is not finite."""
    from .nest_body import REDUCED_AXES

    body, inside, state = c.body, c.body.current, c.states[k]
    found, zero = load(part, state.dtype), const(0.0, state.dtype)
    branch = body.branch(inside.known)
    again = body.accumulator(branch, state.dtype, state.attr.combiner)
    inner = body.enter(c.length, "reduce", REDUCED_AXES, c.begin)
    # rows of a block go together as far as one of them wants: what this row wants is asked of each position
    last = simplify(minimum(const(c.tile), c.extents[-1] - start[-1]) - 1, branch.known)
    body.current.known = branch.known.with_ranges({v.attr: (ZERO, last, 1) for v in leaves(inner, "var")})
    along = c.seed(start, inner, False)
    body.store(again, (), (yield body._read(state.args[0], (*c.at(k, further), *start[:-1], along), None)), state.attr.combiner)
    body.leave(branch)
    body.store(part, (), load(again, state.dtype))
    inside.body.append(If(call("not_equal", call("mul", found, zero), zero), tuple(branch.body)))
    body.forget(inside, frozenset())
