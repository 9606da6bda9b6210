"""What `--json` prints: one object, with `ok`, `results` and `diagnostics` whatever the command and however it ended."""

from __future__ import annotations

from json import dumps
from typing import Any

import click

from ..ir.errors import LuminalError
from . import diagnostics


def answer(**facts: Any) -> str:
    """The object as text; what a command does not say is empty."""
    return dumps({"ok": True, **facts, "results": facts.get("results", []), "diagnostics": facts.get("diagnostics", [])})


def failure(error: LuminalError | click.ClickException | str) -> dict[str, Any]:
    """What it says of a command that ended so."""
    if isinstance(error, LuminalError):
        return {"ok": False, **diagnostics.as_object(error)}
    if isinstance(error, str):
        return {"ok": False, "error": error, "kind": "Interrupted"}
    return {"ok": False, "error": error.format_message(), "kind": "UsageError"}
