"""Vectors in segments of a few lanes, each folded to one scalar: the segments of as many vectors as one has lanes are put together by few shuffles.

    for r in 0 .. 4 unroll:                                       array sums: f32x16[2] register                         (16 lanes)
      for p in 0 .. 4 unroll:                                     for k in 0 .. 2 unroll:
        for w in 0 .. 4 vector:                           →         sums[k] = even(v[2k], v[2k + 1]) + odd(v[2k], v[2k + 1])
          acc[r·4 + p] = acc[r·4 + p] + v[p·16 + r·4 + w]         sums[0] = even(sums[0], sums[1]) + odd(sums[0], sums[1])
                                                                  acc[0 .. 16] = acc[0 .. 16] + sums[0]

`even` are the even lanes of each segment of the first vector and those of the same segment of the second, in turn; `odd` the others.  So neighbours are added, and what two vectors come to stands side by
side in each segment, until a segment is the sums of as many vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.expr import ONE, ZERO, Expr, call, const, load, pick, var, vload
from ....ir.primops import COMBINERS
from ....ir.program import Array, Block, For, Stmt, StoreTo
from ....ir.walks import substitute
from ..affine import divide, slope
from ..names import Names
from .arrays import Arrays


def segments(loop: For, arrays: Arrays, names: Names) -> Block | None:
    """What stands in place of such a nest of loops; None where it is another one."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], For):
        nest.append(inner)
    if len(nest) != 3 or [x.pragma for x in nest] != ["unroll", "unroll", "vector"] or len(nest[-1].body) != 1:
        return None
    (s,) = nest[-1].body
    if any(x.start is not ZERO or x.step is not ONE or not x.stop.is_const for x in nest) or not isinstance(s, StoreTo) or len(s.value.args) != 2:
        return None
    rows, count, length = (x.stop.attr for x in nest)
    row, each, lane = (var(x.var) for x in nest)
    before, term = s.value.args
    lanes = rows * length
    combiner = next((c for c in COMBINERS.values() if c.op == s.value.op), None)
    if combiner is None or count != length or length < 2 or length & (length - 1) or lanes & (lanes - 1) or term.op != "load" or s.count is not None:
        return None
    if before is not load(s.buffer, before.dtype, s.address) or term.attr == s.buffer or arrays.lanes.get(term.attr) != lanes:
        return None
    inside = {x.attr for x in (row, each, lane)}

    def steps(e: Expr) -> list[Expr | None]:
        return [slope(e, x, _names(x.attr)) for x in (row, each, lane)]

    by_row, apart, by_lane = steps(term.args[0])
    if by_row is not const(length) or by_lane is not ONE or apart is None or not apart.is_const or apart.attr % lanes or apart.attr <= 0:
        return None
    if steps(s.address)[:2] != [const(count), ONE] or lane.attr in s.address.names:
        return None
    zeros = {var(x): ZERO for x in inside}
    first = arrays.aligned(term.attr, divide(substitute(term.args[0], zeros), lanes), lanes)
    sums, k = names.fresh("sums"), names.fresh("k")
    vector = term.dtype.vector(lanes)
    places = [
        tuple(start + other * lanes + 2 * i + odd for start in range(0, lanes, length) for other in (0, 1) for i in range(length // 2))
        for odd in (0, 1)
    ]

    def added(name: str, begin: Expr, half: int, apart: int = 1) -> Stmt:
        a, b = (load(name, vector, begin + (var(k) * 2 + other) * apart) for other in (0, 1))
        return For(k, ZERO, const(half), (StoreTo(sums, var(k), call(s.value.op, *(pick(a, b, p) for p in places))),), pragma="unroll")

    half = length // 2
    result: list[Stmt] = [Array(sums, vector, half, "register"), added(term.attr, first, half, apart.attr // lanes)]
    while half > 1:
        half //= 2
        result.append(added(sums, ZERO, half))
    at = substitute(s.address, zeros)
    value = call(s.value.op, vload(s.buffer, before.dtype, lanes, at), load(sums, vector, ZERO))
    return (*result, StoreTo(s.buffer, at, value))


def _names(name: str) -> Callable[[Expr], bool]:
    return lambda a: name in a.names
