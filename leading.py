"""The `~` of a port: any number of leading broadcast axes, brought to the one that the compiled composite has.

X{T}[~ N] with X of shape (2, 3, 5)   →   shape (6, 5) for the call, and results of shape (2, 3, …) back
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .ir.graph import Port

if TYPE_CHECKING:
    import numpy

    from .dsl.ast import Composite


def leading_ports(composite: Composite | None) -> frozenset[str]:
    """The ports that begin with `~`."""
    if composite is None:
        return frozenset()
    from .dsl.interface import is_broadcast

    return frozenset(p.name for p in composite.ports if p.sizes is not None and is_broadcast(p.sizes))


def fold_leading(arrays: dict[str, Any], ports: tuple[Port, ...], leading: frozenset[str]) -> tuple[dict[str, Any], tuple[int, ...] | None]:
    """The arrays with their leading axes made one, and the shape that these had together; None where they are one already.

    Inputs are broadcast (and copied where they must be); an array that is written must have the common shape and be a view.  ValueError names the port.
    """
    import numpy

    own = {p.name: len(p.shape) - 1 for p in ports if p.name in leading}
    found = {name: arrays[name].shape[: arrays[name].ndim - own[name]] for name in own if name in arrays and arrays[name].ndim >= own[name]}
    if not found or (all(len(s) == 1 for s in found.values()) and len(set(found.values())) == 1):
        return arrays, None
    try:
        common = numpy.broadcast_shapes(*found.values())
    except ValueError:
        shapes = ", ".join(f"{list(s)} of {name}" for name, s in found.items())
        raise ValueError(f"the leading axes do not broadcast: {shapes}") from None
    roles = {p.name: p.role for p in ports}
    folded = dict(arrays)
    for name, shape in found.items():
        array = arrays[name]
        rest = array.shape[len(shape) :]
        if roles[name] == "in":
            folded[name] = numpy.broadcast_to(array, (*common, *rest)).reshape((math.prod(common), *rest))
            continue
        if shape != common:
            raise ValueError(f"port {name}: it is written, and its leading axes {list(shape)} are not the common ones {list(common)}")
        folded[name] = array.reshape((math.prod(common), *rest))
        if array.size and not numpy.shares_memory(folded[name], array):
            raise ValueError(f"port {name}: it is written, and its leading axes cannot be made one without a copy")
    return folded, common


def unfold_leading(array: numpy.ndarray, common: tuple[int, ...]) -> numpy.ndarray:
    """A result with the leading axes that the arguments had."""
    return array.reshape((*common, *array.shape[1:]))


def unfolded(results: Mapping[str, Any], given: Mapping[str, Any], leading: frozenset[str], common: tuple[int, ...] | None) -> dict[str, Any]:
    """The results as the caller knows them: the arrays that were given, or new ones with the leading axes back."""
    if common is None:
        return dict(results)
    return {name: given[name] if name in given else unfold_leading(a, common) if name in leading else a for name, a in results.items()}
