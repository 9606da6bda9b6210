"""The step that computes what is stored of a sum where the sum stands: `complete`."""

from __future__ import annotations

from ...ir.expr import load
from ...ir.kernel import Alloc, Kernel, Store
from ...ir.places import block_of, path_of
from ...ir.record import replace
from .tree import Facts, StepError, local_buffers, replace_in, touched


def complete(kernel: Kernel, facts: Facts, buffer: str) -> Kernel:
    """What is stored of a scalar is computed in its place, and copied.

        alloc acc: f32[] register           alloc acc: f32[] register
        acc[] = 0                           acc[] = 0
        for w in 0 .. D reduce:             for w in 0 .. D reduce:
          acc[] add= Q[w] * K[p, w]    →      acc[] add= Q[w] * K[p, w]
        tile[p] = acc[] * t                 acc[] = acc[] * t
                                            tile[p] = acc[]

    The scalar has the type of what is stored, which is the last that is made of it.  Sums of many loops that stand side by side are then completed in vectors of whatever lies side by side among them, however short the
    pieces are in which they are copied.
    """
    sums = local_buffers(kernel).get(buffer)
    if sums is None or sums.shape:
        raise StepError(f"complete: there is no scalar `{buffer}`")
    users = [s for s in block_of(kernel, path_of(kernel, buffer)) if buffer in touched((s,)) and not isinstance(s, Alloc)]
    s = users[-1] if users else None
    value = load(buffer, sums.dtype)
    if not isinstance(s, Store) or s.buffer == buffer or s.combiner or s.value.dtype is not sums.dtype:
        raise StepError(f"complete: what is made of `{buffer}` in the end is no value of its type that is stored")
    if s.value is value or any(buffer in e.buffers for e in s.index):
        raise StepError(f"complete: `{buffer}` is stored as it is, or says where")
    assert any(buffer in e.buffers for e in s.expressions())
    return kernel.with_body(replace_in(kernel.body, s, (Store(buffer, (), s.value), replace(s, value=value))))
