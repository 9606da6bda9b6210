"""UBSan and ASan over the emitted C: every sample, and each sixteenth library composite (all of them with SANITIZE=all in the environment: a quarter of an hour), at its own test
sizes, called from a C main with buffers of exactly their size.

One program for all of them: each composite is an object of its own (by its prefix), compiled with what `--config SANITIZE=all` gives, but not optimised: what an optimiser
leaves out is not looked at, and for all that is looked at it takes five times as long.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
from luminal.cli.testing import bindings
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.dtypes import numpy_dtype
from luminal.ir.evaluate import evaluate as value_of
from luminal.ir.graph import Port
from luminal.ir.interpret.judge import judge
from luminal.ir.layout import as_array, layout
from luminal.runtimes.clang.compiler import find_compiler
from luminal.runtimes.clang.driver import Driver
from luminal.search.draw import draw
from luminal.search.reference import reference

ROOT = Path(__file__).parent.parent
LIBRARY = sorted((ROOT / "ops").glob("*/*.toml"))
FILES = [*sorted((ROOT / "samples").glob("*.toml")), *LIBRARY[:: 1 if os.environ.get("SANITIZE") == "all" else 16]]
SEED = 7
pytestmark = pytest.mark.usefixtures("plain_c")

HEAD = """\
#include <stdio.h>
#include <stdlib.h>

/* exactly `bytes` bytes, so that one more is noticed */
static void *take(const char *name, size_t bytes) {
  void *memory = malloc(bytes);
  FILE *file = fopen(name, "rb");
  if (memory == NULL || file == NULL || fread(memory, 1, bytes, file) != bytes) abort();
  fclose(file);
  return memory;
}

static void give(const char *name, void *memory, size_t bytes) {
  FILE *file = fopen(name, "wb");
  if (file == NULL || fwrite(memory, 1, bytes, file) != bytes) abort();
  fclose(file);
  free(memory);
}

