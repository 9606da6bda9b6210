"""`luminal tune`: the search of -O3 with its budget and its candidates in view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..compiler import Compilation, Settings, compilations
from ..ir.errors import Diagnostic, LuminalError, UsageError
from ..ir.layout import dense, strides_of
from . import diagnostics
from .answer import answer, failure
from .parse import parse_bindings, parse_config, parse_pairs, parse_value
from .progress import stage
from .streams import standard_input
from .testing import check

if TYPE_CHECKING:
    from ..search.tuning.climb import Trial
    from ..tuning import Tuned

SHOWN = 20  # rows of the table: the fastest


@click.command("tune")
@click.argument("inputs", nargs=-1, metavar="INPUT...", required=True)
@click.option(
    "--sizes",
    multiple=True,
    metavar='"M=100, N=100"',
    help="Sizes and scalars to tune for; repeatable.  Default: the composite's own, or moderate ones.",
)
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, metavar="S", help="Seconds of each search.")
@click.option("-r", "--runtime", default="clang", metavar="NAME|DIR", help="clang, an installed one, or a folder.")
@click.option("--target", metavar="NAME", help="Which machine of the runtime; default: this one.")
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE,...", help="The runtime's own settings.")
@click.option("-D", "defines", multiple=True, metavar="M=64", help="Fix a size, or set a parameter, at compile time.")
@click.option("--dtype", "dtypes", multiple=True, metavar="T=f16", help="Bind a type variable.")
@click.option("--without", multiple=True, metavar="B", help="Compile for this optional port being absent.")
@click.option("--strict", is_flag=True, help="No reassociation of float reductions.")
@click.option("--fast", is_flag=True, help="Admit what is less accurate.")
@click.option("--unchecked", is_flag=True, help="Leave out the run-time index checks.")
@click.option("--entry", metavar="NAME|all", help="Which composite of a file.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def tune(inputs: tuple[str, ...], **options: Any) -> int:
    """Search for the fastest kernel and record it; `compile -O3` for the same target then takes the record.

    Every candidate is checked against the reference before it is timed.  The table has its time, how much faster than the automatic schedule it was beside it, and what
    it does otherwise than the best before it.

    \b
    Examples:
      luminal tune samples/gemm.toml --sizes "M=200, N=300, K=150" --budget 20
      luminal tune softmax --target x86-64-v3
    """
    rows: list[dict[str, Any]] = []
    warnings: list[Diagnostic] = []
    ended: dict[str, Any] = {}
    status = 0
    for input_ in inputs:
        try:
            for text in options["sizes"] or ("",):
                for compilation in compilations(input_, settings_of(options, text), standard_input):
                    if text:
                        checked(compilation, text)
                    with stage(f"searching {compilation.name}", quiet=options["as_json"]) as say:
                        found = searched(compilation, say)
                    if found.warning:
                        click.echo(f"luminal: warning: {found.warning}", err=True)
                        status = 4
                    warnings += compilation.warnings
                    rows.append(as_row(compilation, found))
                    if not options["as_json"]:
                        for line in table(compilation, found):
                            click.echo(line)
        except LuminalError as error:
            if not options["as_json"]:
                raise
            ended, status = failure(error), error.exit_status  # beside what was done before
            break
    if options["as_json"]:
        facts = {"results": rows, "diagnostics": diagnostics.as_objects(warnings)}
        click.echo(answer(**facts | ended | {"ok": status == 0}))
    return status


def settings_of(options: dict[str, Any], sizes: str) -> Settings:
    return Settings(
        runtime=options["runtime"], target=options["target"], config=parse_config(options["config"]), O=3, strict=options["strict"], fast=options["fast"],
        unchecked=options["unchecked"], sizes=parse_pairs(options["defines"], "-D", parse_value), dtype=parse_pairs(options["dtypes"], "--dtype", str),
        include=options["include"], without=options["without"], entry=options["entry"], portable=False, at=parse_bindings(sizes, "--sizes") if sizes else {},
        budget=options["budget"],
    )  # fmt: skip


def checked(compilation: Compilation, text: str) -> None:
    """UsageError for sizes that the composite does not have or does not admit."""
    graph = compilation.elaborate()
    given = parse_bindings(text, "--sizes")
    names = [s.name for s in graph.sizes]
    known = [*names, *(p.name for p in graph.ports if p.role == "scalar")]
    for n in given:
        if n not in known:
            raise UsageError(f"--sizes: {graph.name} has no size or scalar {n}; it has {', '.join(known) or 'none'}")
    missing = [n for n in names if n not in given and n not in strides_of(graph.ports)]
    if missing:
        raise UsageError(f"--sizes: {graph.name} also needs {', '.join(missing)}")
    whole = dense(graph.ports, {n: int(v) for n, v in given.items() if n in names})
    check(compilation, {n: whole[n] for n in names}, "--sizes")


def searched(compilation: Compilation, say: Any) -> Tuned:
    from ..tuning import tuned

    name = compilation.name
    return tuned(compilation, lambda tried, known, gain: say(f"searching {name}: {tried} candidates, best {gain:.2f} of the default"), anew=True)


def as_row(compilation: Compilation, found: Tuned) -> dict[str, Any]:
    row: dict[str, Any] = {"composite": compilation.name, "runtime": compilation.runtime.name, "target": compilation.target.describe}
    if found.warning:
        row["warning"] = found.warning
    if found.record is not None and found.found is not None:
        r, f = found.record, found.found
        row |= {
            "sizes": r.sizes,
            "default": r.is_default,
            "ratio": r.ratio,
            "noise": r.noise,
            "default_s": f.default_seconds,
            "seconds": r.seconds,
            "script": r.script,
        }
        row["left_out"] = list(r.left_out)
        row["candidates"] = [
            {
                "what": t.candidate.what,
                "status": t.measured.status,
                "detail": t.measured.detail,
                "time_s": min(t.measured.minima, default=None),
                "gain": t.gain,
            }
            for t in f.trials
        ]
    return row


def table(compilation: Compilation, found: Tuned) -> list[str]:
    """The candidates, fastest first and what failed last, and what is kept."""
    if found.record is None or found.found is None:
        return []
    from ..tuning import at_sizes

    f = found.found
    lines = [
        f"{compilation.name}{at_sizes(found.record.sizes)}, {compilation.runtime.name} for {compilation.target.describe}",
        f"{'time':>10}  {'gain':>5}  {'model':>5}  candidate",
    ]
    ranked = sorted(f.trials, key=lambda t: -t.gain)
    lines += [line(t, f.default.cost) for t in ranked[:SHOWN]]
    if len(ranked) > SHOWN:
        lines.append(f"{'':>10}  {'':>5}  {'':>5}  … and {len(ranked) - SHOWN} slower ones")
    return [*lines, found.summary]


def line(t: Trial, default: float) -> str:
    """`model` is the candidate's cost by the model, in units of the default's."""
    model = f"{t.candidate.cost / default:.2f}" if default else ""
    if t.measured.status != "pass":
        return f"{t.measured.status:>10}  {'':>5}  {model:>5}  {t.candidate.what}: {t.measured.detail}"
    return f"{min(t.measured.minima) * 1e6:7.1f} µs  {t.gain:5.2f}  {model:>5}  {t.candidate.what}"
