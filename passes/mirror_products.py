"""graph → graph: of a product with its own transpose one half is multiplied, and is the other half too.

    C[i, j] = Σ_p x[i, p] · x[j, p]        →    S[i, j] = where(j ≤ i, Σ_p x[i, p] · x[j, p], 0)                 a tensor
                                                 C[i, j] = where(j ≤ i, S[i, j], S[j, i])

Tiles that the mask leaves nothing of are not summed up (the step `skip`), and what is turned over is copied in squares.  Both halves are the sums of the same products, so nothing is given up.
BLAS has a routine of its own for it (syrk; Dongarra et al., "A set of level 3 basic linear algebra subprograms", 1990), and NumPy finds it where both operands are one array.

Conditions: floats that no instruction multiplies by pairs; the product becomes a result, pointwise and as a whole (what reads one half alone, or reduces it, wants no copy); so many rows, and so much of each, that half of the products
take longer than the copy, which the sizes decide at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.bounds import Known
from ..ir.dtypes import f32, f64
from ..ir.expr import FALSE, TRUE, Expr, axis, both, const, minimum, product
from ..ir.graph import Graph, Node, View, condition_of, const_node, contiguous_node, elementwise, identity, reduce_node, scalar, truth, users
from ..ir.primops import OPS
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from ..ir.walks import leaves
from .products.by_sizes import BySizes, extents_where, replaced
from .rules.pattern import same_view

# Elements of each row from which on the copy takes less than half of the products, where so many times the rows are as many (Granite Rapids, one thread, f32, rows × elements, beside all products: 96×1000 0.76, 128×512 0.77, 256² 0.89,
# 300² 0.81, 500² 0.75, 600×2000 0.68 of the time; 200×128 1.0, 96² 1.26, 500×100 1.22).  Threads share rows of the half, some of which are shorter, evenly only where these are many (two of them: 300² 1.15, 500² 0.94, 700² 0.80, 500×2000 0.7).
ELEMENTS, WIDE = 256, 3
SHARED = 384  # elements and rows, where threads share them

Readers = Mapping[Node, list[tuple[Node, int]]]


def mirror_products(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu or not target.vector_bytes:
        return ir
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    readers, outputs = users(ir), {n for _, n in ir.outputs}
    better: dict[Node, Node | BySizes] = {}
    for n in ir.nodes():
        pair = _own_transpose(n)
        if pair is None or not _whole(n, readers, outputs):
            continue
        first = simplify(_worth(n, pair[0], target.threads), known)
        if first is not FALSE:
            mirrored = _mirrored(n, pair, None if first is TRUE else first)
            better[n] = mirrored if first is TRUE else BySizes(first, identity(mirrored), identity(n))
    return replaced(ir, better) if better else ir


def _own_transpose(n: Node) -> tuple[int, int] | None:
    """The two axes of a product whose operands are one, read at either; None where it is something else."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.dtype not in (f32, f64) or n.args[0].domain is not None or n.args[0].node.op != "mul":
        return None
    a, b = n.args[0].operands
    (one, other) = (sorted({*v.axes} - w.axes) for v, w in ((a, b), (b, a)))
    if a.node is not b.node or len(one) != 1 or len(other) != 1:
        return None
    i, j = sorted((*one, *other))
    if j >= n.rank or n.shape[i] is not n.shape[j] or a.dtype is not n.dtype:
        return None
    swapped = a.through({axis(i): axis(j), axis(j): axis(i)})
    return (i, j) if same_view(swapped, b) else None


def _whole(n: Node, readers: Readers, outputs: set[Node]) -> bool:
    """Whether what becomes of a value is a result, element by element."""
    if not readers[n]:
        return n in outputs
    return all(
        (m.op in OPS or m.op == "contiguous") and m.args[k].is_all(m.shape) and not _masked(m) and _whole(m, readers, outputs) for m, k in readers[n]
    )


def _masked(n: Node) -> bool:
    """Whether positions choose what is read of a value."""
    given = condition_of(n.args[0]) if n.op == "where" else None
    return given is not None and bool(leaves(given, "axis"))


def _worth(n: Node, row: int, threads: bool) -> Expr:
    """For which sizes half of the products take longer than the copy: one comparison, of which the opposite is one too."""
    least, wide = (SHARED, 1) if threads else (ELEMENTS, WIDE)
    return const(least).le(minimum(n.shape[row] * wide, product(n.attr.extents)))


def _mirrored(n: Node, pair: tuple[int, int], wanted: Expr | None) -> Node:
    i, j = map(axis, pair)
    lower = truth(j.le(i))
    shape = extents_where(wanted, n.shape)
    summed = n if shape is n.shape else reduce_node("add", shape, n.attr.extents, n.args[0], n.span)
    half = elementwise("where", shape, lower, identity(summed), scalar(const_node(0.0, n.dtype)), span=n.span)
    stored = contiguous_node(identity(half), shape, n.span)
    here = tuple(map(axis, range(n.rank)))
    there = tuple({i: j, j: i}.get(a, a) for a in here)
    sides = (View(stored, at, wanted, 0) for at in (here, there))
    return elementwise("where", n.shape, lower, *sides, span=n.span)
