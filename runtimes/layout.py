"""Lines of text: where a macro's body goes, how deep a line stands, what may stand in a comment."""

from __future__ import annotations

# What a macro is given as its bodies; a line that is only this is where the statements go.
BODY, ORELSE = "\0body", "\0orelse"


def lines_of(text: str) -> list[str]:
    """The lines that are not empty."""
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def depth_of(line: str) -> tuple[str, int]:
    """A template's line without its indentation, and its level (two spaces each)."""
    stripped = line.lstrip(" ")
    return stripped, (len(line) - len(stripped)) // 2


def segments_of(text: str) -> tuple[list[list[str]], list[int], list[str]]:
    """The lines between the body lines, the levels of those, and which they are."""
    if "\0" not in text:
        return [lines_of(text)], [], []
    segments: list[list[str]] = [[]]
    depths: list[int] = []
    found: list[str] = []
    for line in lines_of(text):
        stripped, depth = depth_of(line)
        if stripped in (BODY, ORELSE):
            segments.append([])
            depths.append(depth)
            found.append(stripped)
        else:
            segments[-1].append(line)
    return segments, depths, found


def comment(text: str) -> str:
    """Text that can stand inside a C comment: neither `*/` nor `/*`, no trigraphs, no line ends but newline, nothing that does not print."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/")
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text.expandtabs(8))
