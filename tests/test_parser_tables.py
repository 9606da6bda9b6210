"""The parser's tables are those of the grammar, and read as a parser does that Lark has just made."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from luminal.dsl import sexpr
from luminal.dsl.grammar import make, tables

ROOT = Path(__file__).parent.parent
TEXTS = [
    '(a \'(1 -2) .5 :Axis "x\\"y" ; comment )\n #| (b |# c <0 1 :strided> <= -)',
    "",
    "X <1, 0 :strided>y <> <1 [a b]{T}",
    "'q ()[]{} #|e|#f#|g|#",
]


def made_anew() -> Any:
    return make.from_grammar(make.grammar())


def parser() -> Any:
    """What a new process reads with."""
    return sexpr._lark.__wrapped__()


def test_the_tables_are_those_of_the_grammar() -> None:
    lark, grammar = make.made_of(make.grammar())
    assert grammar == tables.MADE_OF[1], "make tables"
    if lark == tables.MADE_OF[0]:  # another Lark may say it in another way
        assert make.tables(made_anew()) == tables.TABLES, "make tables"


def test_nothing_is_found_again_where_the_tables_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MADE_OF", make.made_of(make.grammar()))
    monkeypatch.setattr(make, "from_grammar", lambda text: pytest.fail("Lark was asked"))
    assert len(parser().parse("(a b) c").children) == 2


def test_tables_of_another_lark_or_grammar_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", {})
    for other in (("0", make.made_of(make.grammar())[1]), (make.made_of(make.grammar())[0], "another")):
        monkeypatch.setattr(tables, "MADE_OF", other)
        assert len(parser().parse("(a b) c").children) == 2


def test_both_parsers_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, *(tomllib.loads(p.read_text("utf-8")).get("implementation", {}).get("code", "") for p in sorted(ROOT.glob("samples/*.toml")))]
    monkeypatch.setattr(tables, "MADE_OF", make.made_of(make.grammar()))
    kept, new = parser(), made_anew()
    for text in texts:
        assert kept.parse(text) == new.parse(text), text
        assert [(t.type, t.start_pos, t.end_pos) for t in kept.lex(text)] == [(t.type, t.start_pos, t.end_pos) for t in new.lex(text)]
