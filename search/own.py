"""luminal's own files as part of a key: whoever changes a pass or a template compiles anew.

Beside them stand the version of Python and the installed packages by their versions.  Where a file has changed since this process began to load luminal, nobody can say which text it runs:
then nothing is known, and nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.record import record
from ..ir.version import LOADED

if TYPE_CHECKING:
    from ..runtimes import Runtime

ROOT = Path(__file__).resolve().parent.parent
OPS = ROOT / "ops"
ROOMS = ("artifacts", "dsl", "ir", "passes", "runtimes", "search")  # and the files beside them
_READ = frozenset({".py", ".toml", ".j2", ".lark", ".h", ".cuh", ".c"})
_SETTLED = 0.1  # seconds after which a file that is written again has another time


@record
class Look:
    """Files as they were when they were looked at; no `digest` where it is not known which text runs."""

    find: Callable[[], list[str]]
    paths: list[str]
    digest: str | None


_known: dict[tuple[str, ...], Look] = {}


def compiler() -> str | None:
    """The sha256 of what compiles, and of the names of the library's composites; None where that is not known."""
    digest = look((), ours).digest
    if digest is None:
        return None
    names = sorted(_files(os.fspath(OPS)))
    return hashlib.sha256("\n".join([digest, sys.version, *_packages(), *names]).encode("utf-8", "surrogateescape")).hexdigest()


def library() -> str | None:
    """The sha256 of the library's composites; None where that is not known."""
    return look(("ops",), lambda: _files(os.fspath(OPS))).digest


def of_runtime(runtime: Runtime) -> str | None:
    """The sha256 of a runtime's folders that are not ours, whatever is in them; None where that is not known."""
    from ..runtimes.registry import describe_folder

    if ROOT in runtime.folder.parents:
        return ""
    folders = tuple(os.fspath(f) for f in describe_folder(runtime.folder)[1] if ROOT not in f.parents)
    return look(folders, lambda: [p for folder in folders for p in _files(folder)]).digest


def unchanged() -> bool:
    """Whether all that was looked at is still so: before something is kept, what has changed meanwhile shall not be taken for what was read."""
    return _unchanged(list(_known.values()))


def compiler_unchanged() -> bool:
    """Whether what `compiler` looked at is still so."""
    return _unchanged([look((), ours)])


def _unchanged(looks: list[Look]) -> bool:
    try:
        return all(k.digest is not None and sorted(k.find()) == k.paths and all(_is_old(os.stat(p)) for p in k.paths) for k in looks)
    except OSError:
        return False


def look(key: tuple[str, ...], find: Callable[[], list[str]]) -> Look:
    """At the files that `find` gives, once for a key."""
    if key not in _known:
        try:
            paths = sorted(find())
            _known[key] = Look(find, paths, _digest(paths))
        except OSError:  # a package that is no folder
            _known[key] = Look(find, [], None)
    return _known[key]


def ours(root: Path = ROOT) -> list[str]:
    """The files that decide what a composite becomes."""
    beside = [e.path for e in os.scandir(root) if e.is_file() and os.path.splitext(e.name)[1] in _READ]
    return beside + [p for room in ROOMS for p in _files(os.fspath(root / room)) if os.path.splitext(p)[1] in _READ]


def _files(folder: str) -> list[str]:
    """The files below a folder; Python's byte code and hidden folders apart."""
    found: list[str] = []
    pending, seen = [folder], set[tuple[int, int]]()
    while pending:
        here = pending.pop()
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in os.scandir(here):
            if entry.is_dir():
                if entry.name != "__pycache__" and entry.name[0] != ".":
                    pending.append(entry.path)
            elif entry.is_file():
                found.append(entry.path)
    return found


def _digest(paths: list[str]) -> str | None:
    """The sha256 over names and contents; None where one has changed since this process began.  OSError where one cannot be read."""
    digest = hashlib.sha256()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            status = os.fstat(file)
            data = os.read(file, status.st_size + 1)
        finally:
            os.close(file)
        if not _is_old(status) or len(data) != status.st_size:
            return None
        digest.update(f"{path}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data)
    return digest.hexdigest()


def _is_old(status: os.stat_result) -> bool:
    return max(status.st_mtime, status.st_ctime) < LOADED - _SETTLED


def _packages() -> list[str]:
    """Name and version of everything that is installed where this process imports from."""
    found: set[str] = set()
    for place in sys.path:
        try:
            found.update(e.name for e in os.scandir(place or ".") if e.name.endswith((".dist-info", ".egg-info")))
        except OSError:  # a zip file, or a folder that is not there
            continue
    return sorted(found)


__all__ = ["compiler", "compiler_unchanged", "library", "look", "of_runtime", "ours", "unchanged"]
