"""`luminal check`: diagnostics only."""

from __future__ import annotations

import sys
from json import dumps
from typing import TYPE_CHECKING

import click

from ..compiler import Compilation, Settings, entries, open_input
from ..ir.errors import Diagnostic, LuminalError, SourceError
from . import diagnostics

if TYPE_CHECKING:
    from ..dsl.ast import Composite


@click.command("check")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--entry", metavar="NAME", help="Only this composite of each file; else all of them.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Of diagnostics.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def check(inputs: tuple[str, ...], entry: str | None, include: tuple[str, ...], color: str, as_json: bool) -> int:
    """Report what is wrong with composites and intermediate files, and make nothing.

    Type variables are f32 and sizes free, as in a plain compile.  A composite whose parameters have no defaults is checked where another one calls it.

    \b
    Examples:
      luminal check samples/gemm.toml samples/softmax.toml
      luminal check --json samples/gemm.toml
    """
    settings = Settings(runtime="reference", include=include, entry=entry or "all")
    found: list[Diagnostic] = []
    problems: list[LuminalError] = []
    checked = 0
    for input_ in inputs:
        try:
            unit = open_input(input_, settings, sys.stdin.read)
            for composite in entries(unit, settings):
                if is_complete(composite):
                    checked += 1
                    compilation = Compilation(unit, composite, settings)
                    with_errors(compilation, found)
        except SourceError as error:
            found += error.diagnostics
        except LuminalError as error:
            problems.append(error)
    found = list(dict.fromkeys(found))
    wrong = any(d.severity == "error" for d in found)
    if as_json:
        report = {
            "ok": not wrong and not problems,
            "checked": checked,
            "diagnostics": diagnostics.as_objects(found),
            "errors": [str(e) for e in problems],
        }
        click.echo(dumps(report))
    else:
        diagnostics.show(found, diagnostics.wants_color(color))
        for problem in problems:
            click.echo(f"luminal: error: {problem}", err=True)
    return max([int(wrong), *(e.exit_status for e in problems)])


def with_errors(compilation: Compilation, found: list[Diagnostic]) -> None:
    """Elaborate; errors and warnings are added to `found`."""
    try:
        if compilation.composite is not None:
            compilation.elaborate()
    except SourceError as error:
        found += error.diagnostics
    found += compilation.warnings


def is_complete(composite: Composite | None) -> bool:
    """Whether an input can be elaborated by itself."""
    return composite is None or not any(p.required for p in composite.parameters)
