"""A bound on the time of what this process does itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Late(Exception):
    """The time is up."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Late is raised in what is done inside once it has taken so long, as soon as Python runs again.  Nothing bounds it where the system has no alarms, or outside of the main thread,
    which alone they reach."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def late(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, if the first one is raised where nobody hears it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


__all__ = ["Late", "limited"]
