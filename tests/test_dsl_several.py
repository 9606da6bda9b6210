"""Several mistakes at once: each is told, at its place, and nothing that only follows from one.

The composites of docs/language.md are misspelt: one word, then two, become one that nothing is known by.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from luminal.dsl import Instance, Scope, elaborate, read
from luminal.ir.errors import SourceError

SEED = 20261121
WORD = "zzqq"
BOUND = r"\((?:setf?|dotimes|loop|given|make-array|incf|decf|maxf|minf) \(?$|\(\(?$|\(values [\w ]*$|:[\w-]+ $|\(let \(.*$"  # behind this a name is made, or a bare word stands
KNOWN = frozenset({"t", "nil", "pi", "where", "to", *["f16", "f32", "f64", "i32", "i64", "c64", "T"]})


def said(text: str) -> list[tuple[int, int]]:
    """Where mistakes are found, line and column."""
    found: list[tuple[int, int]] = []
    try:
        composites = read(text, "a.lisp")
    except SourceError as e:
        return [(d.span.line, d.span.column) for d in e.diagnostics]
    for c in composites:
        try:
            elaborate(c, Scope(composites), Instance())
        except SourceError as e:
            found += [(d.span.line, d.span.column) for d in e.diagnostics]
    return found


def bodies() -> list[str]:
    """One composite each, that is right as it stands."""
    page = (Path(__file__).parent.parent / "docs" / "language.md").read_text("utf-8")
    blocks = re.findall(r"```lisp\n(.*?)```", page, re.DOTALL)
    texts = [t for b in blocks for t in re.split(r"\n\n(?=\(composite)", b) if t.startswith("(composite")]
    return [t for t in texts if not said(t)]


def words(text: str) -> list[tuple[int, int]]:
    """Names and heads that are used in the body, each with its end.  In the first line stand the ports."""
    found = []
    for m in re.finditer(r"(?<=[\s(])[A-Za-z][\w-]*(?=[\s)])", text):
        line = text[text.rfind("\n", 0, m.start()) + 1 : m.start()]
        head = line.endswith("(") and not re.search(r"\((?:dotimes|loop|let) \($|\(\($|\((?:setf|incf) \($", line)
        if "\n" not in text[: m.start()] or line.lstrip().startswith('"') or (m[0] in KNOWN and not head):
            continue
        behind = "(given " in text[: m.start()] or "(if (=" in text[: m.start()]  # a branch that is not taken is not looked at
        if not behind and (head or not re.search(BOUND, line)):
            found.append((m.start(), m.end()))
    return found


def misspelt(text: str, *where: tuple[int, int]) -> tuple[str, list[tuple[int, int]]]:
    """The text with other words there, and their lines and columns."""
    places = []
    for start, end in sorted(where, reverse=True):
        text = text[:start] + WORD + text[end:]
    for m in re.finditer(WORD, text):
        places.append((text.count("\n", 0, m.start()) + 1, m.start() - text.rfind("\n", 0, m.start())))
    return text, places


TEXTS = bodies()


@pytest.mark.parametrize("text", TEXTS, ids=[re.findall(r"composite ([\w-]*)", t)[0] or "unnamed" for t in TEXTS])
def test_one_mistake_is_one_diagnostic(text: str) -> None:
    for word in words(text):
        wrong, places = misspelt(text, word)
        assert sorted(said(wrong)) == places, wrong


def test_two_mistakes() -> None:
    """In two operands of one statement, in two statements, or one inside what the other misspells: both are told."""
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    tried = 0
    for text in TEXTS:
        found = words(text)
        for _ in range(6 if len(found) > 1 else 0):
            first, second = sorted(rng.choice(len(found), 2, replace=False))
            wrong, places = misspelt(text, found[first], found[second])
            tried += 1
            assert sorted(said(wrong)) == places, wrong
    print(f"{tried} pairs are told together")
    assert tried > 200
