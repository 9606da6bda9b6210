"""Scalar expressions: interned, immutable DAG nodes shared by every level.

    expr    ::= literal
              | name                        a size, a loop variable, a scalar or a `let`: which one, the declarations in scope say (a size is never shadowed)
              | $k                          position along axis k of the enclosing graph node's domain
              | name[expr, …]               load: logical indices at the kernel level, one flat address at the program level
              | OP(expr, …)                 a row of `primops.OPS`; its dtype follows from the operands
              | cast.DTYPE(expr) | bitcast.DTYPE(expr)      of a vector, `bitcast` may also give the scalar of as many bits, the first lane in the lowest, or a vector of such scalars
              | expr INFIX expr | -expr | ~expr | (expr)
              | first(name) | last(name)    the loop over the axis is at its first / last trip          (kernel level only)
              | (@INT = expr) | @INT        a part that occurs again: written out once, then by number; the numbers live as long as the one expression
              | broadcast.LANES(expr)       every lane the same                                         (this and the rest: program level only)
              | ramp.LANES                  the vector 0, 1, …, LANES-1 of i64
              | extract(expr, INT)          one lane of a vector
              | vload.LANES name[expr]      LANES consecutive elements from a flat address
              | vload.LANES name[expr, expr]  only the first so many of them (none below 0, all from LANES on); 0 in the other lanes
              | vload.LANES name[expr, expr, expr]  and of these not the first so many
              | gather.LANES name[expr]     one element from each of the flat addresses of a vector
              | fold.COMBINER(expr)         a vector's lanes combined by a fixed tree
              | zip_low(expr, expr)         the lanes of two vectors in turn, as many as one has: those of the lower halves
              | zip_high(expr, expr)        those of the upper halves
              | unzip(expr, expr)           the even lanes of the first vector, then the odd lanes of the second
              | pick(expr, expr, 0, 0, 1, …)  these lanes of two vectors, counted through both
              | to_line(name)               from the first element of a buffer to the next one that begins a line of the cache, in elements: what
                                            a schedule may go by, never a result (the interpreter says 3)
              | null(name)                  the pointer is null                                         (entry of a program only)
              | overlap(name, expr, name, expr)
                                            the ranges of so many bytes from two pointers meet; false where either is empty   (entry only)
              | ins.NAME:DTYPE(expr, …)     an instruction of the runtime's table and what it gives; those of `ir/instructions.py` at the kernel level too

    INFIX   ::= |  ^  &  == != < <=  << >>  + -  * / // %      loosest first, as the rows bit_or bit_xor bit_and, equal not_equal less_than less_equal,
                                                               shift_left shift_right, add sub, mul div floordiv mod; `-x` is neg, `~x` bit_not
    literal ::= INT | true | false | NUMBER:DTYPE              3   -1   0.5:f32   -0.0:f16   inf:f32   nan:f64   7:u8   (a bare integer is i64);
                                                               of c64 a real number: 1.0:c64
    name    ::= [A-Za-z_][A-Za-z0-9_]* ("." [A-Za-z0-9_]+)*  |  STRING       in quotes where a keyword or another form could be meant

Operators group to the left, comparisons not at all; `i < M & j < N` needs no parentheses.  On i64 a minus means what it means in Python on an `Expr`:
`a - b` is `a + b * -1` and `-b` is `b * -1`, the product folded, and the rows sub and neg are written `sub(a, b)` and `neg(b)`.  Nothing else is folded by reading.
`where` is lazy wherever its condition is one scalar, between vectors too; a vector of conditions chooses lane by lane and both sides are evaluated.
A STRING is in double quotes; a backslash stands before a quote and a backslash in it, and in `\\n`, `\\t`, `\\u{HEX}`.  `#` begins a comment, to the end of the line.

Equality is identity: two expressions that are built alike are the same object, so CSE is free and `is` compares.  The key holds the
type and the bits of a literal, so 1, 1.0, True and -0.0 stay apart.  Arithmetic on sizes and indices (dtype i64) is exact by definition;
`ir/simplify.py` may use the algebra of the integers on it.  Arithmetic on *values* has the dtype's own rules and is never simplified as an index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from sys import getrefcount
from typing import Any, Final

from .dtypes import INDEX, DType, bool_
from .operator_kinds import CHOOSES, DIVIDES, ENDS, FOLDS, FUNCTIONS, GATHERS, LONG, MERGES, PARTIAL, QUOTIENTS
from .primops import OPS, result_of

Scalar = int | float | bool


class Expr:
    """One interned node.  Build it with the functions below, never directly."""

    __slots__ = ("args", "attr", "buffers", "canonical", "dtype", "is_const", "is_position", "key", "kinds", "names", "op", "order", "poly", "typed")
    op: str  # const | axis | size | var | load | first | last | an operator of the table | a program-level form
    args: tuple[Expr, ...]
    attr: Any  # const: the value; axis: its number; size, var, load, first, last, to_line: the name; fold: the combiner; extract: the lane; ins: the name;
    # null: the buffer; overlap: the two buffers
    dtype: DType
    is_const: bool
    is_position: bool  # an i64 or bool expression of sizes, variables and positions alone: no values, which wrap
    names: frozenset[str]  # of all sizes, variables, loops (in `first` and `last`), buffers (in `to_line`) and positions ("$k" for axis k) in it
    buffers: frozenset[str]  # that it loads from
    kinds: int  # which of the operators that passes look for stand in it, so that few are walked to find one (bits: DIVIDES, CHOOSES, …)
    # what `polynomial.py` and `postorder` remember of it, None before it was asked: a map beside the nodes would cost more than most answers
    key: str | None
    order: tuple[Expr, ...] | None  # of `postorder`, where it is short
    poly: dict[tuple[Expr, ...], int] | None
    canonical: bool  # whether it is a sum or product as `polynomial.expr` writes it
    typed: bool  # whether the verifier has found that this operator fits its operands: nodes are immutable, so it is not asked again

    def __repr__(self) -> str:
        from .text import show_expr

        return show_expr(self)

    def __add__(self, other: Expr | int) -> Expr:
        return add(self, other if isinstance(other, Expr) else const(other))

    def __radd__(self, other: Expr | int) -> Expr:
        return add(as_expr(other), self)

    def __sub__(self, other: Expr | int) -> Expr:
        return add(self, mul(other, const(-1)) if isinstance(other, Expr) else const(-other))

    def __rsub__(self, other: Expr | int) -> Expr:
        return add(as_expr(other), mul(self, const(-1)))

    def __neg__(self) -> Expr:
        return mul(self, const(-1))

    def __mul__(self, other: Expr | int) -> Expr:
        return mul(self, other if isinstance(other, Expr) else const(other))

    def __rmul__(self, other: Expr | int) -> Expr:
        return mul(as_expr(other), self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return floordiv(self, as_expr(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return mod(self, as_expr(other))

    def lt(self, other: Expr | int) -> Expr:
        return call("less_than", self, as_expr(other))

    def le(self, other: Expr | int) -> Expr:
        return call("less_equal", self, as_expr(other))

    def eq(self, other: Expr | int) -> Expr:
        return call("equal", self, as_expr(other))


# The nodes that there are.  Weak references would say at once which are dead, but classes that are compiled ahead of time have none: here the dead are left lying until the table has doubled.
_interned: Final[dict[tuple[Any, ...], Expr]] = {}
_room = 1 << 15


def _forget() -> None:
    """A function of its own: its loop holds the last node, which the sweep could not count else."""
    for node in _interned.values():
        node.order = node.poly = None


def _sweep() -> None:
    """Drop the nodes that nothing but the table holds.  Users stand behind their operands, and hold them: from the end, one pass finds all.  What a node remembers of itself may hold it, and is
    forgotten first.  The entry put at the end is nobody's, and tells how many references this loop itself has."""
    global _room
    _forget()
    _interned[()] = Expr()
    own = 0
    kept: list[tuple[tuple[Any, ...], Expr]] = []
    while _interned:
        entry = _interned.popitem()
        count = getrefcount(entry[1])
        if own == 0:
            own = count
        elif count > own:
            kept.append(entry)
    kept.reverse()
    _interned.update(kept)
    _room = max(_room, 2 * len(_interned))


