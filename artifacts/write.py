"""Files on the user's disk: written whole or not at all, and never outside the folder that was named."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ..ir.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def write_bytes(path: Path, data: bytes, executable: bool = False) -> None:
    """Replace `path` by `data` atomically: a reader sees the old file or the new one.  UsageError where the folder cannot be written."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, (0o777 if executable else 0o666) & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def inside(folder: Path, name: str) -> Path:
    """The path of a file named after a composite, in a folder of the user's.  UsageError where the name is no plain file name, so that it cannot escape."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` is no file name: it may hold letters, digits and `_ . + -`, begins with a letter or digit, and cannot hold a folder"
        )
    return folder / name
