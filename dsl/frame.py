"""The names of one composite while it is elaborated, and what they stand for.

A `Value` is a `Tensor` (weak ones for plain numbers and sizes), or something known at compile time: bool (t, nil and tests), str, DType, a tuple
(a list of integers, or several results), `BROKEN` after a mistake that has been reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ..ir.dtypes import DType, dtype
from ..ir.expr import Expr
from ..ir.graph import Shape
from ..ir.record import changing, record
from .ast import Composite
from .diagnostics import nearest, shorten
from .names import fold, unique
from .sizes import symbols
from .source import Place, error

LITERALS: dict[str, Any] = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan"), "pi": 3.141592653589793, "t": True, "nil": False}


class Broken:
    """What a name stands for after a mistake in its definition: its uses are not reported again."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN = Broken()


class Silenced(Exception):
    """An expression uses something broken; the statement that holds it is skipped without a further diagnostic."""


@record
class Found:
    """What a name resolves to: `space` is local, port, size, parameter, dtype, literal; `key` the name as it was declared."""

    space: str
    key: str
    value: Any


@changing
class Frame:
    """One activation of a composite.  `scopes` are the visible locals, outermost first; the ports are in the first."""

    composite: Composite
    sizes: dict[str, Expr] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    given: dict[str, bool] = field(default_factory=dict)  # of the optional ports
    leading: Shape | None = None  # what `~` stands for; None where no port has it
    scopes: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    returned: list[Any] | None = None
    returned_early: bool = False  # by a `return` in the branch of a compile-time `if`
    last: Any = None  # the value of the last expression statement
    declared: dict[str, tuple[Shape, DType]] = field(default_factory=dict)  # outputs of their own whose shape is known before the body runs

    def declare_outputs(self, leading: Shape) -> None:
        """Note the shapes of the outputs that elements may be stored into: those whose type and sizes are known already."""
        from .interface import port_shape, type_of

        for p in self.composite.ports:
            names = [s for f in p.sizes or () for s in symbols(f)]
            known = all(s.name in self.parameters or unique(s.name, self.sizes, s.place) is not None for s in names)
            if p.role == "out" and p.type is not None and p.sizes is not None and known:
                self.declared[p.name] = (port_shape(p, self, leading), type_of(p.type, self.dtypes))

    def declared_output(self, name: str) -> tuple[Shape, DType] | None:
        """Shape and dtype of an output port of its own, by the exact or the folded name."""
        key = next((n for n in self.declared if n == name), None) or next((n for n in self.declared if fold(n) == fold(name)), None)
        return None if key is None else self.declared[key]

    @contextmanager
    def scope(self) -> Iterator[dict[str, Any]]:
        """An inner body: names that it declares are gone behind it."""
        inner: dict[str, Any] = {}
        self.scopes.append(inner)
        try:
            yield inner
        finally:
            self.scopes.pop()

    def resolve(self, name: str, place: Place) -> Found | None:
        """Exact spelling first, then a unique folded one; locals from the inside out, then ports, sizes, parameters, type variables, literals, dtypes.
        E0202 where a folded name fits several of one kind."""
        spaces: list[tuple[str, dict[str, Any]]] = [("local", s) for s in reversed(self.scopes)]
        spaces += [("size", self.sizes), ("parameter", self.parameters)]
        for space, names in spaces:
            if name in names:
                return Found(space, name, names[name])
        for space, names in spaces:
            key = unique(name, names, place)
            if key is not None:
                return Found(space, key, names[key])
        low = name.lower()
        if name in self.dtypes:
            return Found("dtype", name, self.dtypes[name])
        if low in LITERALS:
            return Found("literal", low, LITERALS[low])
        known = dtype(name)
        return Found("dtype", known.name, known) if known is not None and known.lanes == 1 else None

    def assign(self, name: str, value: Any, place: Place) -> None:
        """`(setf name value)`: the visible local or port of that name, else a new local of the innermost body; what is only an input is meant by its
        exact spelling alone, so that `g` beside a port `G` is a name of its own."""
        for names in reversed(self.scopes):
            if name in names:
                names[name] = value
                return
        for names in reversed(self.scopes):
            key = unique(name, names, place)
            if key is not None and not self.is_input(key):
                names[key] = value
                return
        port = unique(name, {p.name: p for p in self.composite.ports if p.role == "out"}, place)
        if port is not None:
            self.scopes[0][port] = value
        else:
            self.scopes[-1][name] = value

    def is_input(self, key: str) -> bool:
        """Whether this is the exact name of a port that is only read."""
        return any(p.name == key and p.role == "in" for p in self.composite.ports)

    def visible(self) -> list[str]:
        """Every name in value position, for the nearest one in a diagnostic."""
        return [*(n for s in reversed(self.scopes) for n in s), *self.sizes, *self.parameters]


def taken_for_output(frame: Frame, name: str, rank: int) -> tuple[str, ...]:
    """Notes to a mistake with a name that is an output's in another spelling, or an output's that was given a value of another rank so."""
    port = next((p.name for p in frame.composite.ports if p.role == "out" and fold(p.name) == fold(name)), None)
    if port is None:
        return ()
    if port != name:
        return (f"note: `{name}` is the output `{port}`: names that differ in case, - and _ only are one name", "help: call it something else")
    declared = frame.declared.get(port)
    if declared is None or len(declared[0]) == rank:
        return ()
    return (f"note: the output `{port}` was given a value of rank {rank} before; a name that differs in case, - and _ only is the same name",)


def unknown(name: str, frame: Frame, place: Place) -> Exception:
    """The diagnostic for a name that nothing is known by."""
    from .operators import TABLE
    from .scalars import SCALARS

    if name in TABLE or name in SCALARS:
        notes = (f"note: `{name}` is an operator, which stands first: ({name} …)",)
    elif any(s.name == name for p in frame.composite.ports if p.role == "out" for f in p.sizes or () for s in symbols(f)):
        notes = (f"note: the size `{name}` stands in outputs only: the body defines it by what it returns, and cannot read it",)
    else:
        notes = nearest(name, [*frame.visible(), *LITERALS])
    return error("E0201", f"unknown name `{shorten(name)}`", place, *notes)


def no_operator(frame: Frame, name: str, known: Iterable[str], place: Place) -> tuple[str, ...]:
    """Notes to a head that is none: what it may have meant, or where operators and indices stand if it is a name of the user's."""
    found = frame.resolve(name, place)
    if found is None or found.space in ("literal", "dtype"):
        return nearest(name, known)
    return (f"note: `{found.key}` is a name: what stands first is an operator, as in (+ {found.key} …) or (aref T i)",)
