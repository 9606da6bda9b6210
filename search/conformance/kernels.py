"""One subject at one dtype, in one layout, compiled in one way: its graphs and its program, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.errors import LuminalError, SourceError, TimeLimit, Unsupported
from ...ir.graph import Graph
from ...ir.primops import OPS
from ...ir.program import Program
from ...ir.record import record, replace
from ...ir.target import Options, Target
from ...runtimes.registry import written_by_author
from .layouts import LAYOUTS, laid_out
from .subjects import OWN, Subject, Variation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# how a subject is compiled: as ever; derived operators decomposed although the runtime spells them; unscheduled, so that nothing is a vector
VARIANTS = ("", "decomposed", "scalar")


@record
class Spec:
    """Which kernel: plain data, so that any process can make it."""

    subject: str
    kind: str
    dtype: str
    layout: str = "row"
    variant: str = ""
    instance: int = 0  # which of the subject's

    @property
    def words(self) -> str:
        """How a `--case` begins."""
        return " ".join([self.layout, *([self.variant] if self.variant else []), *([f"instance={self.instance}"] if self.instance else [])])


@record
class Kernel:
    spec: Spec
    subject: Subject
    graph: Graph  # before the passes: the reference
    raised: Graph  # after those on the graph
    program: Program | None  # None where its library was found ready (see `kept`)
    opinion: Graph | None = None  # what is asked where `graph` leaves a point undecided


@record
class Refused:
    """Why there is no kernel, or no library of it.  `what` names the primop, dtype or feature that is not supported."""

    spec: Spec
    status: str  # not supported | compiler error | time limit | dtype (the subject is not defined on it, but on another)
    detail: str
    what: str = ""


def specs(subjects: Iterable[Subject], dtypes: Sequence[str], quick: bool) -> list[Spec]:
    """Every kernel of a run, dtype by dtype.  A subject that is defined on none of them comes at the first of its own."""
    found: list[Spec] = []
    chosen = list(subjects)
    for s in chosen:
        if not any(d in s.dtypes for d in dtypes):
            found += _of_subject(s, s.dtypes[0], quick)
    for dtype in dtypes:
        for s in chosen:
            if dtype in s.dtypes:
                found += _of_subject(s, dtype, quick)
    return found


def _of_subject(s: Subject, dtype: str, quick: bool) -> list[Spec]:
    if s.kind == "derived":
        return [Spec(s.name, s.kind, dtype, variant=v) for v in (VARIANTS[:2] if quick else VARIANTS)]
    if s.kind == "primop":
        layouts = ("row",) if s.name in OPS or quick else ("row", "column", "permuted")
        variants = ("", "scalar") if s.name in OPS and not quick else ("",)
        return [Spec(s.name, s.kind, dtype, layout, v) for v in variants for layout in layouts]
    first = Spec(s.name, s.kind, dtype)
    others = [replace(first, instance=k) for k in range(1, len(s.instances))]
    if quick:
        return [first, *([replace(first, layout="column"), *others] if dtype in ("f32", OWN) else [])]
    return [replace(spec, layout=layout) for layouts, found in ((LAYOUTS, [first]), (LAYOUTS[::2], others)) for spec in found for layout in layouts]


def of_case(found: Iterable[Spec], case: str) -> list[Spec]:
    """The kernels that a `--case` is of: of those whose words it begins with, the most special one of each subject and dtype."""
    matching = [s for s in found if f"{case} ".startswith(f"{s.words} ")]
    longest: dict[tuple[str, str, str], int] = {}
    for s in matching:
        key = (s.kind, s.subject, s.dtype)
        longest[key] = max(longest.get(key, 0), len(s.words))
    return [s for s in matching if len(s.words) == longest[s.kind, s.subject, s.dtype]]


def compiled(spec: Spec, subject: Subject, target: Target) -> Kernel | Refused | None:
    """Bring a subject through the passes; None where this layout is no other than a plainer one's."""
    from ...passes.pipeline import run_pipeline

    if spec.dtype not in (OWN, *target.dtypes):
        return Refused(spec, "not supported", f"the runtime {target.runtime} does not have {spec.dtype}", spec.dtype)
    try:
        found = _graphs(spec, subject, target)
        if found is None:
            return None
    except SourceError as error:
        # asked in one layout only: what there is no plain kernel of is told once
        elsewhere = spec.layout != "row" or any(_is_defined(subject, d, spec.instance, target) for d in subject.dtypes if d != spec.dtype)
        return Refused(spec, "dtype" if elsewhere else "compiler error", str(error), spec.dtype)
    if spec.variant == "decomposed":
        target = replace(target, native=frozenset(op for op in target.native if OPS[op].primop))
    graph, opinion = found
    levels: dict[str, Any] = {}
    try:
        options = Options(level=0 if spec.variant == "scalar" else 2, schedules=subject.schedules)
        program = run_pipeline(graph, "graph", target, options, lambda name, level, ir, seconds: levels.__setitem__(level, ir))
    except Exception as error:  # a compiler that stumbles over one kernel is a result, and not the end of the run
        return refusal(spec, error)
    return Kernel(spec, subject, graph, levels["graph"], program, opinion)


def _is_defined(subject: Subject, dtype: str, instance: int, target: Target) -> bool:
    """A subject that is defined on no dtype at all is a mistake in its source."""
    try:
        _graphs(Spec(subject.name, subject.kind, dtype, instance=instance), subject, target)
    except SourceError:
        return False
    return True


def refusal(spec: Spec, error: Exception) -> Refused:
    """What a failure to compile means for the kernel that failed."""
    if isinstance(error, Unsupported):
        return Refused(spec, "not supported", str(error), error.what)
    where = written_by_author(error)
    said = str(error) if isinstance(error, LuminalError) else f"{type(error).__name__}: {error}" + (f" (the runtime's {where})" if where else "")
    return Refused(spec, "time limit" if isinstance(error, TimeLimit) else "compiler error", said)


def _graphs(spec: Spec, subject: Subject, target: Target) -> tuple[Graph, Graph | None] | None:
    """Elaborated and laid out, with the second opinion of the same shape.  Leading axes become two where it takes more than one to have a layout.  A
    conversion goes to what the runtime has."""
    instance = Variation({"dtypes": target.dtypes}) if subject.kind != "composite" else subject.instances[spec.instance]
    for ranks in (1, 2) if subject.leading and spec.layout != "row" else (1,):
        graph = subject.graph(spec.dtype, ranks, instance)
        found = graph if spec.layout == "row" else laid_out(graph, spec.layout)
        if found is not None:
            return found, None if subject.opinion is None else subject.opinion(spec.dtype, ranks, instance)
    return None


__all__ = ["VARIANTS", "Kernel", "Refused", "Spec", "compiled", "of_case", "refusal", "specs"]
