"""Many kernels in one library: built together, run in one worker, each case judged by the reference."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ...ir.dtypes import numpy_dtype
from ...ir.errors import ToolError
from ...ir.interpret.graph import reads_outside
from ...ir.interpret.judge import Bounded, CheckFault, IndexFault, judge, settled
from ...ir.layout import as_array
from ...ir.merge import merge
from ...ir.program import BAD_INDEX, ERRORS
from ...ir.record import record, replace
from ..cache import cached
from ..child import Child, Outcome
from ..reference import asked, reference, where_needed
from ..trial import in_json, in_memory
from . import kept_unit
from .distance import added, histogram, steps
from .kept_unit import PREFIX
from .kernels import Kernel, Refused, Spec, compiled, refusal
from .sizes import bindings
from .subjects import Subject, subjects
from .values import DRAWN, SPECIAL, inputs, is_elementwise, special_size, takes_special

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from ...ir.target import Target
    from ...runtimes import Runtime

_DEADLY = 3  # cases that die or hang, after which a kernel is left alone: each costs a worker or the whole time limit
_KEPT, _KEPT_ELEMENTS = 24, 250_000  # results of the reference, and elements of one of them


@record
class Settings:
    """What all units of a run share; plain data."""

    runtime: str
    target: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    quick: bool = False
    timeout: float = 20.0  # seconds of one case
    build_timeout: float = 300.0
    mem_limit: int | None = None  # MiB of a worker and of a compiler
    device: str | None = None
    case: str = ""  # this one only


@record
class Case:
    sizes: dict[str, int]
    values: str  # drawn | special
    kind: str  # class of the sizes

    def words(self, spec: Spec) -> str:
        """The case as `--case` takes it."""
        return " ".join([spec.words, *(f"{k}={v}" for k, v in self.sizes.items()), *([SPECIAL] if self.values == SPECIAL else [])])


@dataclass(slots=True)
class Tally:
    """What became of one kernel.  Plain data, so that it can be kept as JSON."""

    spec: Spec
    family: str
    status: str = "passes"  # passes | mismatch | not supported | compiler error | crash | time limit | dtype
    detail: str = ""
    what: str = ""  # the primop, dtype or feature that is not supported
    cases: int = 0
    passed: int = 0
    elementwise: bool = False
    steps: dict[int, int] = field(default_factory=dict)  # elementwise floats: how many points are how many representable values off
    allowed: dict[int, int] = field(default_factory=dict)  # the error bound at the points that are more than two steps off, in steps
    ratio: float = 0.0  # the largest error in units of its bound
    undecided: int = 0  # ill-conditioned points, not judged
    points: int = 0
    failed: str = ""  # the first case that does not pass


_WORSE = ("passes", "not supported", "mismatch", "time limit", "crash", "compiler error")


def run_unit(specs: Sequence[Spec], settings: Settings) -> list[Tally]:
    """Compile, build and run every kernel of a unit; one that cannot be built does not keep the others from it.  ToolError where a tool is missing."""
    from ... import runtimes

    if settings.mem_limit:
        from ...runtimes.limits import limit_memory

        limit_memory(settings.mem_limit)
    runtime = runtimes.find(settings.runtime)
    target = runtime.target(settings.target, settings.config, False)
    known = {(s.kind, s.name): s for s in subjects()}
    key = kept_unit.key(specs, runtime, target, settings)
    unit = kept_unit.recall(key, known) or _made(specs, known, runtime, target, settings, key)
    chosen = partial(cases, interpreted=target.interpreted)
    found = {r.spec: Tally(r.spec, known[r.spec.kind, r.spec.subject].family, r.status, r.detail, r.what) for r in unit.refused}
    with worker(runtime, target) as child:
        for part in unit.parts:
            for tally in Library(part, settings, chosen).run(child):
                found[tally.spec] = tally
    return [found[spec] for spec in specs if spec in found]


def _made(
    specs: Sequence[Spec], known: Mapping[tuple[str, str], Subject], runtime: Runtime, target: Target, settings: Settings, key: str | None
) -> kept_unit.Unit:
    """Compiled and built, and kept for the next time unless something went wrong."""
    refused: list[Refused] = []
    kernels: list[Kernel] = []
    for spec in specs:
        kernel = compiled(spec, known[spec.kind, spec.subject], target)
        if isinstance(kernel, Kernel):
            kernels.append(kernel)
        elif kernel is not None:
            refused.append(kernel)
    parts: list[kept_unit.Part] = []
    for part in built(kernels, runtime, target, settings):
        if isinstance(part, Refused):
            refused.append(part)
        else:
            parts.append(part)
    unit = kept_unit.Unit(parts, refused)
    kept_unit.remember(key, unit)
    return unit


def worker(runtime: Runtime, target: Target) -> Child:
    """Threads that wait sleep: several workers share the machine, and nothing is timed."""
    return Child({"OMP_WAIT_POLICY": "passive", **runtime.environment(target)})


def built(kernels: list[Kernel], runtime: Runtime, target: Target, settings: Settings) -> Iterator[kept_unit.Part | Refused]:
    """Libraries that together hold every kernel that can be built: where one translation unit fails, its halves are tried apart."""
    from ...ir import text

    pending = [kernels] if kernels else []
    kind, suffix = runtime.run_kind(settings.device)
    while pending:
        part = pending.pop(0)
        merged = merge([k.program for k in part if k.program is not None], "unit")
        try:
            rendered = runtime.render(merged.program, target, PREFIX)
            key = (rendered.source, rendered.header, target.describe, kind, runtime.identity(target))
            path = cached(key, suffix, lambda to, r=rendered: runtime.build(r, target, kind, to, settings.build_timeout, []))
        except Exception as error:  # whose fault it is, the halves will tell
            if isinstance(error, ToolError) and error.missing:
                raise
            if len(part) == 1:
                yield refusal(part[0].spec, error)
            else:
                pending = [part[: len(part) // 2], part[len(part) // 2 :], *pending]
            continue
        yield kept_unit.Part(part, merged, text.show(merged.program), path)


@record
class Library:
    """A built part of a unit, its cases run and judged."""

    part: kept_unit.Part
    settings: Settings
    cases: Callable[[Kernel, bool], list[Case]]
    known: dict[Any, dict[str, Bounded] | int] = field(default_factory=dict, compare=False)  # what the reference said of late

    def run(self, child: Child) -> Iterator[Tally]:
        with tempfile.TemporaryDirectory(prefix="luminal-unit-") as folder:
            program = Path(folder) / "unit.program"
            program.write_text(self.part.program)
            for k, kernel in enumerate(self.part.kernels):
                yield self._kernel(k, kernel, child, program)

    def _kernel(self, k: int, kernel: Kernel, child: Child, program: Path) -> Tally:
        spec, graph = kernel.spec, kernel.graph
        tally = Tally(spec, kernel.subject.family, elementwise=is_elementwise(kernel.raised))
        deadly = 0
        for case in self.cases(kernel, self.settings.quick):
            if self.settings.case and case.words(spec) != self.settings.case:
                continue
            given = self._inputs(graph, spec, case)
            work = program.parent / "case"
            work.mkdir()
            try:
                outcome = self._call(k, kernel, case, given, child, program, work)
                status, detail = self._judged(kernel, case, given, outcome, work, tally)
            except ToolError as error:
                status, detail = "compiler error", str(error)
            finally:
                shutil.rmtree(work)
            tally.cases += 1
            tally.passed += status == "passes"
            if status != "passes":
                tally.failed = tally.failed or case.words(spec)
                if _WORSE.index(status) > _WORSE.index(tally.status):
                    tally.status, tally.detail, tally.failed = status, detail, case.words(spec)
            deadly += status in ("crash", "time limit")
            if deadly == _DEADLY:
                tally.detail += f"; no more cases after {_DEADLY} such"
                break
        return tally

    def _inputs(self, graph: Graph, spec: Spec, case: Case) -> dict[str, Any]:
        """The same for each variant and each layout of a kernel."""
        seed = crc32(f"{spec.subject} {spec.dtype} {case.words(replace(spec, variant='', layout=''))}".encode())
        return inputs(graph, case.sizes, case.values, seed)

    def _expected(self, kernel: Kernel, case: Case, given: Mapping[str, Any]) -> dict[str, Bounded] | int:
        """What the reference says: values with their bounds, or the error code.  It is the same in every layout and for every variant of a kernel; these
        follow each other, so small ones are kept for a while."""
        meant = replace(kernel.graph, ports=tuple(replace(p, order=()) for p in kernel.graph.ports))
        key = (meant, tuple(case.sizes.items()), case.values, kernel.spec.subject, kernel.spec.dtype, kernel.spec.instance)
        if key not in self.known:
            try:
                found: dict[str, Bounded] | int = reference(meant, given, case.sizes)
            except (IndexFault, CheckFault) as fault:
                found = fault.code if isinstance(fault, CheckFault) else BAD_INDEX
            if kernel.opinion is not None and not isinstance(found, int) and any(b.ill.any() for b in found.values()):
                other = asked(kernel.opinion, given, case.sizes)
                found = settled(found, other) if isinstance(other, dict) else found
            if not isinstance(found, int) and sum(b.value.size for b in found.values()) > _KEPT_ELEMENTS:
                return found
            if len(self.known) >= _KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = found
        return self.known[key]

    def _call(self, k: int, kernel: Kernel, case: Case, given: Mapping[str, Any], child: Child, program: Path, work: Path) -> Outcome:
        import numpy

        names, settings = self.part.names.ports[k], self.settings
        scalars: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for port in kernel.graph.ports:
            if port.role == "scalar":
                scalars[names[port.name]] = in_json(given[port.name])
                continue
            flat = in_memory(port, case.sizes, given.get(port.name))
            counts[port.name] = len(flat)
            numpy.save(work / f"{names[port.name]}.npy", flat.view(numpy.uint8))
        job = {
            "runtime": settings.runtime, "target": settings.target, "config": settings.config, "portable": False, "prefix": PREFIX,
            "library": str(self.part.path), "program": str(program), "folder": str(work), "sizes": self.part.names.bound(k, case.sizes, counts), "scalars": scalars, "runs": 0,
        }  # fmt: skip
        return child.run(job, settings.timeout)

    def _judged(self, kernel: Kernel, case: Case, given: Mapping[str, Any], outcome: Outcome, work: Path, tally: Tally) -> tuple[str, str]:
        if outcome.status in ("crash", "timeout"):
            return ("crash" if outcome.status == "crash" else "time limit"), outcome.detail
        k = self.part.kernels.index(kernel)
        expected = self._expected(kernel, case, given)
        if expected == BAD_INDEX and outcome.status == "done":
            expected = where_needed(kernel.raised, given, case.sizes) or expected
        if isinstance(expected, int):
            right = outcome.status == "code" and outcome.code == expected
            return (
                ("passes", "") if right else ("mismatch", f"expected error code {expected} ({ERRORS.get(expected)}), the kernel gave {outcome.code}")
            )
        if outcome.status == "code" and outcome.code == BAD_INDEX and reads_outside(kernel.graph, given, case.sizes):
            return "passes", ""
        if outcome.status == "code":
            return "mismatch", f"returned {outcome.code} ({ERRORS.get(outcome.code, 'unknown')})"
        wrong: list[str] = []
        for port in kernel.graph.ports:
            if port.role in ("out", "inout"):
                wrong += self._output(port, case, expected[port.name], work / f"{self.part.names.ports[k][port.name]}.out.npy", tally)
        return ("mismatch", "; ".join(wrong)) if wrong else ("passes", "")

    def _output(self, port: Any, case: Case, expected: Bounded, file: Path, tally: Tally) -> list[str]:
        import numpy

        flat = numpy.load(file).view(numpy_dtype(port.dtype))
        actual = as_array(port, case.sizes, flat)
        verdict = judge(actual, expected, port.dtype)
        tally.ratio = max(tally.ratio, verdict.max_bound_ratio)
        tally.undecided += verdict.ill_count
        tally.points += int(actual.size)
        if tally.elementwise and port.dtype.is_float and actual.size:
            distances = steps(actual, expected, port.dtype)
            tally.steps = added(tally.steps, histogram(distances))
            far = distances > 2
            if far.any():
                tally.allowed = added(tally.allowed, histogram(allowed(expected, port.dtype)[far]))
        if verdict.ok:
            return []
        value = numpy.asarray(expected.value)[verdict.worst]
        return [f"{port.name}{list(verdict.worst)} is {actual[verdict.worst]}, expected {value} (error {verdict.max_bound_ratio:.3g} of the bound)"]


def allowed(expected: Bounded, dtype: Any) -> Any:
    """The error bound of every judged point, in steps between numbers as large as its value."""
    import ml_dtypes
    import numpy

    info = ml_dtypes.finfo(numpy_dtype(dtype))
    judged = ~numpy.asarray(expected.ill)
    with numpy.errstate(all="ignore"):
        value = numpy.abs(numpy.asarray(expected.value)[judged].astype(numpy.float64))
        unit = numpy.maximum(numpy.exp2(numpy.floor(numpy.log2(value))) * float(info.eps), float(info.smallest_subnormal))
        found = numpy.broadcast_to(numpy.asarray(expected.bound), numpy.asarray(expected.ill).shape)[judged] / unit
    return numpy.nan_to_num(numpy.ceil(found), nan=0, posinf=2.0**62).clip(0, 2.0**62).astype(numpy.int64)


def cases(kernel: Kernel, quick: bool, interpreted: bool = False) -> list[Case]:
    """Every case of a kernel; smaller ones on a runtime that is `interpreted`."""
    graph = kernel.graph
    found = [Case(sizes, DRAWN, kind) for kind, sizes in bindings(graph, kernel.subject.instances[kernel.spec.instance].sizes, quick, interpreted)]
    if takes_special(kernel.raised) and graph.sizes:
        count = special_size(graph)
        largest = max(found, key=lambda c: max(c.sizes.values(), default=0), default=None)
        if len(graph.sizes) == 1:
            found.append(Case({graph.sizes[0].name: count}, SPECIAL, "large"))
        elif largest is not None:
            found.append(Case(largest.sizes, SPECIAL, largest.kind))
    return found
