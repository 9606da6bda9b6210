"""`Tensor`, the lazy value that a graph is built from, and the rules for numbers without a dtype of their own ("weak" ones).

A tensor is a view of a node and the shape that the view is read over.  Movement edits the view and never makes a node; arithmetic does.

Plain integers (literals, sizes, loop variables, positions) are *weak* integers and float literals *weak* floats: they take the dtype of the
operand beside them, alone they are i64 and f32.  A weak integer is a view of an `iota` node, so arithmetic on weak integers stays one integer
expression, exact and free.  A weak float is a small graph of constants; it is made again in the dtype that it is needed in, so `(/ x (sqrt D))` has
the precision of x.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dtypes import DType
from .errors import LuminalError
from .expr import Expr, const
from .graph import Shape, View
from .record import record
from .walks import substitute

Int = Expr | int  # an extent or a position in an argument
Range = tuple[Int | None, Int | None, Int | None]  # start, stop, step as in Python; None is the default


class BuildError(LuminalError):
    """A user's mistake found while a graph is built.  Who knows the place (the dsl) makes a diagnostic of it.

    Codes: E0301 dtypes differ · E0302 a float literal beside integers · E0303 the operator does not take this dtype · E0304 a number that the dtype does not hold · E0310 shapes do not broadcast ·
    E0311 two sizes are not provably equal · E0312 no such axis · E0313 wrong rank · E0314 not a permutation · E0315 reshape · E0316 einsum ·
    E0317 slice, pad, split and other extents · E0318 an index is no integer · E0319 an index is outside · E0320 not known at compile time.
    """

    exit_status = 1

    def __init__(self, code: str, message: str, *notes: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.notes = tuple(n if n.startswith(("help: ", "note: ", "expected: ", "found: ")) else f"help: {n}" for n in notes)


@record
class Tensor:
    """`view` is read over the axes of `shape`.  `weak` is "" for a dtype of its own, "int" or "float" for one that takes its neighbour's."""

    view: View
    shape: Shape
    weak: str = ""

    @property
    def dtype(self) -> DType:
        return self.view.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def integer(self) -> Expr | None:
        """The integer expression (of $k and sizes) that this tensor is at every position, where it is a plain integer; else None."""
        node = self.view.node
        if self.weak != "int" or self.view.domain is not None:
            return None
        if node.op == "const":
            return const(node.attr.value)
        if node.op != "iota" or node.attr.expr is None:
            return None
        return substitute(node.attr.expr, self.view.places)


def show(e: Int) -> str:
    """An extent for a message."""
    return str(e)


def show_shape(shape: Sequence[Int]) -> str:
    return f"[{', '.join(show(e) for e in shape)}]"
