"""Expressions of the tensor style: a form → its value, built on the way.

Recursion follows the nesting of the text, which `sexpr` bounds; what inlining adds is bounded by `Session.nested`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir.build import Builder
from ..ir.dtypes import dtype, i64
from ..ir.errors import SourceError
from ..ir.tensor import BuildError, Tensor
from . import arguments, lists
from .diagnostics import nearest, shorten
from .frame import BROKEN, Broken, Frame, Silenced, no_operator, taken_for_output, unknown
from .names import unique
from .operators import DRAWN, TABLE, Operator, truth
from .recovery import NAMES, Reader, also
from .sexpr import Form, Keyword, List, Number, String, Symbol
from .source import error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .session import Session


class Evaluator:
    """Evaluates the forms of one frame.  `session` holds what all frames of an elaboration share."""

    def __init__(self, session: Session, frame: Frame) -> None:
        self.session = session
        self.frame = frame

    @property
    def builder(self) -> Builder:
        return self.session.builder

    def value(self, form: Form) -> Any:
        """A Tensor or a compile-time value (see frame.py).  Raises SourceError, or Silenced where a broken name is used."""
        match form:
            case Number(value=value):
                return self.builder.constant(value)
            case Symbol():
                return self.name(form)
            case List():
                return self.call(form)
            case String(value=value):
                return value
            case _:
                what = "a keyword has no place here" if isinstance(form, Keyword) else f"`{shorten(form.source_text)}` has no value"
                raise error("E0503", what, form.place, *(("help: keywords follow the operands",) if isinstance(form, Keyword) else ()))

    def name(self, form: Symbol) -> Any:
        found = self.frame.resolve(form.name, form.place)
        if found is None:
            known = dtype(form.name)
            if known is not None and known.lanes == 1:
                return known
            self._unassigned(form)
            raise unknown(form.name, self.frame, form.place)
        value = found.value
        if isinstance(value, Broken):
            raise Silenced
        if found.space == "size":
            return self.builder.integer(value)
        if found.space in ("parameter", "literal"):
            return self.lifted(value)
        return value

    def updated(self, name: Symbol, value: Tensor) -> None:
        """A call has given this name, at a port that is updated in place, a new value: a local or an output gets it; inputs are never changed."""
        frame = self.frame
        found = frame.resolve(name.name, name.place)
        inputs = [p.name for p in frame.composite.ports if p.role == "in"]
        if found is not None and found.space == "local" and not (found.key in inputs and frame.scopes[0].get(found.key) is found.value):
            frame.assign(name.name, value, name.place)

    def lifted(self, value: Any) -> Any:
        """A parameter's or a literal's value: numbers become weak tensors."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.builder.constant(value)
        return value

    def _unassigned(self, form: Symbol) -> None:
        """A better message for the name of an optional port that is absent, or of an output that has no value yet."""

        for port in self.frame.composite.ports:
            if unique(form.name, [port.name], form.place):
                if port.optional and not self.frame.given.get(port.name, True):
                    raise error(
                        "E0604", f"the optional port `{port.name}` is not given", form.place, f"help: ask first: (if (given {port.name}) … …)"
                    )
                if port.role == "out":
                    raise error("E0604", f"the output `{port.name}` has no value here", form.place)

    def call(self, form: List) -> Any:
        """`(head operand…)`: a special form, an operator of the table or a composite."""
        head = form.head
        if head is None:
            what = "an empty list has no value" if not form.items else f"expected an operator, found `{shorten(form.items[0].source_text)}`"
            indexed = form.bracket == "[" and form.items
            raise error("E0503", what, form.place, *(("help: an element is (aref T i), a part of a tensor (slice T (from to))",) if indexed else ()))
        with self.session.nested(form):
            special = SPECIAL.get(head.lower())
            if special is not None:
                with also(lambda: self.reader.values(form.items[1:]), form):
                    return self.guarded(form, lambda: special(self, form))
            composite = self.session.composite(head, self.frame)
            if composite is not None:
                from .calls import call_composite

                return call_composite(self, form, composite)
            operator = operator_of(head)
            if operator is None:
                with also(lambda: self.reader.inside(form) if head.lower() in STATEMENTS else self.reader.values(form.items[1:])):
                    raise self.unknown_operator(form)
            operands, keywords = arguments.bind(self, form, operator)
            self.builder.span = form.place.span
            return self.guarded(form, lambda: operator.run(self.builder, *operands, **keywords))

    def guarded(self, form: Form, run: Callable[[], Any]) -> Any:
        """What the builder refuses becomes a diagnostic at the form."""
        try:
            return run()
        except BuildError as e:
            raise error(e.code, e.message, form.place, *e.notes) from None

    def knows(self, head: str) -> bool:
        """Whether `(head …)` has a value."""
        return head.lower() in SPECIAL or operator_of(head) is not None or self.session.composite(head, self.frame) is not None

    @property
    def reader(self) -> Reader:
        """For what stands inside a wrong form."""
        from .statements import execute

        return Reader(self.frame, self.value, lambda f: execute(self, f), self.knows, lambda head: head.lower() in STATEMENTS)

    def unknown_operator(self, form: List) -> SourceError:
        head = form.items[0]
        name = form.head or ""
        if name.lower() in STATEMENTS:
            return error(
                "E0605", f"`{name}` is a statement and has no value", head.place, "help: it stands by itself, before what reads what it stores"
            )
        known = [*TABLE, *SPECIAL, *STATEMENTS, *self.session.scope.names()]
        return error("E0203", f"unknown operator or composite `{shorten(name)}`", head.place, *no_operator(self.frame, name, known, head.place))

    @contextmanager
    def bindings(self, form: List) -> Iterator[tuple[Form, ...]]:
        """`(let ((v e)…) form…)`: an inner scope with the variables, and the forms of the body.  As in Lisp's `let`, all values come first."""
        problems = arguments.Problems()
        values: dict[str, Any] = {}
        for name, value in let_pairs(form):
            values[name.name] = BROKEN  # where a mistake follows
            with problems:
                values[name.name] = self.value(value)
        with self.frame.scope() as inner, problems:
            inner.update(values)
            yield form.items[2:]
        problems.finish()


