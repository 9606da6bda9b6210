"""The positions of a tensor that an event stores, where they are a box, and the node of a version that is a value in a box and what it was before beside it."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.bounds import Known
from ..ir.dtypes import DType, bool_
from ..ir.expr import ONE, ZERO, Expr, axis, both, const
from ..ir.graph import Node, Shape, View, const_node, elementwise, identity, make
from ..ir.polynomial import coefficient, degree, poly
from ..ir.polynomial import expr as from_poly
from ..ir.simplify import prove_equal
from ..ir.walks import postorder
from .loop_records import Event


def covering(event: Event, axes: list[Expr], boxes: Mapping[Expr, Expr], shape: Shape, known: Known) -> tuple[dict[Expr, Expr], Expr | None] | None:
    """The loop variables as functions of the position, and the positions that are stored (None: all of them), where they are a box; else None."""
    inverse: dict[Expr, Expr] = {}
    domain: Expr | None = None
    for d, (e, extent) in enumerate(zip(event.index, shape, strict=True)):
        inside = [v for v in axes if v in set(postorder(e))]
        slope, least, count = ONE, e, ONE
        if inside:
            p, v = poly(e), inside[0]
            if len(inside) != 1 or v in inverse or degree(p, v) != 1:
                return None
            slope, offset = (from_poly(x) for x in coefficient(p, v))
            if slope not in (ONE, const(-1)):
                return None
            count = boxes[v]  # negative for none: then the bounds of the box contradict each other
            least = offset if slope is ONE else offset + 1 - count
            inverse[v] = slope * (axis(d) - offset)
        if not prove_equal(least, ZERO, known):
            domain = both(domain, least.le(axis(d)))
        if not prove_equal(least + count, extent, known):
            domain = both(domain, axis(d).lt(least + count))
    return inverse, domain


def box_of(event: Event, view: View, domain: Expr | None, old: Node, shape: Shape) -> Node:
    """A box of the tensor is the value, the rest as it was."""
    if old.op == "const" and view.domain is None:
        return make("contiguous", old.dtype, shape, (View(view.node, view.index, domain, old.attr.value),), span=event.span)
    condition = View(const_node(True, bool_), (), domain, False)
    base = View(old, ()) if old.op == "const" else identity(old)
    return elementwise("where", shape, condition, View(view.node, view.index, both(domain, view.domain), view.fill), base, span=event.span)


def whole(view: View, dtype: DType, shape: Shape) -> Node:
    """The view as a node of this shape."""
    if view.is_identity and view.node.shape == shape and view.node.op != "const":
        return view.node
    return make("contiguous", dtype, shape, (view,))
