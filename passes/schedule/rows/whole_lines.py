"""The plan for results that are turned over and whose rows do not begin at lines of the cache, or that stay in the caches: tiles that are moved to where lines begin, row by row.

    for i.1.0:                                            i: rows of the result, along which the operand is consecutive; j: along a row of the result
      for i.s in 0 .. 16, j.s in 0 .. 144:                  in squares that are turned over in registers
        X.packed[i.s, j.s] = X[j.s, i.s]
      for i.1.1 in 0 .. 16:
        for j.1 in b .. 128 + b vector:                     b = (to_line(Y) - i·M) % 16
          Y[i, j.1] = X.packed[i.1.1, j.1]                  past the caches, in whole lines

What a square stores of such a row is the end of one line and the beginning of the next: through the caches each is read before it is written, and evicted between its two halves, for rows are pages apart; past the caches half a line is as
dear as two.  So it is with squares whose rows are less than a line, wherever rows begin: shorter vectors than lines, elements of less than 4 bytes.  Tiles overlap by a line in what they read, which is still near.  (Emerald Rapids, two threads,
4100² floats 34 → 5 ms, where a copy takes 3; 5000² 38 → 7.5; bf16 of 4096² 39 → 4.6, bytes of 8192² 159 → 9.5; with AVX2 4096² floats 28 → 5.)

Short rows that lie one behind the other are one long row, which is kept as it lies and stored from its first whole line to its last (100 columns of 100000 floats 0.4 to 0.66 of the time of squares, 30 of 200000 0.25 to 0.6).

Of a few elements along either axis squares would be mostly empty: they go one by one, along the longer axis inside (Zen 4, one thread, 10⁶ × 3 × 3 0.05, 10⁵ × 3 × 3 0.1, 10⁴ × 5 × 7 0.3, 1000 × 3 × 224 0.3, 1000 × 224 × 3 0.5 of the time).

What stays in the caches has small tiles of its own, without hints, wherever its rows begin.  (Zen 4, AVX-512, against the tiles of whole lines, one thread, arrays 16 bytes past a line: 300² floats 22 → 11 µs, 512² 86 → 56, 1000² 220 → 145,
1500² 0.83, 2048 × 512 0.72 of the time, 4 images of 28² × 256 to channels first 0.64, 512² doubles 0.68; arrays at lines 0.5 to 0.95.)
"""

from __future__ import annotations

from typing import NamedTuple

from ....ir.expr import FALSE, TRUE, ZERO, Expr, both, call, const, mod
from ....ir.kernel import Kernel, Store
from ....ir.simplify import simplify
from ....ir.target import LINE
from .. import cost, cost_turned, roles
from ..affine import inside, row_step, same_position
from ..plan import Plan
from ..steps.streams import large
from ..tree import StepError, reads
from .joined_axes import joined
from .parts import parted
from .traffic import streamed, threads
from .transpositions import HALVES, together, turned, turning
from .vectors import strip, tabulated


class Turned(NamedTuple):
    """A result that is turned over."""

    a: str  # along which an operand is consecutive that the result is not
    b: str  # along which the result is
    stored: str
    line: int  # elements of a line
    wide: Expr  # it has room for squares
    large: Expr  # it goes past the caches
    parts: Expr  # squares would store parts of lines
    side: int  # of squares of what is near: of less than a line, they do so wherever rows begin
    follow: bool  # its rows lie one behind the other
    pieces: int  # neighbours that are read and stored together


