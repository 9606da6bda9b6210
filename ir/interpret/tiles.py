"""How a domain is cut into pieces that fit in memory."""

from __future__ import annotations

import math
from itertools import product

from ..graph import View
from ..walks import postorder

Box = tuple[tuple[int, int], ...]  # (first, one past the last) along each axis


def axes_of(view: View) -> frozenset[int]:
    """The axes of its user's domain that an operand depends on."""
    roots = view.exprs
    return frozenset(n.attr for n in postorder(*roots) if n.op == "axis")


def two_groups(has: list[frozenset[int]], ranges: list[int]) -> list[list[int]]:
    """Split the factors into two, joining those whose product is smallest first."""
    groups = [([k], h) for k, h in enumerate(has)]
    while len(groups) > 2:
        pairs = [(math.prod(ranges[a] for a in groups[i][1] | groups[j][1]), i, j) for i in range(len(groups)) for j in range(i)]
        _, i, j = min(pairs)
        groups[j] = (groups[j][0] + groups[i][0], groups[j][1] | groups[i][1])
        del groups[i]
    return [g for g, _ in groups]


def chunks(ranges: list[int], sets: list[frozenset[int]], limit: int) -> list[int]:
    """Lengths to cut the axes into, outermost first, until the domain over each set of axes has at most `limit` points."""
    lengths = list(ranges)
    for k in range(len(lengths)):
        while lengths[k] > 1 and any(k in s and math.prod(lengths[a] for a in s) > limit for s in sets):
            lengths[k] = (lengths[k] + 1) // 2
    return lengths


def boxes(box: Box, lengths: list[int]) -> list[Box]:
    cuts = [[(p, min(p + n, hi)) for p in range(lo, hi, n)] for (lo, hi), n in zip(box, lengths, strict=True)]
    return list(product(*cuts))
