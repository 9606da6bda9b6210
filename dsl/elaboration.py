"""`elaborate`: a composite and one instantiation of it → its graph.  Elaboration is type checking: what it accepts is right for all admitted sizes."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ..ir.build import Builder
from ..ir.dtypes import DType, dtype, f32
from ..ir.errors import Diagnostic, SourceError, UsageError
from ..ir.expr import Expr, const, size
from ..ir.graph import Graph, Port, Shape, Size, input_node
from ..ir.record import record, replace
from . import arguments
from .assumptions import Assumption, assume, read
from .ast import Composite, PortDecl
from .calls import run_body
from .diagnostics import shorten
from .draws import Drawn, draws
from .evaluate import Evaluator
from .frame import Frame
from .interface import Unifier, is_broadcast, parameters_of, port_shape, size_lookup, type_of
from .names import fold, unique
from .scope import Scope
from .session import Session
from .sexpr import MAX_DEPTH, Symbol, parse
from .sizes import Sizes, check_extent, evaluate, solve, symbols
from .source import Place, Text


@record
class Instance:
    """What a composite is elaborated for; what is left out takes its default."""

    dtypes: Mapping[str, DType | str] = field(default_factory=dict)  # of type variables; else the composite's own defaults, or f32
    parameters: Mapping[str, Any] = field(default_factory=dict)  # else their defaults
    sizes: Mapping[str, int] = field(default_factory=dict)  # fixed by -D (also parameters, by name); the other sizes stay free
    ranks: int = 1  # axes that `~` stands for
    given: Collection[str] | None = None  # the optional ports that are there; None: all
    assume: Sequence[str] = ()  # preconditions on the sizes beside the composite's own, as a `where` has them


def elaborate(composite: Composite, scope: Scope, instance: Instance | None = None, warnings: list[Diagnostic] | None = None) -> Graph:
    """The graph of a composite.  Raises SourceError with every independent mistake; warnings are appended to `warnings`."""
    instance = _checked(composite, instance or Instance())
    frame = Frame(composite)
    place = composite.place
    frame.parameters = dict(instance.parameters)
    frame.dtypes = {v: d for v, d in instance.dtypes.items() if isinstance(d, DType)}
    present = _present(composite, instance, frame)
    sizes = solve(replace(composite, ports=present), instance.sizes, frame.parameters)
    assumed = assume(read(instance.assume), sizes, composite)
    leading = _leading(present, sizes, instance.ranks)
    frame.sizes = dict(sizes.values)
    ports = _ports(present, frame, sizes, leading)
    assumed = assume(assumed, sizes, composite)
    session = Session(Builder(dict(sizes.free), [e for e, _ in sizes.requires]), scope)
    unifier = Unifier(session, frame)
    for p in present:
        if p.is_input:
            frame.scopes[0][p.name] = session.builder.input(ports[p.name])
            if is_broadcast(p.sizes or ()) and not unifier.leading:
                unifier.leading.append(leading)
    frame.leading = leading if unifier.leading else None
    frame.declare_outputs(leading)
    with deep_stack(), session.entered(composite, place):
        values = run_body(Evaluator(session, frame), unifier)
    graph = _graph(composite, session, frame, sizes, ports, values, assumed)
    if warnings is not None:
        warnings.extend(session.warnings)
    return graph


@contextmanager
def deep_stack() -> Iterator[None]:
    """Room for the deepest nesting that the reader admits (MAX_DEPTH forms, some ten Python calls each); Python calls of Python use no C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 16 * MAX_DEPTH + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _checked(composite: Composite, instance: Instance) -> Instance:
    """Names folded to the composite's own, dtypes by value, parameters complete.  UsageError for a binding of something that it does not have."""
    variables = list(dict.fromkeys(p.type.name for p in composite.ports if p.type is not None and p.type.dtype is None))
    dtypes: dict[str, DType | str] = {v: composite.types.get(v, f32) for v in variables}
    for name, wanted in instance.dtypes.items():
        found = dtype(wanted) if isinstance(wanted, str) else wanted
        if name not in variables:
            raise _unbound(composite, "type variable", name, variables)
        if found is None:
            raise UsageError(f"{name}={wanted}: there is no dtype of this name")
        dtypes[name] = found
    optional = [p.name for p in composite.ports if p.optional]
    for name in instance.given or ():
        if name not in optional:
            raise _unbound(composite, "optional port", name, optional)
    names = {p.name for p in composite.parameters}
    parameters = {**instance.parameters, **{k: v for k, v in instance.sizes.items() if k in names}}
    sizes = {k: v for k, v in instance.sizes.items() if k not in names}
    known = list(dict.fromkeys(s.name for p in composite.ports for f in p.sizes or () for s in symbols(f)))
    for name, value in sizes.items():
        if unique(name, known, composite.place) is None:
            if any(p.strided and re.fullmatch(rf"(ld|inc){re.escape(p.name)}(_\d+)?", name) for p in composite.ports):
                raise UsageError(f'{name}={value}: a leading stride is passed by the caller; --assume "{name} = {value}" compiles for it')
            raise _unbound(composite, "size", name, [*known, *names])
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name}={value}: a size is an integer")
    try:
        values = parameters_of(composite, parameters, composite.place)
    except SourceError as e:
        raise UsageError("; ".join((d.message, *d.notes)) if (d := e.diagnostics[0]) else "") from None
    return replace(instance, dtypes=dtypes, parameters=values, sizes=sizes)


