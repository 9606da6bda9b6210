"""Expressions as text: infix with the fewest parentheses that read back as the same node."""

from __future__ import annotations

from ..dtypes import INDEX
from ..expr import Expr, const, mul
from ..walks import postorder
from .operators import ATOM, COMPARISON, INFIX, PREFIX, SUM
from .words import literal, word

# An expression whose tree has more nodes than this has its shared parts written once: `(@0 = …)` and then `@0`.
TREE_LIMIT = 80
SHARED_SIZE = 4  # smaller parts are repeated

Piece = str | tuple[Expr, int]  # text, or an expression with the level below which it needs parentheses
_MINUS_ONE = const(-1)


def show_expr(root: Expr) -> str:
    """Without recursion, and linear in the number of nodes."""
    shared = _shared(root)
    number: dict[Expr, int] = {}
    out: list[str] = []
    stack: list[Piece] = [(root, 0)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        node, level = piece
        if node in number:
            out.append(f"@{number[node]}")
            continue
        own, pieces = _pieces(node, shared)
        if node in shared:
            number[node] = len(number)
            pieces = [f"(@{number[node]} = ", *pieces, ")"]
        elif own < level:
            pieces = ["(", *pieces, ")"]
        stack.extend(reversed(pieces))
    return "".join(out)


def _shared(root: Expr) -> frozenset[Expr]:
    size: dict[Expr, int] = {}
    uses: dict[Expr, int] = {}
    for node in postorder(root):
        size[node] = 1 + sum(size[a] for a in node.args)
        for a in node.args:
            uses[a] = uses.get(a, 0) + 1
    if size[root] <= TREE_LIMIT:
        return frozenset()
    return frozenset(n for n, k in uses.items() if k > 1 and size[n] >= SHARED_SIZE)


def _pieces(node: Expr, shared: frozenset[Expr]) -> tuple[int, list[Piece]]:
    """How tightly the text of the node binds, and the text with its operands in place."""
    op, args = node.op, node.args
    if op in INFIX:
        if node.dtype is INDEX and op in ("add", "sub", "mul"):
            return _index_arithmetic(node, shared)
        symbol, level = INFIX[op]
        left = level + 1 if level == COMPARISON else level
        return level, [(args[0], left), f" {symbol} ", (args[1], level + 1)]
    if op == "neg" and node.dtype is not INDEX and not args[0].is_const:
        return PREFIX, ["-", (args[0], PREFIX)]
    if op == "bit_not":
        return PREFIX, ["~", (args[0], PREFIX)]
    return ATOM, _atom(node)


def _index_arithmetic(node: Expr, shared: frozenset[Expr]) -> tuple[int, list[Piece]]:
    """Sums and products of indices; `a - b` and `-b` stand for what they give in Python, where that is this very node."""
    a, b = node.args
    if node.op == "sub":
        return ATOM, _call("sub", node.args)
    if node.op == "mul":
        if b is _MINUS_ONE and not a.is_const and mul(a, b) is node:
            return PREFIX, ["-", (a, PREFIX)]
        return SUM + 1, [(a, SUM + 1), " * ", (b, SUM + 2)]
    factor = b if b.is_const else b.args[1] if b.op == "mul" and b not in shared else None
    if factor is not None and factor.is_const and INDEX.min < factor.attr < 0 and mul(positive := mul(b, _MINUS_ONE), _MINUS_ONE) is b:
        return SUM, [(a, SUM), " - ", (positive, SUM + 1)]
    return SUM, [(a, SUM), " + ", (b, SUM + 1)]


def _call(name: str, args: tuple[Expr, ...]) -> list[Piece]:
    return [f"{name}(", *_listed(args), ")"]


def _listed(args: tuple[Expr, ...]) -> list[Piece]:
    pieces: list[Piece] = []
    for k, a in enumerate(args):
        pieces.extend([", ", (a, 0)] if k else [(a, 0)])
    return pieces


def _atom(node: Expr) -> list[Piece]:
    op, attr, lanes = node.op, node.attr, node.dtype.lanes
    match op:
        case "const":
            return [literal(attr, node.dtype)]
        case "axis":
            return [f"${attr}"]
        case "size" | "var":
            return [word(attr)]
        case "load":
            return [f"{word(attr)}[", *_listed(node.args), "]"]
        case "first" | "last" | "null" | "to_line":
            return [f"{op}({word(attr)})"]
        case "overlap":
            return [f"overlap({word(attr[0])}, ", (node.args[0], 0), f", {word(attr[1])}, ", (node.args[1], 0), ")"]
        case "cast" | "bitcast":
            return _call(f"{op}.{node.dtype.name}", node.args)
        case "broadcast":
            return _call(f"broadcast.{lanes}", node.args)
        case "ramp":
            return [f"ramp.{lanes}"]
        case "extract":
            return ["extract(", *_listed(node.args), f", {attr})"]
        case "pick":
            return ["pick(", *_listed(node.args), *(f", {k}" for k in attr), ")"]
        case "vload" | "gather":
            return [f"{op}.{lanes} {word(attr)}[", *_listed(node.args), "]"]
        case "fold":
            return _call(f"fold.{attr}", node.args)
        case "ins":
            return [f"ins.{word(attr)}:{node.dtype.name}(", *_listed(node.args), ")"]
        case _:
            return _call(op, node.args)
