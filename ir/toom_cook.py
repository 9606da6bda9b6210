"""Short filters by few multiplications: the bilinear algorithms of Toom and Cook, in exact rational arithmetic.

F(m, r) computes m neighbouring results of a filter of r taps,  y[i] = Σ_k d[i + k] · g[k],  with n = m + r - 1 multiplications instead of m · r:

    y = Aᵀ ((G g) ⊙ (Bᵀ d))

Where polynomials of r and of m coefficients are multiplied by their values at n points (one of them ∞), Lagrange's formula gives the product back; the transposition of that bilinear map is the
filter (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).  The points are 0, ±1, ±2, ±1/2, ∞: small ones, so that
numbers grow little.  Of each point's row, G has the denominator of Lagrange's polynomial, so that Bᵀ has small numbers without one.

`straight_line` shares what rows of a matrix have in common, so that a transform is a short sequence of sums.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))  # and ∞
MOST = len(POINTS) + 1  # points, and so multiplications


class Bilinear(NamedTuple):
    """y = outᵀ ((taps g) ⊙ (data d)): `out` is Aᵀ (m × n), `taps` is G (n × r), `data` is Bᵀ (n × n)."""

    out: Matrix
    taps: Matrix
    data: Matrix


@cache
def short_filter(m: int, r: int) -> Bilinear:
    """F(m, r).  ValueError where it would need more points than there are."""
    n = m + r - 1
    if m < 1 or r < 1 or n > MOST:
        raise ValueError(f"F({m}, {r}) takes {n} points; there are {MOST}")
    points = POINTS[: n - 1]
    data, taps = [], []
    for p in points:
        others = [q for q in points if q != p]
        data.append(_padded(_monic(others), n))
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        taps.append(tuple(p**k / scale for k in range(r)))
    data.append(_padded(_monic(points), n))
    taps.append(tuple(Fraction(int(k == r - 1)) for k in range(r)))
    out = tuple((*(p**i for p in points), Fraction(int(i == m - 1))) for i in range(m))
    return Bilinear(out, tuple(taps), tuple(data))


def _monic(roots: tuple[Fraction, ...] | list[Fraction]) -> list[Fraction]:
    """Coefficients, the constant first, of the product of x - root."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def _padded(row: list[Fraction], n: int) -> tuple[Fraction, ...]:
    return (*row, *[Fraction(0)] * (n - len(row)))


def growth(algorithm: Bilinear) -> Fraction:
    """‖Aᵀ‖ ‖G‖ ‖Bᵀ‖ in the largest row sum: by how much more than the terms of the filter itself the numbers on the way may be, at most."""
    product = Fraction(1)
    for matrix in algorithm:
        product *= max(sum(map(abs, row), Fraction(0)) for row in matrix)
    return product


class Step(NamedTuple):
    """One new value of a straight-line program: Σ coefficient · value, over earlier values by number; the operands come first."""

    terms: tuple[tuple[int, Fraction], ...]


def straight_line(matrix: Matrix) -> tuple[list[Step], list[Step]]:
    """A matrix times a vector as shared steps, and for each row what it is made of.

    The pair of operands that most rows hold in one ratio becomes a value of its own, until no two rows share one (Paar, 1997).
    """
    rows = [{k: c for k, c in enumerate(row) if c} for row in matrix]
    steps: list[Step] = []
    width = len(matrix[0])
    while True:
        uses: dict[tuple[int, int, Fraction], int] = {}
        for row in rows:
            terms = sorted(row.items())
            for k, (i, a) in enumerate(terms):
                for j, b in terms[k + 1 :]:
                    uses[i, j, b / a] = uses.get((i, j, b / a), 0) + 1
        best = max(uses, key=lambda pair: (uses[pair], -pair[0], -pair[1], -abs(pair[2]), pair[2]), default=None)
        if best is None or uses[best] < 2:
            return steps, [Step(tuple(sorted(row.items()))) for row in rows]
        i, j, ratio = best
        # neither coefficient a fraction: what is shared is scaled in each row
        scale = Fraction(ratio.denominator)
        new = width + len(steps)
        steps.append(Step(((i, scale), (j, ratio * scale))))
        for row in rows:
            if i in row and j in row and row[j] / row[i] == ratio:
                row[new] = row.pop(i) / scale
                del row[j]