def by_lines(plan: Plan) -> list[tuple[Expr | None, Kernel]]:
    """The kernel scheduled for results that squares would store in parts of lines, or that stay in the caches, with the conditions on the sizes (none where they are known to hold); nothing where there is no such result."""
    found = _turned(plan) if plan.alone else None
    if found is None:
        return []
    length, near = _bare(plan).loop(found.b).stop, call("bit_not", found.large)
    past = both(found.large, found.parts)
    short, some = (const(n * found.line) for n in (cost.SHORT_ROW, 2 * cost_turned.line_tiles(plan.target, found.line)[1]))
    ways = [(_in_line_tiles, _all(found.wide, some.le(length), past)), (_in_near_tiles, near)]
    if found.follow:
        ways.insert(0, (_in_runs, _all(found.wide, past, length.lt(short))))
    if found.pieces > 1:  # what is far is turned over as it lies
        ways = [(_in_near_tiles, near)]
    rows = _bare(plan).loop(found.a).stop
    ways = [
        (_short_reads, rows.le(const(cost_turned.SHORT_READ))),
        (_short_rows, length.le(const(min(cost_turned.SHORT_STORED, found.side - 1)))),
        *ways,
    ]
    parts: list[tuple[Expr | None, Kernel]] = []
    for way, bounds in ways:
        condition = simplify(bounds, plan.facts.known)
        if condition is FALSE:
            continue
        part = plan.another(condition)
        with plan.attempt(f"not {way.__name__.strip('_')}"):
            way(part, found)
            plan.note(*part.notes)
            parts.append((None if condition is TRUE else condition, part.kernel))
            if condition is TRUE:
                break
    return parts


def _all(*conditions: Expr | None) -> Expr:
    return both(*conditions) or TRUE


def _bare(plan: Plan) -> Plan:
    """A plan of the same kernel with the loops that all ways go by."""
    found = plan.another()
    joined(found)
    return found


def _turned(plan: Plan) -> Turned | None:
    """The result that a kernel turns over, if that may be large."""
    plan = _bare(plan)
    form = roles.shape(plan.kernel)
    least = cost.stream_bytes(plan.target)
    pieces = together(form, plan.facts)
    stores = [s for s in form.body if isinstance(s, Store)]
    if not least or not cost.first_lanes(plan.target) or len(form.chain) < 2 or not len(form.body) == len(stores) == pieces:
        return None
    store = stores[0]
    if any(s.buffer != store.buffer for s in stores):
        return None
    axes = turning(plan, form, roles.positions(form, plan.facts))
    if store.buffer not in plan.facts.buffers or axes is None:
        return None
    a, b = axes
    held = plan.facts.buffers[store.buffer]
    line = LINE // (held.dtype.bytes * pieces)
    parts = TRUE if pieces > 1 else _parts_of_lines(plan, form, store, a)
    long = [plan.loop(a).stop, plan.loop(b).stop]
    if line < 2 or parts is None or any(not e.names <= plan.facts.sizes.keys() or e.buffers for e in long):
        return None
    wide = simplify(_all(*(const(cost.TURNED).le(e) for e in long)), plan.facts.known)
    step = row_step(simplify(held.address(store.index), inside(form.chain, plan.facts.known)), plan.loop(a))
    follow = step is not None and same_position(step, plan.loop(b).stop)
    if wide is FALSE:
        return None
    return Turned(a, b, store.buffer, line, wide, large(plan.facts, store.buffer, least), parts, _side(plan, form), follow, pieces)


