"""What all frames of one elaboration share: the builder, the scope, the warnings, and how deep it has gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from ..ir.build import Builder
from ..ir.errors import Diagnostic
from ..ir.record import changing
from .ast import Composite
from .frame import Frame
from .operators import TABLE
from .scope import Scope
from .sexpr import MAX_DEPTH, Form
from .source import Place, diagnostic, error

MAX_CALLS = 64
MAX_FORMS = 20_000  # in one elaboration, those of inlined composites each time


@changing
class Session:
    builder: Builder
    scope: Scope
    warnings: list[Diagnostic] = field(default_factory=list)
    stack: list[Composite] = field(default_factory=list)  # the composites that are being elaborated, outermost first
    depth: int = 0
    forms: int = 0
    taken: set[str] = field(default_factory=set)  # the names of the nest that what is built now becomes a part of

    @contextmanager
    def nested(self, form: Form) -> Iterator[None]:
        """One level of nesting more, over all inlined bodies; E0106 where it is too deep for the stack."""
        self.depth += 1
        self.forms += 1
        try:
            if self.forms > MAX_FORMS:
                raise error("E0106", f"more than {MAX_FORMS} forms, inlined composites included", form.place)
            if self.depth > MAX_DEPTH:
                raise error("E0106", f"nested more than {MAX_DEPTH} deep, inlined composites included", form.place)
            yield
        finally:
            self.depth -= 1

    @contextmanager
    def entered(self, composite: Composite, place: Place) -> Iterator[None]:
        """While a composite is elaborated; E0205 where it is being elaborated already."""
        if composite in self.stack:
            cycle = [*self.stack[self.stack.index(composite) :], composite]
            raise error("E0205", f"`{composite.name}` calls itself", place, f"note: {' → '.join(c.name for c in cycle)}")
        if len(self.stack) > MAX_CALLS:
            raise error("E0106", f"more than {MAX_CALLS} composites call one another", place)
        self.stack.append(composite)
        try:
            yield
        finally:
            self.stack.pop()

    def composite(self, name: str, frame: Frame) -> Composite | None:
        """The composite that `(name …)` calls, or None.  An operator of the language is shadowed only by a composite of the same file, and
        inside that one it keeps its meaning (so `matmul` may be a composite that wraps the operator)."""
        if name.lower().replace("_", "-") not in TABLE:
            return self.scope.find(name, frame.composite)
        found = self.scope.find_local(name, frame.composite)
        return None if found in self.stack else found

    def warn(self, code: str, message: str, place: Place, *notes: str) -> None:
        self.warnings.append(diagnostic(code, message, place, *notes, severity="warning"))
