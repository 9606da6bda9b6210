"""TOML with the place of every value.  tomli reads; tree-sitter says where the values stand (tomli gives places of errors only)."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from ..ir.record import individual
from .diagnostics import LIMIT, Collector, nearest, shorten
from .source import Place, Text, diagnostic, error, whole

MAX_CHARACTERS = 1 << 20
Path = tuple[str | int, ...]
KEY = -1  # behind a path: the key itself, not its value


@individual
class Document:
    """A TOML file: `value` as Python data, places and strings by path, as in ("composite", "inputs", 0)."""

    text: Text
    value: dict[str, Any]

    @cached_property
    def _ranges(self) -> dict[Path, tuple[int, int]]:
        return _locate(self.text.value)

    def place(self, path: Path) -> Place:
        """Of a value; of its nearest enclosing one where the file has none at that path (a key that is missing)."""
        for end in range(len(path), -1, -1):
            found = self._ranges.get(path[:end])
            if found:
                return Place(self.text, *found)
        return Place(self.text, 0, 1)

    def string(self, path: Path) -> Text:
        """The decoded text of a string value, with the map of its characters to the file."""
        value: Any = self.value
        for key in path:
            value = value[key]
        start, end = self._ranges.get(path, (0, 0))
        return Text(self.text.source, value, _pieces(self.text.value, start, end))


def load(file: str, text: str) -> Document:
    """Raises SourceError: E0106 too large or nested too deeply, E0107 not text, E0108 not TOML."""
    import tomli

    content = whole(file, text)
    if len(text) > MAX_CHARACTERS:
        raise error("E0106", f"a file of {len(text)} characters; at most {MAX_CHARACTERS} are allowed", Place(content, 0, 1))
    try:
        return Document(content, tomli.loads(text))
    except tomli.TOMLDecodeError as e:
        raise error("E0108", f"this is not TOML: {_words(e.msg)}", _stopped(content, e.msg, e.pos)) from None
    except RecursionError:
        raise error("E0106", "TOML arrays or tables are nested too deeply", Place(content, 0, 1)) from None


def _stopped(text: Text, message: str, at: int) -> Place:
    """Where the reader stopped; of what is there for the second time, the whole line."""
    at = min(at, max(0, len(text.value) - 1))
    if message.startswith("Cannot "):
        line = text.value.rfind("\n", 0, at) + 1
        return Place(text, line, max(line + 1, at))
    return Place(text, at, at + 1)


def _words(message: str) -> str:
    """The reader's message, with keys as a user writes them in place of Python's tuples."""
    message = re.sub(r"\(('[^()]*',?)\)", lambda m: "`" + ".".join(re.findall(r"'([^']*)'", m[1])) + "`", message)
    return message[:1].lower() + message[1:]


class Fields:
    """Strict reading of one table: every key is asked for by name, what was not asked for is an error."""

    def __init__(self, document: Document, path: Path, collector: Collector) -> None:
        self.document, self.path, self.collector = document, path, collector
        value: Any = document.value
        for key in path:
            value = value[key]
        self.value: dict[str, Any] = value
        self.known: list[str] = []

    def get(self, key: str, *kinds: type, required: bool = False) -> Any:
        """The value where it has one of these Python types; None (and a diagnostic, where that is a mistake) otherwise."""
        self.known.append(key)
        path = (*self.path, key)
        if key not in self.value:
            if required:
                self._report("E0110", f"`{key}` is missing in [{_dotted(self.path)}]", self.path)
            return None
        value = self.value[key]
        if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
            return value
        expected = " or ".join(_KIND[k] for k in kinds)
        self._report("E0111", f"`{key}` is {_KIND.get(type(value), 'a date')}", path, f"expected: {expected}")
        return None

    def items(self, key: str, kind: type, required: bool = False) -> list[tuple[Path, Any]]:
        """The elements of a list that have this type."""
        found = []
        for k, value in enumerate(self.get(key, list, required=required) or ()):
            path = (*self.path, key, k)
            if isinstance(value, kind):
                found.append((path, value))
            else:
                self._report("E0111", f"an element of `{key}` is {_KIND.get(type(value), 'a date')}", path, f"expected: {_KIND[kind]}")
        return found

    def table(self, key: str) -> Fields | None:
        return None if self.get(key, dict) is None else Fields(self.document, (*self.path, key), self.collector)

    def finish(self) -> None:
        """Report the keys that nobody asked for."""
        unknown = [key for key in self.value if key not in self.known]
        for key in unknown[:LIMIT]:  # more are not shown anyway
            where = f" in [{_dotted(self.path)}]" if self.path else ""
            help_ = nearest(key, self.known) or (f"expected: {', '.join(self.known)}",)
            self._report("E0109", f"unknown key `{shorten(key)}`{where}", (*self.path, key, KEY), *help_)

    def _report(self, code: str, message: str, path: Path, *notes: str) -> None:
        self.collector.add(diagnostic(code, message, self.document.place(path), *notes))


_KIND = {str: "a string", int: "an integer", float: "a float", bool: "a boolean", list: "a list", dict: "a table"}


def _dotted(path: Path) -> str:
    return ".".join(str(p) for p in path if isinstance(p, str))


# ---- places


def _locate(text: str) -> dict[Path, tuple[int, int]]:
    """Every value's path → [start, end) in characters; tables stand at their headers, pairs in inline tables at their values."""
    import tree_sitter
    import tree_sitter_toml

    data = text.encode()
    ascii_ = len(data) == len(text)

    def chars(offset: int) -> int:
        return offset if ascii_ else len(data[:offset].decode(errors="ignore"))

    ranges: dict[Path, tuple[int, int]] = {}
    counts: dict[Path, int] = {}

    def note(path: Path, node: Any) -> None:
        ranges.setdefault(path, (chars(node.start_byte), chars(node.end_byte)))

    def keys(node: Any) -> Path:
        """bare, quoted or dotted; a dotted key nests to the left, so it is unrolled."""
        words: list[str] = []
        stack = [node]
        while stack:
            n = stack.pop()
            if n.type == "dotted_key":
                stack.extend(c for c in reversed(n.children) if c.type != ".")
            else:
                word = data[n.start_byte : n.end_byte].decode(errors="replace")
                words.append(word[1:-1] if n.type == "quoted_key" else word)
        return tuple(words)

    def header(node: Any) -> Path:
        """The path of a [table] or [[element]], through the elements of the arrays that it extends."""
        path: Path = ()
        words = keys(node.children[1])
        for k, word in enumerate(words):
            path = (*path, word)
            last = k == len(words) - 1
            if last and node.type == "table_array_element":
                counts[path] = counts.get(path, -1) + 1
            if path in counts:
                path = (*path, counts[path])
        note(path, node.children[1])
        return path

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
    stack: list[tuple[Any, Path]] = [(parser.parse(data).root_node, ())]
    while stack:
        node, path = stack.pop()
        if node.type in ("document", "inline_table"):
            stack.extend((c, path) for c in reversed(node.children))
        elif node.type in ("table", "table_array_element"):
            inner = header(node)
            stack.extend((c, inner) for c in reversed(node.children) if c.type == "pair")
        elif node.type == "pair":
            inner = (*path, *keys(node.children[0]))
            note(inner, node.children[-1])
            note((*inner, KEY), node.children[0])
            stack.append((node.children[-1], inner))
        elif node.type == "array":
            values = [c for c in node.named_children if c.type != "comment"]
            for k, c in enumerate(values):
                note((*path, k), c)
                stack.append((c, (*path, k)))
    return ranges


_ESCAPE = re.compile(r"\\(?:[ \t]*\n\s*|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.S)


def _pieces(text: str, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """How the characters of a decoded TOML string correspond to the file's: one more piece behind every escape."""
    quote = text[start : start + 3] if text[start : start + 3] in ('"""', "'''") else text[start : start + 1]
    first, last = start + len(quote), end - len(quote)
    if len(quote) == 3 and text[first : first + 1] == "\n":
        first += 1
    pieces = [(0, first)]
    if quote.startswith('"'):
        for m in _ESCAPE.finditer(text, first, max(first, last)):
            value, place = pieces[-1]
            decoded = 0 if m.group()[1] in " \t\n" else 1
            pieces.append((value + m.start() - place + decoded, m.end()))
    return tuple(pieces)
