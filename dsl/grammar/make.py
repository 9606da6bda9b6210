"""dsl/grammar/tables.py, made from `sexpr.lark`: `python -m luminal.dsl.grammar.make` prints it.

Lark finds the states of its parser anew in each process, which took longer than reading and elaborating most composites, and so does importing it; so they are found once, kept beside the grammar, and
read by without it (`parser.py`).
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from .parser import Tables

GRAMMAR = Path(__file__).parent / "sexpr.lark"
HEAD = '''"""The parser's tables: `python -m luminal.dsl.grammar.make` (or `make tables`) makes them from `sexpr.lark`."""

from .parser import Tables

# fmt: off
'''


def grammar() -> str:
    return GRAMMAR.read_text("utf-8")


def made_of(text: str) -> str:
    """What decides the tables."""
    return sha256(text.encode()).hexdigest()


def from_grammar(text: str) -> Any:
    """The parser that Lark makes of a grammar."""
    from lark import Lark

    return Lark(text, parser="lalr", lexer="basic", maybe_placeholders=False)


def tables(parser: Any) -> Tables:
    """What a parser of Lark's goes by, its states numbered as they are reached: the same in every process."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = parser.memo_serialize([TerminalDef, Rule])
    found = data["parser"]["parser"]
    rules: list[int] = [r["@"] for r in data["rules"]]
    names: dict[int, str] = found["tokens"]
    start = found["start_states"]["start"]
    numbers: dict[int, int] = {start: 0}
    order: list[int] = [start]
    states: list[dict[str, int]] = []
    for state in order:
        row: dict[str, int] = {}
        for name, (reduces, to) in sorted((names[t], action) for t, action in found["states"][state].items()):
            if not reduces and to not in numbers:
                numbers[to] = len(order)
                order.append(to)
            row[name] = -1 - rules.index(to["@"]) if reduces else numbers[to]
        states.append(row)
    return Tables(
        lexer="|".join(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in parser.parser.lexer.terminals),
        ignored=tuple(data["parser"]["lexer_conf"]["ignore"]),
        rules=tuple(_rule(memo[k]) for k in rules),
        states=tuple(states),
        last=numbers[found["end_states"]["start"]],
    )


def _rule(told: dict[str, Any]) -> tuple[str, int, bool]:
    """A rule whose name begins with `_`, and one of a single part that says so, leaves its parts to what it is a part of; none of this grammar's drops tokens."""
    name, parts = told["origin"]["name"], told["expansion"]
    assert told["alias"] is None and not any(p.get("filter_out") for p in parts)
    return name, len(parts), not (name.startswith("_") or (told["options"]["expand1"] and len(parts) == 1))


def page() -> str:
    """The text of `tables.py`."""
    from lark import __version__

    text = grammar()
    made = tables(from_grammar(text))
    lines = [f"MADE_BY = {__version__!r}", f"MADE_OF = {made_of(text)!r}", "TABLES = Tables("]
    for name, value in made._asdict().items():
        rows = value if name in ("rules", "states") else ()
        lines += [f"    {name}=(", *(f"        {row!r}," for row in rows), "    ),"] if rows else [f"    {name}={value!r},"]
    return "\n".join((HEAD, *lines, ")", ""))


if __name__ == "__main__":
    sys.stdout.write(page())
