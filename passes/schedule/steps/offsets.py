"""A step on sums of products of bytes: `offset` gives a factor the sign that a machine's instruction wants (`dots.py`), or takes the zero of its own out of the sum."""

from __future__ import annotations

from ....ir.dtypes import i8, i32
from ....ir.expr import ONE, ZERO, call, cast, const, load, var
from ....ir.kernel import Alloc, Block, Buffer, Kernel, Loop, Store, identity_of, substitute_block
from ....ir.record import replace
from ....ir.walks import substitute
from ..tree import Facts, StepError, around, find, fresh, names_taken, replace_in, replace_loop
from .dots import SIGN, factors


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
    A zero that is taken from it is taken out of the sum first: (A[i, p] - z[i]) * B[p, j] becomes A[i, p] * B[p, j], and acc[] becomes acc[] + B.sums[j] * z[i], the sums with the other sign.
    """
    loop, s, a, b = factors(kernel, axis, zeros=True)
    moved, other = (a, b) if buffer in a.element.buffers else (b, a)
    whole, rest = s.value.args if moved is a else reversed(s.value.args)
    if s.value.dtype is not i32 or buffer not in moved.element.buffers or moved.dtype is not moved.element.dtype or buffer in other.element.buffers:
        raise StepError(f"offset: `{buffer}` is no factor of bytes of the sum over `{axis}`")
    loops = [x for x in around(kernel, axis)[:-1] if isinstance(x, Loop)]
    if (
        any(x.kind not in ("parallel", "reduce") or x.start is not ZERO or x.step is not ONE for x in loops)
        or len(loops) != len(around(kernel, axis)) - 1
    ):
        raise StepError(f"offset: `{axis}` stands in more than parallel loops and reductions from 0")
    inside = loops[-1].body if loops else kernel.body
    place = next(k for k, t in enumerate(inside) if t is loop)
    start = Store(s.buffer, (), identity_of("add", i32))
    if s.index or not any(
        isinstance(t, Store) and (t.buffer, t.index, t.value, t.combiner) == (start.buffer, start.index, start.value, "") for t in inside[:place]
    ):
        raise StepError(f"offset: `{s.buffer}` does not start at 0 beside `{axis}`")
    kept = [x for x in loops if x.axis in rest.names]
    if any(y.axis in x.stop.names for x in (*kept, loop) for y in loops):
        raise StepError("offset: the extent of an axis depends on another")
    taken = names_taken(kernel)
    sign = SIGN if moved.dtype is i8 else -SIGN
    each = moved.zero if moved.zero is not None and not moved.zero.is_const else None  # by what a sum is multiplied where it is read
    times = -1 if each is not None else -sign if moved.zero is None else -moved.zero.attr
    sums = Buffer(fresh(f"{min(other.element.buffers)}.sums", taken), i32, tuple(x.stop for x in kept), "shared", align=64)
    one = Buffer(fresh("sum", taken), i32, (), "register")
    new = {var(x.axis): var(fresh(x.axis, taken)) for x in (*kept, loop)}
    at = tuple(var(x.axis) for x in kept)
    adding = Loop(new[var(axis)].attr, ZERO, loop.stop, (Store(one.name, (), substitute(rest, new), "add"),), "reduce")
    total = call("mul", load(one.name, i32), const(times, i32))
    before: Block = (Alloc(one), Store(one.name, (), const(0, i32)), adding, Store(sums.name, tuple(new[e] for e in at), total))
    for x in reversed(kept):
        before = (Loop(new[var(x.axis)].attr, ZERO, x.stop, before, "parallel"),)
    shifted = call("add", whole, const(sign, i32)) if moved.zero is None else cast(i32, moved.element)
    product = call("mul", shifted, rest)
    acc, more = load(s.buffer, i32), load(sums.name, i32, *at)
    after = substitute_block(inside[place + 1 :], {acc: call("add", acc, more if each is None else call("mul", more, each))})
    changed = (*inside[:place], replace(loop, body=(replace(s, value=product),)), *after)
    if not loops:
        return kernel.with_body((Alloc(sums), *before, *changed))
    nest = replace_loop(kernel, loops[-1].axis, lambda x: (replace(x, body=changed),))
    outer = find(nest, loops[0].axis)
    return replace(nest, body=replace_in(nest.body, outer, (Alloc(sums), *before, outer)))
