"""Sums that are not finite are taken again as they are written: what that looks like in loops (`ask_after.py` says when)."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.dtypes import bool_
from ...ir.expr import ZERO, Expr, axis, both, call, ceildiv, const, load, minimum, var, where
from ...ir.graph import Attr, Node, View, identity, make
from ...ir.kernel import Alloc, Block, Buffer, If, Loop, Nest, Store, substitute_block
from ...ir.primops import OPS
from ...ir.renaming import Names
from ...ir.walks import substitute

OPERATORS = 32  # that the value of a term is made of, at most: it is written out once more
ROWS = 16  # of sums that are looked at together: of 8 sums each, one by one took ten times as long
PIECE = 4096  # of a vector of sums
LETTERS, REDUCED = "ijklmno", "pqrstuvw"


def taken_again(n: Node, bare: Node, taken: set[str]) -> Node:
    """The bare sum, some rows of which are looked at together, in loops that stay loops."""
    names = Names(taken)
    sums = Buffer(names.fresh("sums"), n.dtype, n.shape)
    term = _Term(names)
    outer = [names.fresh(*LETTERS) for _ in n.shape]
    inner = [names.fresh(*REDUCED) for _ in n.attr.extents]
    value = term.value(n.args[0], tuple(map(var, (*outer, *inner))))
    if value is None:
        return n
    at = tuple(map(var, outer))
    doubt, again = (Buffer(names.fresh(name), n.dtype, (), "register") for name in ("doubt", "again"))
    zero = const(0.0, n.dtype)

    def nothing(*place: Expr) -> Expr:
        return call("mul", load(sums.name, n.dtype, *place), zero)  # 0, or NaN

    def nested(loops: Iterable[tuple[str, Expr]], body: Block, kind: str) -> Block:
        for name, extent in reversed([*loops]):
            body = (Loop(name, ZERO, extent, body, kind),)
        return body

    k = max(n.rank - 2, 0)  # the axis of the rows; a vector is looked at in pieces
    around, row, columns = outer[:k], outer[k], outer[k + 1 :]
    together = ROWS if columns else PIECE
    block, r, cs = names.fresh("b"), names.fresh(*REDUCED), [names.fresh(*REDUCED) for _ in columns]
    first = var(block) * together
    count = minimum(n.shape[k] - first, together)
    sum_again = nested(zip(inner, n.attr.extents, strict=True), (Store(again.name, (), value, "add"),), "reduce")
    anew = (Alloc(again), Store(again.name, (), zero), *sum_again, Store(sums.name, at, load(again.name, n.dtype)))
    each = nested(((row, count), *zip(columns, n.shape[k + 1 :], strict=True)), (If(call("not_equal", nothing(*at), zero), anew),), "parallel")
    places = (*map(var, around), first + var(r), *map(var, cs))
    look = nested(((r, count), *zip(cs, n.shape[k + 1 :], strict=True)), (Store(doubt.name, (), nothing(*places), "add"),), "reduce")
    body = (
        Alloc(doubt),
        Store(doubt.name, (), zero),
        *look,
        If(call("not_equal", load(doubt.name, n.dtype), zero), substitute_block(each, {var(row): first + var(row)})),
    )
    body = nested((*zip(around, n.shape[:k], strict=True), (block, ceildiv(n.shape[k], together))), body, "parallel")
    operands = (sums, *(Buffer(name, m.dtype, m.shape) for m, name in term.operands.items()))
    nest = Nest("again", operands, (sums,), body)
    return make("nest", n.dtype, n.shape, tuple(identity(m) for m in (bare, *term.operands)), Attr(nest=nest), n.span)


class _Term:
    """What is added up, as an expression in loops, and the tensors that it reads."""

    def __init__(self, names: Names) -> None:
        self.names, self.operands, self.left = names, dict[Node, str](), OPERATORS

    def value(self, view: View, point: tuple[Expr, ...]) -> Expr | None:
        """None where it is made of too much."""
        mapping = {axis(k): e for k, e in enumerate(point)}
        index = tuple(substitute(e, mapping) for e in view.index)
        node = view.node
        self.left -= 1
        if self.left < 0:
            return None
        if node.op == "const":
            value = const(node.attr.value, node.dtype)
        elif node.op == "iota":
            assert node.attr.expr is not None
            value = substitute(node.attr.expr, {axis(k): e for k, e in enumerate(index)})
        elif node.op in OPS:
            operands: list[Expr] = []
            for a in node.args:
                e = self.value(a, index)
                if e is None:
                    return None
                operands.append(e)
            value = where(*operands) if node.op == "where" else call(node.op, *operands, to=node.dtype)
        else:
            value = load(self.operands.setdefault(node, "") or self._named(node), node.dtype, *index)
        if view.domain is None:
            return value
        domain = substitute(view.domain, mapping)
        if node.dtype is bool_ and not view.fill:
            return both(domain, value)
        return where(domain, value, const(view.fill, node.dtype))

    def _named(self, node: Node) -> str:
        name = self.operands[node] = self.names.fresh(node.attr.name or "operand")
        return name
