"""What a run found, as plain data: one row for each subject and dtype, and what the whole was run on."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.version import VERSION
from .distance import FAR, added, quantile
from .subjects import subjects
from .survey import folder_hash, library_hash
from .unit import Settings, Tally

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime

FAILURES = ("mismatch", "compiler error", "crash", "time limit")
STATUSES = ("passes", *FAILURES, "not supported")
CLOSE = 2  # representable values: elementwise results farther than this at p99 are explained


@dataclass(slots=True)
class Row:
    """One subject at one dtype: all its layouts, instances and ways of being compiled together.

    `ulp_*`: of elementwise floats, in representable values from the correctly rounded one.  `bound_ulp`: what the first-order error bound allows at the median of the
    points that are farther off than two.  `ratio`: the largest error in units of its bound.
    """

    name: str
    kind: str
    family: str
    dtype: str
    form: str = ""  # "decomposed", or "" for the operator as the runtime spells it
    status: str = "passes"
    what: str = ""
    detail: str = ""
    kernels: int = 0
    cases: int = 0
    passed: int = 0
    points: int = 0
    undecided: int = 0
    elementwise: bool = False
    ulp_median: int = 0
    ulp_p99: int = 0
    ulp_max: int = 0
    bound_ulp: int = 0
    ratio: float = 0.0
    command: str = ""  # reproduces the first failure


@dataclass(slots=True)
class Report:
    runtime: str
    command: str
    luminal: str
    python: str
    numpy: str
    target: str
    tools: str
    machine: str
    library: str  # hash of ops/
    folder: str  # hash of the runtime's folder
    quick: bool
    seconds: float
    rows: list[Row] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(r.status in FAILURES for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Every field; of a row only what is not as it usually is."""
        usual = asdict(Row("", "", "", ""))
        rows = [{k: v for k, v in asdict(r).items() if v != usual[k] or k == "status"} for r in self.rows]
        return {**{k: v for k, v in asdict(self).items() if k != "rows"}, "ok": self.ok, "summary": self.summary(), "rows": rows}

    def summary(self) -> dict[str, int]:
        """How many rows have each status."""
        return {s: sum(r.status == s for r in self.rows) for s in STATUSES}


def from_json(table: dict[str, Any]) -> Report:
    fields = {k: v for k, v in table.items() if k not in ("ok", "summary", "rows")}
    return Report(**fields, rows=[Row(**{"name": "", "kind": "", "family": "", "dtype": "", **r}) for r in table["rows"]])


def report(runtime: Runtime, target: Target, settings: Settings, command: str, tallies: Iterable[Tally], seconds: float) -> Report:
    import numpy

    return Report(
        runtime.name, command, VERSION, platform.python_version(), numpy.__version__, target.describe, tools(runtime, target, settings), machine(),
        library_hash(), folder_hash(runtime.folder), settings.quick, round(seconds, 1), rows(tallies, settings),
    )  # fmt: skip


def tools(runtime: Runtime, target: Target, settings: Settings) -> str:
    """What builds, and where it runs.  A runtime may have been written before it was asked that."""
    describe = getattr(runtime, "tools", None)
    return str(describe(target, settings.device)) if describe is not None else "not told by the runtime"


def machine() -> str:
    info = Path("/proc/cpuinfo")
    name = platform.processor() or platform.machine()
    cores = 0
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            cores += line.startswith("processor")
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
    return f"{name}, {cores} threads" if cores else name


