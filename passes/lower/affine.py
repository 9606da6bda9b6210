"""How an address depends on a loop variable, read off its polynomial."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import polynomial as pl
from ...ir.expr import Expr, const


def slope(e: Expr, v: Expr, varies: Callable[[Expr], bool]) -> Expr | None:
    """What `e` grows by when the variable `v` grows by 1, where that is the same everywhere; None otherwise.

    `varies` says of an atom whether it holds `v` (or anything else that differs between the lanes).
    """
    result: dict[pl.Monomial, int] = {}
    for m, c in pl.poly(e).items():
        moving = [f for f in m if varies(f)]
        if not moving:
            continue
        if moving != [v]:
            return None
        result[tuple(f for f in m if f is not v)] = c
    return pl.expr(result)


def divide(e: Expr, divisor: int) -> Expr | None:
    """e / divisor where every term is a multiple of it; None otherwise."""
    terms = pl.poly(e)
    if any(c % divisor for c in terms.values()):
        return None
    return pl.expr({m: c // divisor for m, c in terms.items()})


def difference(a: Expr, b: Expr) -> Expr:
    """a - b with equal terms cancelled."""
    if a.is_const and b.is_const:
        return const(a.attr - b.attr)
    return pl.expr(pl.plus(pl.poly(a), pl.poly(b), -1))
