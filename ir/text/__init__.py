"""Every level as text and back: `read(show(x)) == x`, spans apart.  The grammars stand at the heads of ir/expr.py, ir/graph.py, ir/kernel.py and ir/program.py.

The parts: `words` (names, strings, literals), `tokens` (text to tokens with places), `operators` (infix spellings and their precedence), `expressions` and `parse`
(an expression out and in), `header` (what all levels begin with), and one file a level, `graph`, `kernel`, `program`, with its show and its read side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..dtypes import DType
    from ..expr import Expr
    from ..graph import Graph
    from ..kernel import Kernel, Module
    from ..program import Function, Program


def show(x: Graph | Module | Program | Kernel | Function) -> str:
    """The text of a whole level, ending in a newline; also of one kernel or one function (for people: `read` takes whole levels)."""
    from ..graph import Graph
    from ..kernel import Kernel, Module
    from ..program import Function, Program
    from .graph import show_graph
    from .kernel import show_kernel, show_module
    from .program import show_function, show_program

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


def show_expr(e: Expr) -> str:
    """The text of one expression."""
    from .expressions import show_expr

    return show_expr(e)


def read(text: str, file: str = "<input>") -> Graph | Module | Program:
    """The level that `text` holds, by its first word: `graph`, `kernels` or `program`.  SourceError with FILE:LINE:COL where it does not follow the grammar."""
    from .graph import read_graph
    from .kernel import read_module
    from .program import read_program
    from .tokens import Line, Source

    source = Source(text, file)
    first = source.peek() or Line("", 1, file)
    readers = {"graph": read_graph, "kernels": read_module, "program": read_program}
    if first.indent or first.token.text not in readers:
        first.expected("`graph`, `kernels` or `program`")
    with deep_stack():
        return readers[first.token.text](source)


@contextmanager
def deep_stack() -> Iterator[None]:
    """Room for the deepest nesting that is read (MAX_DEPTH blocks, some six Python calls each, and as many again of whoever verifies them)."""
    from .tokens import MAX_DEPTH

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 12 * MAX_DEPTH + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def read_valid(text: str, file: str = "<input>") -> Graph | Module | Program:
    """What a user's intermediate file holds, read and verified.  SourceError also where a verify rule does not hold (E0904, placed at the file's first line)."""
    from ..errors import CompilerBug, Diagnostic, SourceError, Span
    from ..verify import verify

    x = read(text, file)
    try:
        with deep_stack():
            verify(x)
    except CompilerBug as bug:
        raise SourceError([Diagnostic("E0904", str(bug), Span(file), text=text.partition("\n")[0])]) from None
    return x


def read_expr(
    text: str,
    sizes: Iterable[str] = (),
    variables: Mapping[str, DType] | None = None,
    buffers: Mapping[str, DType] | None = None,
    file: str = "<input>",
) -> Expr:
    """One expression on one line; the arguments say what its names mean.  SourceError where one of them is unknown."""
    from .parse import Scope, expression
    from .tokens import Line

    line = Line(text, 1, file)
    result = expression(line, Scope(set(sizes), dict(variables or {}), dict(buffers or {})))
    line.end()
    return result
