"""What the default may be replaced by: the graph without an optional pass, and for each such graph its kernels and their scripts.

A tuned script is for one class of sizes.  In the script that is recorded it stands as the first variant, under a condition that says so; every other size runs the
default's own variants:

    variant M >= 128 & M <= 255 & …       the tuned part
    variant K * N <= 196608               the default
    …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...ir.errors import CompilerBug, LuminalError
from ...ir.evaluate import evaluate
from ...ir.expr import Expr, both, call, const, size
from ...ir.graph import Graph
from ...ir.kernel import Kernel, Module
from ...ir.program import Program
from ...ir.record import replace
from ...ir.target import Options, Target
from ...ir.text.expressions import show_expr
from ...passes.pipeline import PIPELINE, run_pipeline
from ...passes.schedule import Facts, StepError, automatic, replay, unique
from ...passes.schedule.steps.variants import KNOWING, WORD, condition
from ..work import work_of
from .estimate import Footprint, estimate, footprint, largest, within_limits
from .space import Script

UNSCHEDULED = PIPELINE[[p.name for p in PIPELINE].index("schedule") - 1].name  # the pass whose kernels a schedule starts from
FARTHER = 4.0  # times the work of the default by the model: an alternative beyond that is not tried


class Refused(LuminalError):
    """A script that is no schedule of the kernel, or that a hard limit forbids; the message says why."""


@dataclass(frozen=True)
class Alternative:
    """The kernels of one graph, before they are scheduled, and the automatic schedule of each."""

    left_out: tuple[str, ...]
    nests: Module
    kernels: tuple[Kernel, ...]  # by the automatic scheduler
    sizes: Mapping[str, int]
    target: Target
    options: Options

    @cached_property
    def facts(self) -> Facts:
        return Facts.of(self.nests, self.options.strict, self.target.shared_bytes)

    @cached_property
    def defaults(self) -> tuple[Script, ...]:
        """The part of each kernel's script that runs at the sizes."""
        return tuple(self.active(k.schedule)[1] for k in self.kernels)

    @cached_property
    def default_kernels(self) -> tuple[Kernel, ...]:
        return tuple(self.replayed(k, lines, holds) for k, (holds, lines) in enumerate(self.active(x.schedule) for x in self.kernels))

    @cached_property
    def known(self) -> tuple[Footprint, ...]:
        """What the automatic schedule of each kernel keeps near, in whatever variant."""
        return tuple(
            largest([footprint(self.replayed(k, lines, self.condition(holds))) for holds, lines in parts(kernel.schedule)])
            for k, kernel in enumerate(self.kernels)
        )

    def active(self, script: Script) -> tuple[Expr | None, Script]:
        """The variant that runs at the sizes, with its condition."""
        for holds, lines in parts(script):
            found = self.condition(holds)
            if found is None or evaluate(found, self.sizes):
                return found, lines
        raise CompilerBug("search", "a script whose last variant has a condition")

    def condition(self, text: str | None) -> Expr | None:
        return None if text is None else condition(text, self.facts)

    def replayed(self, k: int, lines: Script, holds: Expr | None) -> Kernel:
        """The kernel by these steps, which may know what holds under them."""
        facts = replace(self.facts, assumed=holds) if KNOWING in lines else self.facts
        return replay(unique(self.nests.kernels[k]), facts, lines, fewer_sizes=True)

    def scheduled(self, scripts: tuple[Script, ...]) -> tuple[Kernel, ...]:
        """The kernels by these scripts, one each.  Refused."""
        made: list[Kernel] = []
        guard = of_class(self.nests, self.sizes)
        for k, lines in enumerate(scripts):
            if lines == self.defaults[k]:
                made.append(self.default_kernels[k])
                continue
            try:
                kernel = self.replayed(k, lines, guard)
            except (StepError, CompilerBug) as error:
                raise Refused(str(error)) from None
            over = within_limits(footprint(kernel), self.known[k], self.target)
            if over:
                raise Refused(over)
            made.append(kernel)
        return tuple(made)

    def cost(self, kernels: tuple[Kernel, ...]) -> float:
        return sum(estimate(k, self.sizes, self.target) for k in kernels)

    def program(self, kernels: tuple[Kernel, ...]) -> Program:
        """Refused where the kernels break a rule of their level or of a later one."""
        try:
            return run_pipeline(self.nests.with_kernels(kernels), "kernel", self.target, self.options, after=UNSCHEDULED)
        except (LuminalError, StepError) as error:
            raise Refused(str(error)) from None

    def whole(self, scripts: tuple[Script, ...]) -> Program:
        """The program by the script that is recorded: what is compiled in the end.  Refused."""
        schedules = {self.target.runtime: self.recorded(scripts)}
        try:
            return run_pipeline(self.nests, "kernel", self.target, replace(self.options, schedules=schedules), after=UNSCHEDULED)
        except LuminalError as error:
            raise Refused(str(error)) from None

    def recorded(self, scripts: tuple[Script, ...]) -> str:
        """The whole script: of each kernel the tuned part for these sizes' class, and the default's for all others."""
        guard = of_class(self.nests, self.sizes)
        lines: list[str] = []
        for k, script in enumerate(scripts):
            lines.append(f"kernel {k}")
            own = self.kernels[k].schedule
            if script == self.defaults[k]:
                lines += own
            elif guard is None:
                lines += script
            else:
                lines += [f"{WORD} {show_expr(guard)}", *script]
                for holds, part in parts(own):
                    lines += [WORD if holds is None else f"{WORD} {holds}", *part]
        return "\n".join(lines)


