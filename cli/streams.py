"""Standard streams that are closed, or that hold no text."""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """A stream that is closed reads nothing and drops what is written; were its number free, the next file that is opened would get it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives


def drop_output() -> None:
    """Nothing is written any more, neither what is left in the buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def standard_input() -> str:
    """SourceError E0106 and E0107 where it is too large or no text."""
    from ..dsl import decoded

    return decoded(sys.stdin.buffer.read(), "<stdin>")


__all__ = ["drop_output", "open_closed", "standard_input"]
