"""The step for reductions that look for the first position: `search`."""

from __future__ import annotations

from ....ir.dtypes import INDEX, i32
from ....ir.expr import ZERO, Expr, cast, ceildiv, const, load, minimum, var, where
from ....ir.kernel import Alloc, Buffer, If, Kernel, Let, Loop, Store, identity_of, statements
from ....ir.record import replace
from ....ir.walks import substitute
from ..affine import constant_extent, minus
from ..tree import Facts, StepError, around, fresh, loads_in, local_buffers, names_taken, replace_loop


def search(kernel: Kernel, facts: Facts, axis: str, size: int) -> Kernel:
    """Look for the first position in pieces, which are narrow numbers, up to the piece that has it.

                                                              for p.0 in 0 .. ceil(N / 4096):
                                                                if not acc[] < max:
        for p in 0 .. N reduce:                                   alloc acc.near: i32[] register
          acc[] min= where(X[p] == m[], p, max)      →            acc.near[] = 4096
                                                                  for p.1 in 0 .. min(4096, N - 4096·p.0) reduce:
                                                                    acc.near[] min= where(X[4096·p.0 + p.1] == m[], cast.i32(p.1), 4096)
                                                                  if acc.near[] < 4096:
                                                                    acc[] = 4096·p.0 + acc.near[]

    The loop, from 0 in steps of 1, holds lets and one minimum of what grows by one with it, or the largest position.  The positions of a later piece are all larger, so it is not looked at once one
    is found; and in a piece they are numbers of 32 bits, of which a vector has twice as many.  `max` is the identity of `acc`, a scalar that nothing has been put in before.
    """
    path = around(kernel, axis)
    loop = path[-1]
    assert isinstance(loop, Loop)
    if loop.kind != "reduce" or loop.start is not ZERO or size < 1 or constant_extent(loop) is not None:
        raise StepError(f"search: `{axis}` is no reduction from 0 of symbolic extent")
    store = loop.body[-1] if loop.body else None
    if not isinstance(store, Store) or store.combiner != "min" or store.index or not all(isinstance(s, Let) for s in loop.body[:-1]):
        raise StepError(f"search: `{axis}` does more than to take one minimum")
    acc = local_buffers(kernel).get(store.buffer)
    none = identity_of("min", INDEX)
    e = store.value
    if acc is None or acc.dtype is not INDEX or e.op != "where" or e.args[2] is not none:
        raise StepError(f"search: `{store.buffer}` is no minimum of positions")
    others = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == acc.name and s is not store]
    beside = path[-2].body if len(path) > 1 and isinstance(path[-2], Loop) else kernel.body
    if any(s.combiner or s.value is not none for s in others) or not any(isinstance(s, Alloc) and s.buffer is acc for s in beside):
        raise StepError(f"search: `{acc.name}` may hold a position already")
    offset = minus(e.args[1], var(axis))
    if (
        axis in offset.names
        or offset.buffers
        or any(store.buffer in n.buffers for s in loop.body[:-1] if isinstance(s, Let) for n in loads_in(s.value))
    ):
        raise StepError(f"search: the positions do not grow by one with `{axis}`")
    taken = names_taken(kernel)
    outer, inner = fresh(f"{axis}.0", taken), fresh(f"{axis}.1", taken)
    near = Buffer(fresh(f"{acc.name}.near", taken), i32, (), "register")
    at = {var(axis): var(outer) * size + var(inner)}
    missing = const(size, i32)
    value = where(substitute(e.args[0], at), cast(i32, var(inner)), missing)
    lets = tuple(Let(s.name, substitute(s.value, at)) for s in loop.body[:-1] if isinstance(s, Let))
    piece = Loop(
        inner, ZERO, minimum(const(size), minus(loop.stop, var(outer) * size)), (*lets, replace(store, buffer=near.name, value=value)), "reduce"
    )
    found = load(near.name, i32)
    position: Expr = substitute(offset, at) + var(outer) * size + cast(INDEX, found)
    looked = (Alloc(near), Store(near.name, (), missing), piece, If(found.lt(missing), (Store(acc.name, (), position),)))
    new = Loop(outer, ZERO, ceildiv(loop.stop, size), (If(none.le(load(acc.name, INDEX)), looked),), "serial")
    return replace_loop(kernel, axis, lambda _: (new,))