def operator_of(head: str) -> Operator | None:
    return TABLE.get(head) or TABLE.get(head.lower().replace("_", "-"))


STATEMENTS = ("dotimes", "loop", "while", "progn", "let", "set", "setf", "make-array", "incf", "decf", "mulcf", "divcf", "maxf", "minf", "return")


def let_pairs(form: List) -> list[tuple[Symbol, Form]]:
    """The checked bindings of a `let`."""
    if len(form.items) < 3 or not isinstance(form.items[1], List):
        raise error("E0601", "this is not a `let`", form.place, "expected: (let ((name value)…) form…)")
    pairs: list[tuple[Symbol, Form]] = []
    for item in form.items[1].items:
        if not (isinstance(item, List) and len(item.items) == 2 and isinstance(item.items[0], Symbol)):
            raise error("E0601", f"`{shorten(item.source_text)}` is not a binding", item.place, "expected: (name value)")
        pairs.append((item.items[0], item.items[1]))
    return pairs


# ---- special forms: their operands are not all evaluated, or not all tensors


def given(evaluator: Evaluator, form: List) -> bool:
    """`(given B)`: whether the optional port is there, a compile-time truth value."""

    if len(form.items) != 2 or not isinstance(form.items[1], Symbol):
        raise error("E0501", "`given` takes the name of a port", form.place, "expected: (given B)")
    name = form.items[1]
    key = unique(name.name, [p.name for p in evaluator.frame.composite.ports if p.is_input], name.place)
    if key is None:
        raise error(
            "E0201", f"`{shorten(name.name)}` is not a port", name.place, *nearest(name.name, [p.name for p in evaluator.frame.composite.ports])
        )
    return evaluator.frame.given.get(key, True)


def conditional(evaluator: Evaluator, form: List) -> Any:
    """`(if c a b)` as a value: a compile-time condition chooses a form, any other an element of each."""
    items = form.items
    if not 3 <= len(items) <= 4:
        raise error("E0501", f"`if` takes 2 or 3 operands, found {len(items) - 1}", form.place, "expected: (if condition then [else])")
    problems = arguments.Problems()
    condition: Any = None
    with problems:
        condition = arguments.anything(evaluator, items[1])
    if condition is None:
        problems.found += [d for d in evaluator.reader.values(items[2:]) if d.code in NAMES]  # one of the two may not be meant
        problems.finish()
    if isinstance(condition, bool):
        if not condition and len(items) == 3:
            return False
        return evaluator.value(items[2] if condition else items[3])
    if len(items) == 3:
        raise error("E0501", "an `if` that gives a value needs both branches", form.place, "expected: (if condition then else)")
    branches: list[Tensor] = []
    for f in items[2:]:
        with problems:
            branches.append(arguments.tensor(evaluator, f))
    problems.finish()
    evaluator.builder.span = form.place.span
    return evaluator.builder.where(truth(evaluator.builder, condition), *branches)


