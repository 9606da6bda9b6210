"""Has a system of linear integer inequalities a solution?  Gauss for the equations, Fourier-Motzkin for the rest.

A polynomial (`ir/polynomial.py`) is one inequality p >= 0 or one equation p = 0; its monomials are the unknowns.  Equations are solved for an unknown with the coefficient 1
or -1; one whose coefficients have a divisor that its constant has not is contradictory.  Of two inequalities with opposite signs of an unknown their
positive combination is left, tightened: g·q + c >= 0 says q + floor(c / g) >= 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final

from ...ir.polynomial import Monomial, Poly

MOST: Final = 120  # inequalities at a time; beyond, nothing is said

Row = list[int]  # the constant, then the coefficient of each unknown


def is_empty(equations: Iterable[Poly], inequalities: Iterable[Poly]) -> bool | None:
    """True where there is no solution in the integers, False where there is one in the rationals, None where that is too long to find out."""
    polys = [p for p in equations if p]
    least = list(inequalities)
    columns: dict[Monomial, int] = {(): 0}
    for p in [*polys, *least]:
        for m in p:
            if m not in columns:
                columns[m] = len(columns)
    equal = [_row(p, columns) for p in polys]
    system = [_row(p, columns) for p in least]
    while equal:
        row = equal.pop()
        factor = gcd(*row[1:])
        if factor == 0:
            if row[0]:
                return True
            continue
        if row[0] % factor:
            return True
        x = 0
        for k in range(1, len(row)):
            if row[k] == factor or row[k] == -factor:
                x = k
                break
        if x == 0:  # no unknown can be exchanged for the others
            system += [row, [-c for c in row]]
            continue
        equal = [_without(other, row, x) for other in equal]
        system = [_without(other, row, x) for other in system]
    return _eliminated(system)


def _row(p: Poly, columns: dict[Monomial, int]) -> Row:
    row = [0] * len(columns)
    for m, c in p.items():
        row[columns[m]] = c
    return row


def _without(row: Row, equation: Row, x: int) -> Row:
    """A row without the unknown x, by an equation whose coefficient of it divides all others'."""
    c = row[x]
    if c == 0:
        return row
    a = equation[x]
    # a positive multiple of the row, so that an inequality stays what it is
    return _combined(row, abs(a), equation, -c if a > 0 else c)


def _combined(a: Row, times: int, b: Row, more: int) -> Row:
    """times · a + more · b."""
    result: Row = []
    for k in range(len(a)):
        result.append(a[k] * times + b[k] * more)
    return result


def _eliminated(least: list[Row]) -> bool | None:
    system = _tightened(least)
    while system:
        width = len(system[0])
        x = best = 0
        for k in range(1, width):
            above = below = 0
            for row in system:
                if row[k] > 0:
                    above += 1
                elif row[k] < 0:
                    below += 1
            if above + below and (x == 0 or above * below < best):
                x, best = k, above * below
        rest = [row for row in system if row[x] == 0]
        if len(rest) + best > MOST:
            return None
        low = [row for row in system if row[x] > 0]
        high = [row for row in system if row[x] < 0]
        for a in low:
            for b in high:
                rest.append(_combined(a, -b[x], b, a[x]))
        system = _tightened(rest)
    return system is None


def _tightened(least: list[Row]) -> list[Row] | None:
    """Without what says nothing or less than another; None for a contradiction."""
    strongest: dict[tuple[int, ...], int] = {}
    for row in least:
        constant = row[0]
        factor = gcd(*row[1:])
        if factor == 0:
            if constant < 0:
                return None
            continue
        if factor > 1:
            constant //= factor
            key = tuple([c // factor for c in row[1:]])
        else:
            key = tuple(row[1:])
        known = strongest.get(key)
        if known is None or constant < known:
            strongest[key] = constant
    return [[constant, *key] for key, constant in strongest.items()]


__all__ = ["is_empty"]
