"""Processes of tests: they heed interrupts wherever the tests were started from, and none outlives its test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from luminal.runtimes import rooms

T = TypeVar("T")
PATIENCE = 120.0  # seconds: generous, for a machine that has more to do; reached only where something is wrong

# A shell that starts a command in the background has it ignore interrupts, and what it starts inherits that.  A process of our own in between undoes it (a
# `preexec_fn` would do, but warns from Python 3.12 on where the tests run in threads).
_HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def started(command: list[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """The running command (whose first word is a path), with text pipes where asked for; it is killed where the test ends before it does."""
    process = subprocess.Popen([sys.executable, "-c", _HEEDING, *command], stdin=subprocess.DEVNULL, text=True, **how)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def own_cache(folder: Path) -> str:
    """The folder as a cache of one's own (for XDG_CACHE_HOME), which begins with the templates that this run has compiled so far: to do that again takes as long as the rest of a small compilation."""
    compiled = rooms.folder("templates")
    if compiled.is_dir():
        shutil.copytree(compiled, folder / "luminal" / "templates", ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
    return str(folder)


def waited(condition: Callable[[], T]) -> T:
    """The condition's value as soon as it is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def alive(process: int) -> bool:
    """Whether a process with this number runs; one that has ended and that nobody has waited for does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not os.path.isdir("/proc/self")


__all__ = ["PATIENCE", "alive", "own_cache", "started", "waited"]
