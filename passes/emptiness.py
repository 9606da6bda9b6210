"""Has a system of linear integer inequalities a solution?  Gauss for the equations, Fourier-Motzkin for the rest.

A polynomial (`ir/polynomial.py`) is one inequality p >= 0 or one equation p = 0; its monomials are the unknowns.  Equations are solved for an unknown with the coefficient 1
or -1; one whose coefficients have a divisor that its constant has not is contradictory.  Of two inequalities with opposite signs of an unknown their
positive combination is left, tightened: g·q + c >= 0 says q + floor(c / g) >= 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ..ir import polynomial as pl
from ..ir.polynomial import Monomial, Poly

MOST = 120  # inequalities at a time; beyond, nothing is said


def is_empty(equations: Iterable[Poly], inequalities: Iterable[Poly]) -> bool | None:
    """True where there is no solution in the integers, False where there is one in the rationals, None where that is too long to find out."""
    equal, least = [p for p in equations if p], list(inequalities)
    while equal:
        p = equal.pop()
        if not p:
            continue
        factor = pl.content(p)
        constant = p.get((), 0)
        if factor == 0 or constant % factor:
            return True
        m = next((m for m, c in p.items() if m and abs(c) == factor), None)
        if m is None:  # no unknown can be exchanged for the others
            least += [p, pl.scaled(p, -1)]
            continue
        equal = [_without(q, p, m) for q in equal]
        least = [_without(q, p, m) for q in least]
    return _eliminated(least)


def _without(q: Poly, p: Poly, m: Monomial) -> Poly:
    """q without the unknown m, by the equation p = 0 (its coefficient divides all others')."""
    c = q.get(m, 0)
    if not c:
        return q
    a = p[m]
    # a positive multiple of q, so that an inequality stays what it is
    return pl.plus(pl.scaled(q, abs(a)), p, -c if a > 0 else c)


def _eliminated(least: list[Poly]) -> bool | None:
    system = _tightened(least)
    while system is not None:
        unknowns: dict[Monomial, list[int]] = {}
        for p in system:
            for m, c in p.items():
                if m:
                    unknowns.setdefault(m, [0, 0])[c > 0] += 1
        if not unknowns:
            return False
        m = min(unknowns, key=lambda m: unknowns[m][0] * unknowns[m][1])
        low = [p for p in system if p.get(m, 0) > 0]
        high = [p for p in system if p.get(m, 0) < 0]
        rest = [p for p in system if not p.get(m, 0)]
        if len(rest) + len(low) * len(high) > MOST:
            return None
        system = _tightened([*rest, *(pl.plus(pl.scaled(a, -b[m]), b, a[m]) for a in low for b in high)])
    return True


def _tightened(least: Iterable[Poly]) -> list[Poly] | None:
    """Without what says nothing or less than another; None for a contradiction."""
    strongest: dict[tuple[tuple[Monomial, int], ...], int] = {}
    for p in least:
        terms = [(m, c) for m, c in p.items() if m and c]
        constant = p.get((), 0)
        if not terms:
            if constant < 0:
                return None
            continue
        factor = gcd(*(c for _, c in terms))
        key = tuple((m, c // factor) for m, c in sorted(terms, key=lambda t: pl.order(t[0])))
        constant //= factor
        strongest[key] = min(constant, strongest.get(key, constant))
    return [{**dict(key), (): c} if c else dict(key) for key, c in strongest.items()]


__all__ = ["is_empty"]
