"""The functions that are approximated, for f32 and f64, over primops and the exact derived operators.

Errors are counted in ULP of the result, for primops as bad as their rows in `primops.OPS` allow; the row of each function here holds what follows from that.
Polynomials are in `ir/coefficients.py`.  NaN goes through by arithmetic; what is special is said in each docstring.
"""

from __future__ import annotations

from .coefficients import COEFFICIENTS
from .dtypes import DType
from .expr import Expr, call, const
from .floats import Floats, Pair, and_, not_, or_

# 40 digits each
LN2 = "0.6931471805599453094172321214581765680755"
LOG2E = "1.4426950408889634073599246810018921374266"
PI = "3.1415926535897932384626433832795028841972"
HALF_PI = "1.5707963267948966192313216916397514420986"
QUARTER_PI = "0.7853981633974483096156608458198757210493"
TAN_PI_8, TAN_3PI_8 = 0.41421356237309503, 2.414213562373095


# ---- exp


def exp(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    power, double = _exp(f, x)
    return f.mul(power, double)


def _exp(f: Floats, x: Expr) -> tuple[Expr, Expr]:
    """e^x as p·s, s = 1 or 2.

    x·log2(e) is a pair (h, l), and 2^(h + l) = 2^h + 2^h·l·ln 2; as a bare exp2(x · log2 e) the rounding of the product alone costs 59 ULP near
    the end of f32's range.  Where h is large, exp2 of h - 1 is taken: h itself may round up to where exp2 is infinite and e^x is not yet.
    """
    high, low = f.split(LOG2E)
    h = f.mul(x, high)
    rest = f.fma(x, low, f.fma(x, high, f.neg(h)))
    big = f.lt(f.pick(64.0, 512.0), h)
    p = call("exp2", f.where(big, f.sub(h, f.c(1.0)), h))
    return _corrected(f, p, rest), f.where(big, f.c(2.0), f.c(1.0))


def _corrected(f: Floats, p: Expr, rest: Expr) -> Expr:
    """p·2^rest for a small `rest`; infinity stays."""
    more = f.small_or_zero(f.mul(rest, f.split(LN2)[0]))
    return f.where(f.lt(p, f.c(float("inf"))), f.fma(p, more, p), p)


def _half_exp(f: Floats, x: Expr) -> Expr:
    """e^x / 2, finite up to one doubling beyond e^x."""
    p, s = _exp(f, x)
    return f.mul(p, f.mul(s, f.c(0.5)))


def expm1(d: DType, x: Expr) -> Expr:
    """x = n·ln 2 + r, |r| ≤ ln 2 / 2: e^x - 1 = 2^n·(e^r - 1) + (2^n - 1), the first by a polynomial; far out it is e^x."""
    f = Floats(d)
    near = f.pick(40.0, 80.0)
    # outside [-40, 40] the result is e^x or -1; there n only has to be harmless
    inside = f.where(f.lt(f.abs(x), near), x, f.where(f.lt(x, f.c(0.0)), f.neg(near), f.c(0.0)))
    result = _expm1_near(f, inside)
    return f.where(f.lt(x, near), f.where(f.is_zero(x), x, result), exp(d, x))


def _expm1_near(f: Floats, x: Expr) -> Expr:
    n = call("round", f.mul(x, f.split(LOG2E)[0]))
    high, low = f.split(LN2)
    # fma makes the first difference exact but for one rounding, which the second pair of constants does not reach
    r0 = f.fma(f.neg(n), high, x)
    r, rest = f.fast_sum(r0, f.mul(f.neg(n), low))
    square = f.mul(r, r)
    tail = f.fma(r, f.horner(COEFFICIENTS["expm1"][f.d.name], r), f.c(0.5))
    small = f.add(r, f.fma(square, tail, rest))
    s = f.power_of_two(n)
    return f.fma(s, small, f.sub(s, f.c(1.0)))


def sinh(d: DType, x: Expr) -> Expr:
    """Below 1 by t = e^|x| - 1: (t + t / (t + 1)) / 2; above by h = e^|x| / 2: h - 1 / (4h), which overflows where sinh does."""
    f = Floats(d)
    a = f.abs(x)
    t = _expm1_near(f, call("min", a, f.c(1.0)))
    small = f.mul(f.add(t, f.div(t, f.add(t, f.c(1.0)))), f.c(0.5))
    h = _half_exp(f, a)
    large = f.sub(h, f.div(f.c(0.25), h))
    return f.where(f.is_zero(x), x, f.odd(x, f.where(f.lt(a, f.c(1.0)), small, large)))


def cosh(d: DType, x: Expr) -> Expr:
    """h + 1 / (4h) with h = e^|x| / 2."""
    f = Floats(d)
    h = _half_exp(f, f.abs(x))
    return f.add(h, f.div(f.c(0.25), h))


def tanh(d: DType, x: Expr) -> Expr:
    """t / (t + 2) with t = e^(2|x|) - 1; 1 from where it rounds to 1."""
    f = Floats(d)
    a = call("min", f.abs(x), f.pick(10.0, 20.0))
    t = _expm1_near(f, f.add(a, a))
    return f.where(f.is_zero(x), x, f.odd(x, f.div(t, f.add(t, f.c(2.0)))))


# ---- log


def log(d: DType, x: Expr) -> Expr:
    """log2(x)·ln 2 with ln 2 in two parts; infinities and zero by way of log2."""
    f = Floats(d)
    return _times_ln2(f, call("log2", x))


def _times_ln2(f: Floats, x: Expr) -> Expr:
    high, low = f.split(LN2)
    return f.fma(x, high, f.small_or_zero(f.mul(x, low)))


def log1p(d: DType, x: Expr) -> Expr:
    """log(u) + c / u with u = 1 + x rounded and c what the rounding lost."""
    f = Floats(d)
    u, lost = f.exact_sum(f.c(1.0), x)
    corrected = f.add(log(d, u), f.small_or_zero(f.div(lost, u)))
    return f.where(call("equal", u, f.c(1.0)), x, corrected)


def asinh(d: DType, x: Expr) -> Expr:
    """log1p(a + a² / (1 + √(a² + 1))) with a = |x|; (log2(a) + 1)·ln 2 where a² is all that counts."""
    f = Floats(d)
    a = f.abs(x)
    square = f.mul(a, a)
    near = log1p(d, f.add(a, f.div(square, f.add(f.c(1.0), call("sqrt", f.add(square, f.c(1.0)))))))
    return f.where(f.is_zero(x), x, f.odd(x, f.where(f.lt(a, _square_counts(f)), near, _log_of_double(f, a))))


def acosh(d: DType, x: Expr) -> Expr:
    """log1p(t + √(t·(t + 2))) with t = x - 1; NaN below 1."""
    f = Floats(d)
    t = f.sub(x, f.c(1.0))
    near = log1p(d, f.add(t, call("sqrt", f.mul(t, f.add(t, f.c(2.0))))))
    result = f.where(f.lt(x, _square_counts(f)), near, _log_of_double(f, x))
    return f.where(f.lt(x, f.c(1.0)), f.c(float("nan")), result)


def _square_counts(f: Floats) -> Expr:
    """From here on √(x² ± 1) is x."""
    return f.pick(2.0**13, 2.0**28)


def _log_of_double(f: Floats, x: Expr) -> Expr:
    return _times_ln2(f, f.add(call("log2", x), f.c(1.0)))


def atanh(d: DType, x: Expr) -> Expr:
    """log1p(2a / (1 - a)) / 2 with a = |x|; infinite at 1, NaN beyond."""
    f = Floats(d)
    a = f.abs(x)
    half = f.mul(log1p(d, f.div(f.add(a, a), f.sub(f.c(1.0), a))), f.c(0.5))
    return f.where(f.is_zero(x), x, f.odd(x, half))


# ---- pow


def power(d: DType, x: Expr, y: Expr) -> Expr:
    """2^(y·log2|x|) with log2 and the product as pairs, and C's special cases (C17, F.10.4.4).

    The sign is that of x where y is an odd integer; a finite x < 0 to a y that is no integer is NaN; x^0 and 1^y are 1, whatever the other is.
    """
    f = Floats(d)
    one, zero = f.c(1.0), f.c(0.0)
    a = f.abs(x)
    finite = and_(f.lt(zero, a), f.lt(a, f.c(float("inf"))))
    high, low = _log2_pair(f, f.where(finite, a, one))
    # log2 knows zero, infinity and NaN
    high = f.where(finite, high, call("log2", a))
    p = f.mul(y, high)
    rest = f.fma(y, low, f.fma(y, high, f.neg(p)))
    big = f.lt(f.pick(64.0, 512.0), p)
    e = call("exp2", f.where(big, f.sub(p, one), p))
    size = f.mul(_corrected(f, e, rest), f.where(big, f.c(2.0), one))
    half = f.mul(y, f.c(0.5))
    whole = call("equal", call("round", y), y)
    odd = and_(whole, not_(call("equal", call("round", half), half)))
    negative = or_(f.lt(x, zero), and_(f.is_zero(x), f.lt(call("recip", x), zero)))
    signed = f.where(and_(negative, odd), f.neg(size), size)
    undefined = and_(and_(f.lt(x, zero), finite), not_(whole))
    # an unordered y is not to become NaN through `undefined`: 1^NaN is 1 all the same
    result = f.where(undefined, f.c(float("nan")), signed)
    endless = and_(call("equal", a, one), call("isinf", y))
    return f.where(or_(or_(f.is_zero(y), call("equal", x, one)), endless), one, result)


def _log2_pair(f: Floats, x: Expr) -> Pair:
    """log2 of a positive finite x to about 2^-(p + 9) of its value.

    x = 2^k·m with m in [√½, √2); log m = 2 atanh(s), s = (m - 1) / (m + 1) as a pair; s and s³/3 are carried as pairs, the rest of the series is a
    polynomial in s².
    """
    tiny = f.pick(2.0**-126, 2.0**-1022)
    lift = 64
    subnormal = f.lt(x, tiny)
    scaled = f.where(subnormal, f.mul(x, f.c(2.0**lift)), x)
    bits = call("bitcast", scaled, to=f.integer)
    root_half = const(0x3F3504F3 if f.single else 0x3FE6A09E667F3BCC, f.integer)
    shift = const(f.mantissa, f.integer)
    k = call("shift_right", call("sub", bits, root_half), shift)
    m = call("bitcast", call("sub", bits, call("shift_left", k, shift)), to=f.d)
    exponent = f.add(call("cast", k, to=f.d), f.where(subnormal, f.c(-float(lift)), f.c(0.0)))

    numerator = f.sub(m, f.c(1.0))
    below, below_low = f.exact_sum(m, f.c(1.0))
    r = call("recip", below)
    s0 = f.mul(numerator, r)
    s: Pair = (s0, f.mul(f.fma(f.neg(s0), below_low, f.fma(f.neg(s0), below, numerator)), r))
    s = f.fast_sum(*s)
    square = f.pair_product(s, s)
    third = f.split("0.3333333333333333333333333333333333333333")
    cubic = f.pair_product(f.pair_product(s, square), third)
    rest = f.mul(f.mul(f.mul(square[0], square[0]), s[0]), f.horner(COEFFICIENTS["atanh"][f.d.name], square[0]))
    atanh_s = f.pair_sum(s, f.fast_sum(cubic[0], f.add(cubic[1], rest)))
    scale_high, scale_low = f.split("2.8853900817779268147198493620037842748533")  # 2 / ln 2
    h, low = f.pair_product(atanh_s, (scale_high, scale_low))
    total, lost = f.exact_sum(exponent, h)
    return f.fast_sum(total, f.add(lost, low))


# ---- trigonometry


def cos(d: DType, x: Expr) -> Expr:
    """sin(2x) / (2 sin x): as accurate as sin wherever sin is, since doubling is exact; 1 where x² / 2 rounds away.

    In the last binade 2x is infinite.  There cos x = sin(|x| - a) - sin |x|·cos a, for the multiple a of that binade's ULP with sin a = -1 to twice the
    precision: |x| - a is exact, and cos a is below half an ULP of 1, so that the second term is but a correction.
    """
    f = Floats(d)
    s = call("sin", x)
    quotient = f.div(call("sin", f.add(x, x)), f.add(s, s))
    size = f.abs(x)
    # found by reduction of the lattice of (k, k·ULP mod π); the second number is -cos a
    shift, rest = f.pick(6219472 * 2.0**104, 2032244502502418 * 2.0**971), f.pick(2.312474975869197e-08, -2.4403841344980234e-16)
    last = f.fma(call("sin", size), rest, call("sin", f.sub(size, shift)))
    fits = f.lt(size, f.pick(2.0**127, 2.0**1023))
    return f.where(f.lt(size, f.pick(2.0**-13, 2.0**-27)), f.c(1.0), f.where(fits, quotient, last))


def tan(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    return f.div(call("sin", x), cos(d, x))


def atan(d: DType, x: Expr) -> Expr:
    """|x| is brought below tan(π/8) by atan a = π/4 + atan((a - 1)/(a + 1)) or π/2 + atan(-1/a)."""
    f = Floats(d)
    a, one = f.abs(x), f.c(1.0)
    middle, far = f.lt(f.c(TAN_PI_8), a), f.lt(f.c(TAN_3PI_8), a)
    t = f.where(far, f.div(f.c(-1.0), a), f.where(middle, f.div(f.sub(a, one), f.add(a, one)), a))
    base, base_low = (f.where(far, h, f.where(middle, q, f.c(0.0))) for h, q in zip(f.split(HALF_PI), f.split(QUARTER_PI), strict=True))
    z = f.mul(t, t)
    tail = f.mul(z, f.horner(COEFFICIENTS["atan"][f.d.name], z))
    return f.where(f.is_zero(x), x, f.odd(x, f.add(base, f.add(f.fma(t, tail, base_low), t))))


def _asin_near(f: Floats, x: Expr, z: Expr) -> Expr:
    """asin(x) - x for |x| ≤ 1/2, z = x²."""
    return f.mul(f.mul(x, z), f.horner(COEFFICIENTS["asin"][f.d.name], z))


def _complement(f: Floats, a: Expr) -> tuple[Expr, Expr]:
    """s = √((1 - a)/2) and asin(s) - s, for a ≥ 1/2: asin a = π/2 - 2 asin s.  NaN above 1."""
    z = f.mul(f.sub(f.c(1.0), a), f.c(0.5))
    s = call("sqrt", z)
    return s, _asin_near(f, s, z)


def asin(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    a, half = f.abs(x), f.c(0.5)
    near = f.add(a, _asin_near(f, a, f.mul(a, a)))
    s, rest = _complement(f, a)
    high, low = f.split(HALF_PI)
    far = f.sub(high, f.sub(f.mul(f.add(s, rest), f.c(2.0)), low))
    return f.where(f.is_zero(x), x, f.odd(x, f.where(f.lt(a, half), near, far)))


def acos(d: DType, x: Expr) -> Expr:
    """π/2 - asin x near 0, 2 asin(s) near 1, π - 2 asin(s) near -1, with s = √((1 - |x|)/2)."""
    f = Floats(d)
    a, half = f.abs(x), f.c(0.5)
    near_high, near_low = f.split(HALF_PI)
    near = f.sub(near_high, f.sub(f.add(x, _asin_near(f, x, f.mul(x, x))), near_low))
    s, rest = _complement(f, a)
    twice = f.mul(f.add(s, rest), f.c(2.0))
    far_high, far_low = f.split(PI)
    far = f.where(f.lt(x, f.c(0.0)), f.sub(far_high, f.sub(twice, far_low)), twice)
    return f.where(f.lt(a, half), near, far)


# ---- erf


def erf(d: DType, x: Expr) -> Expr:
    """x + x·Q(x²) below 7/8; above, 1 - e^(-a²)·R((a - 2)/(a + 2)), R a polynomial for e^(a²)·erfc(a); 1 from where it rounds to 1."""
    f = Floats(d)
    table = COEFFICIENTS["erf"][f.d.name], COEFFICIENTS["erfcx"][f.d.name]
    z = f.mul(x, x)
    near = f.fma(x, f.horner(table[0], z), x)
    a = call("min", f.abs(x), f.pick(4.0, 6.0))
    two = f.c(2.0)
    scaled = f.horner(table[1], f.div(f.sub(a, two), f.add(a, two)))
    far = f.sub(f.c(1.0), f.mul(exp(d, f.neg(f.mul(a, a))), scaled))
    return f.where(f.lt(f.abs(x), f.c(0.875)), near, f.odd(x, far))
