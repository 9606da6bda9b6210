"""graph → graph: a reduction of what stands before each position, or behind it, is a running one.

    Σ over p of [p <= j] · X[i, p]     →   S[i, j] with S the running sum of X along its axis              (a product with a triangular matrix of ones)
    max over p of (X[p] if j <= p)     →   S[N − 1 − j] with S the running maximum of X from the end

    %2 = mul f32[B, N, N] %0[$0, $2] %1[] if $2 <= $1 else 0     →   %3 = scan.add f32[B, N] axis 1 %0
    %3 = reduce.add f32[B, N] over [N] %2

Each position was a pass over the axis.  The condition stands on the operand of the reduction, outside of it the identity, or (of a sum) on a factor, outside of it 0; the rest does not depend on the axis
whose positions it is compared with.  A distance, as in `p < j`, may leave the axis at its beginning only.  A product with a zero counts as zero, so not under --strict where it is a product.
Not on a GPU, where one thread runs along an axis.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir import polynomial as pl
from ..ir.bounds import Known
from ..ir.expr import ONE, ZERO, Expr, axis
from ..ir.graph import Graph, Node, View, contiguous_node, elementwise, identity, rewrite, scan_node
from ..ir.primops import COMBINERS
from ..ir.simplify import prove_le
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .reading import factors

FEW = 16  # positions, as a constant: so few are better worked out side by side


class _Mask(NamedTuple):
    """`p <= j + reach` for the reduced position p and the position j along a kept axis; from the end, `j <= p + reach`."""

    kept: int
    reach: Expr
    from_end: bool


def running(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu:
        return ir
    known = Known(ir.size_info())
    return rewrite(ir, lambda n: _running(n, known, options) if n.op == "reduce" and len(n.attr.extents) == 1 else None)


def _running(node: Node, known: Known, options: Options) -> Node | None:
    r, length, combiner = node.rank, node.attr.extents[0], node.attr.combiner
    parts = factors(node.args[0]) if combiner == "add" else [node.args[0]]
    outside = {"0": 0, "1": 1, "min": node.dtype.min, "max": node.dtype.max}[COMBINERS[combiner].identity]
    masks = [(v, m) for v in parts if v.domain is not None and v.fill == outside and (m := _mask(v.domain, r))]
    if (
        len(masks) != 1
        or combiner not in ("add", "mul", "max", "min")
        or (length.is_const and length.attr <= FEW)
        or (options.strict and len(parts) > 1)
    ):
        return None
    ((masked, mask),) = masks
    j, last = mask.kept, length - ONE
    rest = [View(v.node, v.index) if v is masked else v for v in parts]
    inside = all(_everywhere(e, r, length, n, known) for e, n in zip(masked.index, masked.node.shape, strict=True))
    if not inside or any(j in v.axes for v in rest):
        return None
    reaches = last - axis(j) + mask.reach if mask.from_end else axis(j) + mask.reach
    if not prove_le(mask.reach, ZERO, known) if mask.from_end else not prove_le(node.shape[j] + mask.reach, length, known):
        return None
    rest = [v for v in rest if v.node.op != "const" or v.node.attr.value != 1] or rest[:1]
    moved = [v.through({axis(r): last - axis(j) if mask.from_end else axis(j)}) for v in rest]
    shape = tuple(length if k == j else e for k, e in enumerate(node.shape))
    value = moved[0]
    for v in moved[1:]:
        value = identity(elementwise("mul", shape, value, v, span=node.span))
    so_far = scan_node(combiner, j, value, shape, node.span)
    if reaches is axis(j):
        return so_far
    begins = None if mask.reach is ZERO else ZERO.le(reaches)
    read = View(so_far, tuple(reaches if k == j else axis(k) for k in range(node.rank)), begins, masked.fill if begins is not None else 0)
    return contiguous_node(read, node.shape, node.span)


def _mask(condition: Expr, r: int) -> _Mask | None:
    """A condition as a comparison of the reduced position with one along a kept axis."""
    if condition.op not in ("less_than", "less_equal"):
        return None
    room = pl.plus(pl.poly(condition.args[1]), pl.poly(condition.args[0]), -1)
    if condition.op == "less_than":
        room = pl.plus(room, pl.constant(-1))
    axes = {a.attr for a in leaves(condition, "axis")}
    if len(axes) != 2 or r not in axes:
        return None
    (j,) = axes - {r}
    room = pl.plus(room, pl.plus(pl.poly(axis(j)), pl.poly(axis(r)), -1), -1)
    from_end = not all(a.op != "axis" for m in room for a in m)
    if from_end:  # r - j in place of j - r
        room = pl.plus(room, pl.plus(pl.poly(axis(j)), pl.poly(axis(r)), -1), 2)
    return None if any(a.op == "axis" for m in room for a in m) else _Mask(j, pl.expr(room), from_end)


def _everywhere(e: Expr, r: int, length: Expr, extent: Expr, known: Known) -> bool:
    """Whether an index is inside of an axis for all reduced positions, also those that the condition has kept from it."""
    return (e is axis(r) and prove_le(length, extent, known)) or all(a.attr != r for a in leaves(e, "axis"))


__all__ = ["running"]
