"""How large the integers of a graph can be, by their dtypes and what is made of them.

a: i8, w: u8        (w & 15) - 8 is at most 23, a · ((w & 15) - 8) at most 2944 in absolute value
"""

from __future__ import annotations

from ..ir.graph import Node, View

_DTYPE = 16  # bits of integers whose dtype alone says something
_KNOWN = frozenset({"add", "sub", "mul", "neg", "cast", "where", "bit_and", "shift_right"})


def magnitude(v: View) -> int | None:
    """A bound of the absolute values of an integer; None where there is none: what may wrap, and wide integers of which nothing is known."""
    found = _of_node(v.node)
    return found if found is None or v.domain is None else max(found, abs(int(v.fill)))


def _of_node(m: Node) -> int | None:
    if not m.dtype.is_integer:
        return None
    if m.op == "const":
        return abs(int(m.attr.value))
    found = _made(m)
    if found is not None and found <= m.dtype.max:
        return found
    return max(-int(m.dtype.min), int(m.dtype.max)) if m.dtype.bits <= _DTYPE else None


def _made(m: Node) -> int | None:
    """The same by what the operator does with its operands, without a bound of the dtype."""
    if (
        m.op not in _KNOWN
        or (m.dtype.kind == "uint" and m.op in ("sub", "neg"))
        or (m.op == "cast" and m.dtype.kind == "uint" and m.args[0].dtype.kind != "uint")
    ):
        return None
    parts = [magnitude(a) for a in (m.args[1:] if m.op == "where" else m.args)]
    a, b = parts[0], parts[-1]
    if a is None or b is None:
        return None
    match m.op:
        case "add" | "sub":
            return a + b
        case "mul":
            return a * b
        case "where":
            return max(a, b)
        case "bit_and":
            return min(a, b) if m.dtype.kind == "uint" else None
        case "shift_right":
            return (a >> b) + (m.dtype.kind == "int") if m.args[1].node.op == "const" else None
        case _:
            return a
