"""Arithmetic on scalars in the loop style: the same operators and the same rules for numbers as on tensors, on expressions of the kernel level.

A plain integer (literal, loop variable, size) is weak: it takes the dtype of the operand beside it, alone it is i64.  A float literal is weak likewise,
held in f64 and alone f32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..ir.dtypes import INDEX, DType, bool_, f32, f64
from ..ir.expr import ZERO, Expr, call, cast, const, floordiv, make, maximum, minimum, mod
from ..ir.primops import OPS, accepts
from ..ir.record import record
from ..ir.tensor import BuildError
from ..ir.values import held
from ..ir.walks import leaves, postorder
from .operators import UNARY


@record
class Scalar:
    """`weak` is "" for a dtype of its own, "int" or "float" for one that takes its neighbour's."""

    expr: Expr
    weak: str = ""

    @property
    def dtype(self) -> DType:
        """What it is alone."""
        return f32 if self.weak == "float" else self.expr.dtype


def retype(x: Scalar, to: DType, asked: bool = False) -> Expr:
    """The number in this dtype; E0301, E0302, E0304 where it cannot be converted silently."""
    if not x.weak:
        if x.expr.dtype is not to:
            raise BuildError("E0301", f"{to} is expected here, found {x.expr.dtype}", f"help: (cast {to} …)")
        return x.expr
    if to is bool_:
        raise BuildError("E0301", "bool is expected here, found a plain number", "help: compare it, as in (/= x 0)")
    if to.is_complex:
        real = retype(x, f32)
        return const(real.attr, to) if real.is_const else cast(to, real)
    if x.weak == "float" and not to.is_float:
        raise BuildError("E0302", f"a float literal beside {to}", f"help: (cast f32 …) of the {to}, or (cast {to} …) of the float")
    if x.weak == "float":
        return _remade(x.expr, to)
    return const(held(x.expr.attr, to, asked), to) if x.expr.is_const else cast(to, x.expr)


def _remade(root: Expr, to: DType) -> Expr:
    """A weak float's expression, which is held in f64, made again in another float dtype: literals and conversions at its leaves, and all between."""
    done: dict[Expr, Expr] = {}
    for n in postorder(root):
        if n.dtype is not f64:
            done[n] = n
        elif n.is_const:
            done[n] = const(n.attr, to)
        elif n.op == "cast":
            done[n] = cast(to, n.args[0])
        else:
            done[n] = make(n.op, to, tuple(done[a] for a in n.args), n.attr)
    return done[root]


def strong(x: Scalar) -> Expr:
    """The number in the dtype that it has alone."""
    return retype(x, x.dtype)


def index(x: Scalar) -> Expr:
    """As an index: i64; E0318 for what is no integer."""
    if x.weak == "int":
        return x.expr
    if x.weak or not x.expr.dtype.is_integer:
        raise BuildError("E0318", f"an index must be an integer, found {x.dtype}", "help: (cast i64 …)")
    return cast(INDEX, x.expr)


def float_of(x: Scalar) -> Scalar:
    """A weak integer as a weak float."""
    if x.weak != "int":
        return x
    return Scalar(const(float(x.expr.attr), f64) if x.expr.is_const else cast(f64, x.expr), "float")


def unify(xs: Sequence[Scalar], what: str) -> tuple[list[Expr], str]:
    """The operands in one dtype, and how weak the result is."""
    own = [x for x in xs if not x.weak]
    if own:
        to = own[0].expr.dtype
        other = next((x for x in own if x.expr.dtype is not to), None)
        if other is not None:
            wider = other.dtype if other.dtype.is_complex else to
            raise BuildError("E0301", f"`{what}` on {to} and {other.dtype}", f"help: nothing is converted silently; (cast {wider} …)")
        return [retype(x, to) for x in xs], ""
    if any(x.weak == "float" for x in xs):
        return [float_of(x).expr for x in xs], "float"
    return [x.expr for x in xs], "int"


_INDEX: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a, "floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum,
}  # fmt: skip


