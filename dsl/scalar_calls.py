"""Composites called on numbers inside a loop: `(setf (aref Y i) (gelu (aref X i)))`.

A composite whose ports are all scalars or of any rank (`[~]`) works on numbers as it does on tensors without axes; its body is then made of
`setf` of names, compile-time `if`, `let` and `return`, which are evaluated as scalar expressions on the spot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import f32, i64
from ..ir.tensor import BuildError
from . import scalars
from .arguments import Problems
from .ast import Composite, PortDecl
from .calls import parameter_value_of, split_call
from .evaluate import Evaluator, let_pairs
from .frame import Frame
from .interface import parameters_of, type_of
from .locals import Plain
from .recovery import also
from .scalars import Scalar
from .sexpr import Form, List, Symbol
from .source import Place, error

if TYPE_CHECKING:
    from .loop_values import LoopValues


def call_on_numbers(values: LoopValues, form: List, composite: Composite) -> Any:
    """The number that the call gives; the composite is one that `tensorial.on_numbers` accepts."""
    walk = values.walk
    frame = Frame(composite)
    with also(lambda: values.reader.values(form.items[1:])):
        ports, keywords = split_call(form, composite)
    problems = Problems()
    given: list[tuple[PortDecl, Form, Scalar]] = []
    chosen: dict[str, Any] = {}
    for p, f in ports:
        with problems:
            given.append((p, f, values.scalar(f)))
    for p, f in keywords:
        with problems:
            chosen[p.name] = parameter_value_of(walk.evaluator, p, f)
    problems.finish()
    with walk.session.entered(composite, form.place):
        frame.parameters = parameters_of(composite, chosen, form.place)
        frame.given = {p.name: p.name in [q.name for q, _, _ in given] for p in composite.inputs if p.optional}
        for p, f, x in given:
            frame.scopes[0][p.name] = Plain(
                Scalar(_converted(frame, p, x, [y for q, _, y in given if q.type == p.type or _same_variable(p, q)], f.place))
            )
        outer = walk.evaluator, walk.frame
        walk.evaluator, walk.frame = Evaluator(walk.session, frame), frame
        try:
            result = _body(values, composite.body, composite)
        finally:
            walk.evaluator, walk.frame = outer
    out = composite.port(composite.outputs[0])
    wanted = type_of(out.type, frame.dtypes) if out.type is not None else result.dtype
    return Scalar(_retyped(result, wanted, form.place))


def _same_variable(p: PortDecl, q: PortDecl) -> bool:
    return p.type is not None and q.type is not None and p.type.dtype is None and p.type.name == q.type.name


def _converted(frame: Frame, port: PortDecl, x: Scalar, together: list[Scalar], place: Place) -> Any:
    """The operand in the port's dtype; a type variable is bound by the first operand that has a dtype of its own."""
    assert port.type is not None
    if port.type.dtype is None and port.type.name not in frame.dtypes:
        own = [y.expr.dtype for y in together if not y.weak]
        frame.dtypes[port.type.name] = own[0] if own else f32 if any(y.weak == "float" for y in together) else i64
    return _retyped(x, type_of(port.type, frame.dtypes), place)


def _retyped(x: Scalar, to: Any, place: Place) -> Any:
    try:
        return scalars.retype(x, to)
    except BuildError as e:
        raise error(e.code, e.message, place, *e.notes) from None


def _body(values: LoopValues, forms: tuple[Form, ...], composite: Composite) -> Scalar:
    """The value of the body: of its `return`, of the output's name, or of its last form."""
    last: Any = None
    for form in forms:
        last = _statement(values, form, composite)
        if values.walk.frame.returned is not None:
            return values.walk.frame.returned[0]
    if isinstance(last, Scalar):
        return last
    found = values.walk.frame.scopes[0].get(composite.outputs[0])
    if not isinstance(found, Plain):
        raise error("E0606", f"the output `{composite.outputs[0]}` is never given a value", composite.place)
    return found.value


def _statement(values: LoopValues, form: Form, composite: Composite) -> Any:
    frame = values.walk.frame
    match (form.head or "").lower() if isinstance(form, List) else "":
        case "return" if isinstance(form, List) and len(form.items) == 2:
            frame.returned = [values.scalar(form.items[1])]
        case "setf" | "set" if isinstance(form, List) and len(form.items) == 3 and isinstance(form.items[1], Symbol):
            frame.assign(form.items[1].name, values.binding(form.items[2]), form.place)
        case "let" if isinstance(form, List):
            pairs = [(name.name, Plain(values.scalar(value))) for name, value in let_pairs(form)]
            with frame.scope() as inner:
                inner.update(pairs)
                return [_statement(values, f, composite) for f in form.items[2:]][-1]
        case "if" if isinstance(form, List) and len(form.items) >= 3 and isinstance(values.value(form.items[1]), bool):
            chosen = form.items[2:3] if values.value(form.items[1]) else form.items[3:4]
            return _statement(values, chosen[0], composite) if chosen else None
        case _:
            return values.scalar(form)
    return None