def rows(tallies: Iterable[Tally], settings: Settings) -> list[Row]:
    """Grouped by subject, dtype and form; a dtype that a subject is not defined on is no row, unless there is none at any dtype that was asked for."""
    groups: dict[tuple[str, str, str, str], list[Tally]] = {}
    for t in tallies:
        form = t.spec.variant if t.spec.variant == "decomposed" else ""
        groups.setdefault((t.spec.kind, t.spec.subject, t.spec.dtype, form), []).append(t)
    shown = {(kind, name) for (kind, name, _, _), found in groups.items() if any(t.status != "dtype" for t in found)}
    result: list[Row] = []
    for (kind, name, dtype, form), found in groups.items():
        known = [t for t in found if t.status != "dtype"]
        if (kind, name) in shown and not known:
            continue
        result.append(row(kind, name, dtype, form, known or found, settings))
    order = {"primop": 0, "derived": 1, "composite": 2}
    dtypes = list(dict.fromkeys(r.dtype for r in result))
    return sorted(
        result,
        key=lambda r: (
            order[r.kind],
            *((r.family, r.name) if r.kind == "composite" else ("", "")),
            0 if r.kind == "composite" else _place(r.name),
            dtypes.index(r.dtype),
            r.form,
        ),
    )


def _place(name: str) -> int:
    from .subjects import operators

    return operators().index(name)


def row(kind: str, name: str, dtype: str, form: str, found: Sequence[Tally], settings: Settings) -> Row:
    rank = ("passes", "dtype", "not supported", "mismatch", "time limit", "crash", "compiler error")
    worst = max(found, key=lambda t: rank.index(t.status))
    steps: dict[int, int] = {}
    allowed: dict[int, int] = {}
    for t in found:
        steps, allowed = added(steps, t.steps), added(allowed, t.allowed)
    status = "not supported" if worst.status == "dtype" else worst.status
    if status == "not supported" and any(t.status == "passes" for t in found):
        status = "passes"
    return Row(
        name, kind, worst.family, dtype, form, status, worst.what if status == "not supported" else "", worst.detail if status != "passes" else "",
        len(found), sum(t.cases for t in found), sum(t.passed for t in found), sum(t.points for t in found), sum(t.undecided for t in found),
        any(t.steps for t in found), quantile(steps, 0.5), quantile(steps, 0.99), quantile(steps, 1.0), quantile(allowed, 0.5),
        float(f"{max(t.ratio for t in found):.3g}"), reproduction(worst, settings) if status in FAILURES else "",
    )  # fmt: skip


def reproduction(t: Tally, settings: Settings) -> str:
    """The command that runs the failing case again, and says what is wrong with it."""
    words = ["luminal", "test-runtime", "--runtime", settings.runtime]
    words += ["--target", settings.target] if settings.target else []
    words += ["--config", ",".join(f"{k}={v}" for k, v in settings.config.items())] if settings.config else []
    words += ["--device", settings.device] if settings.device else []
    words += ["--timeout", f"{settings.timeout:g}"] if settings.timeout != Settings.timeout else []
    words += ["--quick"] if settings.quick else []  # its sizes are others
    words += ["--ops", t.spec.subject]
    words += ["--kind", t.spec.kind] if sum(s.name == t.spec.subject for s in subjects()) > 1 else []
    words += ["--dtype", t.spec.dtype] if t.spec.dtype != "own" else []
    words += ["--case", t.failed or t.spec.words]
    return shlex.join(words)


def reason(r: Row) -> str:
    """Why an elementwise result that passes is farther off than CLOSE at p99, or at the median not the correctly rounded one: by its error bound."""
    if r.status != "passes" or not r.elementwise or (r.ulp_p99 <= CLOSE and not r.ulp_median):
        return ""
    if r.ulp_p99 <= CLOSE:
        return "within the bound of its formula, which is of several roundings"
    return (
        f"a difference, a power or the like magnifies what was rounded before it: where results are more than {CLOSE} ULP off, "
        f"the first-order error bound of the formula is {far(r.bound_ulp)} ULP (median)"
    )


def far(distance: int) -> str:
    return "∞" if distance >= FAR // 2 else str(distance) if distance < 10_000 else f"{distance:.0e}"


__all__ = ["FAILURES", "STATUSES", "Report", "Row", "far", "from_json", "reason", "report"]
