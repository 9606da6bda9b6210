"""Where lines of the cache begin: a loop whose results go past the caches stores them whole."""

from __future__ import annotations

from itertools import pairwise

from ....ir.expr import Expr, const
from ....ir.kernel import Alloc, If, Loop, Store, statements
from ....ir.polynomial import is_constant, plus, poly
from ....ir.simplify import assuming, prove
from ....ir.target import LINE
from .. import cost
from ..affine import performed, same_position, stride
from ..plan import Plan
from ..tree import around, reads


def aligned(plan: Plan, axis: str) -> str | None:
    """What a loop streams begins at a line: the axis of the elements before it, or None where nothing is aligned."""
    if not cost.stream_bytes(plan.target) or not cost.first_lanes(plan.target):
        return None
    stored = sorted(
        {s.buffer for s in statements(plan.loop(axis).body) if isinstance(s, Store)} & plan.facts.buffers.keys() - (plan.elsewhere or frozenset())
    )
    if len(stored) != 1:
        return None
    sums = {s.buffer.name for s in statements(plan.kernel.body) if isinstance(s, Alloc) and s.buffer.space == "register"}
    if not sums.isdisjoint(n.attr for n in reads(plan.loop(axis).body) if axis in n.names):  # a tile of sums begins at a line itself
        return None
    if chooses(plan.loop(axis)):
        return None
    held, least = plan.facts.buffers[stored[0]], past_the_caches(plan, stored[0])
    if prove((held.elements * held.dtype.bytes).lt(least), plan.facts.known):  # it is never streamed
        return None
    line, row = LINE // held.dtype.bytes, plan.loop(axis).stop
    if row.is_const and (row.attr < cost.LEAST_LINES * line or (row.attr < cost.SHORT_ROW * line and row.attr % line == 0)):
        return None
    least_row = cost.LEAST_LINES * line if row.names and row.names <= plan.facts.sizes.keys() else ""
    saved = plan.kernel
    if plan.tried("align", axis, stored[0], least=least, trips=least_row):
        return None
    cut = plan.kernel
    refused = plan.tried("stream_store", stored[0], least=least)
    plan.kernel = saved if refused else cut
    if refused:
        return None
    # What comes before the line is a vector of which the last lanes are not there, which waits for the next line all the same.  Pieces of 16 bytes do not (Zen 4, AVX-512: layer norm of 4096² 0.92, 3000² turned over 0.91 of
    # the time), but rows of 128 floats take 1.2 to 1.4 times as long so.
    head = plan.added(saved)[0]
    plan.note(f"along `{axis}` lines of `{stored[0]}` are stored whole")
    if not plan.tried("prefetch_end", stored[0], axis, least=least):
        plan.note(f"the line that a row of `{stored[0]}` ends in is asked for before the row is worked on")
    return head


def shifted(plan: Plan, axis: str) -> str | None:
    """What is made of neighbours along the rows of a plane that is known to be far begins where what is stored begins a line: vectors of the neighbours lie in two lines each in any case, but what is stored does not.  The axis of
    the elements before it; None where nothing is aligned.  Rows of a cube are short: that they are not cut costs as much as it brings (heat in one of 120³ by such steps 0.84 of the time, 1.06 where the two arrays do not begin at
    the same place of a line)."""
    path = around(plan.kernel, axis)
    loop = plan.loop(axis)
    stored = sorted({s.buffer for s in statements(loop.body) if isinstance(s, Store)})
    if len(stored) != 1 or stored[0] not in plan.facts.buffers or not cost.first_lanes(plan.target) or chooses(loop):
        return None
    held, known = plan.facts.buffers[stored[0]], assuming(plan.facts.known, plan.facts.branch)
    for s, inner in pairwise(path):
        known = assuming(known, s.condition) if isinstance(s, If) and any(x is inner for x in s.body) else known
    line, far = LINE // held.dtype.bytes, plan.target.l2 // cost.PLANE_PART
    if len(held.shape) != 2 or not _neighbours(plan, axis, line) or not prove(const(far).le(held.elements * held.dtype.bytes), known):
        return None
    saved = plan.kernel
    if plan.tried("align", axis, held.name, trips=cost.LINES_ANYWHERE * line):
        return None
    plan.note(f"along `{axis}` vectors of `{held.name}` begin at lines")
    return plan.added(saved)[0]


def _neighbours(plan: Plan, axis: str, line: int) -> bool:
    """Whether elements less than a line apart are read along the axis."""
    found: dict[str, list[Expr]] = {}
    for n in reads(plan.loop(axis).body):
        if n.attr in plan.facts.buffers and axis in n.names:
            found.setdefault(n.attr, []).append(plan.facts.buffers[n.attr].address(n.args))
    apart = [plus(poly(a), poly(b), -1) for places in found.values() for k, a in enumerate(places) for b in places[:k] if stride(a, axis) == 1]
    return any(is_constant(d) and 0 < abs(d.get((), 0)) < line for d in apart)


def past_the_caches(plan: Plan, buffer: str) -> int:
    """From how many bytes on a result goes past the caches, with as much as is read of each of its elements in mind: buffers that have as many."""
    held = plan.facts.buffers[buffer]
    read = [plan.facts.buffers[b] for b in sorted({n.attr for n in reads(plan.kernel.body)} & plan.facts.buffers.keys() - {buffer})]
    return cost.stream_bytes(plan.target, held.dtype.bytes, sum(b.dtype.bytes for b in read if same_position(b.elements, held.elements)))


def chooses(loop: Loop) -> bool:
    """Whether some loads of the loop are performed in some iterations only: such lanes are not the first ones."""
    return any(not performed(e, always=False) <= performed(e, always=True) for s in statements(loop.body) for e in s.expressions())
