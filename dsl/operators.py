"""The operators of the tensor style as a table: name → (signature, what to do with the builder).

A signature lists operands by kind, then keywords; it is what a diagnostic shows and what `calls.bind` checks.

    x y …      a tensor (weak numbers and literals included)          x+       one or more, as a tuple
    axis       one compile-time integer                               axes     an integer, a list, or absent (None)
    size       an integer expression of sizes                         sizes+   sizes one by one, or one list, as a tuple
    ranges+    `_`, an integer, or (start stop [step]), one an axis   pairs+   `_` or (before after), one an axis
               (in both `~` once: as many `_` as axes are left)
    flag       t or nil                                               literal  a number known at compile time
    type       a dtype                                                text     a string, or a bare word

In sizes and shapes `~` stands for the extents that it stands for in the ports.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..ir import complex_values
from ..ir.build import Builder
from ..ir.dtypes import DType, bool_
from ..ir.graph import View
from ..ir.record import record
from ..ir.tensor import BuildError, Tensor

KINDS = {
    "tensor": "a tensor", "axis": "an axis", "axes": "an axis or a list of axes", "size": "a size", "sizes": "sizes", "ranges": "ranges", "pairs": "pairs of sizes",
    "flag": "t or nil", "literal": "a number", "type": "a dtype", "text": "a string",
}  # fmt: skip


@record
class Operand:
    name: str
    kind: str
    many: bool = False
    default: Any = None
    required: bool = True


@record
class Operator:
    """`run(builder, *operands, **keywords)`; `many` operands come as one tuple."""

    name: str
    operands: tuple[Operand, ...]
    keywords: dict[str, Operand]
    run: Callable[..., Any]

    @property
    def signature(self) -> str:
        words = [self.name]
        for o in self.operands:
            words.append(f"{o.name}…" if o.many else o.name if o.required else f"[{o.name}]")
        words += [f":{k} {o.kind}" for k, o in self.keywords.items()]
        return f"({' '.join(words)})"


TABLE: dict[str, Operator] = {}


def define(names: str, operands: str, run: Callable[..., Any], **keywords: Any) -> None:
    """`operands` as in the grammar above, `name:kind` where the kind is not `tensor`, `?` where it may be left out; keywords `name=(kind, default)`."""
    for name in names.split():
        positional = tuple(_operand(word) for word in operands.split())
        TABLE[name] = Operator(
            name, positional, {k: Operand(k, kind, default=default, required=False) for k, (kind, default) in keywords.items()}, run
        )


def _operand(word: str) -> Operand:
    name, _, kind = word.rstrip("+?").partition(":")
    return Operand(name, kind or "tensor", word.endswith("+"), None, not word.endswith("?"))


# ---- elementwise


def row(op: str) -> Callable[..., Tensor]:
    """A row of the operator table, taken as it is."""
    return lambda b, *xs: b.elementwise(op, *xs)


def folded(op: str) -> Callable[[Builder, tuple[Tensor, ...]], Tensor]:
    """An n-ary operator by a chain from the left."""

    def run(b: Builder, xs: tuple[Tensor, ...]) -> Tensor:
        result = xs[0]
        for x in xs[1:]:
            result = b.elementwise(op, result, x)
        return result

    return run


def horner(b: Builder, x: Tensor, terms: tuple[Tensor, ...]) -> Tensor:
    """Σ terms[k] · x^k by fma from the highest power down."""
    result = terms[-1]
    for c in terms[-2::-1]:
        result = b.elementwise("fma", result, x, c)
    return result


def subtract(b: Builder, xs: tuple[Tensor, ...]) -> Tensor:
    return b.elementwise("neg", xs[0]) if len(xs) == 1 else folded("sub")(b, xs)


def divide(b: Builder, xs: tuple[Tensor, ...]) -> Tensor:
    integers = [x for x in xs if not x.dtype.is_inexact]
    if integers and len(integers) == len(xs) and not (len(xs) == 1 and xs[0].weak):
        raise BuildError("E0303", "`/` is not defined on integers", "help: `floordiv` rounds down; `(cast f32 x)` divides as floats")
    return b.elementwise("recip", xs[0]) if len(xs) == 1 else folded("div")(b, xs)


def compare(op: str, swap: bool = False) -> Callable[..., Any]:
    """`(< a b c)` holds between neighbours, as in Lisp.  Two plain integers that are known give a compile-time truth value."""
    static = {"less_than": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b}[op]

    def pair(b: Builder, x: Any, y: Any) -> Any:
        known = (constant_of(x), constant_of(y))
        words = any(isinstance(k, str) for k in known)
        if None not in known and (not words or (op in ("equal", "not_equal") and all(isinstance(k, str) for k in known))):
            return static(*known)
        return b.elementwise(op, *(number(b, k) for k in (x, y)))

    def run(b: Builder, xs: tuple[Tensor, ...]) -> Any:
        results = [pair(b, *((y, x) if swap else (x, y))) for x, y in itertools.pairwise(xs)]
        return junction("bit_and", True)(b, tuple(results))

    return run


def constant_of(x: Any) -> int | float | bool | str | None:
    """The value of a literal or of a plain integer without sizes, the name of a dtype; None for everything else."""
    if isinstance(x, DType):
        return x.name
    if isinstance(x, (bool, str)):
        return x
    if isinstance(x, Tensor) and x.weak and not x.shape:
        integer = x.integer
        if integer is not None:
            return integer.attr if integer.is_const else None
        return x.view.node.attr.value if x.view.node.op == "const" else None
    return None


def junction(op: str, neutral: bool) -> Callable[..., Any]:
    """`and`, `or`: compile-time truth values are folded, tensors must be bool."""

    def run(b: Builder, xs: tuple[Any, ...]) -> Any:
        if any(x is (not neutral) for x in xs):
            return not neutral
        left = [x for x in xs if x is not neutral]
        if not left:
            return neutral
        return folded(op)(b, tuple(truth(b, x) for x in left))

    return run


def number(b: Builder, x: Any) -> Tensor:
    """A tensor, or a truth value as one."""
    if isinstance(x, bool):
        return b.constant(x)
    if not isinstance(x, Tensor):
        raise BuildError("E0503", f"expected a tensor, found {x!r}")
    return x


def truth(b: Builder, x: Any) -> Tensor:
    x = number(b, x)
    if x.dtype is not bool_:
        raise BuildError("E0303", f"a condition must be bool, found {x.dtype}", "help: compare it, as in (/= x 0)")
    return x


def negate(b: Builder, x: Any) -> Any:
    return (not x) if isinstance(x, bool) else b.elementwise("bit_not", truth(b, x))


def extreme(op: str) -> Callable[..., Tensor]:
    """`max` and `min`: of one operand they reduce, of several they are elementwise."""

    def run(b: Builder, xs: tuple[Tensor, ...], axis: Any = None, keepdims: bool = False) -> Tensor:
        if len(xs) == 1:
            return getattr(b, op)(xs[0], axis, keepdims)
        if axis is not None or keepdims:
            raise BuildError("E0502", f"`{op}` of {len(xs)} operands is elementwise and takes no keywords", "help: of one operand it reduces")
        return folded(op)(b, xs)

    return run


def shift(b: Builder, x: Tensor, count: Tensor) -> Tensor:
    """`ash`: to the left for a positive count, to the right (keeping the sign) for a negative one.  The count may have a signed dtype of its own, so
    that unsigned numbers are shifted to the right too.  One direction alone is computed where the count says that it has no other."""
    known = constant_of(count)
    if isinstance(known, int):
        return b.elementwise("shift_left" if known >= 0 else "shift_right", x, b.constant(abs(known)))
    back, ahead = b.elementwise("neg", count), count
    if not count.weak and not x.weak and count.dtype.kind == "int" and count.dtype is not x.dtype:
        # a distance beyond the width stays one in the other dtype
        back, ahead = (b.cast(b.elementwise("min", c, b.constant(x.dtype.bits)), x.dtype) for c in (back, ahead))
    if never_negative(count.view):
        return b.elementwise("shift_left", x, ahead)
    if count.view.node.op == "neg" and count.view.domain is None and never_negative(count.view.node.args[0]):
        return b.elementwise("shift_right", x, back)
    left, right = b.elementwise("shift_left", x, ahead), b.elementwise("shift_right", x, back)
    return b.where(b.elementwise("less_than", count, b.constant(0)), right, left)


def never_negative(v: View) -> bool:
    """Whether what integers are made of says that they are not below 0: limits, choices and literals."""
    node = v.node
    if v.domain is not None:
        return False
    match node.op:
        case "const":
            return isinstance(node.attr.value, int) and node.attr.value >= 0
        case "max":
            return any(map(never_negative, node.args))
        case "min":
            return all(map(never_negative, node.args))
        case "where":
            return all(map(never_negative, node.args[1:]))
        case "cast":
            return (
                v.dtype.is_integer and node.args[0].dtype.kind == "int" and v.dtype.bits >= node.args[0].dtype.bits and never_negative(node.args[0])
            )
        case _:
            return False


def per_axis(x: Tensor, given: tuple[Any, ...], whole: Any) -> tuple[Any, ...]:
    """One entry an axis: `...` (a `~` in the text) is as many `whole` ones as axes are left."""
    places = [k for k, entry in enumerate(given) if entry is ...]
    if not places:
        return given
    if len(places) > 1:
        raise BuildError("E0503", "`~` stands here twice", "expected: at most one `~`, for the axes that nothing else is given for")
    k, left = places[0], x.rank - len(given) + 1
    if left < 0:
        raise BuildError("E0313", f"{len(given) - 1} entries for a tensor of rank {x.rank}")
    return (*given[:k], *[whole] * left, *given[k + 1 :])


UNARY = "sqrt exp exp2 expm1 log log2 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf floor ceil round trunc abs sign neg recip rsqrt isnan isinf"
for _name in UNARY.split():
    define(_name, "x", row(_name))
define("complex", "re im", complex_values.compose)
for _name in ("real", "imag"):
    define(_name, "z", lambda b, z, _part=_name: complex_values.part(b, _part, z))
define("conj", "z", complex_values.conjugate)
define("angle", "z", row("angle"))
define("+", "x+", folded("add"))
define("*", "x+", folded("mul"))
define("-", "x+", subtract)
define("/", "x+", divide)
define("fma wmma", "a b c", row("fma"))
define("horner", "x c+", horner)
define("mod", "x y", row("mod"))
define("floordiv", "x y", row("floordiv"))
define("pow", "x y", lambda b, x, y: b.pow(x, y))
define("<", "x:any+", compare("less_than"))
define("<=", "x:any+", compare("less_equal"))
define(">", "x:any+", compare("less_than", swap=True))
define(">=", "x:any+", compare("less_equal", swap=True))
define("=", "x:any+", compare("equal"))
define("/=", "x:any+", compare("not_equal"))
define("and", "x:any+", junction("bit_and", True))
define("or", "x:any+", junction("bit_or", False))
define("not", "x:any", negate)
define("logand", "x+", folded("bit_and"))
define("logor", "x+", folded("bit_or"))
define("logxor", "x+", folded("bit_xor"))
define("lognot", "x", row("bit_not"))
define("ash", "x count", shift)
define("where", "condition:any a b", lambda b, c, x, y: b.where(truth(b, c), x, y))
define("max", "x+", extreme("max"), axis=("axes", None), keepdims=("flag", False))
define("min", "x+", extreme("min"), axis=("axes", None), keepdims=("flag", False))

# ---- reduce and scan

for _name in ("sum", "prod", "mean", "any", "all", "logsumexp"):
    define(
        _name, "x", lambda b, x, axis, keepdims, _method=_name: getattr(b, _method)(x, axis, keepdims), axis=("axes", None), keepdims=("flag", False)
    )
for _name in ("argmax", "argmin"):
    define(
        _name, "x", lambda b, x, axis, keepdims, _method=_name: getattr(b, _method)(x, axis, keepdims), axis=("axis", None), keepdims=("flag", False)
    )
define(
    "var",
    "x",
    lambda b, x, axis, keepdims, correction: b.var(x, axis, keepdims, correction),
    axis=("axes", None),
    keepdims=("flag", False),
    correction=("axis", 0),
)
for _name in ("cumsum", "cumprod", "cummax", "cummin"):
    define(_name, "x", lambda b, x, axis, _method=_name: getattr(b, _method)(x, axis), axis=("axis", -1))

# ---- contract

define("matmul", "a b", lambda b, x, y: b.matmul(x, y))
define("einsum", "spec:text x+", lambda b, spec, xs: b.einsum(spec, *xs))

# ---- move

define("reshape", "x d:sizes+", lambda b, x, d: b.reshape(x, d))
define("expand", "x d:sizes+", lambda b, x, d: b.expand(x, d))
define("transpose", "x axis:axes+", lambda b, x, order: b.transpose(x, order))
define("squeeze", "x", lambda b, x, axis: b.squeeze(x, axis), axis=("axes", None))
define("unsqueeze", "x", lambda b, x, axis: b.unsqueeze(x, 0 if axis is None else axis), axis=("axes", None))
define("slice", "x range:ranges+", lambda b, x, ranges: b.slice(x, per_axis(x, ranges, None)))
define("pad", "x width:pairs+", lambda b, x, widths, value: b.pad(x, per_axis(x, widths, (0, 0)), value), value=("literal", None))
define("concat", "x+", lambda b, xs, axis: b.concat(xs, axis), axis=("axis", 0))
define("stack", "x+", lambda b, xs, axis: b.stack(xs, axis), axis=("axis", 0))
define("split", "x size:sizes+", lambda b, x, sizes, axis: b.split(x, sizes, axis), axis=("axis", 0))
define("flip", "x", lambda b, x, axis: b.flip(x, axis), axis=("axes", None))
define("roll", "x shift:size", lambda b, x, count, axis: b.roll(x, count, axis), axis=("axis", -1))
define("tile", "x n:sizes+", lambda b, x, counts: b.tile(x, counts))
define("triu", "x", lambda b, x, k: b.triu(x, k), k=("size", 0))
define("tril", "x", lambda b, x, k: b.tril(x, k), k=("size", 0))
define("unfold", "x", lambda b, x, size, step, axis: b.unfold(x, size, step, axis), size=("size", 1), step=("size", 1), axis=("axis", -1))
define("gather", "x index", lambda b, x, index, axis: b.gather(x, index, axis), axis=("axis", 0))
define("take-along", "x index", lambda b, x, index, axis: b.take_along(x, index, axis), axis=("axis", -1))
define(
    "scatter",
    "base index updates",
    lambda b, base, i, u, axis, combine: b.scatter(base, i, u, axis, combine),
    axis=("axis", 0),
    combine=("text", "set"),
)

# ---- make

define("iota", "n:size", lambda b, n: b.iota(n))
define("full", "shape:shape value", lambda b, shape, value, dtype: b.full(shape, value, dtype), dtype=("type", None))
define("zeros", "shape:shape", lambda b, shape, dtype: b.zeros(shape, dtype), dtype=("type", None))
define("ones", "shape:shape", lambda b, shape, dtype: b.ones(shape, dtype), dtype=("type", None))
define("eye", "n:size", lambda b, n, dtype: b.eye(n, dtype), dtype=("type", None))
define("cast", "type:type x", lambda b, to, x: b.cast(x, to))
define("bitcast", "type:type x", lambda b, to, x: b.bitcast(x, to))

# composites of the library on the positions of a tensor: `evaluate.drawn`
DRAWN = {
    name: Operator(
        name, (Operand("shape", "shape"),), {k: Operand(k, kind, required=False) for k, kind in (("seed", "tensor"), ("dtype", "type"))}, lambda: None
    )
    for name in ("rand", "randn")
}
