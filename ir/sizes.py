"""Sizes from shapes: what a call's arrays say about the free sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from .evaluate import evaluate
from .expr import Expr
from .graph import Shape
from .walks import leaves


class SizeConflict(Exception):
    """Two arrays disagree about a size, or an extent does not match its formula."""


def solve(
    shapes: Mapping[str, tuple[Shape, tuple[int, ...]]],
    known: Mapping[str, int],
    order: Sequence[str],
    more: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """The free sizes, in the order of `order` where they are known.

    `shapes[port] = (symbolic shape, actual shape)`.  A plain size is read off; an extent with one unknown size is solved where it is affine in it; every extent is
    checked at the end.  Raises SizeConflict naming the ports and the axes.  `more[port]`: how many more axes the caller's array has, whose numbers are told.
    """
    found = dict(known)
    origin = dict.fromkeys(known, "a keyword")
    pending = [(port, k, e, n) for port, (shape, actual) in shapes.items() for k, (e, n) in enumerate(zip(shape, actual, strict=True))]
    progress = True
    while progress:
        progress = False
        for port, k, e, n in pending:
            unknown = {s.attr for s in leaves(e, "size")} - found.keys()
            if len(unknown) != 1:
                continue
            (name,) = unknown
            value = _invert(e, name, n, found)
            if value is not None:
                found[name], origin[name], progress = value, f"axis {k + more.get(port, 0)} of {port}", True
    for port, k, e, n in pending:
        names = [s.attr for s in leaves(e, "size")]
        if any(s not in found for s in names):
            continue
        if evaluate(e, found) != n:
            told = ", ".join(f"{s} = {found[s]} (from {origin[s]})" for s in names)
            expected = told if e.op == "size" else f"{e!r} = {evaluate(e, found)}" + (f" with {told}" if told else "")
            raise SizeConflict(f"axis {k + more.get(port, 0)} of port {port} has {n} elements, expected {expected}")
    return {s: found[s] for s in order if s in found}


def _invert(e: Expr, name: str, n: int, found: Mapping[str, int]) -> int | None:
    """The value of `name` for which e = n, if e is affine in it with a non-zero slope."""
    at = [evaluate(e, {**found, name: x}) for x in (0, 1, 2)]
    slope = at[1] - at[0]
    if slope == 0 or at[2] - at[1] != slope or (n - at[0]) % slope:
        return None
    return (n - at[0]) // slope
