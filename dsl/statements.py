"""Statements outside loops: they bind names to tensors.  A form of the loop style goes to `loops` as one nest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.graph import Shape
from ..ir.tensor import BuildError, Tensor
from . import arguments
from .diagnostics import shorten
from .evaluate import Evaluator, check_rank
from .frame import BROKEN, Broken, Silenced
from .locals import is_element, place_and_operand, targets
from .loops import run_nest
from .names import unique
from .recovery import NAMES, also, parts_of, silence
from .sexpr import Form, List, Symbol
from .source import error

UPDATES = {"incf": "add", "decf": "sub", "mulcf": "mul", "divcf": "div", "maxf": "max", "minf": "min"}


def execute(evaluator: Evaluator, form: Form) -> None:
    """Run one statement in the evaluator's frame; an expression leaves its value in `frame.last`.  Nothing behind a `return` that a compile-time `if`
    chose is run; behind any other one nothing may stand."""
    frame = evaluator.frame
    if frame.returned is not None:
        if frame.returned_early:
            return
        raise error("E0602", "this is never reached: it stands behind `return`", form.place)
    statement = STATEMENTS.get((form.head or "").lower()) if isinstance(form, List) else None
    frame.last = None
    if statement is None:
        if isinstance(form, List) and form.head is not None and not evaluator.knows(form.head):
            unknown_statement(evaluator, form)
        frame.last = evaluator.value(form)
        return
    assert isinstance(form, List)
    with evaluator.session.nested(form):
        evaluator.builder.span = form.place.span
        if statement is run_nest:
            run_nest(evaluator, form)
            return
        with also(lambda: evaluator.reader.inside(form), form):
            statement(evaluator, form)


def unknown_statement(evaluator: Evaluator, form: List) -> None:
    """Raises E0203, with the mistakes inside: one that looks like a loop is read as the loop style reads it."""
    if parts_of(form, evaluator.reader).loop:
        run_nest(evaluator, form)
    try:
        with also(lambda: evaluator.reader.inside(form)):
            raise evaluator.unknown_operator(form)
    finally:
        silence(evaluator.frame, form)


def assign(evaluator: Evaluator, form: List) -> None:
    """`(setf place value …)`: a name, `(values a b)`, or `(aref z i…)`, which makes a new version of z."""
    if len(form.items) < 3 or len(form.items) % 2 == 0:
        raise error("E0601", "this is not an assignment", form.place, f"expected: ({form.head} place value)")
    for k in range(1, len(form.items), 2):
        place, value = form.items[k], form.items[k + 1]
        if isinstance(place, List) and (place.head or "").lower() == "values":
            _assign_values(evaluator, place, value)
        elif is_element(place):
            store(evaluator, place, value, form)
        else:
            name = assignable(place)
            try:
                found = evaluator.value(value)
                if isinstance(found, tuple) and any(not isinstance(v, int) for v in found):
                    raise error("E0603", f"{len(found)} values for one name", value.place, "help: (setf (values a b) …)")
            except Exception:
                evaluator.frame.assign(name.name, BROKEN, name.place)
                raise
            evaluator.frame.assign(name.name, found, name.place)


def _assign_values(evaluator: Evaluator, place: List, value: Form) -> None:
    names = [assignable(f) for f in place.items[1:]]
    found: Any = [BROKEN] * len(names)
    try:
        found = evaluator.value(value)
        if not isinstance(found, tuple) or len(found) != len(names):
            count = len(found) if isinstance(found, tuple) else 1
            raise error("E0603", f"{len(names)} names for {count} value{'s' * (count != 1)}", place.place)
    finally:
        good = found if isinstance(found, (tuple, list)) and len(found) == len(names) else [BROKEN] * len(names)
        for name, v in zip(names, good, strict=True):
            evaluator.frame.assign(name.name, v, name.place)


def assignable(form: Form) -> Symbol:
    if not isinstance(form, Symbol):
        raise error("E0601", f"`{shorten(form.source_text)}` cannot be assigned", form.place, "expected: a name, (aref T i…) or (values a b)")
    return form


def store(evaluator: Evaluator, place: List, value: Form | None, form: List, op: str = "") -> None:
    """`(setf (aref z i…) value)` outside loops: z is bound to a new version; what else shared z's value keeps the old one."""
    if len(place.items) < 2 or not isinstance(place.items[1], Symbol):
        raise error("E0601", "only elements of a named tensor can be assigned", place.place)
    name = place.items[1]
    b = evaluator.builder
    problems = arguments.Problems()
    base = given = b.constant(1)
    indices: list[Tensor] = []
    with problems:
        given = increment(evaluator, value)
    with problems:
        base = current(evaluator, name)
    with problems:
        indices = arguments.tensors(evaluator, place.items[2:])
    problems.finish()
    base = b.strong(base) if base.weak else base
    check_rank(evaluator.frame, place, base.rank, len(indices))
    b.span = form.place.span
    if op:
        given = b.elementwise(op, evaluator.value(place), given)
    try:
        if all(i.integer is not None and not i.rank for i in indices):
            new = b.update(base, [b.position(i) for i in indices], given)
        elif len(indices) == base.rank:
            new = b.scatter_at(base, indices, b.retype(given, base.dtype) if given.weak else given)
        else:
            raise error("E0505", f"`aref` with integer tensors needs an index for each of the {base.rank} axes", place.place)
    except BuildError as e:
        raise error(e.code, e.message, place.place, *e.notes) from None
    rebind(evaluator, name, new)


