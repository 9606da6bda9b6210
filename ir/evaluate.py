"""The value of an integer expression, exactly."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from .expr import SOMEWHERE, Expr
from .walks import postorder


def evaluate(root: Expr, environment: Mapping[str, Any], total: bool = False) -> Any:
    """The value of an integer (or boolean) expression over sizes and variables, exactly; a variable alone may be of any kind.  Raises KeyError for an unbound name,
    ZeroDivisionError where a division by zero is reached; `total`: that is 0, as in what is emitted."""
    value: dict[Expr, Any] = {}
    for n in postorder(root):
        if n.op == "const":
            value[n] = n.attr
        elif n.op in ("size", "var"):
            value[n] = environment[n.attr]
        elif n.op == "axis":
            value[n] = environment[f"${n.attr}"]
        elif n.op == "to_line":
            value[n] = SOMEWHERE
        elif n.op == "cast" and n.dtype.kind == "uint":
            value[n] = int(value[n.args[0]]) % (1 << n.dtype.bits)
        elif total and n.op in ("floordiv", "mod") and value[n.args[1]] == 0:
            value[n] = 0
        else:
            value[n] = _INTEGER[n.op](*(value[a] for a in n.args))
    return value[root]


def holds(condition: Expr, sizes: Mapping[str, int]) -> bool:
    """Whether a precondition holds: one in which something is divided by a size that is 0 does not, whatever else it allows for does."""
    if condition.op == "bit_or":
        return any(holds(a, sizes) for a in condition.args)
    try:
        return bool(evaluate(condition, sizes))
    except ZeroDivisionError:
        return False


_INTEGER: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min, "abs": abs,
    "less_than": operator.lt, "less_equal": operator.le, "equal": operator.eq, "not_equal": operator.ne,
    "bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor,
    "bit_not": lambda a: (not a) if isinstance(a, bool) else ~a,
    "where": lambda c, a, b: a if c else b, "cast": lambda a: int(a),
}  # fmt: skip


def evaluate_node(n: Expr, operands: list[int]) -> int | None:
    """The value of an integer operator on these; None where it has none (a division by zero, an operator of other dtypes)."""
    if n.op == "add":  # the most of them
        return operands[0] + operands[1]
    if n.op == "mul":
        return operands[0] * operands[1]
    function = _INTEGER.get(n.op)
    if function is None or (n.op in ("floordiv", "mod") and operands[1] == 0):
        return None
    return function(*operands)
