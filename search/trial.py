"""One test run: draw inputs, run the kernel in a child process, compare every output with the reference."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..artifacts.write import write_bytes
from ..ir.errors import UsageError
from ..ir.graph import Graph, Port
from ..ir.layout import as_array, layout
from .child import Child, Outcome
from .draw import draw
from .limit import Late, limited
from .operations import work_of

if TYPE_CHECKING:
    import numpy

    from ..ir.program import Program


@dataclass(frozen=True)
class OutputResult:
    name: str
    dtype: str
    max_abs_error: float
    max_bound_ratio: float
    ok: bool
    ill_conditioned: int = 0
    points: int = 0


@dataclass(frozen=True)
class Result:
    """One binding of a test: what the child said and how each output compares."""

    composite: str
    runtime: str
    sizes: dict[str, int]
    status: str  # pass | mismatch | code | crash | timeout
    detail: str = ""
    outputs: list[OutputResult] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    flops: int = 0
    bytes: int = 0
    kernels: int = 0
    seed: int = 0
    opinion: str | None = None  # how the second opinion of `[test] code` differs; "" where it agrees, None where there is none

    @property
    def ok(self) -> bool:
        return self.status == "pass"

    def as_json(self) -> dict[str, Any]:
        """The row of CLI's contract; `time_s`, `gflops` and `gbps` stand only where something was timed."""
        row: dict[str, Any] = {"composite": self.composite, "runtime": self.runtime, "sizes": self.sizes, "ok": self.ok, "status": self.status}
        if self.detail:
            row["detail"] = self.detail
        row["outputs"] = [asdict(o) for o in self.outputs]
        if self.times:
            median = statistics.median(self.times)
            row["time_s"] = {"median": median, "min": min(self.times), "runs": len(self.times)}
            row["gflops"] = float(f"{self.flops / median / 1e9:.4g}")  # a slow machine has some too
            row["gbps"] = float(f"{self.bytes / median / 1e9:.4g}")
        if self.opinion is not None:
            row["second_opinion"] = self.opinion or "agrees"
        return row | {"kernels": self.kernels, "seed": self.seed}


@dataclass(frozen=True)
class Subject:
    """What is tested: a built library and the graph that says what it should compute."""

    graph: Graph  # before the passes: the reference
    program: Program
    library: Path
    runtime: str  # as `runtimes.find` takes it
    runtime_name: str
    target: str | None
    config: dict[str, Any]
    portable: bool
    prefix: str
    kernels: int
    raised: Graph  # after the passes on the graph: where operations can be counted
    opinion: Graph | None = None  # the second opinion of the composite's `[test]`
    written: Graph | None = None  # under --fast: with what that puts in the place of more accurate operations; the run is judged by its bound


def run(
    subject: Subject,
    sizes: dict[str, int],
    *,
    child: Child,
    seed: int = 0,
    given: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
    timed_runs: int = 20,
    save: Mapping[str, Path] | None = None,
) -> Result:
    """Test one binding of the sizes; `timeout` bounds the run, and what it is compared with, in seconds.  `given` holds arrays or numbers for some ports (the others are drawn), `save` where to keep outputs (.npy)."""
    graph = subject.graph
    inputs = {p.name: _given(p, sizes, given or {}, seed) for p in graph.ports if p.role != "out"}
    result = Result(graph.name, subject.runtime_name, sizes, "pass", kernels=subject.kernels, seed=seed)
    with tempfile.TemporaryDirectory(prefix="luminal-test-") as folder:
        outcome = child.run(_job(subject, sizes, inputs, Path(folder), timed_runs), timeout)
        if outcome.status in ("crash", "timeout"):
            return _replace(result, status=outcome.status, detail=outcome.detail)
        try:
            with limited(timeout):
                return _compared(result, subject, inputs, outcome, Path(folder), save or {})
        except Late:
            return _replace(result, status="timeout", detail=f"what it is judged by was not computed within {timeout:g} s")


def _compared(result: Result, subject: Subject, inputs: Mapping[str, Any], outcome: Outcome, folder: Path, save: Mapping[str, Path]) -> Result:
    """What is said of a run that has ended."""
    from ..ir.interpret.graph import reads_outside
    from ..ir.interpret.judge import CheckFault, IndexFault, settled
    from ..ir.program import BAD_INDEX
    from .reference import asked, reference, where_needed

    graph, sizes = subject.graph, result.sizes
    try:
        expected = reference(graph, inputs, sizes, subject.written)
    except (IndexFault, CheckFault) as fault:
        wanted = fault.code if isinstance(fault, CheckFault) else BAD_INDEX
        needed = where_needed(subject.raised, inputs, sizes) if wanted == BAD_INDEX and outcome.status == "done" else None
        if needed is None:
            ok = outcome.status == "code" and outcome.code == wanted
            return _replace(
                result, status="pass" if ok else "mismatch", detail=f"{fault}: expected error code {wanted}, the kernel gave {outcome.code}"
            )
        expected = needed
    if outcome.status == "code" and outcome.code == BAD_INDEX and reads_outside(graph, inputs, sizes):
        return _replace(result, detail="an index is outside, in a value that no output needs: the kernel reported it")
    if outcome.status == "code":
        from ..ir.program import ERRORS

        return _replace(result, status="code", detail=f"returned {outcome.code} ({ERRORS.get(outcome.code, 'unknown')})")
    other = None if subject.opinion is None else asked(subject.opinion, inputs, sizes)
    decided = settled(expected, other) if isinstance(other, dict) else expected
    rows = _judged(graph, decided, sizes, folder, save)
    opinion = _disagreement(graph, expected, other) if isinstance(other, dict) else other
    status = "pass" if all(r.ok for r in rows) and not opinion else "mismatch"
    flops, moved = work_of(subject.raised, sizes)
    return _replace(result, status=status, outputs=rows, times=outcome.times, flops=flops, bytes=moved, opinion=opinion)


