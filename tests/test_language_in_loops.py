"""Every form of the language on the rows of an iteration: `(dotimes (q 2) (setf (aref Y q) FORM))`, each operand P of the form being `(aref P q)`.

What is expected is NumPy's answer for the first iteration.  A few forms share a loop, which is then raised, taken apart or kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilers import needs_cc
from forms_movement import FAMILIES
from forms_table import PORTS, SIZES, Form
from luminal.dsl import Instance, Scope, elaborate, read
from luminal.ir.dtypes import DTYPES, numpy_dtype
from luminal.ir.evaluate import evaluate as number
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.layout import allocate
from luminal.ir.target import Options
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import find
from test_language_forms import group, oracle, ports_of, values

pytestmark = pytest.mark.usefixtures("plain_c")

TOGETHER = 12  # forms in one loop
Expected = list[tuple[str, str, Any]]  # output, form, NumPy's answer for the first iteration


def of_an_iteration(code: str) -> str:
    """The form on literal sizes, each port its part of iteration q; letters in an einsum are none."""
    parts = re.split(r'("[^"]*")', code)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(rf"(?<![\w:])({'|'.join(SIZES)})(?![\w-])", lambda m: str(SIZES[m[1]]), parts[k])
        parts[k] = re.sub(rf"(?<![\w:])({'|'.join(PORTS)})(?![\w-])", r"(aref \1 q)", parts[k])
    return "".join(parts)


def port(name: str) -> str:
    dtype, sizes = re.findall(r"\{(\w+)\}\[(.*)\]", PORTS[name])[0]
    return f"{name}{{{dtype}}}[2 {' '.join(str(SIZES.get(s, s)) for s in sizes.split())}]"


def in_a_loop(forms: list[Form], dtype: str, name: str) -> tuple[Graph, Expected]:
    outputs, statements, expected = [], [], []
    for k, f in enumerate(forms):
        ports = [p for p in group(dtype, [f], 0).graph.ports if p.role == "out"]
        names = [f"Y{k}_{j}" for j in range(len(ports))]
        outputs += [f"{n}{{{p.dtype}}}[2 {' '.join(str(number(e, SIZES)) for e in p.shape)}]" for n, p in zip(names, ports, strict=True)]
        expected += [(n, f.code, want) for n, want in zip(names, oracle(f, dtype), strict=True)]
        code = of_an_iteration(f.code)
        if len(names) > 1:
            parts = [f"r{k}_{j}" for j in range(len(names))]
            statements.append(f"(setf (values {' '.join(parts)}) {code})")
            statements += [f"(setf (aref {n} q) {r})" for n, r in zip(names, parts, strict=True)]
        else:
            statements.append(f"(setf (aref {names[0]} q) {code})")
    used = [p for p in PORTS if any(p in ports_of(f.code) for f in forms) or p == "A"]
    text = f"(composite {name} (({' '.join(map(port, used))}) -> ({' '.join(outputs)}))\n(dotimes (q 2)\n" + "\n".join(statements) + "))"
    composites = read(text, "forms.lisp")
    return elaborate(composites[-1], Scope(composites), Instance({"T": dtype})), expected


def inputs(graph: Graph, dtype: str) -> dict[str, Any]:
    """The first iteration has what the forms' own test has, the second the same rows in another order."""
    found = {}
    for p in graph.ports:
        if p.role != "out":
            x = np.asarray(values(p.name, dtype))
            found[p.name] = np.stack([x, np.roll(x, 1, 0) if x.ndim else x])
    return found


def loops(dtype: str) -> list[tuple[Graph, Expected]]:
    found = []
    for family, forms in FAMILIES.items():
        here = [f for f in forms if dtype in f.dtypes]
        found += [in_a_loop(here[k : k + TOGETHER], dtype, f"{family}_{k}") for k in range(0, len(here), TOGETHER)]
    return found


def check(expected: Expected, found: dict[str, Any], dtype: str, loose: float) -> None:
    for name, code, want in expected:
        got = np.asarray(found[name])[0]
        if got.dtype.kind in "fc":
            kind = complex if got.dtype.kind == "c" else float
            np.testing.assert_allclose(got.astype(kind), np.asarray(want, kind), rtol=loose, atol=loose, err_msg=f"{code} of {dtype}")
        else:
            np.testing.assert_array_equal(got, np.asarray(want).astype(got.dtype), err_msg=f"{code} of {dtype}")


@pytest.mark.parametrize("dtype", ["f32", "i32", "bool", "c64"])
def test_interpreter(dtype: str) -> None:
    for graph, expected in loops(dtype):
        with np.errstate(all="ignore"):
            found = evaluate(graph, inputs(graph, dtype), {})
        ports = {p.name: numpy_dtype(p.dtype) for p in graph.ports if p.role == "out" and not p.dtype.is_inexact}
        check(expected, {n: np.asarray(x.value).astype(ports.get(n, np.asarray(x.value).dtype)) for n, x in found.items()}, dtype, 1e-6)


@needs_cc
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_clang(dtype: str, tmp_path: Path) -> None:
    """Both what is raised and what stays a loop."""
    runtime = find("clang")
    on = runtime.target(None, {"DEBUG": True, "OMP": False, "VECTOR": 0}, True)
    for k, (graph, expected) in enumerate(loops(dtype)):
        program = run_pipeline(graph, "graph", on, Options(level=1))
        path = tmp_path / f"{k}.so"
        runtime.build(runtime.render(program, on, "lm_"), on, "shared", path, 120, [])
        buffers = {p.name: allocate(p, {}) for p in graph.ports}
        for name, x in inputs(graph, dtype).items():
            buffers[name][...] = x.astype(numpy_dtype(DTYPES[graph.port(name).dtype.name]))
        assert runtime.load(path, program, on, "lm_").call(buffers, {}) == 0, graph.name
        check(expected, buffers, dtype, 2e-5)
