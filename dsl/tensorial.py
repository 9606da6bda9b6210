"""Which expressions inside a loop have a tensor in them, and which composites work on numbers: told from the text, before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tensor import Tensor
from .arguments import is_tilde
from .ast import Composite
from .locals import ACCUMULATE, Memory
from .operators import TABLE
from .scalars import SCALARS
from .sexpr import Form, Keyword, List, Symbol

if TYPE_CHECKING:
    from .ground import Ground
    from .loop_values import LoopValues

LOOPS = frozenset({"dotimes", "loop", "while", "make-array", *ACCUMULATE})
BOTH = frozenset({*SCALARS, "where", "and", "or", "cast", "bitcast"})  # operators that numbers have too


def tensorial(values: LoopValues, form: Form) -> bool:
    """The form has a tensor in it, so that it is no matter of numbers alone."""
    walk = values.walk
    found = walk.tensorial.get(id(form))
    if found is None:
        found = walk.tensorial[id(form)] = _tensorial(values, form)
    return found


def _tensorial(values: LoopValues, form: Form) -> bool:
    walk = values.walk
    match form:
        case Symbol():
            return bool(axes_of(walk, form))
        case List() if form.head is not None:
            name, head = form.head, form.head.lower()
        case _:
            return False
    operands = [f for f in form.items[1:] if not isinstance(f, Keyword)]
    if head == "given":
        return False
    if head == "aref":
        if not operands or not isinstance(operands[0], Symbol):
            return bool(operands)
        axes = axes_of(walk, operands[0])
        return len(operands) - 1 < axes or any(tensorial(values, f) for f in operands[1:])
    composite = walk.session.composite(name, walk.frame)
    if composite is not None:
        return not on_numbers(composite) or any(tensorial(values, f) for f in operands)
    known = name if name in TABLE else head.replace("_", "-")
    if head in ("rand", "randn") or (known in TABLE and name not in SCALARS and head not in BOTH):
        return True
    if head in ("max", "min") and (len(operands) == 1 or len(operands) < len(form.items) - 1):
        return True
    return any(tensorial(values, f) for f in operands)


def axes_of(walk: Ground, name: Symbol) -> int:
    """How many axes the tensor has that a name stands for; 0 for everything else."""
    found = walk.frame.resolve(name.name, name.place)
    if found is None or (found.key != name.name and any(p.name == name.name and p.role == "out" for p in walk.frame.composite.ports)):
        declared = walk.frame.declared_output(name.name)
        return 0 if declared is None else len(declared[0])
    value = found.value
    return len(value.shape) if isinstance(value, (Memory, Tensor)) else 0


def on_numbers(composite: Composite) -> bool:
    """A call on numbers is an expression of numbers: ports without axes, one output, and no loops in the body."""
    if composite.where or len(composite.outputs) != 1:
        return False
    for p in composite.ports:
        if p.role == "inout" or p.where or (p.sizes is not None and any(not is_tilde(f) for f in p.sizes)):
            return False
    stack: list[Form] = list(composite.body)
    while stack:
        f = stack.pop()
        if isinstance(f, List):
            head = (f.head or "").lower()
            if head in LOOPS or (head in ("set", "setf") and (len(f.items) != 3 or not isinstance(f.items[1], Symbol))):
                return False
            stack.extend(f.items)
    return True