_NO_NAMES: Final[frozenset[str]] = frozenset()
_NAMED: Final = frozenset({"size", "var", "first", "last", "to_line"})
_LOADS: Final = frozenset({"load", "vload", "gather"})
_NO_POSITIONS: Final = frozenset({"load", "bitcast", "null", "ins"})
_KINDS: Final = dict.fromkeys(FUNCTIONS, LONG) | {
    "floordiv": DIVIDES, "mod": DIVIDES, "where": CHOOSES, "bit_or": MERGES, "gather": GATHERS, "first": ENDS, "last": ENDS, "div": QUOTIENTS, "fold": FOLDS,
}  # fmt: skip


def make(op: str, dtype: DType, args: tuple[Expr, ...] = (), attr: Any = None) -> Expr:
    """The one expression with these parts.  No folding happens here."""
    key: tuple[Any, ...]
    if len(args) == 2:  # most have two operands: a tuple within the tuple takes longer to look up
        key = (op, dtype, attr, args[0], args[1])
    elif op == "const":
        key = (dtype, type(attr), struct.pack("<d", attr) if type(attr) is float else attr)
    else:
        key = (op, dtype, args, attr)
    known = _interned.get(key)
    if known is not None:
        return known
    found = Expr()
    found.op, found.args, found.attr, found.dtype = op, args, attr, dtype
    found.is_const = op == "const"
    found.key = found.poly = found.order = None
    found.typed = found.canonical = False
    position = (dtype is INDEX or dtype is bool_) and op not in _NO_POSITIONS
    kinds = _KINDS.get(op, 0) if op != "vload" or len(args) == 1 else PARTIAL
    if args:
        names, buffers = args[0].names, args[0].buffers
        for a in args:
            kinds |= a.kinds
            if not a.is_position:
                position = False
            # nearly always one set holds the other: expressions share it
            if a.names is not names and not a.names <= names:
                names = a.names if names <= a.names else names | a.names
            if a.buffers is not buffers and not a.buffers <= buffers:
                buffers = a.buffers if buffers <= a.buffers else buffers | a.buffers
    else:
        names = frozenset((str(attr),)) if op in _NAMED else frozenset((f"${attr}",)) if op == "axis" else _NO_NAMES
        buffers = _NO_NAMES
    found.names, found.is_position, found.kinds = names, position, kinds
    found.buffers = buffers | {str(attr)} if op in _LOADS else buffers
    _interned[key] = found
    if len(_interned) > _room:
        _sweep()
    return found


