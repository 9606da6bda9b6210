"""Steps on a sum inside of another: `distribute` makes one sum of both, `floats` adds up integers as floats that are exact."""

from __future__ import annotations

from typing import NamedTuple

from ....ir.dtypes import DType
from ....ir.expr import Expr, call, cast, const, load
from ....ir.instructions import INSTRUCTIONS, Dot
from ....ir.kernel import Alloc, Kernel, Loop, Store, identity_of
from ....ir.record import replace
from ....ir.walks import postorder, substitute
from ..affine import constant_extent
from ..tree import Facts, StepError, find, loop_around, replace_loop


def distribute(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Add up what is made of the terms of a sum in place of what is made of the sum.

        for p reduce:                                   for p reduce:
          alloc sum: i32[] register                       for q in 0 .. 8 reduce:
          sum[] = 0:i32                            →        acc[] add= cast.f32(e[p, q]) * (s[p] * t[p])
          for q in 0 .. 8 reduce:
            sum[] add= e[p, q]
          acc[] add= cast.f32(sum[]) * (s[p] * t[p])

    `axis` is the sum inside (q here).  What is made of it is a product of it, or of a cast of it to floats that hold all integers that it may be.  A sum of floats is rounded otherwise then: --strict forbids it.
    """
    if facts.strict:
        raise StepError("distribute: terms are rounded one by one, and --strict forbids it")
    inside = _sum_inside(kernel, axis, "distribute")
    _require_linear(inside.total.value, inside.held, inside.most)
    total = replace(inside.total, value=substitute(inside.total.value, {inside.held: inside.term.value}))
    return replace_loop(kernel, inside.outer.axis, lambda x: (replace(x, body=(replace(inside.loop, body=(total,)),)),))


def floats(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Add up integers as floats that hold all sums that there may be: the same numbers, in any order.

        alloc sum: i32[] register                               alloc sum: f32[] register
        sum[] = 0:i32                                           sum[] = 0.0:f32
        for q in 0 .. 32 reduce:                         →      for q in 0 .. 32 reduce:
          sum[] add= cast.i32(A[q]) * cast.i32(B[q])              sum[] add= cast.f32(A[q]) * cast.f32(B[q])
        acc[] add= cast.f32(sum[]) * s[p]                       acc[] add= sum[] * s[p]

    `axis` is a sum alone in another reduction, over so few products of integers that the floats to which it is cast are exact; nothing else is made of it.
    """
    inside = _sum_inside(kernel, axis, "floats")
    casts = [n for n in postorder(inside.total.value) if inside.held in n.args]
    if len(casts) != 1 or casts[0].op != "cast" or not casts[0].dtype.is_float:
        raise StepError(f"floats: what `{axis}` sums is no float right away")
    dtype = casts[0].dtype
    if inside.most is None or inside.most > _exact(dtype):
        raise StepError(f"floats: {dtype} does not hold all that the sum may be")
    buffer = replace(inside.alloc.buffer, dtype=dtype)
    body = (
        replace(inside.alloc, buffer=buffer),
        replace(inside.start, value=identity_of("add", dtype)),
        replace(inside.loop, body=(replace(inside.term, value=_as_floats(inside.term.value, dtype)),)),
        replace(inside.total, value=substitute(inside.total.value, {casts[0]: load(buffer.name, dtype)})),
    )
    return replace_loop(kernel, inside.outer.axis, lambda x: (replace(x, body=body),))


def _as_floats(e: Expr, dtype: DType) -> Expr:
    if e.op == "cast":
        return cast(dtype, e.args[0])
    return const(float(e.attr), dtype) if e.is_const else call(e.op, *(_as_floats(a, dtype) for a in e.args))


class _Inside(NamedTuple):
    """A sum alone in another reduction."""

    outer: Loop
    alloc: Alloc
    start: Store
    loop: Loop
    term: Store
    total: Store
    held: Expr  # the sum where it is read
    most: int | None  # how far from 0 it may be


def _sum_inside(kernel: Kernel, axis: str, step: str) -> _Inside:
    loop, outer = find(kernel, axis), loop_around(kernel, find(kernel, axis))
    if outer is None or len(outer.body) != 4 or loop.kind != "reduce" or outer.kind != "reduce":
        raise StepError(f"{step}: `{axis}` is no sum alone in another reduction")
    alloc, start, _, total = outer.body
    term = loop.body[0]
    if not isinstance(alloc, Alloc) or not isinstance(start, Store) or not isinstance(total, Store) or not isinstance(term, Store):
        raise StepError(f"{step}: `{outer.axis}` holds more than a sum and what is made of it")
    held = load(alloc.buffer.name, alloc.buffer.dtype)
    sums = (term.buffer, term.index, term.combiner) == (alloc.buffer.name, (), "add") and len(loop.body) == 1
    begins = replace(start, span=None) == Store(alloc.buffer.name, (), identity_of("add", alloc.buffer.dtype))
    if not sums or not begins or total.combiner != "add" or outer.body[2] is not loop:
        raise StepError(f"{step}: `{axis}` is no sum that begins at 0 and is a term of another")
    largest, trips = _largest(term.value), constant_extent(loop)
    return _Inside(outer, alloc, start, loop, term, total, held, None if largest is None or trips is None else largest * trips)


def _require_linear(e: Expr, held: Expr, most: int | None) -> None:
    """That an expression is a multiple of the sum, which is at most so far from 0.  StepError."""
    while e is not held:
        with_sum = [a for a in e.args if held.attr in a.buffers]
        if len(with_sum) != 1 or e.op not in ("mul", "cast"):
            raise StepError(f"distribute: `{e.op}` makes no multiple of the sum")
        (inner,) = with_sum
        if e.op == "cast" and (most is None or not e.dtype.is_float or most > _exact(e.dtype)):
            raise StepError(f"distribute: {e.dtype} does not hold all that the sum may be")
        e = inner


def _exact(d: DType) -> int:
    """The largest integer up to which a float type holds all of them."""
    return round(2 / d.epsilon)


def _largest(e: Expr) -> int | None:
    """How far from 0 an integer may be, by what it is made of; None where that is not seen."""
    if e.is_const and e.dtype.is_integer:
        return abs(e.attr)
    if e.op == "ins" and isinstance(row := INSTRUCTIONS.get(e.attr), Dot) and row.result.is_integer:
        first = _largest(e.args[0])
        return None if first is None else first + row.neighbours * _of(row.left) * _of(row.right)
    if e.op == "cast" and e.dtype.is_integer and e.args[0].dtype.is_integer and e.args[0].dtype.bits < e.dtype.bits:
        return _of(e.args[0].dtype)
    if e.op in ("mul", "add"):
        a, b = map(_largest, e.args)
        return None if a is None or b is None else a * b if e.op == "mul" else a + b
    return None


def _of(d: DType) -> int:
    return int(max(abs(d.min), abs(d.max)))
