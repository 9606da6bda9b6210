"""What a kernel that memory bounds is given when its vectors are there: threads, what they will read asked for ahead of time, results that go past the caches."""

from __future__ import annotations

from ....ir.expr import TRUE
from ....ir.kernel import Alloc, Loop, statements, written
from ....ir.target import LINE, PAGE
from .. import cost, roles
from ..plan import Plan
from ..steps import prefetches
from ..steps.streams import large
from ..tree import all_loops, loop_around, reads
from .lines import past_the_caches


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
    places = cost.places(plan.target)
    again = list(prefetches.candidates(plan.kernel, plan.facts))
    for buffer, axis, row, under in again:
        if _few(plan, axis):
            continue
        note = f"`{axis}` asks for what the next iteration of `{row}` reads of `{buffer}`"
        # tiles of an axis lie one behind the other: what comes next is known as an address, whatever the lengths
        if plan.loop(row).kind == "serial" and not plan.tried("prefetch", buffer, axis, row, near=cost.NEXT_FAR, cache=cost.NEXT_ROW_CACHE):
            plan.note(f"`{axis}` asks for what stands {cost.NEXT_FAR >> 10} KiB behind what it reads of `{buffer}`")
        elif _in_places(plan, buffer, axis, row, PAGE if under else 0):
            plan.note(f"{note}, in {places} places at once" if places > 1 else note)
            _asked_again(plan, buffer, axis, row)
        elif not plan.tried("prefetch", buffer, axis, row):
            plan.note(note)
    if not again:
        _read_once(plan)
    for buffer, axis, row in list(prefetches.decided(plan.kernel, plan.facts)):
        if not plan.tried("prefetch", buffer, axis, row, bytes=cost.AHEAD):
            plan.note(f"where `{row}` reads `{buffer}` is decided by memory: `{axis}` asks for a row {cost.AHEAD >> 10} KiB ahead")


def _read_once(plan: Plan) -> None:
    """Rows that one reduction reads are asked for where they are known to come from memory (`from_memory` makes a variant of that), and in the chunks of a matrix that goes by once."""
    for buffer, axis in list(prefetches.read_once(plan.kernel, plan.facts)):
        row = loop_around(plan.kernel, plan.loop(axis))
        in_chunks = row is not None and row.kind == "serial" and bool(written(plan.loop(axis).body) & plan.facts.buffers.keys())
        ahead = cost.NEXT_FAR if in_chunks else cost.ONCE_AHEAD
        known = plan.target.l1 >= cost.WIDE_FIRST and large(plan.facts, buffer, cost.FAR_LEAST) is TRUE
        if (in_chunks or known) and not plan.tried(
            "prefetch", buffer, axis, row.axis if row is not None and in_chunks else axis, near=ahead, cache=cost.NEXT_ROW_CACHE
        ):
            plan.note(f"`{axis}` asks for what stands {ahead >> 10} KiB behind what it reads of `{buffer}`")


def _few(plan: Plan, axis: str) -> bool:
    """Whether a loop is known to be short, though not how long it is, such as one over the states of some chunks."""
    trips = plan.at_most(axis) if plan.extent(axis) is None else None
    return trips is not None and trips <= cost.FEW_VECTORS


def _in_places(plan: Plan, buffer: str, axis: str, row: str, over: int) -> bool:
    """Whether some rows are asked for in several places: short ones into the first cache, unless what all rows share lies there."""
    places, short = cost.places(plan.target), plan.target.l1 // cost.ROWS_NEAR
    others = {n.attr for x in plan.loop(row).body if isinstance(x, Loop) for n in reads(x.body)} & plan.facts.buffers.keys() - {buffer}

    def asked(most: int, over: int, cache: int | str = "") -> bool:
        return not plan.tried("prefetch", buffer, axis, row, places=places, most=most, over=over or "", cache=cache)

    near = short > max(over, PAGE) and not others and asked(short, over)
    far = asked(plan.target.l2 // cost.NEXT_ROW, max(over, short) if near else over, cost.NEXT_ROW_CACHE)
    return near or far


def _asked_again(plan: Plan, buffer: str, axis: str, row: str) -> None:
    """Beside results that go past the caches, what a long row is asked for is asked for again: of hints that come while stores wait for memory, machines drop some."""
    least, held = cost.stream_bytes(plan.target), plan.facts.buffers
    as_wide = [b for b in written(plan.loop(axis).body) & held.keys() if held[b].dtype.bytes >= held[buffer].dtype.bytes]
    within = {"over": cost.AGAIN_ROW, "most": plan.target.l2 // cost.NEXT_ROW}
    if not least or not as_wide or plan.target.vector_bytes < LINE or cost.places(plan.target) > 1 or within["over"] >= within["most"]:
        return
    if not plan.tried("prefetch", buffer, axis, row, least=least, cache=cost.NEXT_ROW_CACHE, again=cost.AGAIN, **within):
        plan.note(
            f"`{axis}` asks twice more, {cost.AGAIN >> 10} and {2 * cost.AGAIN >> 10} KiB later, where rows have more than {cost.AGAIN_ROW >> 10} KiB and stores wait for memory"
        )


def streamed(plan: Plan) -> None:
    """Results that are larger than what they can keep of the last cache go past it."""
    inside = tuple(x for x in all_loops(plan.kernel) if x.kind == "vector")
    for buffer in sorted((written(inside) & plan.facts.buffers.keys()) - (plan.elsewhere or frozenset())) if cost.stream_bytes(plan.target) else ():
        least = past_the_caches(plan, buffer)
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
