"""The operator table: the closed set of 27 primops, and the derived operators that decompose into them.

One row an operator: name, number of operands, rule for the result's dtype, error in ULP that an implementation may add
(0 = exact or correctly rounded counts as 1/2, see `ulp`), and what it means.  The *value* of each row is in
`ir/interpret/meaning.py`, the decomposition of each derived row in `ir/decompose.py`, its spelling in each `runtime.toml`.

Result rules: `same` = the operands' common dtype · `bool` = bool whatever the operands · `to` = the node's own dtype (cast, bitcast) ·
`select` = dtype of the second operand (where) · `part` = the dtype of a component for complex operands, else `same` · `pair` = the complex dtype of
two components.

Complex numbers need no primop: `ir/complex_forms.py` has what their rows are made of in components, `passes/split_complex.py` takes them apart.
"""

from __future__ import annotations

from typing import NamedTuple

from .dtypes import DType, bool_, c64


class Op(NamedTuple):
    name: str
    arity: int  # elementwise operands; reductions, scans, gather and scatter are structure, not rows of arithmetic
    result: str  # same | bool | to | select | part | pair
    accepts: str  # a key of ACCEPTS
    ulp: float  # error of one correctly working implementation, in ULP of the result
    primop: bool
    doc: str


# What a row takes, as kinds of dtypes.
ACCEPTS: dict[str, tuple[str, ...]] = {
    "any": ("float", "int", "uint", "bool", "complex"),
    "ordered": ("float", "int", "uint", "bool"),
    "field": ("float", "int", "uint", "complex"),
    "number": ("float", "int", "uint"),
    "smooth": ("float", "complex"),
    "float": ("float",),
    "integer": ("int", "uint"),
    "bits": ("int", "uint", "bool"),
    "complex": ("complex",),
    "part": ("float",),  # f32 alone: of what complex numbers are made
}

# fmt: off
_ROWS = [
    # the twelve of luminal (reductions and contiguous are structural, listed in STRUCTURAL)
    Op("log2",        1, "same",   "float",   2,   True,  "log2(x); NaN below 0, -inf at 0"),
    Op("exp2",        1, "same",   "float",   2,   True,  "2 ** x"),
    Op("sin",         1, "same",   "float",   2,   True,  "sin(x), x in radians, the whole range of the dtype"),
    Op("sqrt",        1, "same",   "smooth",  0.5, True,  "square root, correctly rounded; NaN below 0"),
    Op("recip",       1, "same",   "smooth",  0.5, True,  "1 / x"),
    Op("add",         2, "same",   "field",   0.5, True,  "x + y; integers wrap"),
    Op("mul",         2, "same",   "field",   0.5, True,  "x * y; integers wrap"),
    Op("mod",         2, "same",   "number",  0.5, True,  "x - y * floor(x / y); integer mod by 0 is 0"),
    Op("less_than",   2, "bool",   "ordered", 0,   True,  "x < y; false with NaN"),
    # the other elementwise primops of the twenty-seven
    Op("where",       3, "select", "any",     0,   True,  "c ? a : b, a real selection"),
    Op("cast",        1, "to",     "any",     0.5, True,  "conversion; float to integer truncates and saturates, NaN gives 0"),
    Op("bitcast",     1, "to",     "any",     0,   True,  "the same bits as another dtype of the same width"),
    Op("floordiv",    2, "same",   "number",  0.5, True,  "floor(x / y); integer division by 0 is 0, INT_MIN / -1 wraps"),
    Op("max",         2, "same",   "ordered", 0,   True,  "the larger; NaN if either is"),
    Op("fma",         3, "same",   "field",   0.5, True,  "a * b + c, rounded once for floats"),
    Op("bit_and",     2, "same",   "bits",    0,   True,  "bitwise and; logical on bool"),
    Op("bit_or",      2, "same",   "bits",    0,   True,  "bitwise or; logical on bool"),
    Op("bit_xor",     2, "same",   "bits",    0,   True,  "bitwise exclusive or; logical on bool"),
    Op("shift_left",  2, "same",   "integer", 0,   True,  "x << y; 0 for y outside [0, width)"),
    Op("shift_right", 2, "same",   "integer", 0,   True,  "x >> y, arithmetic for signed; for y outside [0, width) the sign fill (0 or -1)"),
    # derived: decomposed by legalisation where the runtime has no native spelling
    Op("sub",         2, "same",   "field",   0.5, False, "x - y"),
    Op("neg",         1, "same",   "field",   0,   False, "-x"),
    Op("div",         2, "same",   "smooth",  0.5, False, "x / y"),
    Op("min",         2, "same",   "ordered", 0,   False, "the smaller; NaN if either is"),
    Op("abs",         1, "part",   "field",   0,   False, "|x|; INT_MIN wraps to itself; the modulus of a complex number"),
    Op("sign",        1, "same",   "number",  0,   False, "-1, 0 or 1; NaN for NaN; keeps the sign of zero"),
    Op("equal",       2, "bool",   "any",     0,   False, "x == y; false with NaN"),
    Op("not_equal",   2, "bool",   "any",     0,   False, "x != y; true with NaN"),
    Op("less_equal",  2, "bool",   "ordered", 0,   False, "x <= y; false with NaN"),
    Op("bit_not",     1, "same",   "bits",    0,   False, "bitwise complement; logical not on bool"),
    Op("isnan",       1, "bool",   "float",   0,   False, "x is NaN"),
    Op("isinf",       1, "bool",   "float",   0,   False, "x is +inf or -inf"),
    Op("floor",       1, "same",   "float",   0,   False, "largest integer <= x"),
    Op("ceil",        1, "same",   "float",   0,   False, "smallest integer >= x"),
    Op("trunc",       1, "same",   "float",   0,   False, "towards zero"),
    Op("round",       1, "same",   "float",   0,   False, "to nearest, ties to even"),
    Op("exp",         1, "same",   "smooth",  3,   False, "e ** x"),
    Op("expm1",       1, "same",   "float",   3,   False, "e ** x - 1, accurate near 0"),
    Op("log",         1, "same",   "smooth",  3,   False, "natural logarithm"),
    Op("log1p",       1, "same",   "float",   4,   False, "log(1 + x), accurate near 0"),
    Op("rsqrt",       1, "same",   "float",   1.5, False, "1 / sqrt(x)"),
    Op("pow",         2, "same",   "number",  4,   False, "x ** y with C's special cases; integers by repeated squaring, negative powers 0"),
    Op("cos",         1, "same",   "float",   5,   False, "cos(x)"),
    Op("tan",         1, "same",   "float",   8,   False, "tan(x)"),
    Op("asin",        1, "same",   "float",   4,   False, "arc sine"),
    Op("acos",        1, "same",   "float",   4,   False, "arc cosine"),
    Op("atan",        1, "same",   "float",   4,   False, "arc tangent"),
    Op("sinh",        1, "same",   "float",   4,   False, "hyperbolic sine"),
    Op("cosh",        1, "same",   "float",   4,   False, "hyperbolic cosine"),
    Op("tanh",        1, "same",   "float",   4,   False, "hyperbolic tangent"),
    Op("asinh",       1, "same",   "float",   4,   False, "inverse hyperbolic sine"),
    Op("acosh",       1, "same",   "float",   4,   False, "inverse hyperbolic cosine"),
    Op("atanh",       1, "same",   "float",   4,   False, "inverse hyperbolic tangent"),
    Op("erf",         1, "same",   "float",   4,   False, "error function"),
    # complex numbers
    Op("complex",     2, "pair",   "part",    0,   False, "x + iy"),
    Op("real",        1, "part",   "complex", 0,   False, "the real part"),
    Op("imag",        1, "part",   "complex", 0,   False, "the imaginary part"),
    Op("angle",       1, "part",   "complex", 4,   False, "the argument, in [-pi, pi]"),
]
# fmt: on

