"""Many programs in one translation unit under the host shim, so that a test pays for one start of the compiler."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.graph import Graph
from luminal.ir.interpret.judge import Bounded, judge
from luminal.ir.layout import allocate
from luminal.ir.program import Program
from luminal.ir.target import Options, Target
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import Rendered, find
from luminal.runtimes.clang.library import Library
from luminal.runtimes.cuda.emit import entry_name
from luminal.search.draw import draw
from luminal.search.reference import reference

ROOT = Path(__file__).parent.parent
HAS_NVCC = bool(shutil.which("nvcc") and shutil.which("g++"))  # nvcc calls g++
needs_host = pytest.mark.skipif(
    not any(shutil.which(c) for c in ("g++", "clang++", "clang++-14")), reason="the host shim needs a C++ compiler, and there is none on PATH"
)


def target(name: str = "sm_80", **config: Any) -> Target:
    return find("cuda").target(name, {"DEBUG": 1, **config}, True)


def compiled(graph: Graph, on: Target, level: int = 2) -> Program:
    return run_pipeline(graph, "graph", on, Options(level=level))


@dataclass
class Unit:
    """Programs by prefix, their sources, and the library of all of them."""

    programs: dict[str, Program]
    sources: dict[str, str]
    path: Path

    def library(self, prefix: str) -> Library:
        program = self.programs[prefix]
        return Library(self.path, program, entry_name(prefix, program), extra=(None,))


def unit(path: Path, programs: Mapping[str, Program], on: Target) -> Unit:
    """Each program in a namespace of its own; what is `extern "C"` is told apart by the prefixes."""
    runtime = find("cuda")
    return built_together(path, programs, {prefix: runtime.render(p, on, prefix).source for prefix, p in programs.items()}, on)


def built_together(path: Path, programs: Mapping[str, Program], sources: Mapping[str, str], on: Target) -> Unit:
    """The same of what has its source."""
    find("cuda").build(Rendered(together(sources), "", ".cu"), on, "host", path, 120, [])
    return Unit(dict(programs), dict(sources), path)


def together(sources: Mapping[str, str]) -> str:
    """One translation unit of several, in whose messages a line is that of the program whose prefix it names."""
    return "".join(f'namespace {prefix}unit {{\n#line 1 "{prefix}"\n{text}}}\n' for prefix, text in sources.items())


def inputs_of(graph: Graph, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    return {p.name: draw(p, sizes, seed) for p in graph.ports if p.role != "out"}


def check(library: Library, graph: Graph, sizes: dict[str, int], inputs: dict[str, Any], expected: Mapping[str, Bounded] | None = None) -> None:
    """One call on copies of the inputs; every output against the reference (what it says, where that is known already), within its bound."""
    expected = reference(graph, inputs, sizes) if expected is None else expected
    buffers: dict[str, Any] = {}
    for p in graph.ports:
        if p.role == "scalar":
            buffers[p.name] = inputs[p.name]
            continue
        buffers[p.name] = allocate(p, sizes)
        if p.role == "out":  # what is not written is found out
            buffers[p.name][...] = np.full(1, 0xA5, np.uint8).repeat(p.dtype.bytes).view(numpy_dtype(p.dtype))[0]
        else:
            buffers[p.name][...] = inputs[p.name]
    assert library.call(buffers, sizes) == 0, (graph.name, sizes)
    for p in graph.ports:
        if p.role in ("out", "inout"):
            verdict = judge(buffers[p.name], expected[p.name], p.dtype)
            assert verdict.ok, (graph.name, p.name, sizes, verdict, buffers[p.name][verdict.worst], expected[p.name].value[verdict.worst])
