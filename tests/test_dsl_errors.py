"""Every diagnostic, word for word: one source in tests/errors/ each, which begins with what is said of it, as comments.

`python tests/test_dsl_errors.py` rewrites those comments (read the difference before you commit it); a new file needs none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from luminal.dsl import Instance, Scope, elaborate, read, render_diagnostics
from luminal.dsl.codes import CODES
from luminal.ir.errors import Diagnostic, SourceError
from luminal.ir.text import read_valid

FOLDER = Path(__file__).parent / "errors"
CASES = sorted(p for p in FOLDER.iterdir() if not p.name.startswith("."))
MARKS = {".lisp": ";", ".toml": "#", ".graph": "#"}  # how a comment starts


def parts(path: Path) -> tuple[str, str]:
    """(what the head of the file says, the rest); the head is there where its first line holds a code."""
    text, mark = path.read_text("utf-8"), MARKS[path.suffix]
    match = re.match(rf"(?:{mark}.*\n)+\n", text)
    if match is None or not re.match(rf"{mark} \S+: (error|warning)\[", text):
        return "", text
    return re.sub(rf"^{mark} ?", "", match[0], flags=re.M).rstrip("\n") + "\n", text[match.end() :]


def with_head(path: Path, said: str, source: str) -> str:
    mark = MARKS[path.suffix]
    return "".join(f"{mark} {line}\n" for line in said.splitlines()) + "\n" + source


def said_of(path: Path, text: str) -> str:
    """What a user sees of the last composite of a file: errors, else warnings."""
    found: list[Diagnostic] = []
    try:
        if path.suffix == ".graph":
            read_valid(text, path.name)
        composites = read(text, path.name)
        elaborate(composites[-1], Scope(composites), Instance(), found)
    except SourceError as e:
        found = e.diagnostics
    return render_diagnostics(found) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_message(path: Path) -> None:
    expected, _ = parts(path)
    assert said_of(path, path.read_text("utf-8")) == expected
    if path.stem[1:5].isdigit():
        assert f"[{path.stem[:5]}]" in expected


def test_every_code_is_explained_and_shown() -> None:
    """A code that the sources raise stands in the table, and every code of the table is shown by a file here."""
    root = Path(__file__).parent.parent
    raised = {c for p in [*(root / "dsl").glob("*.py"), *(root / "ir").glob("*.py")] for c in re.findall(r'"([EW]\d{4})"', p.read_text("utf-8"))}
    assert raised - CODES.keys() == set()
    assert {p.stem[:5] for p in CASES if p.stem[1:5].isdigit()} == CODES.keys()


def test_how_many_there_are() -> None:
    """Messages that differ in more than names and numbers."""
    found = [re.search(r"(?:error|warning)(\[\w+\]: .*)", parts(path)[0]) for path in CASES]
    assert len({re.sub(r"`[^`]*`|\d+", "_", m[1]) for m in found if m}) >= 150


def bless(path: Path) -> None:
    """The head takes room, and what is said holds line numbers: again until it settles."""
    _, source = parts(path)
    text = source
    for _ in range(3):
        text = with_head(path, said_of(path, text), source)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    for case in CASES:
        bless(case)
