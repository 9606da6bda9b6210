"""A search for one composite at one binding of its sizes: a record that is there already, or one that is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...ir import text
from ...ir.errors import LuminalError, ToolError
from ...ir.graph import Graph
from ...ir.target import Options
from ...passes.pipeline import run_pipeline
from ..bench.measure import fits, within
from ..child import Child
from ..reference import has_loops
from . import records
from .alternatives import Alternative, Refused, alternatives, classes, parts
from .bench import BLOCKS, Bench, Place
from .climb import Candidate, Found, Measured, Watch, climb
from .records import Record

CONTRACTED, ELEMENTS = 5e8, 2e7  # operations that the reference, with its bounds, does in about a second: of matrix products, and of all else
LOOPS = 24  # of a composite with loops, each size up to which it is run an iteration at a time


def smaller(graph: Graph, sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Each size, or the largest below `most` that its multiple allows; all as they are where the composite does not admit that."""
    low = {s.name: (s.min, s.multiple) for s in graph.sizes}
    found = {n: max(min(v, most) // low[n][1] * low[n][1], low[n][0]) for n, v in sizes.items()}
    return found if fits(graph, found) else dict(sizes)


class CannotMeasure(LuminalError):
    """Candidates cannot be timed here; the message says why."""


@dataclass
class Search:
    """`options` are those of the compilation, without a schedule; `scalars` bound values of scalar ports."""

    graph: Graph
    place: Place
    options: Options
    sizes: dict[str, int]
    scalars: Mapping[str, Any]
    seed: int = 0

    @property
    def key(self) -> str:
        o = self.options
        return records.key(
            text.show(self.graph), f"strict={o.strict} fast={o.fast} unchecked={o.unchecked}", classes(self.sizes), self.place.target.describe, self.compiler
        )  # fmt: skip

    @cached_property
    def compiler(self) -> str:
        """Version and kind of what builds, without its path: a record may come from another machine of the same kind.  CannotMeasure."""
        if self.place.runtime.source_suffix != ".c":
            raise CannotMeasure(f"the kernels of the runtime {self.place.runtime.name} are no C functions of this process")
        try:
            return self.place.runtime.tools(self.place.target, self.place.device)
        except ToolError as error:
            raise CannotMeasure(str(error)) from None

    @cached_property
    def alternatives(self) -> list[Alternative]:
        return alternatives(self.graph, self.place.target, self.options, self.sizes)

    def recorded(self) -> Record | None:
        """What an earlier search found.  CannotMeasure where there could be none."""
        return records.find(self.key)

    def checked(self, raised: Graph) -> dict[str, int]:
        """The sizes, or smaller ones that the reference has an answer for in a moment: contractions are matrix products there, loops that stay loops an iteration at a time."""
        if has_loops(raised):
            return smaller(self.graph, self.sizes, LOOPS)
        contracted = any(n.op == "reduce" and n.args[0].node.op == "mul" for n in raised.nodes())
        return within(self.graph, raised, self.sizes, CONTRACTED if contracted else ELEMENTS)

    @contextmanager
    def _measurer(self) -> Iterator[_Measurer]:
        raised = run_pipeline(self.graph, "graph", self.place.target, self.options, stop_after="simplify")
        written = (
            run_pipeline(raised, "graph", self.place.target, self.options, stop_after="shorten_filters", after="simplify")
            if self.options.fast
            else None
        )
        checked = self.checked(raised)
        with Child(self.place.runtime.environment(self.place.target)) as child:
            bench = Bench(self.place, self.graph, raised, self.sizes, checked, self.scalars, child, self.seed, written)
            yield _Measurer(Workshop(self.alternatives), bench)

    def variants(self, seconds: float) -> list[tuple[Candidate, Measured]]:
        """The variant that runs at the sizes, then every other one of each kernel in its place: checked and timed side by side in about `seconds`.  CannotMeasure."""
        with self._measurer() as measurer:
            first = measurer.space.defaults()[0]
            candidates = [first, *measurer.space.variants(first)]
            return list(zip(candidates, measurer.measure(candidates, seconds), strict=True))

    def run(self, budget: float, watch: Watch = lambda *_: None, clock: Callable[[], float] = time.monotonic) -> tuple[Record, Found]:
        """Search for `budget` seconds, and keep what was found; the record also where the default stays.  CannotMeasure; an interruption leaves nothing."""
        key = self.key
        with self._measurer() as measurer:
            found = climb(measurer.space, measurer, clock, budget, watch)
        if found.failed:
            raise CannotMeasure(found.failed)
        winner = found.winner
        stays = winner is found.default
        chosen = self.alternatives[winner.alternative]
        record = Record(
            key, self.graph.name, self.place.runtime.name, self.place.target.describe, self.compiler, classes(self.sizes), dict(self.sizes),
            "" if stays else chosen.recorded(winner.scripts), () if stays else chosen.left_out, found.ratio, found.noise, len(found.trials), round(found.seconds, 3),
        )  # fmt: skip
        records.keep(record)
        return record, found


@dataclass(frozen=True)
class Workshop:
    """The space of `climb`: alternatives, and scripts of their kernels."""

    alternatives: Sequence[Alternative]

    def defaults(self) -> list[Candidate]:
        """The default, the other variants of its script (what it would do at other sizes), and the default of every other graph."""
        first, *others = [
            Candidate(k, a.defaults, f"without {', '.join(a.left_out)}" if k else "the default", a.cost(a.default_kernels))
            for k, a in enumerate(self.alternatives)
        ]
        return [first, *self.variants(first), *others]

    def variants(self, first: Candidate) -> Iterator[Candidate]:
        for k, kernel in enumerate(self.alternatives[0].kernels):
            for condition, lines in parts(kernel.schedule):
                if lines != first.scripts[k]:
                    what = f"{kernel.name} as where {condition}" if condition else f"{kernel.name} as at all other sizes"
                    found = self.candidate(0, (*first.scripts[:k], lines, *first.scripts[k + 1 :]), what)
                    if found is not None:
                        yield found

    def candidate(self, alternative: int, scripts: tuple[tuple[str, ...], ...], what: str) -> Candidate | None:
        chosen = self.alternatives[alternative]
        try:
            return Candidate(alternative, scripts, what, chosen.cost(chosen.scheduled(scripts)))
        except Refused:
            return None


@dataclass(frozen=True)
class _Measurer:
    space: Workshop
    bench: Bench

    def measure(self, candidates: Sequence[Candidate], seconds: float) -> list[Measured]:
        made: dict[int, Any] = {}
        refused: dict[int, Measured] = {}
        for k, c in enumerate(candidates):
            chosen = self.space.alternatives[c.alternative]
            try:
                made[k] = chosen.program(chosen.scheduled(c.scripts))
            except Refused as error:
                refused[k] = Measured("refused", str(error))
        found = dict(zip(made, self.bench.measure(list(made.values()), seconds), strict=True)) if made else {}
        return [refused[k] if k in refused else found[k] for k in range(len(candidates))]

    def confirm(self, best: Candidate, default: Candidate, seconds: float) -> tuple[Measured, Measured]:
        """Whole programs: with the variants of the other sizes, as they will be compiled."""
        try:
            programs = [self.space.alternatives[c.alternative].whole(c.scripts) for c in (best, default)]
        except Refused as error:
            return Measured("refused", str(error)), Measured("pass")
        mine, its = self.bench.measure(programs, seconds, 2 * BLOCKS)
        return mine, its