def apply(op: str, xs: Sequence[Scalar], what: str) -> Scalar:
    """A row of the operator table on scalars; `what` is its name in the source.  E0301, E0302, E0303."""
    row = OPS[op]
    if any(x.dtype.is_complex for x in xs):
        from .complex_scalars import special

        found = special(op, xs, what)
        if found is not None:
            return found
    if row.accepts in ("float", "smooth"):
        xs = [float_of(x) for x in xs] if all(x.weak for x in xs) else xs
    args, weak = unify(xs, what)
    if not accepts(row, args[0].dtype):
        notes: tuple[str, ...] = ()
        if args[0].dtype.is_complex:
            notes = (
                ("help: complex numbers have no order: compare (abs z) or (real z)",)
                if row.accepts == "ordered"
                else ("help: take (real z), (imag z) or (abs z)",)
            )
        elif op in ("div", "recip"):
            notes = ("help: `floordiv` rounds down; `(cast f32 x)` divides as floats",)
        elif row.accepts in ("float", "smooth"):
            notes = ("help: (cast f32 …)",)
        raise BuildError("E0303", f"`{what}` is not defined on {args[0].dtype}", *notes)
    if weak == "int" and op in _INDEX:
        return Scalar(_INDEX[op](*args), "int")
    if weak == "float" and row.result == "bool":
        args = [retype(Scalar(a, "float"), f32) for a in args]
    return Scalar(call(op, *args), weak if row.result in ("same", "part") else "")


def chain(op: str, xs: Sequence[Scalar], what: str) -> Scalar:
    result = xs[0]
    for x in xs[1:]:
        result = apply(op, [result, x], what)
    return result


def truth(x: Scalar) -> Expr:
    """A condition; E0303 for what is no bool."""
    if x.weak or x.expr.dtype is not bool_:
        raise BuildError("E0303", f"a condition must be bool, found {x.dtype}", "help: compare it, as in (/= x 0)")
    return x.expr


def _horner(xs: Sequence[Scalar], what: str) -> Scalar:
    """Σ xs[k + 1] · xs[0]^k by fma from the highest power down."""
    result = xs[-1]
    for c in xs[-2:0:-1]:
        result = apply("fma", [result, xs[0], c], what)
    return result


def _subtract(xs: Sequence[Scalar], what: str) -> Scalar:
    return apply("neg", xs, what) if len(xs) == 1 else chain("sub", xs, what)


def _divide(xs: Sequence[Scalar], what: str) -> Scalar:
    if len(xs) > 1 and all(x.weak == "int" or x.dtype.is_integer for x in xs):
        raise BuildError("E0303", "`/` is not defined on integers", "help: `floordiv` rounds down; `(cast f32 x)` divides as floats")
    return apply("recip", xs, what) if len(xs) == 1 else chain("div", xs, what)


def _compare(op: str, swap: bool) -> Callable[[Sequence[Scalar], str], Scalar]:
    def run(xs: Sequence[Scalar], what: str) -> Scalar:
        pairs = [apply(op, (b, a) if swap else (a, b), what) for a, b in pairwise(xs)]
        return chain("bit_and", pairs, what)

    return run


_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "/=": operator.ne,
}  # fmt: skip


def known_comparison(name: str, values: Sequence[Any]) -> bool | None:
    """A comparison of literals and parameters alone is decided now; None for any other."""
    compare = _PYTHON.get(name)
    known = [v.expr.attr if isinstance(v, Scalar) and v.weak and v.expr.is_const else v for v in values]
    if compare is None or any(isinstance(v, Scalar) for v in known) or (name not in ("=", "/=") and any(isinstance(v, str) for v in known)):
        return None
    return all(compare(a, b) for a, b in pairwise(known))


