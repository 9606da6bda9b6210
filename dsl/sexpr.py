"""Text → forms, with the place of each.  The grammar is `grammar/sexpr.lark`.

Hostile text is refused before the parser sees it: size, depth, balance and unfinished strings are found in one scan, which also gives the
better message (the parenthesis that was never closed, not the end of the file).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from .diagnostics import shorten
from .source import Place, Text, error

if TYPE_CHECKING:
    from lark import Lark

MAX_CHARACTERS = 1 << 20
MAX_TOKENS = 40_000
MAX_DEPTH = 256
MAX_NAME = 255


class Form:
    """Base of all forms: a range of the text it was read from."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def source_text(self) -> str:
        """What the user wrote."""
        return self.place.text.value[self.place.start : self.place.end]


class Symbol(Form):
    __slots__ = ("name",)

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place)
        self.name = name


class Keyword(Form):
    """`:axis`; `name` is without the colon, in lower case."""

    __slots__ = ("name",)

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place)
        self.name = name


class Number(Form):
    __slots__ = ("value",)

    def __init__(self, place: Place, value: int | float) -> None:
        super().__init__(place)
        self.value = value


class String(Form):
    __slots__ = ("value",)

    def __init__(self, place: Place, value: str) -> None:
        super().__init__(place)
        self.value = value


class Comma(Form):
    """A separator; allowed in port lists only."""

    __slots__ = ()


class Order(Form):
    """`<1 0>`, `<0 1 :strided>`: a memory order; only in ports."""

    __slots__ = ("axes", "strided")

    def __init__(self, place: Place, axes: tuple[int, ...], strided: bool) -> None:
        super().__init__(place)
        self.axes = axes
        self.strided = strided


class List(Form):
    """`bracket` is the opening one: ( [ or {."""

    __slots__ = ("bracket", "items")

    def __init__(self, place: Place, bracket: str, items: tuple[Form, ...]) -> None:
        super().__init__(place)
        self.bracket = bracket
        self.items = items

    @property
    def head(self) -> str | None:
        """The name in operator position, as written."""
        first = self.items[0] if self.items else None
        return first.name if isinstance(first, Symbol) else None


_INTEGER = re.compile(r"[+-]?\d+")
_RADIX = re.compile(r"([+-]?)0([xob])([0-9a-f]+)|#([xob])([+-]?)([0-9a-f]+)", re.I)  # as in C and Python, as in Common Lisp
_BASES = {"x": 16, "o": 8, "b": 2}
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")
_NUMBER_LIKE = re.compile(r"[+-]?\.?\d|#[xobXOB]")
_COMPARISON = re.compile(r"[<>=%]")  # `8=0` in a constraint is taken apart there
_ESCAPES = {"n": "\n", "t": "\t"}


def _integer(word: str) -> int | None:
    """What an integer literal stands for, anything too large where it is very long; None for another word."""
    digits, base = word, 10
    if not _INTEGER.fullmatch(word):
        match = _RADIX.fullmatch(word)
        if match is None:
            return None
        digits, base = (match[1] or match[5] or "") + (match[3] or match[6]), _BASES[(match[2] or match[4]).lower()]
    try:
        return int(digits, base) if len(digits) <= 65 else 1 << 64
    except ValueError:  # `0b12`
        return None


def atom(place: Place, word: str) -> Form:
    """The meaning of one word."""
    integer = _integer(word)
    if integer is not None:
        if -(1 << 63) <= integer < (1 << 64):
            return Number(place, integer)
        raise error("E0104", f"the integer {shorten(word)} does not fit into 64 bits", place)
    if _FLOAT.fullmatch(word):
        value = float(word)
        if value in (float("inf"), float("-inf")):
            raise error("E0104", f"the number {shorten(word)} is too large for f64", place, "help: write `inf` for infinity")
        return Number(place, value)
    if _NUMBER_LIKE.match(word) and not _COMPARISON.search(word):
        raise error(
            "E0104",
            f"`{shorten(word)}` is not a number",
            place,
            "expected: an integer such as 3, -1, #xFF or 0xFF, or a float such as 0.5 or 1e-5; names start with a letter",
        )
    if len(word) > MAX_NAME:
        raise error("E0106", f"a name of {len(word)} characters; at most {MAX_NAME} are allowed", place)
    if word.startswith(":"):
        if len(word) == 1:
            raise error("E0105", "a keyword needs a name after the `:`", place)
        return Keyword(place, word[1:].lower())
    return Symbol(place, word)


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*("?)|;[^\n]*|#\|.*?(?:\|#|\Z)|[()\[\]{}]|[^\s()\[\]{},;"\']+|[,\']', re.S)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_OPENING = {"(": ")", "[": "]", "{": "}"}


