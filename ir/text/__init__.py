"""Every level as text and back: `read(show(x)) == x`, spans apart.  The grammars stand at the heads of ir/expr.py, ir/graph.py, ir/kernel.py and ir/program.py.

The parts: `words` (names, strings, literals), `tokens` (text to tokens with places), `operators` (infix spellings and their precedence), `expressions` and `parse`
(an expression out and in), `header` (what all levels begin with), and one file a level, `graph`, `kernel`, `program`, with its show and its read side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..expr import Expr
    from ..graph import Graph
    from ..kernel import Block, Kernel, Module
    from ..program import Function, Program


def show(x: Graph | Module | Program | Kernel | Function | Block) -> str:
    """The text of a whole level, ending in a newline; also of one kernel, one function or a bare block (these are for people: `read` takes whole levels)."""
    from ..graph import Graph
    from ..kernel import Kernel, Module
    from ..program import Function, Program
    from .graph import show_graph
    from .kernel import show_block, show_kernel, show_module
    from .program import show_function, show_program, show_statements

    match x:
        case Graph():
            return show_graph(x)
        case Module():
            return show_module(x)
        case Program():
            return show_program(x)
        case Kernel():
            return "\n".join(show_kernel(x)) + "\n"
        case Function():
            return "\n".join(show_function(x)) + "\n"
        case _:
            is_kernel = all(type(s).__module__.endswith("kernel") for s in x)
            return "".join(line + "\n" for line in (show_block if is_kernel else show_statements)(x, ""))


def show_expr(e: Expr) -> str:
    """The text of one expression."""
    from .expressions import show_expr

    return show_expr(e)
