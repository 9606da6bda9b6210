"""The rooms of the cache folder, and the one policy that bounds them all.

A room that holds more than its bound loses what was not used for longest, down to half of the bound.  Nothing goes that was used within the last hour: a process may have been told where it is
and not have opened it yet.  For that reason a room is looked at once an hour, by whoever keeps something in it: a file beside the room says when that was.  Several processes may do so at once: what one of them has removed already is no
concern of the others, and who looks for what is gone makes it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Bound(NamedTuple):
    bytes: int
    entries: int


class Entry(NamedTuple):
    used: float  # when, in seconds since the epoch
    size: int  # in bytes
    name: str


ROOMS = {
    "kernels": Bound(2 << 30, 8192),
    "compilations": Bound(256 << 20, 2048),
    "probes": Bound(256 << 20, 2048),
    "templates": Bound(256 << 20, 2048),
    "units": Bound(256 << 20, 2048),
    "tuning": Bound(256 << 20, 16384),
    "test-runtime": Bound(256 << 20, 64),
}
YOUNG = 3600.0  # seconds


def folder(room: str) -> Path:
    """Where a room is: in the user's cache folder, or in $XDG_CACHE_HOME/luminal where that is set."""
    return _home(os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")) / room


@cache
def _home(cache_home: str | None, home: str | None) -> Path:
    """Looked for once, as long as the environment says the same: each template asks."""
    from platformdirs import user_cache_path

    return user_cache_path("luminal", appauthor=False)


def due(room: str) -> bool:
    """Whether nobody has looked at the room within the last hour; from now on somebody has."""
    mark = folder(room).parent / f".{room}"
    try:
        if 0 <= time.time() - mark.stat().st_mtime < YOUNG:
            return False
    except FileNotFoundError:
        pass
    mark.touch()
    return True


def surplus(room: str, entries: Iterable[Entry]) -> list[str]:
    """The names of those that are to go."""
    found, bound, old = sorted(entries, reverse=True), ROOMS[room], time.time() - YOUNG
    if len(found) <= bound.entries and sum(e.size for e in found) <= bound.bytes:
        return []
    names, total = [], 0
    for count, e in enumerate(found, 1):
        total += e.size
        if (count > bound.entries // 2 or total > bound.bytes // 2) and e.used <= old:
            names.append(e.name)
    return names


def shorten(room: str) -> None:
    """A room of files: down to its bound, where that is due."""
    with suppress(OSError):
        if due(room):
            with os.scandir(folder(room)) as files:
                found = [Entry(s.st_mtime, s.st_size, f.path) for f in files if (s := f.stat())]
            for path in surplus(room, found):
                with suppress(OSError):
                    os.unlink(path)


def touch(path: Path) -> None:
    """Somebody uses this entry now."""
    with suppress(OSError):  # a cache that is only read
        os.utime(path)


__all__ = ["ROOMS", "Bound", "Entry", "due", "folder", "shorten", "surplus", "touch"]
