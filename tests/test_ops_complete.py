"""Every composite of the library is named in a table of independent checks, says in one line what it is, and has sizes to be tested at."""

from __future__ import annotations

import re
from pathlib import Path

from luminal.dsl import read_file
from luminal.dsl.scope import LIBRARY

TABLES = [*sorted(Path(__file__).parent.glob("test_ops_*.py")), Path(__file__).parent / "test_dsl_library.py"]
FILES = sorted(LIBRARY.glob("*/*.toml"))


def test_every_composite_has_an_independent_check() -> None:
    named = set(re.findall(r'"([\w-]+)"', "".join(p.read_text("utf-8") for p in TABLES)))
    assert [p.stem for p in FILES if p.stem not in named] == []
    assert len(FILES) >= 200


def test_every_composite_says_what_it_is() -> None:
    for path in FILES:
        (*_, composite) = read_file(path)
        first = composite.documentation.split("\n")[0]
        assert composite.name == path.stem and composite.test.sizes, path
        assert first.endswith((".", ":", "…")) and len(first) <= 260, f"{path.stem}: the first line of the documentation is its summary, found {first!r}"


def test_names_are_the_library_s_own() -> None:
    """A name stands once: the first file of two in alphabetical order would hide the other."""
    stems = [re.sub(r"[-_]", "", p.stem.lower()) for p in FILES]
    assert sorted(s for s in stems if stems.count(s) > 1) == []
