"""Library composites against definitions of others: a table of `Case`s, and `check`, which runs one through the reference interpreter in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from luminal.dsl import Composite, Instance, Scope, elaborate, read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.evaluate import evaluate as size_value
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.search.draw import draw

SEED = 7
Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """`expected` takes the inputs in the ports' order and gives one array, or a tuple of several."""

    name: str
    expected: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "f64"  # of the type variables
    ranks: int = 1  # of `~`
    given: Sequence[str] | None = None  # the optional ports; None: all
    sizes: Sequence[Mapping[str, int]] = ()  # else those of the composite's own [test]
    inputs: Mapping[str, Any] = field(default_factory=dict)  # port → values, or a function of the drawn ones
    tolerance: float = 1e-12

    @property
    def id(self) -> str:
        extra = [
            *(f"{k}={v}" for k, v in self.parameters.items()),
            *([self.dtype] if self.dtype != "f64" else []),
            *([f"rank{self.ranks}"] if self.ranks != 1 else []),
        ]
        return "-".join([self.name, *extra, *(self.given or ())]).replace(" ", "")


def path_of(name: str) -> Path:
    (path,) = LIBRARY.glob(f"*/{name}.toml")
    return path


def last(path: Path) -> tuple[Composite, Scope]:
    composites = read_file(path)
    return composites[-1], Scope(composites)


def graph_of(case: Case) -> tuple[Composite, Graph]:
    composite, scope = last(path_of(case.name))
    variables = {p.type.name for p in composite.ports if p.type and p.type.dtype is None}
    return composite, elaborate(
        composite, scope, Instance(dict.fromkeys(sorted(variables), case.dtype), case.parameters, ranks=case.ranks, given=case.given)
    )


def inputs_of(case: Case, graph: Graph, sizes: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for p in graph.ports:
        if p.role == "out":
            continue
        value = draw(p, sizes, SEED)
        if p.name in case.inputs:
            given = case.inputs[p.name]
            value = (
                given(value)
                if callable(given)
                else np.broadcast_to(np.asarray(given, np.asarray(value).dtype), tuple(size_value(e, sizes) for e in p.shape))
            )
        found[p.name] = value
    return found


def wide(x: Any) -> Any:
    """Floats and complex numbers in double precision, where expected values are computed; all else as it is."""
    if isinstance(x, Array) and x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if isinstance(x, Array) and x.dtype.kind in "fV" else x  # V: those of ml_dtypes


def check(case: Case) -> None:
    """Every output at every size: floats within the tolerance, all else exactly."""
    composite, graph = graph_of(case)
    assert composite.documentation and composite.test.sizes, "every library composite says what it is and has test sizes"
    names = [s.name for s in graph.sizes]
    tried = [s for s in case.sizes or composite.test.sizes if all(n in s for n in names)]
    assert tried, f"{case.id}: no sizes for {names}"
    for sizes in tried:
        inputs = inputs_of(case, graph, sizes)
        found = evaluate(graph, inputs, sizes, bounds=False)
        with np.errstate(all="ignore"):
            expected = case.expected(*map(wide, inputs.values()))
        for (name, _), wanted in zip(graph.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            actual = np.asarray(found[name].value)
            assert actual.shape == np.shape(wanted), f"{case.id}: {name} is {actual.shape}, expected {np.shape(wanted)}"
            if graph.port(name).dtype.is_float or graph.port(name).dtype.is_complex:
                with np.errstate(over="ignore"):  # the interpreter's numbers reach further than a double
                    actual = actual.astype(complex if graph.port(name).dtype.is_complex else float)
                np.testing.assert_allclose(
                    actual, wanted, rtol=case.tolerance, atol=case.tolerance, err_msg=f"{case.id} {name} {dict(sizes)}, seed {SEED}"
                )
            else:
                np.testing.assert_array_equal(actual, wanted, err_msg=f"{case.id} {name} {dict(sizes)}, seed {SEED}")
