"""Every form of the language × every dtype it accepts: the interpreter against NumPy, then the reference, clang and cuda runtimes against the interpreter.

The forms of one dtype are the outputs of a few composites, all of them in one library a runtime, so that a compiler is started twice in all."""

from __future__ import annotations

import inspect
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_unit import compiled, needs_host, target, unit
from forms_movement import FAMILIES
from forms_table import COMPLEX, EVERY, FLOAT, ONCE, PORTS, SIGNED, SIZES, SMALL, Form, wide
from luminal.dsl import Instance, Scope, elaborate, read
from luminal.ir.dtypes import DTYPES, numpy_dtype
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import Bounded, judge
from luminal.ir.layout import allocate
from luminal.ir.program import OVERLAP, Fail, If, Program
from luminal.ir.target import Options
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import find

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 20261121
GROUP = 60  # outputs of one composite


def values(port: str, dtype: str) -> Any:
    """What a port holds in every form: eighths or small integers, among them zeros, equals and negatives."""
    rng = np.random.default_rng([SEED, ord(port)])
    declared, shape = PORTS[port].split("{")[1].split("}")[0], [SIZES.get(s, 2) for s in re.findall(r"[A-Z2]", PORTS[port].split("[")[1])]
    if port in "IJ":
        return rng.integers(0, SIZES["M" if port == "I" else "N"], shape)
    if declared == "bool" or dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in SMALL:
        return (rng.integers(-4, 5, shape) / 4).astype(numpy_dtype(DTYPES[dtype]))
    if dtype in COMPLEX:
        return (rng.integers(-24, 25, shape) / 8 + 1j * rng.integers(-24, 25, shape) / 8).astype(np.complex64)
    if dtype in FLOAT:
        return (rng.integers(-24, 25, shape) / 8).astype(numpy_dtype(DTYPES[dtype]))
    return rng.integers(-5 if dtype in SIGNED else 0, 6, shape).astype(numpy_dtype(DTYPES[dtype]))


def oracle(form: Form, dtype: str) -> tuple[Any, ...]:
    """NumPy's answer, a tuple where there are several.  A lambda names its ports, a function of NumPy gets those of the code in order."""
    names = ports_of(form.code)
    if getattr(form.expected, "__name__", "") == "<lambda>":
        names = [n for n in inspect.signature(form.expected).parameters if n in PORTS]
    given = []
    for name in names:
        x = values(name, dtype)
        given.append(
            x if x.dtype == bool or name in "IJ" else x.astype(complex if dtype in COMPLEX else float if dtype in (*FLOAT, *SMALL) else np.int64)
        )
    with np.errstate(all="ignore"):
        found = form.expected(*given)
    return found if isinstance(found, tuple) else (found,)


def ports_of(code: str) -> list[str]:
    """The ports that a piece of code names, in order; letters in an einsum are none."""
    words = re.findall(r"[\w:-]+", re.sub(r'"[^"]*"', "", code))
    return [w for w in dict.fromkeys(words) if w in PORTS]


@dataclass
class Group:
    """A composite whose outputs are forms."""

    dtype: str
    forms: list[tuple[Form, list[str]]]  # and the names of their outputs
    graph: Graph


def group(dtype: str, forms: list[Form], number: int) -> Group:
    outputs, lines, listed = [], [], []
    for k, f in enumerate(forms):
        types = f.out if isinstance(f.out, tuple) else (f.out,)
        names = [f"Y{k}_{j}" for j in range(len(types))]
        listed.append((f, names))
        outputs += names
        code = f.code
        lines.append(f"  (setf (values {' '.join(names)}) {code})" if len(names) > 1 else f"  (setf {names[0]} {code})")
    used = [p for p in PORTS if p in "AWG" or any(p in ports_of(f.code) for f in forms)]  # A W G: every size and T are known
    ports = " ".join(PORTS[p] for p in used)
    text = f"(composite forms_{dtype}_{number} (({ports}) -> ({' '.join(outputs)}))\n" + "\n".join(lines) + f"\n  (return {' '.join(outputs)}))"
    composites = read(text, "forms.lisp")
    return Group(dtype, listed, elaborate(composites[0], Scope(composites), Instance({"T": dtype})))


MAIN = ("f32", "bf16", "i32", "bool", "c64")  # the first form of an operator is run for all of its dtypes, further ones for these
VECTORS = ("f32", "i32")  # compiled with vectors by clang, the others plainly


