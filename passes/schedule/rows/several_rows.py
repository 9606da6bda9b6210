"""Rows of a reduction that share an operand (a matrix times a vector) are worked off several at a time: what they share is loaded once for all.

    for b in 0 .. B parallel:                      for b_i in 0 .. B * ceil(M / 4) parallel:
      for i in 0 .. M parallel:                      if there are four:
        alloc acc: f32[64] register                    alloc acc: f32[4, 64] register
        for p in 0 .. N // 64 reduce:          →       for p in 0 .. N // 64 reduce:
          for q in 0 .. 64 vector:                       for i.1 in 0 .. 4 unroll:
            acc[q] add= A[b, i, p, q] * X[b, p, q]         for q in 0 .. 64 vector:
        Y[b, i] = Σ acc                                      acc[i.1, q] add= A[b, 4·i.0 + i.1, p, q] * X[b, p, q]
                                                       …
                                                     else:
                                                       … row by row

Each row is summed as it was alone, and threads share all of them.  Loads that straddle lines of the cache, as all do of memory that NumPy gave, are what bounds such a row otherwise: two for each vector, where memory is fast.

What comes from memory is asked for in the order of addresses (`near`), so far ahead that the rows of the next iteration are in the second cache when it begins: prefetchers of machines follow one stream better than some side by side,
and begin anew at each page.
"""

from __future__ import annotations

from ....ir.expr import ZERO
from ....ir.kernel import Alloc, Let, Loop
from .. import cost, roles
from ..plan import Plan
from ..tree import reads


def shares(plan: Plan) -> str:
    """A buffer of which a reduction that is in no vectors yet reads something for each row, while it reads another for all; "" where rows hold anything else."""
    form = roles.shape(plan.kernel)
    inner = [s for s in form.body if isinstance(s, Loop)]
    if not form.chain or len(inner) != 1 or inner[0].kind != "reduce" or any(isinstance(s, Loop) for s in inner[0].body):
        return ""
    moved = {n.attr: form.axes[-1] in n.names for n in reads(inner[0].body) if n.attr in plan.facts.buffers and inner[0].axis in n.names}
    return next((buffer for buffer, each in moved.items() if each), "") if not all(moved.values()) else ""


def several_rows(plan: Plan, most: int, near: int = 0) -> bool:
    """Work off so many rows together whose reduction is in vectors already, and ask for what they read so many bytes ahead; False, and nothing done, where they share no operand or hold more than reductions."""
    form = roles.shape(plan.kernel)
    outer = [s for s in form.body if isinstance(s, Loop) and s.kind == "reduce"]
    if (
        not form.chain
        or form.chain[-1].start is not ZERO
        or len(outer) not in (1, 2)  # whole vectors, and what they leave over
        or most < 2
        or any(not isinstance(s, Let) for s in plan.kernel.body[:-1])
    ):
        return False
    axis, row = outer[0].axis, form.axes[-1]
    moved = [n for n in reads(outer[0].body) if n.attr in plan.facts.buffers and axis in n.names]
    inside = [s for s in outer[0].body if isinstance(s, Loop)]
    if len(inside) != 1 or inside[0].kind != "vector" or not any(row in n.names for n in moved) or all(row in n.names for n in moved):
        return False
    with plan.attempt(f"rows of `{row}` one by one") as attempt:
        plan.do("split", row, most)
        row = f"{row}.1"
        if plan.extent(row) is None:
            earlier = plan.kernel
            plan.do("version", most, row)
            row = plan.added(earlier)[0]
        along = [s.axis for s in plan.loop(row).body if isinstance(s, Loop) and s.kind == "reduce"]
        for s in plan.loop(row).body:
            if isinstance(s, Alloc):
                plan.do("expand", s.buffer.name, row)
        earlier = plan.kernel
        plan.do("fission", row, around=",".join(along))
        pieces = [row, *plan.added(earlier)]
        held = {s.axis: x for x in pieces for s in plan.loop(x).body if isinstance(s, Loop) and s.axis in along}
        for x in along:
            plan.do("reorder", x, held[x])
        for x in pieces:  # sums stay in registers, and are folded side by side
            plan.do("unroll", x)
        for buffer in dict.fromkeys(n.attr for n in moved if form.axes[-1] in n.names):
            if near:
                plan.do("prefetch", buffer, along[0], along[0], near=near, cache=cost.NEXT_ROW_CACHE)
            elif not cost.streams(plan.target).least:
                plan.tried("prefetch", buffer, held[along[0]], along[0], trips=cost.TURNS_AHEAD)
    if attempt.refused:
        return False
    plan.do("parallel", plan.collapsed((*form.axes[:-1], f"{form.axes[-1]}.0")))
    plan.note(f"{most} rows of `{form.axes[-1]}` together: what they share is loaded once for all")
    return True
