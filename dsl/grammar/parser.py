"""Reads by the tables that Lark made of the grammar (`tables.py`): the tree that Lark gives, without Lark, which takes longer to import than most composites to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

END = "$END"


class Token(str):
    """A piece of the text, and where it stands there."""

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int


class Tree(NamedTuple):
    """What a rule has read: tokens and trees in order."""

    data: str
    children: Sequence[Any]


class Unexpected(Exception):
    """Nothing that the grammar allows stands at this place."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Tables(NamedTuple):
    """What decides the reading."""

    lexer: str  # a pattern with a group for each kind of token
    ignored: tuple[str, ...]
    rules: tuple[tuple[str, int, bool], ...]  # what each reads, of how many parts, and whether they are a tree of their own
    states: tuple[dict[str, int], ...]  # what is read next → the state after it; -1 - k: rule k has read its parts
    last: int  # the state in which all is read


def tokens(tables: Tables, text: str) -> Iterator[Token]:
    at, match = 0, re.compile(tables.lexer).match
    token = Token()
    token.start_pos = token.end_pos = 0
    while at < len(text):
        found = match(text, at)
        if found is None or found.lastgroup is None:
            raise Unexpected(at)
        if found.lastgroup not in tables.ignored:
            token = Token(found.group())
            token.type, token.start_pos, token.end_pos = found.lastgroup, at, found.end()
            yield token
        at = found.end()
    end = Token()
    end.type, end.start_pos, end.end_pos = END, token.start_pos, token.end_pos
    yield end


def parse(tables: Tables, text: str) -> Tree:
    """The tree of a text; Unexpected where it does not follow the grammar."""
    states: list[int] = [0]
    read: list[list[Any]] = []  # the parts so far, each as the items that it adds to what it is a part of
    for token in tokens(tables, text):
        while True:
            if states[-1] == tables.last and token.type == END:
                return read[-1][0]
            action = tables.states[states[-1]].get(token.type)
            if action is None:
                raise Unexpected(token.start_pos)
            if action >= 0:
                states.append(action)
                read.append([token])
                break
            name, length, tree = tables.rules[-1 - action]
            items: list[Any] = read[-length] if length else []
            for more in read[len(read) - length + 1 :] if length else ():
                items += more
            del read[len(read) - length :], states[len(states) - length :]
            read.append([Tree(name, items)] if tree else items)
            states.append(tables.states[states[-1]][name])
    raise AssertionError("the end is a token")