OPS: dict[str, Op] = {op.name: op for op in _ROWS}


def accepts(row: Op, d: DType) -> bool:
    """Whether the row takes operands of this dtype (where: its branches)."""
    return d.kind in ACCEPTS[row.accepts] and (row.accepts != "part" or d is c64.part)


def result_of(row: Op, operands: tuple[DType, ...], to: DType | None = None) -> DType:
    """The dtype that the operator gives on operands of these dtypes; `to` is that of cast and bitcast."""
    values = operands[1:] if row.name == "where" else operands
    match row.result:
        case "to":
            assert to is not None
            return to
        case "bool":
            return bool_.vector(values[0].lanes)
        case "part":
            return values[0].part
        case "pair":
            return c64
        case _:
            return values[0]


# Primops that are structure (they have axes or buffers), with what they are.  Together with the primop rows: 27.
STRUCTURAL: dict[str, str] = {
    "sum_reduce": "reduce by add",
    "max_reduce": "reduce by max (the node carries its combiner: add mul max min and or)",
    "contiguous": "make a view real",
    "gather": "read at positions held in integer tensors",
    "scatter": "combine into positions held in integer tensors (set add max min mul)",
    "iota": "an integer expression of the position",
    "scan": "running reduction along one axis",
}


class Combiner(NamedTuple):
    """A monoid: `op` is the elementwise operator that combines, `identity` what an empty reduction gives."""

    name: str
    op: str
    identity: str  # "0" | "1" | "min" | "max" (the dtype's own extremes)


COMBINERS: dict[str, Combiner] = {
    c.name: c
    for c in (
        Combiner("add", "add", "0"),
        Combiner("mul", "mul", "1"),
        Combiner("max", "max", "min"),
        Combiner("min", "min", "max"),
        Combiner("and", "bit_and", "1"),
        Combiner("or", "bit_or", "0"),
    )
}
COMMUTATIVE = frozenset({"add", "mul", "max", "min", "bit_and", "bit_or", "bit_xor", "equal", "not_equal"})

assert sum(op.primop for op in _ROWS) + len(STRUCTURAL) == 27
