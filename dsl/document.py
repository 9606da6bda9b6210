"""Composites in TOML: the tables `[composite]`, `[implementation]`, `[test]`, `[schedule.*]`, or `[[composite]]` with these inside."""

from __future__ import annotations

import re
from typing import Any

from ..ir.dtypes import DType
from .ast import PARAMETER_TYPES, Composite, Parameter, PortDecl, Test
from .diagnostics import Collector, nearest, shorten
from .names import composite_name, fold, port_names
from .ports import MAX_PORTS, read_ports, type_named
from .sexpr import Form, List, parse
from .sizes import symbols
from .source import Place, error, whole
from .toml import Document, Fields, Path, load

DRAW = re.compile(r"normal|uniform|positive|spd|index \S+|one of \S.*")


def read_toml(text: str, file: str) -> tuple[Composite, ...]:
    """Raises SourceError: E0106 … E0119."""
    document = load(file, text)
    collector = Collector()
    top = Fields(document, (), collector)
    kind = document.value.get("composite")
    found: list[Composite | None] = []
    if isinstance(kind, list):
        tables = top.items("composite", dict)
        if not kind:
            raise error("E0110", "there is no composite in this file", document.place(("composite",)), "expected: tables [[composite]]")
        found = [_composite(document, path, path, collector) for path, _ in tables]
    elif top.get("composite", dict, required=False) is not None:
        found = [_composite(document, ("composite",), (), collector)]
        top.known += ["implementation", "test", "schedule"]
    elif kind is None:
        raise error(
            "E0110",
            "there is no composite in this file",
            Place(whole(file, text), 0, 1),
            "expected: a table [composite], or an S-expression that starts with (composite …",
        )
    top.finish()
    collector.finish()
    return tuple(c for c in found if c is not None)


def _composite(document: Document, path: Path, base: Path, collector: Collector) -> Composite | None:
    """`path` is the composite's table; `base` the table that holds `implementation`, `test` and `schedule`: the file, or the composite itself."""
    before = len(collector.found)
    table = Fields(document, path, collector)
    outer = table if base == path else Fields(document, base, collector)
    name = table.get("name", str, required=True)
    documentation = table.get("documentation", str) or ""
    if name is not None:
        with collector.catching():
            composite_name(name, document.place((*path, "name")))
    inputs = _ports(table, "inputs", "in", collector)
    outputs = _ports(table, "outputs", "out", collector)
    ports: tuple[PortDecl, ...] = ()
    names: tuple[str, ...] = ()
    if len(collector.found) == before:
        with collector.catching():
            if not outputs:
                raise error("E0118", "a composite needs an output", document.place((*path, "outputs")))
            ports, names = port_names(inputs, outputs, bare_is_input=True)
    parameters = _parameters(table.table("parameters"), collector)
    types = _types(table.table("types"), ports, collector)
    body = _body(outer.table("implementation"), document, base, collector)
    test = _test(outer.table("test"), parameters, ports, collector)
    schedules = _schedules(outer.table("schedule"))
    table.finish()
    if len(collector.found) > before or name is None:
        return None
    source = _as_sexpr(document, base, path, name)
    return Composite(
        name,
        ports,
        names,
        (),
        parameters,
        body,
        test,
        schedules,
        documentation.strip(),
        document.place((*path, "name")),
        source,
        document.text.source.file,
        types,
    )


def _ports(table: Fields, key: str, role: str, collector: Collector) -> list[PortDecl]:
    ports: list[PortDecl] = []
    items = table.items(key, str, required=True)
    if len(items) > MAX_PORTS:
        collector.add(error("E0106", f"{len(items)} ports; at most {MAX_PORTS} are allowed", table.document.place((*table.path, key))).diagnostics[0])
        return []
    for path, _ in items:
        with collector.catching():
            text = table.document.string(path)
            found = read_ports(parse(text), role)
            if len(found) != 1:
                raise error("E0112", f"one port in each string; there are {len(found)} here", table.document.place(path))
            ports.extend(found)
    return ports


