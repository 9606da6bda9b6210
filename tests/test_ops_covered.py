"""Every composite of the library has a name of its own and stands in a table of checks against somebody else's definition."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from luminal.dsl import read_file
from luminal.dsl.names import fold
from luminal.dsl.scope import LIBRARY

HERE = Path(__file__).parent
TABLES = [*sorted(HERE.glob("test_ops_*.py")), HERE / "test_dsl_library.py", HERE / "test_dsl_convolution.py"]


def test_every_composite_is_checked() -> None:
    named = {word for path in TABLES for word in re.findall(r'"(\w+)"', path.read_text("utf-8"))}
    assert [p.stem for p in sorted(LIBRARY.glob("*/*.toml")) if p.stem not in named] == []


def test_names_are_found_in_one_place() -> None:
    """A call folds case, `-` and `_`; a composite that stands before another in the alphabet would hide it."""
    count = Counter(fold(p.stem) for p in LIBRARY.glob("*/*.toml"))
    assert [name for name, times in count.items() if times > 1] == []


def test_every_composite_says_what_it_is() -> None:
    """The first line of its documentation is what lists show."""
    for path in sorted(LIBRARY.glob("*/*.toml")):
        composite = read_file(path)[-1]
        first = composite.documentation.split("\n")[0]
        assert composite.name == path.stem and composite.test.sizes, path
        assert first.endswith((".", ":", "…")) and len(first) <= 260, f"{path.stem}: {first!r}"