def current(evaluator: Evaluator, name: Symbol) -> Tensor:
    """The tensor that a name stands for; an output port of its own that has no value yet is zeros."""
    found = evaluator.frame.resolve(name.name, name.place)
    declared = evaluator.frame.declared_output(name.name) if found is None else None
    if declared is not None:
        return evaluator.builder.zeros(*declared)
    value = evaluator.name(name)
    if isinstance(value, Broken):
        raise Silenced
    if not isinstance(value, Tensor):
        raise error("E0503", f"`{shorten(name.name)}` is no tensor", name.place)
    return value


def rebind(evaluator: Evaluator, name: Symbol, value: Tensor) -> None:
    """Give a tensor's name its new version.  An input that is no output is a copy of the composite's own: worth a warning."""
    frame = evaluator.frame
    found = frame.resolve(name.name, name.place)
    port = (
        unique(found.key if found else name.name, [p.name for p in frame.composite.ports if p.role == "in"], name.place)
        if found and found.space == "local"
        else None
    )
    if port is not None and port in frame.scopes[0] and found is not None and frame.scopes[0].get(port) is found.value:
        evaluator.session.warn(
            "W0701",
            f"`{port}` is no output: what is stored there is seen in this composite only",
            name.place,
            f"help: list `{port}` among the outputs to update it in place",
        )
    frame.assign(found.key if found and found.space == "local" else name.name, value, name.place)


def update(evaluator: Evaluator, form: List) -> None:
    """`(incf place [e])` and its kin; without `e` by 1."""
    head = (form.head or "").lower()
    place, operand = place_and_operand(form)
    if is_element(place):
        store(evaluator, place, operand, form, UPDATES[head])
        return
    name, value = assignable(place), increment(evaluator, operand)
    old = current(evaluator, name)
    evaluator.builder.span = form.place.span
    rebind(evaluator, name, evaluator.guarded(form, lambda: evaluator.builder.elementwise(UPDATES[head], old, value)))


def increment(evaluator: Evaluator, form: Form | None) -> Tensor:
    """What is stored or added; 1 where nothing is said."""
    return evaluator.builder.constant(1) if form is None else arguments.tensor(evaluator, form)


def make_array(evaluator: Evaluator, form: List) -> None:
    """`(make-array v dtype (sizes))`: a local tensor of zeros."""
    name, dtype, shape = array_parts(evaluator, form)
    evaluator.frame.scopes[-1][name.name] = evaluator.builder.zeros(shape, dtype)


def array_parts(evaluator: Evaluator, form: List) -> tuple[Symbol, Any, Shape]:
    if len(form.items) != 4:
        raise error("E0601", "this is not a `make-array`", form.place, "expected: (make-array name dtype (sizes))")
    return assignable(form.items[1]), arguments.type_(evaluator, form.items[2]), arguments.shape(evaluator, form.items[3])


def sequence(evaluator: Evaluator, form: List) -> None:
    run_all(evaluator, form.items[1:])


def let(evaluator: Evaluator, form: List) -> None:
    with evaluator.bindings(form) as body:
        run_all(evaluator, body)


def run_all(evaluator: Evaluator, forms: tuple[Form, ...]) -> None:
    """Statements in order; mistakes in several are reported together."""
    problems = arguments.Problems()
    for f in forms:
        with problems:
            execute(evaluator, f)
    problems.finish()


def conditional(evaluator: Evaluator, form: List) -> None:
    """`(if c then [else])` as a statement: a compile-time condition chooses a form, any other one makes a nest."""
    items = form.items
    if not 3 <= len(items) <= 4:
        raise error("E0501", f"`if` takes 2 or 3 operands, found {len(items) - 1}", form.place, "expected: (if condition then [else])")
    condition: Any = None
    problems = arguments.Problems()
    with problems:
        condition = arguments.anything(evaluator, items[1])
    if condition is None:
        for name in targets(form):
            evaluator.frame.assign(name.name, BROKEN, name.place)
        reader = evaluator.reader
        problems.found += [d for f in items[2:] for d in reader.look(reader.statement, f) if d.code in NAMES]  # one of the two may not be meant
        problems.finish()
    if isinstance(condition, bool):
        chosen = items[2] if condition else items[3] if len(items) == 4 else None
        if chosen is not None:
            execute(evaluator, chosen)
            evaluator.frame.returned_early = evaluator.frame.returned is not None
    elif any(is_statement(f) for f in items[2:]):
        run_nest(evaluator, form)
    else:
        evaluator.frame.last = evaluator.value(form)


def is_statement(form: Form) -> bool:
    return isinstance(form, List) and (form.head or "").lower() in STATEMENTS and (form.head or "").lower() not in ("if", "progn", "let")


def give(evaluator: Evaluator, form: List) -> None:
    """`(return e…)`: the outputs in order."""
    problems = arguments.Problems()
    values: list[Any] = []
    for f in form.items[1:]:
        with problems:
            value = arguments.anything(evaluator, f)
            values.extend(value if isinstance(value, tuple) else (value,))
    problems.finish()
    outputs = evaluator.frame.composite.outputs
    if len(values) != len(outputs):
        raise error(
            "E0603",
            f"`return` gives {len(values)} value{'s' * (len(values) != 1)} for {len(outputs)} output{'s' * (len(outputs) != 1)}",
            form.place,
            f"expected: {' '.join(outputs)}",
        )
    evaluator.frame.returned = list(values)


STATEMENTS: dict[str, Callable[[Evaluator, List], None]] = {
    "setf": assign, "set": assign, "make-array": make_array, "progn": sequence, "let": let, "if": conditional, "return": give,
    "dotimes": run_nest, "loop": run_nest, "while": run_nest, **dict.fromkeys(UPDATES, update),
}  # fmt: skip