def _body(fields: Fields | None, document: Document, base: Path, collector: Collector) -> tuple[Form, ...]:
    if fields is None:
        with collector.catching():
            if "implementation" not in _at(document, base):
                raise error("E0110", "the table [implementation] with the `code` is missing", document.place(base if base else (*base, "composite")))
        return ()
    code = fields.get("code", str, required=True)
    fields.finish()
    body: tuple[Form, ...] = ()
    if code is not None:
        with collector.catching():
            text = document.string((*fields.path, "code"))
            body = parse(text)
            if not body:
                raise error("E0119", "the code is empty", document.place((*fields.path, "code")), "help: `(return A)` gives a port as it is")
    return body


def _at(document: Document, path: Path) -> dict[str, Any]:
    value: Any = document.value
    for key in path:
        value = value[key]
    return value


def _parameters(fields: Fields | None, collector: Collector) -> tuple[Parameter, ...]:
    if fields is None:
        return ()
    found: list[Parameter] = []
    for name in fields.value:
        table = fields.table(name)
        if table is None:
            continue
        kind = table.get("type", str, required=True)
        table.get("documentation", str)
        default = table.get("default", str, int, float, bool, list)
        table.finish()
        place = fields.document.place(table.path)
        with collector.catching():
            if kind is None:
                continue
            if kind not in PARAMETER_TYPES:
                raise error(
                    "E0120",
                    f"unknown type `{shorten(kind)}` of a parameter",
                    fields.document.place((*table.path, "type")),
                    *nearest(kind, PARAMETER_TYPES),
                    f"expected: {', '.join(PARAMETER_TYPES)}",
                )
            if default is not None:
                default = parameter_value(kind, default, fields.document.place((*table.path, "default")), name)
            found.append(Parameter(name, kind, default, default is None, place))
    return tuple(found)


def parameter_value(kind: str, value: Any, place: Place, name: str) -> Any:
    """The value of a parameter brought to its type; E0120 where it does not fit.  Lists become tuples, an int is a fine float."""
    if isinstance(value, list):
        value = tuple(value)
    integer = isinstance(value, int) and not isinstance(value, bool)
    integers = isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    good = {
        "axis": integer,
        "int": integer,
        "axes": integer or integers,
        "ints": integer or integers,
        "float": integer or isinstance(value, float),
        "bool": isinstance(value, bool),
        "dtype": isinstance(value, str),
        "string": isinstance(value, str),
    }[kind]
    if not good:
        raise error("E0120", f"the parameter `{name}` is of type {kind}; {value!r} is not", place)
    if kind == "float" and isinstance(value, (int, float)):
        return float(value)
    return (value,) if kind in ("axes", "ints") and integer else value


def _types(fields: Fields | None, ports: tuple[PortDecl, ...], collector: Collector) -> dict[str, DType]:
    """`[composite.types]`: what a type variable is where nothing binds it.  E0114 for an unknown dtype or variable."""
    found: dict[str, DType] = {}
    variables = [p.type.name for p in ports if p.type is not None and p.type.dtype is None]
    for name in fields.value if fields else ():
        text = fields.get(name, str) if fields else None
        if text is None or fields is None:
            continue
        place = fields.document.place((*fields.path, name))
        with collector.catching():
            wanted = type_named(text, place)
            if wanted is None or (ports and name not in variables):
                what = f"`{shorten(text)}` is a type variable" if wanted is None else f"no port has the type variable `{shorten(name)}`"
                raise error("E0114", what, place, 'expected: a dtype for a type variable of the ports, as in T = "i32"')
            found[name] = wanted
    return found


