"""Columns of a contraction that whole register tiles leave over, in a loop over tiles that many rows share.

    for rows:                                for rows:
      for o in 0 .. 80:                        for o.0 in 0 .. 2, o.1 in 0 .. 32:
        acc[] = Σ A[row, p] * B[p, o]            acc[] = Σ A[row, p] * B[p, 32·o.0 + o.1]
        C[row, o] = …                  →         C[row, 32·o.0 + o.1] = …
                                             for rows:
                                               for o.t in 64 .. 80:
                                                 acc.t[] = Σ A[row, p] * B[p, o.t]
                                                 C[row, o.t] = …

Both become register tiles, the second one of a vector.  Padded to whole tiles, 80 columns are 96.  (Golden Cove, one thread, attention 2·512² with a head size of 48 1.1, of 80 1.06, of 112 1.04 times as fast.)
"""

from __future__ import annotations

from typing import NamedTuple

from ....ir.instructions import Dot, Tile
from ....ir.kernel import Alloc, Loop
from ..affine import inside, is_multiple
from ..cost import VECTORS
from ..plan import Plan
from ..roles import Contraction
from ..tree import all_loops, around


class Part(NamedTuple):
    """A contraction, or a part of its columns, what multiplies it, and the columns of its register tiles."""

    nest: Contraction
    instruction: Dot | Tile | None
    columns: int  # 0: cut already


def by_width(plan: Plan, nest: Contraction, instruction: Dot | Tile | None, most: int) -> list[Part]:
    """The contraction in parts whose columns are cut differently: register tiles of so many columns, and one of a vector for what they leave over, where that is known to be no more."""
    column, few = nest.column, most // VECTORS
    loop, known = plan.loop(column), inside(around(plan.kernel, column), plan.facts.known)
    whole = Part(nest, instruction, most)
    if instruction is not None or is_multiple(loop.stop, most, known) or not is_multiple(loop.stop, few, known):
        return [whole]
    if (plan.extent(column) or most) < most:
        return [whole._replace(columns=few)]
    before, row = plan.kernel, row_of(plan, nest)
    plan.do("split", column, most, tail="cut")
    plan.do("fission", row)
    rest = next(x for x in map(plan.loop, plan.added(before)) if x.axis == f"{column}.t")
    (accumulator,) = (s.buffer for s in rest.body if isinstance(s, Alloc))
    reduced = tuple(s.axis for s in rest.body if isinstance(s, Loop) and s.kind == "reduce")
    plan.note(f"what tiles of {most} of `{column}` leave over is {few}: a tile of its own, and nothing is computed in vain")
    return [whole._replace(columns=0), Part(nest._replace(column=rest.axis, accumulator=accumulator, reduced=reduced), instruction, few)]


def row_of(plan: Plan, nest: Contraction) -> str:
    """The loop over rows around a contraction, whose columns may be cut already."""
    inner = (nest.column, f"{nest.column}.0")
    return next(x.axis for x in all_loops(plan.kernel) if len(x.body) == 1 and isinstance(x.body[0], Loop) and x.body[0].axis in inner)
