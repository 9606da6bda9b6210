"""`luminal bench`: kernels timed beside their peers, and against what the machine can do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compiler import Compilation, Settings, compilations
from ..ir.errors import Diagnostic, LuminalError, UsageError
from . import diagnostics
from .answer import answer, failure
from .parse import parse_bindings, parse_config, parse_pairs, parse_value
from .progress import stage
from .streams import standard_input

if TYPE_CHECKING:
    from ..ir.target import Target
    from ..search.bench.blocks import Method
    from ..search.bench.measure import Bench, Row

Binding = tuple[dict[str, int], dict[str, Any]]  # sizes, and scalar ports


@click.command("bench")
@click.argument("inputs", nargs=-1, metavar="INPUT...", required=True)
@click.option(
    "--sizes",
    multiple=True,
    metavar='"M=100, N=100"',
    help="Sizes and scalars to time at; repeatable.  Default: nominal ones.  Leading strides: no gaps, unless given.",
)
@click.option(
    "--peers",
    default="numpy,torch",
    show_default=True,
    metavar="NAME,...",
    help="numpy, torch, inductor (torch.compile), flex (its flex_attention), tinygrad; or none.",
)
@click.option("-r", "--runtime", default="clang", metavar="NAME|DIR", help="clang, an installed one, or a folder.")
@click.option("--target", metavar="NAME", help="Which machine of the runtime; default: this one.")
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE,...", help="The runtime's own settings (OMP=0: one thread, for the peers too).")
@click.option("-O", "level", type=click.IntRange(0, 3), default=2, show_default=True, help="0 plain, 1 fused, 2 scheduled, 3 searched for.")
@click.option("--fast", is_flag=True, help="Admit what is less accurate, as compile --fast.")
@click.option("-D", "defines", multiple=True, metavar="M=64", help="Fix a size, or set a parameter, at compile time.")
@click.option("--dtype", "dtypes", multiple=True, metavar="T=f16", help="Bind a type variable.")
@click.option("--without", multiple=True, metavar="B", help="Compile for this optional port being absent.")
@click.option("--entry", metavar="NAME|all", help="Which composite of a file.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the drawn inputs.")
@click.option("--blocks", type=click.IntRange(1), default=5, show_default=True, help="Alternating blocks of each implementation, at least.")
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="For how long a row whose blocks are uneven has more of them.",
)
@click.option("--runs", type=click.IntRange(1), default=10, show_default=True, help="Timed calls of a block, at least.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True, metavar="S", help="Bound on each check and build."
)
@click.option("--svg", metavar="FILE", help="Draw the ratios as bars.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def bench(inputs: tuple[str, ...], **options: Any) -> int:
    """Time composites beside NumPy and PyTorch, in alternating blocks, after checking the results.

    The ratio is the best peer's time over ours: above 1 ours is faster.  Beside it stands what part of the machine's own ceiling (the best copy or read of so many
    bytes, a loop of fused multiply-adds; timed in the same blocks) the kernel reaches.

    \b
    Examples:
      luminal bench samples/gemm.toml --sizes "M=1024,N=1024,K=1024"
      luminal bench attention --sizes "batch=8,N=1024,M=1024,D=64,E=64" --peers torch
      luminal bench softmax --sizes "batch=512,N=512" --sizes "batch=4096,N=4096" --svg softmax.svg
    """
    from ..search.bench.blocks import asked_for
    from ..search.bench.report import line, table_head

    method = asked_for(options["blocks"], options["runs"], options["patience"])
    rows: list[Row] = []
    status = 0
    head: dict[str, Any] = {}
    warnings: list[Diagnostic] = []
    ended: dict[str, Any] = {}
    for input_ in inputs:
        try:
            for compilation in compilations(input_, settings_of(options), standard_input):
                with stage(f"building {compilation.unit.name}", quiet=options["as_json"]):
                    made, bindings = prepare(compilation, options, method)
                warnings += compilation.warnings
                if not options["as_json"]:
                    diagnostics.show(compilation.warnings, diagnostics.wants_color("auto"))
                    click.echo(
                        f"{compilation.name}, {compilation.runtime.name} for {compilation.target.describe}, {made.threads} threads\n{table_head()}"
                    )
                head = machine(compilation, made)
                found = timed(compilation, made, bindings, options, (lambda _: None) if options["as_json"] else (lambda row: click.echo(line(row))))
                rows += found
                if any(not row.ok for row in found):
                    status = 124 if {row.checked.status for row in found if not row.ok} == {"timeout"} else max(status, 3)
        except LuminalError as error:
            if not options["as_json"]:
                raise
            ended, status = failure(error), error.exit_status  # beside what was done before
            break
    if options["svg"]:
        from ..artifacts.write import write_text

        write_text(Path(options["svg"]), picture(rows, head))
    if options["as_json"]:
        facts = {**head, "results": [row.as_json() for row in rows], "diagnostics": diagnostics.as_objects(warnings)}
        click.echo(answer(**facts | ended | {"ok": status == 0}))
    return status


def settings_of(options: dict[str, Any]) -> Settings:
    return Settings(
        runtime=options["runtime"], target=options["target"], config=parse_config(options["config"]), O=options["level"], fast=options["fast"], include=options["include"],
        sizes=parse_pairs(options["defines"], "-D", parse_value), dtype=parse_pairs(options["dtypes"], "--dtype", str), entry=options["entry"],
        without=options["without"], portable=False, timeout=options["timeout"],
        at=parse_bindings(options["sizes"][0], "--sizes") if options["sizes"] else {},
    )  # fmt: skip


def prepare(
    compilation: Compilation, options: dict[str, Any], method: Method, forms: Mapping[str, Sequence[str]] | None = None
) -> tuple[Bench, list[Binding]]:
    """All that the rows of a composite share, and the bindings to time; `forms`: expressions of peers beside those of `search/bench/forms.py`."""
    from ..ir.layout import dense, strides_of
    from ..passes.costs import nominal
    from ..runtimes.registry import load
    from ..search.bench.ceiling import ceilings
    from ..search.bench.measure import CHECKED, Bench, smallest, within
    from ..search.trial import Subject
    from .testing import bindings

    families = families_of(options["peers"])
    if compilation.runtime.source_suffix != ".c":
        raise UsageError(f"the runtime {compilation.runtime.name} cannot be timed here: its kernels are not C functions of this process")
    graph = compilation.elaborate()
    raised = compilation.run(stop_after="simplify" if compilation.settings.fast else "raise_loops")
    asked = [parse_bindings(text, "--sizes") for text in options["sizes"]]
    if not asked:
        strides = strides_of(graph.ports)
        free = {n: v for n, v in nominal(graph.size_info()).items() if n not in strides}
        found = within(graph, raised, dense(graph.ports, free), CHECKED)
        asked = [{n: v for n, v in found.items() if n in free}]
    chosen = [found for given in asked for found in bindings(compilation, dict(given), "--sizes")]
    s, target = compilation.settings, compilation.target
    path = compilation.library_path()
    subject = Subject(
        graph,
        compilation.program,
        path,
        s.runtime,
        compilation.runtime.name,
        s.target,
        s.config,
        s.portable,
        s.prefix,
        len(compilation.module.kernels),
        raised,
        written=compilation.run(stop_after="shorten_filters") if s.fast else None,
    )
    threads = threads_of(target)
    library = load(compilation.runtime, path, compilation.program, target, s.prefix)
    tools = (compilation.runtime, target)
    limits = ceilings(*tools, threads, options["timeout"])
    name = compilation.composite.name if compilation.composite is not None else graph.name
    made = Bench(
        subject,
        name,
        compilation.run(stop_after="join"),
        library,
        smallest(graph),
        parameters_of(compilation),
        limits,
        tools,
        threads,
        method,
        families,
        options["seed"],
        options["timeout"],
        forms or {},
    )
    return made, chosen


def threads_of(target: Target) -> int:
    """How many threads our kernels have, and so the peers."""
    if not target.threads:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parameters_of(compilation: Compilation) -> dict[str, Any]:
    """The composite's parameters as they are for this compilation."""
    if compilation.composite is None:
        return {}
    settings = compilation.settings
    given = {**settings.sizes, **settings.parameters}
    return {p.name: given.get(p.name, p.default) for p in compilation.composite.parameters}


