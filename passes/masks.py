"""What a masked element does to a reduction: nothing, where its fill makes the body the combiner's identity."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.graph import Node, postorder
from ..ir.primops import OPS

INF = float("inf")
IDENTITY = {"add": 0.0, "max": -INF, "min": INF}

# What is known of a value: a number (of a condition True or False), or None.  Only what fills lead to: infinities, zeros and what is made of them.
Value = float | None
_MEANING: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.nan,
    "neg": lambda a: -a,
    "abs": abs,
    "recip": lambda a: 1 / a if a else math.nan,
    "max": max,
    "min": min,
    "less_than": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
}


def gives_nothing(state: Node, masked: Node) -> bool:
    """Whether a reduction does not change where the `where` node `masked` is its fill.

    An exponential of -inf is 0, and so is a product with 0: a weight of 0 is dropped, whatever it weighs.  An infinity takes what is added to it for finite.
    """
    fill = masked.args[2].node.attr.value
    value: dict[Node, Value] = {}
    for n in postorder(state.args[0].node):
        value[n] = fill if n is masked else _value(n, [value[a.node] if a.domain is None else None for a in n.args])
    result = value[state.args[0].node]
    return state.args[0].domain is None and result is not None and result == IDENTITY.get(state.attr.combiner)


def _value(n: Node, args: list[Value]) -> Value:
    if n.op == "const":
        return n.attr.value
    if n.op not in OPS:
        return None
    if n.op == "cast":
        return args[0] if n.dtype.is_float else None
    if n.op == "where":
        return (args[1] if args[0] else args[2]) if args[0] is not None else None
    if n.op in ("exp", "exp2"):
        return 0.0 if args[0] == -INF else 1.0 if args[0] == 0 else None
    if n.op == "mul" and 0 in args:
        return 0.0
    if n.op == "div" and args[0] == 0:
        return 0.0
    if n.op in ("add", "sub") and None in args and len({INF, -INF}.intersection(args)) == 1:
        known = args[0] if args[1] is None else args[1]
        return known if n.op == "add" or args[1] is None else -known  # type: ignore[operator]
    if None in args or n.op not in _MEANING:
        return None
    result = _MEANING[n.op](*args)
    return None if math.isnan(result) else result
