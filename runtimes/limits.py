"""Bounds on the processes that are started: compilers and test runs."""

from __future__ import annotations

import subprocess
from contextvars import ContextVar

from ..ir.errors import UsageError

_memory: ContextVar[int | None] = ContextVar("memory", default=None)  # bytes


def limit_memory(megabytes: int) -> None:
    """Every process that is started from here on (compilers, test runs) may hold this much memory of its own.  UsageError where the system has no such bound."""
    try:
        from resource import prlimit  # noqa: F401 - only asked whether it is there
    except ImportError:
        raise UsageError("--mem-limit: this system cannot bound the memory of another process") from None
    _memory.set(megabytes << 20)


def bound(process: subprocess.Popen[bytes]) -> None:
    """Put the bound, if there is one, on a process that has just been started; what it starts inherits it."""
    size = _memory.get()
    if size is not None:
        from resource import RLIMIT_DATA, prlimit

        try:
            prlimit(process.pid, RLIMIT_DATA, (size, size))
        except ProcessLookupError:  # it has ended already
            return


__all__ = ["bound", "limit_memory"]
