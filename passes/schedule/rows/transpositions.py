"""The plan for two axes that different operands are consecutive along: tiles for the caches, and in them square blocks that are turned over in registers.

What bounds it is how memory takes single lines: stored 16 KiB apart, one by one, 64 MiB take 3.8 ms, in twos 2.1 ms, where all that is read takes 2.1 ms and a copy 2.3 ms.  So tiles are some lines wide along
the stores and begin at a line, of what is read as well; blocks of a tile that share the lines that are stored follow each other, and tiles too, so that few pages are written at a time.  What is read is asked for ahead, at the end of a tile's rows that of
the next tile, into the second cache: rows whose distance is a power of two have one set of the first.
"""

from __future__ import annotations

from ....ir.expr import ONE, Expr, const, load
from ....ir.kernel import Alloc, Loop, Store, While, map_block, map_expressions, statements
from ....ir.record import replace
from ....ir.target import LINE
from ....ir.walks import rewrite
from .. import cost, cost_turned, roles
from ..affine import stride
from ..plan import Plan
from ..tree import Facts, around, loads_in, reads
from .lines import aligned

HALVES = 2  # of a line that rows of a square are, at least: such squares are turned over one after the other, as many as make lines of both


def ascending(plan: Plan) -> None:
    """Run a loop from its end along which memory descends and nowhere ascends, as in a rotation: then it is consecutive."""
    form = roles.shape(plan.kernel)
    if roles.innermost(form.body):
        return
    addresses = roles.positions(form, plan.facts)
    for x in form.chain:
        steps = {stride(a, x.axis) for a in addresses}
        if -1 in steps and 1 not in steps and x.axis != along_stores(plan, form, addresses) and not plan.tried("mirror", x.axis):
            plan.note(f"`{x.axis}` is run from its end: memory is consecutive along it then")


def turning(plan: Plan, form: roles.Shape, addresses: list[Expr]) -> tuple[str, str] | None:
    """The axis along which operands are consecutive that the result is not, and the one along which it is; None where there are no such operands."""
    facts = plan.facts
    if together(form, facts) > 1:
        form, facts = _as_one(form, facts)
        addresses = roles.positions(form, facts)
    b = _along_stores(facts, form, addresses)
    strided = [x for x in addresses if b in x.names and stride(x, b) != 1]
    across = [x for x in form.axes if x != b and roles.units(strided, x) > 0]
    return (across[-1], b) if across else None


def along_stores(plan: Plan, form: roles.Shape, addresses: list[Expr]) -> str:
    """The axis along which what is stored is consecutive, or most of all that a kernel touches."""
    return _along_stores(plan.facts, form, addresses)


def _along_stores(facts: Facts, form: roles.Shape, addresses: list[Expr]) -> str:
    return roles.vector_axis(form.axes, roles.stored(form, facts)) or roles.vector_axis(form.axes, addresses) or form.axes[-1]


def together(form: roles.Shape, facts: Facts) -> int:
    """How many neighbours are read and stored together wherever a nest touches memory, as both parts of complex numbers are: all along the last axis of each buffer; 1 where single elements are."""
    places: dict[str, set[Expr]] = {}
    for s in statements(form.body):
        found = [(n.attr, n.args) for e in s.expressions() for n in loads_in(e)]
        for name, index in (*found, (s.buffer, s.index)) if isinstance(s, Store) else found:
            if name in facts.buffers:
                places.setdefault(name, set()).update(index[-1:])
    lengths = {facts.buffers[name].shape[-1] if facts.buffers[name].shape and not facts.buffers[name].strides else ONE for name in places}
    length = lengths.pop() if len(lengths) == 1 else ONE
    if not length.is_const or not all(found == {const(k) for k in range(length.attr)} for found in places.values()):
        return 1
    return length.attr


