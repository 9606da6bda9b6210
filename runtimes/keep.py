"""Small files kept beside the compile cache: what would be found out again, or made again, by every process.

A room is a folder of such files. Each begins with the sha256 of its data and is named by the sha256 of what decides it; it is written whole or not at all, and one that
is damaged counts as none. Where the folder cannot be written nothing is kept. A room that grows past its bound loses what was not used for longest.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

ROOMS = ("compilations", "probes", "templates", "units")
BOUND = 256 << 20  # bytes of one room
MOST = 2048  # files of one room
DIGEST = 32  # bytes of a sha256


def folder(room: str) -> Path:
    """Where a room is: in the user's cache folder, or in $XDG_CACHE_HOME/luminal where that is set."""
    from platformdirs import user_cache_path

    return user_cache_path("luminal", appauthor=False) / room


def kept(room: str, key: str) -> bytes | None:
    """What was kept under a key; None where that is nothing, or is damaged."""
    place = folder(room) / _name(key)
    try:
        found = place.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # a cache that is only read
        os.utime(place)
    return found[DIGEST:] if sha256(found[DIGEST:]).digest() == found[:DIGEST] else None


def keep(room: str, key: str, data: bytes) -> None:
    """In the place of what was kept under the key before; others may be reading."""
    home = folder(room)
    if not home.is_absolute():  # a user without a home folder
        return
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        _write(home, _name(key), sha256(data).digest() + data)
        _shorten(home)


def _write(home: Path, name: str, data: bytes) -> None:
    handle, unfinished = tempfile.mkstemp(dir=home, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(unfinished, home / name)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def _shorten(home: Path) -> None:
    """Down to half of what a room may hold, where it holds more."""
    with os.scandir(home) as entries:
        found = [(s.st_mtime_ns, s.st_size, e.path) for e in entries if (s := e.stat())]
    if len(found) <= MOST and sum(size for _, size, _ in found) <= BOUND:
        return
    count, total = 0, 0
    for _, size, path in sorted(found, reverse=True):
        count, total = count + 1, total + size
        if count > MOST // 2 or total > BOUND // 2:
            with suppress(OSError):
                os.unlink(path)


def _name(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


__all__ = ["ROOMS", "folder", "keep", "kept"]
