"""graph → graph: scales of blocks leave a sum of products of small integers, where a machine then multiplies what is left of each block by one instruction.

    Σ_x (a[m, x] · s[m, x // 32]) · (b[n, x] · t[n, x // 32])        →        Σ_k s[m, k] · t[n, k] · Σ_i a[m, 32 k + i] · b[n, 32 k + i]

    %21 = mul f32[M, N, K * 32] %10[$0, $2 // 32, $2 % 32] %20[…]          %21 = reduce.add i32[M, N, K] over [32] …
    %22 = reduce.add f32[M, N] over [K * 32] %21                     →     %22 = mul f32[M, N, K] cast(%21) …
                                                                           %23 = reduce.add f32[M, N] over [K] %22

Matrices in blocks of bytes with a scale each (GGML's Q8_0) are multiplied so: the sum of a block is exact, a scale is multiplied once for each (`block_sums.py` says how).  The same for a sum over both axes, and of
bytes less a zero of their own, which is a small integer and the same all along a block: of Q4_0 8, of others a byte for each block.

Conditions: a sum of floats of 32 bits, of products of two bytes that become floats, each of which varies with an axis of the result that the other has not, and of factors that are the same all along a block; blocks
are words, of which the sum is no more than i32 holds.  Sums are reassociated: not under --strict.
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.dtypes import f32, i32
from ..ir.expr import ZERO, axis, const, floordiv
from ..ir.graph import Graph, Node, Shape, View, const_node, elementwise, identity, reduce_node, rewrite
from ..ir.ranges import Range
from ..ir.simplify import prove_equal, simplify
from ..ir.target import Options, Target
from ..ir.walks import postorder
from .cascades.block_sums import EXACT
from .reading import as_byte, factors, is_byte
from .schedule.steps.dots import choice

MOST = 1 << 14  # elements of a block: the products of so many are no more than i32 holds


def take_out_scales(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    known = Known(ir.size_info())
    return rewrite(ir, lambda n: _taken_out(n, target, known))


def _taken_out(n: Node, target: Target, known: Known) -> Node | None:
    if n.op != "reduce" or n.attr.combiner != "add" or n.dtype is not f32 or not n.args[0].is_identity:
        return None
    found = factors(n.args[0])
    sides = [v for v in found if _integers(v) is not None]
    if len(sides) != 2 or not (sides[0].axes - sides[1].axes and sides[1].axes - sides[0].axes):
        return None
    length = _length(n, [v for v in found if v not in sides])
    dot = choice(target.instructions, *(f.byte.node.args[0].dtype for v in sides if (f := as_byte(v)) is not None))
    if length is None or not 1 < length <= MOST or dot is None or dot.result is not i32 or length % dot.neighbours:
        return None
    blocks = n.attr.extents[0] if len(n.attr.extents) == 2 else simplify(floordiv(n.attr.extents[0], const(length)), known)
    if len(n.attr.extents) == 1 and not prove_equal(blocks * length, n.attr.extents[0], known):
        return None
    block, inside = axis(n.rank), axis(n.rank + 1)
    known = known.with_ranges({f"${n.rank}": Range(ZERO, blocks - 1), f"${n.rank + 1}": Range(ZERO, const(length - 1))})

    def within(v: View) -> View:
        if len(n.attr.extents) == 2:
            return v
        moved = v.through({block: block * length + inside})
        return View(
            moved.node, tuple(simplify(e, known) for e in moved.index), None if moved.domain is None else simplify(moved.domain, known), moved.fill
        )

    scales = [within(v) for v in found if v not in sides]
    shifts = [within(f.shift) for v in sides if (f := as_byte(v)) is not None and f.shift is not None]
    if any(n.rank + 1 in v.axes for v in (*scales, *shifts)):
        return None
    shape: Shape = (*n.shape, blocks)
    terms = elementwise("mul", (*shape, const(length)), *(within(i) for v in sides if (i := _integers(v)) is not None), span=n.span)
    sums = reduce_node("add", shape, (const(length),), identity(terms), n.span)
    value = elementwise("cast", shape, identity(sums), to=f32, span=n.span)
    for v in scales:
        value = elementwise("mul", shape, identity(value), v, span=n.span)
    return reduce_node("add", n.shape, (blocks,), identity(value), n.span)


def _integers(v: View) -> View | None:
    """A byte that becomes a float, and perhaps a small integer that is taken from it there, as one that becomes an integer; None where it is something else."""
    if v.domain is not None:
        return None
    n = v.node
    if is_byte(v):
        return None if n.args[0].domain is not None else View(elementwise("cast", n.shape, n.args[0], to=i32, span=n.span), v.index)
    if n.op not in ("add", "sub"):
        return None
    args = [_integers(a) if is_byte(a) else _small(a) for a in n.args]
    if as_byte(v) is None or None in args:
        return None
    return View(elementwise(n.op, n.shape, *(a for a in args if a is not None), span=n.span), v.index)


def _small(v: View) -> View | None:
    """A constant as an integer, where it is as small as a byte."""
    c = v.node.attr.value if v.node.op == "const" and v.domain is None else None
    return View(const_node(int(c), i32, v.node.span), v.index) if c is not None and abs(c) < EXACT and c == int(c) else None


def _length(n: Node, scales: list[View]) -> int | None:
    """How long a block is along which scales are the same; None where there is none."""
    if len(n.attr.extents) == 2:
        moving = any(n.rank in v.axes for v in scales)
        return n.attr.extents[1].attr if moving and n.attr.extents[1].is_const else None
    if len(n.attr.extents) != 1:
        return None
    along = axis(n.rank)
    quotients = {e.args[1].attr for v in scales for e in postorder(*v.exprs) if e.op == "floordiv" and e.args[0] is along and e.args[1].is_const}
    return quotients.pop() if len(quotients) == 1 else None
