"""The second opinion of a test: `code = "(lambda (A B m n) form…)"`, the same composite written another way."""

from __future__ import annotations

from ..ir.record import replace
from .ast import Composite, Test
from .diagnostics import nearest, shorten
from .names import unique
from .sexpr import List, Symbol
from .sizes import symbols
from .source import error


def second_opinion(composite: Composite) -> Composite | None:
    """A composite with the same ports whose body is the test's code; None where the test has none.  The lambda's list names ports and sizes, in any
    order; E0201 for anything else there.  Elaborated and evaluated it must agree with the composite."""
    form = composite.test.code
    if not isinstance(form, List):
        return None
    if len(form.items) < 3 or not isinstance(form.items[1], List):
        raise error("E0119", "the code of a test is one (lambda (ports and sizes) form…)", form.place)
    known = [p.name for p in composite.ports] + [s.name for p in composite.ports for f in p.sizes or () for s in symbols(f)]
    for name in form.items[1].items:
        if not isinstance(name, Symbol) or (unique(name.name, dict.fromkeys(known), name.place) is None and name.name not in known):
            raise error("E0201", f"`{shorten(name.source_text)}` is neither a port nor a size", name.place, *nearest(name.source_text, known))
    return replace(composite, body=form.items[2:], test=Test())
