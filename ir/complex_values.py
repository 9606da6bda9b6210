"""Complex numbers while a graph is built: what is no row of the table on them, by rows that are.

A plain number beside a complex one is a real number: it is added to the real part alone and multiplies both parts, as in C.  So it keeps the signs of zero
and what is infinite, and costs half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dtypes import DType, bool_, c64, f32
from .tensor import BuildError, Tensor

if TYPE_CHECKING:
    from .values import Values


def special(b: Values, op: str, xs: tuple[Tensor, ...]) -> Tensor | None:
    """The elementwise operator on operands of which one is complex; None where its row does it.  E0303."""
    if op in ("isnan", "isinf"):
        return b.elementwise("bit_or", *(b.elementwise(op, b.elementwise(part, xs[0])) for part in ("real", "imag")))
    if op == "rsqrt":
        return b.elementwise("recip", b.elementwise("sqrt", xs[0]))
    if op in ("add", "sub", "mul", "div") and any(x.weak for x in xs):
        return _beside_real(b, op, *xs)
    return None


def _beside_real(b: Values, op: str, x: Tensor, y: Tensor) -> Tensor | None:
    if x.weak:
        if op == "div":
            return None
        if op != "sub":
            return _beside_real(b, op, y, x)
        return _beside_real(b, "add", b.elementwise("neg", y), x)
    y = b.retype(y, f32)
    re, im = b.elementwise("real", x), b.elementwise("imag", x)
    return b.elementwise("complex", b.elementwise(op, re, y), im if op in ("add", "sub") else b.elementwise(op, im, y))


def compose(b: Values, re: Tensor, im: Tensor) -> Tensor:
    """re + i·im, of f32 or plain numbers; E0303."""
    for x in (re, im):
        if not x.weak and x.dtype is not f32:
            raise BuildError("E0303", f"a complex number is made of two f32, not of {x.dtype}", "help: (cast f32 …)")
    return b.elementwise("complex", *(b.retype(x, f32) if x.weak else x for x in (re, im)))


def part(b: Values, name: str, x: Tensor) -> Tensor:
    """The real or imaginary part; of a real number itself and 0."""
    if x.dtype.is_complex:
        return b.elementwise(name, x)
    b.check_accepts("add", x.dtype)
    return x if name == "real" else b.full(x.shape, 0, None if x.weak else x.dtype)


def conjugate(b: Values, x: Tensor) -> Tensor:
    """A real number is its own."""
    if not x.dtype.is_complex:
        return part(b, "real", x)
    return b.elementwise("complex", b.elementwise("real", x), b.elementwise("neg", b.elementwise("imag", x)))


def power(b: Values, x: Tensor, y: Tensor) -> Tensor:
    """exp(y·log x); a power of 0 is 1, 0 or NaN for an exponent that is 0, has a positive real part, or neither."""
    x = b.retype(x, c64) if x.weak else x
    general = b.elementwise("exp", b.elementwise("mul", b.elementwise("log", x), y))
    y = b.retype(y, c64) if y.weak else y
    zero, one, none = (b.constant(v) for v in (0.0, 1.0, float("nan")))
    positive = b.elementwise("less_than", zero, b.elementwise("real", y))
    of_zero = b.where(b.elementwise("equal", y, zero), b.retype(one, c64), b.where(positive, b.retype(zero, c64), b.retype(none, c64)))
    return b.where(b.elementwise("equal", x, zero), of_zero, general)


def cast_from(b: Values, x: Tensor, to: DType) -> Tensor:
    """A complex tensor in another dtype: as a condition only; E0303."""
    if to is bool_:
        return b.elementwise("not_equal", x, b.constant(0))
    raise BuildError("E0303", f"cast from c64 to {to}: a complex number has two parts", "help: (real z), (imag z) or (abs z)")
