"""How the polynomials of `ir/coefficients.py` are made: `python tests/fit_coefficients.py > ir/coefficients.py` writes the file again.

Each function below is smooth on its interval.  It is sampled at Chebyshev nodes in longdouble (80 bits on x86), interpolated there in Newton's form on
Leja-ordered nodes, and brought to monomials about 0; interpolation at Chebyshev nodes is within a small factor of the best polynomial (Trefethen,
"Approximation Theory and Approximation Practice", 2013, theorem 15.1).  The degree is the smallest whose error, measured on 2001 points with the coefficients rounded to the
dtype, contributes less than 1/12 ULP to the function that uses it.
"""

from itertools import pairwise

import numpy as np

L = np.longdouble


def series(terms, x):
    return sum(t(n) * x**n for n, t in enumerate(terms))


def taylor(coefficient, z, count=60):
    """Σ coefficient(n) zⁿ by Horner's rule; every series here converges well inside its interval."""
    result = np.zeros_like(z)
    for n in range(count - 1, -1, -1):
        result = result * z + coefficient(n)
    return result


def factorials(count):
    result = [L(1)]
    for n in range(1, count):
        result.append(result[-1] * n)
    return result


def expm1_tail(r):
    """(e^r - 1 - r - r²/2) / r³ = Σ r^n / (n + 3)!"""
    factorial = factorials(70)
    return taylor(lambda n: 1 / factorial[n + 3], r, 40)


def atan_tail(z):
    """(atan t / t - 1) / z with z = t²."""
    return taylor(lambda n: L((-1) ** (n + 1)) / (2 * n + 3), z)


def asin_tail(z):
    """(asin x / x - 1) / z with z = x²: Σ (2n)! / (4^n n!² (2n + 1)) z^n, without its first term."""
    c = [L(1)]
    for n in range(1, 90):
        c.append(c[-1] * (2 * n - 1) / (2 * n))
    return taylor(lambda n: c[n + 1] / (2 * n + 3), z, 80)


def sinh_tail(z):
    """(sinh x / x - 1) / z with z = x²: Σ z^n / (2n + 3)!"""
    factorial = factorials(90)
    return taylor(lambda n: 1 / factorial[2 * n + 3], z, 40)


def tan_tail(z):
    """(tan r / r - 1) / z with z = r², as (sin r / r - cos r) / (z cos r): the first terms of both series cancel."""
    factorial = factorials(90)
    above = taylor(lambda n: (-1) ** n * (1 / factorial[2 * n + 2] - 1 / factorial[2 * n + 3]), z, 40)
    return above / taylor(lambda n: (-1) ** n / factorial[2 * n], z, 40)


def atanh_tail(w):
    """(atanh s / s - 1 - w/3) / w² with w = s²."""
    return taylor(lambda n: L(1) / (2 * n + 5), w)


def erf_tail(z):
    """erf x / x - 1 with z = x²."""
    two_over_root_pi = 1 / np.sqrt(np.arctan(L(1)))
    factorial = factorials(70)
    return taylor(lambda n: two_over_root_pi * (-1) ** n / (factorial[n] * (2 * n + 1)), z) - 1


def scaled_erfc(t):
    """e^(a²) erfc(a) with t = (a - 2) / (a + 2), by the continued fraction (Abramowitz & Stegun 7.1.14)."""
    a = 2 * (1 + t) / (1 - t)
    tail = a.copy()
    for n in range(2000, 0, -1):
        tail = a + L(n) / 2 / tail
    return 1 / (tail * 2 * np.sqrt(np.arctan(L(1))))


LOW = L("0.875")  # where erf goes from one form to the other


def place(a):
    return (L(a) - 2) / (L(a) + 2)


