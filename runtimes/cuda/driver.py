"""The cuda runtime's driver: targets, rendering, nvcc and NVRTC, and running on a GPU or under the host shim."""

from __future__ import annotations

import ctypes
import difflib
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from ctypes.util import find_library
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...ir.errors import DeviceError, ToolError, UsageError
from ...ir.moves import VECTOR_BYTES
from ...ir.primops import OPS
from ...ir.program import Program
from ...ir.target import Target
from .. import ConfigKey, Description, Rendered
from ..clang.compiler import Compiler, ask, find_compiler, run
from ..clang.library import Library
from ..clang.machine import fingerprint, native
from ..clang.probes import answer, surroundings
from ..config import resolve_config
from . import nvrtc
from .emit import emit, entry_name

# compute capability -> (streaming multiprocessors of its common board, shared memory of a block in KiB); CUDA 13 starts at 7.5
ARCHITECTURES = {
    "sm_75": (40, 64), "sm_80": (108, 163), "sm_86": (84, 99), "sm_89": (128, 99), "sm_90": (132, 227), "sm_90a": (132, 227), "sm_100": (148, 227),
    "sm_120": (170, 99),
}  # fmt: skip
BASELINE = "sm_80"
_WARNED: set[str] = set()


class Driver:
    """See `luminal.runtimes.Runtime`."""

    source_suffix = ".cu"

    def __init__(self, description: Description, folders: tuple[Path, ...]) -> None:
        self.description = description
        # helper functions that are plain C are the clang runtime's
        self.folders = (*folders, Path(__file__).resolve().parent.parent / "clang")
        self.name, self.folder = description.name, description.folder

    @property
    def library_kind(self) -> tuple[str, str]:
        """What is built by default: a shared library where nvcc is, else a cubin."""
        return ("shared", ".so") if shutil.which("nvcc") else ("cubin", ".cubin")

    def run_kind(self, device: str | None) -> tuple[str, str]:
        """What a run here needs: a cubin on a GPU, the host build under the shim where there is none (with one warning) or where `--device host` asks for it.

        For another GPU than the first its number stands in kind and suffix (`cubin.1`, `.1.cubin`), so that whoever loads the file knows it.
        """
        count = device_count()
        if device is None and not count and "host" not in _WARNED:
            _WARNED.add("host")
            print("luminal: warning: no CUDA device here; the generated source runs on the CPU under the host shim", file=sys.stderr)
        if device == "host" or (device is None and not count):
            return "host", ".so"
        name, _, number = (device or "cuda:0").partition(":")
        if name != "cuda" or not (number or "0").isdecimal():
            raise UsageError(f"--device {device}: expected cuda:N or host")
        if int(number or "0") >= count:
            raise DeviceError(f"--device {device}: {count or 'no'} CUDA device{'' if count == 1 else 's'} here")
        # the driver itself compiles PTX for a generation that came after this list
        kind = "cubin" if native_architecture() else "ptx"
        return (kind, f".{kind}") if int(number or "0") == 0 else (f"{kind}.{int(number)}", f".{int(number)}.{kind}")

    def config_keys(self) -> tuple[ConfigKey, ...]:
        return self.description.config

    def target(self, name: str | None, config: dict[str, Any], portable: bool) -> Target:
        """`native` and no name are the first GPU's architecture where there is one, else the baseline sm_80."""
        options = resolve_config(self.config_keys(), config, self.name)
        found = None if portable and name is None else native_architecture()
        arch = found or BASELINE if name in (None, "native") else name
        if arch not in ARCHITECTURES:
            near = difflib.get_close_matches(arch, ARCHITECTURES, 1)
            raise UsageError(f"unknown target `{arch}`; " + (f"did you mean `{near[0]}`?" if near else f"known: {', '.join(ARCHITECTURES)}"))
        processors, shared = ARCHITECTURES[arch]
        table = self.description.table["target"]
        return Target(
            runtime=self.name,
            name=arch,
            describe=f"{arch}, {processors} multiprocessors, {shared} KiB of shared memory a block",
            native=frozenset(OPS.keys() & {key.partition(".")[0] for key in self.description.spell}),
            instructions=frozenset(n for n, row in self.description.table["instructions"].items() if _has(arch, row["needs"])),
            dtypes=frozenset(table["dtypes"]),
            arithmetic=frozenset(table["arithmetic"]),
            vector_bytes=VECTOR_BYTES,
            cores=processors,
            gpu=True,
            max_threads=table["max_threads"],
            shared_bytes=shared << 10,
            copies_ahead=int(arch[3:].rstrip("a")) >= 80,
            options=options,
        )

    def render(self, program: Program, target: Target, prefix: str) -> Rendered:
        return emit(self.description, self.folders, program, target, prefix)

    def build(self, rendered: Rendered, target: Target, kind: str, path: Path, timeout: float | None, log: list[str]) -> None:
        """Write `path`, whole or not at all.  kind: host (the CPU, under the shim) | ptx | cubin | object | static | shared (these three want nvcc)."""
        kind = kind.partition(".")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".luminal-", dir=path.parent) as folder:
            place = Path(folder)
            (place / "kernel.cu").write_text(rendered.source, encoding="utf-8", newline="\n")
            product = place / "product"
            if kind == "host":
                for command in self._host_commands(target):
                    run(command, timeout, log, place)
            elif kind in ("ptx", "cubin") and not self._nvcc(target):
                arch = target.name if kind == "cubin" else target.name.replace("sm_", "compute_")
                product.write_bytes(nvrtc.compile_text(rendered.source, arch, kind, log))
            elif kind in ("ptx", "cubin", "object", "shared"):
                run([*self._nvcc_command(target, kind), "kernel.cu", "-o", "product"], timeout, log, place)
            elif kind == "static":
                run([*self._nvcc_command(target, "object"), "kernel.cu", "-o", "kernel.o"], timeout, log, place)
                run(["ar", "rcsD", "product", "kernel.o"], timeout, log, place)
            else:
                raise UsageError(f"the runtime {self.name} makes ptx, cubin, object, static and shared files, not `{kind}`")
            os.replace(product, path)

    def _host_commands(self, target: Target) -> list[list[str]]:
        """How the source becomes a shared library of this machine's under the shim.  A race check is compiled with a sanitizer, and linked without it."""
        compiler = host_compiler(str(target.options.get("CC", "")))
        machine = native()
        flags = ["-O0", "-g"] if target.options["DEBUG"] else ["-O2"]
        # the device contracts to FMA; a host that does not know of the instruction would call libm for each
        # of <math.h> and <stdlib.h> the C library's own: what C++ lays over them takes longer to read than a kernel to compile
        flags += [
            "-std=gnu++17",
            "-nostdinc++",
            "-ffp-contract=fast",
            "-fno-math-errno",
            "-fno-strict-aliasing",
            "-fno-exceptions",
            "-fno-rtti",
            "-fPIC",
            "-Wno-attributes",
        ]
        flags += ["-mcpu=native" if machine.architecture == "aarch64" else "-march=native", "-DLM_HOST"]
        flags += ["-fsanitize=thread", "-DLM_RACE"] if target.options["RACE"] else []
        compile_ = [*compiler.command, "-x", "c++", *flags, "-include", str(self.folder / "lm_host.h"), "-c", "kernel.cu", "-o", "kernel.o"]
        return [compile_, [*compiler.command, "-shared", "kernel.o", "-o", "product", "-lm"]]

    def _nvcc(self, target: Target) -> str | None:
        tool = target.options["TOOL"]
        found = None if tool == "nvrtc" else shutil.which("nvcc")
        if tool == "nvcc" and found is None:
            raise ToolError("--config TOOL=nvcc: there is no nvcc on PATH")
        return found

    def _nvcc_command(self, target: Target, kind: str) -> list[str]:
        found = self._nvcc(target)
        if found is None:
            raise nvrtc.Missing(
                "object files and libraries of CUDA code want nvcc on PATH (and TOOL not nvrtc); -o NAME.cubin and NAME.ptx do without it"
            )
        number = target.name.removeprefix("sm_")
        # beside the binary a library holds PTX, for devices to come
        code = f"sm_{number}" if kind in ("ptx", "cubin") else f"[sm_{number},compute_{number}]"
        form = {"ptx": ["-ptx"], "cubin": ["-cubin"], "object": ["-c", "-Xcompiler", "-fPIC"], "shared": ["-shared", "-Xcompiler", "-fPIC"]}[kind]
        debug = ["-lineinfo"] if target.options["DEBUG"] else []
        host = ["-ccbin", str(target.options["CC"])] if target.options["CC"] else []
        return [found, "-std=c++17", "-O3", "-gencode", f"arch=compute_{number},code={code}", *debug, *host, *form]

    def load(self, path: Path, program: Program, target: Target, prefix: str) -> Any:
        """A library of the host shim's, or a cubin on the device that the file's name says (`….1.cubin`; without a number the first)."""
        if path.suffix in (".cubin", ".ptx"):
            from .device import DeviceLibrary

            number = path.suffixes[-2][1:] if len(path.suffixes) > 1 else ""
            return DeviceLibrary(path, program, prefix, int(number) if number.isdecimal() else 0)
        library = Library(path, program, entry_name(prefix, program), extra=(None,))
        ctypes.CDLL(str(path)).lm_host_seed(ctypes.c_uint64(int(target.options["SEED"])))
        return library

    def environment(self, target: Target) -> dict[str, str]:
        return {}

    def tools(self, target: Target, device: str | None) -> str:
        if self.run_kind(device)[0] == "host":
            return f"{host_compiler(str(target.options.get('CC', ''))).version}; on the CPU, under the host shim"
        return f"{_device_compiler(self._nvcc(target)).strip().splitlines()[-1]}; on {device_count()} CUDA device{'s' * (device_count() != 1)}"

    def identity(self, target: Target) -> str:
        """Everything that may build: this machine, the host compiler and its version, the shim's text, nvcc's or NVRTC's version, all flags."""
        parts = [(self.folder / name).read_text(encoding="utf-8") for name in ("lm_host.h", "lm_race.h")]
        try:
            parts += [host_compiler(str(target.options.get("CC", ""))).identity, native().describe, fingerprint(), repr(self._host_commands(target))]
        except ToolError:
            parts.append("no host compiler")
        nvcc = self._nvcc(target)
        return "\n".join(
            [*parts, surroundings(), _device_compiler(nvcc), repr(self._nvcc_command(target, "object")) if nvcc else repr(nvrtc.OPTIONS)]
        )