def _test(fields: Fields | None, parameters: tuple[Parameter, ...], ports: tuple[PortDecl, ...], collector: Collector) -> Test:
    if fields is None:
        return Test()
    sizes: list[dict[str, Any]] = []
    for path, value in fields.items("sizes", dict):
        for key, v in value.items():
            with collector.catching():
                _bound_in_test(key, v, fields.document.place((*path, key)), parameters, ports)
        sizes.append(value)
    instances = tuple(_test_instance(path, value, fields.document, parameters, ports, collector) for path, value in fields.items("instances", dict))
    inputs: dict[str, str] = {}
    drawn = fields.table("inputs")
    for key in drawn.value if drawn else ():
        how = drawn.get(key, str) if drawn else None
        if how is not None and drawn:
            with collector.catching():
                if not DRAW.fullmatch(how):
                    raise error(
                        "E0120",
                        f"unknown way to draw an input: `{shorten(how)}`",
                        fields.document.place((*drawn.path, key)),
                        "expected: normal, uniform, positive, spd, index V, one of …",
                    )
                if ports and fold(key) not in [fold(p.name) for p in ports if p.is_input]:
                    place = fields.document.place((*drawn.path, key))
                    raise error("E0120", f"`{shorten(key)}` is no input here", place, *nearest(key, [p.name for p in ports if p.is_input]))
                inputs[key] = how
    code: Form | None = None
    if fields.get("code", str) is not None:
        with collector.catching():
            forms = parse(fields.document.string((*fields.path, "code")))
            if len(forms) != 1 or not isinstance(forms[0], List) or forms[0].head != "lambda":
                raise error("E0119", "the code of a test is one (lambda (ports and sizes) form…)", fields.document.place((*fields.path, "code")))
            code = forms[0]
    fields.items("requirements", str)
    fields.finish()
    return Test(tuple(sizes), instances, inputs, code, fields.document.place(fields.path))


def _bound_in_test(key: str, value: Any, place: Place, parameters: tuple[Parameter, ...], ports: tuple[PortDecl, ...]) -> None:
    """A binding of `[test] sizes`: E0120 for the name of nothing here, E0111 for what is no number."""
    known = [*(p.name for p in parameters), *(p.name for p in ports)]
    sizes = list(dict.fromkeys(s.name for p in ports for form in p.sizes or () for s in symbols(form)))
    if ports and fold(key) not in map(fold, (*known, *sizes)) and not key.startswith(("batch", "ld", "inc")):
        raise error("E0120", f"`{shorten(key)}` is no size, scalar or parameter here", place, *nearest(key, (*sizes, *known)))
    if not isinstance(value, (int, float, str, list)):
        raise error("E0111", f"the binding of `{shorten(key)}` is no number", place)
    if key in sizes and key not in known and (not isinstance(value, int) or isinstance(value, bool)):
        raise error("E0111", f"the binding of the size `{shorten(key)}` is no integer", place)


def _test_instance(
    path: Path, value: dict[str, Any], document: Document, parameters: tuple[Parameter, ...], ports: tuple[PortDecl, ...], collector: Collector
) -> dict[str, Any]:
    """Values of parameters, brought to their types, and sizes.  E0120 for a value that does not fit and for a name that the composite does not have."""
    kinds = {p.name: p.type for p in parameters}
    sizes = list(dict.fromkeys(s.name for p in ports for form in p.sizes or () for s in symbols(form)))
    found: dict[str, Any] = {}
    for key, v in value.items():
        place = document.place((*path, key))
        with collector.catching():
            if key in kinds:
                found[key] = parameter_value(kinds[key], v, place, key)
            elif key not in sizes and key != "batch" and ports:
                raise error("E0120", f"`{shorten(key)}` is neither a parameter nor a size here", place, *nearest(key, (*kinds, *sizes)))
            elif not isinstance(v, int) or isinstance(v, bool):
                raise error("E0111", f"the binding of `{shorten(key)}` is no number", place)
            else:
                found[key] = v
    return found


def _schedules(fields: Fields | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for runtime in fields.value if fields else ():
        table = fields.table(runtime) if fields else None
        if table:
            found[runtime] = table.get("steps", str, required=True) or ""
            table.finish()
    return found


def _as_sexpr(document: Document, base: Path, path: Path, name: str) -> str:
    """The composite in the other notation, ports and code as the user wrote them."""
    table = _at(document, path)
    ports = " ".join(table["inputs"]), " ".join(table["outputs"])
    code = _at(document, base)["implementation"]["code"].strip("\n").rstrip()
    parameters = "".join(f" ({k}{_literal(v.get('default'))})" for k, v in table.get("parameters", {}).items())
    body = "\n".join("  " + line if line else line for line in code.splitlines())
    return f"(composite {name} (({ports[0]}{' &key' + parameters if parameters else ''}) -> ({ports[1]}))\n{body})"


def _literal(value: Any) -> str:
    """A default in the other notation, with a space before it; nothing where there is none."""
    match value:
        case None:
            return ""
        case bool():
            return " t" if value else " nil"
        case list():
            return f" ({''.join(map(_literal, value)).removeprefix(' ')})"
        case str():
            return ' "' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return f" {value}"
