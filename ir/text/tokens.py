"""Text to lines of tokens, each with its place, and the errors that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, TypeVar

from ..dtypes import DType, dtype
from ..errors import Diagnostic, SourceError, Span
from ..expr import Scalar
from .words import unquoted

# Codes of the diagnostics of intermediate files.
SYNTAX, UNKNOWN, MISMATCH = "E0901", "E0902", "E0903"
MAX_DEPTH = 200  # of nested blocks, each of which costs a few frames of Python's stack; expressions have no limit
MAX_NAME = 255

T = TypeVar("T")

_TOKEN = re.compile(
    r"""
      (?P<space>   [ ]+ | \#.* )
    | (?P<float>   \d+ (?: \.\d+ (?:[eE][+-]?\d+)? | [eE][+-]?\d+ ) )
    | (?P<int>     \d+ )
    | (?P<name>    [A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)* )
    | (?P<node>    %\d+ )
    | (?P<axis>    \$\d+ )
    | (?P<part>    @\d+ )
    | (?P<string>  "(?:[^"\\]|\\.)*" )
    | (?P<sign>    << | >> | <= | == | != | // | \.\. | [-+*/%<&|^~()\[\]:,=] )
    | (?P<bad>     . )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str  # float int name node axis part string sign end
    text: str
    column: int  # 1-based


class Line:
    """One line and how far it is read."""

    __slots__ = ("at", "file", "indent", "number", "text", "tokens")

    def __init__(self, text: str, number: int, file: str) -> None:
        self.text, self.number, self.file, self.at = text, number, file, 0
        self.indent = len(text) - len(text.lstrip(" "))
        self.tokens: list[Token] = []
        for m in _TOKEN.finditer(text):
            kind = m.lastgroup or ""
            if kind == "bad":
                self.fail(f"{m[0]!r} begins no word", Token(kind, m[0], m.start() + 1))
            if len(m[0]) > MAX_NAME and kind == "name":
                self.fail(f"a name of {len(m[0])} characters; at most {MAX_NAME} are allowed", Token(kind, m[0][:MAX_NAME], m.start() + 1))
            if kind != "space":
                self.tokens.append(Token(kind, m[0], m.start() + 1))
        self.tokens.append(Token("end", "", len(text) + 1))

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def next(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def fail(self, message: str, at: Token | None = None, code: str = SYNTAX, notes: tuple[str, ...] = ()) -> NoReturn:
        token = at or self.token
        span = Span(self.file, self.number, token.column, max(1, len(token.text)))
        raise SourceError([Diagnostic(code, message, span, notes, text=self.text)])

    def expected(self, what: str) -> NoReturn:
        self.fail(f"expected {what}, found {self.token.text or 'the end of the line'}")

    def unknown(self, what: str, token: Token, known: Iterable[str]) -> NoReturn:
        from difflib import get_close_matches

        near = get_close_matches(token.text, list(known), 1)
        self.fail(f"there is no {what} {token.text}", token, UNKNOWN, (f"did you mean {near[0]}?",) if near else ())

    # ---- taking

    def take(self) -> Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def sees(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("sign", "name")

    def accept(self, text: str) -> bool:
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.expected(f"`{text}`")

    def end(self) -> None:
        if self.token.kind != "end":
            self.expected("the end of the line")

    def name(self, what: str = "a name") -> str:
        token = self.take()
        if token.kind == "name":
            return token.text
        if token.kind == "string":
            return self._unquoted(token)
        self.at -= token.kind != "end"
        return self.expected(what)

    def string(self) -> str:
        if self.token.kind != "string":
            self.expected("a quoted string")
        return self._unquoted(self.take())

    def _unquoted(self, token: Token) -> str:
        try:
            return unquoted(token.text)
        except (ValueError, OverflowError):
            self.fail("an escape that means no character", token)

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.token.kind != "int":
            self.expected("an integer")
        return sign * self.number_of(self.take())

    def number_of(self, token: Token) -> int:
        if len(token.text) > 40:  # no dtype holds more; Python refuses thousands of digits with an error of its own
            self.fail("the number is too long", token)
        return int(token.text)

    def scalar(self) -> Scalar:
        """A bare literal, whose form gives its Python type."""
        negative = self.accept("-")
        token = self.token
        if token.text in ("true", "false") and not negative:
            self.at += 1
            return token.text == "true"
        if token.kind == "int":
            value: int | float = self.number_of(token)
        elif token.kind == "float" or token.text in ("inf", "nan"):
            value = float(token.text)
        else:
            self.expected("a literal")
        self.at += 1
        return -value if negative else value

    def dtype(self) -> DType:
        token = self.token
        found = dtype(token.text) if token.kind == "name" else None
        if found is None or found.name != token.text or found.lanes < 1:
            self.expected("a dtype (f32, i64, f32x8, …)")
        self.at += 1
        return found


class Source:
    """The lines of a file that hold anything, and how far they are read."""

    def __init__(self, text: str, file: str) -> None:
        self.file, self.at, self._depth = file, 0, 0
        lines = (Line(line.rstrip("\r"), k, file) for k, line in enumerate(text.split("\n"), 1))
        self.lines = [line for line in lines if line.token.kind != "end"]

    def peek(self) -> Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def sees(self, indent: int, *words: str) -> Line | None:
        """The next line where it has this indent and begins with one of the words."""
        line = self.peek()
        return line if line is not None and line.indent == indent and line.token.text in words else None

    def otherwise(self, condition: Line) -> Line | None:
        """The line `else:` that comes next at the indent of an `if`, read up to its colon; None where there is none."""
        line = self.sees(condition.indent, "else")
        if line is not None:
            self.at += 1
            line.take()
        return line

    def block(self, parent: int, one: Callable[[Line], T]) -> tuple[T, ...]:
        """The statements that are indented deeper than `parent`; `one` reads a line and what belongs to it."""
        line = self.peek()
        if line is None or line.indent <= parent:
            return ()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            line.fail(f"blocks are nested deeper than {MAX_DEPTH}")
        indent = line.indent
        result: list[T] = []
        while line is not None and line.indent > parent:
            if line.indent != indent:
                line.fail(f"expected an indentation of {indent}, found {line.indent}")
            self.at += 1
            result.append(one(line))
            line.end()
            line = self.peek()
        self._depth -= 1
        return tuple(result)
