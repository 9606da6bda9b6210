"""The step `ride`: what a copy is made of is read by the first who reads the copy, and the copy is made then."""

from __future__ import annotations

from ...ir.expr import ONE, minimum, var
from ...ir.kernel import Alloc, Kernel, Loop, Store, statements, substitute_block, written
from ...ir.record import replace
from .tree import Facts, StepError, copy, find, loop_around, names_taken, reads, replace_in, replace_loop, simple, touched


def ride(kernel: Kernel, facts: Facts, copied: str, axis: str) -> Kernel:
    """The loop that makes a copy goes into the first iteration of a loop that reads it, slice by slice, where each is wanted.

        for p in 0 .. K:                        for i.r in 0 .. min(1, M):
          for c in 0 .. 64:                       for q.r in 0 .. K reduce:
            P[p, c] = B[p, 64·j + c]                for c.r in 0 .. 64:
        for i in 0 .. M:                              P[q.r, c.r] = B[q.r, 64·j + c.r]
          for q in 0 .. K reduce:                   for d.r in 0 .. 64:
            for d in 0 .. 64:            →            acc[i.r, d.r] += A[i.r, q.r] · P[q.r, d.r]
              acc[i, d] += A[i, q] · P[q, d]    for i in min(1, M) .. M:
                                                  for q in 0 .. K reduce:
                                                    for d in 0 .. 64:
                                                      acc[i, d] += A[i, q] · P[q, d]

    The buffer is that of the loop around both, and nothing but the loop `i` reads it, in one reduction right inside of it, over the range of the copy and at its own position; what the copy is made of, nothing between writes.
    """
    maker, user = find(kernel, copied), find(kernel, axis)
    outer = loop_around(kernel, maker)
    if outer is None or not any(s is user for s in outer.body):
        raise StepError(f"ride: `{copied}` and `{axis}` do not stand in one loop")
    own = {s.buffer.name for s in outer.body if isinstance(s, Alloc)}
    begin, end = (next(k for k, s in enumerate(outer.body) if s is x) for x in (maker, user))
    made = written((maker,))
    (name,) = made if len(made) == 1 else ("",)
    if begin >= end or maker.kind != "parallel" or user.kind not in ("parallel", "serial") or user.step is not ONE or name not in own:
        raise StepError(f"ride: `{copied}` makes no copy before `{axis}`, or that one does not run in steps of 1")
    between, after = outer.body[begin + 1 : end], outer.body[end + 1 :]
    if name in touched((*between, *after)) or (written(between) | written(user.body)) & touched((maker,)) - {name} or name in written(user.body):
        raise StepError(f"ride: `{name}` is touched elsewhere, or what it is made of is written")
    loads = {n for n in reads(user.body) if n.attr == name}
    readers = [
        x
        for x in user.body  # not deeper: what the first iteration leaves out would never be copied
        if isinstance(x, Loop)
        and x.kind == "reduce"
        and (x.start, x.stop, x.step) == (maker.start, maker.stop, maker.step)
        and loads <= set(reads(x.body))
    ]
    stored = [s for s in statements(maker.body) if isinstance(s, Store)]
    slices = {k for s in stored for k, e in enumerate(s.index) if maker.axis in e.names}
    if len(readers) != 1 or len(slices) != 1:
        raise StepError(f"ride: no one reduction of `{axis}` goes through `{name}` as `{copied}` does")
    (reader,), (at,) = readers, slices
    if any(s.index[at] is not var(maker.axis) for s in stored) or any(n.args[at] is not var(reader.axis) for n in loads):
        raise StepError(f"ride: `{name}` is not read slice by slice as it is made")
    taken = names_taken(kernel)
    part = copy(substitute_block(maker.body, {var(maker.axis): var(reader.axis)}), taken)
    middle = simple(minimum(user.start + 1, user.stop))
    body = replace_in(user.body, reader, (replace(reader, body=(*part, *reader.body)),))
    (first,) = copy((replace(user, stop=middle, kind="serial", body=body),), taken)
    rest = replace(user, start=middle)
    return replace_loop(kernel, outer.axis, lambda o: (replace(o, body=(*o.body[:begin], *between, first, rest, *after)),))
