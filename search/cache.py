"""The compile cache: content-addressed, safe under concurrent use and under kill.

An entry is a folder named by the sha256 of everything that decides the bytes (source, header, target, kind, compiler identity, our version).  It is made
beside its place under a lock that dies with its process, synced and renamed.  Each entry holds the sha256 of its product: one that does not match is a miss.
A folder past its bound loses what was not used for longest (`runtimes/rooms.py`).
Where the cache cannot be written (read-only, full, somebody else's), a temporary folder of this process stands in for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..ir.errors import ToolError
from ..ir.version import VERSION
from ..runtimes import rooms


def cache_folder() -> Path:
    """Where products are kept: the user's cache folder, or $XDG_CACHE_HOME/luminal where that is set."""
    return rooms.folder("kernels")


def key_of(parts: tuple[str, ...]) -> str:
    """The sha256 over length-prefixed parts and luminal's version."""
    digest = hashlib.sha256()
    for part in (VERSION, *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def cached(parts: tuple[str, ...], suffix: str, make: Callable[[Path], None]) -> Path:
    """The path of the product with this key, made by `make(path)` where it is not there yet.  ToolError where no folder can hold it."""
    key = key_of(parts)
    try:
        folder = cache_folder()
        if not folder.is_absolute():  # a user without a home folder: `~` stands for none
            raise FileNotFoundError(2, "no home folder", str(folder))
        return _product(folder, key, suffix, make)
    except (OSError, NotImplementedError):  # NotImplementedError: a file system without locks
        try:
            return _product(_stand_in(), key, suffix, make)
        except OSError as error:
            raise ToolError(f"no folder to build in: {error}") from None


def found(key: str, suffix: str) -> Path | None:
    """The product with this key (of `key_of`), if it is there and whole."""
    entry = cache_folder() / key
    product = entry / f"product{suffix}"
    return product if _used(entry, product) else None


def remove(folder: Path, key: str) -> bool:
    """An entry, and what killed processes left of it; False where a process is making it at this moment."""
    from filelock import FileLock, Timeout

    lock = folder / f".{key}.lock"
    try:
        with FileLock(lock, timeout=0):
            for path in (folder / key, *folder.glob(f".{key}.*.making")):
                shutil.rmtree(path, ignore_errors=True)
            lock.unlink(missing_ok=True)
    except Timeout:
        return False
    return True


def _product(folder: Path, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    entry = folder / key
    product = entry / f"product{suffix}"
    if not _used(entry, product):
        from filelock import FileLock

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{key}.lock"):
            if not _used(entry, product):  # another process may have been first
                _make(entry, product.name, make)
        if folder == cache_folder():
            _shorten(folder)
    return product


def _used(entry: Path, product: Path) -> bool:
    """Whether it is there and whole; then it counts as used now."""
    whole = _intact(entry, product)
    if whole:
        rooms.touch(entry)
    return whole


def _shorten(folder: Path) -> None:
    with suppress(OSError, NotImplementedError):  # a folder that is only read, or whose file system has no locks: then nothing is removed
        if rooms.due(folder.name):
            for key in rooms.surplus(folder.name, _entries(folder)):
                remove(folder, key)


def _entries(folder: Path) -> list[rooms.Entry]:
    """What there is of each key: the product, locks, what killed processes left."""
    found: dict[str, list[os.DirEntry[str]]] = {}
    for e in os.scandir(folder):
        found.setdefault(e.name.lstrip(".").partition(".")[0], []).append(e)
    entries = []
    for key, parts in found.items():
        with suppress(FileNotFoundError):  # another process removes it
            size = sum(f.stat().st_size for p in parts if p.is_dir() for f in os.scandir(p.path))
            entries.append(rooms.Entry(max(p.stat().st_mtime for p in parts), size, key))
    return entries


def _make(entry: Path, name: str, make: Callable[[Path], None]) -> None:
    unfinished = f".{entry.name}."
    for left in entry.parent.glob(f"{unfinished}*.making"):  # by a process that was killed: we hold its lock
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=unfinished, suffix=".making", dir=entry.parent))
    try:
        made = work / name
        make(made)
        (work / "sha256").write_text(_digest(made))
        for path in (made, work / "sha256"):
            _sync(path)
        shutil.rmtree(entry, ignore_errors=True)
        os.rename(work, entry)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _intact(entry: Path, product: Path) -> bool:
    try:
        return (entry / "sha256").read_bytes() == _digest(product).encode()
    except OSError:
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="luminal-cache-")


def _stand_in() -> Path:
    return Path(_kept().name)
