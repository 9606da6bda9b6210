"""Tuning records: what a search has found, one small JSON file each, in the cache folder beside the kernels.

A record is found again by the content of the composite (its graph before any pass: dtypes, parameters and fixed sizes are in it), the options that change its meaning, the class of its
sizes, the resolved target, the C compiler, and luminal's version.  A file is written whole or not at all; one that cannot be read counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ...artifacts.write import write_text
from ...ir.errors import UsageError
from ...ir.version import VERSION
from ...runtimes import rooms
from ..cache import key_of

FORMAT = 1
ROOM = "tuning"


@dataclass(frozen=True)
class Record:
    """`script` is what a `[schedule]` of the composite would hold ("" where the automatic schedule stays); `left_out` the optional passes that are not run."""

    key: str
    composite: str
    runtime: str
    target: str  # resolved and spelled out
    compiler: str
    classes: dict[str, tuple[int, int]]  # size -> the least and the largest for which it was found
    sizes: dict[str, int]  # at which it was timed
    script: str = ""
    left_out: tuple[str, ...] = ()
    ratio: float = 1.0  # time of the default over that of the winner
    noise: float = 0.0
    candidates: int = 0
    seconds: float = 0.0
    version: str = VERSION
    format: int = FORMAT

    @property
    def is_default(self) -> bool:
        return not self.script and not self.left_out


def key(graph: str, options: str, classes: Mapping[str, tuple[int, int]], target: str, compiler: str) -> str:
    """The name of a record."""
    return key_of(("tuning", str(FORMAT), graph, options, json.dumps(classes, sort_keys=True), target, compiler))


def folder() -> Path:
    return rooms.folder(ROOM)


def find(name: str) -> Record | None:
    """The record of this key; None where there is none that can be read."""
    path = folder() / f"{name}.json"
    record = _read(path, name)
    if record is not None:
        rooms.touch(path)
    return record


def keep(record: Record) -> bool:
    """Whether it could be written."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        write_text(folder() / f"{record.key}.json", text(record))
        rooms.shorten(ROOM)
    except (OSError, UsageError):  # a folder that is somebody else's: the result is used all the same
        return False
    return True


def records() -> list[Record]:
    """All that can be read, by composite and sizes."""
    found = [_read(path, path.stem) for path in sorted(folder().glob("*.json"))] if folder().is_dir() else []
    return sorted((r for r in found if r is not None), key=lambda r: (r.composite, sorted(r.sizes.items()), r.key))


def clear() -> int:
    """Remove them all: how many there were."""
    paths = sorted(folder().glob("*.json")) if folder().is_dir() else []
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def text(record: Record) -> str:
    return json.dumps(asdict(record), indent=1, sort_keys=True) + "\n"


def exported() -> str:
    """All records as one JSON document."""
    return json.dumps({"format": FORMAT, "records": [asdict(r) for r in records()]}, indent=1, sort_keys=True) + "\n"


def imported(document: str, name: str) -> list[Record]:
    """Keep the records of an exported document, all or (UsageError) none."""
    try:
        found = [parsed(entry) for entry in json.loads(document)["records"]]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{name}: no exported tuning records ({error})") from None
    for record in found:
        if not keep(record):
            raise UsageError(f"{folder()}: cannot be written")
    return found


def parsed(entry: Any) -> Record:
    """A record from JSON.  ValueError, TypeError or KeyError where it is none."""
    if not isinstance(entry, dict) or entry.get("format") != FORMAT:
        raise ValueError("another format")
    values = {f.name: entry[f.name] for f in fields(Record)}
    if not isinstance(values["key"], str) or not values["key"].isalnum() or not isinstance(values["script"], str):
        raise ValueError("a key or a script that is none")
    values["left_out"] = tuple(map(str, values["left_out"]))
    values["classes"] = {str(n): (int(low), int(high)) for n, (low, high) in values["classes"].items()}
    values["sizes"] = {str(n): int(v) for n, v in values["sizes"].items()}
    return Record(**values)


def _read(path: Path, name: str) -> Record | None:
    try:
        record = parsed(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return record if record.key == name and record.version == VERSION else None


__all__ = ["FORMAT", "Record", "clear", "exported", "find", "folder", "imported", "keep", "key", "records"]