HALF_LN2 = np.log(L(2)) / 2
QUARTER_PI_SQUARE = np.arctan(L(1)) ** 2
# name: function, interval for f32 and f64, and how much of an error of the polynomial reaches the result, relative to the result
FITS = {
    "expm1": (expm1_tail, (-HALF_LN2, HALF_LN2), (-HALF_LN2, HALF_LN2), lambda r, v: np.abs(r * r)),
    "atan": (atan_tail, (L(0), L("0.1716")), (L(0), L("0.1716")), lambda z, v: z),
    "asin": (asin_tail, (L(0), L("0.25")), (L(0), L("0.25")), lambda z, v: z),
    "sinh": (sinh_tail, (L(0), L(1)), (L(0), L(1)), lambda z, v: z),
    "tan": (tan_tail, (L(0), QUARTER_PI_SQUARE), (L(0), QUARTER_PI_SQUARE), lambda z, v: z),
    "atanh": (atanh_tail, (L(0), L("0.02945")), (L(0), L("0.02945")), lambda w, v: w * w * 256),
    "erf": (erf_tail, (L(0), LOW * LOW), (L(0), LOW * LOW), lambda z, v: 1 / (1 + v)),
    "erfcx": (scaled_erfc, (place(LOW), place(4)), (place(LOW), place(6)), lambda t, v: np.exp(-((2 * (1 + t) / (1 - t)) ** 2))),
}


def interpolate(f, low, high, degree):
    """Monomial coefficients, lowest first, of the polynomial through f at the Chebyshev nodes of [low, high]."""
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos((2 * np.arange(degree + 1).astype(L) + 1) * (4 * np.arctan(L(1))) / (2 * degree + 2))
    order = [int(np.argmax(np.abs(nodes)))]
    while len(order) <= degree:
        distance = [-1.0 if k in order else float(np.sum(np.log(np.abs(nodes[k] - nodes[order])))) for k in range(degree + 1)]
        distance = [d if k not in order else -np.inf for k, d in enumerate(distance)]
        order.append(int(np.argmax(distance)))
    x = nodes[order]
    c = f(x)
    for k in range(1, degree + 1):
        c[k:] = (c[k:] - c[k - 1 : -1]) / (x[k:] - x[: degree + 1 - k])
    p = np.zeros(degree + 1, L)
    p[0] = c[degree]
    for k in range(degree - 1, -1, -1):
        p[1:] = p[:-1] - x[k] * p[1:]
        p[0] = c[k] - x[k] * p[0]
    return p


def fit(name, kind):
    f, single, double, reach = FITS[name]
    low, high = single if kind == "f32" else double
    points = np.linspace(low, high, 2001, dtype=L)
    exact = f(points)
    wanted = L(2) ** (-23 if kind == "f32" else -52) / 12
    for degree in range(1, 30):
        p = interpolate(f, low, high, degree).astype(np.float32 if kind == "f32" else np.float64)
        value = np.zeros_like(points)
        for c in p[::-1]:
            value = value * points + L(c)
        worst = np.max(np.abs(value - exact) * reach(points, exact))
        if worst < wanted:
            return p, float(worst / wanted)
    raise SystemExit(f"{name} {kind}: no degree is enough, {float(worst / wanted)}")


PIECES, FIRST, LAST = 32, L(2) ** -3, L("9.1")  # of tanh: the first below an eighth, then four for each power of two; above the last it is 1


def tanh_slope(at, d):
    """(tanh (at + d) - tanh at) / d, by the sum's formula: nothing cancels."""
    there = d == 0
    return np.where(there, 1, np.tanh(d) / np.where(there, 1, d)) * (1 - np.tanh(at) * np.tanh(at + d))


