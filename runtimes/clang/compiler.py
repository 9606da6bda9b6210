"""The C compiler: which one, what it is, whether it has OpenMP, and running it.

Looked for in this order: `--config CC=`, `$CC`, clang, clang-22 … clang-14, gcc, gcc-16 … gcc-12, cc, and the `zig cc` of PyPI's ziglang.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ...ir.errors import TimeLimit, ToolError, ToolMissing
from ...ir.record import record
from ..limits import bound
from .probes import answer

_NAMES = ("clang", *(f"clang-{v}" for v in range(22, 13, -1)), "gcc", *(f"gcc-{v}" for v in range(16, 11, -1)), "cc")
_OPENMP = ("libomp.so", "libomp.dylib")
_ADVICE = "install gcc (12 or later) or clang (14 or later), or `pip install ziglang cmeel-libomp`"


@record
class Compiler:
    """A C compiler that answered `--version`."""

    command: tuple[str, ...]
    family: str  # gcc | clang | zig
    version: str  # the first line that it prints of itself

    @property
    def identity(self) -> str:
        return f"{shlex.join(self.command)}: {self.version}"


@cache
def find_compiler(requested: str) -> Compiler:
    """The compiler that was asked for (a command, perhaps with arguments), or the first that is there.  ToolError with what to install."""
    asked = requested or os.environ.get("CC", "")
    if asked:
        return _probe(tuple(shlex.split(asked)), f"the compiler `{asked}` that was asked for", asked=True)
    for name in _NAMES:
        if shutil.which(name):
            return _probe((name,), name)
    if find_spec("ziglang") is not None:
        return _probe((sys.executable, "-m", "ziglang", "cc"), "ziglang")
    raise ToolMissing(f"no C compiler found: {_ADVICE}")


def every_compiler() -> list[Compiler]:
    """All that are there, each program once, in the order in which they are looked for; those that do not answer are left out."""
    zig = [(sys.executable, "-m", "ziglang", "cc")] if find_spec("ziglang") is not None else []
    found: dict[tuple[str, ...], Compiler] = {}
    for command in (*((name,) for name in _NAMES if shutil.which(name)), *zig):
        program = (os.path.realpath(shutil.which(command[0]) or ""), *command[1:])
        try:
            found.setdefault(program, _probe(command, command[-1]))
        except ToolError:
            continue
    return list(found.values())


def _probe(command: tuple[str, ...], what: str, asked: bool = False) -> Compiler:
    path = shutil.which(command[0]) if command else None
    if path is None:
        raise ToolMissing(f"{what} is not there: {_ADVICE}", asked)
    command = (path, *command[1:])
    text = answer(command, "--version", ask).strip()
    version = text.split("\n")[0] if text else ""
    if "ziglang" in command or "zig" in Path(path).name:
        return Compiler(command, "zig", version)
    return Compiler(command, "clang" if "clang" in text.lower() else "gcc", version)


@cache
def openmp_flags(compiler: Compiler) -> tuple[str, ...] | None:
    """What turns OpenMP on, or None where its runtime library is missing."""
    if compiler.family == "gcc":
        found = any(os.sep in _file_of(compiler, f"libgomp{suffix}") for suffix in (".so", ".dylib", ".a"))
        return ("-fopenmp",) if found else None
    if compiler.family == "clang" and any((folder / name).exists() for folder in _library_folders(compiler) for name in _OPENMP):
        return ("-fopenmp",)
    folder = _cmeel_library()
    return None if folder is None else ("-fopenmp", f"-L{folder}", "-lomp", f"-Wl,-rpath,{folder}")


def _library_folders(compiler: Compiler) -> Iterator[Path]:
    """Where a clang finds its own runtime libraries: beside it, and where it says that libomp is."""
    resources = Path(answer(compiler.command, "-print-resource-dir", ask).strip())
    if len(resources.parents) > 2:
        yield resources.parents[1]
    named = Path(_file_of(compiler, _OPENMP[0]))
    if named.is_absolute():
        yield named.parent


def _file_of(compiler: Compiler, name: str) -> str:
    """Where the compiler has a file of this name; the bare name where it has none."""
    return answer(compiler.command, f"-print-file-name={name}", ask, names_file=True).strip()


def ask(command: list[str]) -> str:
    """What a compiler says of itself."""
    return run(command, 60, [])


def _cmeel_library() -> Path | None:
    """The folder of the OpenMP runtime that PyPI's cmeel-libomp installs."""
    spec = find_spec("cmeel_libomp") or find_spec("cmeel")
    places = [Path(p) for p in sys.path if p] + ([Path(spec.origin).parent.parent] if spec and spec.origin else [])
    for place in places:
        folder = place / "cmeel.prefix" / "lib"
        if any((folder / name).exists() for name in _OPENMP):
            return folder
    return None


@cache
def sanitizer_library(compiler: Compiler, address: bool) -> Path:
    """The shared library of ASan (which holds clang's UBSan too) or of UBSan alone.  ToolMissing where the compiler came without."""
    import platform

    kind = "asan" if address else "ubsan"
    name = f"lib{kind}.so" if compiler.family == "gcc" else f"libclang_rt.{kind}{'' if address else '_standalone'}-{platform.machine()}.so"
    found = Path(_file_of(compiler, name))
    if not found.is_absolute():
        raise ToolMissing(f"{compiler.command[0]} has no {name}: install its sanitizers, or choose another compiler with --config CC=")
    return found.resolve()


def run(command: list[str], timeout: float | None, log: list[str], cwd: Path | None = None) -> str:
    """What the command prints.  ToolError with the command and its output where it fails; TimeLimit where it takes longer: then all its children are ended."""
    log.append(shlex.join(command))
    try:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(_zig_folder() if "ziglang" in command else {})},
        )  # fmt: skip
    except OSError as error:
        raise ToolError(f"cannot run {shlex.join(command)}: {error.strerror}") from None
    try:
        bound(process)
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TimeLimit(f"{Path(command[0]).name} took longer than {timeout:g} s: {shlex.join(command)}") from None
    finally:
        if process.returncode is None:
            _end(process)
    text = output.decode(errors="replace")
    if process.returncode != 0:
        raise ToolError(f"{shlex.join(command)}\nfailed with status {process.returncode}:\n{_tail(text)}")
    return text


def _zig_folder() -> dict[str, str]:
    """Where zig may keep what it builds for itself.  Where the user has no folder for that it stops, and where it cannot write it never ends: a temporary one of this
    user's stands in."""
    named, home = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    if named or home:
        folder = Path(named) if named else Path(home or "", ".cache", "zig")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            pass
        else:
            if os.access(folder, os.W_OK | os.X_OK):
                return {}
    return {"ZIG_GLOBAL_CACHE_DIR": str(Path(tempfile.gettempdir()) / f"luminal-zig-{os.getuid() if hasattr(os, 'getuid') else 'user'}")}


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and all of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()
    process.communicate()


def _tail(text: str, limit: int = 8000) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"
