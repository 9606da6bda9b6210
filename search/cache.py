"""The compile cache: content-addressed, safe under concurrent use and under kill.

An entry is a folder named by the sha256 of everything that decides the bytes (source, header, target, kind, compiler identity, our version).  It is made
beside its place under a lock that dies with its process, synced and renamed.  Each entry holds the sha256 of its product: one that does not match is a miss.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where products are kept: the user's cache folder, or $XDG_CACHE_HOME/luminal where that is set."""
    from platformdirs import user_cache_path

    return user_cache_path("luminal", appauthor=False) / "kernels"


def key_of(parts: tuple[str, ...]) -> str:
    """The sha256 over length-prefixed parts and luminal's version."""
    from .. import __version__

    digest = hashlib.sha256()
    for part in (__version__, *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def cached(parts: tuple[str, ...], suffix: str, make: Callable[[Path], None], copy_to: Path | None = None) -> Path:
    """The path of the product with this key, made by `make(path)` where it is not there yet; `copy_to` gets a whole copy.

    Where the cache folder cannot be written, a temporary folder of this process stands in for it.
    """
    folder = _writable(cache_folder())
    entry = folder / key_of(parts)
    product = entry / f"product{suffix}"
    if not _intact(entry, product):
        from filelock import FileLock

        with FileLock(folder / f".{entry.name}.lock"):
            if not _intact(entry, product):  # another process may have been first
                _make(entry, product.name, make)
    if copy_to is not None:
        from ..artifacts.write import write_bytes

        write_bytes(copy_to, product.read_bytes(), executable=os.access(product, os.X_OK))
    return product


def _make(entry: Path, name: str, make: Callable[[Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=entry.parent))
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
        return (entry / "sha256").read_text() == _digest(product)
    except OSError:
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


_fallback: list[tempfile.TemporaryDirectory[str]] = []


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    if not _fallback:
        _fallback.append(tempfile.TemporaryDirectory(prefix="luminal-cache-"))
    return Path(_fallback[0].name)
