"""The cost model of fusion: one unit is one floating-point addition in vector code, on nominal sizes.

Memory is dear: a core that does 200 GFLOP/s reads some 35 GB/s, so one byte from memory costs as much as 5 additions; a store first fetches the line
that it writes, so it costs twice that.  These are orders of magnitude, which is all that the decisions need, and the same on every machine,
because the same input must give the same kernels everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dtypes import DType
from ..ir.evaluate import evaluate
from ..ir.expr import Expr
from ..ir.graph import Size

NOMINAL = 512  # what a free size is taken for, within what is known of it
READ, WRITE = 5.0, 10.0  # a byte
IN_CACHE = 1.5  # a load from the first cache, or a store that stays there
TABLE = 1 << 15  # bytes of a table on the stack, at most: it shares the first two caches with the row that it is made of

# Additions that one evaluation is worth; 1 for what is not listed.  A conversion rides on the load that feeds it, a conjugate is a sign of what it is added to.
_OPERATIONS = {
    "cast": 0.0, "bitcast": 0.0, "conj": 0.0,
    "div": 6.0, "recip": 6.0, "sqrt": 6.0, "rsqrt": 8.0, "mod": 8.0, "floordiv": 8.0,
    "exp2": 12.0, "exp": 14.0, "log2": 14.0, "log": 14.0, "sin": 20.0, "cos": 20.0, "tanh": 20.0, "expm1": 18.0, "log1p": 18.0,
    "tan": 30.0, "asin": 25.0, "acos": 25.0, "atan": 25.0, "sinh": 25.0, "cosh": 25.0, "asinh": 30.0, "acosh": 30.0, "atanh": 30.0,
    "erf": 30.0, "pow": 40.0, "gather": 4.0,
}  # fmt: skip


def operation(name: str) -> float:
    return _OPERATIONS.get(name, 1.0)


def read(dtype: DType) -> float:
    """Reading one element from memory."""
    return READ * dtype.bytes


def write(dtype: DType) -> float:
    return WRITE * dtype.bytes


def nominal(sizes: Mapping[str, Size]) -> dict[str, int]:
    """A value for every free size: NOMINAL, moved into [min, max] and down to a multiple."""
    found = {}
    for s in sizes.values():
        value = min(max(NOMINAL, s.min), s.max)
        found[s.name] = max(value - value % s.multiple, s.multiple)
    return found


def points(shape: tuple[Expr, ...], values: Mapping[str, int]) -> float:
    """The number of points of a domain on nominal sizes; an axis counts at least once."""
    result = 1.0
    for e in shape:
        result *= max(1, evaluate(e, values))
    return result
