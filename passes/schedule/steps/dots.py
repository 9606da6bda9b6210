"""Steps that use a machine's products of neighbours (`ir/instructions.py`): `dot` makes words of the operands, `screen` keeps an instruction away from numbers that it takes for zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import takewhile
from typing import NamedTuple

from ....ir.bounds import Range
from ....ir.dtypes import DType, bf16, f32, i8, i32, u8, u16, u32
from ....ir.expr import ONE, ZERO, Expr, both, call, cast, ceildiv, const, load, make, minimum, var, where
from ....ir.instructions import INSTRUCTIONS, TILES, Dot, Tile
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, map_block, map_expressions, statements, with_blocks
from ....ir.places import block_of, homes_in, inner, path_of
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import postorder, substitute
from ..tree import Facts, StepError, copy, find, fresh, local_buffers, names_taken, replace_loop, walk_paths, written
from . import fields

SIGN, SIGNS = 128, 0x80808080  # between a byte with a sign and one without, and of all bytes of a word


class Factor(NamedTuple):
    """One side of a product: an element as it lies in memory, and as what it is multiplied."""

    element: Expr
    dtype: DType  # of what is multiplied
    zero: Expr | None = None  # what is taken from it, in the type of the sum, the same all along the reduction

    @property
    def bits(self) -> Expr:
        """The bits of the element, as u32."""
        width, e = {8: u8, 16: u16}[self.dtype.bits], self.element
        if e.op == "bitcast" and e.args[0].dtype is width:
            e = e.args[0]
        return cast(u32, e if e.dtype is width else call("bitcast", e, to=width))


def factor(e: Expr) -> Factor | None:
    """What an operand of a product is in fewer bits; None where it is not seen to be anything that fits."""
    if e.op in ("add", "sub") and e.dtype is i32:
        x, c = e.args if e.op == "sub" or e.args[0].op == "cast" else reversed(e.args)
        inner = factor(x)
        if inner is None or inner.zero is not None or inner.dtype is not inner.element.dtype:
            return None
        zero = c if e.op == "sub" else const(-c.attr, i32) if c.is_const else call("neg", c)
        moved = {(i8, -SIGN): u8, (u8, SIGN): i8}.get((inner.dtype, zero.attr)) if zero.is_const else None
        return inner._replace(zero=zero) if moved is None else Factor(inner.element, moved)
    inner = e.args[0] if e.op == "cast" else None
    return Factor(inner, inner.dtype) if inner is not None and inner.dtype in (i8, u8, bf16) else None


def factors(kernel: Kernel, axis: str, zeros: bool = False) -> tuple[Loop, Store, Factor, Factor]:
    """The reduction over `axis` where it sums products of two small elements; with `zeros` something may be taken from them.  StepError."""
    loop = find(kernel, axis)
    s = loop.body[0]
    if loop.kind != "reduce" or loop.start is not ZERO or loop.step is not ONE or len(loop.body) != 1 or not isinstance(s, Store):
        raise StepError(f"`{axis}` is no innermost reduction from 0 in steps of 1")
    found = [factor(a) for a in s.value.args] if s.combiner == "add" and s.value.op == "mul" else []
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise StepError(f"`{axis}` does not sum products of two elements that are small")
    if any(f.zero is not None and (not zeros or axis in f.zero.names) for f in found if f is not None):
        raise StepError(f"`{axis}` sums products of small elements from which something is taken")
    return loop, s, found[0], found[1]


def dot(kernel: Kernel, facts: Facts, axis: str, instruction: str, multiple: int = 1, signed: str = "") -> Kernel:
    """Multiply neighbours along a reduction by one instruction.

        for p in 0 .. K reduce:                                       for p in 0 .. ceil(K / 4) reduce:
          acc[] add= cast.i32(A[p]) * cast.i32(B[p])           →        acc[] add= ins.dot4_i8:i32(0:i32, w(A), w(B))

    where w(A) is the word of A[4p], A[4p + 1], … (0 from K on), the first in the lowest bits.  With multiple=16 the loop goes on over zeros to a multiple of 16 words.  The first operand of the instruction is what it adds to: lowering puts the accumulator there.
    The products are of the instruction's operands (casts of i8, u8 or bf16, or of a byte with 128 added or subtracted).  --strict forbids it for float sums.

    With signed=A two operands with a sign are multiplied by an instruction that wants one without, to which A is made, 128 higher; what that adds, another takes away word by word (-128 b is 128 (~b + 1)):

          acc[] add= ins.dot4_u8_i8:i32(ins.dot4_u8_i8:i32(512:i32, 0x80808080, ~w(B)), w(A) ^ 0x80808080, w(B))

    The same takes a zero from the operand without a sign: (A[p] - z) B[p].
    """
    from .beyond import ragged, zero_beyond

    row = INSTRUCTIONS.get(instruction)
    if row is None:
        raise StepError(f"dot: no instruction `{instruction}`; there are {', '.join(INSTRUCTIONS)}")
    loop, s, a, b = factors(kernel, axis, zeros=True)
    moved = bool(signed) and a.dtype is b.dtype is row.right is i8 and row.left is u8 and a.zero is b.zero is None
    if moved:
        a, b = (a, b) if signed in a.element.buffers else (b, a)
        a = Factor(a.element, u8, const(SIGN, row.result))
    if (a.dtype, b.dtype) != (row.left, row.right):
        a, b = b, a
    if (a.dtype, b.dtype, s.value.dtype) != (row.left, row.right, row.result):
        raise StepError(
            f"dot: {instruction} multiplies {row.left} by {row.right} into {row.result}, here are {a.dtype} and {b.dtype} into {s.value.dtype}"
        )
    if facts.strict and row.result.is_float:
        raise StepError("dot: neighbours are added in an order of their own, and --strict forbids it")
    together = row.neighbours * max(1, multiple)
    end = ragged(loop.stop, together, facts.known)
    known = facts.known.with_ranges({axis: Range(ZERO, ceildiv(loop.stop, row.neighbours) - 1)})

    def word(f: Factor) -> Expr:
        f = f._replace(element=fields.one_byte(f.element, loop))
        places = [var(axis) * row.neighbours + k for k in range(row.neighbours)]
        if not end and (whole := fields.word([substitute(f.element, {var(axis): at}) for at in places], known)) is not None:
            return whole
        parts: list[Expr] = []
        for k, at in enumerate(places):
            bits = substitute(f.bits, {var(axis): at})
            if end and (k or multiple > 1) and not zero_beyond(kernel, f.element, loop, together, facts.known):
                bits = where(at.lt(reduce(minimum, end)), bits, const(0, u32))
            parts.append(bits)
        joined = fields.joined(parts)
        # bytes 128 higher or lower, by their highest bits: of the zeros beyond the end too, which the other word multiplies by 0
        return joined if f.dtype is f.element.dtype else call("bit_xor", joined, const(SIGNS, u32))

    start = const(0, row.result)
    if b.zero is not None or (a.zero is not None and (row.left, row.right) != (u8, i8)):
        raise StepError(f"dot: {instruction} has nothing taken from its second operand; `offset` takes it")
    if a.zero is not None:  # -z b is z (~b + 1)
        times = const(a.zero.attr * row.neighbours, i32) if a.zero.is_const else call("mul", a.zero, const(row.neighbours, i32))
        start = make("ins", row.result, (times, _each_byte(a.zero), call("bit_not", word(b))), row.name)
    value = make("ins", row.result, (start, word(a), word(b)), row.name)
    return replace_loop(
        kernel, axis, lambda _: (replace(loop, stop=ceildiv(loop.stop, together) * max(1, multiple), body=(replace(s, value=value),)),)
    )


def _each_byte(zero: Expr) -> Expr:
    """The word of a byte four times.  StepError where a number is not seen to be a byte without a sign."""
    if zero.is_const and 0 <= zero.attr <= fields.BYTE:
        return const(zero.attr * fields.EACH, u32)
    if zero.op != "cast" or zero.args[0].dtype is not u8:
        raise StepError("dot: what is taken from an operand is no byte")
    return call("mul", cast(u32, zero.args[0]), const(fields.EACH, u32))


def screen(kernel: Kernel, facts: Facts, axis: str, lanes: tuple[str, ...] = ()) -> Kernel:
    """Multiply neighbours by an instruction that takes small numbers for zeros only where there are none.

                                                       alloc A.least: u32[4] private
        for i.0 in 0 .. 4:                             for i.0 in 0 .. 4:
          for p.s, i.s:                                  for p.s, i.s:
            A.packed[i.0, p.s, i.s] = …                    A.packed[i.0, p.s, i.s] = …
                                                         A.least[i.0] = min over p.s, i.s of the magnitudes of both halves of A.packed[i.0, p.s, i.s] (0 is the largest)
        …                                        →     …
        for p reduce:                                  if 0x8E <= (A.least[i.0] >> 7) + (B.least[…] >> 7) & …:
          for i, j:                                      for p reduce:
            acc[i, j] add= ins.dot2_bf16:f32(0.0:f32,      for i, j: acc[i, j] add= ins.dot2_bf16:f32(…)
              A.packed[i.0, p, i], …)                  else:
                                                         for p.b reduce:
                                                           for i, j: acc[i, j] add= low(A.packed[…]) * low(…) + high(A.packed[…]) * high(…)

    Both operands are words that have been staged: panels, of which the outer axes, those that the reduction does not move along, say which.  So denormal numbers are kept: see `least` in `ir/instructions.py`.

    With lanes=A.packed the smallest of all its panels is found, while they are copied: for each position of their last axis by itself, and then among these.  The copies are a thread's own:

        alloc A.packed: u32[4, 64, 16] private         alloc A.packed: u32[4, 64, 16] private
                                                       alloc A.lanes: u32[16] private
                                                       A.lanes[…] = the largest
        for i.0, p.s, i.s:                        →    for i.0, p.s reduce, i.s:
          A.packed[i.0, p.s, i.s] = w                    A.packed[i.0, p.s, i.s] = w
                                                         A.lanes[i.s] min= the magnitudes of both halves of w
                                                       for i.0: A.least[i.0] = min over i.s of A.lanes[i.s]
    """
    from .smallest import no_less, smallest_asked, smallest_written
    from .tensors import elements

    loop = find(kernel, axis)
    found = {n for s in statements(loop.body) for e in s.expressions() for n in postorder(e) if n.op == "ins"}
    if loop.kind != "reduce" or len(found) != 1:
        raise StepError(f"screen: `{axis}` is no reduction by one instruction")
    (ins,) = found
    row = INSTRUCTIONS[ins.attr]
    words = ins.args[1:]
    local = local_buffers(kernel)
    inside = {s.axis: s for s in statements((loop,)) if isinstance(s, Loop)}
    lying = {w: first.attr for w in words if (first := elements(w, local)) is not None}  # words that are elements of a local buffer
    outer = {w: sum(inside.keys().isdisjoint(e.names) for e in w.args) for w in words}  # the axes of each that say which panel it is
    if not row.least or any(
        w.op != "load" or w.attr not in local or not outer[w] or any(inside.keys() & e.names for e in w.args[: outer[w]])
        for w in words
        if w not in lying
    ):
        raise StepError(f"screen: {row.name} does not multiply packed words of floats")
    taken = names_taken(kernel)
    smallest: list[Expr] = []
    bounded = {w: bound for w, name in lying.items() if (bound := no_less(kernel, local[name])) is not None}
    for w in dict.fromkeys(words):
        if w in bounded:
            continue
        if w in lying:
            kernel, found_least = smallest_written(kernel, find(kernel, axis), local[lying[w]], taken)
            smallest.append(load(found_least, u32))
            continue
        panels = local[w.attr]
        least = Buffer(fresh(f"{w.attr}.least", taken), u32, panels.shape[: outer[w]], panels.space, align=panels.align)
        last = {var(x.axis): x.stop - 1 for x in inside.values()}
        extents = tuple(simplify(substitute(e, last) + 1, facts.known) for e in w.args[outer[w] :])
        if w.attr in lanes:
            kernel = _smallest_by_lanes(kernel, panels, least, row, taken)
        else:
            kernel = _smallest(kernel, panels, least, w.args[: outer[w]], extents, row, taken)
        smallest.append(load(least.name, u32, *w.args[: outer[w]]))
    loop = find(kernel, axis)
    before: Block = ()
    if len(bounded) == 1:
        ((w, bound),) = bounded.items()
        before, least = smallest_asked(loop, w, bound, _large_enough(row, [const(bound, u32), *smallest]), lambda w: _magnitude(w, row), taken)
        smallest.append(least)
    condition = _large_enough(row, smallest * 2 if len(smallest) == 1 else smallest)
    plain = copy((map_expressions((loop,), lambda e: substitute(e, {ins: _products(row, *words)}))), taken)
    return replace_loop(kernel, axis, lambda _: (*before, If(condition, (loop,), plain)))


def _large_enough(row: Dot, smallest: list[Expr]) -> Expr:
    """Whether the smallest magnitudes of both operands, as `_magnitude` has them, are normal numbers and their exponents add up to those of two numbers that the instruction multiplies as f32 would."""
    mantissa = round(-math.log2(row.left.epsilon))
    exponents = [call("shift_right", e, const(mantissa, u32)) for e in smallest]
    normal = [const((1 << mantissa) - 1, u32).le(e) for e in dict.fromkeys(smallest)]
    condition = both(*normal, const(2 * (row.least >> mantissa), u32).le(call("add", *exponents)))
    assert condition is not None
    return condition


def _smallest(
    kernel: Kernel, panels: Buffer, least: Buffer, multiplied: tuple[Expr, ...], extents: tuple[Expr, ...], row: Dot, taken: set[str]
) -> Kernel:
    """The kernel with the smallest magnitude of each panel in `least`, found where the panel is packed.  Of the panel `multiplied`, as much as `extents` say is."""
    paths = [(*outer, s) for s, outer in walk_paths(kernel.body) if isinstance(s, Store) and s.buffer == panels.name]
    outer = len(least.shape)
    store = paths[0][-1]
    assert isinstance(store, Store)
    outside = {n for e in store.index[:outer] for n in e.names}
    inside = {n for e in store.index[outer:] for n in e.names} - outside
    loops = [s for s in paths[0] if isinstance(s, Loop)]
    home = next((x for x in reversed(loops) if x.axis in outside), None)
    if home is None or any(home not in path or not isinstance(s := path[-1], Store) or s.index[:outer] != store.index[:outer] for path in paths):
        raise StepError(f"screen: `{panels.name}` is not packed panel by panel")
    within = loops[: loops.index(home) + 1]
    here = {there: e for there, e in zip(multiplied, store.index, strict=False) if there.op == "var"}
    extents = tuple(substitute(e, here) for e in extents)
    if any(x.axis in inside for x in within):
        raise StepError(f"screen: the panels of `{panels.name}` are not packed one after the other")
    there = {x.axis for x in within} | _named_around(kernel, home)
    if any(n in homes_in(kernel) and n not in there for e in extents for n in e.names):
        extents = _packed(paths, len(within), outer)  # it depends on who multiplies it
        if any(n in homes_in(kernel) and n not in there for e in extents for n in e.names):
            raise StepError(f"screen: how much of a panel of `{panels.name}` is packed is not known when it has been")
    one = Buffer(fresh("least", taken), u32, (), "register")
    axes = [fresh(n, taken) for n in _axes(store.index[outer:])]
    word = load(panels.name, u32, *store.index[:outer], *map(var, axes))
    smallest: Block = (Store(one.name, (), _magnitude(word, row), "min"),)
    for axis, stop in zip(reversed(axes), reversed(extents), strict=True):
        smallest = (Loop(axis, ZERO, stop, smallest, "reduce"),)
    find_it: Block = (Alloc(one), Store(one.name, (), const(u32.max, u32)), *smallest, Store(least.name, store.index[:outer], load(one.name, u32)))
    kernel = replace_loop(kernel, home.axis, lambda x: (replace(x, body=(*x.body, *find_it)),))
    return kernel.with_body(map_block(kernel.body, lambda s: (s, Alloc(least)) if isinstance(s, Alloc) and s.buffer == panels else None))


def _packed(paths: list[tuple[Stmt, ...]], within: int, outer: int) -> tuple[Expr, ...]:
    """How much is packed of a panel, along each of its axes, by the stores at the ends of these paths; the first `within` loops of each go from panel to panel."""
    found: set[tuple[Expr, ...]] = set()
    for path in paths:
        store = path[-1]
        assert isinstance(store, Store)
        loops = [s for s in path if isinstance(s, Loop)][within:]
        last = {var(x.axis): x.stop - 1 for x in reversed(loops)}
        extents = store.index[outer:]
        for axis, end in last.items():  # inner ones first: the ends of these may depend on others
            extents = tuple(simplify(substitute(e, {axis: end})) for e in extents)
        found.add(tuple(e + 1 for e in extents))
    if len(found) > 1:
        raise StepError("screen: a panel is packed in parts of different lengths")
    return next(iter(found))


def _smallest_by_lanes(kernel: Kernel, panels: Buffer, least: Buffer, row: Dot, taken: set[str]) -> Kernel:
    """The kernel with the smallest magnitude of all panels in `least`, found while they are packed, for each position of their last axis by itself."""
    if panels.space == "shared":
        raise StepError(f"screen: `{panels.name}` is packed by several threads")
    path = path_of(kernel, panels.name)
    by_lane = Buffer(fresh(f"{panels.name}.lanes", taken), u32, panels.shape[-1:], panels.space, align=panels.align)

    def counted(block: Block, around: frozenset[str]) -> Block:
        result: list[Stmt] = []
        for s in block:
            if isinstance(s, Store) and s.buffer == panels.name:
                word = fresh("word", taken)
                at = s.index[-1:]
                moved.update(around - at[0].names)
                result += [Let(word, s.value), replace(s, value=var(word, u32)), Store(by_lane.name, at, _magnitude(var(word, u32), row), "min")]
            elif isinstance(s, Loop):
                body = counted(s.body, around | {s.axis})
                if s.axis in moved and s.kind not in ("parallel", "serial", "reduce", "unroll"):
                    raise StepError(f"screen: `{s.axis}` ({s.kind}) goes through other axes of `{panels.name}` than its last")
                result.append(replace(s, body=body, kind="reduce" if s.axis in moved and s.kind == "parallel" else s.kind))
            elif isinstance(s, If):
                result.append(with_blocks(s, lambda b: counted(b, around)))
            else:
                result.append(s)
        return tuple(result)

    def nest(extents: Sequence[Expr], inner: Callable[[tuple[Expr, ...]], Block]) -> Block:
        axes = [fresh("c", taken) for _ in extents]
        body = inner(tuple(map(var, axes)))
        for axis, stop in zip(reversed(axes), reversed(extents), strict=True):
            body = (Loop(axis, ZERO, stop, body, "parallel"),)
        return body

    moved: set[str] = set()
    here = block_of(kernel, path)
    packing = [s for s in here if panels.name in written((s,))]
    one, lane = Buffer(fresh("least", taken), u32, (), "register"), fresh("c", taken)
    begin = nest(by_lane.shape, lambda at: (Store(by_lane.name, at, const(u32.max, u32)),))
    end: Block = (
        Alloc(one),
        Store(one.name, (), const(u32.max, u32)),
        Loop(lane, ZERO, by_lane.shape[-1], (Store(one.name, (), load(by_lane.name, u32, var(lane)), "min"),), "reduce"),
        *nest(least.shape, lambda at: (Store(least.name, at, load(one.name, u32)),)),
    )

    def changed(s: Stmt) -> Block | None:
        if isinstance(s, Alloc) and s.buffer == panels:
            return (s, Alloc(least), Alloc(by_lane))
        if any(s is t for t in packing):
            return (*(begin if s is packing[0] else ()), *counted((s,), frozenset()), *(end if s is packing[-1] else ()))
        return None

    return kernel.with_body(map_block(kernel.body, changed))


def _named_around(kernel: Kernel, loop: Loop) -> set[str]:
    """What is named before a loop, in the blocks that it stands in."""
    path = path_of(kernel, loop.axis)
    blocks = [kernel.body, *(inner(s) for s in path[:-1])]
    return {
        s.name for block, step in zip(blocks, path, strict=True) for s in takewhile(lambda s, step=step: s is not step, block) if isinstance(s, Let)
    }


def _axes(index: tuple[Expr, ...]) -> list[str]:
    """A name for a loop along each axis: the one by which it is indexed, where that is one."""
    return [e.attr if e.op == "var" else "c" for e in index]


def _halves(word: Expr, row: Dot) -> list[Expr]:
    """The elements of a word, each in the upper bits of a word of its own."""
    mask = const(((1 << row.left.bits) - 1) << (32 - row.left.bits), u32)
    *lower, _ = [call("shift_left", word, const(32 - row.left.bits * (k + 1), u32)) for k in range(row.neighbours)]
    return [call("bit_and", w, mask) for w in (*lower, word)]


def _magnitude(word: Expr, row: Dot) -> Expr:
    """The smallest of the elements' bits without their signs, less 1: so 0 becomes the largest."""
    shifted = [call("shift_right", word, const(k * row.left.bits, u32)) if k else word for k in range(row.neighbours)]
    sizes = [call("bit_and", w, const((1 << (row.left.bits - 1)) - 1, u32)) for w in shifted]
    less_one = [call("sub", s, const(1, u32)) for s in sizes]
    result = less_one[0]
    for s in less_one[1:]:
        result = call("min", result, s)
    return result