def families_of(text: str) -> list[str]:
    from ..search.bench.peers import FAMILIES

    names = [w.strip() for w in text.split(",") if w.strip()]
    if names == ["none"]:
        return []
    for name in names:
        if name not in FAMILIES:
            raise UsageError(f"--peers {name}: no such peer; there are {', '.join(FAMILIES)}, or none")
    return names


def timed(compilation: Compilation, made: Bench, bindings: list[Binding], options: dict[str, Any], saw: Callable[[Row], None]) -> list[Row]:
    """Time every binding; `saw` is called with each row as soon as it is there."""
    from ..search.bench.measure import measure
    from ..search.child import Child

    rows: list[Row] = []
    with Child(compilation.runtime.environment(compilation.target)) as child:
        for sizes, scalars in bindings:
            with stage(f"timing {compilation.name}", quiet=options["as_json"]):
                row = measure(made, sizes, scalars, child)
            rows.append(row)
            saw(row)
    return rows


def picture(rows: list[Row], head: dict[str, Any]) -> str:
    from ..search.bench.chart import Bar, chart
    from ..search.bench.measure import show

    bars = [Bar(f"{row.composite} {show(row.sizes)}", row.ratio, row.best_peer or "", row.tie) for row in rows if row.ratio]
    return chart("luminal beside its peers", f"{head.get('threads', 1)} threads, {head.get('target', '').partition(' (')[0]}", bars)


def machine(compilation: Compilation, made: Bench) -> dict[str, Any]:
    return {"runtime": compilation.runtime.name, "target": compilation.target.describe, "threads": made.threads}
