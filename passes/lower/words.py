"""Neighbours in memory that are put together as the parts of one word are loaded as that word.

    cast.u32(bitcast.u8(A[x])) | cast.u32(bitcast.u8(A[x + 1])) << 8 | …   →   bitcast.u32(vload.4 A[x])

The order of the parts is that of memory on the machines that there are: the first in the lowest bits.
"""

from __future__ import annotations

from ...ir.dtypes import u32
from ...ir.expr import Expr, const, make, vload
from ...ir.operator_kinds import MERGES
from ...ir.program import Block, map_expressions
from ...ir.walks import postorder, rewrite
from .affine import difference


def words(body: Block) -> Block:
    return map_expressions(
        body, lambda e: rewrite(e, _word) if e.kinds & MERGES and e.buffers and any(n.op == "bit_or" and n.dtype is u32 for n in postorder(e)) else e
    )


def _word(e: Expr) -> Expr | None:
    loads = parts(e) if e.dtype is u32 else ()
    if not loads or any(difference(x.args[0], loads[0].args[0]) is not const(k) for k, x in enumerate(loads)):
        return None
    return make("bitcast", u32, (vload(loads[0].attr, loads[0].dtype, len(loads), loads[0].args[0]),))


def parts(e: Expr) -> tuple[Expr, ...]:
    """The elements of one buffer, or the vectors of them, that are the parts of a word (or of a vector of words) from its lowest bits on; () where it is no word."""
    if e.op != "bit_or" or e.dtype.element is not u32:
        return ()
    pieces: list[Expr] = []
    while e.op == "bit_or":
        pieces.insert(0, e.args[1])
        e = e.args[0]
    found = [_part(p, k * 32 // (len(pieces) + 1)) for k, p in enumerate((e, *pieces))]
    loads = tuple(x for x in found if x is not None)
    first = loads[0] if len(loads) == len(found) else None
    if (
        first is None
        or first.dtype.element.bits * len(loads) != 32
        or any((x.attr, x.dtype, x.op) != (first.attr, first.dtype, first.op) for x in loads)
    ):
        return ()
    return loads


def _part(e: Expr, shift: int) -> Expr | None:
    """The element whose bits, without a sign, are shifted so far; None where it is something else."""
    if shift:
        if e.op != "shift_left":
            return None
        by = e.args[1].args[0] if e.args[1].op == "broadcast" else e.args[1]
        if not by.is_const or by.attr != shift:
            return None
        e = e.args[0]
    if e.op != "cast" or e.dtype.element is not u32 or e.args[0].dtype.kind != "uint":
        return None
    e = e.args[0].args[0] if e.args[0].op == "bitcast" else e.args[0]
    return e if e.op == ("load" if e.dtype.lanes == 1 else "gather") else None
