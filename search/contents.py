"""What the compile cache holds, and emptying it."""

from __future__ import annotations

from pathlib import Path

from ..ir.record import record
from ..runtimes import rooms
from ..runtimes.keep import NOTES
from .cache import cache_folder, remove


@record
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
    removed = busy = 0
    folder = cache_folder()
    for note in _notes():
        note.unlink(missing_ok=True)
    keys = sorted({p.name.lstrip(".").partition(".")[0] for p in _inside(folder)})
    for key in keys:
        there = (folder / key).is_dir()
        if remove(folder, key):
            removed += there
        else:
            busy += 1
    return removed, busy


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _notes() -> list[Path]:
    return [p for room in NOTES for p in _inside(rooms.folder(room))]


def _is_entry(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # removed by another process meanwhile
        return 0


__all__ = ["Contents", "clear", "contents"]
