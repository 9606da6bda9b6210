"""Text → forms, with the place of each.

    text   ::= form*
    form   ::= list | STRING | ORDER | "," | WORD          what a word means (a number, a keyword, a symbol) is decided by `atom`
    list   ::= "(" form* ")" | "[" form* "]" | "{" form* "}"
                                                           lists are round; ports are written with [sizes], {types} and <orders>
    STRING ::= in double quotes, a backslash before any character
    ORDER  ::= "<>" | "<" INT ([ ,] INT)* ":strided"? ">"
    WORD   ::= any other characters up to white space, a bracket, a quote, a comma or a semicolon

White space separates; `; …` to the end of the line, `#| … |#` and a quote `'` before a form say nothing.

Hostile text is refused before a form is made: size, depth, balance and unfinished strings are found in one scan, which also gives the
better message (the parenthesis that was never closed, not the end of the file).
"""

from __future__ import annotations

import re

from .diagnostics import shorten
from .source import Place, Text, error

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
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")
_NUMBER_LIKE = re.compile(r"[+-]?\.?\d")
_COMPARISON = re.compile(r"[<>=%]")  # `8=0` in a constraint is taken apart there
_ESCAPES = {"n": "\n", "t": "\t"}


def atom(place: Place, word: str) -> Form:
    """The meaning of one word."""
    if _INTEGER.fullmatch(word):
        if len(word) <= 20 and -(1 << 63) <= int(word) < (1 << 64):
            return Number(place, int(word))
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
            "expected: an integer such as 3 or -1, or a float such as 0.5 or 1e-5; names start with a letter",
        )
    if len(word) > MAX_NAME:
        raise error("E0106", f"a name of {len(word)} characters; at most {MAX_NAME} are allowed", place)
    if word.startswith(":"):
        if len(word) == 1:
            raise error("E0105", "a keyword needs a name after the `:`", place)
        return Keyword(place, word[1:].lower())
    return Symbol(place, word)


_TOKEN = re.compile(
    r"""
    "(?:\\.|[^"\\])*(?P<string>"?)
    | (?P<silent> ;[^\n]* | \#\|.*?(?:\|\#|\Z) | ')
    | (?P<order> <> | <\d+(?:[ ,\t]+\d+)*(?:[ \t]*:strided)?[ \t]*> )
    | (?P<bracket> [()\[\]{}] )
    | (?P<comma> , )
    | (?P<word> [^\s()\[\]{},;"']+ )
    """,
    re.S | re.X,
)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_OPENING = {"(": ")", "[": "]", "{": "}"}


def _scan(text: Text) -> list[re.Match[str]]:
    """The tokens; size, depth, balance and finished strings are as they should be."""
    value = text.value

    def place(start: int, end: int) -> Place:
        return Place(text, start, end)

    if len(value) > MAX_CHARACTERS:
        raise error("E0106", f"{len(value)} characters of code; at most {MAX_CHARACTERS} are allowed", place(0, 1))
    if "\0" in value:
        at = value.index("\0")
        raise error("E0107", "this is not text: it holds a NUL character", place(at, at + 1))
    open_: list[tuple[str, int]] = []
    tokens: list[re.Match[str]] = []
    for m in _TOKEN.finditer(value):
        tokens.append(m)
        token, kind = m.group(), m.lastgroup
        if len(tokens) > MAX_TOKENS + 1:
            raise error("E0106", f"more than {MAX_TOKENS} words and parentheses", place(m.start(), m.end()))
        if kind == "bracket" and token in _OPENING:
            open_.append((token, m.start()))
            if len(open_) > MAX_DEPTH:
                raise error("E0106", f"nested more than {MAX_DEPTH} deep", place(m.start(), m.end()))
        elif kind == "bracket":
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
        elif kind == "string" and not m["string"]:
            raise error("E0103", "this string is not finished", place(m.start(), m.start() + 1))
        elif kind == "silent" and token.startswith("#|") and (len(token) < 4 or not token.endswith("|#")):
            raise error("E0103", "this comment is not finished", place(m.start(), m.start() + 2))
    if open_:
        opening, at = open_[-1]
        raise error(
            "E0101",
            f"`{opening}` is never closed",
            place(at, at + 1),
            f"note: {len(open_)} more `{_OPENING[opening]}` needed at the end" if len(open_) > 1 else f"expected: `{_OPENING[opening]}`",
        )
    return tokens


def parse(text: Text) -> tuple[Form, ...]:
    """All forms of the text.  Raises SourceError E0101 … E0107."""
    items: list[Form] = []
    open_: list[tuple[str, int, list[Form]]] = []  # bracket, where it stands, the forms before it
    for m in _scan(text):
        token, kind = m.group(), m.lastgroup
        here = Place(text, m.start(), m.end())
        if kind == "word":
            items.append(atom(here, token))
        elif kind == "bracket" and token in _OPENING:
            open_.append((token, here.start, items))
            items = []
        elif kind == "bracket":
            bracket, at, before = open_.pop()
            before.append(List(Place(text, at, here.end), bracket, tuple(items)))
            items = before
        elif kind == "comma":
            items.append(Comma(here))
        elif kind == "string":
            items.append(String(here, re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), token[1:-1], flags=re.S)))
        elif kind == "order":
            items.append(Order(here, tuple(int(n) for n in re.findall(r"\d+", token)), ":strided" in token))
    return tuple(items)
