"""Every diagnostic, word for word: one file in tests/errors/ each, a source and what is said about it.

`python tests/test_dsl_errors.py` rewrites what is expected (read the difference before you commit it).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from luminal.dsl import Instance, Scope, elaborate, read, render_diagnostics
from luminal.ir.errors import Diagnostic, SourceError
from luminal.ir.text import read_valid

FOLDER = Path(__file__).parent / "errors"
CASES = sorted(FOLDER.glob("*.txt"))


def parts(path: Path) -> tuple[str, str, str]:
    """(file name, source, expected)"""
    match = re.fullmatch(r"--- (\S+)\n(.*?)--- expected\n(.*)", path.read_text("utf-8"), re.S)
    assert match, path
    return match[1], match[2].rstrip("\n") + "\n", match[3]


def said(file: str, source: str) -> str:
    """What a user sees of the last composite of a file: errors, else warnings."""
    warnings: list[Diagnostic] = []
    try:
        if file.endswith(".graph"):
            read_valid(source, file)
        composites = read(source, file)
        elaborate(composites[-1], Scope(composites), Instance(), warnings)
    except SourceError as e:
        warnings = e.diagnostics
    return render_diagnostics(warnings) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_message(path: Path) -> None:
    file, source, expected = parts(path)
    assert said(file, source) == expected
    if path.stem[1:5].isdigit():
        assert f"[{path.stem[:5]}]" in expected


def test_every_code_is_explained_and_shown() -> None:
    """A code that the sources raise stands in the table, and every code of the table is shown by a file here."""
    from luminal.dsl.codes import CODES

    root = Path(__file__).parent.parent
    raised = {c for p in [*(root / "dsl").glob("*.py"), *(root / "ir").glob("*.py")] for c in re.findall(r'"([EW]\d{4})"', p.read_text("utf-8"))}
    shown = {p.stem[:5] for p in CASES}
    assert raised - CODES.keys() == set()
    assert shown - {"sever"} == CODES.keys()


def test_how_many_there_are() -> None:
    """Messages that differ in more than names and numbers."""
    first = [re.search(r"(?:error|warning)(\[\w+\]: .*)", parts(path)[2]) for path in CASES]
    assert len({re.sub(r"`[^`]*`|\d+", "_", m[1]) for m in first if m}) >= 150


if __name__ == "__main__":
    for case in CASES:
        name, text, _ = parts(case)
        case.write_text(f"--- {name}\n{text}--- expected\n{said(name, text)}", "utf-8")
