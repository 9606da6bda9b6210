"""An expression evaluated on arrays with every operator rounded to its own dtype: what a straightforward implementation computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dtypes import numpy_dtype
from ..expr import Expr
from ..walks import postorder
from .fma import fma32, fma64
from .meaning import VALUE, Array, compute, working

# NumPy rounds these correctly in the dtype itself; by way of longdouble they would be rounded twice
_NATIVE = frozenset(
    {"add", "sub", "mul", "neg", "div", "recip", "sqrt", "abs", "max", "min", "where", "less_than", "less_equal", "equal", "not_equal"}
)


def evaluate(root: Expr, variables: Mapping[str, Any], adjust: Callable[[str, Array], Array] | None = None) -> Array:
    """The value of `root` over arrays of its variables (each in the variable's dtype).

    `adjust(op, values)` may move the result of an operator, to see what a worse implementation of it does.
    """
    value: dict[Expr, Array] = {}
    with np.errstate(all="ignore"):
        for n in postorder(root):
            kind = numpy_dtype(n.dtype)
            args = [value[a] for a in n.args]
            if n.op == "const":
                value[n] = np.asarray(n.attr).astype(kind)
            elif n.op == "var":
                value[n] = np.asarray(variables[n.attr]).astype(kind)
            elif n.op == "fma" and n.dtype.is_float:
                value[n] = fma64(*args) if n.dtype.bits == 64 else fma32(*args).astype(kind)
            elif n.op in _NATIVE:
                value[n] = np.asarray(VALUE[n.op](*args)).astype(kind)
            else:
                sources = [a.dtype for a in n.args]
                exact = compute(n.op, [x.astype(working(d)) for x, d in zip(args, sources, strict=True)], sources[0], n.dtype)
                value[n] = np.asarray(exact).astype(kind)
            if adjust is not None:
                value[n] = adjust(n.op, value[n])
    return value[root]