def _of_two(op: str, dtype: DType, a: Expr, b: Expr) -> Expr:
    """`make`, where it is nearly always there already."""
    known = _interned.get((op, dtype, None, a, b))
    return make(op, dtype, (a, b)) if known is None else known


# ---- leaves


SMALL: Final = 256
_small: Final[dict[int, Expr]] = {}  # the literals that every address has


def const(value: Scalar, dtype: DType = INDEX) -> Expr:
    """A literal; the value is brought to the Python type of the dtype's kind (NaN has one representation)."""
    if dtype is INDEX and type(value) is int:
        found = _small.get(value)
        if found is None:
            found = make("const", INDEX, (), value)
            if -SMALL <= value <= SMALL:
                _small[value] = found
        return found
    if dtype.is_inexact:
        value = float(value)
        value = float("nan") if value != value else value
    elif dtype.kind == "bool":
        value = bool(value)
    else:
        value = int(value)
    return make("const", dtype, (), value)


TRUE: Final = const(True, bool_)
FALSE: Final = const(False, bool_)
ZERO: Final = const(0)
ONE: Final = const(1)


def axis(number: int) -> Expr:
    return _axes[number] if 0 <= number < len(_axes) else make("axis", INDEX, (), number)


_axes: Final = tuple([make("axis", INDEX, (), k) for k in range(8)])  # which every view has


