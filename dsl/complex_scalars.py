"""Complex numbers in the loop style: what `ir/complex_values.py` is for tensors, on scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.dtypes import c64, f32
from ..ir.expr import ZERO, call, const
from ..ir.tensor import BuildError
from .scalars import Scalar, apply, cast_to, choose, retype

Apply = Callable[[Sequence[Scalar], str], Scalar]


def special(op: str, xs: Sequence[Scalar], what: str) -> Scalar | None:
    """The operator on scalars of which one is complex; None where its row does it."""
    if op in ("isnan", "isinf"):
        return apply("bit_or", [apply(op, [apply(part, xs, what)], what) for part in ("real", "imag")], what)
    if op == "rsqrt":
        return apply("recip", [apply("sqrt", xs, what)], what)
    if op == "pow":
        return _power(xs[0], xs[1], what)
    if op in ("add", "sub", "mul", "div") and any(x.weak for x in xs):
        return _beside_real(op, xs[0], xs[1], what)
    return None


def _beside_real(op: str, x: Scalar, y: Scalar, what: str) -> Scalar | None:
    """A plain number is real: it is added to the real part alone and multiplies both parts."""
    if x.weak:
        if op == "div":
            return None
        if op != "sub":
            return _beside_real(op, y, x, what)
        return _beside_real("add", apply("neg", [y], what), x, what)
    real = Scalar(retype(y, f32))
    re, im = (apply(part, [x], what) for part in ("real", "imag"))
    both = op in ("mul", "div")
    return apply("complex", [apply(op, [re, real], what), apply(op, [im, real], what) if both else im], what)


def _power(x: Scalar, y: Scalar, what: str) -> Scalar:
    """By repeated squaring for a small integer literal, else exp(y·log x) (see `complex_values.power`)."""
    if y.weak == "int" and y.expr.is_const and abs(y.expr.attr) <= 64:
        n = abs(y.expr.attr)
        result, square = Scalar(const(1, c64)) if n == 0 else None, x
        while n:
            if n & 1:
                result = square if result is None else apply("mul", [result, square], what)
            n >>= 1
            square = apply("mul", [square, square], what) if n else square
        assert result is not None
        return apply("recip", [result], what) if y.expr.attr < 0 else result
    x = Scalar(retype(x, c64))
    general = apply("exp", [apply("mul", [apply("log", [x], what), y], what)], what)
    y, zero = Scalar(retype(y, c64)), Scalar(ZERO, "int")
    zero64, one64, none64 = (Scalar(const(v, c64)) for v in (0.0, 1.0, float("nan")))
    positive = apply("less_than", [zero, apply("real", [y], what)], what)
    of_zero = choose(apply("equal", [y, zero], what), one64, choose(positive, zero64, none64))
    return choose(apply("equal", [x, zero], what), of_zero, general)


def _compose(xs: Sequence[Scalar], what: str) -> Scalar:
    for x in xs:
        if not x.weak and x.dtype is not f32:
            raise BuildError("E0303", f"a complex number is made of two f32, not of {x.dtype}", "help: (cast f32 …)")
    return Scalar(call("complex", *(retype(x, f32) for x in xs)))


def _part(name: str) -> Apply:
    def run(xs: Sequence[Scalar], what: str) -> Scalar:
        (x,) = xs
        if x.dtype is c64:
            return apply(name, xs, what)
        if name == "real":
            return x
        nothing = Scalar(ZERO, "int")
        return nothing if x.weak else cast_to(nothing, x.dtype)

    return run


def _conjugate(xs: Sequence[Scalar], what: str) -> Scalar:
    if xs[0].dtype is not c64:
        return xs[0]
    re, im = (apply(part, xs, what) for part in ("real", "imag"))
    return apply("complex", [re, apply("neg", [im], what)], what)


FORMS: dict[str, Apply] = {"complex": _compose, "real": _part("real"), "imag": _part("imag"), "conj": _conjugate}
