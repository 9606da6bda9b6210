"""`luminal check`: diagnostics only."""

from __future__ import annotations

import sys

import click

from ..compiler import Compilation, Settings, open_input
from ..ir.errors import SourceError


@click.command("check")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Of diagnostics.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def check(inputs: tuple[str, ...], include: tuple[str, ...], color: str, as_json: bool) -> int:
    """Report what is wrong with composites, and make nothing.

    \b
    Example:
      luminal check samples/*.toml
    """
    found: list[SourceError] = []
    for input_ in inputs:
        settings = Settings(runtime="reference", include=include)
        try:
            unit = open_input(input_, settings, sys.stdin.read)
        except SourceError as error:
            found.append(error)
            continue
        for composite in unit.composites:
            try:
                Compilation(unit, composite, settings).elaborate()
            except SourceError as error:
                found.append(error)
    diagnostics = [d for error in found for d in error.diagnostics]
    if as_json:
        from json import dumps

        from .main import as_json as to_json

        click.echo(dumps({"ok": not diagnostics, **to_json(SourceError(diagnostics))}))
    elif diagnostics:
        from .main import report

        report(SourceError(diagnostics), ["--color", color])
    return 1 if diagnostics else 0
