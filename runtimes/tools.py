"""The tools that the runtimes use and what of them is here: for `luminal doctor`."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.errors import LuminalError
from ..ir.record import record

if TYPE_CHECKING:
    from .clang.compiler import Compiler

_PROBE = "#include <math.h>\n#include <stdint.h>\ndouble probe(double x) { return sqrt(x); }\n"
_OLDEST = {"gcc": 12, "clang": 14}
_MANAGERS = {
    "apt-get": "apt-get install -y", "dnf": "dnf install -y", "zypper": "zypper install -y", "pacman": "pacman -S --noconfirm", "apk": "apk add",
    "brew": "brew install",
}  # fmt: skip
# tool -> its package, by package manager where the names differ
_PACKAGES = {
    "gcc": {"apt-get": "gcc libc6-dev", "apk": "gcc musl-dev", "": "gcc"},
    "libomp": {"apt-get": "libomp-dev", "dnf": "libomp-devel", "zypper": "libomp-devel", "pacman": "openmp", "apk": "openmp-dev", "": "libomp"},
    "ar": {"": "binutils"},
}


@record
class Finding:
    """One tool.  state: present | missing | broken; `mend` is a command, "" where there is nothing to mend or nothing that a command could."""

    name: str
    state: str
    detail: str
    mend: str = ""
    needed: bool = False  # the main job does not work without it


def pip(*packages: str) -> str:
    return f"{sys.executable} -m pip install {' '.join(packages)}"


def system(tool: str, otherwise: str) -> str:
    """The command by which this machine's package manager installs a tool; `otherwise` where it has none that we know."""
    for manager, command in _MANAGERS.items():
        if shutil.which(manager):
            packages = _PACKAGES[tool].get(manager, _PACKAGES[tool][""])
            root = "" if manager == "brew" or not hasattr(os, "geteuid") or os.geteuid() == 0 else "sudo "
            return f"{root}{command} {packages}"
    return otherwise


def findings() -> Iterator[Finding]:
    """Everything, in the order in which it is shown."""
    yield from c_compilers()
    yield archiver()
    yield from cuda()


def c_compilers() -> Iterator[Finding]:
    """Every C compiler, the one that is taken first, each tried on a small file; then zig."""
    from .clang.compiler import every_compiler, find_compiler

    zig = pip("ziglang", "cmeel-libomp")
    try:
        first: Compiler | None = find_compiler("")
    except LuminalError as error:
        first = None
        yield Finding("C compiler", "missing", str(error), system("gcc", zig), needed=True)
    found = [*([first] if first else []), *(c for c in every_compiler() if c != first)]
    for compiler in found:
        state = _compiler(compiler, needed=compiler == first)
        yield state
        if state.state == "present":
            yield _openmp(compiler)
    if not any(c.family == "zig" for c in found):
        here = find_spec("ziglang") is not None
        yield Finding(
            "zig cc",
            "present" if here else "missing",
            "ziglang of PyPI" if here else "a C compiler from PyPI; another one is enough",
            "" if here else zig,
        )


def _compiler(compiler: Compiler, needed: bool) -> Finding:
    name = " ".join(compiler.command)
    number = re.search(r"(\d+)\.\d+", compiler.version)
    oldest = _OLDEST.get(compiler.family, 0)
    problem = _try(compiler)
    if problem:
        return Finding(name, "broken", f"cannot compile a small file: {problem}", system("gcc", pip("ziglang", "cmeel-libomp")), needed)
    if number and int(number[1]) < oldest:
        return Finding(name, "broken", f"{compiler.version}: {compiler.family} {oldest} or later is wanted", system("gcc", ""), needed)
    return Finding(name, "present", compiler.version + (" (taken by default)" if needed else ""), needed=needed)


def _try(compiler: Compiler) -> str:
    """What a compiler says against a small file; "" for nothing."""
    from .clang.compiler import run

    with tempfile.TemporaryDirectory(prefix="luminal-doctor-") as folder:
        (Path(folder) / "probe.c").write_text(_PROBE)
        try:
            # zig brings its own C library, and would build that first
            link = ["-c", "-o", "probe.o"] if compiler.family == "zig" else ["-shared", "-o", "probe.so", "-lm"]
            run([*compiler.command, "-fPIC", "probe.c", *link], 60, [], Path(folder))
        except LuminalError as error:
            return str(error).strip().split("\n")[-1]
    return ""


def _openmp(compiler: Compiler) -> Finding:
    from .clang.compiler import openmp_flags

    name = f"OpenMP of {' '.join(Path(w).name if k == 0 else w for k, w in enumerate(compiler.command))}"
    flags = openmp_flags(compiler)
    if flags is not None:
        return Finding(name, "present", " ".join(flags))
    mend = pip("cmeel-libomp") if compiler.family == "zig" else system("libomp", pip("cmeel-libomp"))
    return Finding(name, "missing", "kernels run in one thread", mend)


def archiver() -> Finding:
    found = next((p for p in map(shutil.which, ("ar", "llvm-ar", "gcc-ar")) if p), None)
    if found:
        return Finding("ar", "present", found)
    return Finding("ar", "missing", "for static libraries; not needed with zig", system("ar", ""))


def cuda() -> Iterator[Finding]:
    """nvcc, NVRTC, a device, and CuPy to launch on it: each for itself, since each does something without the others."""
    from .cuda.driver import device_count, native_architecture
    from .cuda.nvrtc import version

    nvcc = shutil.which("nvcc")
    wheels = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "cuda-pathfinder")
    yield Finding("nvcc", "present", nvcc) if nvcc else Finding("nvcc", "missing", "for CUDA objects and libraries; .ptx and .cubin do without it")
    try:
        yield Finding("NVRTC", "present", version())
    except LuminalError:
        yield Finding("NVRTC", "missing", "compiles .ptx and .cubin with no toolkit and no GPU", pip(*wheels))
    count = device_count()
    if count:
        yield Finding("CUDA device", "present", f"{count}, the first is {native_architecture()}")
    else:
        yield Finding("CUDA device", "missing", "CUDA kernels are tested on the CPU, under the host shim")
    if find_spec("cupy") is not None:
        yield Finding("CuPy", "present", "launches kernels")
    else:
        yield Finding("CuPy", "missing", "launches kernels on a GPU" + ("" if count else "; of no use without one"), pip("cupy-cuda13x", *wheels))


__all__ = ["Finding", "findings", "pip"]
