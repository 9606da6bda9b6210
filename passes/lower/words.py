"""Neighbours in memory that are put together as the parts of one word are loaded as that word.

    cast.u32(bitcast.u8(A[x])) | cast.u32(bitcast.u8(A[x + 1])) << 8 | …   →   bitcast.u32(vload.4 A[x])

The order of the parts is that of memory on the machines that there are: the first in the lowest bits.
"""

from __future__ import annotations

from ...ir.dtypes import u32
from ...ir.expr import Expr, const, make, vload
from ...ir.program import Block, map_expressions
from ...ir.walks import postorder, rewrite
from .affine import difference


def words(body: Block) -> Block:
    return map_expressions(body, lambda e: rewrite(e, _word) if e.buffers and any(n.op == "bit_or" and n.dtype is u32 for n in postorder(e)) else e)


def _word(e: Expr) -> Expr | None:
    if e.op != "bit_or" or e.dtype is not u32:
        return None
    parts: list[Expr] = []
    while e.op == "bit_or":
        parts.insert(0, e.args[1])
        e = e.args[0]
    loads = [_part(p, k * 32 // (len(parts) + 1)) for k, p in enumerate((e, *parts))]
    first = loads[0]
    if first is None or first.dtype.bits * len(loads) != 32:
        return None
    for k, x in enumerate(loads):
        if x is None or x.dtype is not first.dtype or x.attr != first.attr or difference(x.args[0], first.args[0]) is not const(k):
            return None
    return make("bitcast", u32, (vload(first.attr, first.dtype, len(loads), first.args[0]),))


def _part(e: Expr, shift: int) -> Expr | None:
    """The element whose bits, without a sign, are shifted so far; None where it is something else."""
    if shift:
        if e.op != "shift_left" or not e.args[1].is_const or e.args[1].attr != shift:
            return None
        e = e.args[0]
    if e.op != "cast" or e.dtype is not u32 or e.args[0].dtype.kind != "uint":
        return None
    e = e.args[0].args[0] if e.args[0].op == "bitcast" else e.args[0]
    return e if e.op == "load" and e.dtype.lanes == 1 else None
