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
    system = _tightened({}, least)
    while system:
        x, best, one_sided = _cheapest(system)
        if one_sided:  # what such an unknown is in can be made to hold
            system = {key: constant for key, constant in system.items() if not _mentions(key, one_sided)}
            continue
        low: list[Row] = []
        high: list[Row] = []
        rest: dict[tuple[int, ...], int] = {}
        for key, constant in system.items():
            if key[x] > 0:
                low.append([constant, *key])
            elif key[x] < 0:
                high.append([constant, *key])
            else:
                rest[key] = constant
        if len(rest) + best > MOST:
            return None
        system = _tightened(rest, [_combined(a, -b[x + 1], b, a[x + 1]) for a in low for b in high])
    return system is None


def _cheapest(system: dict[tuple[int, ...], int]) -> tuple[int, int, list[int]]:
    """The unknown whose elimination makes the fewest inequalities, how many, and those that have one sign alone."""
    above: list[int] = []
    below: list[int] = []
    for key in system:
        if not above:
            above, below = [0] * len(key), [0] * len(key)
        for k, c in enumerate(key):
            if c > 0:
                above[k] += 1
            elif c < 0:
                below[k] += 1
    one_sided: list[int] = []
    x = best = -1
    for k, times in enumerate(above):
        made = times * below[k]
        if made == 0:
            if times or below[k]:
                one_sided.append(k)
        elif x < 0 or made < best:
            x, best = k, made
    return x, best, one_sided


def _mentions(key: tuple[int, ...], unknowns: list[int]) -> bool:
    for k in unknowns:  # noqa: SIM110 - a generator is dear in compiled code
        if key[k]:
            return True
    return False


def _tightened(strongest: dict[tuple[int, ...], int], rows: list[Row]) -> dict[tuple[int, ...], int] | None:
    """What is tight already, constants by the coefficients, and more, without what says nothing or less than another; None for a contradiction."""
    for row in rows:
        constant = row[0]
        factor = 0
        for k in range(1, len(row)):
            c = row[k]
            if c == 1 or c == -1:  # most rows have one
                factor = 1
                break
            if c:
                factor = gcd(factor, c)
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
    return strongest


__all__ = ["is_empty"]
