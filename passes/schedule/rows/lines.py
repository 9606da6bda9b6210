"""Where lines of the cache begin: a loop whose results go past the caches stores them whole."""

from __future__ import annotations

from ....ir.kernel import Alloc, Loop, Store, statements
from ....ir.simplify import prove
from ....ir.target import LINE
from .. import cost
from ..affine import performed, same_position
from ..plan import Plan
from ..tree import reads


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


def past_the_caches(plan: Plan, buffer: str) -> int:
    """From how many bytes on a result goes past the caches, with as much as is read of each of its elements in mind: buffers that have as many."""
    held = plan.facts.buffers[buffer]
    read = [plan.facts.buffers[b] for b in sorted({n.attr for n in reads(plan.kernel.body)} & plan.facts.buffers.keys() - {buffer})]
    return cost.stream_bytes(plan.target, held.dtype.bytes, sum(b.dtype.bytes for b in read if same_position(b.elements, held.elements)))


def chooses(loop: Loop) -> bool:
    """Whether some loads of the loop are performed in some iterations only: such lanes are not the first ones."""
    return any(not performed(e, always=False) <= performed(e, always=True) for s in statements(loop.body) for e in s.expressions())
