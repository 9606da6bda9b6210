"""What an i64 expression is known to be without any proof: a *position* (built of sizes, positions and literals only, so exact by definition), or *natural* (never negative)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from .dtypes import INDEX
from .expr import Expr


class Known(NamedTuple):
    position: bool = False
    natural: bool = False  # a position as well, wherever a loop or a let says so


_GROWING: Final = frozenset({"add", "mul", "floordiv", "mod", "min", "max", "broadcast"})
_EXACT: Final = _GROWING | {"sub", "neg", "abs", "where"}


Answers = dict[Expr, bool]  # for as long as `of` says the same


def is_position(root: Expr, of: Callable[[Expr], Known], answers: Answers | None = None) -> bool:
    """`of` says what is known of a variable."""
    return _all(root, _EXACT, lambda e: e.op == "const" or (e.op == "var" and of(e).position), answers)


def is_natural(root: Expr, of: Callable[[Expr], Known], answers: Answers | None = None) -> bool:
    """Whatever the sizes: sums and products of what is, never a difference."""
    return _all(root, _GROWING, lambda e: e.attr >= 0 if e.op == "const" else e.op == "var" and of(e).natural, answers)


def of_loop(start: Expr, step: Expr, of: Callable[[Expr], Known]) -> Known:
    """The variable of a loop."""
    up = step.is_const and step.attr > 0
    if start.is_const and step.is_const:  # most
        return Known(True, up and start.attr >= 0)
    return Known(is_position(start, of) and is_position(step, of), up and is_natural(start, of))


def of_value(value: Expr, of: Callable[[Expr], Known]) -> Known:
    return Known(is_position(value, of), is_natural(value, of))


def _all(root: Expr, inner: frozenset[str], known: Callable[[Expr], bool], answers: Answers | None) -> bool:
    if root.dtype.element is not INDEX:
        return False
    if answers is None:
        answers = {}
    found = answers.get(root)
    if found is None:
        found = answers[root] = _each(root, inner, known, answers)
    return found


def _each(root: Expr, inner: frozenset[str], known: Callable[[Expr], bool], answers: Answers) -> bool:
    stack = [root]
    while stack:
        e = stack.pop()
        if e.op in ("size", "ramp", "to_line"):
            continue
        found = answers.get(e)
        if found is not None:
            if not found:
                return False
        elif inner is _GROWING and e.op == "mod" and e.args[1].is_const and e.args[1].attr > 0:
            continue
        elif e.op in inner:
            stack.extend(e.args[1:] if e.op == "where" else e.args)
        else:
            found = answers[e] = known(e)
            if not found:
                return False
    return True
