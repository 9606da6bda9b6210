"""graph → graph: whether any, or all, of some truths hold is the largest, or the smallest, of numbers that are 0 or 1.

    %2 = bit_and bool[M, N, K] A[$0, $2] B[$2, $1]              %2 = cast u8[M, K] A
    %3 = reduce.or bool[M, N] over [K] %2                       %3 = cast u8[K, N] B
                                                        →       %4 = bit_and u8[M, N, K] %2[$0, $2] %3[$2, $1]
                                                                %5 = reduce.max u8[M, N] over [K] %4
                                                                %6 = less_than bool[M, N] 0 %5

Truths have no vectors of their own: between comparisons they are as wide as what is compared.  As numbers of that width (bytes where nothing is compared) a product of boolean matrices is a contraction as
any other, in register tiles and packed panels.
"""

from __future__ import annotations

from ..ir.dtypes import DType, bool_, i16, i32, i64, u8
from ..ir.graph import Graph, Node, Shape, View, const_node, elementwise, identity, operand_domain, postorder, reduce_node, scalar, with_operands
from ..ir.target import Options, Target

LARGEST = {"or": "max", "and": "min"}
WIDTHS = {8: u8, 16: i16, 32: i32, 64: i64}
LEVELS = 4  # of `and`, `or` and `not` that are of numbers too
COMPARED = frozenset({"less_than", "less_equal", "equal", "not_equal", "isnan", "isinf"})


def number_truths(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu:  # a thread has one truth at a time
        return ir
    nodes = ir.nodes()
    within = {m for n in nodes if n.op == "cascade" for a in n.args for m in postorder(a.node)}
    done: dict[Node, Node] = {}
    for n in nodes:
        done[n] = with_operands(n, done)
        if n.op == "reduce" and n.dtype is bool_ and n not in within:
            done[n] = _largest(done[n])
    return ir.with_outputs(tuple(done[n] for _, n in ir.outputs))


def _largest(n: Node) -> Node:
    dtype = WIDTHS[max((_bits(leaf) for leaf in _leaves(n.args[0])), default=8)]
    numbers = _numbers(n.args[0], operand_domain(n, 0), dtype)
    found = reduce_node(LARGEST[n.attr.combiner], n.shape, n.attr.extents, numbers, n.span)
    return elementwise("less_than", n.shape, scalar(const_node(0, dtype)), identity(found), span=n.span)


def _leaves(v: View, levels: int = LEVELS) -> list[View]:
    """What a truth is made of by `and`, `or` and `not`."""
    return [v] if _joined(v, levels) is None else [leaf for a in v.node.args for leaf in _leaves(a, levels - 1)]


def _joined(v: View, levels: int) -> str | None:
    """The operator on numbers that are 0 or 1 where a truth is made of others; None where it is not, or so many levels down."""
    n = v.node
    if v.domain is not None or n.dtype is not bool_ or not levels:
        return None
    if n.op == "where" and _literal(n.args[2]) is False:
        return "bit_and"
    if n.op == "where" and _literal(n.args[1]) is True:
        return "bit_or"
    return n.op if n.op in ("bit_and", "bit_or", "bit_xor", "bit_not") else None


def _literal(v: View) -> bool | None:
    return v.node.attr.value if v.node.op == "const" and v.domain is None else None  # pyright: ignore[reportReturnType]


def _bits(leaf: View) -> int:
    """How wide the vectors are that a truth is found in."""
    n = leaf.node
    if n.op not in COMPARED:
        return 8
    return max(32 if a.dtype.is_float and a.dtype.bits < 32 else a.dtype.bits if a.dtype is not bool_ else 8 for a in n.args)


def _numbers(v: View, shape: Shape, dtype: DType, levels: int = LEVELS) -> View:
    """The truth, over a domain, as 0 or 1."""
    op, n = _joined(v, levels), v.node
    if op is None:
        if v.domain is not None:
            return identity(elementwise("cast", shape, v, to=dtype))
        return View(elementwise("cast", n.shape, identity(n), to=dtype), v.index)
    args = v.operands
    if n.op == "where":
        args = args[:2] if op == "bit_and" else [args[0], args[2]]
    numbers = [_numbers(a, shape, dtype, levels - 1) for a in args]
    if op == "bit_not":
        return identity(elementwise("bit_xor", shape, numbers[0], scalar(const_node(1, dtype))))
    return identity(elementwise(op, shape, *numbers))