def _parts_of_lines(plan: Plan, form: roles.Shape, store: Store, a: str) -> Expr | None:
    """When squares would store parts of lines: where rows along `a` do not all begin at the same place of a line, or always, if a row of a square is less than one; None where the sizes do not say."""
    held = plan.facts.buffers[store.buffer]
    if cost.square(plan.target, cost.lanes(plan.target, roles.widest(form.body))) * held.dtype.bytes * HALVES < LINE:
        return TRUE
    address = simplify(held.address(store.index), inside(form.chain, plan.facts.known))
    step = next(row_step(address, x) for x in form.chain if x.axis == a)
    return ZERO.lt(mod(step, const(LINE // held.dtype.bytes))) if step is not None and step.names <= plan.facts.sizes.keys() else None


def _side(plan: Plan, form: roles.Shape) -> int:
    """The side of the squares of what is kept or near: twice the side takes twice the time there (Zen 4, bf16 of 512² 23 and 16, of 1000² 44 and 21 GB/s)."""
    return min(cost.lanes(plan.target, roles.widest(form.body)), cost.TURNED)


def _ordered(plan: Plan, over: Turned) -> tuple[tuple[str, ...], int, int]:
    """The loops in the order (others, a, b): the others, and how wide vectors and squares are."""
    plan.do("decide")
    tabulated(plan)
    parted(plan)
    joined(plan)
    form = roles.shape(plan.kernel)
    width, side = cost.lanes(plan.target, roles.widest(form.body)), _side(plan, form)
    if side < 2:
        raise StepError("their elements are no lanes")
    others = tuple(x for x in form.axes if x not in (over.a, over.b))
    if (order := (*others, over.a, over.b)) != form.axes:
        plan.do("reorder", *order)
    return others, width, side


def _in_line_tiles(plan: Plan, over: Turned) -> None:
    """Long rows: tiles of some lines of each."""
    others, width, side = _ordered(plan, over)
    a, b = over.a, over.b
    read, stored = cost_turned.line_tiles(plan.target, over.line)
    plan.do("share", a, read * over.line, whole=over.line)
    rows, row = f"{a}.1", f"{b}.1"
    plan.do("line_tiles", b, stored * over.line, over.stored)
    plan.do("reorder", f"{b}.0", rows)
    plan.do("split", rows, side)
    block = f"{rows}.0"
    _kept(plan, f"{rows}.1", row, side, at=block, ahead=block, space="stack")
    before = plan.kernel
    plan.do("even", f"{rows}.1", row)
    strip(plan, plan.added(before)[-1], width)
    plan.do("split", row, width, tail="perfect")
    plan.do("vectorize", f"{row}.1")
    if len(others) == 0:
        plan.do("collapse", f"{a}.0", f"{b}.0", named=1)
    threads(plan)
    streamed(plan)
    plan.note(f"rows of `{over.stored}` that begin anywhere are stored in whole lines: tiles along `{b}` begin where lines do")


def _in_near_tiles(plan: Plan, over: Turned) -> None:
    """What stays in the caches: squares of tiles of which neither what is read nor what is stored leaves the first cache before its lines are complete, and nothing is asked for ahead."""
    others, _, side = _ordered(plan, over)
    a, b = over.a, over.b
    plan.do("tile", a, b, *cost_turned.NEAR_PANELS)
    turned(plan, f"{a}.1", f"{b}.1", side, ahead="")
    if len(others) == 0:
        plan.do("collapse", f"{a}.0", f"{b}.0", named=1)
    threads(plan)
    plan.note(f"what is near is turned over in tiles of {cost_turned.NEAR_PANELS[0]}×{cost_turned.NEAR_PANELS[1]}")


def _in_runs(plan: Plan, over: Turned) -> None:
    """Short rows that lie one behind the other: some of them together are one long row."""
    _, width, side = _ordered(plan, over)
    a, b = over.a, over.b
    plan.do("split", a, cost_turned.LINES_OF_RUN * over.line)
    _kept(plan, f"{a}.1", b, side, at=f"{a}.0", exact=b)
    earlier = plan.kernel
    plan.do("collapse", f"{a}.1", b)
    strip(plan, plan.added(earlier)[0], width)
    threads(plan)
    streamed(plan)
    plan.note(f"short rows of `{over.stored}` are stored as one, as they lie")


def _short_rows(plan: Plan, over: Turned) -> None:
    """Rows of a few elements."""
    _one_by_one(plan, over, over.b, over.a)


def _short_reads(plan: Plan, over: Turned) -> None:
    """A few elements beside each other of what is read."""
    _one_by_one(plan, over, over.a, over.b)


def _one_by_one(plan: Plan, over: Turned, short: str, long: str) -> None:
    """Squares would be mostly empty: element by element along the longer axis, in pieces whose lines are in the first cache until they are complete."""
    _ordered(plan, over)
    plan.do("split", long, cost_turned.PIECE_TURNED)
    plan.do("reorder", f"{long}.0", short, f"{long}.1")
    threads(plan)
    plan.note(f"a few elements along `{short}` are turned over one by one, in pieces of {cost_turned.PIECE_TURNED} along `{long}`")


def _kept(plan: Plan, rows: str, row: str, side: int, ahead: str | None = None, **options: str) -> None:
    """What is read is turned over in squares, and kept."""
    for buffer in dict.fromkeys(n.attr for n in reads(plan.loop(row).body) if n.attr in plan.facts.buffers and {rows, row} <= n.names):
        if any(n.attr == buffer for n in reads(plan.loop(row).body)):
            before = plan.kernel
            plan.do("stage", buffer, rows, row, **options)
            *_, along_loads, along_row = plan.copying(plan.newest(before), before)
            turned(plan, along_loads, along_row, side, ahead=ahead or f"{along_loads}.0")