def _disagreement(graph: Graph, expected: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Where the second opinion says something else than the composite by more than both their bounds; empty where it does not."""
    from ..ir.interpret.judge import Bounded, judge

    for port in graph.ports:
        if port.role not in ("out", "inout"):
            continue
        a, b = expected[port.name], other[port.name]
        verdict = judge(b.value, Bounded(a.value, a.bound + b.bound, a.ill | b.ill), port.dtype)
        if not verdict.ok:
            place = f"{port.name}[{', '.join(map(str, verdict.worst))}]" if verdict.worst else port.name
            said, meant = (f"{x:.9g}" if port.dtype.is_float else str(x) for x in (b.value[verdict.worst], a.value[verdict.worst]))
            return f"{place} is {said}, the composite gives {meant}"
    return ""


def _judged(graph: Graph, expected: Mapping[str, Any], sizes: Mapping[str, int], folder: Path, save: Mapping[str, Path]) -> list[OutputResult]:
    """Every output that the worker left in the folder, compared with what it should be, and kept where that was asked for."""
    import numpy

    from ..ir.dtypes import numpy_dtype
    from ..ir.interpret.judge import judge

    rows: list[OutputResult] = []
    for port in graph.ports:
        if port.role not in ("out", "inout"):
            continue
        actual = as_array(port, sizes, numpy.load(folder / f"{port.name}.out.npy").view(numpy_dtype(port.dtype)))
        if port.name in save:
            text = BytesIO()
            numpy.save(text, actual)
            try:
                write_bytes(save[port.name], text.getvalue())
            except UsageError as error:
                raise UsageError(f"--output {port.name}={error}") from None
        v = judge(actual, expected[port.name], port.dtype)
        error, ratio = float(v.max_abs_error), float(v.max_bound_ratio)
        rows.append(OutputResult(port.name, port.dtype.name, error, ratio, bool(v.ok), int(v.ill_count), int(actual.size)))
    return rows


def _replace(result: Result, **changes: Any) -> Result:
    from dataclasses import replace

    return replace(result, **changes)


def _given(port: Port, sizes: Mapping[str, int], given: Mapping[str, Any], seed: int) -> Any:
    if port.name not in given:
        return draw(port, sizes, seed)
    value = given[port.name]
    if port.role == "scalar":
        return value
    import numpy

    from ..ir.dtypes import from_numpy_dtype
    from ..ir.layout import allocate

    array = numpy.asarray(value)
    shape = layout(port, sizes)[0]
    if array.shape != shape or from_numpy_dtype(array.dtype) is not port.dtype:
        raise UsageError(f"input {port.name}: expected {port.dtype}{list(shape)}, found {array.dtype}{list(array.shape)}")
    placed = allocate(port, sizes)
    placed[...] = array
    return placed


def _job(subject: Subject, sizes: dict[str, int], inputs: Mapping[str, Any], folder: Path, runs: int) -> dict[str, Any]:
    import numpy

    from ..ir import text

    scalars: dict[str, Any] = {}
    for port in subject.program.ports:
        if port.role == "scalar":
            value = inputs[port.name]
            scalars[port.name] = in_json(value)
        else:
            numpy.save(folder / f"{port.name}.npy", in_memory(port, sizes, inputs.get(port.name)).view(numpy.uint8))
    program = folder / "composite.program"
    program.write_text(text.show(subject.program))
    return {
        "runtime": subject.runtime, "target": subject.target, "config": subject.config, "portable": subject.portable, "prefix": subject.prefix,
        "library": str(subject.library), "program": str(program), "folder": str(folder), "sizes": sizes, "scalars": scalars, "runs": runs,
    }  # fmt: skip


def in_json(value: Any) -> Any:
    """A number for a scalar port as a job holds it: a complex one as its parts."""
    return [value.real, value.imag] if isinstance(value, complex) else value


def in_memory(port: Port, sizes: Mapping[str, int], value: Any) -> numpy.ndarray:
    """The flat array that a kernel is given for a port: at least one element, in memory order."""
    import numpy

    from ..ir.dtypes import numpy_dtype

    flat = numpy.zeros(max(layout(port, sizes)[2], 1), numpy_dtype(port.dtype))
    if port.role == "out":  # an output starts as garbage, so that a kernel that forgets a point is found out
        flat.view(numpy.uint8)[...] = 0xA5
    else:
        as_array(port, sizes, flat)[...] = value
    return flat
