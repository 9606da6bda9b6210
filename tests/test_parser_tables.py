"""The parser's tables are those of the grammar, and what reads by them reads as a parser does that Lark has just made."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import lark
import pytest
from lark.exceptions import UnexpectedInput
from luminal.dsl import sexpr
from luminal.dsl.grammar import make, parser, tables
from luminal.dsl.grammar.parser import Tables

ROOT = Path(__file__).parent.parent
TEXTS = [
    '(a \'(1 -2) .5 :Axis "x\\"y" ; comment )\n #| (b |# c <0 1 :strided> <= -)',
    "",
    "X <1, 0 :strided>y <> <1 [a b]{T}",
    "'q ()[]{} #|e|#f#|g|#",
]


def made_anew() -> Any:
    return make.from_grammar(make.grammar())


def used() -> Tables:
    """What a new process reads by."""
    return sexpr._tables.__wrapped__()


def shape(node: Any) -> Any:
    """A tree as plain values, each token with its kind and its place."""
    if hasattr(node, "children"):
        return str(node.data), [shape(x) for x in node.children]
    return node.type, str(node), node.start_pos, node.end_pos


def test_the_tables_are_those_of_the_grammar() -> None:
    assert make.made_of(make.grammar()) == tables.MADE_OF, "make tables"
    if lark.__version__ == tables.MADE_BY:  # another Lark may say it in another way
        assert make.tables(made_anew()) == tables.TABLES, "make tables"


def test_lark_is_not_imported() -> None:
    program = "import sys; from luminal.dsl import sexpr, source; sexpr.parse(source.Text(source.Source('x', '(a b)'), '(a b)')); assert 'lark' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_tables_of_another_grammar_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", {})
    monkeypatch.setattr(tables, "MADE_OF", "another")
    assert len(parser.parse(used(), "(a b) c").children) == 2


def test_both_parsers_read_the_same() -> None:
    texts = [*TEXTS, *(tomllib.loads(p.read_text("utf-8")).get("implementation", {}).get("code", "") for p in sorted(ROOT.glob("samples/*.toml")))]
    new = made_anew()
    for text in texts:
        assert shape(parser.parse(used(), text)) == shape(new.parse(text)), text


@pytest.mark.parametrize("text", ["(a", "a)", "(a]", "[}", '(a "b)', "{ (a }", ")", 'a b (c (d) "e'])
def test_both_parsers_stop_at_the_same_place(text: str) -> None:
    with pytest.raises(UnexpectedInput) as of_lark:
        made_anew().parse(text)
    with pytest.raises(parser.Unexpected) as ours:
        parser.parse(used(), text)
    assert ours.value.at == of_lark.value.pos_in_stream
