"""Places, diagnostics and the errors that carry them.

Every user error is one `Diagnostic` with a code, a place and a hint; it travels inside a `SourceError` (exit status 1)
or a `UsageError` (exit status 2).  A failed verify rule or a broken invariant is a `CompilerBug` (exit status 70).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .record import record


@record
class Span:
    """A place in a user's file: 1-based line and column, `length` characters on that line."""

    file: str = "<input>"
    line: int = 1
    column: int = 1
    length: int = 1


NOWHERE = Span("<none>", 0, 0, 0)


@record
class Diagnostic:
    """`FILE:LINE:COL: error[E0203]: message`, the line with a caret, and notes (expected, found, what to try)."""

    code: str
    message: str
    span: Span = NOWHERE
    notes: tuple[str, ...] = ()
    severity: str = "error"  # error | warning | note
    text: str = ""  # the line of the source at `span`, so that a diagnostic can be shown where the file cannot be read again


class LuminalError(Exception):
    """Base of every error that the public API raises on purpose.  `exit_status` is the command line's."""

    exit_status = 70


@dataclass
class SourceError(LuminalError):
    """The source is wrong: one or more diagnostics, each with a place."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    exit_status = 1

    def __str__(self) -> str:
        return "\n".join(f"{d.span.file}:{d.span.line}:{d.span.column}: {d.severity}[{d.code}]: {d.message}" for d in self.diagnostics)


class UsageError(LuminalError):
    """The command line, a configuration key or an argument of the Python API is wrong."""

    exit_status = 2


class ToolError(LuminalError):
    """A tool is missing, or the downstream compiler failed; the message holds the command and what it printed."""

    exit_status = 4
    missing = False  # the tool is not there at all
    asked = False  # it was asked for by name, so that to do without would be to do something else


class ToolMissing(ToolError):
    """A tool is not there; the message says how to get it."""

    missing = True

    def __init__(self, message: str, asked: bool = False) -> None:
        super().__init__(message)
        self.asked = asked


class DeviceError(LuminalError):
    """The device that was asked for is not there."""

    exit_status = 5


class TimeLimit(LuminalError):
    """A bound given by `--timeout` was exceeded."""

    exit_status = 124


class Unsupported(LuminalError):
    """The runtime lacks a primop, dtype or feature; `what` names it."""

    exit_status = 1

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class CompilerBug(LuminalError):
    """A broken invariant of ours: names the pass (or verify rule) and what was found."""

    exit_status = 70

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
