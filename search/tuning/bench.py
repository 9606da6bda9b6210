"""Candidates measured on this machine: built several to a translation unit, each checked against the reference, the right ones timed in alternating blocks of one process."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import numpy_dtype
from ...ir.errors import TimeLimit, ToolError
from ...ir.interpret.judge import Bounded, CheckFault, IndexFault, judge
from ...ir.layout import as_array
from ...ir.merge import Merged, merge
from ...ir.program import ERRORS, Program
from ...ir.record import replace
from ..child import Child, telling_line
from ..draw import draw
from ..reference import reference
from ..trial import in_memory
from .climb import Measured

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from ...ir.target import Target
    from ...runtimes import Runtime

PREFIX = "lm_"
BLOCKS = 7  # alternating blocks of each candidate, twice as many in the last comparison
LEAST, MOST = 0.002, 0.25  # seconds of a block
PATIENCE = 20.0  # seconds after which a candidate is taken to hang


@dataclass(frozen=True)
class Place:
    """Where candidates are built and run; what `--runtime`, `--target`, `--config` and so on said."""

    runtime: Runtime
    target: Target
    runtime_name: str  # as `runtimes.find` takes it
    target_name: str | None
    config: dict[str, Any]
    portable: bool
    device: str | None = None
    timeout: float | None = None  # of a build


@dataclass
class Bench:
    """Programs of one composite at one binding.  `sizes` are those that are timed, `checked` those at which each is compared with the reference."""

    place: Place
    graph: Graph  # before the passes: the reference
    raised: Graph
    sizes: dict[str, int]
    checked: dict[str, int]
    scalars: Mapping[str, Any]
    child: Child
    seed: int = 0
    written: Graph | None = None  # as for `trial.Subject`
    timeout: float = PATIENCE
    clock: Callable[[], float] = time.monotonic
    _inputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def measure(self, programs: Sequence[Program], seconds: float, blocks: int = BLOCKS) -> list[Measured]:
        """One result a program, in order; the contest takes about `seconds`.  ToolError where there is no compiler."""
        with tempfile.TemporaryDirectory(prefix="luminal-search-") as folder:
            return self._measured(list(programs), (seconds, blocks), Path(folder))

    def _measured(self, programs: list[Program], effort: tuple[float, int], folder: Path) -> list[Measured]:
        merged = merge(programs, "candidates")
        try:
            library = self._built(merged.program, folder)
        except TimeLimit as error:
            return [Measured("not built", str(error))] * len(programs)
        except ToolError as error:
            if error.missing:
                raise
            if len(programs) == 1:
                return [Measured("not built", telling_line(str(error)))]
            return self._apart(programs, effort, folder)
        unit = _Unit(self, merged, library, folder)
        checks = [unit.check(k) for k in range(len(programs))]
        right = [k for k, c in enumerate(checks) if c.status == "pass"]
        timed = unit.contest(right, *effort) if right else {}
        return [replace(c, minima=tuple(timed[k])) if k in timed else c for k, c in enumerate(checks)]

    def _apart(self, programs: list[Program], effort: tuple[float, int], folder: Path) -> list[Measured]:
        """One of them cannot be built: who can be, is told one by one, and those are built together."""
        found: dict[int, Measured] = {}
        for k, program in enumerate(programs):
            try:
                self._built(merge([program], "candidates").program, folder)
            except ToolError as error:
                found[k] = Measured("not built", telling_line(str(error)))
        rest = [k for k in range(len(programs)) if k not in found]
        if found and rest:
            found |= dict(zip(rest, self._measured([programs[k] for k in rest], effort, folder), strict=True))
        return [found.get(k, Measured("not built", "not together with the others")) for k in range(len(programs))]

    def _built(self, program: Program, folder: Path) -> Path:
        p = self.place
        kind, suffix = p.runtime.run_kind(p.device)
        made = Path(tempfile.mkdtemp(dir=folder)) / f"candidates{suffix}"
        p.runtime.build(p.runtime.render(program, p.target, PREFIX), p.target, kind, made, p.timeout, [])
        return made

    def inputs(self, sizes: dict[str, int]) -> dict[str, Any]:
        key = repr(sorted(sizes.items()))
        if key not in self._inputs:
            self._inputs[key] = {
                p.name: self.scalars[p.name] if p.name in self.scalars else draw(p, sizes, self.seed) for p in self.graph.ports if p.role != "out"
            }
        return self._inputs[key]

    @cached_property
    def expected(self) -> dict[str, Bounded] | None:
        """What each output should be; None where the reference itself leaves with an error."""
        try:
            return reference(self.graph, self.inputs(self.checked), self.checked, self.written)
        except (IndexFault, CheckFault):
            return None


@dataclass
class _Unit:
    """One library of several candidates."""

    bench: Bench
    merged: Merged
    library: Path
    folder: Path

    def __post_init__(self) -> None:
        from ...ir import text

        self.program = self.folder / f"{self.library.parent.name}.program"
        self.program.write_text(text.show(self.merged.program))

    def check(self, k: int) -> Measured:
        b = self.bench
        if b.expected is None:
            return Measured("code", "the drawn inputs leave a tensor: there is nothing to compare with")
        place = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            outcome = b.child.run(self._job([k], b.checked, place, {"runs": 0}), b.timeout)
            if outcome.status != "done":
                return Measured(outcome.status, outcome.detail or f"returned {outcome.code} ({ERRORS.get(outcome.code, 'unknown')})")
            return self._judged(k, b.expected, place)
        finally:
            shutil.rmtree(place)

    def _judged(self, k: int, expected: Mapping[str, Bounded], place: Path) -> Measured:
        import numpy

        for port in self.bench.graph.ports:
            if port.role not in ("out", "inout"):
                continue
            flat = numpy.load(place / f"{self.merged.ports[k][port.name]}.out.npy").view(numpy_dtype(port.dtype))
            verdict = judge(as_array(port, self.bench.checked, flat), expected[port.name], port.dtype)
            if not verdict.ok:
                return Measured("mismatch", f"{port.name}: error {verdict.max_bound_ratio:.3g} of the bound")
        return Measured("pass")

    def contest(self, which: list[int], seconds: float, blocks: int) -> dict[int, list[float]]:
        """Minima of the blocks of each; nothing where the contest itself failed."""
        b = self.bench
        block = min(max(seconds / (blocks * len(which)), LEAST), MOST)
        place = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            # kernels of one library share their threads, so that no pause is needed between them
            method = {"blocks": blocks, "runs": 3, "pause": 0.0, "seconds": block, "limit": block}
            outcome = b.child.run(self._job(which, b.sizes, place, {"method": method}), b.timeout + 10 * seconds)
            if outcome.status != "done":
                return {}
            return {k: outcome.times[n * blocks : (n + 1) * blocks] for n, k in enumerate(which)}
        finally:
            shutil.rmtree(place)

    def _job(self, which: list[int], sizes: dict[str, int], place: Path, more: dict[str, Any]) -> dict[str, Any]:
        import numpy

        b, p = self.bench, self.bench.place
        names = self.merged.ports[which[0]]  # the same for all: they have the same ports
        scalars: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for port in b.graph.ports:
            if port.role == "scalar":
                value = b.inputs(sizes)[port.name]
                scalars[names[port.name]] = [value.real, value.imag] if isinstance(value, complex) else value
                continue
            flat = in_memory(port, sizes, b.inputs(sizes).get(port.name))
            counts[port.name] = len(flat)
            numpy.save(place / f"{names[port.name]}.npy", flat.view(numpy.uint8))
        bound = [self.merged.bound(k, sizes, counts) for k in which]
        if "method" in more:
            more = {**more, "contest": bound}
        return {
            "runtime": p.runtime_name, "target": p.target_name, "config": p.config, "portable": p.portable, "prefix": PREFIX,
            "library": str(self.library), "program": str(self.program), "folder": str(place), "sizes": bound[0], "scalars": scalars, **more,
        }  # fmt: skip