def several(evaluator: Evaluator, form: List) -> tuple[Any, ...]:
    """`(values a b)`."""
    return tuple(arguments.each(form.items[1:], evaluator.value))


def sequence(evaluator: Evaluator, form: List) -> Any:
    """`(progn form… value)` and the body of a `let`, as a value."""
    return body_value(evaluator, form.items[1:], form)


def let(evaluator: Evaluator, form: List) -> Any:
    with evaluator.bindings(form) as body:
        return body_value(evaluator, body, form)


def body_value(evaluator: Evaluator, forms: tuple[Form, ...], form: List) -> Any:
    from .statements import execute

    if not forms:
        raise error("E0501", f"`{form.head}` is empty", form.place)
    problems = arguments.Problems()
    for f in forms[:-1]:
        with problems:
            execute(evaluator, f)
    result: Any = None
    with problems:
        result = evaluator.value(forms[-1])
    problems.finish()
    return result


def element(evaluator: Evaluator, form: List) -> Any:
    """`(aref T i…)`: plain integers pick (fewer than T has axes leave the rest), integer tensors gather.  `(aref list k)` of a parameter that is a list."""
    items = form.items
    if len(items) < 2:
        raise error("E0501", "`aref` takes a tensor and its indices", form.place, "expected: (aref T i…)")
    if isinstance(items[1], Symbol):
        with also(lambda: evaluator.reader.values(items[2:])):
            found = arguments.anything(evaluator, items[1])
        if lists.is_list(found):
            return evaluator.builder.constant(lists.picked(form, found, arguments.axis(evaluator, lists.the_index(form))))
    base, *indices = arguments.tensors(evaluator, items[1:])
    check_rank(evaluator.frame, form, base.rank, len(indices))
    evaluator.builder.span = form.place.span
    if not indices:
        return base
    if all(i.integer is not None and not i.rank for i in indices):
        return evaluator.builder.slice(base, [evaluator.builder.position(i) for i in indices])
    if len(indices) < base.rank:
        raise error("E0505", f"`aref` with integer tensors needs an index for each of the {base.rank} axes, found {len(indices)}", form.place)
    return evaluator.builder.gather_at(base, indices)


def length(evaluator: Evaluator, form: List) -> Any:
    """`(length list)`: how many numbers a parameter of type ints or axes has."""
    values = arguments.anything(evaluator, form.items[1]) if len(form.items) == 2 else None
    return evaluator.builder.constant(lists.length_of(form, values if lists.is_list(values) else None))


def check_rank(frame: Frame, form: List, rank: int, found: int) -> None:
    if found > rank:
        base = form.items[1]
        said = f"`{shorten(base.source_text)}` has {rank} ax{'i' if rank == 1 else 'e'}s, found {found} ind{'ex' if found == 1 else 'ices'}"
        raise error("E0505", said, form.place, *(taken_for_output(frame, base.name, rank) if isinstance(base, Symbol) else ()))


def drawn(evaluator: Evaluator, form: List) -> Any:
    """`(rand (M N) :seed s :dtype f32)`, `randn`: the library composite of that name on the positions of a tensor, in row-major order."""
    from .calls import apply_composite

    head = (form.head or "").lower()
    operands, keywords = arguments.bind(evaluator, form, DRAWN[head])
    composite = evaluator.session.scope.library(head)
    b, (shape,) = evaluator.builder, operands
    b.span = form.place.span
    position, seed = b.row_major(shape), keywords["seed"]
    if seed is None:
        raise error("E0504", f"`{head}` needs a seed", form.place, "help: the same seed gives the same numbers: (rand (M N) :seed 1)")
    if seed.weak != "int" and not seed.dtype.is_integer:
        raise error("E0318", f"a seed of dtype {seed.dtype}", form.place, "help: (cast i64 s)")
    wanted = keywords["dtype"]
    if wanted is not None and (not wanted.is_float or wanted.bits < 16):
        raise error("E0303", f"`{head}` of {wanted}", form.place, "help: it makes f64 f32 f16 bf16")
    given = [(composite.ports[0], b.cast(position, i64), form.place), (composite.ports[1], b.cast(seed, i64), form.place)]
    return apply_composite(evaluator, composite, given, {"dtype": wanted}, form.place)[0]


SPECIAL: dict[str, Callable[[Evaluator, List], Any]] = {
    "given": given, "if": conditional, "values": several, "progn": sequence, "let": let, "aref": element, "length": length, "rand": drawn, "randn": drawn,
}  # fmt: skip
