"""The clang runtime's driver: targets, rendering, the compiler, loading."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import CompilerBug, LuminalError, ToolMissing, UsageError
from ...ir.primops import OPS
from ...ir.target import Target
from .. import ConfigKey, Description, Rendered
from ..config import resolve_config
from .machine import MACHINES, Machine, baseline, fingerprint, host_architecture, native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ir.program import Program
    from .compiler import Compiler
    from .library import Library

# contraction to FMA is within the bound; nothing else of -ffast-math is: it folds the roundings that exp2 and log2 rest on
_FLAGS = ("-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
_ZIG = {"armv8-a": "generic", "armv8.2-a": "generic+v8_2a"}
_SANITIZERS = {"undefined": "undefined", "address": "address", "all": "address,undefined"}


class Driver:
    """See `luminal.runtimes.Runtime`."""

    library_kind = ("shared", ".so")  # what is loaded, and its suffix

    def __init__(self, description: Description, folders: tuple[Path, ...]) -> None:
        self.description, self.folders = description, folders
        self.name, self.folder = description.name, description.folder
        self.source_suffix: str = description.table.get("suffix", ".c")

    def run_kind(self, device: str | None) -> tuple[str, str]:
        """What a run here needs, and its suffix."""
        if device not in (None, "host"):
            raise UsageError(f"--device {device}: the runtime {self.name} runs on the host")
        return "shared", ".so"

    def config_keys(self) -> tuple[ConfigKey, ...]:
        return self.description.config

    def target(self, name: str | None, config: dict[str, Any], portable: bool) -> Target:
        """Resolved and spelled out.  UsageError for an unknown name or key, and where `--target` and `MARCH` differ."""
        options = resolve_config(self.config_keys(), config, self.name)
        march = options["MARCH"]
        if name and march and name != march:
            raise UsageError(f"--target {name} and --config MARCH={march} contradict each other")
        wanted = name or march
        machine = _machine(wanted, portable)
        options["MARCH"] = "native" if machine is native() else machine.name
        table = self.description.table.get("target", {})
        # never wider than the machine's: gcc 12 fails on some comparisons of such vectors (internal compiler error)
        width = machine.vector_bytes if options["VECTOR"] < 0 else min(options["VECTOR"], machine.vector_bytes)
        return Target(
            runtime=self.name,
            name=machine.name,
            describe=machine.describe if width == machine.vector_bytes else f"{machine.describe}, vectors of {width} bytes",
            native=frozenset(OPS.keys() & {key.partition(".")[0] for key in self.description.spell}),
            instructions=frozenset(n for n, row in self.description.table.get("instructions", {}).items() if machine.has(row["needs"], width)),
            dtypes=frozenset(table.get("dtypes", ())),
            arithmetic=frozenset(table.get("arithmetic", ())),
            vector_bytes=width if table.get("vectors", False) else 0,
            vector_registers=machine.vector_registers,
            multiply_adds=machine.multiply_adds,
            l1=machine.l1,
            l2=machine.l2,
            l3=machine.l3,
            cores=machine.cores,
            threads=bool(table.get("threads", False)) and options["OMP"] is not False,
            options=options,
        )

    def render(self, program: Program, target: Target, prefix: str) -> Rendered:
        from .emit import emit

        return emit(self.description, self.folders, program, target, prefix)

    def build(self, rendered: Rendered, target: Target, kind: str, path: Path, timeout: float | None, log: list[str]) -> None:
        """Compile to `path` (object | static | shared), whole or not at all."""
        from .compiler import find_compiler, run

        if kind not in ("object", "static", "shared"):
            raise UsageError(f"the runtime {self.name} makes object, static and shared files, not `{kind}`")
        compiler = find_compiler(str(target.options.get("CC", "")))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".luminal-", dir=path.parent) as folder:
            place = Path(folder)
            # relative names, so that no path of this machine gets into the product
            (place / "kernel.c").write_text(rendered.source, encoding="utf-8", newline="\n")
            command = [*compiler.command, *self.flags(compiler, target), "kernel.c"]
            if kind == "shared":
                run([*command, "-shared", "-o", "product", "-lm", *self._link(compiler, target)], timeout, log, place)
            else:
                run([*command, "-c", "-o", "kernel.o"], timeout, log, place)
                if kind == "static":
                    run([*_archiver(compiler), "rcsD", "product", "kernel.o"], timeout, log, place)
                else:
                    (place / "kernel.o").rename(place / "product")
            os.replace(place / "product", path)

    def objects(
        self, rendered: Sequence[Rendered], target: Target, paths: Sequence[Path], timeout: float | None, log: list[str]
    ) -> list[LuminalError | None]:
        """Object files of many sources in one folder, the same as `build` makes of each; what was wrong with each.  A mistake in one does not keep the others from being made."""
        from .compiler import find_compiler
        from .several import OBJECT, SOURCE, objects

        compiler = find_compiler(str(target.options.get("CC", "")))
        found: list[LuminalError | None] = []
        for path in paths[:1]:
            path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".luminal-", dir=paths[0].parent if paths else None) as name:
            folders = [Path(name, str(k)) for k in range(len(rendered))]
            for folder, source in zip(folders, rendered, strict=True):
                folder.mkdir()
                (folder / SOURCE).write_text(source.source, encoding="utf-8", newline="\n")
            if not (target.options.get("DEBUG") or target.options.get("SANITIZE")):  # which name the source's place
                objects(compiler, self.flags(compiler, target), folders, Path(name), timeout, log)
            for folder, source, path in zip(folders, rendered, paths, strict=True):
                try:
                    if (folder / OBJECT).exists():
                        os.replace(folder / OBJECT, path)
                    else:
                        self.build(source, target, "object", path, timeout, log)
                    found.append(None)
                except LuminalError as error:
                    found.append(error)
        return found

    def flags(self, compiler: Compiler, target: Target) -> tuple[str, ...]:
        """How a source is compiled for a target; no inputs, outputs or libraries."""
        options = target.options
        machine = MACHINES.get(target.name)
        if machine is None:
            raise CompilerBug("clang", f"unknown machine {target.name}")
        # clang makes a tenth less code with -O2, and filters by transform (14 × 14 × 256) then take 1.18 times as long, 1 × 1 convolutions 1.06
        # a sanitizer's report names lines; what a debugger wants besides takes gcc half of its time
        flags = ["-O1", "-g"] if options.get("DEBUG") else ["-O1", "-g1"] if options.get("SANITIZE") else ["-O3"]
        flags += [*_FLAGS, "-fPIC", *_march(compiler, machine, options.get("MARCH") == "native")]
        if target.vector_bytes == 64 and compiler.family != "zig":
            flags.append("-mprefer-vector-width=512")
        if compiler.family == "gcc":
            if target.vector_bytes == 64 and "-march=native" in flags:
                # for a machine that it knows by its elder, gcc takes loads for free, and reads a matrix again for each row of a register tile (decode of four queries 1.4 times as slow on Zen 4)
                flags.append("-mtune=skylake-avx512")
        else:
            # vectors are spelled out; what clang would join are the addresses of a tile's rows, by permutes on a port that multiply-adds want (gemm 1.2 to 1.5 times as slow on Golden Cove)
            # and loops say themselves how often they stand side by side (passes/unroll.py)
            flags += ["-fno-slp-vectorize", "-fno-unroll-loops", "-Wno-pass-failed"]
        if compiler.family == "clang":
            # of what it knows of values, each loop that is unrolled looks for what it may have changed: to forget all of it gives the same code, or `>=` for `==` where a loop ends (three attentions 0.6 to 0.8 of the time, others as before)
            flags += ["-mllvm", "-forget-scev-loop-unroll"]
            # an address that a loop has at hand from its last iteration it would carry on: of a tile with many rows that takes all registers, and the stack (Zen 4, four queries of one cache 0.91 to 0.97 of the time, others 0.95 to 1.0;
            # 97 workloads together 0.99)
            flags += ["-mllvm", "-enable-pre=0"]
        if compiler.family == "zig":
            # what zig adds unasked: traps, and debug information that names this machine's folders
            flags += ["-fno-sanitize=undefined", *(() if flags[0] == "-O1" else ("-g0",))]
        if options.get("SANITIZE"):
            flags += [f"-fsanitize={_SANITIZERS[str(options['SANITIZE'])]}", "-fno-sanitize-recover=undefined"]
        return (*flags, *self._openmp(compiler, target)[:1])

    def _openmp(self, compiler: Compiler, target: Target) -> tuple[str, ...]:
        from .compiler import openmp_flags

        if not target.threads:
            return ()
        found = openmp_flags(compiler)
        if found is None and target.options.get("OMP"):
            raise ToolMissing(
                f"OMP=1, but {compiler.command[0]} has no OpenMP library; install libomp, or `pip install cmeel-libomp` for zig, or say OMP=0",
                asked=True,
            )
        return found or ()

    def _link(self, compiler: Compiler, target: Target) -> tuple[str, ...]:
        return self._openmp(compiler, target)[1:]

    def load(self, path: Path, program: Program, target: Target, prefix: str) -> Library:
        from .emit import entry_name
        from .library import Library

        return Library(path, program, entry_name(prefix, program))

    def tools(self, target: Target, device: str | None) -> str:
        from .compiler import find_compiler, openmp_flags

        compiler = find_compiler(str(target.options.get("CC", "")))
        return compiler.version + ("" if openmp_flags(compiler) is not None and target.threads else ", no OpenMP")

    def identity(self, target: Target) -> str:
        """The compiler's path and version, every flag, what it heeds of the environment, and of `native` which processor that is."""
        from .compiler import find_compiler
        from .probes import surroundings

        compiler = find_compiler(str(target.options.get("CC", "")))
        machine = fingerprint() if target.options.get("MARCH") == "native" else ""
        return " ".join([compiler.identity, *self.flags(compiler, target), *self._link(compiler, target), surroundings(), machine])

    def environment(self, target: Target) -> dict[str, str]:
        """Sanitizers come into a process only with its start, and Python's own leaks are not the kernel's."""
        from .compiler import find_compiler, sanitizer_library

        chosen = str(target.options.get("SANITIZE", ""))
        if not chosen:
            return {}
        library = sanitizer_library(find_compiler(str(target.options.get("CC", ""))), "address" in _SANITIZERS[chosen])
        return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "detect_leaks=0"}

    def notes(self, target: Target) -> tuple[str, ...]:
        """What the user may want to know of this machine's tools: so far, that threads are off."""
        from .compiler import find_compiler, openmp_flags

        compiler = find_compiler(str(target.options.get("CC", "")))
        if target.threads and openmp_flags(compiler) is None:
            return (f"{compiler.command[0]} has no OpenMP library: the kernels run in one thread",)
        return ()


