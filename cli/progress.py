"""A line on a terminal that says what is being done, once a command has taken two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds of a command without a word
_BEGAN = time.monotonic()


@contextmanager
def stage(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """While this runs, the last line of a terminal tells `what` and the seconds; it is gone when this ends.  Nothing happens where stderr is no terminal.
    What runs inside must print nothing; it may say something else by calling what it is given."""
    said = [what]
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(said, done), daemon=True)
    teller.start()
    try:
        yield lambda text: said.__setitem__(0, text)
    finally:
        done.set()
        teller.join()


def _tell(said: list[str], done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(max(0.0, PATIENCE - (began - _BEGAN))):
        return
    while True:
        sys.stderr.write(f"\r\x1b[K{said[0]} … {time.monotonic() - began:.0f} s")
        sys.stderr.flush()
        if done.wait(0.5):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
