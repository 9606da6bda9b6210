"""`distribute`: what is made of a sum inside another sum is made of each of its terms, so that both are one."""

from __future__ import annotations

from ...ir.dtypes import DType
from ...ir.expr import Expr, load
from ...ir.instructions import INSTRUCTIONS, Dot
from ...ir.kernel import Alloc, Kernel, Store, identity_of
from ...ir.record import replace
from ...ir.walks import substitute
from .affine import constant_extent
from .tree import Facts, StepError, find, loop_around, replace_loop


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
    loop, outer = find(kernel, axis), loop_around(kernel, find(kernel, axis))
    if facts.strict:
        raise StepError("distribute: terms are rounded one by one, and --strict forbids it")
    if outer is None or len(outer.body) != 4 or loop.kind != "reduce" or outer.kind != "reduce":
        raise StepError(f"distribute: `{axis}` is no sum alone in another reduction")
    alloc, start, _, total = outer.body
    term = loop.body[0]
    if not isinstance(alloc, Alloc) or not isinstance(start, Store) or not isinstance(total, Store) or not isinstance(term, Store):
        raise StepError(f"distribute: `{outer.axis}` holds more than a sum and what is made of it")
    held = load(alloc.buffer.name, alloc.buffer.dtype)
    sums = (term.buffer, term.index, term.combiner) == (alloc.buffer.name, (), "add") and len(loop.body) == 1
    begins = replace(start, span=None) == Store(alloc.buffer.name, (), identity_of("add", alloc.buffer.dtype))
    if not sums or not begins or total.combiner != "add" or outer.body[2] is not loop:
        raise StepError(f"distribute: `{axis}` is no sum that begins at 0 and is a term of another")
    largest = _largest(term.value)
    trips = constant_extent(loop)
    _require_linear(total.value, held, None if largest is None or trips is None else largest * trips)
    body = (replace(loop, body=(replace(total, value=substitute(total.value, {held: term.value})),)),)
    return replace_loop(kernel, outer.axis, lambda x: (replace(x, body=body),))


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
