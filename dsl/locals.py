"""What the names inside a nest stand for, and which names a form assigns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from ..ir.dtypes import DType, f32, f64, i64
from ..ir.expr import const
from ..ir.graph import Shape
from ..ir.record import record
from ..ir.tensor import Tensor
from ..ir.walks import leaves
from .names import fold
from .scalars import Scalar, has_loads
from .sexpr import Form, List, Symbol
from .source import error

if TYPE_CHECKING:
    from .loop_tensors import Inside

ACCUMULATE = {"incf": "add", "decf": "add", "mulcf": "mul", "divcf": "", "maxf": "max", "minf": "min"}
MUTATORS = frozenset({"set", "setf", *ACCUMULATE})


@record
class Plain:
    """A value that never changes: a loop variable, or what a `let` or a single `set` names."""

    value: Scalar
    loop: bool = False


@record
class Memory:
    """A buffer of the nest: a mutable scalar (shape ()), a local array, or a tensor from outside (`tensor`; None for an output that starts as zeros).

    `key` finds its dtype among the walk's `kinds`."""

    name: str
    shape: Shape
    key: Any
    tensor: Tensor | None = None


@record
class Rows:
    """A tensor with axes that an expression gives; `inside` is what it was built in."""

    inside: Inside
    tensor: Tensor

    @property
    def kind(self) -> Scalar:
        """A number of its dtype, as weak as it is."""
        weak = self.tensor.weak
        return Scalar(const(0.0, f64), "float") if weak == "float" else Scalar(const(0, self.tensor.dtype), weak)


class Kinds:
    """What one walk over a nest finds out for the next: the dtypes of its mutable numbers, weak ("int", "float") until an assignment says more, and the
    loops that are to be written out."""

    def __init__(self) -> None:
        self.found: dict[Any, str | DType] = {}
        self.loops: set[int] = set()  # of the forms of loops that are written out
        self.changed = False

    def write_out(self, loops: Iterable[Form]) -> None:
        self.loops.update(map(id, loops))
        self.changed = True

    def start(self, key: Any, kind: str | DType) -> None:
        self.found.setdefault(key, kind)

    def meet(self, key: Any, x: Scalar) -> None:
        """The variable takes this value: a weak kind gives way to a wider one."""
        old = self.found[key]
        new: str | DType = x.weak or x.expr.dtype
        if isinstance(old, DType) or old == new or (old == "float" and new == "int"):
            return
        self.found[key] = new
        self.changed = True

    def dtype(self, key: Any) -> DType:
        kind = self.found[key]
        return kind if isinstance(kind, DType) else f32 if kind == "float" else i64

    def weak(self, key: Any) -> str:
        kind = self.found[key]
        return kind if isinstance(kind, str) else ""


def known_before(shape: Shape) -> bool:
    """The extents speak of sizes alone."""
    return not any(leaves(e, "var") or has_loads(e) for e in shape)


def space_of(shape: Shape) -> str:
    return "register" if not shape else "stack" if all(e.is_const for e in shape) else "private"


def is_element(place: Form) -> TypeGuard[List]:
    """`(aref T i…)`, in any case."""
    return isinstance(place, List) and (place.head or "").lower() == "aref"


def place_and_operand(form: List) -> tuple[Form, Form | None]:
    """Of `(incf place [e])` and its kin: without `e` it is 1, for those that count."""
    head = (form.head or "").lower()
    counts = head in ("incf", "decf")
    if not 2 + (not counts) <= len(form.items) <= 3:
        raise error("E0601", f"this is no `{head}`", form.place, f"expected: ({head} place {'[e]' if counts else 'e'})")
    return form.items[1], form.items[2] if len(form.items) == 3 else None


def targets(form: Form, heads: frozenset[str] = MUTATORS) -> list[Symbol]:
    """The names that a form assigns, accumulates into or stores elements of, in order, each occurrence once; those of some statements alone."""
    found: list[Symbol] = []
    stack = [form]
    while stack:
        f = stack.pop()
        if not isinstance(f, List):
            continue
        if (f.head or "").lower() in heads:
            step = 2 if (f.head or "").lower() in ("set", "setf") else len(f.items)
            places = [p for place in f.items[1::step] for p in (place.items[1:] if isinstance(place, List) and place.head == "values" else (place,))]
            for place in places:
                base = place.items[1] if is_element(place) and len(place.items) > 1 else place
                if isinstance(base, Symbol):
                    found.append(base)
        stack.extend(reversed(f.items))
    return found


def count_targets(form: Form) -> dict[str, int]:
    """Folded name → how often it is a target."""
    counts: dict[str, int] = {}
    for s in targets(form):
        counts[fold(s.name)] = counts.get(fold(s.name), 0) + 1
    return counts
