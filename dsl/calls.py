"""Composites calling composites: the callee's body is elaborated in a frame of its own, on the caller's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.errors import Diagnostic, SourceError
from ..ir.expr import const
from ..ir.tensor import BuildError, Tensor
from . import arguments
from .ast import Composite, Parameter, PortDecl
from .diagnostics import nearest, shorten
from .evaluate import Evaluator
from .frame import BROKEN, Frame
from .interface import Unifier, bind_output, parameters_of
from .names import unique
from .operators import Operand
from .recovery import also
from .sexpr import Form, List, Symbol
from .sizes import comparison, evaluate, symbols
from .source import Place, diagnostic, error

_PARAMETER_KINDS = {
    "axis": "axis",
    "int": "axis",
    "axes": "axes",
    "ints": "axes",
    "float": "literal",
    "bool": "flag",
    "dtype": "type",
    "string": "text",
}


def call_composite(evaluator: Evaluator, form: List, composite: Composite) -> Any:
    """The value of `(composite operand… :keyword value…)`: a tensor, or a tuple where it has several outputs.

    A name given at a port that is updated in place stands for the new value afterwards."""
    given: list[tuple[PortDecl, Form, Tensor]] = []
    values: dict[str, Any] = {}
    with also(lambda: evaluator.reader.values(form.items[1:])):
        ports, keywords = split_call(form, composite)
    problems = arguments.Problems()
    for port, f in ports:
        with problems:
            given.append((port, f, arguments.tensor(evaluator, f)))
    for parameter, f in keywords:
        with problems:
            values[parameter.name] = parameter_value_of(evaluator, parameter, f)
    problems.finish()
    results = apply_composite(evaluator, composite, [(p, x, f.place) for p, f, x in given], values, form.place)
    for p, f, _ in given:
        if p.role == "inout" and isinstance(f, Symbol):
            evaluator.updated(f, results[composite.outputs.index(p.name)])
    return results[0] if len(results) == 1 else tuple(results)


def apply_composite(
    evaluator: Evaluator, composite: Composite, given: Sequence[tuple[PortDecl, Tensor, Place]], values: dict[str, Any], place: Place
) -> list[Tensor]:
    """The outputs of a composite for these tensors at its ports and these values of its parameters."""
    session = evaluator.session
    frame = Frame(composite)
    with session.entered(composite, place):
        frame.parameters = parameters_of(composite, {k: v for k, v in values.items() if v is not None}, place)
        present = {p.name for p, _, _ in given}
        frame.given = {p.name: p.name in present for p in composite.inputs if p.optional}
        unifier = Unifier(session, frame)
        unifier.types(given)
        for p, x, where in given:
            frame.scopes[0][p.name] = unifier.port(p, x, where)
        unifier.solve()
        _constraints(evaluator, unifier, composite, place)
        unifier.finish()
        frame.leading = unifier.broadcast(place) if unifier.leading else None
        frame.declare_outputs(frame.leading or ())
        try:
            return run_body(Evaluator(session, frame), unifier)
        except SourceError as e:
            raise _from_callee(e, composite, evaluator.frame.composite, place) from None


def split_call(form: List, composite: Composite) -> tuple[list[tuple[PortDecl, Form]], list[tuple[Parameter, Form]]]:
    """Operands by port, keywords by parameter (or by port).  E0501, E0502."""
    positional, keywords = arguments.split(form)
    inputs = composite.inputs
    if len(positional) > len(inputs):
        raise error(
            "E0501",
            f"`{composite.name}` takes {len(inputs)} operand{'s' * (len(inputs) != 1)}, found {len(positional)}",
            form.place,
            f"expected: {composite.signature}",
        )
    ports: dict[str, tuple[PortDecl, Form]] = {p.name: (p, f) for p, f in zip(inputs, positional, strict=False)}
    parameters: list[tuple[Parameter, Form]] = []
    for name, (key, value) in keywords.items():
        parameter = unique(name, [p.name for p in composite.parameters], key.place)
        port = unique(name, [p.name for p in inputs], key.place)
        if parameter is not None:
            parameters.append((next(p for p in composite.parameters if p.name == parameter), value))
        elif port is not None and port not in ports:
            ports[port] = (composite.port(port), value)
        else:
            known = [f":{p.name}" for p in composite.parameters]
            what = f"`{port}` of `{composite.name}` is given twice" if port else f"`{composite.name}` has no keyword :{shorten(name)}"
            raise error("E0502", what, key.place, *(nearest(f":{name}", known) or (f"expected: {composite.signature}",)))
    absent = [n for n, (_, f) in ports.items() if isinstance(f, Symbol) and f.name.lower() == "nil"]
    found = [ports[p.name] for p in inputs if p.name in ports and p.name not in absent]
    missing = [p.name for p in inputs if not p.optional and p.name not in [q.name for q, _ in found]]
    if missing:
        raise error("E0501", f"`{composite.name}` needs {', '.join(f'`{m}`' for m in missing)}", form.place, f"expected: {composite.signature}")
    return found, parameters


def parameter_value_of(evaluator: Evaluator, parameter: Parameter, form: Form) -> Any:
    """The value that a call gives to a parameter."""
    value = arguments.read(evaluator, form, Operand(parameter.name, _PARAMETER_KINDS[parameter.type]))
    return list(value) if isinstance(value, tuple) else value


def _constraints(evaluator: Evaluator, unifier: Unifier, composite: Composite, place: Place) -> None:
    """The callee's `where`: an equation gives a size that is still unknown; everything else is proven, refuted, or becomes a precondition of the caller."""
    frame, b = unifier.frame, evaluator.builder
    waiting = [*(c for p in composite.ports for c in p.where), *composite.where]
    lookup = _Lookup(frame)
    while waiting:
        again = []
        for c in waiting:
            sides = [(s, [n for n in symbols(s) if not lookup.knows(n)]) for s in (c.left, c.right)]
            open_ = [n for _, ns in sides for n in ns]
            if not open_:
                condition = comparison(c.op, *(evaluate(s, lookup) for s, _ in sides))
                text = c.place.text.value[c.place.start : c.place.end]
                try:
                    b.require(condition, "E0307", f"`{composite.name}` needs {shorten(text)}, which does not hold here")
                except BuildError as e:
                    raise error(e.code, e.message, place, *e.notes) from None
            elif c.op == "=" and len(open_) == 1 and any(isinstance(s, Symbol) and ns for s, ns in sides):
                other = next(s for s, ns in sides if not ns) if any(not ns for _, ns in sides) else None
                if other is None:
                    again.append(c)
                else:
                    frame.sizes[open_[0].name] = evaluate(other, lookup)
            else:
                again.append(c)
        if len(again) == len(waiting):
            return  # what is left speaks of sizes that the body defines
        waiting = again


