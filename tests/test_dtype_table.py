"""Every dtype in every class of operators on every runtime, judged by the definition: four dtypes in one composite, so four translation units a runtime."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from compilers import HAS_CC
from luminal.ir.dtypes import DTYPES, DType, numpy_dtype
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import Bounded, judge
from luminal.ir.layout import allocate
from luminal.ir.target import Options
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import find
from running import composite

pytestmark = pytest.mark.usefixtures("plain_c")

RUNTIMES = ["reference", *(["clang", "cuda"] if HAS_CC else [])]
SEED = 20261128
GROUPS = [["f64", "f32", "f16", "bf16"], ["f8e4m3", "f8e5m2", "bool", "c64"], ["i64", "i32", "i16", "i8"], ["u64", "u32", "u16", "u8"]]
COUNTS = (0, 1, 37)
UNDECIDED = 2  # outputs of a group of which most points are not judged

# class → the form on X, Y of the dtype, a scalar s, an index I and an f32 tensor F, for numbers, complex numbers and bools
CLASSES: dict[str, tuple[str, str, str]] = {
    "arithmetic": ("(- (+ (* X Y) X) Y)", "(- (+ (* X Y) X) Y)", "(and X (not Y))"),
    "comparison": ("(< X Y)", "(= X Y)", "(/= X Y)"),
    "choice": ("(where (= X s) Y X)", "(where (= X s) Y X)", "(where s Y X)"),
    "reduction": ("(max X)", "(mean X)", "(any X)"),
    "product": ("(einsum \"i,i->\" X Y)", "(einsum \"i,i->\" X Y)", "(einsum \"i,i->\" X Y)"),
    "scan": ("(cumsum X)", "(cumsum X)", "(cummax X)"),
    "movement": ("(concat (flip X) Y)", "(concat (flip X) Y)", "(concat (flip X) Y)"),
    "gather": ("(gather X I)", "(gather X I)", "(gather X I)"),
    "scatter": ("(scatter Y I X :combine max)", "(scatter Y I X :combine add)", "(scatter Y I X)"),
    "from f32": ("(cast D F)", "(cast D F)", "(cast D F)"),
    "to f32": ("(cast f32 X)", "(imag X)", "(cast f32 X)"),
}  # fmt: skip
FUNCTIONS = {"float": "(exp (* X s))", "complex": "(exp (/ X (+ Y 9)))", "int": "(floordiv X Y)", "uint": "(mod X Y)", "bool": "(or X Y)"}
# a loop that stays a loop: each element is made of the one before
LOOPS = {"bool": "(if (aref X i) (aref L i) (aref L (- i 1)))", "": "(+ (aref L (- i 1)) (* (aref X i) s))"}


def named(form: str, d: DType) -> str:
    """The form on the ports of this dtype."""
    words = {name: f"{name}_{d}" for name in "XYsL"} | {"D": d.name}
    return re.sub(r"\b[XYsLD]\b", lambda m: words[m[0]], form)


def rows(d: DType) -> dict[str, str]:
    """Output name → form, for one dtype."""
    column = {"complex": 1, "bool": 2}.get(d.kind, 0)
    forms = {name: texts[column] for name, texts in CLASSES.items()} | {"function": FUNCTIONS[d.kind]}
    return {f"{name.replace(' ', '_')}_{d}": named(form, d) for name, form in forms.items()}


def table(dtypes: list[DType]) -> Graph:
    ports, outputs, loops, values = ["I{i64}[N]", "F{f32}[N]"], [], [], []
    for d in dtypes:
        ports += [f"X_{d}{{{d}}}[N]", f"Y_{d}{{{d}}}[N]", f"s_{d}{{{d}}}[]", f"L_{d}{{{d}}}[N]"]
        loops.append(named(f"(loop (i 1 N) (setf (aref L i) {LOOPS.get(d.name, LOOPS[''])}))", d))
        for name, text in rows(d).items():
            outputs.append(name)
            values.append(text)
    outs = " ".join([*outputs, *(f"L_{d}" for d in dtypes)])
    results = " ".join([*values, *(f"L_{d}" for d in dtypes)])
    return composite(f"(composite table (({' '.join(ports)}) -> ({outs}))\n  {' '.join(loops)}\n  (return {results}))")


def inputs_of(graph: Graph, count: int) -> dict[str, Any]:
    rng = np.random.default_rng([SEED, count])
    found: dict[str, Any] = {}
    for p in graph.ports:
        if p.role == "out":
            continue
        shape = (count,) if p.shape else ()
        if p.name == "I":
            values: Any = rng.permutation(count)
        elif p.dtype.is_inexact:
            values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if p.dtype.is_complex else 0)
        else:
            values = rng.integers(0 if p.dtype.kind == "uint" else -9, 10, shape) if p.dtype.kind != "bool" else rng.integers(0, 2, shape)
        found[p.name] = np.asarray(values).astype(numpy_dtype(p.dtype))
        if p.role == "scalar":
            found[p.name] = found[p.name].item()
    return found


class Computed(NamedTuple):
    graph: Graph
    expected: dict[int, dict[str, Bounded]]  # by the number of elements
    found: dict[int, dict[str, Any]]


@pytest.fixture(scope="module", params=[(r, k) for r in RUNTIMES for k in range(len(GROUPS))], ids=lambda x: f"{x[0]}-{x[1]}")
def computed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """What a runtime computes for the table of one group."""
    name, group = request.param
    graph = table([DTYPES[d] for d in GROUPS[group]])
    runtime = find(name)
    target = runtime.target(None, {} if name == "reference" else {"DEBUG": 1}, True)
    program = run_pipeline(graph, "graph", target, Options())
    kind, suffix = runtime.run_kind("host" if name == "cuda" else None)
    path = tmp_path_factory.mktemp("table") / f"table{suffix}"
    runtime.build(runtime.render(program, target, "lm_"), target, kind, path, 300, [])
    library = runtime.load(path, program, target, "lm_")
    expected, found = {}, {}
    for count in COUNTS:
        inputs = inputs_of(graph, count)
        outs = {p.name: allocate(p, {"N": count}) for p in graph.ports if p.role == "out"}
        expected[count] = evaluate(graph, inputs, {"N": count})
        assert library.call(inputs | outs, {"N": count}) == 0
        found[count] = outs
    return Computed(graph, expected, found)


@pytest.mark.parametrize("count", COUNTS)
def test_the_table(count: int, computed: Computed) -> None:
    print("seed", SEED)
    undecided: list[str] = []
    for p in computed.graph.ports:
        if p.role == "out":
            verdict = judge(computed.found[count][p.name], computed.expected[count][p.name], p.dtype)
            assert verdict.ok, (p.name, verdict, computed.found[count][p.name][verdict.worst], computed.expected[count][p.name].value[verdict.worst])
            undecided += [p.name] * (2 * verdict.ill_count > computed.found[count][p.name].size)
    assert len(undecided) <= UNDECIDED, undecided
