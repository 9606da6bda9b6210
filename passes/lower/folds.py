"""As many vectors as they have lanes, each folded to one scalar of a row: halves are zipped and added until one vector holds all the sums.

                                                          array sums: f32x16[8] register
    for i in 0 .. 16 unroll:                              for k in 0 .. 8 unroll:
      acc[i] = acc[i] + fold.add(v(i))            →         sums[k] = zip_low(v(k), v(k + 8)) + zip_high(v(k), v(k + 8))
                                                          for k in 0 .. 4 unroll:
                                                            sums[k] = zip_low(sums[k], sums[k + 4]) + zip_high(sums[k], sums[k + 4])
                                                          … twice more
                                                          acc[0 .. 16] = acc[0 .. 16] + sums[0]

Of fewer rows than lanes, but more than half as many, the last stands for those that are not there, and the first lanes are stored.

A fold by itself is a chain of log2 n shuffles and sums of which ever fewer lanes matter: n·log2 n of each.  Zipped, all lanes matter always: 2n shuffles and n sums.  Zipping rows k and k + n/2 brings
the last bit of a row's number into the lane's; after log2 n times lane i holds what row i comes to.

The rows may be those of a nest of loops, a tile of few × few sums, where accumulators and sums lie in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.expr import ONE, ZERO, Expr, call, const, load, minimum, var, vload, zip_halves
from ...ir.operator_kinds import FOLDS
from ...ir.primops import COMBINERS
from ...ir.program import Array, Block, For, Stmt, StoreTo, map_block
from ...ir.record import replace
from ...ir.walks import substitute
from .affine import difference, slope
from .names import Names

MOST = 16  # vectors: more fit in the registers of no machine


def folds(body: Block, names: Names) -> Block:
    """The body with such rows of folds taken together."""
    return map_block(body, lambda s: _together(s, names) if isinstance(s, For) else None, FOLDS)


def _together(loop: For, names: Names) -> Block | None:
    """What stands in place of the loop; None where it is another one."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], For):
        nest.append(inner)
    if not all(x.pragma == "unroll" and x.start is ZERO and x.step is ONE and x.stop.is_const for x in nest) or len(nest[-1].body) != 1:
        return None
    (s,), rows, i = nest[-1].body, prod(x.stop.attr for x in nest), var(nest[-1].var)
    if (
        not isinstance(s, StoreTo)
        or s.count is not None
        or s.stream is not None
        or len(s.value.args) != 2
        or s.value.args[1].op != "fold"
        or not 2 <= rows <= MOST
    ):
        return None
    (before, folded), op = s.value.args, s.value.op
    (vector,) = folded.args
    there = load(s.buffer, before.dtype, s.address)
    lanes = vector.dtype.lanes
    if not lanes // 2 < rows <= lanes or COMBINERS[folded.attr].op != op or before is not there or s.buffer in vector.buffers:
        return None
    if slope(s.address, i, lambda e: nest[-1].var in e.names) is not ONE:
        return None
    if len(nest) > 1:
        flat = _flat(nest)
        if vector.op != "load" or any(difference(substitute(e, flat), e) is not ZERO for e in (s.address, vector.args[0])):
            return None
        outer = {var(x.var): ZERO for x in nest[:-1]}
        s, vector = replace(s, address=substitute(s.address, outer)), substitute(vector, outer)
    sums, k = names.fresh("sums"), names.fresh("k")
    at = var(k)

    def halved(a: Expr, b: Expr, half: int) -> Stmt:
        both = call(op, zip_halves(a, b, high=False), zip_halves(a, b, high=True))
        return For(k, ZERO, const(half), (StoreTo(sums, at, both),), pragma="unroll")

    half = lanes // 2
    result: list[Stmt] = [Array(sums, vector.dtype, half, "register")]
    other = at + half if rows == lanes else minimum(at + half, const(rows - 1))
    result.append(halved(substitute(vector, {i: at}), substitute(vector, {i: other}), half))
    while half > 1:
        half //= 2
        result.append(halved(load(sums, vector.dtype, at), load(sums, vector.dtype, at + half), half))
    first = substitute(s.address, {i: ZERO})
    count = None if rows == lanes else const(rows)
    value = call(op, vload(s.buffer, before.dtype, lanes, first, count), load(sums, vector.dtype, ZERO))
    return (*result, StoreTo(s.buffer, first, value, count=count))


def _flat(nest: Sequence[For]) -> dict[Expr, Expr]:
    """The position in the nest instead of the variable of its innermost loop, zeros instead of the others: what is the same after that depends on the position alone."""
    position: Expr = ZERO
    for x in nest:
        position = position * x.stop + var(x.var)
    return {**{var(x.var): ZERO for x in nest}, var(nest[-1].var): position}
