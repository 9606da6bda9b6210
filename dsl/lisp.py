"""Composites as S-expressions.

file      ::= composite*
composite ::= (composite [NAME] ((port* [&key (NAME default)*]) -> outputs [where constraints]) ["documentation"] form*)
outputs   ::= (port*) | port
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from ..ir.dtypes import dtype
from .ast import Composite, Constraint, Parameter, PortDecl, Test
from .diagnostics import Collector, shorten
from .names import composite_name, fold, port_names
from .ports import read_constraints, read_ports
from .sexpr import Form, List, Number, String, Symbol, parse
from .source import Place, error, whole


def read_lisp(text: str, file: str) -> tuple[Composite, ...]:
    """Raises SourceError: E0101 … E0122."""
    content = whole(file, text)
    forms = parse(content)
    collector = Collector()
    found: list[Composite] = []
    for form in forms:
        with collector.catching():
            found.append(_composite(form, file, PurePath(file).stem))
    if not forms:
        raise error("E0110", "there is no composite in this file", Place(content, 0, 1), "expected: (composite NAME (ports -> ports) form…)")
    collector.finish()
    return tuple(found)


def _composite(form: Form, file: str, stem: str) -> Composite:
    if not isinstance(form, List) or form.head is None or form.head.lower() != "composite":
        raise error("E0122", f"expected (composite …), found `{shorten(form.source_text)}`", form.place)
    rest = list(form.items[1:])
    if rest and isinstance(rest[0], Symbol):
        place = rest[0].place
        name = composite_name(rest[0].name, place)
        rest.pop(0)
    else:
        place = form.items[0].place
        name = stem if stem[:1].isalpha() and stem.replace("-", "_").isidentifier() and stem.isascii() else "composite"
    if not rest or not isinstance(rest[0], List):
        raise error("E0122", "the ports are missing", place, "expected: (composite NAME ((A{f32}[N]) -> (B{f32}[N])) form…)")
    header = rest.pop(0)
    assert isinstance(header, List)
    documentation = ""
    if len(rest) > 1 and isinstance(rest[0], String):
        documentation = rest[0].value.strip()
        rest.pop(0)
    collector = Collector()
    ports: tuple[PortDecl, ...] = ()
    names: tuple[str, ...] = ()
    where: tuple[Constraint, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    with collector.catching():
        ports, names, where, parameters = _header(header)
    if not rest:
        collector.add(error("E0119", "the code is empty", place, "help: `(return A)` gives a port as it is").diagnostics[0])
    collector.finish()
    return Composite(name, ports, names, where, parameters, tuple(rest), Test(), {}, documentation, place, form.source_text, file)


def _header(header: List) -> tuple[tuple[PortDecl, ...], tuple[str, ...], tuple[Constraint, ...], tuple[Parameter, ...]]:
    items = header.items
    arrow = next((k for k, f in enumerate(items) if isinstance(f, Symbol) and f.name == "->"), None)
    if arrow is None:
        raise error("E0122", "`->` is missing between inputs and outputs", header.place, "expected: ((A{f32}[N]) -> (B{f32}[N]))")
    end = next((k for k, f in enumerate(items) if isinstance(f, Symbol) and fold(f.name) == "where" and k > arrow), len(items))
    left, right = _inner(items[:arrow]), _inner(items[arrow + 1 : end])
    key = next((k for k, f in enumerate(left) if isinstance(f, Symbol) and fold(f.name) == "&key"), len(left))
    collector = Collector()
    inputs: list[PortDecl] = []
    outputs: list[PortDecl] = []
    parameters: tuple[Parameter, ...] = ()
    where: tuple[Constraint, ...] = ()
    with collector.catching():
        inputs = read_ports(left[:key], "in")
    with collector.catching():
        outputs = read_ports(right, "out")
        if not outputs:
            raise error("E0118", "a composite needs an output", items[arrow].place)
    with collector.catching():
        parameters = tuple(_parameter(f) for f in left[key + 1 :])
    with collector.catching():
        if end < len(items):
            where = read_constraints(items[end + 1 :], items[end].place)
    collector.finish()
    return *port_names(inputs, outputs, bare_is_input=False), where, parameters


def _inner(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """`(port port …)` or the ports themselves."""
    first = forms[0] if forms else None
    return first.items if len(forms) == 1 and isinstance(first, List) and first.bracket == "(" else forms


def _parameter(form: Form) -> Parameter:
    """`(axis -1)`: the type follows from the default, and from the names `axis` and `axes`."""
    if not isinstance(form, List) or len(form.items) != 2 or not isinstance(form.items[0], Symbol):
        raise error("E0122", f"`{shorten(form.source_text)}` is not a parameter", form.place, "expected: (NAME default), as in &key (axis -1)")
    name, default = form.items[0].name, form.items[1]
    kind, value = _default(default)
    if fold(name) in ("axis", "axes") and kind in ("int", "ints"):
        kind = fold(name)
        value = (value,) if kind == "axes" and isinstance(value, int) else value
    return Parameter(name, kind, value, False, form.place)


def _default(form: Form) -> tuple[str, Any]:
    match form:
        case Number(value=int(value)):
            return "int", value
        case Number(value=value):
            return "float", value
        case String(value=value):
            return "string", value
        case Symbol(name=name) if name.lower() in ("t", "nil"):
            return "bool", name.lower() == "t"
        case Symbol(name=name) if dtype(name) is not None:
            return "dtype", name
        case List(items=items) if all(isinstance(f, Number) and isinstance(f.value, int) for f in items):
            return "ints", tuple(f.value for f in items if isinstance(f, Number))
        case _:
            raise error(
                "E0122",
                f"`{shorten(form.source_text)}` cannot be a default",
                form.place,
                "expected: a number, t, nil, a string, a dtype or a list of integers",
            )