def _shift(xs: Sequence[Scalar], what: str) -> Scalar:
    x, count = xs
    if count.expr.is_const:
        to_left = count.expr.attr >= 0
        return apply("shift_left" if to_left else "shift_right", [x, Scalar(const(abs(count.expr.attr)), "int")], what)
    ahead, back = count, apply("neg", [count], what)
    if not x.weak and not count.weak and count.dtype.kind == "int" and count.dtype is not x.dtype:
        ahead, back = (cast_to(apply("min", [c, Scalar(const(x.dtype.bits), "int")], what), x.dtype) for c in (ahead, back))
    left, right = apply("shift_left", [x, ahead], what), apply("shift_right", [x, back], what)
    negative = apply("less_than", [count, Scalar(const(0), "int")], what)
    return choose(negative, right, left)


def choose(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    (x, y), weak = unify([a, b], "if")
    return Scalar(call("where", truth(condition), x, y), weak)


def cast_to(x: Scalar, to: DType) -> Scalar:
    """A conversion that the user asked for."""
    if x.weak and (x.weak == "int" or to.is_inexact) and to is not bool_:
        return Scalar(retype(x, to, asked=True))
    if x.dtype.is_complex and not to.is_complex:
        if to is bool_:
            return apply("not_equal", [x, Scalar(ZERO, "int")], "cast")
        raise BuildError("E0303", f"`cast` from c64 to {to}: a complex number has two parts", "help: (real z), (imag z) or (abs z)")
    return Scalar(cast(to, strong(x)))


def bitcast_to(x: Scalar, to: DType) -> Scalar:
    value = strong(x)
    if value.dtype.bits != to.bits or (value.dtype is not to and (value.dtype.is_complex or to.is_complex)):
        reason = "the two differ in size" if value.dtype.bits != to.bits else "a complex number has two parts"
        raise BuildError("E0303", f"`bitcast` of {value.dtype} to {to}", f"note: {reason}")
    return Scalar(value if value.dtype is to else call("bitcast", value, to=to))


Apply = Callable[[Sequence[Scalar], str], Scalar]
_INF = 1 << 30


def _row(op: str) -> Apply:
    return lambda xs, what: apply(op, xs, what)


def _chain(op: str) -> Apply:
    return lambda xs, what: chain(op, xs, what)


def _complex(name: str) -> Apply:
    def run(xs: Sequence[Scalar], what: str) -> Scalar:
        from .complex_scalars import FORMS

        return FORMS[name](xs, what)

    return run


# name → (least and greatest number of operands, what it does)
SCALARS: dict[str, tuple[int, int, Apply]] = {
    **{name: (1, 1, _row(name)) for name in UNARY.split()},
    "+": (1, _INF, _chain("add")), "*": (1, _INF, _chain("mul")), "-": (1, _INF, _subtract), "/": (1, _INF, _divide),
    "horner": (2, _INF, _horner), "fma": (3, 3, _row("fma")), "wmma": (3, 3, _row("fma")),
    "mod": (2, 2, _row("mod")), "floordiv": (2, 2, _row("floordiv")), "pow": (2, 2, _row("pow")),
    "max": (2, _INF, _chain("max")), "min": (2, _INF, _chain("min")),
    "<": (2, _INF, _compare("less_than", False)), "<=": (2, _INF, _compare("less_equal", False)),
    ">": (2, _INF, _compare("less_than", True)), ">=": (2, _INF, _compare("less_equal", True)),
    "=": (2, _INF, _compare("equal", False)), "/=": (2, _INF, _compare("not_equal", False)),
    "not": (1, 1, lambda xs, what: Scalar(call("bit_not", truth(xs[0])))),
    "logand": (1, _INF, _chain("bit_and")), "logor": (1, _INF, _chain("bit_or")), "logxor": (1, _INF, _chain("bit_xor")), "lognot": (1, 1, _row("bit_not")),
    "ash": (2, 2, _shift),
    "complex": (2, 2, _complex("complex")), "angle": (1, 1, _row("angle")), **{name: (1, 1, _complex(name)) for name in ("real", "imag", "conj")},
}  # fmt: skip


def has_loads(*exprs: Expr) -> bool:
    return any(leaves(e, "load") for e in exprs)