def size(name: str) -> Expr:
    return make("size", INDEX, (), name)


def var(name: str, dtype: DType = INDEX) -> Expr:
    """A loop variable (i64), a scalar parameter or a `let`."""
    found = _interned.get(("var", dtype, (), name))
    return make("var", dtype, (), name) if found is None else found


def load(buffer: str, dtype: DType, *index: Expr) -> Expr:
    return make("load", dtype, index, buffer)


def first(axis_name: str) -> Expr:
    return make("first", bool_, (), axis_name)


def last(axis_name: str) -> Expr:
    return make("last", bool_, (), axis_name)


def to_line(buffer: str) -> Expr:
    """Elements from the start of a buffer to the next line of the cache; the memory that a caller gives begins anywhere."""
    return make("to_line", INDEX, (), buffer)


SOMEWHERE: Final = 3  # what interpreters say of `to_line`: no machine's own answer, and odd


def null(buffer: str) -> Expr:
    return make("null", bool_, (), buffer)


def overlap(a: str, a_bytes: Expr, b: str, b_bytes: Expr) -> Expr:
    """Whether `a_bytes` bytes from pointer `a` and `b_bytes` bytes from pointer `b` share a byte."""
    return make("overlap", bool_, (a_bytes, b_bytes), (a, b))


# The forms of vectors.  `attr` holds the buffer (vload, gather), the lane (extract) or the combiner (fold); the lanes stand in the dtype.


def broadcast(x: Expr, lanes: int) -> Expr:
    """Every lane the scalar `x`."""
    return make("broadcast", x.dtype.vector(lanes), (x,))


def ramp(lanes: int) -> Expr:
    """0, 1, …, lanes-1 as i64."""
    return make("ramp", INDEX.vector(lanes))


def extract(x: Expr, lane: int) -> Expr:
    return make("extract", x.dtype.element, (x,), lane)


def vload(buffer: str, element: DType, lanes: int, address: Expr, count: Expr | None = None, skip: Expr | None = None) -> Expr:
    """`lanes` consecutive elements from the flat scalar `address`; with `count` only the first so many (without the first `skip`), and 0 in the other lanes."""
    return make("vload", element.vector(lanes), tuple(e for e in (address, count, skip) if e is not None), buffer)


def gather(buffer: str, element: DType, addresses: Expr) -> Expr:
    """One element from each of the flat `addresses` (a vector of i64)."""
    return make("gather", element.vector(addresses.dtype.lanes), (addresses,), buffer)


def fold(combiner: str, x: Expr) -> Expr:
    """The lanes of `x` combined: the halves with each other, lane by lane, until one is left."""
    return make("fold", x.dtype.element, (x,), combiner)


def zip_halves(a: Expr, b: Expr, high: bool) -> Expr:
    """a0, b0, a1, b1, … of the lower halves of two vectors (`high`: of the upper halves)."""
    return make("zip_high" if high else "zip_low", a.dtype, (a, b))


def unzip(a: Expr, b: Expr) -> Expr:
    """a0, a2, …, b1, b3, …: every other one of consecutive elements, where `b` starts with the last one of `a`."""
    return make("unzip", a.dtype, (a, b))


def pick(a: Expr, b: Expr, lanes: tuple[int, ...]) -> Expr:
    """These lanes of two vectors of one dtype, those of `b` counted on from those of `a`."""
    return make("pick", a.dtype.element.vector(len(lanes)), (a, b), lanes)


def as_expr(value: Expr | int) -> Expr:
    return value if isinstance(value, Expr) else const(value)