def _scan(text: Text) -> None:
    """Size, depth, balance, finished strings."""
    value = text.value

    def place(start: int, end: int) -> Place:
        return Place(text, start, end)

    if len(value) > MAX_CHARACTERS:
        raise error("E0106", f"{len(value)} characters of code; at most {MAX_CHARACTERS} are allowed", place(0, 1))
    if "\0" in value:
        at = value.index("\0")
        raise error("E0107", "this is not text: it holds a NUL character", place(at, at + 1))
    open_: list[tuple[str, int]] = []
    for count, m in enumerate(_TOKEN.finditer(value)):
        token = m.group()
        if count > MAX_TOKENS:
            raise error("E0106", f"more than {MAX_TOKENS} words and parentheses", place(m.start(), m.end()))
        if token in _OPENING:
            open_.append((token, m.start()))
            if len(open_) > MAX_DEPTH:
                raise error("E0106", f"nested more than {MAX_DEPTH} deep", place(m.start(), m.end()))
        elif token in _CLOSING:
            if not open_:
                raise error("E0102", f"`{token}` closes nothing", place(m.start(), m.end()))
            opening, at = open_.pop()
            if opening != _CLOSING[token]:
                line = place(at, at + 1).span
                raise error(
                    "E0102",
                    f"expected `{_OPENING[opening]}`, found `{token}`",
                    place(m.start(), m.end()),
                    f"note: `{opening}` was opened at line {line.line}, column {line.column}",
                )
        elif token[0] == '"' and not m.group(1):
            raise error("E0103", "this string is not finished", place(m.start(), m.start() + 1))
        elif token.startswith("#|") and (len(token) < 4 or not token.endswith("|#")):
            raise error("E0103", "this comment is not finished", place(m.start(), m.start() + 2))
    if open_:
        opening, at = open_[-1]
        raise error(
            "E0101",
            f"`{opening}` is never closed",
            place(at, at + 1),
            f"note: {len(open_)} more `{_OPENING[opening]}` needed at the end" if len(open_) > 1 else f"expected: `{_OPENING[opening]}`",
        )


def parse(text: Text) -> tuple[Form, ...]:
    """All forms of the text.  Raises SourceError E0101 … E0107."""
    from lark.exceptions import UnexpectedInput

    _scan(text)
    try:
        tree = _lark().parse(text.value)
    except UnexpectedInput as e:
        at = e.pos_in_stream or 0
        raise error("E0105", "this cannot be read", Place(text, at, at + 1)) from None
    return _forms(text, tree)


def _forms(text: Text, tree: Any) -> tuple[Form, ...]:
    """The parser's tree as forms; iterative, since the depth is the user's."""
    done: list[Form] = []
    stack: list[tuple[Any, Iterator[Any], list[Form]]] = [(tree, iter(tree.children), done)]
    while stack:
        node, rest, items = stack[-1]
        for child in rest:
            if isinstance(child, str):
                items.append(_token(text, child))
            else:
                inner = child.children
                stack.append((child, iter(inner[1:-1]), []))
                break
        else:
            stack.pop()
            if stack:
                opening, closing = node.children[0], node.children[-1]
                stack[-1][2].append(List(Place(text, opening.start_pos, closing.end_pos), str(opening), tuple(items)))
    return tuple(done)


def _token(text: Text, token: Any) -> Form:
    place = Place(text, token.start_pos, token.end_pos)
    match token.type:
        case "COMMA":
            return Comma(place)
        case "STRING":
            return String(place, re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), token[1:-1], flags=re.S))
        case "ORDER":
            return Order(place, tuple(int(n) for n in re.findall(r"\d+", token)), ":strided" in token)
        case _:
            return atom(place, str(token))


@cache
def _lark() -> Lark:
    """The parser: with its tables as they are kept, where this Lark would make the same of this grammar."""
    from lark import Lark

    from .grammar import make, tables

    text = make.grammar()
    return Lark.load(tables.TABLES) if make.made_of(text) == tables.MADE_OF else make.from_grammar(text)
