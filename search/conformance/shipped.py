"""The reports that come with luminal's own runtimes: REPORT.md and REPORT.json in the folder of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ... import runtimes
from .report import Report, from_json

FOLDER = Path(runtimes.__file__).parent


@cache
def shipped() -> Mapping[str, Report]:
    """Runtime → its report, for those that have one."""
    found = sorted(p for p in FOLDER.glob("*/REPORT.json"))
    return {p.parent.name: from_json(json.loads(p.read_text(encoding="utf-8"))) for p in found}


def standing(name: str) -> dict[str, dict[str, list[str]]]:
    """Runtime → status → dtypes, of the library composite with this name; a runtime whose report does not know it is left out."""
    result: dict[str, dict[str, list[str]]] = {}
    for runtime, report in shipped().items():
        for row in report.rows:
            if row.name == name and row.kind == "composite":
                result.setdefault(runtime, {}).setdefault(row.status, []).append(row.dtype)
    return result


__all__ = ["shipped", "standing"]
