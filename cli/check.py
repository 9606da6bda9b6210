"""`luminal check`: diagnostics only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..compiler import LEVELS, Compilation, Settings, entries, open_input
from ..ir.errors import Diagnostic, LuminalError, SourceError, UsageError
from . import diagnostics
from .answer import answer
from .streams import standard_input

if TYPE_CHECKING:
    from ..dsl.ast import Composite

SUFFIXES = ("toml", "lisp", *LEVELS)


@click.command("check")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--entry", metavar="NAME", help="Only this composite of each file; else all of them.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Of diagnostics.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def check(inputs: tuple[str, ...], entry: str | None, include: tuple[str, ...], color: str, as_json: bool) -> int:
    """Report what is wrong with composites and intermediate files, and make nothing.  An INPUT may also be a folder.

    Type variables are f32 and sizes free, as in a plain compile.  A composite whose parameters have no defaults is checked where another one calls it.

    \b
    Examples:
      luminal check samples/gemm.toml samples/softmax.toml
      luminal check --json samples
    """
    settings = Settings(runtime="reference", include=include, entry=entry or "all")
    found: list[Diagnostic] = []
    problems: list[LuminalError] = []
    checked = 0
    files: list[str] = []
    for input_ in inputs:
        try:
            files += files_of(input_)
        except UsageError as error:
            problems.append(error)
    for file in files:
        here: list[Diagnostic] = []
        try:
            unit = open_input(file, settings, standard_input)
            for composite in entries(unit, settings):
                if is_complete(composite):
                    checked += 1
                    compilation = Compilation(unit, composite, settings)
                    with_errors(compilation, here)
        except SourceError as error:
            here += error.diagnostics
        except LuminalError as error:
            problems.append(error)
        fresh = [d for d in dict.fromkeys(here) if d not in found]
        found += fresh
        if not as_json:
            diagnostics.show(fresh, diagnostics.wants_color(color))
    wrong = any(d.severity == "error" for d in found)
    if as_json:
        report = {
            "ok": not wrong and not problems,
            "checked": checked,
            "diagnostics": diagnostics.as_objects(found),
            "errors": [str(e) for e in problems],
        }
        click.echo(answer(**report))
    else:
        for problem in problems:
            click.echo(f"luminal: error: {problem}", err=True)
        if len(files) > 1:
            click.echo(summary(len(files), checked, found, len(problems)))
    return max([int(wrong), *(e.exit_status for e in problems)])


def files_of(input_: str) -> list[str]:
    """The input itself; of a folder every file below it that its suffix says to be one of ours, in order.  UsageError where there is none."""
    folder = Path(input_)
    if not folder.is_dir():
        return [input_]
    files = sorted(str(p) for p in folder.rglob("*") if p.suffix[1:] in SUFFIXES and p.is_file())
    if not files:
        raise UsageError(f"{input_}: no file below it ends in {', '.join(f'.{s}' for s in SUFFIXES)}")
    return files


def summary(files: int, checked: int, found: list[Diagnostic], problems: int) -> str:
    """`3 files, 4 composites: 2 errors, 1 warning in 2 files`"""
    errors = sum(d.severity == "error" for d in found) + problems
    counts = [counted(n, what) for n, what in ((errors, "error"), (len(found) + problems - errors, "warning")) if n]
    where = f" in {counted(len({d.span.file for d in found}) + problems, 'file')}" if counts else ""
    return f"{counted(files, 'file')}, {counted(checked, 'composite')}: {', '.join(counts) or 'nothing to say'}{where}"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def with_errors(compilation: Compilation, found: list[Diagnostic]) -> None:
    """Elaborate, also the second opinion of a test; errors and warnings are added to `found`."""
    try:
        if compilation.composite is not None:
            compilation.elaborate()
            compilation.opinion()
    except SourceError as error:
        found += error.diagnostics
    found += compilation.warnings


def is_complete(composite: Composite | None) -> bool:
    """Whether an input can be elaborated by itself."""
    return composite is None or not any(p.required for p in composite.parameters)
