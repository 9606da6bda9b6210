"""What the operators on complex numbers are made of, in components: expressions of f32.

`split` takes an operator and the components of its operands, and gives those of the result.  Quotients, roots and logarithms go through f64, in which the squares of f32 neither
overflow nor lose a bit; sums, products and moduli stay in f32.
"""

from __future__ import annotations

from collections.abc import Callable

from .dtypes import f32, f64, i32
from .errors import CompilerBug
from .expr import Expr, call, cast, const, where

Pair = tuple[Expr, Expr]  # real part, imaginary part

ZERO = const(0.0, f32)
_PI = 3.141592653589793


def _componentwise(op: str) -> Callable[..., Pair]:
    return lambda *xs: (call(op, *(x[0] for x in xs)), call(op, *(x[1] for x in xs)))


def multiply(x: Pair, y: Pair) -> Pair:
    """(a + ib)(c + id) = (ac - bd) + i(ad + bc)."""
    (a, b), (c, d) = x, y
    return call("sub", call("mul", a, c), call("mul", b, d)), call("add", call("mul", a, d), call("mul", b, c))


def _fma(x: Pair, y: Pair, z: Pair) -> Pair:
    return _componentwise("add")(multiply(x, y), z)


def _wide(x: Pair) -> Pair:
    return cast(f64, x[0]), cast(f64, x[1])


def _square(x: Pair) -> Expr:
    """|x|², in f64; each product is exact there."""
    a, b = _wide(x)
    return call("add", call("mul", a, a), call("mul", b, b))


def divide(x: Pair, y: Pair) -> Pair:
    """x·conj(y) / |y|²; by zero each part is divided."""
    (a, b), (c, d) = _wide(x), _wide(y)
    square = _square(y)
    none = call("equal", square, const(0.0, f64))
    re = call("add", call("mul", a, c), call("mul", b, d))
    im = call("sub", call("mul", b, c), call("mul", a, d))
    return cast(f32, call("div", where(none, a, re), square)), cast(f32, call("div", where(none, b, im), square))


def _reciprocal(x: Pair) -> Pair:
    return divide((const(1.0, f32), ZERO), x)


def modulus(x: Pair) -> Expr:
    """√(l² + s²) of the larger and the smaller part, over a power of two that brings l to about 1: off by at most 1.75 · 2⁻²⁴ of it (s² is no more than half of the sum, of whose
    error the root has half).  A root of f64 takes machines as long for half the lanes."""
    a, b = (call("bit_and", call("bitcast", part, to=i32), const(0x7FFFFFFF, i32)) for part in x)
    large, small = call("max", a, b), call("min", a, b)
    exponent = call("bit_and", large, const(0x7F800000, i32))
    # 2^e and 2^-e are both there; infinities and the largest numbers are brought near enough
    exponent = call("min", call("max", exponent, const(1 << 23, i32)), const(253 << 23, i32))
    scale = call("bitcast", call("sub", const(254 << 23, i32), exponent), to=f32)
    large, small = (call("mul", call("bitcast", part, to=f32), scale) for part in (large, small))
    return call("mul", call("sqrt", call("fma", large, large, call("mul", small, small))), call("bitcast", exponent, to=f32))


def _negative(x: Expr) -> Expr:
    """The sign bit of an f32: -0 has it."""
    return call("less_than", call("bitcast", x, to=i32), const(0, i32))


def _root(x: Pair) -> Pair:
    """With m = √((|a| + |x|) / 2): m + i·b/2m for a ≥ 0, |b|/2m ± i·m for the others, with the sign of b (Kahan 1987); 0 of 0."""
    a, b = _wide(x)
    zero, half = const(0.0, f64), const(0.5, f64)
    m = call("sqrt", call("mul", call("add", call("abs", a), call("sqrt", _square(x))), half))
    other = where(call("equal", m, zero), zero, call("div", call("mul", call("abs", b), half), m))
    right = call("less_equal", zero, a)
    re, size = where(right, m, other), cast(f32, where(right, other, m))
    return cast(f32, re), where(_negative(x[1]), call("neg", size), size)


def _exponential(x: Pair) -> Pair:
    """e^a (cos b + i sin b), e^a as a square because it may overflow where a part does not; real of a real number."""
    a, b = x
    root = call("exp", call("mul", a, const(0.5, f32)))
    re, im = (call("mul", call("mul", root, call(f, b)), root) for f in ("cos", "sin"))
    return re, where(call("equal", b, ZERO), b, im)


def _logarithm(x: Pair) -> Pair:
    """log |x| + i·angle(x); half the logarithm of |x|² in f64, whose absolute error is nothing beside the angle where |x| is near 1."""
    return cast(f32, call("mul", call("log", _square(x)), const(0.5, f64))), angle(x)


def angle(x: Pair) -> Expr:
    """atan2(b, a), with its signs of zero: the arc tangent of the smaller part over the larger, moved into its octant."""
    a, b = x
    wide, high = call("abs", a), call("abs", b)
    steep = call("less_than", wide, high)
    large, small = where(steep, high, wide), where(steep, wide, high)
    octant = where(call("equal", large, ZERO), ZERO, call("atan", call("div", small, large)))
    quadrant = where(steep, call("sub", const(_PI / 2, f32), octant), octant)
    half = where(_negative(a), call("sub", const(_PI, f32), quadrant), quadrant)
    return where(_negative(b), call("neg", half), half)


def equal(x: Pair, y: Pair) -> Expr:
    return call("bit_and", call("equal", x[0], y[0]), call("equal", x[1], y[1]))


def _not_equal(x: Pair, y: Pair) -> Expr:
    return call("bit_or", call("not_equal", x[0], y[0]), call("not_equal", x[1], y[1]))


# operator → its components from those of the operands
PAIRS: dict[str, Callable[..., Pair]] = {
    "add": _componentwise("add"), "sub": _componentwise("sub"), "neg": _componentwise("neg"), "mul": multiply, "fma": _fma, "div": divide, "recip": _reciprocal,
    "sqrt": _root, "exp": _exponential, "log": _logarithm,
}  # fmt: skip
# operator on complex numbers → a number that is none
SINGLES: dict[str, Callable[..., Expr]] = {
    "real": lambda x: x[0], "imag": lambda x: x[1], "abs": modulus, "angle": angle, "equal": equal, "not_equal": _not_equal,
}  # fmt: skip


def split(e: Expr, args: tuple[Expr | Pair, ...]) -> Expr | Pair:
    """The components of an operator of the table of which an operand or the result is complex; complex operands are given as pairs."""
    match e.op:
        case "complex":
            return args[0], args[1]  # type: ignore[return-value]
        case "cast":
            return cast(f32, args[0]), ZERO  # type: ignore[arg-type]
        case "where":
            c, a, b = args
            return where(c, a[0], b[0]), where(c, a[1], b[1])  # type: ignore[arg-type, index]
        case op if op in SINGLES:
            return SINGLES[op](*args)
        case op if op in PAIRS:
            return PAIRS[op](*args)
        case op:
            raise CompilerBug("split_complex", f"{op} of {e.dtype} has no components")
