"""From text to library: the one module that sees all the parts.

`compilations` opens what the user named, `Compilation` brings one composite through the levels, `build` makes (or finds in the cache) its library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from functools import cached_property, wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .inputs import LEVELS, OPS_FOLDER, Unit, entries, open_input
from .ir.errors import LuminalError, SourceError, UsageError
from .ir.record import record, replace
from .ir.target import Options, Target

if TYPE_CHECKING:
    from .dsl import Instance, Scope
    from .dsl.ast import Composite
    from .ir.errors import Diagnostic
    from .ir.graph import Graph
    from .ir.kernel import Module
    from .ir.program import Program
    from .kept_compilation import Kept
    from .runtimes import Rendered, Runtime
    from .tuning import Tuned

F = TypeVar("F", bound=Callable[..., Any])
_ONE = RLock()


def one_at_a_time(f: F) -> F:
    """One thread after the other: nodes that are equal are one, and two threads that make the same node at once would have two."""

    @wraps(f)
    def alone(*args: Any, **named: Any) -> Any:
        with _ONE:
            return f(*args, **named)

    return cast("F", alone)


@record
class Settings:
    """What a user can ask of a compilation; every field is a command-line option and a keyword of `luminal.compile`."""

    runtime: str = "clang"
    target: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    O: int = 2  # noqa: E741 - the option's own name
    strict: bool = False
    fast: bool = False
    unchecked: bool = False
    sizes: dict[str, Any] = field(default_factory=dict)  # -D: sizes, and parameters by name
    dtype: dict[str, str] = field(default_factory=dict)  # --dtype
    parameters: dict[str, Any] = field(default_factory=dict)
    ranks: int = 1  # how many leading axes `~` stands for
    assume: tuple[str, ...] = ()  # preconditions on the sizes
    without: tuple[str, ...] = ()  # optional ports that are absent
    include: tuple[str, ...] = ()
    entry: str | None = None
    prefix: str = "lm_"
    portable: bool = True  # resolve no target to the portable baseline instead of this machine
    timeout: float | None = None
    device: str | None = None
    at: dict[str, Any] = field(default_factory=dict)  # -O3: sizes (and scalar ports) to tune for
    budget: float = 20.0  # -O3: seconds of a search; 0 takes what is recorded and searches nothing

    def __post_init__(self) -> None:
        if self.strict and self.fast:
            raise UsageError("--strict and --fast contradict: one forbids what changes the rounding, the other admits more of it")


@record
class Step:
    """What the observer of a compilation sees after each pass."""

    name: str
    level: str
    ir: Any
    seconds: float


class Compilation:
    """One composite on its way through the levels.

    `graph`, `module`, `program` and `rendered` are computed when first asked for; `observer` is called after each pass with a `Step`.
    No `composite` is the one that the settings name.  With `keeps` and no observer, what the same text came to before is taken, and what comes out is kept (see `kept_compilation.py`).
    """

    @one_at_a_time
    def __init__(
        self, unit: Unit, composite: Composite | None, settings: Settings, observer: Callable[[Step], None] | None = None, keeps: bool = False
    ) -> None:
        from . import runtimes

        self.unit = unit
        self._composite = composite
        self.settings = settings
        self.runtime: Runtime = runtimes.find(settings.runtime)
        self.target: Target = self.runtime.target(settings.target, settings.config, settings.portable)
        self.observer = observer
        self.levels: dict[str, Any] = {}
        self._final: dict[str, Any] = {}  # the levels as all passes leave them
        self._wanted: dict[str, None] = {}  # graph and program, where somebody asked for them
        self.stages: list[tuple[str, float]] = []  # what took how long: elaborate and each pass
        self._warnings: list[Diagnostic] = []  # of the elaboration
        self.scope: Scope | None = None  # once it is elaborated
        self.start = unit.level or "graph"
        if unit.level:
            from .ir import text

            ignored = [
                option
                for option, given in (
                    ("-D", settings.sizes),
                    ("--dtype", settings.dtype),
                    ("--without", settings.without),
                    ("--assume", settings.assume),
                )
                if given
            ]
            if ignored:
                raise UsageError(f"{unit.name}: {ignored[0]} is for composites; an intermediate file is compiled as it stands")
            self.levels[unit.level] = text.read_valid(unit.text, unit.name)
        self._key: str | None = None
        if keeps and observer is None:
            from .kept_compilation import key_of

            self._key = key_of(self)

    @cached_property
    def composite(self) -> Composite | None:
        """None for an intermediate file.  SourceError where the text is wrong, UsageError where it has no such composite."""
        return self._composite or entries(self.unit, self.settings)[0]

    @cached_property
    def kept(self) -> Kept | None:
        """What the same compilation came to before."""
        from .kept_compilation import recall

        return None if self._key is None else recall(self._key)

    def changed(self, **settings: Any) -> Compilation:
        """The same composite with other settings."""
        return Compilation(self.unit, self._composite, replace(self.settings, **settings), self.observer, self._key is not None)

    def variant(self, without: tuple[str, ...], dtype: dict[str, str] | None = None) -> Compilation:
        """The same composite where these optional ports are absent, or with other dtypes: kernels and a C function of their own (at -O3 the recorded ones: no search for each)."""
        return self.changed(without=without, budget=0.0, **({} if dtype is None else {"dtype": dtype}))

    @property
    def options(self) -> Options:
        s = self.settings
        schedules = dict(self.composite.schedules) if self.composite is not None else {}
        record = self.levels["tuned"].record if "tuned" in self.levels else None
        if record is not None and record.script:
            schedules[record.runtime] = record.script
        left_out = () if record is None else record.left_out
        return Options(level=s.O, strict=s.strict, fast=s.fast, unchecked=s.unchecked, prefix=s.prefix, schedules=schedules, left_out=left_out)

    def tune(self, watch: Callable[[int, int, float], None] = lambda *_: None) -> Tuned:
        """-O3: the record for the sizes asked for, or a search that makes one; from then on `options` holds what was found."""
        if "tuned" not in self.levels:
            from .tuning import tuned

            self.levels["tuned"] = tuned(self, watch)
        return self.levels["tuned"]

    @one_at_a_time
    def elaborate(self) -> Graph:
        """The graph as the composite's text gives it, before any pass."""
        if "source_graph" not in self.levels:
            if self.start != "graph":
                raise UsageError(f"{self.unit.name}: a .{self.start} file has no graph")
            if self.composite is None:
                self.levels["source_graph"] = self.levels["graph"]
            else:
                began = time.perf_counter()
                self.levels["source_graph"] = self._elaborated(self.composite)
                self._saw("elaborate", "graph", self.levels["source_graph"], time.perf_counter() - began)
        return self.levels["source_graph"]

    def _elaborated(self, composite: Composite) -> Graph:
        """SourceError where the composite is wrong; UsageError where only what it is compiled for (`-D`) does not fit it."""
        from . import dsl

        s, instance = self.settings, self._instance
        self.scope = scope = dsl.Scope(self.unit.composites, tuple(map(Path, s.include)))
        try:
            return dsl.elaborate(composite, scope, instance, self._warnings)
        except SourceError as wrong:
            if not (s.sizes or s.parameters):
                raise
            try:
                dsl.elaborate(composite, scope, replace(instance, sizes={}, parameters={}))
            except LuminalError:  # wrong with or without
                raise wrong from None
            given = ", ".join(f"{name}={value}" for name, value in {**s.sizes, **s.parameters}.items())
            raise UsageError(f"-D {given} does not fit {composite.name}: {wrong}") from None

    @property
    def _instance(self) -> Instance:
        from . import dsl

        s = self.settings
        from .dsl.names import fold

        optional = self.optional
        absent = {fold(name): name for name in s.without}
        unknown = [name for folded, name in absent.items() if folded not in map(fold, optional)]
        if unknown:
            raise UsageError(f"--without {unknown[0]}: {self.unit.name} has no such optional port; it has {', '.join(optional) or 'none'}")
        given = tuple(name for name in optional if fold(name) not in absent)
        return dsl.Instance(dtypes=s.dtype, parameters=s.parameters, sizes=s.sizes, ranks=s.ranks, given=given, assume=s.assume)

    @one_at_a_time
    def opinion(self) -> Graph | None:
        """The second opinion that the composite's `[test] code` holds, as a graph of the same ports.  None where there is none."""
        from . import dsl

        other = None if self.composite is None else dsl.second_opinion(self.composite)
        if other is None:
            return None
        self.elaborate()
        assert self.scope is not None
        return dsl.elaborate(other, self.scope, self._instance)

    @property
    def dependencies(self) -> tuple[Path, ...]:
        """The files that the graph was made of: the input's own, then those of the composites that it calls."""
        own = Path(self.unit.name)
        if self.kept is not None:
            called = tuple(map(Path, self.kept.files))
        else:
            if self.start == "graph":
                self.elaborate()
            called = tuple(self.scope.texts) if self.scope is not None else ()
        return ((own,) if own.is_file() else ()) + called

    @property
    def warnings(self) -> list[Diagnostic]:
        """Of the elaboration, once that is done."""
        return self._warnings if "source_graph" in self.levels or self.kept is None else self.kept.warnings

    @property
    def notes(self) -> list[tuple[str, str]]:
        """The reasons for what was decided, each with the kernel that it is about."""
        return self.kept.notes if self.kept is not None else [(k.name, note) for k in self.module.kernels for note in k.notes]

    @property
    def kernels(self) -> int:
        return self.kept.kernels if self.kept is not None else len(self.module.kernels)

    @property
    def optional(self) -> tuple[str, ...]:
        """The ports that may be absent."""
        if self.kept is not None:
            return tuple(self.kept.optional)
        return () if self.composite is None else self.composite.optional

    @property
    def leading(self) -> frozenset[str]:
        """The ports that begin with `~`."""
        from .leading import leading_ports

        return frozenset(self.kept.leading) if self.kept is not None else leading_ports(self.composite)

    @one_at_a_time
    def run(self, stop_after: str | None = None, stop_level: str | None = None) -> Any:
        """Run the pipeline (to the end, to a pass, or to the last pass that gives a level) and return the IR."""
        from .passes.pipeline import PIPELINE, run_pipeline

        if stop_level is not None and stop_after is None:
            if LEVELS.index(self.start) > LEVELS.index(stop_level):
                raise UsageError(f"{self.unit.name}: a .{self.start} file has no {stop_level}")
            if stop_level in self.levels and self.levels.get("done") == stop_level:
                return self.levels[stop_level]
        if stop_after is not None and stop_after not in [p.name for p in PIPELINE]:
            raise UsageError(f"--stop-after {stop_after}: no such pass; there are {', '.join(p.name for p in PIPELINE)}")
        start = self.levels[self.start] if self.start != "graph" else self.elaborate()
        names = [p.name for p in PIPELINE]
        # what stands before the first pass that a search may leave out is the same for every candidate
        if self.settings.O > 2 and (stop_after is None or any(p.optional for p in PIPELINE[: names.index(stop_after) + 1])):
            self.tune()

        def observe(name: str, level: str, ir: Any, seconds: float) -> None:
            self.levels[level] = ir
            self._saw(name, level, ir, seconds)

        self.levels.setdefault(self.start, start)
        return run_pipeline(start, self.start, self.target, self.options, observe, stop_after=stop_after, stop_level=stop_level)

    def _saw(self, name: str, level: str, ir: Any, seconds: float) -> None:
        self.stages.append((name, seconds))
        if self.observer is not None:
            self.observer(Step(name, level, ir, seconds))

    @property
    def graph(self) -> Graph:
        """After the passes on the graph."""
        return self._asked("graph")

    @property
    def module(self) -> Module:
        """The kernels as scheduled."""
        return self.level("kernel")

    @property
    def program(self) -> Program:
        return self._asked("program")

    def _asked(self, level: str) -> Any:
        """A level that somebody wants to know, so that it is worth keeping beside the source."""
        found = self.level(level)
        if level not in self._wanted:
            self._wanted[level] = None
            if "rendered" in self.levels and (self.kept is None or level not in self.kept.levels):
                self._remember()
        return found

    @one_at_a_time
    def level(self, level: str) -> Any:
        """A level as all passes leave it."""
        if LEVELS.index(self.start) > LEVELS.index(level):
            raise UsageError(f"{self.unit.name}: a .{self.start} file has no {level}")
        if level not in self._final:
            if self.kept is not None and level in self.kept.levels:
                from .ir import text

                self._final[level] = text.read(self.kept.levels[level])
            else:
                self.run()
                self._final.update({k: self.levels[k] for k in LEVELS if k in self.levels})
                self._doubt()
        return self._final[level]

    def _doubt(self) -> None:
        """What was kept is forgotten where a composite that is called has changed since: source and levels are to be of the same files."""
        from .kept_compilation import called

        if self.kept is not None and self.kept.files != called(self):
            self.kept = None
            self.levels.pop("rendered", None)

    def _remember(self) -> None:
        if self._key is not None:
            from .kept_compilation import remember

            remember(self._key, self, dict.fromkeys((*(self.kept.levels if self.kept is not None else ()), *self._wanted)))

    @property
    @one_at_a_time
    def rendered(self) -> Rendered:
        if "rendered" not in self.levels and self.kept is not None:
            from .runtimes import Rendered

            self.levels["rendered"] = Rendered(self.kept.source, self.kept.header, self.kept.suffix)
        if "rendered" not in self.levels:
            program = self.level("program")
            began = time.perf_counter()
            self.levels["rendered"] = self.runtime.render(program, self.target, self.settings.prefix)
            self._saw("render", "source", self.levels["rendered"], time.perf_counter() - began)
            self._remember()
        return self.levels["rendered"]

    @property
    def name(self) -> str:
        if self.kept is not None:
            return self.kept.name
        if self.composite is not None and "source_graph" not in self.levels:
            return self.elaborate().name
        first = next(iter(v for k, v in self.levels.items() if k in ("source_graph", *LEVELS)))
        return first.name

    def build(self, kind: str, path: Path, log: list[str] | None = None) -> None:
        """Write the product `kind` (object | static | shared | ptx | cubin) to `path`, whole or not at all; the compile cache is asked first."""
        from .artifacts.write import write_bytes

        made = self.product(kind, path.suffix, log)
        write_bytes(path, made.read_bytes(), executable=os.access(made, os.X_OK))

    def library_path(self, log: list[str] | None = None) -> Path:
        """What runs here (a shared library, a cubin, …), inside the compile cache."""
        return self.product(*self.runtime.run_kind(self.settings.device), log)

    def product(self, kind: str, suffix: str, log: list[str] | None = None) -> Path:
        """A built product inside the compile cache; `log` receives the commands that were run, if any."""
        from .search.cache import cached

        commands = [] if log is None else log
        rendered = self.rendered
        key = (rendered.source, rendered.header, self.target.describe, kind, self.runtime.identity(self.target))
        return cached(key, suffix, lambda to: self.runtime.build(rendered, self.target, kind, to, self.settings.timeout, commands))


def compilations(
    input_: str, settings: Settings, stdin: Callable[[], str] | None = None, observer: Callable[[Step], None] | None = None, keeps: bool = False
) -> list[Compilation]:
    """One compilation for each entry of an input, which is read when that is needed."""
    unit = open_input(input_, settings, stdin)
    chosen = unit.composites if settings.entry == "all" and not unit.level else (None,)
    return [Compilation(unit, c, settings, observer, keeps) for c in chosen]


__all__ = [
    "LEVELS", "OPS_FOLDER", "Compilation", "Settings", "SourceError", "Step", "Unit", "compilations", "entries", "open_input",
]  # fmt: skip