@cache
def host_compiler(requested: str) -> Compiler:
    """A compiler of C++: the one of the clang runtime where it has C++, else the `zig cc` of PyPI's ziglang.  ToolError with what to install."""
    found = find_compiler(requested)
    # a gcc prints the bare name of a part that it does not have
    if found.family != "gcc" or os.sep in answer(found.command, "-print-prog-name=cc1plus", ask, names_file=True):
        return found
    if not requested and not os.environ.get("CC") and find_spec("ziglang") is not None:
        return find_compiler(f"{shlex.quote(sys.executable)} -m ziglang cc")
    raise ToolError(f"{found.command[0]} has no C++, which the host shim of the cuda runtime is: install g++, or `pip install ziglang`")


@cache
def _device_compiler(nvcc: str | None) -> str:
    if nvcc is not None:
        return answer((nvcc,), "--version", ask)
    try:
        return nvrtc.version()
    except ToolError:
        return "no device compiler"


@cache
def _driver() -> ctypes.CDLL | None:
    # by the name that the driver installs: in a container it is often on the loader's path, and in no list that find_library reads
    for name in ("libcuda.so.1", find_library("cuda")):
        if name is not None:
            with suppress(OSError):
                library = ctypes.CDLL(name)
                return library if library.cuInit(0) == 0 else None
    return None


