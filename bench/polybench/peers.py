"""The C beside the composites: every kernel at its sizes as a function of one source, which several compilers build."""

from __future__ import annotations

import ctypes
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...compiler import Compilation
from ...ir.dtypes import numpy_dtype
from ...ir.layout import allocate
from ...runtimes.clang.compiler import every_compiler

HERE = Path(__file__).parent
LEVELS = ("-O3", "-Ofast")
TYPES = {"f64": "double", "f32": "float", "i64": "int64_t"}  # of scalar ports
Sizes = Mapping[str, Any]  # scalars too


@dataclass(frozen=True)
class Kernel:
    """One table of `kernels.toml`, which says what the fields are."""

    name: str
    sizes: str
    flops: str = ""
    scratch: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.toml"


def kernels() -> list[Kernel]:
    tables = tomllib.loads((HERE / "kernels.toml").read_text(encoding="utf-8"))
    return [Kernel(name, **table) for name, table in tables.items()]


def counted(expression: str, sizes: Sizes) -> int:
    """A product or sum of sizes, as `kernels.toml` writes it."""
    return int(eval(expression, {"__builtins__": {}}, dict(sizes))) if expression else 0


def source(wanted: Sequence[tuple[str, Kernel, Compilation, Sizes]]) -> str:
    """A C file with `void ENTRY(void **ports)` for each (ENTRY, kernel, …).  The sizes are constants in it, as they are in the original: `static` functions that are called in one place are
    inlined there; and what the caller gives them beside the ports is known to be nobody else's."""
    lines = ["#include <math.h>", "#include <stdint.h>", "#include <string.h>"]
    included = dict.fromkeys(k.name for _, k, *_ in wanted)
    lines += [f'#include "{HERE / name}.c"' for name in included]
    for entry, kernel, compilation, sizes in wanted:
        program = compilation.program
        arguments = [str(sizes[s.name]) for s in program.sizes]
        for k, port in enumerate(program.ports):
            arguments.append(f"*(const {TYPES[port.dtype.name]} *)ports[{k}]" if port.role == "scalar" else f"ports[{k}]")
        for k, text in enumerate(kernel.scratch):
            type_, _, count = text.partition(" ")
            lines.append(f"static {type_} {entry}_{k}[{counted(count, sizes)}];")
            arguments.append(f"(void *){entry}_{k}")
        lines.append(f"void {entry}(void **ports) {{ {kernel.name}({', '.join(arguments)}); }}")
    return "\n".join([*lines, ""])


def build(text: str, command: Sequence[str], level: str, folder: Path) -> ctypes.CDLL:
    """Compiled and linked apart: at -Ofast a linker brings a start-up file that has the whole process, us too, round small numbers to zero."""
    file, objects, library = (folder / f"peers{suffix}" for suffix in (".c", ".o", f"{len(list(folder.iterdir()))}.so"))
    file.write_text(text, encoding="utf-8")
    subprocess.run([*command, level, "-march=native", "-std=gnu11", "-fPIC", "-c", str(file), "-o", str(objects)], check=True)
    subprocess.run([*command, "-shared", str(objects), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def builds(text: str, folder: Path) -> dict[str, ctypes.CDLL]:
    """The source by gcc and clang, the first of each that is there, at both levels."""
    first = {c.family: c for c in reversed(every_compiler()) if c.family in ("gcc", "clang")}
    return {f"{family} {level}": build(text, first[family].command, level, folder) for family in sorted(first) for level in LEVELS}


def arrays_of(compilation: Compilation, sizes: Sizes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """An array of its own for each port: the input, or zeros; scalars as they are."""
    found: dict[str, Any] = {}
    for port in compilation.program.ports:
        if port.role == "scalar":
            found[port.name] = inputs[port.name]
            continue
        found[port.name] = allocate(port, sizes)
        found[port.name][...] = inputs[port.name] if port.role != "out" else 0
    return found


def call_of(library: ctypes.CDLL, entry: str, compilation: Compilation, arrays: Mapping[str, Any]) -> partial[Any]:
    """The C function with its ports fixed; it keeps their memory."""
    import numpy

    held = [numpy.asarray(arrays[p.name], numpy_dtype(p.dtype)) for p in compilation.program.ports]
    pointers = (ctypes.c_void_p * len(held))(*[a.ctypes.data for a in held])
    function = getattr(library, entry)
    function.argtypes, function.restype = [ctypes.c_void_p], None
    call = partial(function, ctypes.addressof(pointers))
    call.__dict__["kept"] = (held, pointers)
    return call