def chosen() -> list[tuple[str, str, Form]]:
    """(dtype, family, form) in the order of the tables."""
    found, seen = [], set[str]()
    for family, forms in FAMILIES.items():
        for f in forms:
            found += [(d, family, f) for d in f.dtypes if f.head not in seen or d in MAIN or f.dtypes == ONCE or len(f.dtypes) == 1]
            seen.add(f.head)
    return found


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    everything = chosen()
    found = []
    for dtype in EVERY:
        forms = [f for d, _, f in everything if d == dtype]
        found += [group(dtype, forms[k : k + GROUP], k // GROUP) for k in range(0, len(forms), GROUP)]
    return found


def inputs(graph: Graph, dtype: str) -> dict[str, Any]:
    return {p.name: values(p.name, dtype) if p.shape else values(p.name, dtype).item() for p in graph.ports if p.role != "out"}


@pytest.fixture(scope="module")
def meaning(groups: list[Group]) -> list[dict[str, Bounded]]:
    """What the interpreter says, once for all the tests."""
    with np.errstate(all="ignore"):
        return [evaluate(g.graph, inputs(g.graph, g.dtype), sizes(g.graph)) for g in groups]


def sizes(graph: Graph) -> dict[str, int]:
    return {s.name: SIZES[s.name] for s in graph.sizes}


def test_interpreter(groups: list[Group], meaning: list[dict[str, Bounded]]) -> None:
    """Shapes, dtypes and values as NumPy has them."""
    print("seed", SEED)
    for g, found in zip(groups, meaning, strict=True):
        for form, names in g.forms:
            context = f"{form.code} of {g.dtype}"
            types = form.out if isinstance(form.out, tuple) else (form.out,)
            for name, expected, out in zip(names, oracle(form, g.dtype), types, strict=True):
                dtype, value = g.graph.port(name).dtype, np.asarray(found[name].value)
                assert dtype.name == {"T": g.dtype, "sum": wide(g.dtype)}.get(out, out), context
                if dtype.is_inexact:
                    kind = complex if dtype.is_complex else float
                    np.testing.assert_allclose(value.astype(kind), np.asarray(expected, kind), rtol=1e-12, atol=1e-12, err_msg=context)
                else:
                    kind = numpy_dtype(dtype)
                    np.testing.assert_array_equal(value.astype(kind), np.asarray(expected).astype(kind), err_msg=context, strict=True)


def check(library: Any, g: Group, expected: dict[str, Bounded]) -> int:
    """One call of a compiled group; every output within its bound.  How many forms there are."""
    given = inputs(g.graph, g.dtype)
    buffers: dict[str, Any] = {}
    for p in g.graph.ports:
        if p.role == "scalar":
            buffers[p.name] = given[p.name]
            continue
        buffers[p.name] = allocate(p, sizes(g.graph))
        if p.role == "out":  # what is not written is found out
            buffers[p.name][...] = np.full(1, 0xA5, np.uint8).repeat(p.dtype.bytes).view(numpy_dtype(p.dtype))[0]
        else:
            buffers[p.name][...] = given[p.name]
    assert library.call(buffers, sizes(g.graph)) == 0, g.dtype
    for form, names in g.forms:
        for name in names:
            verdict = judge(buffers[name], expected[name], g.graph.port(name).dtype)
            assert verdict.ok, f"{form.code} of {g.dtype}: {verdict}\n{buffers[name]}\n{expected[name].value}"
    return len(g.forms)


def lean(program: Program) -> Program:
    """Without the checks for overlaps: there is one for every two outputs, and a group has many."""
    return replace(program, entry=tuple(s for s in program.entry if not (isinstance(s, If) and s.body == (Fail(OVERLAP),))))


def report(runtime: str, count: int) -> None:
    forms = {f.code for _, _, f in chosen()}
    print(f"{runtime}: {count} forms × dtypes pass ({len(forms)} forms, {len(EVERY)} dtypes)")
    assert count == len(chosen())


def test_reference(groups: list[Group], meaning: list[dict[str, Bounded]]) -> None:
    runtime = find("reference")
    on = runtime.target(None, {}, False)
    libraries = [runtime.load(Path(), run_pipeline(g.graph, "graph", on, Options(level=1)), on, "lm_") for g in groups]
    report("reference", sum(check(library, g, m) for library, g, m in zip(libraries, groups, meaning, strict=True)))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_clang(groups: list[Group], meaning: list[dict[str, Bounded]], tmp_path: Path) -> None:
    runtime = find("clang")
    count = 0
    for g, m in zip(groups, meaning, strict=True):
        vectors = g.dtype in VECTORS
        on = runtime.target(None, {"CC": "gcc", "DEBUG": True, "OMP": False, "VECTOR": -1 if vectors else 0}, True)
        program = lean(run_pipeline(g.graph, "graph", on, Options(level=2 if vectors else 1)))
        path = tmp_path / f"{g.graph.name}.so"
        runtime.build(runtime.render(program, on, "lm_"), on, "shared", path, 120, [])
        count += check(runtime.load(path, program, on, "lm_"), g, m)
    report("clang", count)


@needs_host
def test_cuda_host_shim(groups: list[Group], meaning: list[dict[str, Bounded]], tmp_path: Path) -> None:
    on = target()
    built = unit(tmp_path / "forms.so", {f"{g.graph.name}_": lean(compiled(g.graph, on, 1)) for g in groups}, on)
    report("cuda", sum(check(built.library(f"{g.graph.name}_"), g, m) for g, m in zip(groups, meaning, strict=True)))