def _unbound(composite: Composite, what: str, name: str, known: Collection[str]) -> UsageError:
    has = f"it has {', '.join(known)}" if known else "it has none"
    return UsageError(f"{composite.name} has no {what} {shorten(name)}; {has}")


def _present(composite: Composite, instance: Instance, frame: Frame) -> tuple[PortDecl, ...]:
    """The ports of this instance: optional ones only where they are given."""
    for p in composite.ports:
        if p.optional:
            frame.given[p.name] = instance.given is None or p.name in instance.given
    return tuple(p for p in composite.ports if frame.given.get(p.name, True))


def _leading(ports: tuple[PortDecl, ...], sizes: Sizes, rank: int) -> Shape:
    """The sizes that `~` stands for, the same for every port: `batch`, or `batch_0` … where it is several axes.  They come where `~` first appears."""
    if not any(is_broadcast(p.sizes or ()) for p in ports):
        return ()
    names: list[str] = []
    for k in range(rank):
        name = "batch" if rank == 1 else f"batch_{k}"
        while any(fold(name) == fold(n) for n in sizes.values):
            name += "_"
        names.append(name)
    before: dict[str, Size] = {}
    found = False
    for p in ports:
        for form in p.sizes or ():
            if not isinstance(form, Symbol):
                continue
            if form.name == "~" and not found:
                before.update({n: Size(n) for n in names})
                found = True
            key = unique(form.name, sizes.free, form.place)
            if key is not None:
                before.setdefault(key, sizes.free[key])
    sizes.free = {**before, **{n: s for n, s in sizes.free.items() if n not in before}}
    return tuple(size(n) for n in names)


def _ports(ports: tuple[PortDecl, ...], frame: Frame, sizes: Sizes, leading: Shape) -> dict[str, Port]:
    """The graph's input ports by name.  A strided port adds its leading strides as sizes of their own, with what they must be at least."""
    found: dict[str, Port] = {}
    problems = arguments.Problems()
    for p in ports:
        if not p.is_input:
            continue
        with problems:
            assert p.type is not None
            shape = port_shape(p, frame, leading)
            scalar = not shape and p.role == "in"
            strided = _strides(p, shape, sizes) if p.strided and shape else ()
            draw = next((how for name, how in frame.composite.test.inputs.items() if fold(name) == fold(p.name)), "normal")
            limit = _drawn_limit(draw, frame, p.place)
            found[p.name] = Port(
                p.name, type_of(p.type, frame.dtypes), shape, "scalar" if scalar else p.role, p.order, strided, limit, draw, span=p.place.span
            )
    problems.finish()
    return found


