"""Parameters that are lists of integers: `(aref list k)` and `(length list)`, in tensors and in loops.

What such a list holds is known at compile time, so k must be: in a loop it may be made of the variables of loops whose bounds are constants, which are
then written out, iteration by iteration (`loops.Walk.written_out`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.expr import Expr
from ..ir.simplify import simplify
from ..ir.walks import leaves
from . import scalars
from .diagnostics import shorten
from .frame import Broken, Silenced
from .sexpr import Form, List, Symbol
from .source import error

if TYPE_CHECKING:
    from .frame import Frame
    from .loop_values import LoopValues


def is_list(value: Any) -> bool:
    """The value of a parameter of type ints or axes."""
    return isinstance(value, tuple) and all(isinstance(v, int) for v in value)


def list_named(frame: Frame, form: Form) -> tuple[int, ...] | None:
    """The list that a name stands for; None for anything else."""
    found = frame.resolve(form.name, form.place) if isinstance(form, Symbol) else None
    if found is not None and isinstance(found.value, Broken):
        raise Silenced
    return found.value if found is not None and is_list(found.value) else None


def the_index(form: List) -> Form:
    """Of `(aref list k)`: k."""
    if len(form.items) != 3:
        raise error("E0505", f"a list has one index, found {len(form.items) - 2}", form.place, "expected: (aref list k)")
    return form.items[2]


def picked(form: List, values: tuple[int, ...], k: int) -> int:
    """The element k of the list that `(aref list k)` names; E0319."""
    if not 0 <= k < len(values):
        raise error("E0319", f"there is no element {k} in {shorten(form.items[1].source_text)}, a list of {len(values)}", form.items[2].place)
    return values[k]


def length_of(form: List, values: tuple[int, ...] | None) -> int:
    """What `(length list)` gives; E0503."""
    if values is None or len(form.items) != 2:
        raise error("E0503", "`length` takes a parameter that is a list", form.place, "expected: (length axes)")
    return len(values)


def element_in_loop(values: LoopValues, form: List, of: tuple[int, ...]) -> int:
    """`(aref list k)` inside a nest.  Where k depends on variables of loops with constant bounds, these are noted, and the walk is made again with them
    written out.  E0320 where k is not known by then."""
    index = the_index(form)
    k = simplify(values.index(index), values.walk.known)
    if k.is_const:
        return picked(form, of, k.attr)
    loops = None if scalars.has_loads(k) else _constant_loops(values, k)
    if loops is None:
        raise error(
            "E0320",
            f"`{shorten(index.source_text)}` must be known at compile time, since {shorten(form.items[1].source_text)} is a list",
            index.place,
            "expected: an integer, a parameter, or the variable of a loop whose bounds are constants",
        )
    if not all(runs for _, runs in loops):
        return 0  # never reached
    values.walk.kinds.write_out(loop for loop, _ in loops)
    raise Silenced


def _constant_loops(values: LoopValues, k: Expr) -> list[tuple[List, range]] | None:
    """The loops whose variables an index is made of, with what these run over; None where one of them has other bounds, or where something else is in it."""
    loops = [values.walk.counted.get(e.attr) for e in leaves(k, "var")]
    return None if None in loops or leaves(k, "size") else [loop for loop in loops if loop is not None]
