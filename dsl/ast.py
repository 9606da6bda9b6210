"""What a user wrote: composites as data, every part with its place.  Nothing is resolved here: sizes, types and names are `elaborate`'s.

composite   ::= name, ports, where, parameters, body, test, schedules
port        ::= NAME {type} [sizes] <order> (where) ?            in | out | inout
type        ::= dtype | type variable | nothing (an output whose type the body gives)
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..ir.dtypes import DType
from ..ir.record import individual, record
from .sexpr import Form
from .source import Place


@record
class TypeName:
    """`dtype` is None for a type variable."""

    name: str
    dtype: DType | None
    place: Place


@record
class Constraint:
    """`left OP right` on sizes; op: = /= < <= > >=."""

    op: str
    left: Form
    right: Form
    place: Place


@record
class PortDecl:
    """One port as declared.  `sizes` is None where an output leaves them to the body, `type` likewise."""

    name: str
    role: str  # in | out | inout
    type: TypeName | None
    sizes: tuple[Form, ...] | None
    order: tuple[int, ...]  # () is row-major
    strided: bool
    where: tuple[Constraint, ...]
    optional: bool
    place: Place

    @property
    def is_input(self) -> bool:
        return self.role != "out"


PARAMETER_TYPES = ("axis", "axes", "int", "ints", "float", "bool", "dtype", "string")


@record
class Parameter:
    """A compile-time parameter.  `default`: int, float, bool, str or a tuple of ints; None with `required` False stands for nil."""

    name: str
    type: str
    default: Any
    required: bool
    place: Place


@record
class Test:
    """`sizes`: bindings of sizes and scalar ports; `instances`: bindings of parameters, each with sizes of its own or those of `sizes`; `inputs`: port → how it is
    drawn; `code`: a lambda, the second opinion."""

    sizes: tuple[dict[str, Any], ...] = ()
    instances: tuple[dict[str, Any], ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    code: Form | None = None
    place: Place | None = None


@individual
class Composite:
    """One composite, read and well-formed.  `ports` in declared order: inputs first, then outputs that are no inputs."""

    name: str
    ports: tuple[PortDecl, ...]
    outputs: tuple[str, ...]  # port names, in the order of `return`
    where: tuple[Constraint, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Form, ...]
    test: Test
    schedules: dict[str, str]  # runtime → script
    documentation: str
    place: Place
    source_text: str  # as one S-expression, for the head of emitted files
    file: str
    types: dict[str, DType] = field(default_factory=dict)  # type variable → what it is where nothing binds it; f32 for one that is not here

    @property
    def inputs(self) -> tuple[PortDecl, ...]:
        return tuple(p for p in self.ports if p.is_input)

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of the ports that may be absent."""
        return tuple(p.name for p in self.ports if p.optional)

    def port(self, name: str) -> PortDecl:
        return next(p for p in self.ports if p.name == name)

    @property
    def signature(self) -> str:
        """How it is called: `(linear X W [B])`, optional ports in brackets, parameters as keywords with their types."""
        words = [self.name, *(f"[{p.name}]" if p.optional else p.name for p in self.inputs), *(f":{p.name} {p.type}" for p in self.parameters)]
        return f"({' '.join(words)})"