def _drawn_limit(draw: str, frame: Frame, place: Place) -> Expr | None:
    """The limit of `index V`, V an expression of sizes, as a test declares it."""
    if not draw.startswith("index "):
        return None
    (form,) = parse(Text(place.text.source, draw.removeprefix("index "), ((0, place.text.at(place.start)),)))
    return evaluate(form, size_lookup(frame))


def _strides(p: PortDecl, shape: Shape, sizes: Sizes) -> tuple[str, ...]:
    """Names of the leading strides: `ldA` as in BLAS, `incX` for a vector, `ldA_0` … where there are several."""
    count = max(1, len(shape) - 1)
    order = p.order or tuple(range(len(shape)))
    names = [f"inc{p.name}" if len(shape) == 1 else f"ld{p.name}" if count == 1 else f"ld{p.name}_{k}" for k in range(count)]
    for k in range(count):
        while names[k] in sizes.values or names[k] in sizes.free:
            names[k] += "_"
    for k, name in enumerate(names):
        sizes.free[name] = Size(name, min=1 if len(shape) == 1 else 0)
        inner: Expr = const(1) if len(shape) == 1 else shape[order[k + 1]] * (size(names[k + 1]) if k + 1 < count else const(1))
        sizes.requires.append((inner.le(size(name)), p.place))
    return tuple(names)


def _graph(
    composite: Composite, session: Session, frame: Frame, sizes: Sizes, ports: dict[str, Port], values: list[Any], assumed: Sequence[Assumption]
) -> Graph:
    """`assumed`: what is said of the leading strides of outputs, which are sizes from here on."""
    b = session.builder
    outputs = []
    for name, value in zip(composite.outputs, values, strict=True):
        decl = composite.port(name)
        if decl.role == "out":
            for extent in value.shape:
                check_extent(extent, decl.place)
            strided = _strides(decl, value.shape, sizes) if decl.strided and value.shape else ()
            ports[name] = Port(name, value.dtype, value.shape, "out", decl.order, strided, span=decl.place.span)
        elif b.node(value) is input_node(ports[name]):
            session.warn("W0702", f"`{name}` is updated in place but never changed", decl.place)
        b.span = decl.place.span
        outputs.append((name, b.node(value)))
    assume(assumed, sizes, composite, last=True)
    limits = draws([n for _, n in outputs])
    declared = tuple(_with_limit(ports[p.name], limits) for p in composite.ports if p.name in ports)
    defined = {n: e for n, e in frame.sizes.items() if n not in sizes.free and n not in instance_sizes(sizes)}
    requires = dict.fromkeys([*(e for e, _ in sizes.requires), *b.requires])
    absent = [n for n, there in frame.given.items() if not there]
    return Graph(
        "_".join([composite.name, *(["without", *absent] if absent else [])]),
        tuple(sizes.free.values()),
        declared,
        tuple(outputs),
        tuple(defined.items()),
        tuple(requires),
        composite.documentation,
        composite.source_text,
        {p.name: p.span for p in declared},
    )


def instance_sizes(sizes: Sizes) -> set[str]:
    """Sizes that -D fixes: no formula in the header, they are numbers everywhere."""
    return {n for n, e in sizes.values.items() if e.is_const and n not in sizes.derived}


def _with_limit(port: Port, found: Mapping[str, Drawn]) -> Port:
    """The port with how it is drawn by its use, where its test does not say."""
    use = found.get(port.name)
    if port.index_limit is not None:
        return replace(port, draw=port.draw if port.draw != "normal" else "index")
    if use is None:
        return port
    own = "index" if use.rising is None else f"rising {use.rising}"
    return replace(port, index_limit=use.limit, draw=port.draw if port.draw != "normal" else own)


__all__ = ["Instance", "elaborate"]
