"""Spellings of `runtime.toml` as pieces with precedences, so that expressions get the parentheses they need and no more."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

# C's precedence levels.
ANY, TERNARY, OR, AND, EQUAL, COMPARE, SHIFT, ADD, MUL, UNARY, POSTFIX = 0, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15
_BINARY = {
    "*": MUL, "/": MUL, "%": MUL, "+": ADD, "-": ADD, "<<": SHIFT, ">>": SHIFT, "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE,
    "==": EQUAL, "!=": EQUAL, "&": 8, "^": 7, "|": 6, "&&": AND, "||": OR,
}  # fmt: skip
_HOLE = re.compile(r"\{(\w+)\}")


class Text(NamedTuple):
    """A rendered expression."""

    text: str
    level: int  # precedence of its outermost operator
    mask: int = 0  # a vector of bools: bits of a lane of the mask; ANY_MASK where a scalar bool stands for all lanes

    def within(self, need: Need) -> str:
        return self.text if self.level >= need.level or self.level == need.same else f"({self.text})"


class Need(NamedTuple):
    """What a hole accepts without parentheses: this level or a tighter one, or exactly the level `same`."""

    level: int
    same: int = -1


ANY_MASK = -1
ARGUMENT = Need(ANY)


class Hole(NamedTuple):
    field: str
    operand: int | None  # its number, where the field is one
    need: Need
    after: str  # the text up to the next hole


class Spelling(NamedTuple):
    """A spelling cut at its holes."""

    first: str  # the text before them
    holes: tuple[Hole, ...]
    level: int
    operator: str = ""  # where it is `{0} operator {1}`


def _cut(literals: tuple[str, ...], fields: tuple[str, ...], needs: tuple[Need, ...], level: int, operator: str = "") -> Spelling:
    """`literals[k] field[k] literals[k+1]` …"""
    holes = [Hole(f, int(f) if f.isdecimal() else None, n, after) for f, n, after in zip(fields, needs, literals[1:], strict=True)]
    return Spelling(literals[0], tuple(holes), level, operator)


@cache
def parse(text: str) -> Spelling:
    """The pieces of a spelling.  `{0} op {1}`, `op{0}`, `({T}){0}`, `{0} ? {1} : {2}` are understood as C; in any other text a hole between brackets
    or commas takes anything, every other hole takes a primary, and the whole is a primary if it ends as a call or an index does."""
    pieces = _HOLE.split(text)
    literals, holes = tuple(pieces[0::2]), tuple(pieces[1::2])
    binary = re.fullmatch(r"\{[01]\} (\S+) \{[01]\}", text)
    if binary and binary[1] in _BINARY:
        needs, level = _binary(binary[1])
        return _cut(literals, holes, needs, level, binary[1])
    if re.fullmatch(r"\{0\} \? \{1\} : \{2\}", text):
        return _cut(literals, holes, (Need(OR), Need(ANY), Need(TERNARY)), TERNARY)
    if re.fullmatch(r"[-!~]\{0\}|\(\{T\}\)\{0\}|\(\w+\)\{0\}", text):
        return _cut(literals, holes, tuple(Need(UNARY) for _ in holes), UNARY)
    comparison = re.fullmatch(r"\{0\} (==|!=|<|>|<=|>=) [\w.]+", text)
    if comparison:
        return _cut(literals, holes, (_binary(comparison[1])[0][0],), _BINARY[comparison[1]])
    delimited = [
        Need(ANY) if literals[k].rstrip()[-1:] in ("(", ",", "[") and literals[k + 1].lstrip()[:1] in (")", ",", "]") else Need(POSTFIX)
        for k in range(len(holes))
    ]
    closed = re.fullmatch(r"[@\w{}:]*\(.*\)|[\w{}]+\[.*\]|\w+|\{\w+\}", text) is not None and _balanced(text)
    return _cut(literals, holes, tuple(delimited), POSTFIX if closed else ANY)


def _binary(op: str) -> tuple[tuple[Need, Need], int]:
    level = _BINARY[op]
    if op in ("&", "|", "^"):
        # C's own precedences are right here but nobody remembers them (and compilers warn)
        return (Need(UNARY, level), Need(UNARY, level)), level
    if op in ("&&", "||"):
        return (Need(AND + 1, level), Need(AND + 1, level)), level
    if level in (COMPARE, EQUAL):
        return (Need(SHIFT), Need(SHIFT)), level
    if level == SHIFT:
        return (Need(UNARY), Need(UNARY)), level
    return (Need(level), Need(level + 1)), level


def _balanced(text: str) -> bool:
    """Whether the first bracket closes at the very end: `f(a)` but not `f(a)(b) + (c)`."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c in ")]" and k != len(text) - 1:
            return False
    return True
