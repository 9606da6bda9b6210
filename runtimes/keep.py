"""Small files kept beside the compile cache: what would be found out again, or made again, by every process.

A room (`rooms.py`) is a folder of such files. Each begins with the sha256 of its data and is named by the sha256 of what decides it; it is written whole or not at all, and one that
is damaged counts as none. Where the folder cannot be written nothing is kept.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .rooms import folder, shorten, touch

NOTES = ("compilations", "probes", "templates", "units")  # the rooms of such files
DIGEST = 32  # bytes of a sha256


def kept(room: str, key: str) -> bytes | None:
    """What was kept under a key; None where that is nothing, or is damaged."""
    place = folder(room) / _name(key)
    try:
        found = place.read_bytes()
    except OSError:
        return None
    touch(place)
    return found[DIGEST:] if sha256(found[DIGEST:]).digest() == found[:DIGEST] else None


def keep(room: str, key: str, data: bytes) -> None:
    """In the place of what was kept under the key before; others may be reading."""
    home = folder(room)
    if not home.is_absolute():  # a user without a home folder
        return
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        _write(home, _name(key), sha256(data).digest() + data)
        shorten(room)


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


def _name(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


__all__ = ["NOTES", "keep", "kept"]
