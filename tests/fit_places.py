"""How the table of `erf` in `runtimes/clang/helpers/erf.j2` is made: `python tests/fit_places.py` prints it.

erf x = erf c + r q(r) with r = x - c and c the nearest of sixteen places.  A place is the float near k / 3.93 at which erf is nearest to a float (Gal, "Computing elementary functions: a new approach for
achieving high accuracy and good performance", 1986), so that what is added last has no error of its own; around 0 it is x that is added, and q is that of erf x - x.  q has five terms, fitted by least squares
at Chebyshev's points of what lies nearest to the place, in units of the result; each is rounded before the next are fitted.
"""

from math import erf

import numpy as np

PLACES, SCALE, MOST, TERMS = 16, 3.93, 3.94, 5


def place(k):
    """The float c and erf c."""
    if k == 0:
        return 0.0, 0.0
    near = np.float32(k / SCALE)
    floats = [float(near + np.float32(d) * np.spacing(near)) for d in range(-3000, 3001)]
    c = min(floats, key=lambda x: abs(erf(x) - float(np.float32(erf(x)))) / float(np.spacing(np.float32(erf(x)))))
    return c, float(np.float32(erf(c)))


def terms(k, c, value):
    """The terms of q, lowest first."""
    low, high = max(0, (k - 0.5) / SCALE), min((k + 0.5) / SCALE, MOST)
    a = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    a = a[np.abs(a - c) > 1e-4]
    r, y = a - c, np.array([erf(v) for v in a])
    weight, wanted = np.abs(r) / y, (y - value) / r - (k == 0)
    found: list[float] = []
    for n in range(TERMS):
        powers = np.stack([weight * r**m for m in range(n, TERMS)], 1)
        rest = weight * (wanted - sum(t * r**m for m, t in enumerate(found)))
        found.append(float(np.float32(np.linalg.lstsq(powers, rest, rcond=None)[0][0])))
    return found


def table():
    """Rows of sixteen: the places, erf there, the terms of q from the lowest on."""
    columns = []
    for k in range(PLACES):
        c, value = place(k)
        columns.append([c, value, *terms(k, c, value)])
    return [list(row) for row in zip(*columns, strict=True)]


if __name__ == "__main__":
    for row in table():
        print(", ".join(f'"{np.float32(x)!s}f"' for x in row))
