"""The one mechanism for telling users what is wrong: collect, sort, render.

    FILE:LINE:COL: error[E0203]: message
       12 |   (return (matmull A B))
          |            ^^^^^^^
          = note: did you mean `matmul`?

A diagnostic is made where the mistake is seen (`source.error`), travels as a `SourceError`, is gathered by a `Collector` so that independent mistakes
are reported together, and is rendered here, once, by whoever talks to the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..ir.errors import Diagnostic, SourceError

WIDTH = 160  # of a source line as shown; longer ones are cut around the caret
LIMIT = 50  # diagnostics shown in one run


class Collector:
    """Gathers the diagnostics of independent pieces of work and raises them together."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Run a piece of work; what it raises is kept, and the caller goes on with the next piece."""
        try:
            yield
        except SourceError as e:
            self.found.extend(e.diagnostics)

    def add(self, diagnostic: Diagnostic) -> None:
        self.found.append(diagnostic)

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.found)

    def finish(self) -> None:
        """Raise what was gathered, in the order of the text, each once; do nothing where no error was."""
        if self.failed:
            raise SourceError(in_order(self.found))


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """By place, each once; equal places keep the order in which they were found."""
    return sorted(dict.fromkeys(diagnostics), key=lambda d: (d.span.file, d.span.line, d.span.column))


def render_diagnostics(diagnostics: Iterable[Diagnostic], color: bool = False) -> str:
    """The text for stderr, without a final newline.  `color` adds ANSI sequences."""
    found = list(diagnostics)
    shown = [render_diagnostic(d, color) for d in found[:LIMIT]]
    if len(found) > LIMIT:
        shown.append(f"and {len(found) - LIMIT} more")
    return "\n".join(shown)


def render_diagnostic(d: Diagnostic, color: bool = False) -> str:
    bold, red, off = ("\x1b[1m", "\x1b[31m" if d.severity == "error" else "\x1b[33m", "\x1b[0m") if color else ("", "", "")
    place = f"{d.span.file}:{d.span.line}:{d.span.column}: " if d.span.line else ""
    lines = [f"{bold}{place}{red}{d.severity}[{d.code}]{off}{bold}: {printable(d.message)}{off}"]
    gutter = " " * max(5, len(str(d.span.line)) + 1)
    if d.text.strip():
        text, column, length = _window(d.text, d.span.column, d.span.length)
        pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
        lines.append(f"{d.span.line:>{len(gutter)}} | {printable(text)}")
        lines.append(f"{gutter} | {pad}{red}{'^' * length}{off}")
    lines.extend(f"{gutter} = {printable(n)}" for n in d.notes)
    return "\n".join(lines)


def _window(text: str, column: int, length: int) -> tuple[str, int, int]:
    """The part of an over-long line around the caret."""
    if len(text) > WIDTH:
        start = max(0, min(column - 1 - WIDTH // 3, len(text) - WIDTH))
        text, column = text[start : start + WIDTH], column - start
    return text, column, max(1, min(length, len(text) - column + 1))


def printable(text: str) -> str:
    """No control characters of the user's reach the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def shorten(name: str, limit: int = 60) -> str:
    """A user's name or text for a message."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


ELSEWHERE = {  # words of other languages and of NumPy, as they are called here
    "+=": "incf", "-=": "decf", "*=": "mulcf", "++": "incf", "--": "decf", "==": "=", "!=": "/=", "%": "mod", "//": "floordiv", "**": "pow", "@": "matmul",
    "&&": "and", "||": "or", "!": "not", "&": "logand", "|": "logor", "^": "logxor", "<<": "ash", ">>": "ash",
    "for": "dotimes", "do": "dotimes", "when": "if", "unless": "if", "cond": "if", "setq": "set", "let*": "let", "begin": "progn",
    "true": "t", "True": "t", "false": "nil", "False": "nil", "None": "nil", "float32": "f32", "float64": "f64",
    "arange": "iota", "range": "iota", "linspace": "iota", "inv": "inverse", "det": "determinant", "cat": "concat", "concatenate": "concat",
    "astype": "cast", "power": "pow", "absolute": "abs", "invert": "lognot", "popcount": "bit_count", "logcount": "bit_count", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "broadcast_to": "expand", "swapaxes": "transpose", "conjugate": "conj", "rem": "fmod",
}  # fmt: skip


def nearest(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """A note with the nearest known name, or nothing."""
    from difflib import get_close_matches

    known = list(dict.fromkeys(candidates))
    if len(name) > 200:
        return ()
    folded = {c.lower().replace("-", "_"): c for c in known}
    if ELSEWHERE.get(name) in known:
        return (f"help: did you mean `{ELSEWHERE[name]}`?",)
    close = get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return (f"help: did you mean `{folded[close[0]]}`?",) if close else ()