def _as_one(form: roles.Shape, facts: Facts) -> tuple[roles.Shape, Facts]:
    """The nest as it would be if what it touches together were one element."""

    def rule(n: Expr) -> Expr | None:
        return load(n.attr, n.dtype, *n.args[:-1]) if n.op == "load" and n.attr in facts.buffers else None

    body = map_block(
        map_expressions(form.body, lambda e: rewrite(e, rule)),
        lambda s: (replace(s, index=s.index[:-1]),) if isinstance(s, Store) and s.buffer in facts.buffers else None,
    )
    return roles.Shape(form.chain, body), replace(facts, buffers={k: replace(b, shape=b.shape[:-1]) for k, b in facts.buffers.items()})


def squares(plan: Plan, a: str, b: str, width: int) -> bool:
    """Tile two axes that different operands are consecutive along: tiles for the caches, and in them square blocks that are turned over in registers."""
    form = roles.shape(plan.kernel)
    others = tuple(x for x in form.axes if x not in (a, b))
    order = (*others, a, b)
    if order != form.axes and plan.tried("reorder", *order):
        return False
    side, pieces = cost.square(plan.target, width), together(form, plan.facts)
    widest = roles.widest(form.body)
    line = LINE // (widest.bytes * pieces) if widest is not None and side > 1 else 1
    read, stored = cost_turned.panels(plan.target, line)
    sides = (cost.SQUARE, cost.SQUARE) if side < 2 else (read * line, stored * line)
    heads = lines_first(plan, a, b) if side > 1 and pieces == 1 else []
    halves = 1 < side < line <= HALVES * side
    # where one of two were short, one thread had most of the work (4096 × 4352 floats 8.0 → 4.3 ms)
    plan.do("share", a, sides[0], whole=line if halves else side)
    plan.do("split", b, sides[1])
    plan.do("reorder", f"{a}.0", f"{b}.0", f"{a}.1", f"{b}.1")
    plan.note(f"operands are consecutive along `{a}` and along `{b}`: tiles of {sides[0]}×{sides[1]} keep both in a near cache")
    if halves:
        for x in (a, b):
            plan.do("split", f"{x}.1", line)
        plan.do("reorder", f"{a}.1.0", f"{b}.1.0", f"{a}.1.1", f"{b}.1.1")
        turned(plan, f"{a}.1.1", f"{b}.1.1", side, ahead=f"{a}.1.0", on=f"{b}.0")
        plan.note(f"{line}×{line} of them after one another, so that lines are read and stored whole")
    elif side > 1:
        turned(plan, f"{a}.1", f"{b}.1", side, ahead=f"{a}.1.0", on=f"{b}.0")
    for rows, columns in heads:
        _in_blocks(plan, rows, columns, side)
    if len(order) == 2:  # in case the first has few tiles
        plan.do("collapse", f"{a}.0", f"{b}.0", named=1)
    nests = [s.axis for s in plan.kernel.body if isinstance(s, Loop)]
    for x in nests if len(nests) > 1 else ():
        plan.do("parallel", x)
    return True


def lines_first(plan: Plan, a: str, b: str) -> list[tuple[str, str]]:
    """Tiles begin at a line along `b`, which is stored, and along `a`, which is read; what is before the first of them are nests of their own, of which the axes are returned.

    Rows whose distance is a power of two have one set of the first cache, so that a line that two blocks read is gone when the second of them comes (Zen 4, 4096² floats that begin 16 bytes past a line: 65 % of the best copy
    where only what is stored begins at lines, 84 % where both do; gcc, which loads each line twice, 65 and 75 %).
    """
    saved = plan.kernel
    plan.do("reorder", b, a)
    head = aligned(plan, b)
    if head is None:
        plan.kernel = saved
        return []
    inner = next(s.axis for s in plan.loop(head).body if isinstance(s, Loop))
    plan.do("reorder", inner, head)
    plan.do("reorder", a, b)
    heads = [(inner, head)]
    for buffer in dict.fromkeys(n.attr for n in reads(plan.loop(a).body) if n.attr in plan.facts.buffers):
        before = plan.kernel
        line = LINE // plan.facts.buffers[buffer].dtype.bytes
        if not plan.tried("align", a, buffer, least=cost.stream_bytes(plan.target), trips=cost_turned.ALIGNED_ROW * line):
            first = plan.added(before)
            heads.append((first[0], first[1]))
            plan.note(f"along `{a}` lines of `{buffer}` are read whole")
            break
    return heads


