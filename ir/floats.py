"""Writing float formulas as expressions: constants of one dtype, comparisons, bits, and pairs of floats that carry twice the precision.

A *pair* (h, l) stands for h + l with |l| ≤ ULP(h)/2; sums and products into pairs are exact (Knuth 1969, Dekker 1971, with fma for the product).
"""

from __future__ import annotations

from .dtypes import DType, bool_, f32, i32, i64, u32, u64
from .expr import FALSE, TRUE, Expr, call, const

Pair = tuple[Expr, Expr]


class Floats:
    """The arithmetic of one float dtype (f32 or f64) on expressions."""

    def __init__(self, d: DType) -> None:
        self.d = d
        self.single = d is f32
        self.integer = i32 if self.single else i64
        self.unsigned = u32 if self.single else u64
        self.mantissa = 23 if self.single else 52  # stored bits
        self.bias = 127 if self.single else 1023

    def c(self, value: float) -> Expr:
        return const(value, self.d)

    def pick(self, single: float, double: float) -> Expr:
        """The constant of this dtype."""
        return self.c(single if self.single else double)

    # ---- arithmetic

    def add(self, a: Expr, b: Expr) -> Expr:
        return call("add", a, b)

    def sub(self, a: Expr, b: Expr) -> Expr:
        return call("sub", a, b)

    def mul(self, a: Expr, b: Expr) -> Expr:
        return call("mul", a, b)

    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return call("fma", a, b, c)

    def neg(self, a: Expr) -> Expr:
        return call("neg", a)

    def div(self, a: Expr, b: Expr) -> Expr:
        return call("div", a, b)

    def abs(self, a: Expr) -> Expr:
        return call("abs", a)

    def horner(self, coefficients: tuple[float, ...], x: Expr) -> Expr:
        """Σ c_k x^k by fma from the highest degree down."""
        result = self.c(coefficients[-1])
        for k in coefficients[-2::-1]:
            result = self.fma(result, x, self.c(k))
        return result

    # ---- choices

    def where(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        return call("where", condition, a, b)

    def lt(self, a: Expr, b: Expr) -> Expr:
        return call("less_than", a, b)

    def is_zero(self, a: Expr) -> Expr:
        return call("equal", a, self.c(0.0))

    def odd(self, x: Expr, of_magnitude: Expr) -> Expr:
        """The result of an odd function at x from its value at |x|."""
        return self.where(self.lt(x, self.c(0.0)), self.neg(of_magnitude), of_magnitude)

    def small_or_zero(self, x: Expr) -> Expr:
        """x where |x| < 1, else (also for NaN) 0: a correction that is no number corrects nothing."""
        return self.where(self.lt(self.mul(x, x), self.c(1.0)), x, self.c(0.0))

    # ---- bits

    def power_of_two(self, n: Expr) -> Expr:
        """2^n for an integer-valued float n in [-126, 127] (f64: [-1022, 1023]), exactly."""
        exponent = call("add", call("cast", n, to=self.integer), const(self.bias, self.integer))
        return call("bitcast", call("shift_left", exponent, const(self.mantissa, self.integer)), to=self.d)

    # ---- pairs

    def fast_sum(self, a: Expr, b: Expr) -> Pair:
        """a + b exactly, for |a| ≥ |b|."""
        s = self.add(a, b)
        return s, self.sub(b, self.sub(s, a))

    def exact_sum(self, a: Expr, b: Expr) -> Pair:
        s = self.add(a, b)
        t = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, t)), self.sub(b, t))

    def exact_product(self, a: Expr, b: Expr) -> Pair:
        p = self.mul(a, b)
        return p, self.fma(a, b, self.neg(p))

    def pair_product(self, a: Pair, b: Pair) -> Pair:
        """Relative error below 2^-2p + …: the product of the two low parts is left out."""
        p, rest = self.exact_product(a[0], b[0])
        return self.fast_sum(p, self.fma(a[0], b[1], self.fma(a[1], b[0], rest)))

    def pair_sum(self, a: Pair, b: Pair) -> Pair:
        """For |a| ≥ |b|."""
        s, rest = self.fast_sum(a[0], b[0])
        return self.fast_sum(s, self.add(rest, self.add(a[1], b[1])))

    def split(self, value: str) -> Pair:
        """A real number, given by its digits, as a pair of constants of this dtype."""
        from fractions import Fraction

        exact = Fraction(value)
        high = self.nearest(float(exact))
        return self.c(high), self.c(self.nearest(float(exact - Fraction(high))))

    def nearest(self, value: float) -> float:
        """A Python float rounded to the dtype."""
        import struct

        return struct.unpack("<f", struct.pack("<f", value))[0] if self.single else value


def not_(x: Expr) -> Expr:
    return FALSE if x is TRUE else TRUE if x is FALSE else call("bit_xor", x, const(True, bool_))


def and_(a: Expr, b: Expr) -> Expr:
    return call("bit_and", a, b)


def or_(a: Expr, b: Expr) -> Expr:
    return call("bit_or", a, b)
