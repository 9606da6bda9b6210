"""Preconditions that the command line adds to those of a composite: `--assume "K % 16 = 0, M >= 32"`."""

from __future__ import annotations

from ..ir.errors import SourceError, UsageError
from .ast import Composite, Constraint
from .names import fold
from .ports import read_constraints
from .sexpr import Form, Symbol, parse
from .sizes import Sizes, precondition
from .source import Place, whole


def assume(text: str, sizes: Sizes, composite: Composite) -> None:
    """Add the constraints to what the sizes must be.  An equation only compares: unlike one of a `where` it defines nothing.  UsageError for what cannot be
    read, speaks of no size of the composite, or cannot hold."""
    try:
        for constraint in _constraints(text):
            precondition(sizes, constraint, lambda s: sizes.values[_known(s, sizes, composite, text)])
    except SourceError as error:
        d = error.diagnostics[0]
        raise UsageError(f"--assume {text!r}: {'; '.join((d.message, *d.notes))}") from None


def _constraints(text: str) -> tuple[Constraint, ...]:
    forms: tuple[Form, ...] = parse(whole("--assume", text))
    return read_constraints(forms, Place(whole("--assume", text), 0, len(text)))


def _known(s: Symbol, sizes: Sizes, composite: Composite, text: str) -> str:
    """The size that a name means, exact or folded."""
    names = [n for n in sizes.values if n == s.name] or [n for n in sizes.values if fold(n) == fold(s.name)]
    if not names:
        raise UsageError(f"--assume {text!r}: {composite.name} has no size {s.name}; it has {', '.join(sizes.values) or 'none'}")
    return names[0]


__all__ = ["assume"]
