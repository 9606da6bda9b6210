"""What a kernel that memory bounds is given when its vectors are there: threads, what they will read asked for ahead of time, results that go past the caches."""

from __future__ import annotations

import math

from ...ir.kernel import Alloc, Loop, statements, written
from ...ir.target import LINE, PAGE
from . import cost, prefetches, roles
from .plan import Plan
from .tree import all_loops, touched


def threads(plan: Plan) -> None:
    """The outermost parallel loop of more than one trip gets the threads; the next is collapsed into it where it is known to be short, where two loops or more are inside it, or a row with loops of its own."""
    form = roles.shape(plan.kernel)
    axes, rows = form.axes, any(isinstance(s, Loop) and s.kind not in ("vector", "unroll") for s in statements(form.body))
    single = next((k for k, axis in enumerate(axes) if plan.extent(axis) != 1), len(axes))
    if single == len(axes):  # the loops inside keep the threads
        for axis in axes:
            plan.do("serial", axis)
        return
    outer = axes[single]
    short = plan.extent(outer) is None and plan.at_most(outer) is not None
    if len(axes) - single > (1 if short or rows else 2) and not plan.tried("collapse", outer, axes[single + 1]):
        outer = roles.shape(plan.kernel).axes[single]
    plan.do("parallel", outer)
    if any(isinstance(s, Alloc) and s.buffer.space == "private" and not s.buffer.elements.is_const for s in statements(plan.kernel.body)):
        plan.tried("region", *(() if plan.alone else (outer,)))  # memory of a row is allocated once a thread


def prefetched(plan: Plan) -> None:
    """The next row comes from memory while this one is worked on in the cache."""
    for buffer, axis, row, again, under in list(prefetches.candidates(plan.kernel, plan.facts)):
        most, note = plan.target.l2 // cost.NEXT_ROW, f"`{axis}` asks for what the next iteration of `{row}` reads of `{buffer}`"
        if again:  # a short row is there before the last loop begins
            if not plan.tried("prefetch", buffer, axis, row, most=PAGE):
                plan.note(f"{note}, where that is within a page")
            continue
        width = next((plan.extent(x.axis) or 1 for x in plan.loop(axis).body if isinstance(x, Loop) and x.kind == "vector"), 1)
        # where to ask is worked out for each line: a fifth of the time of a short row
        dear = width * plan.facts.buffers[buffer].dtype.bytes <= LINE
        over = {"over": PAGE} if under else {}
        near = _near(plan, buffer, axis, row)
        later = next(iter(prefetches.as_long(plan.kernel, axis, row)), None)
        if later and not under and not plan.tried("prefetch", buffer, axis, row, places=cost.PLACES, most=most, then=later, cache=near):
            plan.note(f"{note}, in {cost.PLACES} places at once, and `{later}` for half of it")
        elif (not dear or under) and not plan.tried("prefetch", buffer, axis, row, places=cost.PLACES, most=most, **over, cache=near):
            plan.note(f"{note}, in {cost.PLACES} places at once")
        elif not plan.tried("prefetch", buffer, axis, row):
            plan.note(note)
    for buffer, axis, row in list(prefetches.decided(plan.kernel, plan.facts)):
        if not plan.tried("prefetch", buffer, axis, row, bytes=cost.AHEAD):
            plan.note(f"where `{row}` reads `{buffer}` is decided by memory: `{axis}` asks for a row {cost.AHEAD >> 10} KiB ahead")


def _near(plan: Plan, buffer: str, axis: str, row: str) -> int:
    """Into which cache the next row comes: the first where this one is known to leave it room, and nothing else is worked with."""
    memory = {
        s.buffer.name for s in statements(plan.kernel.body) if isinstance(s, Alloc) and s.buffer.space != "register"
    } | plan.facts.buffers.keys()
    trips = [plan.at_most(axis), *(plan.extent(x.axis) for x in all_loops(plan.loop(axis).body))]
    alone = not (touched(plan.loop(row).body) & memory - {buffer}) and None not in trips
    bytes_ = plan.facts.buffers[buffer].dtype.bytes * math.prod(t for t in trips if t)
    return 1 if alone and cost.ROWS_NEAR * bytes_ <= plan.target.l1 else cost.NEXT_ROW_CACHE


def streamed(plan: Plan) -> None:
    """Results that are larger than what they can keep of the last cache go past it."""
    least = cost.stream_bytes(plan.target)
    inside = tuple(x for x in all_loops(plan.kernel) if x.kind == "vector")
    for buffer in sorted((written(inside) & plan.facts.buffers.keys()) - (plan.elsewhere or frozenset())) if least else ():
        if not plan.tried("stream_store", buffer, least=least):
            plan.note(f"`{buffer}` is stored past the caches from {least >> 20} MiB on")


def asked_ahead(plan: Plan, axis: str, buffers: list[str]) -> None:
    """What a long axis reads in order is asked for ahead of time where the caches do not hold it: machines do not look across a page."""
    row, least = f"{axis}.0", cost.stream_bytes(plan.target)
    if not least or not plan.has(row):
        return
    inner = row if any(isinstance(s, Loop) and s.kind == "vector" for s in plan.loop(row).body) else f"{axis}.1.0"
    for buffer in buffers:
        bytes_ = (cost.HELD if inner != row else cost.lanes(plan.target, roles.widest(plan.loop(row).body))) * plan.facts.buffers[buffer].dtype.bytes
        if plan.has(inner) and not plan.tried("prefetch", buffer, inner, row, trips=cost.AHEAD // bytes_, least=least):
            plan.note(f"`{inner}` asks for `{buffer}` {cost.AHEAD >> 10} KiB ahead from {least >> 20} MiB on")
