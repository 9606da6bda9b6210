"""Where a piece of text stands in a user's file.

A `Source` is a file (or standard input); a `Text` is a piece of it that is parsed on its own: the whole of a `.lisp` file, or the *decoded* value of a
TOML string.  Offsets into a `Text` become places in the file, so a caret inside a code string with escapes still points at the right character.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from functools import cached_property

from ..ir.errors import Diagnostic, SourceError, Span
from ..ir.record import individual, record


@individual
class Source:
    """`file` is the name in diagnostics; `text` the whole content."""

    file: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line_of(self, offset: int) -> int:
        """1-based."""
        return bisect_right(self._starts, offset)

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its end."""
        if not 1 <= number <= len(self._starts):
            return ""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def span(self, start: int, end: int) -> Span:
        """Characters [start, end); what goes past the first line is left out of the length."""
        number = self.line_of(start)
        begin = self._starts[number - 1]
        length = min(end - start, len(self.line(number)) - (start - begin))
        return Span(self.file, number, start - begin + 1, max(1, length))


@individual
class Text:
    """`value` as parsed; `pieces` are (offset in value, offset in file), ascending: between two of them characters correspond one to one."""

    source: Source
    value: str
    pieces: tuple[tuple[int, int], ...] = ((0, 0),)
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", [v for v, _ in self.pieces])

    def at(self, offset: int) -> int:
        """The offset in the file of an offset in the value."""
        value, place = self.pieces[max(0, bisect_right(self._starts, offset) - 1)]
        return place + (offset - value)

    def span(self, start: int, end: int) -> Span:
        first = self.at(start)
        return self.source.span(first, max(first + 1, self.at(max(start, end - 1)) + 1))


@record
class Place:
    """A range of a `Text`: what every form and every declaration carries instead of a resolved span."""

    text: Text
    start: int
    end: int

    @property
    def span(self) -> Span:
        return self.text.span(self.start, self.end)


def diagnostic(code: str, message: str, place: Place, *notes: str, severity: str = "error") -> Diagnostic:
    span = place.span
    return Diagnostic(code, message, span, notes, severity, place.text.source.line(span.line))


def error(code: str, message: str, place: Place, *notes: str) -> SourceError:
    """To be raised: one diagnostic at a place."""
    return SourceError([diagnostic(code, message, place, *notes)])


def whole(file: str, text: str) -> Text:
    """A file that is parsed as it stands."""
    return Text(Source(file, text), text)
