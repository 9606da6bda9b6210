"""Which element of a row is its largest: decided where only one can be, though both sides of the comparison come with an error."""

from __future__ import annotations

import numpy as np

from ..expr import axis
from ..graph import Node, View
from .meaning import Array
from .tiles import Box, axes_of


def sole(node: Node, box: Box, extents: tuple[int, ...], x: list[Array], errors: list[Array | None]) -> Array | None:
    """Where `x == max(x)` (or min) over a box, of one x, is decided: in rows that lie in the box whole, and in which one element alone reaches the extreme.  None: nowhere.

    Compared as two unrelated numbers, an element that is the largest is never known to equal the maximum: both are off by the error of that element.
    """
    for k, (view, other) in enumerate((node.args, node.args[::-1])):
        reduced = _reduced(view, other)
        if reduced is None or any(box[a] != (0, extents[a]) for a in reduced):
            continue
        shape = tuple(hi - lo for lo, hi in box)
        reach = sum((e for e in errors if e is not None), np.zeros(()))
        near = np.broadcast_to(~(np.abs(x[0] - x[1]) > reach) | np.isnan(x[k]), shape)
        return (near.sum(reduced, keepdims=True) == 1) & np.isfinite(reach)  # what is infinitely far may be NaN, which equals nothing
    return None


def _reduced(view: View, other: View) -> tuple[int, ...] | None:
    """The axes of the comparison over which `view` is the maximum or minimum of `other`, or None."""
    extreme = view.node
    if extreme.op != "reduce" or extreme.attr.combiner not in ("max", "min") or view.domain is not None or not other.is_identity:
        return None
    of, rank = extreme.args[0], len(view.index)
    if of.node is not other.node or of.domain is not None or len(axes_of(of)) != len(of.index):
        return None
    reduced: list[int] = []
    for position, read in zip(other.index, of.index, strict=True):
        kept = next((k for k in range(rank) if read is axis(k)), None)
        if kept is not None:
            if view.index[kept] is not position:
                return None
        elif any(read is axis(rank + k) for k in range(len(extreme.attr.extents))):
            reduced.extend(axes_of(View(other.node, (position,))))
        else:
            return None
    return tuple(reduced) or None