def _in_blocks(plan: Plan, a: str, b: str, side: int) -> None:
    """A nest of which one axis is less than a line, in square blocks too."""
    with plan.attempt(f"`{a}` and `{b}` stay scalar"):
        _cut(plan, a, b, side)
        _in_lanes(plan, f"{a}.1", f"{b}.1")
        plan.do("reorder", f"{b}.0", f"{a}.0")
        plan.do("collapse", f"{b}.0", f"{a}.0", named=1)


def _cut(plan: Plan, a: str, b: str, side: int) -> None:
    """Two axes in blocks, one after the other along `b`."""
    some = cost.first_lanes(plan.target)
    plan.do("split", a, side, tail="pad" if some else "cut")
    plan.do("reorder", b, f"{a}.1")
    plan.do("split", b, side, tail="clamp" if some else "cut")
    plan.do("reorder", f"{a}.1", f"{b}.1")


def turned(plan: Plan, a: str, b: str, side: int, ahead: str = "", on: str = "") -> bool:
    """Square blocks inside a tile, one after the other along `b`, so that neighbouring lines are stored together: rows unrolled, columns a vector; what the vectors would gather is then loaded
    along `a` and turned over.  What is left over along either is a block too: the first lanes of each row are loaded, the last row again for those that are not there, and of as many rows as there are the first
    lanes are stored (element by element, rows of 28 elements took 1.2 and rows of 14 1.5 times as long).  `ahead` is the loop from block to block along `a` whose next blocks are asked for, if one is, and `on` the one from tile to tile.  Whether they are.
    """
    with plan.attempt("no blocks in registers") as attempt:
        _cut(plan, a, b, side)
        before = plan.kernel
        if cost.first_lanes(plan.target) and not plan.tried("peel", f"{b}.0", clamps=1, fixed=1):
            _in_lanes(plan, *plan.added(before)[1:])
        _in_lanes(plan, f"{a}.1", f"{b}.1")
        for buffer in dict.fromkeys(n.attr for n in reads(plan.loop(f"{b}.1").body)) if ahead else ():
            plan.tried(
                "prefetch",
                buffer,
                f"{b}.0",
                ahead,
                trips=cost_turned.LINES_ON if on and f"{a}.0" == ahead else cost_turned.LINES_AHEAD,
                on=on,
                cache=cost.NEXT_ROW_CACHE,
            )
        plan.note(f"blocks of {side}×{side} are turned over in registers")
    return not attempt.refused


def _in_lanes(plan: Plan, rows: str, columns: str) -> None:
    plan.do("unroll", rows)
    plan.do("vectorize", columns)


def turns_over(plan: Plan, loop: Loop) -> str:
    """The loop around, where a nest copies along this one what is consecutive along that one: a square of it is turned over in registers ("" where it does not).  Only around a `while`: of what is raised, plans know what it is."""
    if not any(isinstance(s, While) for s in statements(plan.kernel.body)):
        return ""
    path = around(plan.kernel, loop.axis)
    outside = path[-2] if len(path) > 1 else None
    if not (isinstance(outside, Loop) and len(outside.body) == 1 and outside.kind == loop.kind == "parallel" and outside.axis not in loop.stop.names):
        return ""
    (s,) = loop.body if len(loop.body) == 1 else (None,)
    if not (isinstance(s, Store) and not s.combiner and s.value.op == "load" and s.buffer != s.value.attr):
        return ""
    arrays = {**plan.facts.buffers, **{t.buffer.name: t.buffer for t in statements(plan.kernel.body) if isinstance(t, Alloc)}}
    into, of = arrays[s.buffer].address(s.index), arrays[s.value.attr].address(s.value.args)
    turns = stride(into, loop.axis) == 1 and stride(of, outside.axis) == 1 and loop.axis in of.names and stride(of, loop.axis) != 1
    return outside.axis if turns and s.buffer not in into.buffers | of.buffers else ""
