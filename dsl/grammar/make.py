"""dsl/grammar/tables.py, made from `sexpr.lark`: `python -m luminal.dsl.grammar.make` prints it.

Lark finds the states of its parser anew in each process, which took longer than reading and elaborating most composites; so they are found once, and kept beside the grammar.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

GRAMMAR = Path(__file__).parent / "sexpr.lark"
UNBOUNDED = 2**32 - 1  # the width of a pattern that has no end: Pythons have several
HEAD = '''"""The parser's tables: `python -m luminal.dsl.grammar.make` (or `make tables`) makes them from `sexpr.lark`."""

# fmt: off
'''


def grammar() -> str:
    return GRAMMAR.read_text("utf-8")


def made_of(text: str) -> tuple[str, str]:
    """What decides the tables: the version of Lark, and the grammar."""
    from lark import __version__

    return __version__, sha256(text.encode()).hexdigest()


def from_grammar(text: str) -> Any:
    """The parser that Lark makes of a grammar."""
    from lark import Lark

    return Lark(text, parser="lalr", lexer="basic", maybe_placeholders=False)


def tables(parser: Any) -> dict[str, Any]:
    """What `Lark.save` would write, with its states numbered as they are reached and its tokens by name: the same in every process."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = parser.memo_serialize([TerminalDef, Rule])
    found = data["parser"]["parser"]
    tokens: dict[int, str] = found["tokens"]
    names = sorted(tokens.values())
    start = found["start_states"]["start"]
    numbers: dict[int, int] = {start: 0}
    order: list[int] = [start]
    states: dict[int, dict[int, tuple[int, Any]]] = {}
    for state in order:
        actions = {names.index(tokens[t]): action for t, action in found["states"][state].items()}
        row: dict[int, tuple[int, Any]] = {}
        for token, (reduces, to) in sorted(actions.items()):
            if not reduces and to not in numbers:
                numbers[to] = len(order)
                order.append(to)
            row[token] = (reduces, to if reduces else numbers[to])
        states[numbers[state]] = row
    data["parser"]["parser"] = {
        "tokens": dict(enumerate(names)),
        "states": states,
        "start_states": {"start": 0},
        "end_states": {"start": numbers[found["end_states"]["start"]]},
    }
    for told in memo.values():
        width = told.get("pattern", {}).get("_width")
        if width:
            width[:] = (min(n, UNBOUNDED) for n in width)
    return {"data": data, "memo": memo}


def page() -> str:
    """The text of `tables.py`."""
    from pprint import pformat

    text = grammar()
    literal = pformat(tables(from_grammar(text)), width=200, compact=True)
    return f"{HEAD}\nMADE_OF = {made_of(text)!r}\nTABLES = {literal}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
