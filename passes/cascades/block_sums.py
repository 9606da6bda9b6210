"""Sums of blocks of small integers, each of which is a term of one sum of floats, and is finished inside of it.

    Y[m, n] = Σ_b s[m, b] · t[n, b] · Σ_i A[m, b, i] · B[n, b, i]        the sum over i is of integers, and exact

What one block sums is a number for each row, column and block: as a tensor in memory, or as scores of a cascade, it would be the largest that there is.  Inside the other sum it stays in the registers in
which an instruction of the target adds up products of neighbours (`schedule/sums_of_blocks.py`).
"""

from __future__ import annotations

from ...ir.dtypes import f32, i32
from ...ir.expr import axis
from ...ir.graph import Graph, Node, postorder, users
from ...ir.primops import OPS
from ...ir.target import Target
from ..reading import as_byte
from ..schedule.steps.dots import choice
from .scores import pointwise_reads, private, spread

EXACT = 256  # products of two bytes, 255² at most, of which f32 holds all sums


def block_sums(ir: Graph, target: Target) -> frozenset[Node]:
    """The sums of such blocks, whose lengths are constants, that nobody else reads."""
    if target.gpu or not target.vector_bytes:
        return frozenset()
    found = {n: r for n in ir.nodes() if (r := _block_sum(n, target)) is not None}
    if not found:
        return frozenset()
    readers, outputs = users(ir), {n for _, n in ir.outputs}
    return frozenset(r for n, r in found.items() if private(r, {n}, readers, outputs))


def _block_sum(n: Node, target: Target) -> Node | None:
    """The one sum of a block that a sum of floats reads at another place for each of its terms."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.dtype is not f32 or len(n.attr.extents) != 1:
        return None
    reads = [v for v in pointwise_reads(n) if v.node.op == "reduce" and spread(v.node)]  # sums of rows, or of columns, are less: they are made first
    domain = n.shape + n.attr.extents
    if len(reads) != 1 or reads[0].domain is not None or any(e.op != "axis" for e in reads[0].index):
        return None
    (view,) = reads
    r = view.node
    whole = all(domain[e.attr] is extent for e, extent in zip(view.index, r.shape, strict=True)) and len(set(view.index)) == n.rank + 1 == r.rank
    return r if whole and axis(n.rank) in view.index and _is_of_words(r, target) and _scaled(n.args[0].node, r) else None


def _scaled(term: Node, r: Node) -> bool:
    """Whether the sum of a block is only scaled and shifted on the way to the sum that it is a term of: what more is made of scores is for the tiles of a cascade."""
    made = {r}  # what the sum is a part of
    for m in postorder(term):
        if m is not r and m.op in OPS and any(a.node in made for a in m.args):
            made.add(m)
            if m.op not in ("mul", "add", "sub", "cast"):
                return False
    return True


def _is_of_words(r: Node, target: Target) -> bool:
    """Whether a sum is of products of bytes, or of bytes to which the same is added all along a block: of whole words, where the target multiplies these by an instruction, else of so few bytes that it is exact in floats."""
    product = r.args[0].node
    if r.attr.combiner != "add" or not r.args[0].is_identity or product.op != "mul" or len(r.attr.extents) != 1 or not r.attr.extents[0].is_const:
        return False
    left, right = (as_byte(v) for v in product.args)
    if left is None or right is None or r.dtype is not i32:
        return False
    shifts = [f.shift for f in (left, right) if f.shift is not None]
    if any(r.rank in v.axes for v in shifts) or any(f.byte.node.args[0].domain is not None for f in (left, right)):
        return False
    dot, length = choice(target.instructions, *(f.byte.node.args[0].dtype for f in (left, right))), r.attr.extents[0].attr
    if dot is None:
        return length <= EXACT and not shifts
    return dot.result is r.dtype and length % dot.neighbours == 0