@cache
def device_count() -> int:
    """CUDA devices of this machine, asked of the driver's own library; 0 where there is none."""
    library, count = _driver(), ctypes.c_int(0)
    if library is not None:
        library.cuDeviceGetCount(ctypes.byref(count))
    return count.value


@cache
def native_architecture() -> str | None:
    """The first device's architecture, or the newest below it that its generation runs; None without a device, and for a generation that is not known."""
    if not device_count():
        return None
    library = _driver()
    assert library is not None
    numbers = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        value = ctypes.c_int()
        library.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        numbers.append(value.value)
    return architecture_for(numbers[0], numbers[1])


def _has(arch: str, needs: dict[str, Any]) -> bool:
    """Whether an architecture is late enough for an instruction, or the one that has it."""
    return arch == needs["only"] if "only" in needs else needs["sm"] <= int(arch[3:].rstrip("a"))


def architecture_for(major: int, minor: int) -> str | None:
    """What to compile for a device of this compute capability: binary code runs on its own generation only, and there on its own version or later ones."""
    if (major, minor) == (9, 0):
        return "sm_90a"
    plain = [int(a.removeprefix("sm_")) for a in ARCHITECTURES if a[-1].isdecimal()]
    fit = [n for n in plain if n // 10 == major and n % 10 <= minor]
    return f"sm_{max(fit)}" if fit else None
