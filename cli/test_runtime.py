"""`luminal test-runtime`: every operator and library composite on a runtime, with a report."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..ir.errors import UsageError
from .answer import answer
from .parse import parse_config

if TYPE_CHECKING:
    from ..search.conformance.report import Report
    from ..search.conformance.survey import Progress


@click.command("test-runtime")
@click.option("-r", "--runtime", default="clang", metavar="NAME|DIR", help="clang, cuda, reference, an installed one, or a folder.")
@click.option("--target", metavar="NAME", help="Which machine of the runtime; native where it is not named.")
@click.option("--ops", "globs", multiple=True, metavar="GLOB", help="Only primops, operators, composites or families of these names; repeatable.")
@click.option("--kind", type=click.Choice(("primop", "derived", "composite")), help="Only these: some names are an operator's and a composite's.")
@click.option("--dtype", "dtypes", multiple=True, metavar="D", help="Only this dtype; repeatable.")
@click.option("--quick", is_flag=True, help="Two dtypes, two layouts, fewer and smaller sizes.")
@click.option("-j", "processes", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="How many processes.")
@click.option("-o", "output", metavar="REPORT.md", help="Write the report there, and its JSON twin beside it; else the report goes to stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
@click.option("--resume", is_flag=True, help="Go on with a run that was interrupted.")
@click.option("--case", "case", metavar="TEXT", help="This case only, as a report names it; --ops and --dtype say of what.")
@click.option("-c", "--config", "config", multiple=True, metavar="KEY=VALUE,...", help="The runtime's own settings.")
@click.option("--device", metavar="cuda:N|host", help="Run there.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=20.0, show_default=True, metavar="S", help="Bound on each case.")
@click.option(
    "--mem-limit", type=click.IntRange(1), default=4096, show_default=True, metavar="MB", help="Bound on the memory of each worker and compiler."
)
def test_runtime(**options: Any) -> int:
    """Test a runtime: every primop, derived operator and library composite × dtype × size × layout, each in a worker process, against the reference.

    Status 0 only when nothing that the runtime claims to support fails, 3 otherwise.

    \b
    Examples:
      luminal test-runtime --quick -j 2
      luminal test-runtime --runtime ./mine --ops 'soft*' --dtype f32
      luminal test-runtime --runtime cuda -o REPORT.md --resume
    """
    from ..ir.dtypes import dtype
    from ..runtimes import find
    from ..search.conformance.kernels import of_case
    from ..search.conformance.report import report
    from ..search.conformance.survey import chosen, journal_of, survey, units
    from ..search.conformance.unit import Settings

    names = []
    for text in options["dtypes"]:
        d = dtype(text)
        if d is None or d.lanes != 1:
            raise UsageError(f"--dtype {text}: there is no dtype of this name")
        names.append(d.name)
    output = None if options["output"] is None else Path(options["output"])
    if output is not None and output.suffix != ".md":
        raise UsageError(f"-o {output}: a report is Markdown, its name ends in .md; the JSON twin stands beside it")
    settings = Settings(
        options["runtime"], options["target"], parse_config(options["config"]), options["quick"], options["timeout"], mem_limit=options["mem_limit"],
        device=options["device"], case=options["case"] or "",
    )  # fmt: skip
    runtime = find(settings.runtime)
    target = runtime.target(settings.target, settings.config, False)
    subjects = [s for s in chosen(options["globs"]) if options["kind"] in (None, s.kind)]
    if not subjects:
        raise UsageError(f"--kind {options['kind']}: there is no such {' '.join(options['globs'])}")
    work = units(subjects, names, settings.quick)
    if settings.case:
        work = [[spec] for spec in of_case([spec for unit in work for spec in unit], settings.case)]
    began = time.monotonic()
    journal = None if settings.case else journal_of(output, work, settings)
    line = Line(quiet=options["as_json"])
    try:
        tallies = survey(work, settings, options["processes"], journal, options["resume"], line)
    except KeyboardInterrupt:
        line.clear()
        if journal is not None:
            click.echo("interrupted: what is done is kept, and the same command with --resume goes on", err=True)
        raise
    finally:
        line.clear()
    if settings.case:
        tallies = [t for t in tallies if t.cases or t.status not in ("passes", "dtype")]
    if settings.case and not tallies:
        raise UsageError(f"--case {settings.case}: there is no such case of {' '.join(options['globs']) or 'anything'}")
    found = report(runtime, target, settings, command(options), tallies, time.monotonic() - began)
    show(found, output, options)
    if journal is not None:
        journal.unlink(missing_ok=True)
    return 0 if found.ok else 3


def command(options: dict[str, Any]) -> str:
    """The command as it could be typed, without where its results went."""
    import shlex

    words = ["luminal", "test-runtime", "--runtime", options["runtime"]]
    for name, key in (("--target", "target"), ("--device", "device"), ("--kind", "kind"), ("--case", "case")):
        words += [name, options[key]] if options[key] else []
    for name, key in (("--ops", "globs"), ("--dtype", "dtypes"), ("--config", "config")):
        words += [w for value in options[key] for w in (name, value)]
    words += ["--quick"] if options["quick"] else []
    return shlex.join([*words, *(["-j", str(options["processes"])] if options["processes"] > 1 else [])])


def show(found: Report, output: Path | None, options: dict[str, Any]) -> None:
    from ..artifacts.write import write_text
    from ..search.conformance.markdown import markdown

    if output is not None:
        write_text(output, markdown(found))
        write_text(output.with_suffix(".json"), as_lines(found))
    if options["as_json"]:
        table = found.as_json()
        click.echo(answer(**table, results=table["rows"]))
    elif output is None:
        click.echo(markdown(found), nl=False)
    else:
        counts = found.summary()
        click.echo(f"wrote {output}: " + ", ".join(f"{n} {status}" for status, n in counts.items() if n) + f"; {found.seconds:g} s")
        for row in (r for r in found.rows if r.command):
            click.echo(f"{row.name} {row.dtype}: {row.status}\n  {row.command}")


def as_lines(found: Report) -> str:
    """JSON with a row a line, so that two reports can be compared."""
    table = found.as_json()
    rows = ",\n".join(json.dumps(r, ensure_ascii=False) for r in table.pop("rows"))
    head = json.dumps(table, indent=1, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n "rows": [\n{rows}\n]}}\n'


class Line:
    """A line on a terminal that is written over; nothing where stderr is no terminal."""

    def __init__(self, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self.width = os.get_terminal_size(sys.stderr.fileno()).columns if self.shown else 0

    def __call__(self, p: Progress) -> None:
        if self.shown:
            text = f"{p.done} of {p.units} units, {p.cases} cases" + (f", {p.failed} kernels fail" if p.failed else "")
            sys.stderr.write(f"\r\x1b[K{text[: self.width - 1]}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
