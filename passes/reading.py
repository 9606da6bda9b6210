"""What values of a graph are made of, as several passes ask it, also those that make nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..ir.graph import Node, View
from ..ir.primops import OPS


def several_reductions(nodes: Iterable[Node]) -> bool:
    """Without two of them there is nothing that a cascade could be made of."""
    return sum(n.op in ("reduce", "nest", "cascade") for n in nodes) > 1


def factors(v: View) -> list[View]:
    """The factors of a value, over the axes of its user."""
    found: list[View] = []
    stack = [v]
    while stack:
        x = stack.pop()
        if x.node.op == "mul" and x.domain is None:
            stack += reversed(x.operands)
        else:
            found.append(x)
    return found


def reads_of(value: View) -> Iterable[View]:
    """What a value is made of: every view, over the domain of the value's user, that is no pointwise operator."""
    seen: set[tuple[Node, Any]] = set()
    stack = [value]
    while stack:
        view = stack.pop()
        if (view.node, view.index) in seen:
            continue
        seen.add((view.node, view.index))
        if view.node.op in OPS:
            stack.extend(view.operands)
        else:
            yield view


class Byte(NamedTuple):
    """A byte that is cast to another type, and what is added to it or taken from it there."""

    whole: View
    byte: View  # the cast
    shift: View | None = None
    op: str = ""  # add | sub


def as_byte(v: View) -> Byte | None:
    """A value as a byte and what is added to it; None where it is something else."""
    if is_byte(v):
        return Byte(v, v)
    if v.domain is not None or v.node.op not in ("add", "sub"):
        return None
    x, c = v.operands
    if v.node.op == "add" and not is_byte(x):
        x, c = c, x
    return Byte(v, x, c, v.node.op) if is_byte(x) else None


def is_byte(v: View) -> bool:
    return v.domain is None and v.node.op == "cast" and v.node.args[0].dtype.is_integer and v.node.args[0].dtype.bits == 8