def _machine(wanted: str, portable: bool) -> Machine:
    if wanted == "native" or not (wanted or portable):
        return native()
    if not wanted:
        return baseline()
    if wanted not in MACHINES:
        from difflib import get_close_matches

        near = get_close_matches(wanted, ["native", *MACHINES], 1)
        hint = f"did you mean `{near[0]}`?" if near else f"known: native, {', '.join(MACHINES)}"
        raise UsageError(f"unknown target `{wanted}`; {hint}")
    return MACHINES[wanted]


def _march(compiler: Compiler, machine: Machine, is_native: bool) -> list[str]:
    if is_native:
        return ["-mcpu=native" if machine.architecture == "aarch64" else "-march=native"]
    # zig has names of its own, and takes them for -mcpu only
    flags = [f"-mcpu={_ZIG.get(machine.name, machine.name.replace('-', '_'))}" if compiler.family == "zig" else f"-march={machine.name}"]
    if machine.architecture != host_architecture() and compiler.family != "gcc":
        flags.append(f"{'-target ' if compiler.family == 'zig' else '--target='}{machine.architecture}-linux-gnu")
    return " ".join(flags).split()


def _archiver(compiler: Compiler) -> list[str]:
    if compiler.family == "zig":
        return [*compiler.command[:-1], "ar"]
    for name in ("ar", "llvm-ar", "gcc-ar"):
        found = shutil.which(name)
        if found:
            return [found]
    raise ToolMissing("no `ar` to make a static library with: install binutils")
