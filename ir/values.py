"""Numbers with and without a dtype, broadcasting, elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import complex_values
from .dtypes import INDEX, DType, bool_, f32
from .errors import CompilerBug
from .expr import FALSE, ONE, TRUE, ZERO, Expr, Scalar, as_expr, axis, call, const, product
from .graph import Node, Port, Shape, View, const_node, elementwise, identity, input_node, iota_node, make as make_node, node_of, truth
from .primops import ACCEPTS, OPS, accepts
from .scope import Scope
from .tensor import BuildError, Int, Tensor, show, show_shape

# A plain integer's arithmetic stays an index expression; division only where the divisor is proven positive.
_PLAIN: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": lambda a, b: call("min", a, b), "max": lambda a, b: call("max", a, b),
}  # fmt: skip
_PLAIN_DIVISION: dict[str, Callable[[Expr, Expr], Expr]] = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}
_PLAIN_COMPARE = frozenset({"less_than", "less_equal", "equal", "not_equal"})
_LITERAL: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
}  # fmt: skip


class Values(Scope):
    """See `Builder`."""

    # ---- making

    def of(self, node: Node, weak: str = "") -> Tensor:
        """The node as a tensor."""
        return Tensor(identity(node), node.shape, weak)

    def input(self, port: Port) -> Tensor:
        return self.of(input_node(port))

    def constant(self, value: Scalar, dtype: DType | None = None) -> Tensor:
        """A literal of rank 0; without a dtype a number is weak (a bool is bool)."""
        if dtype is not None:
            return self.of(const_node(literal(value, dtype), dtype, self.span))
        if isinstance(value, bool):
            return self.of(const_node(value, bool_, self.span))
        if isinstance(value, int):
            return self.integer(value)
        return self.of(const_node(value, f32, self.span), "float")

    def integer(self, expr: Int, shape: Sequence[Int] = ()) -> Tensor:
        """A plain integer: an expression of sizes, and of the positions $k where a shape is given."""
        extents = tuple(as_expr(e) for e in shape)
        return self.of(iota_node(self.tidy(expr, extents), extents, self.span), "int")

    def iota(self, extent: Int) -> Tensor:
        """0, 1, …, extent-1: plain integers of shape [extent]."""
        return self.integer(axis(0), (self.extent(extent),))

    def row_major(self, shape: Sequence[Int]) -> Tensor:
        """0, 1, … in row-major order: plain integers of this shape."""
        position: Expr = ZERO
        for k, extent in enumerate(shape):
            position = position * extent + axis(k)
        return self.integer(position, shape)

    def mask(self, condition: Expr, shape: Shape) -> Tensor:
        """A bool tensor that is true where the condition on the positions $k holds: a masked view of the constant true."""
        condition = self.tidy(condition, shape)
        if condition.is_const:
            return Tensor(View(const_node(condition.attr, bool_, self.span), ()), shape)
        return Tensor(truth(condition, self.span), shape)

    # ---- leaving the builder

    def node(self, x: Tensor) -> Node:
        """The tensor as one node of its own shape (a `contiguous` where its view is no identity)."""
        return node_of(x.view, x.shape, self.span)

    def contiguous(self, x: Tensor) -> Tensor:
        """The tensor made real."""
        return self.of(self.node(x), x.weak)

    def output(self, x: Tensor, dtype: DType, shape: Sequence[Int]) -> Node:
        """The node for an output port: weak numbers take its dtype; E0301, E0302, E0311, E0313."""
        if x.weak:
            x = self.retype(x, dtype)
        if x.dtype is not dtype:
            raise BuildError("E0301", f"the output is {dtype} but its value is {x.dtype}", f"try (cast {dtype} …)")
        if len(shape) != x.rank:
            raise BuildError("E0313", f"the output has rank {len(shape)} but its value has rank {x.rank}", f"its shape is {show_shape(x.shape)}")
        for k, (wanted, found) in enumerate(zip(shape, x.shape, strict=True)):
            self.check_same(wanted, found, f"axis {k} of the output and of its value")
        return self.node(Tensor(x.view, tuple(self.tidy(e) for e in shape)))

    def position(self, x: Tensor) -> Expr:
        """The integer expression over sizes that a rank-0 tensor is; E0313, E0318, E0320."""
        if x.rank:
            raise BuildError("E0313", f"a single integer is expected here, not a tensor of shape {show_shape(x.shape)}")
        if x.weak != "int" and not x.dtype.is_integer:
            raise BuildError("E0318", f"an integer is expected here, not {x.dtype}")
        if x.integer is None:
            raise BuildError("E0320", "this integer is not known at compile time", "it must be made of literals and sizes")
        return self.tidy(x.integer)

    # ---- dtypes

    def retype(self, x: Tensor, to: DType, asked: bool = False) -> Tensor:
        """A weak number in a dtype of its own; E0302 for a float literal that meets an integer dtype, E0301 for a number that meets bool, E0304 for an integer
        that the dtype does not hold, which wraps where the conversion is `asked` for."""
        assert x.weak
        if to.is_complex:
            real = self.retype(x, f32)
            view = real.view
            node = (
                const_node(view.node.attr.value, to, self.span)
                if view.node.op == "const"
                else elementwise("cast", view.node.shape, identity(view.node), to=to)
            )
            return Tensor(View(node, view.index, view.domain, view.fill), x.shape)
        if x.weak == "float" and not to.is_float:
            raise BuildError("E0302", f"a float literal beside {to}", f"cast the {to} operand to a float dtype first, as in (cast f32 x)")
        if to.kind == "bool":
            raise BuildError("E0301", "a plain integer beside bool", "cast the bool operand first, as in (cast i64 x)")
        view = x.view
        fill = held(view.fill, to, asked)
        value = x.integer
        if value is not None and value.is_const:
            return Tensor(View(const_node(held(value.attr, to, asked), to, self.span), ()), x.shape)
        if x.weak == "int":
            node = view.node if to is INDEX else elementwise("cast", view.node.shape, identity(view.node), to=to, span=self.span)
        else:
            node = retyped(view.node, to)
        return Tensor(View(node, view.index, view.domain, fill), x.shape)

    def unify(self, *xs: Tensor, what: str = "the operands") -> tuple[Tensor, ...]:
        """The operands in one dtype: weak numbers take the dtype of the others, and stay weak where all are; E0301, E0302."""
        strong = [x for x in xs if not x.weak]
        if strong:
            to = strong[0].dtype
            for x in strong:
                if x.dtype is not to:
                    wider = x.dtype if x.dtype.is_complex else to
                    raise BuildError("E0301", f"{what} are {to} and {x.dtype}", "note: dtypes are never converted silently", f"try (cast {wider} …)")
            return tuple(self.retype(x, to) if x.weak else x for x in xs)
        if all(x.weak == "int" for x in xs):
            return xs
        return tuple(self.weak_float(x) for x in xs)

    def weak_float(self, x: Tensor) -> Tensor:
        """A weak number as a weak float."""
        if x.weak == "float":
            return x
        y = self.retype(x, f32)
        return Tensor(y.view, y.shape, "float")

    def strong(self, x: Tensor) -> Tensor:
        """A weak number alone: i64 or f32; E0304."""
        if x.weak == "int" and x.integer is not None and x.integer.is_const:
            held(x.integer.attr, INDEX)
        return Tensor(x.view, x.shape)

    def cast(self, x: Tensor, to: DType) -> Tensor:
        """The value in another dtype; a constant is converted at once."""
        if x.weak == "int" and to.kind != "bool":
            return self.retype(x, to, asked=True)
        if x.weak == "float" and to.is_inexact:
            return self.retype(x, to)
        if x.dtype is to:
            return self.strong(x)
        if x.dtype.is_complex:
            return complex_values.cast_from(self, x, to)
        view = x.view
        if view.node.op == "const" and not x.dtype.is_float:
            return Tensor(
                View(const_node(held(view.node.attr.value, to, asked=True), to, self.span), (), view.domain, held(view.fill, to, asked=True)), x.shape
            )
        return self.of(elementwise("cast", x.shape, view, to=to, span=self.span))

    def bitcast(self, x: Tensor, to: DType) -> Tensor:
        """The same bits as a dtype of the same width; E0303."""
        if x.dtype is not to and (x.dtype.is_complex or to.is_complex):
            raise BuildError("E0303", f"bitcast from {x.dtype} to {to}: a complex number has two parts")
        if x.dtype.bits != to.bits or "bool" in (x.dtype.kind, to.kind):
            raise BuildError("E0303", f"bitcast from {x.dtype} to {to}: both must be numbers of one width")
        return self.strong(x) if x.dtype is to else self.of(elementwise("bitcast", x.shape, x.view, to=to, span=self.span))

    # ---- shapes

    def broadcast_shape(self, *shapes: Shape) -> Shape:
        """NumPy's broadcasting; only a literal 1 stretches; E0310."""
        rank = max(len(s) for s in shapes)
        result: list[Expr] = []
        for k in range(-rank, 0):
            extent = ONE
            for s in shapes:
                if -k > len(s) or s[k] is ONE:
                    continue
                if extent is ONE:
                    extent = s[k]
                elif not self.same(extent, s[k]):
                    listed = " and ".join(show_shape(s) for s in shapes)
                    what = f"shapes {listed} do not broadcast: {show(extent)} and {show(s[k])} are not provably equal at axis {k}"
                    raise BuildError("E0310", what, *self.with_an_axis_more(shapes))
            result.append(extent)
        return tuple(result)

    def with_an_axis_more(self, shapes: Sequence[Shape]) -> tuple[str, ...]:
        """A help where a shape broadcasts once it has an axis of 1 more: statistics of rows that lost their axis, positions of rows beside those of columns."""
        few, many = sorted(shapes, key=len) if len(shapes) == 2 else ((), ())
        if len(few) == len(many) == 1:
            return ("where each element of one meets each of the other, one of them is a column: (unsqueeze … :axis 1)",)
        if len(few) + 1 != len(many):
            return ()
        for k in range(len(few), -1, -1):
            if all(ONE in pair or self.same(*pair) for pair in zip((*few[:k], ONE, *few[k:]), many, strict=True)):
                return (f"(unsqueeze … :axis {k}) gives {show_shape(few)} the axis that it lacks, or :keepdims t where it was reduced",)
        return ()

    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Broadcast to `shape`, aligned at the last axis; -1 keeps an extent; E0310, E0313."""
        if len(shape) < x.rank:
            raise BuildError("E0313", f"rank {x.rank} does not expand to rank {len(shape)}")
        self.check_rank(len(shape))
        new = len(shape) - x.rank
        wanted = tuple(x.shape[k - new] if as_expr(e) is const(-1) and k >= new else self.extent(e) for k, e in enumerate(shape))
        if self.broadcast_shape(x.shape, wanted) != wanted and not all(
            self.same(a, b) for a, b in zip(self.broadcast_shape(x.shape, wanted), wanted, strict=True)
        ):
            raise BuildError("E0310", f"shape {show_shape(x.shape)} does not expand to {show_shape(wanted)}")
        mapping = {axis(k): ZERO if x.shape[k] is ONE and wanted[new + k] is not ONE else axis(new + k) for k in range(x.rank)}
        return Tensor(x.view.through(mapping), wanted, x.weak)

    # ---- elementwise

    def elementwise(self, op: str, *xs: Tensor) -> Tensor:
        """The row `op` of `primops.OPS` with broadcasting and weak numbers; E0301, E0302, E0303, E0310.  A condition on plain integers gives a mask
        and `where` on a mask with a constant a masked view, so positions are never compared at run time where a loop bound says the same."""
        row = OPS[op]
        if row.result == "to" or op == "where":
            raise CompilerBug("build", f"{op} has a method of its own")
        if op == "pow":
            return self.pow(*xs)
        if any(x.dtype.is_complex for x in xs):
            found = complex_values.special(self, op, xs)
            if found is not None:
                return found
        xs = self.unify(*xs, what=f"the operands of {op}")
        if row.accepts in ("float", "smooth") and xs[0].weak == "int" and op != "div":
            xs = tuple(self.weak_float(x) for x in xs)
        self.check_accepts(op, xs[0].dtype)
        shape = self.broadcast_shape(*(x.shape for x in xs))
        xs = tuple(self.expand(x, shape) for x in xs)
        folded = self.fold_plain(op, xs, shape) or self.fold_mask(op, xs, shape)
        if folded is not None:
            return folded
        result = self.of(elementwise(op, shape, *(x.view for x in xs), span=self.span))
        return Tensor(result.view, shape, xs[0].weak if row.result in ("same", "part") else "")

    def check_accepts(self, op: str, dtype: DType) -> None:
        """E0303 unless the operator takes the dtype."""
        if accepts(OPS[op], dtype):
            return
        if dtype.is_complex:
            note = (
                "complex numbers have no order: compare (abs z) or (real z)" if OPS[op].accepts == "ordered" else "take (real z), (imag z) or (abs z)"
            )
            raise BuildError("E0303", f"{op} does not take {dtype}", note)
        note = (
            "use floordiv, or cast to a float dtype first"
            if op == "div"
            else f"{op} takes {' '.join(k for k in ACCEPTS[OPS[op].accepts] if k != 'complex')}; cast first"
        )
        raise BuildError("E0303", f"{op} does not take {dtype}", note)

    def fold_plain(self, op: str, xs: tuple[Tensor, ...], shape: Shape) -> Tensor | None:
        """Arithmetic and comparison of plain integers as one index expression; of float literals as a literal."""
        values = [x.integer for x in xs]
        if all(v is not None for v in values):
            found = [v for v in values if v is not None]
            if op == "neg":
                return self.integer(-found[0], shape)
            if op in _PLAIN:
                return self.integer(_PLAIN[op](*found), shape)
            if op in _PLAIN_DIVISION and self.proves(ZERO.lt(found[1]), shape):
                return self.integer(_PLAIN_DIVISION[op](*found), shape)
            if op in _PLAIN_COMPARE:
                return self.mask(call(op, *found), shape)
        if op in _LITERAL and all(x.weak == "float" and x.view.node.op == "const" and x.view.domain is None for x in xs):
            return self.full(shape, _LITERAL[op](*(x.view.node.attr.value for x in xs)))
        return None

    def condition(self, x: Tensor) -> Expr | None:
        """The condition on positions that a bool tensor is a mask of, or None where it depends on data."""
        view = x.view
        if view.node.op != "const" or x.dtype is not bool_:
            return None
        inside, outside = const(view.node.attr.value, bool_), const(view.fill, bool_)
        if view.domain is None or inside is outside:
            return inside
        return view.domain if inside is TRUE else call("bit_not", view.domain)

    def fold_mask(self, op: str, xs: tuple[Tensor, ...], shape: Shape) -> Tensor | None:
        """Logic on masks is a mask."""
        if xs[0].dtype is not bool_ or op not in ("bit_and", "bit_or", "bit_not", "bit_xor"):
            return None
        conditions = [self.condition(x) for x in xs]
        if any(c is None for c in conditions):
            return None
        found = [c for c in conditions if c is not None]
        return self.mask(call("not_equal" if op == "bit_xor" else op, *found), shape)

    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """a where the condition holds, else b; a mask with a constant on one side makes a masked view of the other; E0301, E0303, E0310."""
        if condition.dtype is not bool_:
            raise BuildError("E0303", f"the condition of where is {condition.dtype}, not bool", "compare, as in (/= x 0)")
        a, b = self.unify(a, b, what="the branches of where")
        shape = self.broadcast_shape(condition.shape, a.shape, b.shape)
        condition, a, b = (self.expand(x, shape) for x in (condition, a, b))
        test = self.condition(condition)
        if test is not None:
            for x, other, chosen in ((a, b, test), (b, a, call("bit_not", test))):
                fill = constant_value(other)
                if fill is not None:
                    return self.masked(x, chosen, fill)
        return Tensor(self.of(elementwise("where", shape, condition.view, a.view, b.view, span=self.span)).view, shape, a.weak)

    def masked(self, x: Tensor, condition: Expr, fill: Scalar) -> Tensor:
        """x where the condition on the positions $k holds, else the fill: a view, but for a second fill on a view that has one."""
        condition = self.tidy(condition, x.shape)
        fill = literal(fill, x.dtype)
        if condition is TRUE:
            return x
        view = x.view
        if view.domain is not None and not same_literal(view.fill, fill, x.dtype):
            outside = self.constant(fill, x.dtype)
            node = elementwise("where", x.shape, self.mask(condition, x.shape).view, view, self.expand(outside, x.shape).view, span=self.span)
            return Tensor(identity(node), x.shape, x.weak)
        if condition is FALSE:
            return Tensor(View(const_node(fill, x.dtype, self.span), ()), x.shape, x.weak)
        domain = condition if view.domain is None else self.tidy(call("bit_and", view.domain, condition), x.shape)
        return Tensor(View(view.node, view.index, domain, fill), x.shape, x.weak)

    def full(self, shape: Sequence[Int], value: Scalar | Tensor, dtype: DType | None = None) -> Tensor:
        """`value` everywhere; without a dtype it is as weak as the value."""
        x = value if isinstance(value, Tensor) else self.constant(value)
        return self.expand(x if dtype is None else self.cast(x, dtype), shape)

    def zeros(self, shape: Sequence[Int], dtype: DType | None = None) -> Tensor:
        return self.full(shape, 0.0, dtype)

    def ones(self, shape: Sequence[Int], dtype: DType | None = None) -> Tensor:
        return self.full(shape, 1.0, dtype)

    def pow(self, x: Tensor, y: Tensor) -> Tensor:
        """x ** y.  A small integer literal as exponent becomes multiplications (an exact square, a reciprocal for floats where negative)."""
        exponent = None if y.integer is None or y.rank else y.integer
        if exponent is not None and exponent.is_const and abs(exponent.attr) <= 64 and (exponent.attr >= 0 or x.dtype.is_inexact):
            return self.integer_power(x, exponent.attr)
        if x.dtype.is_complex or y.dtype.is_complex:
            return complex_values.power(self, x, y)
        x, y = self.unify(x, y, what="the operands of pow")
        self.check_accepts("pow", x.dtype)
        shape = self.broadcast_shape(x.shape, y.shape)
        node = elementwise("pow", shape, self.expand(x, shape).view, self.expand(y, shape).view, span=self.span)
        return Tensor(identity(node), shape, x.weak)

    def integer_power(self, x: Tensor, n: int) -> Tensor:
        """By repeated squaring; x ** 0 is 1."""
        self.check_accepts("mul", x.dtype)
        if n < 0:
            return self.elementwise("recip", self.integer_power(x, -n))
        result: Tensor | None = None
        square = x
        while n:
            if n & 1:
                result = square if result is None else self.elementwise("mul", result, square)
            n >>= 1
            if n:
                square = self.elementwise("mul", square, square)
        if result is None:
            one = self.constant(1)
            return self.expand(one if x.weak == "int" else self.weak_float(one) if x.weak else self.cast(one, x.dtype), x.shape)
        return result

    def elements(self, shape: Sequence[Expr]) -> Expr:
        """The number of positions of a shape."""
        return self.tidy(product(shape))


def literal(value: Scalar, dtype: DType) -> Scalar:
    """The value as a literal of the dtype; float to integer truncates."""
    return const(value, dtype).attr


def held(value: Scalar, dtype: DType, asked: bool = False) -> Scalar:
    """A plain number as a literal.  An integer that an integer dtype does not hold is E0304, or, where the conversion is asked for, what it wraps to."""
    if not (dtype.is_integer and isinstance(value, int)) or dtype.min <= value <= dtype.max:
        return literal(value, dtype)
    if asked:
        return (value - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)
    raise BuildError("E0304", f"{dtype} does not hold the number {value}: it holds {dtype.min} to {dtype.max}", f"(cast {dtype} {value}) wraps")


def same_literal(a: Scalar, b: Scalar, dtype: DType) -> bool:
    """The same literal, bits and all (so 0.0 is not -0.0)."""
    return const(a, dtype) is const(b, dtype)


def constant_value(x: Tensor) -> Scalar | None:
    """The literal that a tensor is everywhere, or None."""
    if x.view.domain is not None:
        return None
    if x.view.node.op == "const":
        return x.view.node.attr.value
    value = x.integer
    return value.attr if value is not None and value.is_const else None


def retyped(root: Node, to: DType) -> Node:
    """A weak float's graph made again in another float dtype.  What is f32 below it came of literals and plain integers; operands of another
    dtype (positions, conditions) stay as they are."""
    done: dict[Node, Node] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [a.node for a in node.args if a.dtype is f32 and a.node not in done]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        args = tuple(View(done[a.node], a.index, a.domain, literal(a.fill, to)) if a.dtype is f32 else a for a in node.args)
        attr = const_node(literal(node.attr.value, to), to).attr if node.op == "const" else node.attr
        done[node] = make_node(node.op, to, node.shape, args, attr, node.span)
    return done[root]
