"""-O3: for which sizes a composite is tuned, and what a search, or the record of an earlier one, means for its compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiler import Compilation
    from .ir.graph import Graph
    from .search.tuning.climb import Found
    from .search.tuning.records import Record
    from .search.tuning.session import Search

Watch = Callable[[int, int, float], None]  # candidates tried, known, and the best gain so far
WORTHWHILE = 1_000_000  # operations from which on a composite's own test sizes are worth timing; below, a call is most of it
LOOPING = 128  # each size of a composite whose loops stay loops, where it names none
UP_TO = 1e9  # operations at the sizes that are chosen for a composite that names none


@dataclass(frozen=True)
class Tuned:
    """`record` is None where nothing was found or could be looked for; then -O3 is -O2, and `warning` says why."""

    record: Record | None = None
    found: Found | None = None  # of a search that was made now
    warning: str = ""

    @property
    def summary(self) -> str:
        """One line for people."""
        r = self.record
        if r is None:
            return ""
        result = "the automatic schedule stays" if r.is_default else f"{r.ratio:.2f} times as fast as the automatic schedule (±{r.noise:.2f})"
        tried = f"{r.candidates} candidate{'s' * (r.candidates != 1)} in {r.seconds:.1f} s"
        return f"{r.composite}{at_sizes(r.sizes)}: {result}; {tried}" + ("" if self.found else ", as recorded")


def at_sizes(sizes: Mapping[str, int]) -> str:
    """ " at M=3 N=4"; empty where all sizes are fixed."""
    return f" at {' '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""


def tuned(compilation: Compilation, watch: Watch = lambda *_: None, *, anew: bool = False) -> Tuned:
    """The record for the compilation's sizes; where there is none (or `anew`), a search of `settings.budget` seconds makes it.  UsageError, ToolError as in any compilation."""
    from .search.tuning.session import CannotMeasure

    s = compilation.settings
    if compilation.start != "graph":
        return Tuned(warning=f"-O3: a .{compilation.start} file has no reference to check candidates by; compiled as by -O2")
    if compilation.composite is not None and compilation.runtime.name in compilation.composite.schedules:
        return Tuned(warning="-O3: the composite has a schedule of its own, which is taken as it stands")
    graph = compilation.elaborate()
    at = sizes_of(compilation, graph)
    if at is None:
        return Tuned(warning="-O3: no sizes to tune for; name them with --test or -D; compiled as by -O2")
    search = search_for(compilation, graph, *at)
    try:
        record = None if anew else search.recorded()
        if record is not None or s.budget <= 0:
            return Tuned(record)
        return Tuned(*search.run(s.budget, watch))
    except CannotMeasure as why:
        return Tuned(warning=f"-O3: nothing can be measured here ({why}); compiled as by -O2")


def search_for(compilation: Compilation, graph: Graph, sizes: dict[str, int], scalars: Mapping[str, Any]) -> Search:
    from dataclasses import replace

    from .search.tuning.bench import Place
    from .search.tuning.session import Search

    s = compilation.settings
    place = Place(compilation.runtime, compilation.target, s.runtime, s.target, s.config, s.portable, s.device, s.timeout)
    return Search(graph, place, replace(compilation.options, schedules={}, left_out=()), sizes, scalars)


def sizes_of(compilation: Compilation, graph: Graph) -> tuple[dict[str, int], dict[str, Any]] | None:
    """Sizes and scalar ports: those asked for; else of the composite's `[test] sizes` the ones with most work, if that is worth timing; else moderate ones.
    None where none are known that keep the preconditions."""
    from .ir.layout import dense, strides_of
    from .search.bench.measure import fits, within
    from .search.operations import work_of
    from .search.reference import has_loops
    from .search.tuning.session import smaller

    names = [p.name for p in graph.sizes]
    scalars = [p.name for p in graph.ports if p.role == "scalar"]
    asked = compilation.settings.at
    free = [n for n in names if n not in strides_of(graph.ports)]
    if all(n in asked for n in free) and (names or not asked):
        whole = dense(graph.ports, {n: int(asked[n]) for n in names if n in asked})
        chosen = {n: whole[n] for n in names}
        return (chosen, {n: asked[n] for n in scalars if n in asked}) if fits(graph, chosen) else None
    own = () if compilation.composite is None else compilation.composite.test.sizes
    listed = [(dense(graph.ports, {n: int(b[n]) for n in names if n in b}), b) for b in own if all(n in b for n in free)]
    bound = [({n: int(whole[n]) for n in names}, {n: b[n] for n in scalars if n in b}) for whole, b in listed]
    bound = [(b, given) for b, given in bound if fits(graph, b) and work_of(graph, b)[0] >= WORTHWHILE]
    if bound:
        return max(bound, key=lambda pair: work_of(graph, pair[0])[0])
    from .passes.costs import nominal

    raised = compilation.run(stop_after="raise_loops")
    moderate = dense(graph.ports, {n: v for n, v in nominal(graph.size_info()).items() if n in free})
    moderate = smaller(graph, moderate, LOOPING) if has_loops(raised) else within(graph, raised, moderate, UP_TO)
    return (moderate, {}) if fits(graph, moderate) else None