def _products(row: Dot, a: Expr, b: Expr) -> Expr:
    """What a product of neighbours means, in f32."""
    values = [call("mul", *(call("bitcast", h, to=f32) for h in pair)) for pair in zip(_halves(a, row), _halves(b, row), strict=True)]
    result = values[0]
    for v in values[1:]:
        result = call("add", result, v)
    return result


def tile(instructions: frozenset[str], rows: DType, columns: DType) -> Tile | None:
    """The instruction on tiles for these factors among those of a target, the first that needs no `offset` of the columns if there is one."""
    found = [t for t in TILES.values() if t.name in instructions]
    plain = [t for t in found if t.operands == (rows, columns)]
    moved = [t for t in found if rows is columns and rows is t.operands[0] and {*t.operands} == {i8, u8}]
    return next(iter((*plain, *moved)), None)


def choice(instructions: frozenset[str], left: DType, right: DType) -> Dot | None:
    """The instruction for these factors among those of a target, the first that needs no `offset` if there is one."""
    rows = [row for row in INSTRUCTIONS.values() if row.name in instructions]
    plain = [row for row in rows if (left, right) in ((row.left, row.right), (row.right, row.left))]
    moved = [row for row in rows if left is right and {left, row.left, row.right} == {i8, u8}]
    return next(iter((*plain, *moved)), None)
