"""What `--fast` admits for a division: the product with a reciprocal.

    x / y   →   x · (1 / y)

One rounding more than a division has, and where 1 / y leaves the range of the dtype the product does too.  `loosened` writes this into a graph, so that
the ordinary rules of the error bound (`ir/interpret/bounds.py`) say what a kernel made under `--fast` may be off by; `reciprocal` is the form itself, for expressions.
"""

from __future__ import annotations

from .constants import single
from .dtypes import DType, f32, f64
from .expr import Expr, call, cast as cast_expr, const
from .graph import Graph, Node, View, elementwise, identity, make, rewrite
from .kernel import Nest, map_expressions
from .record import replace
from .walks import rewrite as rewrite_expr


def reciprocal(y: Expr) -> Expr:
    """1 / y; of a literal, the nearest number of its dtype (in f32, which smaller floats are computed in)."""
    if not y.is_const or y.attr == 0 or y.dtype not in (f32, f64):
        return call("recip", y)
    return const(rounded(1 / float(y.attr), y.dtype), y.dtype)


def rounded(value: float, d: DType) -> float:
    """The nearest number of f32 or f64.  Not by numpy: opening it takes as long as all passes of a composite."""
    return value if d is f64 else single(value)


def loosened(graph: Graph) -> Graph:
    """The graph with every division of floats, in its loop nests too, as the product with a reciprocal; small floats are divided in f32, as kernels do."""
    return rewrite(graph, _node)


def _node(n: Node) -> Node | None:
    if n.op == "nest" and isinstance(n.attr, Nest):
        body = map_expressions(n.attr.body, lambda e: rewrite_expr(e, _expr))
        return None if body is n.attr.body else make(n.op, n.dtype, n.shape, n.args, replace(n.attr, body=body), n.span)
    if n.op != "div" or not n.dtype.is_float:
        return None
    x, y = n.args
    if n.dtype in (f32, f64):
        return elementwise("mul", n.shape, x, identity(elementwise("recip", n.shape, y, span=n.span)), span=n.span)

    def wide(v: View) -> View:
        return identity(elementwise("cast", n.shape, v, to=f32, span=n.span))

    product = elementwise("mul", n.shape, wide(x), identity(elementwise("recip", n.shape, wide(y), span=n.span)), span=n.span)
    return elementwise("cast", n.shape, identity(product), to=n.dtype, span=n.span)


def _expr(e: Expr) -> Expr | None:
    if e.op != "div" or not e.dtype.is_float:
        return None
    x, y = e.args
    if e.dtype in (f32, f64):
        return call("mul", x, call("recip", y))
    return cast_expr(e.dtype, call("mul", cast_expr(f32, x), call("recip", cast_expr(f32, y))))
