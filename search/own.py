"""luminal's own files as part of a key: whoever changes a pass, a template or a composite of the library compiles anew.

Beside them stand the version of Python and the installed packages by their versions.  Where a file has changed since this process began to load luminal, nobody can say which text it runs:
then nothing is known, and nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from ..ir.version import LOADED

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("artifacts", "dsl", "ir", "ops", "passes", "runtimes", "search")  # and the files beside them
_READ = frozenset({".py", ".toml", ".j2", ".lark", ".h", ".cuh", ".c"})
_SETTLED = 0.1  # seconds after which a file that is written again has another time


@cache
def compiler() -> str | None:
    """The sha256 of what compiles; None where that is not known."""
    digest = digest_of(ours())
    return None if digest is None else hashlib.sha256("\n".join([digest, sys.version, *_packages()]).encode()).hexdigest()


@cache
def runtime(folders: tuple[Path, ...]) -> str | None:
    """The sha256 of the folders of a runtime that are not ours, whatever is in them; None where that is not known."""
    return digest_of([p for folder in folders if ROOT not in folder.parents for p in _files(folder, None)])


def look_again() -> None:
    """Before something is kept: what has changed meanwhile shall not be taken for what was read."""
    compiler.cache_clear()
    runtime.cache_clear()


def ours(root: Path = ROOT) -> list[str]:
    """The files that decide what a composite becomes."""
    beside = [e.path for e in os.scandir(root) if e.is_file() and os.path.splitext(e.name)[1] in _READ]
    return beside + [p for room in ROOMS for p in _files(root / room, _READ)]


def _files(folder: Path, suffixes: frozenset[str] | None) -> list[str]:
    """The files below a folder, with these suffixes or all; Python's byte code apart."""
    found: list[str] = []
    pending = [os.fspath(folder)]
    while pending:
        for entry in os.scandir(pending.pop()):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    pending.append(entry.path)
            elif suffixes is None or os.path.splitext(entry.name)[1] in suffixes:
                found.append(entry.path)
    return found


def digest_of(paths: list[str], before: float = LOADED - _SETTLED) -> str | None:
    """The sha256 over names and contents; None where one cannot be read, or has changed since `before`."""
    digest = hashlib.sha256()
    try:
        for path in sorted(paths):
            with open(path, "rb", 0) as file:
                status = os.fstat(file.fileno())
                if max(status.st_mtime, status.st_ctime) > before:
                    return None
                data = file.read()
            digest.update(f"{path}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
    except OSError:
        return None
    return digest.hexdigest()


def _packages() -> list[str]:
    """Name and version of everything that is installed where this process imports from."""
    found: set[str] = set()
    for place in sys.path:
        try:
            found.update(e.name for e in os.scandir(place or ".") if e.name.endswith((".dist-info", ".egg-info")))
        except OSError:  # a zip file, or a folder that is not there
            continue
    return sorted(found)


__all__ = ["compiler", "digest_of", "look_again", "ours", "runtime"]