class _Lookup:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def knows(self, s: Symbol) -> bool:
        return unique(s.name, self.frame.sizes, s.place) is not None or s.name in self.frame.parameters

    def __call__(self, s: Symbol) -> Any:
        key = unique(s.name, self.frame.sizes, s.place)
        return self.frame.sizes[key] if key is not None else const(self.frame.parameters[s.name])


def run_body(evaluator: Evaluator, unifier: Unifier) -> list[Tensor]:
    """Elaborate the body of the evaluator's frame and give its outputs in order, each as its port says."""
    from .statements import run_all

    frame = evaluator.frame
    composite = frame.composite
    run_all(evaluator, composite.body)
    problems = arguments.Problems()
    results: list[Tensor] = []
    last = composite.body[-1]
    values = frame.returned
    outputs = [composite.port(n) for n in composite.outputs]
    if values is None and isinstance(frame.last, (Tensor, tuple)) and not any(p.name in frame.scopes[0] for p in outputs if p.role == "out"):
        found = frame.last if isinstance(frame.last, tuple) else (frame.last,)
        values = list(found) if len(found) == len(outputs) else None
    for k, port in enumerate(outputs):
        with problems:
            value = values[k] if values is not None else frame.scopes[0].get(port.name)
            if value is None:
                raise error("E0606", f"the output `{port.name}` is never given a value", port.place, f"help: (return …) or (setf {port.name} …)")
            if value is BROKEN:
                continue
            place = _return_place(composite, k) or last.place
            if isinstance(value, bool):
                value = evaluator.builder.constant(value)
            if not isinstance(value, Tensor):
                raise error("E0603", f"the value of the output `{port.name}` is no tensor", place)
            results.append(bind_output(frame, unifier, port, value, place))
    problems.finish()
    return results


def _return_place(composite: Composite, k: int) -> Place | None:
    """The operand of `return` that is the k-th output, where the body ends in a `return`."""
    form = composite.body[-1]
    if isinstance(form, List) and (form.head or "").lower() == "return" and len(form.items) == len(composite.outputs) + 1:
        return form.items[k + 1].place
    return None


def _from_callee(e: SourceError, callee: Composite, caller: Composite, place: Place) -> SourceError:
    """A mistake in the body of a callee of another file is told at the call; one of the same file where it stands, with the call as a note."""
    span = place.span
    found: list[Diagnostic] = []
    for d in e.diagnostics:
        if d.span.file != caller.file and callee.file != caller.file:
            where = f"note: in `{callee.name}`, {d.span.file}:{d.span.line}:{d.span.column}"
            found.append(
                diagnostic(d.code, f"in `{callee.name}`: {d.message}" if not d.message.startswith("in `") else d.message, place, *d.notes, where)
            )
        else:
            found.append(
                Diagnostic(
                    d.code,
                    d.message,
                    d.span,
                    (*d.notes, f"note: called as `{callee.name}` from {span.file}:{span.line}:{span.column}"),
                    d.severity,
                    d.text,
                )
            )
    return SourceError(found)
