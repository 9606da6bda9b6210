"""What the compile cache holds, and emptying it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ..runtimes.keep import ROOMS
from ..runtimes.keep import folder as room_folder
from .cache import cache_folder


@dataclass(frozen=True, slots=True)
class Contents:
    folder: Path
    products: int
    notes: int  # small files beside them, see `runtimes/keep.py`
    bytes: int  # of everything
    unfinished: int  # folders that a killed process left, or that one is filling now


def contents() -> Contents:
    """A folder that is not there is empty."""
    folder = cache_folder()
    found, notes = _inside(folder), _notes()
    size = sum(_size(p) for p in (*(q for entry in found for q in ([entry] if entry.is_file() else entry.rglob("*"))), *notes))
    return Contents(folder, len([p for p in found if _is_entry(p)]), len(notes), size, len([p for p in found if p.suffix == ".making"]))


def clear() -> tuple[int, int]:
    """Remove every product that no process is making, and all notes.  Gives how many products were removed, and how many were left because they are in use."""
    from filelock import FileLock, Timeout

    removed = busy = 0
    folder = cache_folder()
    for note in _notes():
        note.unlink(missing_ok=True)
    keys = sorted({p.name.lstrip(".").partition(".")[0] for p in folder.iterdir()}) if folder.is_dir() else []
    for key in keys:
        lock = folder / f".{key}.lock"
        try:
            with FileLock(lock, timeout=0):
                removed += (folder / key).is_dir()
                for path in (folder / key, *folder.glob(f".{key}.*.making")):
                    shutil.rmtree(path, ignore_errors=True)
                lock.unlink(missing_ok=True)
        except Timeout:
            busy += 1
    return removed, busy


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _notes() -> list[Path]:
    return [p for room in ROOMS for p in _inside(room_folder(room))]


def _is_entry(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # removed by another process meanwhile
        return 0


__all__ = ["Contents", "clear", "contents"]
