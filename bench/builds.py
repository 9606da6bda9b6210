"""What a compilation costs from the command line to the library on disk, and how large what it makes is.

    python -m luminal.bench.builds                       gemm, softmax, attention, conv2d: seconds to C, in the C compiler, of a build that nothing is kept of and of one that is kept
    python -m luminal.bench.builds gemm --target native  others, for another target of clang
    python -m luminal.bench.builds --library -j 2        every composite of the library for three dtypes, two at a time

Each command is a process of its own, with Python's byte code at hand as an installed package has it; the best of several runs counts.  `wall` is what a user waits
for, `cpu` what the process and its compiler used, which others at work on the machine disturb less.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cli.main import seldom_collect
from ..compiler import Settings, compilations
from ..ir.errors import LuminalError
from ..search.conformance.kernels import Kernel, Spec, compiled, specs
from ..search.conformance.subjects import Subject, library

if TYPE_CHECKING:
    from ..runtimes import Rendered

ROOT = Path(__file__).parent.parent
INPUTS = ("samples/gemm.toml", "samples/softmax.toml", "samples/attention.toml", "ops/nn/conv2d.toml")
DTYPES = ("f32", "f64", "bf16")
BAR = 180  # seconds that the library may take
UNIT = 8  # kernels that one process of the compiler makes


class Seconds(NamedTuple):
    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:6.2f} {self.cpu:5.2f}"


def used() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(r.ru_utime + r.ru_stime for r in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))


def command(words: list[str], folder: Path) -> Seconds:
    """One run of `luminal`, its cache and Python's byte code inside the folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    began, before = perf_counter(), used()
    subprocess.run([sys.executable, "-m", "luminal.cli", *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    return Seconds(perf_counter() - began, used() - before)


# ---- a few composites, stage by stage


@dataclass(frozen=True)
class Costs:
    """One composite: seconds of the stages, and what came out."""

    source: Seconds  # a new process, to C
    compiler: Seconds  # the C compiler alone
    cold: Seconds  # a new process, to a library that is in no cache
    cached: Seconds  # the same again
    lines: int
    size: int  # bytes of the C
    library: int  # bytes of the shared library


def costs(input_: str, target: str, runs: int, folder: Path) -> Costs:
    path = str(ROOT / input_) if (ROOT / input_).is_file() else input_
    options = ["compile", path, "--target", target]
    (compilation,) = compilations(path, Settings(target=target))
    rendered = compilation.rendered
    product = folder / "product.so"

    def build(name: str) -> Seconds:
        return command([*options, "-o", str(folder / name)], folder)

    def compiler() -> Seconds:
        began, before = perf_counter(), used()
        compilation.runtime.build(rendered, compilation.target, "shared", product, None, [])
        return Seconds(perf_counter() - began, used() - before)

    def forget(*kept: str) -> None:
        shutil.rmtree(folder.joinpath("cache", *kept), ignore_errors=True)

    def source() -> Seconds:
        forget("luminal", "compilations")
        return command([*options, "--emit", "source"], folder)

    def cold() -> Seconds:
        forget()
        return build("library.so")

    source()  # leaves the byte code and the templates
    found = {
        name: min((measure() for _ in range(runs)), key=lambda s: s.wall)
        for name, measure in (("source", source), ("compiler", compiler), ("cold", cold), ("cached", lambda: build("library.so")))
    }
    text = rendered.source
    return Costs(**found, lines=text.count("\n"), size=len(text.encode()), library=product.stat().st_size)


def table(inputs: list[str], target: str, runs: int) -> None:
    print(f"{'clang:' + target:<24}{'to C':>13}{'C compiler':>13}{'cold build':>13}{'cached':>13}{'lines':>8}{'C bytes':>9}{'.so bytes':>11}")
    print(f"{'seconds':<24}" + 4 * f"{'wall':>7}{'cpu':>6}")
    for input_ in inputs:
        with tempfile.TemporaryDirectory() as name:
            c = costs(input_, target, runs, Path(name))
        stages = "".join(f" {s}" for s in (c.source, c.compiler, c.cold, c.cached))
        print(f"{Path(input_).stem:<24}{stages}{c.lines:>8}{c.size:>9}{c.library:>11}", flush=True)


# ---- the whole library


class Built(NamedTuple):
    """One composite for one dtype: processor seconds, of which `compiler` are the C compiler's; `refused` is why there is none."""

    spec: Spec
    cpu: float = 0.0
    compiler: float = 0.0
    lines: int = 0
    refused: str = ""


@cache
def _subjects() -> dict[str, Subject]:
    return {s.name: s for s in library()}


def build(unit: list[Spec], target: str) -> list[Built]:
    """Object files of some kernels, by one process of the compiler where it can, in a worker.  Whose share of the compiler's time is whose goes by their lines."""
    from .. import runtimes

    seldom_collect()  # as the command line does: a fifth of the passes' time
    runtime: Any = runtimes.find("clang")  # the one that makes several at once
    machine = runtime.target(target, {}, True)
    found: dict[Spec, Built] = {}
    sources: dict[Spec, Rendered] = {}
    for spec in unit:
        before = used()
        kernel = compiled(spec, _subjects()[spec.subject], machine)
        try:
            if isinstance(kernel, Kernel):
                assert kernel.program is not None
                sources[spec] = runtime.render(kernel.program, machine, "lm_")
                found[spec] = Built(spec, used() - before, lines=sources[spec].source.count("\n"))
            else:
                found[spec] = Built(spec, refused="" if kernel is None else kernel.status)
        except LuminalError as error:
            found[spec] = Built(spec, refused=str(error))
    before = used()
    with tempfile.TemporaryDirectory() as name:
        wrong = runtime.objects(list(sources.values()), machine, [Path(name, f"{k}.o") for k in range(len(sources))], None, [])
    each = (used() - before) / max(1, sum(found[spec].lines for spec in sources))
    for spec, error in zip(sources, wrong, strict=True):
        b = found[spec]
        found[spec] = b._replace(cpu=b.cpu + each * b.lines, compiler=each * b.lines) if error is None else Built(spec, refused=str(error))
    return [found[spec] for spec in unit]


def whole(target: str, dtypes: tuple[str, ...], processes: int) -> bool:
    """Build all of it; whether that was within the bar."""
    wanted = specs_of(dtypes)
    units = [wanted[k : k + UNIT] for k in range(0, len(wanted), UNIT)]
    began = perf_counter()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = [b for built in pool.map(build, units, [target] * len(units)) for b in built]
    wall = perf_counter() - began
    made = [b for b in found if b.cpu]
    refusals = [b.refused for b in found if b.refused]
    cpu, compiler = sum(b.cpu for b in made), sum(b.compiler for b in made)
    print(
        f"{len(made)} kernels of {len(_subjects())} composites for {', '.join(dtypes)} on clang:{target}: {wall:.0f} s by {processes} processes (bar: {BAR} s)"
    )
    print(f"{cpu:.0f} s of processor time, {compiler:.0f} s of it the C compiler's; {sum(b.lines for b in made)} lines of C")
    print(f"{len(refusals)} refused: " + ", ".join(f"{refusals.count(r)} {r}" for r in sorted(set(refusals))))
    for b in sorted(made, key=lambda b: -b.cpu)[:10]:
        print(f"{b.spec.subject + ' ' + b.spec.dtype:<36}{b.cpu:7.2f} s, compiler {b.compiler:.2f} s, {b.lines} lines")
    return wall <= BAR


def specs_of(dtypes: tuple[str, ...]) -> list[Spec]:
    """One kernel a composite and dtype: its first instance, row by row in memory."""
    return [s for s in specs(_subjects().values(), dtypes, quick=True) if s.instance == 0 and s.layout == "row"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench.builds", description="what compilations cost, and how large their results are")
    parser.add_argument("inputs", nargs="*", help=f"files or names of library composites (default: {', '.join(INPUTS)})")
    parser.add_argument("--target", default="x86-64-v3", help="of clang (default: x86-64-v3)")
    parser.add_argument("--runs", type=int, default=3, help="of each command, of which the best counts (default: 3)")
    parser.add_argument("--library", action="store_true", help=f"build the whole library; exit status 1 where that takes more than {BAR} s")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help=f"with --library: for which (default: {','.join(DTYPES)})")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="with --library: how many processes (default: 2)")
    given = parser.parse_args()
    if given.library:
        return 0 if whole(given.target, tuple(given.dtypes.split(",")), given.j) else 1
    table(given.inputs or list(INPUTS), given.target, given.runs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
