"""Rewrite rules as data: two terms and the kinds of dtypes for which they mean the same.

    rule     ::= Rule("(add x 0)", "x", "integer")
    term     ::= NAME | LITERAL | "(" operator term… ")"

A name matches any operand, the same name twice the same operand; a literal matches a constant of exactly that value (`0` is not `-0`); an operator matches
a node that is read without a mask.  Operands of a commutative operator match in either order.  `kind`: any number signed integer float bool,
of the (last) operand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from math import copysign
from typing import NamedTuple

from ...ir.dtypes import DType
from ...ir.expr import axis, const
from ...ir.graph import Node, Shape, View, const_node, elementwise
from ...ir.primops import COMMUTATIVE

Term = str | tuple["Term", ...]
Bound = dict[str, View]


class Rule(NamedTuple):
    pattern: str
    replacement: str
    kind: str = "any"

    @property
    def head(self) -> str:
        """The operator that the rule rewrites."""
        return parsed(self.pattern)[0]  # type: ignore[return-value]

    def admits(self, d: DType) -> bool:
        match self.kind:
            case "any":
                return True
            case "number":
                return d.is_float or d.is_integer
            case "integer":
                return d.is_integer
            case "signed":
                return d.is_float or d.kind == "int"
            case kind:
                return d.kind == kind


@cache
def parsed(text: str) -> Term:
    """A term as nested tuples of words."""
    stack: list[list[Term]] = [[]]
    for word in re.findall(r"[()]|[^\s()]+", text):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0][0]


_WORDS = {"true": True, "false": False, "inf": float("inf"), "-inf": float("-inf")}


def literal(word: str) -> int | float | bool | None:
    """The value of a literal, None for a name."""
    if word in _WORDS:
        return _WORDS[word]
    return float(word) if re.fullmatch(r"-?\d+(\.\d+)?", word) else None


def through(outer: View, inner: View) -> View | None:
    """What `outer` reads of a node that is itself the view `inner`; None where two masks have different fills."""
    moved = inner.through(outer.places)
    if outer.domain is None:
        return moved
    if moved.domain is None:
        return View(moved.node, moved.index, outer.domain, outer.fill)
    if same_value(outer.fill, inner.fill):
        from ...ir.expr import both

        return View(moved.node, moved.index, both(outer.domain, moved.domain), outer.fill)
    return None


def same_value(a: float, b: float) -> bool:
    """Equal as literals: NaN is itself, 0 and -0 differ."""
    return (a == b and copysign(1, a) == copysign(1, b)) or (a != a and b != b)


def match(pattern: Term, node: Node) -> Bound | None:
    """What the names of a pattern stand for in `node` (views over its domain), or None."""
    assert isinstance(pattern, tuple)
    options: list[Bound] = [{}]
    return next(iter(_operands(pattern, node, node.args, options)), None)


def _operands(pattern: tuple[Term, ...], node: Node, args: Sequence[View], options: list[Bound]) -> list[Bound]:
    """All ways to extend the bindings so that the node matches."""
    if pattern[0] != node.op or len(pattern) != len(args) + 1:
        return []
    orders = [tuple(args)]
    if node.op in COMMUTATIVE:
        orders.append((args[1], args[0]))
    found: list[Bound] = []
    for order in orders:
        ways = options
        for term, view in zip(pattern[1:], order, strict=True):
            ways = [w for bound in ways for w in _one(term, view, bound)]
        found += ways
    return found


def _one(term: Term, view: View, bound: Bound) -> list[Bound]:
    if isinstance(term, tuple):
        if view.domain is not None:
            return []
        inner = [through(view, a) for a in view.node.args]
        return [] if None in inner else _operands(term, view.node, [v for v in inner if v is not None], [bound])
    value = literal(term)
    if value is not None:
        is_it = view.node.op == "const" and view.domain is None and same_value(view.node.attr.value, value)
        return [bound] if is_it else []
    old = bound.get(term)
    if old is None:
        return [{**bound, term: view}]
    return [bound] if same_view(old, view) else []


def same_view(a: View, b: View) -> bool:
    same = a.node is b.node and a.index == b.index and a.domain is b.domain
    return same and (a.domain is None or same_value(a.fill, b.fill))


def build(term: Term, shape: Shape, bound: Mapping[str, View], d: DType) -> View:
    """The replacement over a domain; literals take the dtype `d`."""
    if isinstance(term, tuple):
        args = [build(t, shape, bound, d) for t in term[1:]]
        node = elementwise(str(term[0]), shape, *args)
        return View(node, tuple(axis(k) for k in range(len(shape))))
    value = literal(term)
    return bound[term] if value is None else View(const_node(const(value, d).attr, d), ())
