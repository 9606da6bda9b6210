"""What every derived operator of `primops.OPS` is made of.

`decompose(name, dtype, *operands)` is one step: an expression over simpler operators, which may be derived themselves; `expand` takes the steps until
only operators of a given set (and primops) are left.  This file holds the table and the exact operators; the functions that approximate are in
`ir/transcendental.py`.  All are written for f32 and f64; a smaller float is computed in f32 and rounded once, unless the operator is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .dtypes import DType, f32, f64
from .errors import CompilerBug
from .expr import Expr, call, cast, const
from .floats import Floats, and_, not_, or_
from .primops import OPS
from .walks import postorder, rewrite

# ---- exact


def sub(d: DType, a: Expr, b: Expr) -> Expr:
    """a + (-1)·b: the product is exact, and wraps as the difference does for integers."""
    return call("add", a, call("mul", b, _minus_one(d)))


def neg(d: DType, x: Expr) -> Expr:
    return call("mul", x, _minus_one(d))


def _minus_one(d: DType) -> Expr:
    return const(d.max if d.kind == "uint" else -1, d)


def absolute(d: DType, x: Expr) -> Expr:
    """-x below 0; adding 0 turns -0 into +0."""
    if d.kind == "uint":
        return x
    size = call("where", call("less_than", x, const(0, d)), call("neg", x), x)
    return call("add", size, const(0, d)) if d.is_float else size


def minimum(d: DType, a: Expr, b: Expr) -> Expr:
    """For floats by max, which propagates NaN; for integers by a choice, because -INT_MIN is INT_MIN and unsigned numbers have no negative."""
    if d.is_float:
        return call("neg", call("max", call("neg", a), call("neg", b)))
    return call("where", call("less_than", b, a), b, a)


def sign(d: DType, x: Expr) -> Expr:
    """Zero and NaN are their own sign."""
    zero = const(0, d)
    positive = call("where", call("less_than", zero, x), const(1, d), x)
    return positive if d.kind == "uint" else call("where", call("less_than", x, zero), const(-1, d), positive)


def equal(d: DType, a: Expr, b: Expr) -> Expr:
    """Neither is less; with NaN that is so too, hence the test (max propagates NaN)."""
    same = and_(not_(call("less_than", a, b)), not_(call("less_than", b, a)))
    return and_(same, not_(call("isnan", call("max", a, b)))) if d.is_float else same


def not_equal(d: DType, a: Expr, b: Expr) -> Expr:
    return not_(call("equal", a, b))


def less_equal(d: DType, a: Expr, b: Expr) -> Expr:
    below = not_(call("less_than", b, a))
    return and_(below, not_(call("isnan", call("max", a, b)))) if d.is_float else below


def bit_not(d: DType, x: Expr) -> Expr:
    return call("bit_xor", x, const(True if d.kind == "bool" else d.max if d.kind == "uint" else -1, d))


def isnan(d: DType, x: Expr) -> Expr:
    """Neither below infinity nor above zero; infinity itself is above zero."""
    return and_(not_(call("less_than", x, const(d.max, d))), not_(call("less_than", const(0, d), x)))


def isinf(d: DType, x: Expr) -> Expr:
    zero = const(0, d)
    high = and_(not_(call("less_than", x, const(d.max, d))), call("less_than", zero, x))
    low = and_(not_(call("less_than", const(d.min, d), x)), call("less_than", x, zero))
    return or_(high, low)


def round_even(d: DType, x: Expr) -> Expr:
    """(|x| + 2^p) - 2^p rounds to an integer in the rounding mode of the addition, ties to even; from 2^p on every float is an integer (and NaN stays).

    p is the number of stored bits of the mantissa.
    """
    f = Floats(d)
    large = f.c(2.0**f.mantissa)
    size = f.abs(x)
    whole = f.sub(f.add(size, large), large)
    return f.where(f.lt(size, large), f.odd(x, whole), x)


def floor(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    whole = call("round", x)
    return f.where(f.lt(x, whole), f.sub(whole, f.c(1.0)), whole)


def ceil(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    whole = call("round", x)
    return f.where(f.lt(whole, x), f.add(whole, f.c(1.0)), whole)


def trunc(d: DType, x: Expr) -> Expr:
    f = Floats(d)
    return f.where(f.lt(x, f.c(0.0)), call("ceil", x), call("floor", x))


# ---- division


def divide(d: DType, x: Expr, y: Expr) -> Expr:
    """q = x·recip(y), then one step with the exact remainder: q + (x - q·y)·recip(y) (Markstein 1990; Muller et al., Handbook of Floating-Point Arithmetic, ch. 4).

    recip of a very small y is infinite and that of a very large one has few bits, and the remainder of a very small x underflows: those operands are scaled by powers of
    two first, and the quotient back.  Where the remainder is no number (x or y or the quotient infinite, y zero) the product is the answer already.
    """
    f = Floats(d)
    reach = 64 if f.single else 500
    large, tiny, one = f.c(2.0**reach), f.c(2.0**-reach), f.c(1.0)
    size_x, size_y = f.abs(x), f.abs(y)
    small_x, small_y, large_y = f.lt(size_x, tiny), f.lt(size_y, tiny), f.lt(large, size_y)
    scale_y = f.where(small_y, large, f.where(large_y, tiny, one))
    xs, ys = f.mul(x, f.where(small_x, large, one)), f.mul(y, scale_y)
    r = call("recip", ys)
    q = f.mul(xs, r)
    rest = f.fma(f.neg(q), ys, xs)
    better = f.where(f.lt(f.abs(rest), f.c(float("inf"))), f.fma(rest, r, q), q)
    back = f.where(small_x, f.where(small_y, one, tiny), scale_y)
    again = f.where(and_(small_x, large_y), tiny, one)
    return f.mul(f.mul(better, back), again)


def rsqrt(d: DType, x: Expr) -> Expr:
    return call("recip", call("sqrt", x))


# ---- integer powers


def integer_power(d: DType, x: Expr, y: Expr) -> Expr:
    """Repeated squaring over the bits of y; 0 for a negative y."""
    zero, one = const(0, d), const(1, d)
    result, base = one, x
    for bit in range(d.bits - (d.kind == "int")):
        wanted = not_(call("equal", call("bit_and", y, const(1 << bit, d)), zero))
        result = call("where", wanted, call("mul", result, base), result)
        base = call("mul", base, base)
    return result if d.kind == "uint" else call("where", call("less_than", y, zero), zero, result)


def power(d: DType, x: Expr, y: Expr) -> Expr:
    return _by_series("power")(d, x, y) if d.is_float else integer_power(d, x, y)


def _by_series(name: str) -> Callable[..., Expr]:
    """One of `transcendental.py`, which is imported when somebody asks for it: few composites do."""

    def made(d: DType, *operands: Expr) -> Expr:
        from . import transcendental

        return getattr(transcendental, name)(d, *operands)

    return made


DECOMPOSITIONS: dict[str, Callable[..., Expr]] = {
    "sub": sub, "neg": neg, "div": divide, "min": minimum, "abs": absolute, "sign": sign, "equal": equal, "not_equal": not_equal, "less_equal": less_equal,
    "bit_not": bit_not, "isnan": isnan, "isinf": isinf, "floor": floor, "ceil": ceil, "trunc": trunc, "round": round_even, "rsqrt": rsqrt, "pow": power,
    **{name: _by_series(name) for name in (
        "exp", "expm1", "log", "log1p", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
    )},
}  # fmt: skip

# Right in any float dtype: they only select, compare, or multiply by one.  isinf is none of them: f8e4m3 has no infinity to compare with.
_EXACT = frozenset({"sub", "neg", "min", "abs", "sign", "equal", "not_equal", "less_equal", "isnan"})


def decompose(name: str, *operands: Expr) -> Expr:
    """One step of the derived operator `name`, for the operands' dtype."""
    d = operands[0].dtype
    if d.lanes != 1:
        raise CompilerBug("decompose", f"{name} of the vector type {d}; operators are decomposed before there are vectors")
    if d.is_float and d not in (f32, f64) and name not in _EXACT:
        wide = call(name, *(cast(f32, x) for x in operands))
        return wide if OPS[name].result == "bool" else cast(d, wide)
    return DECOMPOSITIONS[name](d, *operands)


def expand(root: Expr, native: Iterable[str]) -> Expr:
    """`root` with every derived operator that is not in `native` decomposed, until only primops and native operators are left."""
    kept = frozenset(native)

    def step(e: Expr) -> Expr | None:
        return decompose(e.op, *e.args) if e.op in DECOMPOSITIONS and e.op not in kept else None

    # each pass takes one step everywhere; the longest way down (tan, cos, div, abs, neg, mul) is a handful of them
    while any(e.op in DECOMPOSITIONS and e.op not in kept for e in postorder(root)):
        root = rewrite(root, step)
    return root
