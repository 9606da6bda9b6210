"""What stands inside a form that is itself wrong: an unknown head or a wrong number of operands hides no mistake further in.

Such a form has no meaning, so its operands are looked at for their own sake: values are elaborated and forgotten, what looks like the head of a
loop or the bindings of a `let` names variables whose uses are silent, and what follows those is a body of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ..ir.errors import Diagnostic, SourceError
from ..ir.record import record
from .frame import BROKEN, Frame, Silenced
from .lists import is_list
from .locals import targets
from .operators import TABLE
from .sexpr import Form, Keyword, List, Symbol

NAMES = frozenset({"E0201", "E0203"})
SHAPES = frozenset({"E0501", "E0601"})  # at the form's own place: nothing of it has been looked at
LOOPS = frozenset({"dotimes", "loop"})
BINDERS = frozenset({"set", "setf", "make-array"})  # statements that make a name
_FOLLOWS = frozenset({"E0106", "E0605", "E0609"})  # what only the place inside a wrong form may bring about


@record
class Reader:
    """How one of the two styles reads a form: as a value, as a statement; which heads have a value, and which are statements alone."""

    frame: Frame
    value: Callable[[Form], object]
    statement: Callable[[Form], object]
    has_value: Callable[[str], bool]
    is_statement: Callable[[str], bool]

    def values(self, forms: Iterable[Form]) -> list[Diagnostic]:
        """The mistakes in operands of which it is not known what they are to be.  A bare word behind a keyword that takes one is no name."""
        found: list[Diagnostic] = []
        keyword: Keyword | None = None
        for f in forms:
            before, keyword = keyword, None
            match f:
                case Keyword():
                    keyword = f
                case Symbol() if f.name not in ("~", "_") and (before is None or not _takes_a_word(before.name)):
                    found += [] if self.names_a_list(f) else self.look(self.value, f)
                case List() if self.is_list(f):
                    found += self.values(f.items)
                case List():
                    found += self.look(self.statement if self.does(f) else self.value, f)
                case _:
                    pass
        return found

    def names_a_list(self, form: Symbol) -> bool:
        """A parameter that is a list: no number, but who knows whether one is wanted."""
        found = self.frame.resolve(form.name, form.place)
        return found is not None and is_list(found.value)

    def is_list(self, form: List) -> bool:
        """`(M N)`, `((0 1) _)`: numbers, names and lists, and no call."""
        if form.head is None or form.bracket != "(":
            return True
        known = self.has_value(form.head) or self.is_statement(form.head)
        return not known and self.frame.resolve(form.head, form.place) is not None

    def does(self, form: List) -> bool:
        """A statement; `(if c a b)`, `progn` and `let` are one where they have statements inside."""
        head = form.head or ""
        branches = [f.head or "" for f in form.items[2:] if isinstance(f, List)]
        return self.is_statement(head) and (not self.has_value(head) or any(self.is_statement(b) and not self.has_value(b) for b in branches))

    def look(self, read: Callable[[Form], object], form: Form) -> list[Diagnostic]:
        """The mistakes of one form, read and forgotten: a `return` in it returns nothing."""
        frame = self.frame
        before = frame.returned, frame.returned_early
        try:
            read(form)
        except SourceError as e:
            return [d for d in e.diagnostics if d.code not in _FOLLOWS]
        except Silenced:
            pass
        finally:
            frame.returned, frame.returned_early = before
        return []

    def inside(self, form: List) -> list[Diagnostic]:
        """The mistakes in what stands behind the head of a statement."""
        parts = parts_of(form, self)
        found = self.values(parts.values)
        with self.frame.scope() as inner:
            inner.update({name.name: BROKEN for name in parts.names})
            for f in parts.body:
                if isinstance(f, List):
                    found += self.look(self.statement, f)
        return found


def _takes_a_word(keyword: str) -> bool:
    """Some operator has a keyword of this name whose value may be a bare word; or nothing is known by it."""
    kinds = {o.keywords[keyword].kind for o in TABLE.values() if keyword in o.keywords}
    return not kinds or "text" in kinds


@record
class Parts:
    """`names` are new in the `body`, or where there is none behind the form; a `loop` has its body read in the loop style."""

    names: tuple[Symbol, ...]
    values: tuple[Form, ...]
    body: tuple[Form, ...] = ()
    loop: bool = False


def parts_of(form: List, reader: Reader) -> Parts:
    """What the operands of a statement look like: `((v e)…) form…`, `(v e…) form…` where v is used in the forms or they are statements, `v e…`, or values."""
    head, operands = (form.head or "").lower(), tuple(form.items[1:])
    first, rest = (operands[0], operands[1:]) if operands else (None, ())
    if isinstance(first, List) and first.items and (rest or head in LOOPS):
        pairs = [(b.items[0], b.items[1]) for b in first.items if isinstance(b, List) and len(b.items) == 2]
        if len(pairs) == len(first.items) and all(isinstance(name, Symbol) for name, _ in pairs):
            return Parts(tuple(name for name, _ in pairs if isinstance(name, Symbol)), tuple(value for _, value in pairs), rest)
        variable = first.items[0]
        if isinstance(variable, Symbol) and (head in LOOPS or (not reader.has_value(variable.name) and is_body(rest, variable.name, reader))):
            returns = any(isinstance(f, List) and (f.head or "").lower() == "return" for f in rest)
            return Parts((variable,), tuple(first.items[1:]), rest, loop=not returns)
    new = named(first) if first is not None else ()
    if new and (head in BINDERS or (rest and reader.frame.resolve(new[0].name, new[0].place) is None)):
        return Parts(new, rest)
    return Parts((), operands)


def is_body(forms: Sequence[Form], variable: str, reader: Reader) -> bool:
    """The forms look like the body of a loop over the variable; what nothing is known by may be a statement."""

    def is_one(f: Form) -> bool:
        head = f.head or "" if isinstance(f, List) else ""
        return bool(head) and (reader.is_statement(head) or not reader.has_value(head))

    return any(mentions(f, variable) or is_one(f) for f in forms)


def silence(frame: Frame, form: List) -> None:
    """After an unknown head at the place of a statement, `(sef z e)`: the names that it or its body may have been meant to define are not reported again."""
    first = form.items[1] if len(form.items) > 2 else None
    for name in (*(named(first) if first is not None else ()), *targets(form, BINDERS)):
        if frame.resolve(name.name, name.place) is None:
            frame.assign(name.name, BROKEN, name.place)


def named(place: Form) -> tuple[Symbol, ...]:
    """The names of `z` or `(values a b)`."""
    forms = place.items[1:] if isinstance(place, List) and (place.head or "").lower() == "values" else (place,)
    return tuple(f for f in forms if isinstance(f, Symbol))


def mentions(form: Form, name: str) -> bool:
    """The name stands in the form, in whatever case."""
    stack = [form]
    while stack:
        f = stack.pop()
        if isinstance(f, Symbol) and f.name.lower() == name.lower():
            return True
        if isinstance(f, List):
            stack.extend(f.items)
    return False


@contextmanager
def also(look: Callable[[], Sequence[Diagnostic]], shape_of: Form | None = None) -> Iterator[None]:
    """After a mistake what is further in is looked at as well; with `shape_of` only where the mistake is that this form has another shape than its head asks for."""
    try:
        yield
    except Silenced:
        found = [] if shape_of is not None else look()
        if found:
            raise SourceError(list(found)) from None
        raise
    except SourceError as e:
        if shape_of is not None and not any(d.code in SHAPES and d.span == shape_of.place.span for d in e.diagnostics):
            raise
        raise SourceError(list(dict.fromkeys([*e.diagnostics, *look()]))) from None
