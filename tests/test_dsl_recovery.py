"""A mistake hides no other: each mistake of tests/errors is put inside a second one, and both are told.

The second one is an unknown operator, keyword or statement, or a wrong number of operands, around what has the first; or another statement of the same body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from luminal.dsl import Instance, Scope, elaborate, read
from luminal.dsl.ast import Composite
from luminal.dsl.sexpr import Form, List
from luminal.ir.errors import Diagnostic, SourceError
from test_dsl_errors import CASES, parts

STATEMENTS = frozenset({"setf", "set", "incf", "decf", "maxf", "minf", "mulcf", "divcf", "return"})
BODIES = frozenset({"dotimes", "loop", "let", "progn", "while", "if"})
# of what a body gives, which is asked once the body is right
RESULT = ("E0301_output", "E0310_leading_axes", "E0311_output", "E0313_rank", "E0603", "E0604_output_read_in_a_loop", "E0606")
# mistakes between a form and what is around it, which the second mistake makes unknown: not inside
BETWEEN = {
    "value": (*RESULT, "E0301_store", "E0313_element", "E0320_scan_in_a_loop", "E0503_no_operator", "E0503_no_tensor", "E0605", "E0607"),
    "statement": (*RESULT, "E0106_list_written_out", "E0106_written_out", "E0602", "E0605", "E0609"),
}


def said(text: str, file: str) -> list[Diagnostic]:
    try:
        composites = read(text, file)
        elaborate(composites[-1], Scope(composites), Instance())
    except SourceError as e:
        return e.diagnostics
    return []


def known(diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    """Code and message; what is unknown may be so as a statement or as an operator."""
    return sorted((d.code, re.sub(r"unknown (statement|operator( or composite)?) ", "unknown ", d.message)) for d in diagnostics)


class Single:
    """A composite with one mistake in its body: its statement and its value form, outermost first, as ranges of the text."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.text = parts(path)[1]
        self.file = path.name
        self.mistakes = said(self.text, self.file)
        self.statement: Form | None = None
        self.value: Form | None = None
        self.in_loop = False
        composite = self._composite()
        if composite is None or len(self.mistakes) != 1:
            return
        span = self.mistakes[0].span
        at = sum(len(line) + 1 for line in self.text.split("\n")[: span.line - 1]) + span.column - 1
        forms: Sequence[Form] = composite.body
        found: Form | None
        while (found := next((f for f in forms if f.place.start <= at < f.place.end), None)) is not None:
            head = (found.head or "").lower() if isinstance(found, List) else ""
            self.statement, self.in_loop = found, self.in_loop or head in ("dotimes", "loop", "while")
            if not isinstance(found, List) or head not in BODIES:
                break
            forms = found.items[1 if head == "progn" else 2 :]
        statement = self.statement
        if isinstance(statement, List) and (statement.head or "").lower() in STATEMENTS:
            operands = statement.items[1:] if (statement.head or "").lower() == "return" else statement.items[2:]
            self.value = next((f for f in operands if isinstance(f, List) and f.place.start <= at < f.place.end), None)

    def _composite(self) -> Composite | None:
        try:
            return read(self.text, self.file)[-1]
        except SourceError:
            return None

    def around(self, form: Form, before: str, after: str) -> str:
        start, end = form.place.start, form.place.end
        return f"{self.text[:start]}{before}{self.text[start:end]}{after}{self.text[end:]}"


AROUND_VALUE = {
    "an unknown operator": ("(zzqq ", ")"),
    "an unknown operator with more operands": ("(zzqq 1 ", " :axis 1)"),
    "an unknown keyword": ("(sum ", " :zzqq 1)"),
    "operands too many": ("(sqrt 1 ", " 1)"),
}
AROUND_STATEMENT = {
    "an unknown statement": ("(zzqq ", ")"),
    "an unknown loop": ("(zzqq (zz 4) ", ")"),
    "an unknown let": ("(zzqq ((zz 4)) ", ")"),
    "beside another": ("(setf zz (zzqq 1)) ", ""),
}


def singles() -> list[Single]:
    return [s for s in map(Single, CASES) if s.file.endswith(".lisp") and s.name.startswith("E") and s.statement is not None]


def pairs() -> Iterator[tuple[Single, str, str]]:
    """(the file, what is put around, the text with both mistakes)."""
    for s in singles():
        for kind, form, table in (("value", s.value, AROUND_VALUE), ("statement", s.statement, AROUND_STATEMENT)):
            if form is not None and not s.name.startswith(BETWEEN[kind]):
                for what, (before, after) in table.items():
                    if what == "an unknown loop" and not s.in_loop:
                        continue
                    yield s, what, s.around(form, before, after)


def test_both_mistakes_are_told() -> None:
    """Word for word what each says alone, and nothing that only follows."""
    untold, count = [], 0
    for single, what, text in pairs():
        found, alone = known(said(text, single.file)), known(single.mistakes)
        count += 1
        if len(found) != 2 or alone[0] not in found:
            untold.append((single.name, what, found))
    print(f"{count - len(untold)} of {count} pairs are told together")
    assert count > 900
    assert untold == []
