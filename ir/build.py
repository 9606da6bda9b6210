"""`Builder`: the one way to make a graph, from a composite or by hand.

    b = Builder({"M": Size("M"), "K": Size("K"), "N": Size("N")})
    c = b.matmul(b.input(port_a), b.input(port_b))
    node = b.output(c, f32, (M, N))

Results' shapes and dtypes follow NumPy, but for what docs/language.md says of dtypes: nothing is converted silently.  A user's mistake raises `BuildError`.
The methods stand in one file a family, each built on the ones before:

    scope.py        sizes: known tidy proves same require, a user's axes
    values.py       constant integer iota mask full, output, cast, expand, elementwise, where, pow
    movement.py     expand transpose squeeze unsqueeze slice split flip roll tile unfold pad triu tril concat stack
    reshape.py      reshape
    reductions.py   reduce sum prod max min any all mean var argmax argmin logsumexp, scans
    einsum.py       einsum matmul
    indexing.py     gather take_along gather_at scatter scatter_at update
"""

from __future__ import annotations

from .indexing import Indexing
from .tensor import BuildError, Int, Range, Tensor


class Builder(Indexing):
    """`Builder(sizes, facts)`: `sizes` are the free sizes by name, `facts` boolean expressions over them that proofs may assume.  `requires` collects the
    preconditions that building adds (`N % 4 == 0` of a reshape); `span` is the place that nodes are made for."""


__all__ = ["BuildError", "Builder", "Int", "Range", "Tensor"]
