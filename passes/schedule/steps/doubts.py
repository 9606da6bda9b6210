"""The step `once`: what each position of a nest asks of its own number is asked once for all of them."""

from __future__ import annotations

from ....ir.expr import ZERO, call, const, load, var
from ....ir.kernel import Alloc, Buffer, If, Kernel, Loop, Store, written
from ....ir.record import replace
from ..tree import Facts, StepError, fresh, local_buffers, names_taken, nest, rename, replace_loop, touched
from .distribute import prefixed


def once(kernel: Kernel, facts: Facts, row: str, column: str) -> Kernel:
    """What is taken again where a sum is not finite is left out for a whole nest where all sums are.

                                                      alloc found: f32[32] register
                                                      for j.b: found[j.b] = 0.0
                                                      for i.c reduce, j.c: found[j.c] add= acc[i.c, j.c] * 0.0
        for i in 0 .. 14:                             alloc all: f32[] register = 0.0
          for j in 0 .. 32:                           for j.d reduce: all[] add= found[j.d]
            if acc[i, j] * 0.0 != 0.0:                if all[] != 0.0:
              alloc again: f32[] register               alloc again: f32[14, 32] stack
              again[] = 0.0                       →     for i.e, j.e: again[i.e, j.e] = 0.0
              for p reduce:                             for i, p reduce:
                again[] add= …                            for j.f: again[i, j.f] add= …
              acc[i, j] = again[]                       for i.g, j.g: acc[i.g, j.g] = where(acc[i.g, j.g] * 0.0 != 0.0, again[i.g, j.g], acc[i.g, j.g])

    x · 0 is 0, or NaN where x is an infinity or NaN, and so is the sum of such products.  The loops are a perfect nest of two parallel ones from 0, of constant extents, and `acc` is read and written at
    their own position alone.
    """
    i, j = loops = nest(kernel, (row, column))
    if any(x.kind != "parallel" or x.start is not ZERO or not x.stop.is_const for x in loops):
        raise StepError(f"once: `{row}` and `{column}` are no parallel loops from 0 to a number")
    body = j.body[0]
    if len(j.body) != 1 or not isinstance(body, If) or body.orelse or len(body.body) != 4:
        raise StepError(f"once: `{column}` does not hold one `if`")
    own = (var(row), var(column))
    alloc, start, summing, end = body.body
    if not (isinstance(alloc, Alloc) and isinstance(start, Store) and isinstance(summing, Loop) and isinstance(end, Store)):
        raise StepError("once: the `if` holds more than a sum and where it goes")
    again = alloc.buffer
    number = load(end.buffer, again.dtype, *own)
    zero = const(0.0, again.dtype)
    doubt = call("not_equal", call("mul", number, zero), zero)
    if (
        body.condition is not doubt
        or end.index != own
        or end.combiner
        or end.value is not load(again.name, again.dtype)
        or again.shape
        or start.buffer != again.name
        or summing.kind != "reduce"
        or written((summing,)) != {again.name}
        or end.buffer not in local_buffers(kernel)
        or end.buffer in touched((start, summing))
    ):
        raise StepError(f"once: `{column}` does not ask whether a local number is finite, to take it again")
    taken = names_taken(kernel)
    found = Buffer(fresh("found", taken), again.dtype, (j.stop,), "register")
    every = Buffer(fresh("all", taken), again.dtype, (), "register")

    def over(stmt: Store, rows: str = "", columns: str = "parallel") -> Loop:
        """The statement for all columns; with a kind of loop for rows, for all of these."""
        names = {x: fresh(x, taken) for x in (column, *([row] if rows else ()))}
        result = replace(j, axis=names[column], kind=columns, body=rename((stmt,), names))
        return replace(i, axis=names[row], kind=rows, body=(result,)) if rows else result

    (first, sums) = prefixed((start, summing), again.name, own)
    assert isinstance(first, Store) and isinstance(sums, Loop)
    value = call("where", doubt, load(again.name, again.dtype, *own), number)
    inner = over(sums.body[0]) if len(sums.body) == 1 and isinstance(sums.body[0], Store) else None
    if inner is None:
        raise StepError("once: what is summed has more than one statement")
    body = (
        Alloc(replace(again, shape=(i.stop, j.stop), space="stack", align=64)),
        over(first, "parallel"),
        replace(i, body=(replace(sums, body=(inner,)),)),
        over(replace(end, value=value), "parallel"),
    )
    lane = (own[1],)
    new = (
        Alloc(found),
        over(Store(found.name, lane, zero)),
        over(Store(found.name, lane, call("mul", number, zero), "add"), "reduce"),
        Alloc(every),
        Store(every.name, (), zero),
        over(Store(every.name, (), load(found.name, again.dtype, *lane), "add"), columns="reduce"),
        If(call("not_equal", load(every.name, again.dtype), zero), body),
    )
    return replace_loop(kernel, row, lambda _: new)
