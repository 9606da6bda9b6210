"""The plan for rows of a few vectors at most, whose elements know nothing of each other: what begins and ends such a row is most of the work.

    for i in 0 .. M parallel:                  if N <= 64:
      for j in 0 .. N parallel:                  for i in 0 .. M parallel:
        Y[i, j] = X[i, j + 1]           →          for j.0 in 0 .. ceil(N / 16):
                                                     for j.1 in 0 .. 16 vector: if j.0 · 16 + j.1 < N: …
                                               else:
                                                 … loops that begin where lines begin, of vectors side by side, of what is left over

Fewer instructions for a row than a core looks ahead also let it wait for several rows at once, where each is read from another place.  (Zen 4, one thread, AVX-512 and AVX2, rows of 2, 5, 13, 28 floats from the second and
third cache: parts of rows 0.15 to 0.25 and 0.25 to 0.4 of the time, rows of a table 0.25 and 0.25 to 0.9, a bias 0.22 to 0.3 and 0.25 to 0.6, heads and positions changing places 0.2 to 0.4 and 0.25 to 0.5.)
"""

from __future__ import annotations

from ....ir.expr import ONE, Expr, both, const
from ....ir.kernel import Kernel, Let, Loop
from ....ir.simplify import simplify
from ....ir.target import LINE, Target
from .. import cost, roles
from ..affine import extent
from ..plan import Plan
from .lines import chooses
from .partial_rows import stored_in_part
from .traffic import prefetched, threads
from .transpositions import turning
from .vectors import along_rows


def by_lanes(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for such rows, with the condition on the sizes; nothing where it has none, or they are known to be short, or long."""
    part = plan.another()
    rows = [(x, cost.lanes(plan.target, roles.widest(x.body, x.axis))) for x in _rows(part)]
    bounds = both(*(extent(x).le(const(few_vectors(plan.target) * width)) for x, width in rows))
    condition = None if bounds is None else simplify(bounds, plan.facts.known)
    if (
        condition is None
        or condition.is_const
        or not condition.names <= plan.facts.sizes.keys()
        or any(stored_in_part(part, x.axis, n) for x, n in rows)
    ):
        return []
    part = plan.another(condition)
    with plan.attempt("short rows are worked off as long ones"):
        part.do("decide")
        _rows(part)
        for x, width in rows:
            part.do("split", x.axis, width, tail="pad")
            part.do("vectorize", f"{x.axis}.1")
        prefetched(part)
        threads(part)
        return [(condition, part.kernel)]
    return []


def few_vectors(target: Target) -> int:
    """Vectors that such a row has at most: as many bytes, whatever their length.  (Zen 4, AVX2, one thread, up to eight against four: a bias on rows of 40 floats 0.71 to 0.77, of 49 from memory 0.76, of 64 1.17 and from memory
    0.85, rows of 64 that change places 0.61 to 0.93 of the time.)"""
    return cost.FEW_VECTORS * max(1, LINE // target.vector_bytes)


def _rows(plan: Plan) -> list[Loop]:
    """The loops along rows whose length is a matter of the sizes, in the order of what is stored; none where there is something else in rows, or all that is touched is one long row."""
    form = roles.shape(plan.kernel)
    inner = roles.innermost(form.body)
    if not cost.first_lanes(plan.target) or not form.chain or any(not isinstance(s, Let) for s in plan.kernel.body[:-1]):
        return []
    if roles.divided(plan.kernel, plan.facts):  # no lane divides: such loops are cut where positions begin again
        return []
    if not inner:
        if turning(plan, form, roles.positions(form, plan.facts)) or not along_rows(plan) or len(chain := roles.shape(plan.kernel).chain) < 2:
            return []
        inner = [chain[-1]]
    if any(x.kind != "parallel" or x.step is not ONE or chooses(x) for x in inner) or any(_has_vectors(plan, x) for x in inner):
        return []
    return [x for x in inner if not x.stop.is_const]


def _has_vectors(plan: Plan, x: Loop) -> bool:
    """Whether a loop is as long as a vector however short the rows are: rows side by side in lanes are not worked off any other way."""
    return x.stop.is_const and x.stop.attr >= cost.lanes(plan.target, roles.widest(x.body, x.axis)) > 1
