"""Names, strings and literals as they are written."""

from __future__ import annotations

import re

from ..dtypes import INDEX, DType
from ..expr import Scalar

# Words that may stand where a name could: a name that is spelled like one of them is quoted.
RESERVED = frozenset((
    "true", "false", "inf", "nan", "index", "draw", "if", "else", "for", "let", "var", "alloc", "array", "shared", "scratch", "stream", "while",
    "region", "barrier", "prefetch", "check", "call", "fail", "operand", "result", "schedule", "note",
))  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_FORM = re.compile(r"(vload|gather|ramp)\.")  # `ramp.8` and `vload.8 A[i]` are forms without parentheses
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
_UNESCAPES = {"n": "\n", "t": "\t"}


def word(name: str) -> str:
    """A name as it is written: bare where nothing else could be meant, else in quotes."""
    return name if _NAME.fullmatch(name) and name not in RESERVED and not _FORM.match(name) else quoted(name)


def quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text) + '"'


def unquoted(token: str) -> str:
    """The text of a quoted string, quotes included in `token`; ValueError for an escape that means no character."""

    def one(m: re.Match[str]) -> str:
        return chr(int(m[1], 16)) if m[1] else _UNESCAPES.get(m[2], m[2])

    return re.sub(r"\\(?:u\{([0-9a-fA-F]+)\}|(.))", one, token[1:-1])


def plain(value: Scalar) -> str:
    """A literal whose Python type says what it is: `true`, `3`, `3.0`, `-inf`."""
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def literal(value: Scalar, dtype: DType) -> str:
    """A literal with its dtype; i64 and bool need none."""
    text = plain(value)
    return text if dtype is INDEX or dtype.name == "bool" else f"{text}:{dtype.name}"