# ---- operators


def call(name: str, *args: Expr, to: DType | None = None) -> Expr:
    """The operator `name` of the table on `args`; `to` is the result of cast and bitcast.  Checks arity and dtypes, folds nothing."""
    row = OPS[name]
    assert len(args) == row.arity, f"{name} takes {row.arity} operands"
    if row.result == "to":
        assert to is not None
        return make(name, to, args)
    result = args[-1].dtype
    for a in args[1:] if name == "where" else args:
        assert a.dtype is result, f"{name} on {[a.dtype for a in args]}"
    if row.result not in ("same", "select"):
        result = result_of(row, (result,) * len(args))
    return make(name, result, args)


def cast(to: DType, x: Expr) -> Expr:
    return x if x.dtype is to else call("cast", x, to=to)


def where(c: Expr, a: Expr, b: Expr) -> Expr:
    return call("where", c, a, b)


# Integer arithmetic on sizes and indices folds the obvious at once; values go through `call`.


def add(a: Expr, b: Expr) -> Expr:
    if a.is_const and b.is_const:
        return const(a.attr + b.attr)
    if a.is_const:
        a, b = b, a
    if b is ZERO:
        return a
    if b.is_const and a.op == "add" and a.args[1].is_const:
        return add(a.args[0], const(a.args[1].attr + b.attr))
    assert a.dtype is b.dtype
    return _of_two("add", a.dtype, a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if a.is_const and b.is_const:
        return const(a.attr * b.attr)
    if a.is_const:
        a, b = b, a
    if b is ZERO or b is ONE:
        return ZERO if b is ZERO else a
    if b.is_const and a.op == "mul" and a.args[1].is_const:
        return mul(a.args[0], const(a.args[1].attr * b.attr))
    assert a.dtype is b.dtype
    return _of_two("mul", a.dtype, a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    if b is ONE:
        return a
    if a.is_const and b.is_const and b.attr != 0:
        return const(a.attr // b.attr)
    assert a.dtype is b.dtype
    return _of_two("floordiv", a.dtype, a, b)


def mod(a: Expr, b: Expr) -> Expr:
    if b is ONE:
        return ZERO
    if a.is_const and b.is_const and b.attr != 0:
        return const(a.attr % b.attr)
    assert a.dtype is b.dtype
    return _of_two("mod", a.dtype, a, b)


def ceildiv(a: Expr, b: Expr | int) -> Expr:
    """ceil(a / b) for b > 0."""
    b = as_expr(b)
    return floordiv(a + b - 1, b)


def minimum(a: Expr, b: Expr | int) -> Expr:
    b = as_expr(b)
    if a is b:
        return a
    return const(min(a.attr, b.attr)) if a.is_const and b.is_const else call("min", a, b)


def maximum(a: Expr, b: Expr | int) -> Expr:
    b = as_expr(b)
    if a is b:
        return a
    return const(max(a.attr, b.attr)) if a.is_const and b.is_const else call("max", a, b)


def both(*conditions: Expr | None) -> Expr | None:
    """The conjunction; None stands for true and is what an empty conjunction gives."""
    result: Expr | None = None
    for c in conditions:
        if c is None or c is TRUE or c is result:
            continue
        result = c if result is None else call("bit_and", result, c)
    return result


def in_range(index: Iterable[Expr], shape: Iterable[Expr]) -> Expr:
    """That a position is inside a tensor of this shape."""
    return both(TRUE, *(both(ZERO.le(e), e.lt(extent)) for e, extent in zip(index, shape, strict=True))) or TRUE


def product(factors: Iterable[Expr]) -> Expr:
    result: Expr | None = None
    for f in factors:
        result = f if result is None else mul(result, f)
    return ONE if result is None else result


def total(terms: Iterable[Expr]) -> Expr:
    result: Expr | None = None
    for t in terms:
        result = t if result is None else add(result, t)
    return ZERO if result is None else result
