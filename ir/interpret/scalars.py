"""Operators for the statement interpreters: how a row of the table is spelled in the Python that they translate to.

Values are NumPy scalars of their dtype (so that they round and wrap by themselves), NumPy arrays of lanes for vectors, and Python integers for i64:
indices are exact by definition, and i64 values that come from memory are wrapped after each operation.  With `exact` every float is
in the working form of `meaning` and nothing is rounded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DType, f32, f64, i64, numpy_dtype
from ..expr import Expr
from .fma import fma32, fma32_scalar, fma64, fma64_scalar
from .meaning import VALUE, compute, working

COMPARISONS = {"less_than": "<", "less_equal": "<=", "equal": "==", "not_equal": "!="}
_INFIX = {"add": "+", "sub": "-", "mul": "*"}
# of Python integers
_INTEGERS = {
    "floordiv": "floordiv({0}, {1})", "mod": "mod({0}, {1})", "max": "max({0}, {1})", "min": "min({0}, {1})", "neg": "(-{0})", "abs": "abs({0})",
}  # fmt: skip
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_SHIFTS = {"shift_left": "<<", "shift_right": ">>"}

_ARITHMETIC: dict[str, Callable[..., Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def storage(d: DType, exact: bool) -> np.dtype[Any]:
    """The NumPy type that an element of `d` is kept in; `exact` is the working form of `meaning`."""
    return working(d.element) if exact else numpy_dtype(d.element)


def literal(value: Any, d: DType, exact: bool) -> Any:
    """A constant of the dtype as the interpreters hold it."""
    if d is i64:
        return int(value)
    rounded = np.asarray(value).astype(numpy_dtype(d.element)).astype(storage(d, exact))[()]
    return np.full(d.lanes, rounded) if d.lanes > 1 else rounded


def wrap64(x: int) -> int:
    return (int(x) + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def fmax(a: Any, b: Any) -> Any:
    """The larger; NaN if either is."""
    return a if a > b or a != a else b


def fmin(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


def integer_floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def integer_mod(a: int, b: int) -> int:
    return a % b if b else 0


SUPPORT: dict[str, Any] = {
    "wrap64": wrap64, "fmax": fmax, "fmin": fmin, "floordiv": integer_floordiv, "mod": integer_mod, "np": np, "where": np.where,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


def spelling(node: Expr, wraps: bool) -> str | Callable[[bool], Callable[..., Any]]:
    """A format string over the operands, or a maker of a function (given `exact`).  `wraps`: an i64 whose operands are values, not indices."""
    op, d = node.op, node.dtype
    source = node.args[0].dtype if op != "where" else d
    vector = source.lanes > 1 or d.lanes > 1
    if op == "where":
        return "where({0}, {1}, {2})" if vector else "({1} if {0} else {2})"
    if op in COMPARISONS:
        return f"({{0}} {COMPARISONS[op]} {{1}})"
    if op in _BITS and (d.kind == "bool" or d.is_integer):
        return f"({{0}} {_BITS[op]} {{1}})"
    if op in _SHIFTS and d.lanes == 1 and d is not i64 and node.args[1].is_const and 0 <= node.args[1].attr < d.bits:
        return f"({{0}} {_SHIFTS[op]} {{1}})"
    if d.kind == "bool" and op == "bit_not":
        return "(~{0})" if vector else "(not {0})"
    if d.is_float and op in ("max", "min"):
        return f"{'maximum' if op == 'max' else 'minimum'}({{0}}, {{1}})" if vector else f"f{op}({{0}}, {{1}})"
    if op in _INFIX and (d.is_float or d.is_integer):
        text = f"({{0}} {_INFIX[op]} {{1}})"
        return f"wrap64{text}" if d is i64 and wraps else text
    if d.is_float and op == "div":
        return "({0} / {1})"
    if d.is_float and op in ("neg", "abs"):
        return "(-{0})" if op == "neg" else "abs({0})"
    if d is i64 and source is i64 and op in _INTEGERS:
        if op in ("floordiv", "mod") and node.args[1].is_const and node.args[1].attr != 0:
            text = f"({{0}} {'//' if op == 'floordiv' else '%'} {{1}})"
        else:
            text = _INTEGERS[op]
        return f"wrap64({text})" if wraps and op not in ("mod", "max", "min") else text
    return lambda exact: function(op, source, d, exact)


def function(op: str, source: DType, to: DType, exact: bool) -> Callable[..., Any]:
    """The row as a function of scalars or vectors: computed in working precision and rounded once to `to`."""
    from_element, to_element = source.element, to.element
    high = working(from_element)
    result = storage(to, exact)
    lanes = max(source.lanes, to.lanes)
    if op == "fma" and from_element.is_float and not exact and from_element in (f32, f64):
        if lanes == 1:
            return fma32_scalar if from_element is f32 else fma64_scalar
        return fma32 if from_element is f32 else fma64
    if op == "bitcast" and source.lanes > to.lanes:  # neighbours in memory as one word, or as several

        def words(x: Any) -> Any:
            return np.ascontiguousarray(x, storage(source, False)).view(storage(to, False))

        return words if to.lanes > 1 else lambda x: words(x)[0]
    if op == "bitcast" and lanes == 1 and not exact and i64 not in (source, to):
        return lambda x: x.view(result)
    if op == "cast" and from_element.is_float and to_element.is_float:
        return (lambda x: x.astype(result)) if lanes > 1 else result.type

    if exact and lanes == 1 and from_element.is_inexact and to_element.is_inexact:
        plain = _ARITHMETIC.get(op, VALUE.get(op))
        if plain is not None and (op in _ARITHMETIC or isinstance(plain, np.ufunc)):  # takes and gives scalars of the working type as they are
            return plain

    def apply(*args: Any) -> Any:
        value = compute(op, [np.asarray(a, high) for a in args], from_element, to_element)
        return _finish(np.asarray(value).astype(result), to)

    return apply


def _finish(value: Any, to: DType) -> Any:
    if to.lanes > 1 or value.ndim:
        return value
    return int(value) if to is i64 else value[()]


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "mul": operator.mul, "max": VALUE["max"], "min": VALUE["min"], "and": operator.and_, "or": operator.or_,
}  # fmt: skip
