"""Preconditions that the command line adds to those of a composite: `--assume "K % 16 = 0, M >= 32"`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..ir.errors import SourceError, UsageError
from ..ir.expr import Expr, size
from .ast import Composite, Constraint
from .names import fold
from .ports import read_constraints
from .sexpr import Form, Symbol, parse
from .sizes import Sizes, precondition, symbols
from .source import Place, whole

Assumption = tuple[str, Constraint]  # with the text that it stands in


def read(texts: Sequence[str]) -> list[Assumption]:
    """The constraints that the texts are; UsageError where one is none."""
    found: list[Assumption] = []
    for text in texts:
        with _told(text):
            forms: tuple[Form, ...] = parse(whole("--assume", text))
            found += [(text, c) for c in read_constraints(forms, Place(whole("--assume", text), 0, len(text)))]
    return found


def assume(assumed: Sequence[Assumption], sizes: Sizes, composite: Composite, *, last: bool = False) -> list[Assumption]:
    """Add the constraints to what the sizes must be.  An equation only compares: unlike one of a `where` it defines nothing.  Gives those that speak of a leading stride which is not there yet, unless
    this is the `last` time.  UsageError for what speaks of no size of the composite, or cannot hold."""
    later: list[Assumption] = []
    for text, c in assumed:
        if not last and any(_known(s, sizes) is None for s in (*symbols(c.left), *symbols(c.right))):
            later.append((text, c))
            continue
        with _told(text):
            precondition(sizes, c, lambda s: _value(s, sizes, composite, text))  # noqa: B023 - called before the next one
    return later


@contextmanager
def _told(text: str) -> Iterator[None]:
    """What is wrong with it is wrong with the command line."""
    try:
        yield
    except SourceError as error:
        d = error.diagnostics[0]
        raise UsageError(f"--assume {text!r}: {'; '.join((d.message, *d.notes))}") from None


def _known(s: Symbol, sizes: Sizes) -> str | None:
    """The size that a name means, exact or folded; leading strides are free sizes that no form names."""
    every = [*sizes.values, *(n for n in sizes.free if n not in sizes.values)]
    return next((n for n in every if n == s.name), None) or next((n for n in every if fold(n) == fold(s.name)), None)


def _value(s: Symbol, sizes: Sizes, composite: Composite, text: str) -> Expr:
    name = _known(s, sizes)
    if name is None:
        has = dict.fromkeys([*sizes.values, *sizes.free])
        raise UsageError(f"--assume {text!r}: {composite.name} has no size {s.name}; it has {', '.join(has) or 'none'}")
    return sizes.values[name] if name in sizes.values else size(name)


__all__ = ["Assumption", "assume", "read"]
