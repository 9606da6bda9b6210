"""Every level as text: `show` and `read`.  The grammars stand at the head of graph.py, kernel.py and program.py."""

from __future__ import annotations

from ..expr import Expr


def show_expr(expr: Expr) -> str:
    """One expression in the grammar of `ir/expr.py`."""
    return f"{expr.op}{'' if expr.attr is None else '.' + str(expr.attr)}({', '.join(map(show_expr, expr.args))})"
