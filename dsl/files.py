"""The text of a user's file, before anything is known of what is in it."""

from __future__ import annotations

from os import PathLike

from ..ir.errors import SourceError, UsageError

MAX_BYTES = 1 << 20


def text_of(path: str | PathLike[str]) -> str:
    """UsageError where it cannot be opened, SourceError E0106 and E0107 where it is too large or no text."""
    name = str(path)
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_BYTES + 1)
    except OSError as e:
        raise UsageError(f"cannot read {name}: {e.strerror}") from None
    return decoded(data, name)


def decoded(data: bytes, name: str) -> str:
    """The text of a file of this name; SourceError as `text_of`."""
    if len(data) > MAX_BYTES:
        raise _error("E0106", f"a file of more than {MAX_BYTES} bytes", name, "")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise _error("E0107", f"this is not text: byte {e.start} is not UTF-8", name, data[: e.start].decode("utf-8")) from None


def _error(code: str, message: str, name: str, before: str) -> SourceError:
    """Behind the text `before`."""
    from .source import Place, error, whole

    return error(code, message, Place(whole(name, before), len(before), len(before)))
