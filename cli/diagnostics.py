"""Diagnostics on their way out: text on standard error, or objects in a JSON report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ..ir.errors import Diagnostic, LuminalError, SourceError


def show(diagnostics: Iterable[Diagnostic], color: bool) -> None:
    """Each once, on standard error, with its line and caret."""
    found = list(dict.fromkeys(diagnostics))
    if found:
        from .. import dsl

        click.echo(dsl.render_diagnostics(found, color=color), err=True, color=color)  # click would take colours out of what goes to a file


def as_objects(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """The `diagnostics` of a JSON report; line and column count from 1, 0 where there is no place."""
    return [
        {"code": d.code, "severity": d.severity, "message": d.message, "file": d.span.file, "line": d.span.line, "column": d.span.column,
         "length": d.span.length, "notes": list(d.notes)}
        for d in dict.fromkeys(diagnostics)
    ]  # fmt: skip


def as_object(error: LuminalError) -> dict[str, Any]:
    """What a JSON report says of an error."""
    if isinstance(error, SourceError):
        return {"diagnostics": as_objects(error.diagnostics)}
    return {"error": str(error), "kind": type(error).__name__}


def wants_color(choice: str) -> bool:
    """Of `--color always|never|auto`; NO_COLOR and a stream that is no terminal mean never."""
    if choice in ("always", "never"):
        return choice == "always"
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def color_among(arguments: Sequence[str]) -> str:
    """The value of `--color` in a command line that could not be parsed to its end."""
    for k, word in enumerate(arguments):
        if word.startswith("--color="):
            return word.partition("=")[2]
        if word == "--color" and k + 1 < len(arguments):
            return arguments[k + 1]
    return "auto"
