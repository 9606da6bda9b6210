"""Files on the user's disk: written whole or not at all, and never outside the folder that was named."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..ir.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def write_file(path: Path, data: str | bytes) -> None:
    """Replace `path` by `data` in one step: a reader (or a crash) sees the old file or the new one, never half of it.  Text is UTF-8 with `\\n`."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write each file into the folder, in order; every name is checked before anything is written."""
    paths = [inside(folder, name) for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        write_file(path, data)
    return paths


def inside(folder: Path, name: str) -> Path:
    """The path of a file named by a composite in a folder of the user's.  UsageError where the name would escape or is no plain file name."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise UsageError(f"`{name}` is no file name: letters, digits and `_ . + -` may stand in one, and it cannot hold a folder")
    return folder / name


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current
