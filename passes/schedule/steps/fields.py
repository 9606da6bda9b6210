"""Small integers that share a byte: as one expression on the byte that each is in, and as words of four of them.

where(q <= 15, B[q] & 15, B[q - 16] >> 4)     →     B[q % 16] >> q // 16 * 4 & 15     →     four neighbours: w(B[…]) >> q // 16 * 4 & 0x0F0F0F0F
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....ir.bounds import Known
from ....ir.dtypes import u8, u32
from ....ir.expr import Expr, call, cast, const, load, mod, var
from ....ir.kernel import Loop
from ....ir.simplify import simplify
from ....ir.walks import substitute

BYTE, EACH = 0xFF, 0x01010101  # a byte, and one in each byte of a word


class Field(NamedTuple):
    """Some bits of a byte in memory."""

    byte: Expr
    shift: int
    mask: int


def field(e: Expr) -> Field | None:
    """What a small integer is of a byte; None where it is something else."""
    if e.op == "load":
        return Field(e, 0, BYTE) if e.dtype is u8 else None
    if e.dtype is not u8 or e.op not in ("bit_and", "shift_right") or not e.args[1].is_const or (inner := field(e.args[0])) is None:
        return None
    by = e.args[1].attr
    return inner._replace(mask=inner.mask & by) if e.op == "bit_and" else Field(inner.byte, inner.shift + by, inner.mask >> by)


def one_byte(e: Expr, loop: Loop) -> Expr:
    """A number that is in one half of a loop some bits of the same byte as in the other half other bits, as one expression; anything else as it is."""
    if e.op != "where" or e.args[0].op != "less_equal" or e.args[0].args[0] is not var(loop.axis) or not e.args[0].args[1].is_const:
        return e
    half, q = e.args[0].args[1].attr + 1, var(loop.axis)
    low, high = map(field, e.args[1:])
    if low is None or high is None or low.mask != high.mask or low.byte.attr != high.byte.attr or loop.stop is not const(2 * half):
        return e
    moved = tuple(simplify(substitute(a, {q: q + half})) for a in high.byte.args)
    if moved != tuple(map(simplify, low.byte.args)) or low.mask > BYTE >> max(low.shift, high.shift):
        return e
    byte = substitute(low.byte, {q: mod(q, const(half))})
    shift = cast(u8, q // half * (high.shift - low.shift) + low.shift)
    return call("bit_and", call("shift_right", byte, shift), const(low.mask, u8))


def word(elements: Sequence[Expr], known: Known) -> Expr | None:
    """The word of neighbours that are each the same bits of a byte; None where they are something else."""
    masks = {e.args[1] for e in elements if e.op == "bit_and"}
    shifted = [e.args[0] for e in elements if e.op == "bit_and" and e.args[0].op == "shift_right" and e.args[0].args[1].op == "cast"]
    if len(masks) != 1 or len(shifted) != len(elements) or not (mask := masks.pop()).is_const:
        return None
    shifts = {simplify(e.args[1].args[0], known) for e in shifted}
    if len(shifts) != 1:
        return None
    result = joined([cast(u32, load(e.args[0].attr, u8, *(simplify(a, known) for a in e.args[0].args))) for e in shifted])
    return call("bit_and", call("shift_right", result, cast(u32, shifts.pop())), const(mask.attr * EACH, u32))


def joined(parts: Sequence[Expr]) -> Expr:
    """The word of these parts, the first in the lowest bits."""
    result = parts[0]
    for k, part in enumerate(parts[1:], 1):
        result = call("bit_or", result, call("shift_left", part, const(k * 32 // len(parts), u32)))
    return result
