"""Steps that use a machine's products of neighbours (`ir/instructions.py`): `dot` makes words of the operands, `offset` gives a product of integers the signs that the machine wants."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...ir.dtypes import DType, bf16, i8, i32, u8, u16, u32
from ...ir.expr import ONE, ZERO, Expr, call, cast, ceildiv, const, load, make, substitute, var, where
from ...ir.instructions import INSTRUCTIONS, Dot
from ...ir.kernel import Alloc, Block, Buffer, Kernel, Loop, Store, substitute_block
from .affine import is_multiple
from .reductions import identity
from .tree import Facts, StepError, around, find, fresh, names_taken, replace_in, replace_loop

SIGN = 128  # between a byte with a sign and one without


class Factor(NamedTuple):
    """One side of a product: an element as it lies in memory, and as what it is multiplied."""

    element: Expr
    dtype: DType  # of what is multiplied

    @property
    def bits(self) -> Expr:
        """The bits of the element, as u32."""
        width = {8: u8, 16: u16}[self.dtype.bits]
        return cast(u32, self.element if self.element.dtype is width else call("bitcast", self.element, to=width))


def factor(e: Expr) -> Factor | None:
    """What an operand of a product is in fewer bits; None where it is not seen to be anything that fits."""
    if e.op == "add" and e.dtype is i32 and e.args[1].is_const and e.args[0].op == "cast":
        moved = {(i8, SIGN): u8, (u8, -SIGN): i8}.get((e.args[0].args[0].dtype, e.args[1].attr))
        return None if moved is None else Factor(e.args[0].args[0], moved)
    inner = e.args[0] if e.op == "cast" else None
    return Factor(inner, inner.dtype) if inner is not None and inner.dtype in (i8, u8, bf16) else None


def factors(kernel: Kernel, axis: str) -> tuple[Loop, Store, Factor, Factor]:
    """The reduction over `axis` where it sums products of two small elements.  StepError."""
    loop = find(kernel, axis)
    s = loop.body[0]
    if loop.kind != "reduce" or loop.start is not ZERO or loop.step is not ONE or len(loop.body) != 1 or not isinstance(s, Store):
        raise StepError(f"`{axis}` is no innermost reduction from 0 in steps of 1")
    found = [factor(a) for a in s.value.args] if s.combiner == "add" and s.value.op == "mul" else []
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise StepError(f"`{axis}` does not sum products of two elements that are small")
    return loop, s, found[0], found[1]


def dot(kernel: Kernel, facts: Facts, axis: str, instruction: str) -> Kernel:
    """Multiply neighbours along a reduction by one instruction.

        for p in 0 .. K reduce:                                       for p in 0 .. ceil(K / 4) reduce:
          acc[] add= cast.i32(A[p]) * cast.i32(B[p])           →        acc[] add= ins.dot4_i8:i32(0:i32, w(A), w(B))

    where w(A) is the word of A[4p], A[4p + 1], … (0 from K on), the first in the lowest bits.  The first operand of the instruction is what it adds to: lowering puts the accumulator there.
    The products are of the instruction's operands (casts of i8, u8 or bf16, or of a byte with 128 added or subtracted).  --strict forbids it for float sums.
    """
    row = INSTRUCTIONS.get(instruction)
    if row is None:
        raise StepError(f"dot: no instruction `{instruction}`; there are {', '.join(INSTRUCTIONS)}")
    loop, s, a, b = factors(kernel, axis)
    if (a.dtype, b.dtype) != (row.left, row.right):
        a, b = b, a
    if (a.dtype, b.dtype, s.value.dtype) != (row.left, row.right, row.result):
        raise StepError(f"dot: {instruction} multiplies {row.left} by {row.right} into {row.result}, here are {a.dtype} and {b.dtype} into {s.value.dtype}")
    if facts.strict and row.result.is_float:
        raise StepError("dot: neighbours are added in an order of their own, and --strict forbids it")
    whole = is_multiple(loop.stop, row.count, facts.known)

    def word(f: Factor) -> Expr:
        parts: list[Expr] = []
        for k in range(row.count):
            at = var(axis) * row.count + k
            bits = substitute(f.bits, {var(axis): at})
            if not whole and k:
                bits = where(at.lt(loop.stop), bits, const(0, u32))
            parts.append(call("shift_left", bits, const(k * row.left.bits, u32)) if k else bits)
        joined = parts[0]
        for part in parts[1:]:
            joined = call("bit_or", joined, part)
        # bytes 128 higher or lower, by their highest bits: of the zeros beyond the end too, which the other word multiplies by 0
        return joined if f.dtype is f.element.dtype else call("bit_xor", joined, const(0x80808080, u32))

    value = make("ins", row.result, (const(0, row.result), word(a), word(b)), row.name)
    return replace_loop(kernel, axis, lambda _: (replace(loop, stop=ceildiv(loop.stop, row.count), body=(replace(s, value=value),)),))


def offset(kernel: Kernel, facts: Facts, axis: str, buffer: str) -> Kernel:
    """Give one factor of a sum of products the other sign: bytes from -128 to 127 become bytes from 0 to 255, or the other way round.

                                                                alloc B.sums: i32[N] shared
                                                                for j.b in 0 .. N parallel:
                                                                  alloc sum: i32[] register
                                                                  sum[] = 0
                                                                  for p.b in 0 .. K reduce:
                                                                    sum[] add= cast.i32(B[p.b, j.b])
        for i parallel:                                           B.sums[j.b] = sum[] * -128
          for j parallel:                                       for i parallel:
            acc[] = 0                                             for j parallel:
            for p in 0 .. K reduce:                        →        acc[] = 0
              acc[] add= cast.i32(A[i, p]) * cast.i32(B[p, j])        for p in 0 .. K reduce:
            C[i, j] = f(acc[])                                          acc[] add= (cast.i32(A[i, p]) + 128) * cast.i32(B[p, j])
                                                                    C[i, j] = f(acc[] + B.sums[j])

    `buffer` is what the other factor (A here) is read from.  i32 wraps, so this is exact.  The reduction stands in parallel loops from 0, with one accumulator beside it that starts at 0.
    """
    loop, s, a, b = factors(kernel, axis)
    moved, other = (a, b) if buffer in a.element.buffers else (b, a)
    if s.value.dtype is not i32 or buffer not in moved.element.buffers or moved.dtype is not moved.element.dtype or buffer in other.element.buffers:
        raise StepError(f"offset: `{buffer}` is no factor of bytes of the sum over `{axis}`")
    loops = [x for x in around(kernel, axis)[:-1] if isinstance(x, Loop)]
    if any(x.kind != "parallel" or x.start is not ZERO or x.step is not ONE for x in loops) or len(loops) != len(around(kernel, axis)) - 1:
        raise StepError(f"offset: `{axis}` stands in more than parallel loops from 0")
    inside = loops[-1].body if loops else kernel.body
    place = next(k for k, t in enumerate(inside) if t is loop)
    start = Store(s.buffer, (), identity("add", i32))
    if s.index or not any(isinstance(t, Store) and (t.buffer, t.index, t.value, t.combiner) == (start.buffer, start.index, start.value, "") for t in inside[:place]):
        raise StepError(f"offset: `{s.buffer}` does not start at 0 beside `{axis}`")
    kept = [x for x in loops if x.axis in other.element.names]
    if any(y.axis in x.stop.names for x in (*kept, loop) for y in loops):
        raise StepError("offset: the extent of an axis depends on another")
    taken = names_taken(kernel)
    sign = SIGN if moved.dtype is i8 else -SIGN
    sums = Buffer(fresh(f"{min(other.element.buffers)}.sums", taken), i32, tuple(x.stop for x in kept), "shared", align=64)
    one = Buffer(fresh("sum", taken), i32, (), "register")
    new = {var(x.axis): var(fresh(x.axis, taken)) for x in (*kept, loop)}
    at = tuple(var(x.axis) for x in kept)
    adding = Loop(new[var(axis)].attr, ZERO, loop.stop, (Store(one.name, (), substitute(cast(i32, other.element), new), "add"),), "reduce")
    total = call("mul", load(one.name, i32), const(-sign, i32))
    before: Block = (Alloc(one), Store(one.name, (), const(0, i32)), adding, Store(sums.name, tuple(new[e] for e in at), total))
    for x in reversed(kept):
        before = (Loop(new[var(x.axis)].attr, ZERO, x.stop, before, "parallel"),)
    shifted = call("add", cast(i32, moved.element), const(sign, i32))
    product = call("mul", shifted, cast(i32, other.element))
    acc = load(s.buffer, i32)
    after = substitute_block(inside[place + 1 :], {acc: call("add", acc, load(sums.name, i32, *at))})
    changed = (*inside[:place], replace(loop, body=(replace(s, value=product),)), *after)
    if not loops:
        return replace(kernel, body=(Alloc(sums), *before, *changed))
    nest = replace_loop(kernel, loops[-1].axis, lambda x: (replace(x, body=changed),))
    outer = find(nest, loops[0].axis)
    return replace(nest, body=replace_in(nest.body, outer, (Alloc(sums), *before, outer)))


def choice(instructions: frozenset[str], left: DType, right: DType) -> Dot | None:
    """The instruction for these factors among those of a target, the first that needs no `offset` if there is one."""
    rows = [row for row in INSTRUCTIONS.values() if row.name in instructions]
    plain = [row for row in rows if (left, right) in ((row.left, row.right), (row.right, row.left))]
    moved = [row for row in rows if left is right and {left, row.left, row.right} == {i8, u8}]
    return next(iter((*plain, *moved)), None)