def tanh_pieces():
    """[place, terms 0 … 5], each for 32 pieces of [0, 9.1]: tanh (place + d) = Σ term n · dⁿ.  That of the first is 0, and its terms are odd, so that what is small stays right to its last bits; the places of the others are
    near the middle of their pieces, where tanh is almost a float: of a thousand floats the one that loses least."""
    rows = np.zeros((7, PIECES), np.float32)
    rows[2, 0] = 1
    rows[[4, 6], 0] = interpolate(lambda z: (np.tanh(np.sqrt(z)) / np.sqrt(z) - 1) / z, L(0), FIRST * FIRST, 1)
    edges = [FIRST * L(2) ** (k // 4) * (4 + k % 4) / 4 for k in range(PIECES)]
    for k, (low, high) in enumerate(pairwise(edges), 1):
        if low < LAST:
            near = np.float32((low + min(high, LAST)) / 2)
            places = (near.view(np.int32) + np.arange(1000, dtype=np.int32)).view(np.float32)
            lost = np.abs(np.tanh(places.astype(L)) - np.tanh(places.astype(L)).astype(np.float32)) / np.spacing(np.tanh(places))
            at = L(places[np.argmin(lost)])
            rows[:2, k] = at, np.tanh(at)
            rows[2:, k] = interpolate(lambda d, at=at: tanh_slope(at, d), low - at, min(high, LAST) - at, 4)
    return rows


LOG_PIECES = 32  # of [3/4, 3/2): sixteen for each power of two, at the edges between which the upper five bits of a mantissa change


def log_pieces():
    """The inverses of 32 places, the first half of those from 1 to 3/2, the second of those from 3/4 to 1, and minus their logarithms to the bases e and 2.  Around 1 the place is 1 and both logarithms are 0; of
    the others the inverse is the float near the middle whose logarithms lose least when they become floats (Gal 1986)."""
    rows = np.zeros((3, LOG_PIECES), np.float32)
    rows[0] = 1
    for k in range(1, LOG_PIECES - 1):
        middle = np.float32(2 / (2 + (2 * k + 1) / 32) * (2 if k >= LOG_PIECES // 2 else 1))
        inverses = (middle.view(np.int32) + np.arange(-6000, 6000, dtype=np.int32)).view(np.float32)
        both = [-np.log(inverses.astype(L)), -np.log2(inverses.astype(L))]
        lost = np.max([np.abs(v - v.astype(np.float32)) / np.spacing(np.abs(v.astype(np.float32))) for v in both], axis=0)
        at = np.argmin(lost)
        rows[:, k] = inverses[at], both[0][at], both[1][at]
    return rows


def log_terms():
    """q in log(1 + r) = r + r² q(r), and in log2(1 + r) = r c + r² q(r) with c = 1 / ln 2 rounded, for r of the places around 1: three terms, fitted by least squares at Chebyshev's points in units of the
    result; each is rounded before the next are fitted."""
    low, high = -1 / 60, 1 / 31.9
    r = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(4000) + 0.5) / 4000)
    r = r[np.abs(r) > 1e-5]
    rows = []
    for scale in (1, 1 / np.log(2)):
        wanted = (np.log1p(r) * scale - r * float(np.float32(scale))) / (r * r)
        found: list[float] = []
        for n in range(3):
            powers = np.stack([np.abs(r) * r**m for m in range(n, 3)], 1)
            rest = np.abs(r) * (wanted - sum(t * r**m for m, t in enumerate(found)))
            found.append(float(np.float32(np.linalg.lstsq(powers, rest, rcond=None)[0][0])))
        rows.append(found)
    return rows


TABLES = (
    (("tanh_at", *(f"tanh_{n}" for n in range(6))), tanh_pieces),
    (("log_inverse", "log_at", "log2_at"), log_pieces),
    (("log_near", "log2_near"), log_terms),
)


def main():
    print('"""Coefficients of the polynomials of `ir/transcendental.py` and of the runtimes\' vector functions, lowest degree first.')
    print()
    print("Written by tests/fit_coefficients.py, which defines the functions and says how they are fitted.")
    print('"""')
    print()
    print("# fmt: off")
    print("COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {")
    for name in FITS:
        print(f'    "{name}": {{')
        for kind in ("f32", "f64"):
            p, _ = fit(name, kind)
            print(f'        "{kind}": (')
            for at in range(0, len(p), 4):
                print("            " + " ".join(f"{float(c)!r}," for c in p[at : at + 4]))
            print("        ),")
        print("    },")
    for names, rows in TABLES:
        for name, row in zip(names, rows(), strict=True):
            print(f'    "{name}": {{\n        "f32": (')
            for at in range(0, len(row), 4):
                print("            " + " ".join(f"{float(c)!r}," for c in row[at : at + 4]))
            print("        ),\n    },")
    print("}")
    print("# fmt: on")


if __name__ == "__main__":
    main()