static void expect_success(const char *what, int32_t code, const char *meaning) {
  printf("%s: %s\\n", what, meaning);
  fflush(stdout);
  if (code != 0) exit(1);
}
"""


@dataclass
class Case:
    """One composite at one binding of its sizes."""

    name: str
    compilation: Compilation
    entry: str
    sizes: dict[str, int]
    inputs: dict[str, Any]

    def call(self) -> list[str]:
        """A C block: buffers from files, the call, outputs to files."""
        lines, arguments, ends = ["  {"], [], []
        program = self.compilation.program
        for port in program.ports:
            if port.role == "scalar":
                value = self.inputs[port.name]
                arguments.append(float(value).hex() if port.dtype.is_float else str(int(value)))
                continue
            file, bytes_ = f"{self.name}.{port.name}", flat_size(port, self.sizes)
            lines.append(f'    void *p{len(arguments)} = take("{file}", {bytes_});')
            ends.append(f'    give("{file}", p{len(arguments)}, {bytes_});')
            arguments.append(f"p{len(arguments)}")
        arguments += [str(self.sizes[s.name]) for s in program.sizes]
        prefix = self.compilation.settings.prefix
        lines.append(f"    const int32_t code = {self.entry}({', '.join(arguments)});")
        lines.append(f'    expect_success("{self.name}", code, {prefix}strerror(code));')
        return [*lines, *ends, "  }"]

    def write_buffers(self, folder: Path) -> None:
        for port in self.compilation.program.ports:
            if port.role != "scalar":
                flat = numpy.full(flat_size(port, self.sizes), 0xA5, "u1")
                if port.role != "out":
                    as_array(port, self.sizes, flat.view(numpy_dtype(port.dtype)))[...] = self.inputs[port.name]
                flat.tofile(folder / f"{self.name}.{port.name}")

    def check(self, folder: Path) -> None:
        expected = reference(self.compilation.elaborate(), self.inputs, self.sizes)
        for port in self.compilation.program.ports:
            if port.role in ("out", "inout"):
                flat = numpy.fromfile(folder / f"{self.name}.{port.name}", numpy_dtype(port.dtype))
                assert judge(as_array(port, self.sizes, flat), expected[port.name], port.dtype).ok, self.name


def flat_size(port: Port, sizes: dict[str, int]) -> int:
    return layout(port, sizes)[2] * port.dtype.bytes


def cases_of(file: Path, place: int, level: int) -> list[Case]:
    settings = Settings(config={"SANITIZE": "all"}, prefix=f"c{place}_", O=level)
    (compilation,) = compilations(str(file), settings)
    cases = []
    for k, (sizes, scalars) in enumerate([*bindings(compilation, {}), *((sizes, {}) for sizes in nothing(compilation))]):
        inputs = {p.name: draw(p, sizes, SEED) for p in compilation.elaborate().ports if p.role != "out"} | scalars
        cases.append(Case(f"{file.stem}_{place}_{k}", compilation, f"c{place}_{compilation.name}", sizes, inputs))
    return cases


def nothing(compilation: Compilation) -> list[dict[str, int]]:
    """All sizes 0, where the composite admits that."""
    graph = compilation.elaborate()
    zeros = {s.name: 0 for s in graph.sizes}
    try:
        allowed = all(s.min <= 0 for s in graph.sizes) and all(value_of(r, zeros) for r in graph.requires)
    except ZeroDivisionError:  # N % groups
        return []
    return [zeros] if allowed else []


@pytest.mark.parametrize("level", [2, 0])
def test_clean(level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = sanitizing_compiler(tmp_path, "clang", "clang-14", "gcc")  # clang takes half of the time
    monkeypatch.setenv("CC", compiler)
    main, calls, objects = [HEAD], [], []
    cases = [case for place, file in enumerate(FILES) for case in cases_of(file, place, level)]
    flags: tuple[str, ...] = ()
    for place in range(len(FILES)):
        compilation = next(c.compilation for c in cases if c.entry.startswith(f"c{place}_"))
        target, rendered, runtime = compilation.target, compilation.rendered, compilation.runtime
        assert isinstance(runtime, Driver)
        flags = runtime.flags(find_compiler(compiler), target)
        (tmp_path / f"c{place}.c").write_text(rendered.source)
        (tmp_path / f"c{place}.h").write_text(rendered.header)
        run([compiler, *flags, "-c", f"c{place}.c"], tmp_path)
        objects.append(f"c{place}.o")
        main.insert(0, f'#include "c{place}.h"\n')
    for case in cases:
        case.write_buffers(tmp_path)
        calls += case.call()
    (tmp_path / "main.c").write_text("".join(main) + "\nint main(void) {\n" + "\n".join(calls) + "\n  return 0;\n}\n")
    run([compiler, *flags, "main.c", *objects, "-o", "main", "-lm"], tmp_path)
    said = run(["./main"], tmp_path)
    assert said.count("\n") == len(cases) and "runtime error" not in said
    for case in cases:
        case.check(tmp_path)


def sanitizing_compiler(folder: Path, *names: str) -> str:
    """The first of the compilers whose sanitizers work here; the test is skipped where there is none."""
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    for name in names:
        if shutil.which(name):
            tried = subprocess.run([name, "-fsanitize=address,undefined", "empty.c", "-o", "empty"], cwd=folder, capture_output=True)
            if tried.returncode == 0 and subprocess.run(["./empty"], cwd=folder, capture_output=True).returncode == 0:
                return name
    pytest.skip("no compiler with working sanitizers")


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=240)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.mark.parametrize(("access", "said"), [("B[N]", "heap-buffer-overflow"), ("B[(N << 62) - 1]", "runtime error")])
def test_under_test_they_report_what_a_kernel_does(access: str, said: str, tmp_path: Path) -> None:
    """The worker loads the library into Python with the sanitizer there from the start, and its report is the row's detail."""
    compiler = sanitizing_compiler(tmp_path, "gcc", "clang", "clang-14")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "runtime.toml").write_text('name = "wrong"\ninherits = "clang"\n')
    (wrong / "source.c.j2").write_text(
        '{% set body = ["  if (N == 1003) ((volatile float *)B)' + access[1:] + ' = 1;"] + body %}{% include "clang/source.c.j2" %}'
    )
    (tmp_path / "copy.lisp").write_text("(composite copy ((A{f32}[N]) -> (B{f32}[N])) (return (+ A 1)))")
    words = [sys.executable, "-m", "luminal.cli", "compile", "copy.lisp", "-r", "./wrong", "--json", "--config", f"SANITIZE=all,CC={compiler}"]
    for size, ok in ((1002, True), (1003, False)):
        done = subprocess.run([*words, "--test", f"N={size}"], cwd=tmp_path, text=True, capture_output=True, timeout=240)
        (row,) = json.loads(done.stdout)["results"]
        assert row["ok"] is ok and done.returncode == (0 if ok else 3), done.stderr + done.stdout
        assert ok or (row["status"] == "crash" and said in row["detail"]), row
