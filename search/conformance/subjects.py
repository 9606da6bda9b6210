"""What is tested: primops and derived operators as graphs of one node, and the composites of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...dsl import Composite, Instance, Scope, elaborate, read_file, second_opinion
from ...dsl.scope import LIBRARY
from ...ir.dtypes import DTYPES
from ...ir.errors import SourceError
from ...ir.graph import Graph
from ...ir.primops import OPS, STRUCTURAL, accepts
from ...ir.record import record, replace
from .operators import elementwise_graph, structural_graph

KINDS = ("primop", "derived", "composite")
DTYPE_ORDER = tuple(DTYPES)
OWN = "own"  # the dtype of a composite that has no type variable


@record
class Variation:
    """One instance of a composite that is tried: its compile-time parameters, and the optional ports that are there (None: all)."""

    parameters: dict[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] | None = None
    sizes: tuple[dict[str, Any], ...] = ()  # of its own tests


@record
class Subject:
    """`graph(dtype, ranks, instance)`: elaborated for one dtype; SourceError where it does not take it.

    `instance` is one of `instances`; an operator's has the parameter "dtypes", what the runtime has."""

    name: str
    kind: str  # primop | derived | composite
    family: str
    graph: Callable[[str, int, Variation], Graph] = field(compare=False)
    dtypes: tuple[str, ...]
    instances: tuple[Variation, ...] = (Variation(),)
    schedules: dict[str, str] = field(default_factory=dict)
    leading: bool = False  # it takes any number of leading axes
    opinion: Callable[[str, int, Variation], Graph] | None = field(default=None, compare=False)  # the second opinion of its test, as `graph`


@cache
def subjects() -> tuple[Subject, ...]:
    """Primops, derived operators, then the library by family and name."""
    return (*(operator(name) for name in operators()), *library())


def operators() -> list[str]:
    """The 27 primops, then what is derived of them."""
    return [*(n for n, op in OPS.items() if op.primop), *STRUCTURAL, *(n for n, op in OPS.items() if not op.primop)]


def operator(name: str) -> Subject:
    structural = name in STRUCTURAL

    def graph(dtype: str, ranks: int, instance: Variation) -> Graph:
        return structural_graph(name, DTYPES[dtype]) if structural else elementwise_graph(name, DTYPES[dtype], instance.parameters["dtypes"])

    primop = structural or OPS[name].primop
    return Subject(name, "primop" if primop else "derived", "primops" if primop else "derived operators", graph, tuple(accepted(name)))


def accepted(name: str) -> list[str]:
    """The dtypes that an operator is defined on."""
    if name == "iota":
        return ["i64"]
    found = [d for d in DTYPES.values() if name not in OPS or accepts(OPS[name], d)]
    return [d.name for d in found if d.kind != "complex" or name not in ("cast", "bitcast")]


def library(folder: Path = LIBRARY) -> list[Subject]:
    return [_composite(path) for path in sorted(folder.glob("*/*.toml"))]


def _composite(path: Path) -> Subject:
    """The last composite of a file.  A file that cannot be read is a subject that raises what is wrong with it."""
    try:
        composites = read_file(path)
        other = second_opinion(composites[-1])
    except SourceError as error:
        return Subject(path.stem, "composite", path.parent.name, _raising(error), (OWN,))
    composite = composites[-1]
    variables = list(dict.fromkeys(p.type.name for p in composite.ports if p.type is not None and p.type.dtype is None))

    def graph(dtype: str, ranks: int, instance: Variation, of: Composite = composite) -> Graph:
        wanted = Instance(dtypes=dict.fromkeys(variables, dtype), parameters=instance.parameters, ranks=ranks, given=instance.given)
        return elaborate(of, Scope(composites), wanted)

    return Subject(
        composite.name,
        "composite",
        path.parent.name,
        graph,
        DTYPE_ORDER if variables else (OWN,),
        _instances(composite),
        dict(composite.schedules),
        _leads(composite),
        None if other is None else partial(graph, of=other),
    )


def _raising(error: SourceError) -> Callable[[str, int, Variation], Graph]:
    def graph(dtype: str, ranks: int, instance: Variation) -> Graph:
        raise error

    return graph


def _instances(composite: Composite) -> tuple[Variation, ...]:
    """The defaults, where they suffice; what the composite's own tests bind; the defaults without the optional ports, where it has such."""
    names = {p.name for p in composite.parameters}
    sizes = composite.test.sizes
    found = [] if any(p.required for p in composite.parameters) else [Variation(sizes=sizes)]
    for binding in composite.test.instances:
        own = {k: v for k, v in binding.items() if k not in names}
        at = (({**sizes[-1], **own} if sizes else own),) if own else sizes
        found.append(Variation({k: v for k, v in binding.items() if k in names}, sizes=at))
    if any(p.optional for p in composite.ports) and found:
        found.append(replace(found[0], given=()))
    return tuple(found)


def _leads(composite: Composite) -> bool:
    return any(getattr(form, "name", "") == "~" for p in composite.ports for form in p.sizes or ())
