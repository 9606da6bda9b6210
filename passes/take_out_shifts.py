"""graph → graph: what is added to the factors of a sum of products is taken out of it, where a machine then multiplies the small integers that are left by one instruction.

    Σ (A - a) · (B - b)   →   Σ A · B - a · Σ (B - b) - b · Σ A

    %3 = sub i32[M, K] cast(A) a[]                    %8 = mul i32[M, N, K] cast(A)[$0, $2] cast(B)[$2, $1]
    %6 = sub i32[K, N] cast(B) b[]              →     %9 = reduce.add i32[M, N] over [K] %8
    %7 = mul i32[M, N, K] %3[$0, $2] %6[$2, $1]       %10 = reduce.add i32[N] over [K] %6[$1, $0]
    %8 = reduce.add i32[M, N] over [K] %7             %11 = reduce.add i32[M] over [K] cast(A)
                                                      … %9 - a[] · %10[$1] - b[] · %11[$0]

So matrices of bytes with a zero of their own are multiplied as bytes, and no copy of them in 32 bits is made.  Exact, because integers wrap.

Conditions: the sum is of integers; what is left of each factor is a cast of bytes, which an instruction of the target multiplies (`ir/instructions.py`); what is taken out does not depend on the
axes that are reduced, and nothing is read through a padding.  Sums of blocks inside of a sum of floats (`block_sums.py`) stay whole.
"""

from __future__ import annotations

from ..ir.expr import axis
from ..ir.graph import Graph, Node, Shape, View, elementwise, identity, operand_domain, reduce_node, rewrite
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .cascades.block_sums import block_sums
from .reading import Byte, as_byte
from .schedule.steps.dots import choice


def take_out_shifts(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    blocks = block_sums(ir, target)  # what is taken out of these is so for each block, in registers
    return rewrite(ir, lambda node: None if node in blocks else _taken_out(node, target))


def _taken_out(node: Node, target: Target) -> Node | None:
    product = node.args[0] if node.op == "reduce" and node.attr.combiner == "add" and node.dtype.is_integer else None
    if product is None or product.node.op != "mul" or not product.is_identity or product.node.rank != node.rank + len(node.attr.extents):
        return None
    a, b = (_factor(v, node.rank) for v in product.node.args)
    if a is None or b is None or (a.shift is None and b.shift is None):
        return None
    row = choice(target.instructions, a.byte.node.args[0].dtype, b.byte.node.args[0].dtype)
    if row is None or row.result is not node.dtype:
        return None
    domain = operand_domain(node, 0)
    result = reduce_node(
        "add", node.shape, node.attr.extents, identity(elementwise("mul", domain, a.byte, b.byte, span=product.node.span)), node.span
    )
    for factor, other in ((a, b.whole), (b, a.byte)):
        if factor.shift is not None:
            moved = elementwise("mul", node.shape, factor.shift, _sum(other, node.shape, node.attr.extents), span=node.span)
            result = elementwise(factor.op, node.shape, identity(result), identity(moved), span=node.span)
    return result


def _factor(v: View, kept: int) -> Byte | None:
    """A factor as bytes and what is added to them; None where it is something else.  The axes from `kept` on are reduced."""
    found = as_byte(v)
    return None if found is None or (found.shift is not None and any(a >= kept for a in found.shift.axes)) else found


def _sum(v: View, shape: Shape, extents: Shape) -> View:
    """The sum of a factor over the reduced axes, over those of the kept axes that it has."""
    moving = {a.attr for e in v.index for a in leaves(e, "axis")}
    kept = [k for k in range(len(shape)) if k in moving]
    places = {axis(k): axis(new) for new, k in enumerate((*kept, *range(len(shape), len(shape) + len(extents))))}
    total = reduce_node("add", tuple(shape[k] for k in kept), extents, v.through(places), v.node.span)
    return View(total, tuple(axis(k) for k in kept))
