"""`read`: the text of a file → its composites, whichever of the two notations it is in."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path as FilePath, PurePath

from .ast import Composite
from .diagnostics import Collector, shorten
from .files import text_of
from .names import fold
from .source import Place, error, whole

MAX_COMPOSITES = 1000  # of one file
REMEMBERED = 1024  # texts: twice as many as the library has


@lru_cache(REMEMBERED)
def read(text: str, file: str = "<stdin>") -> tuple[Composite, ...]:
    """All composites of a text, in order.  `.toml` and `.lisp` say the notation; without a suffix a text that starts with `(` is an S-expression.
    The same text of the same file is read once: what calls the library, compilation after compilation, reads the same few files of it.

    Raises SourceError with every mistake that could be told apart (codes E0101 … E0205)."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in text:
        at = text.index("\0")
        raise error("E0107", "this is not text: it holds a NUL character", Place(whole(file, text), at, at + 1))
    suffix = PurePath(file).suffix.lower()
    if suffix == ".lisp" or (suffix != ".toml" and _is_lisp(text)):
        from .lisp import read_lisp

        found = read_lisp(text, file)
    else:
        from .document import read_toml

        found = read_toml(text, file)
    _check_names(found)
    return found


def read_file(path: str | FilePath) -> tuple[Composite, ...]:
    """The composites of a file."""
    return read(text_of(path), str(path))


def _is_lisp(text: str) -> bool:
    """The first thing that is no comment and no space is a parenthesis.  (`#` starts a TOML comment, `;` one of ours.)"""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(";"):
            return line.startswith(("(", "#|"))
    return False


def _check_names(composites: tuple[Composite, ...]) -> None:
    """Names within one file, and of the ports of each composite."""
    if len(composites) > MAX_COMPOSITES:
        raise error("E0106", f"{len(composites)} composites in one file; at most {MAX_COMPOSITES} are allowed", composites[MAX_COMPOSITES].place)
    collector = Collector()
    seen: dict[str, Composite] = {}
    for c in composites:
        with collector.catching():
            other = seen.setdefault(fold(c.name), c)
            if other is not c:
                raise error(
                    "E0204",
                    f"there is another composite `{shorten(other.name)}` in this file",
                    c.place,
                    f"note: it is at line {other.place.span.line}",
                )
        ports: dict[str, str] = {}
        for p in c.ports:
            with collector.catching():
                twin = ports.setdefault(fold(p.name), p.name)
                if twin != p.name:
                    raise error("E0204", f"the port `{p.name}` and the port `{twin}` differ only in case, - and _", p.place)
        parameters: set[str] = set()
        for q in c.parameters:
            with collector.catching():
                if fold(q.name) in parameters or fold(q.name) in ports:
                    raise error("E0204", f"the parameter `{q.name}` has the name of another parameter or port", q.place)
                parameters.add(fold(q.name))
    collector.finish()