def parts(script: Script) -> list[tuple[str | None, Script]]:
    """The variants of a script, each with its condition (None: all that is left) and all its steps."""
    common: list[str] = []
    found: list[tuple[str | None, list[str]]] = []
    for line in script:
        if line.split()[0] == WORD:
            found.append((line.removeprefix(WORD).strip() or None, list(common)))
        else:
            (found[-1][1] if found else common).append(line)
    return [(c, tuple(lines)) for c, lines in found] or [(None, tuple(common))]


def classes(sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The class of each size: the least and the largest number of as many bits."""
    return {name: (1 << (n.bit_length() - 1) if n else 0, (1 << n.bit_length()) - 1) for name, n in sizes.items()}


def of_class(module: Module, sizes: Mapping[str, int]) -> Expr | None:
    """The condition that all free sizes are of the class of these; None where there is none."""
    bounds = classes({s.name: sizes[s.name] for s in module.sizes})
    return both(
        *(c for n, (low, high) in bounds.items() for c in (call("less_equal", const(low), size(n)), call("less_equal", size(n), const(high))))
    )


def alternatives(graph: Graph, target: Target, options: Options, sizes: Mapping[str, int]) -> list[Alternative]:
    """The default first, then each other graph whose kernels differ and whose work is not far beyond, the least first.

    There are no variants of a graph, so other ones are for a composite whose sizes are all fixed: what is good at the sizes at hand may need far more memory at others."""
    others = () if graph.sizes else tuple((p.name,) for p in PIPELINE if p.optional)
    found: list[tuple[float, Alternative]] = []
    for left_out in ((), *others):
        chosen = replace(options, left_out=left_out, schedules={})
        nests: Any = run_pipeline(graph, "graph", target, chosen, stop_after=UNSCHEDULED)
        if any(nests == other.nests for _, other in found):
            continue
        facts = Facts.of(nests, options.strict, target.shared_bytes)
        kernels = tuple(automatic(unique(k), facts, target, chosen) for k in nests.kernels)
        work = sum(w.cost(sizes) for w in work_of(nests))
        if not found or work <= FARTHER * found[0][0]:
            found.append((work, Alternative(left_out, nests, kernels, sizes, target, chosen)))
    return [found[0][1], *(a for _, a in sorted(found[1:], key=lambda pair: pair[0]))]
