"""Every form of the loop style on the reference, the clang and the CUDA runtime (under the host shim), against plain Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilers import needs_cc
from cuda_unit import needs_host, target as cuda_target, unit
from forms_of_loops import FORMS, SEED, Arrays, reals
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.evaluate import evaluate
from luminal.ir.graph import Graph
from luminal.ir.layout import allocate
from luminal.ir.target import Options
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import find
from luminal.runtimes.clang.compiler import find_compiler
from luminal.runtimes.clang.driver import Driver
from luminal.runtimes.clang.library import Library
from running import composite

pytestmark = pytest.mark.usefixtures("plain_c")


@cache
def graph_of(name: str) -> Graph:
    text = FORMS[name].text
    return composite(text if text.startswith("(composite") else f"(composite t {text})")


def prefix(name: str) -> str:
    return f"f{[*FORMS].index(name)}_"


def cases(name: str) -> list[tuple[dict[str, int], Arrays]]:
    """Sizes and inputs of a form."""
    found = []
    for sizes in FORMS[name].sizes:
        for given in FORMS[name].given:
            inputs: Arrays = {}
            for p in graph_of(name).ports:
                if p.role == "out":
                    continue
                shape = tuple(evaluate(e, sizes) for e in p.shape)
                drawn = reals(*shape) if p.dtype.is_float else np.random.default_rng(SEED).integers(0, 3, shape)
                inputs[p.name] = np.asarray(given.get(p.name, drawn)).astype(numpy_dtype(p.dtype))
            found.append((sizes, inputs))
    return found


def check(name: str, library: Any, place: Callable[[Any], Any] = lambda x: x) -> None:
    """All cases of a form on one library; `place` says where a buffer lies."""
    graph = graph_of(name)
    for sizes, inputs in cases(name):
        buffers: Arrays = {}
        for p in graph.ports:
            if p.role == "scalar":
                buffers[p.name] = inputs[p.name].item()
                continue
            buffers[p.name] = place(allocate(p, sizes))
            buffers[p.name][...] = (
                inputs[p.name] if p.role != "out" else np.full(1, 0xA5, np.uint8).repeat(p.dtype.bytes).view(numpy_dtype(p.dtype))[0]
            )
        want = FORMS[name].python(**{k: v if v.shape else v.item() for k, v in inputs.items()}, **sizes)
        code = library.call(buffers, sizes)
        context = f"{name}, {sizes}, {inputs}"
        assert code == (want if isinstance(want, int) else 0), context
        if isinstance(want, int):
            continue
        for port, expected in want.items():
            loose = 2e-3 if graph.port(port).dtype.name == "f16" else 2e-5
            np.testing.assert_allclose(buffers[port].astype(float), np.asarray(expected).astype(float), rtol=loose, atol=loose, err_msg=context)


@pytest.mark.parametrize("level", [0, 2])
def test_reference(level: int) -> None:
    runtime = find("reference")
    target = runtime.target(None, {"CHECK": 1}, False)
    for name in FORMS:
        program = run_pipeline(graph_of(name), "graph", target, Options(level=level))
        check(name, Interpreted(program))


class Interpreted:
    """A program, run by the interpreter that looks for races and undefined contents."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def call(self, buffers: Arrays, sizes: dict[str, int]) -> int:
        from luminal.ir.interpret.program import run

        flat = {k: v.reshape(-1) if isinstance(v, np.ndarray) else v for k, v in buffers.items()}
        return run(self.program, flat, sizes, check=True)


@pytest.fixture(scope="module", params=[0, 2])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Library]:
    """Every form as C, in one library."""
    folder = tmp_path_factory.mktemp("forms")
    runtime = find("clang")
    target = runtime.target(None, {"OMP": 0}, False)
    compiler = find_compiler("")
    programs = {}
    for name in FORMS:
        programs[name] = run_pipeline(graph_of(name), "graph", target, Options(level=request.param))
        (folder / f"{prefix(name)}.c").write_text(runtime.render(programs[name], target, prefix(name)).source)
    assert isinstance(runtime, Driver)
    flags = runtime.flags(compiler, target)
    command = [*compiler.command, *flags, "-shared", "-fPIC", *(f"{prefix(n)}.c" for n in FORMS), "-o", "forms.so", "-lm"]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return {n: Library(folder / "forms.so", p, f"{prefix(n)}{p.name}") for n, p in programs.items()}


@needs_cc
def test_clang(built: dict[str, Library]) -> None:
    for name, library in built.items():
        check(name, library)


@needs_cc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and mprotect")
@pytest.mark.parametrize("upper", [True, False])
def test_nothing_outside_is_touched(built: dict[str, Library], upper: bool) -> None:
    """Every buffer ends (or begins) at a page that may not be touched; a kernel that does ends its process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for name, library in built.items():
                check(name, library, lambda x: at_the_edge(x, upper))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"


def at_the_edge(x: np.ndarray, upper: bool) -> np.ndarray:
    """An array of the same shape between two pages without access, right before the upper or right behind the lower one."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    length = -(-max(x.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, length + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for edge in (start, start + page + length):
        assert protect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0) == 0
    at = page + (length - x.nbytes if upper else 0)
    return np.frombuffer(memory, np.uint8, x.nbytes, at).view(x.dtype).reshape(x.shape)


@needs_host
def test_cuda(tmp_path: Path) -> None:
    on = cuda_target()
    whole = unit(tmp_path / "forms.so", {prefix(n): run_pipeline(graph_of(n), "graph", on, Options()) for n in FORMS}, on)
    for name in FORMS:
        check(name, whole.library(prefix(name)))
