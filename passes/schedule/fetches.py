"""The step that asks memory for the next piece before the current one is worked on: `fetch`."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr, const, load, var, where
from ...ir.kernel import Alloc, Barrier, Buffer, Kernel, Loop, Stmt, Store, expressions, nested, statements, with_body, written
from ...ir.record import replace
from ...ir.walks import substitute
from .affine import constant_extent
from .tree import Facts, StepError, find, fresh, local_buffers, names_taken, replace_loop, unless


def fetch(kernel: Kernel, facts: Facts, axis: str, *buffers: str, ahead: int = 1) -> Kernel:
    """What each iteration of a serial loop copies into memory that threads share is read one iteration earlier, into registers.

                                                  alloc A.next: f32[8] register
                                                  for u in 0 .. 8: A.next[u] = A[u, 0]
        for p in 0 .. K:                          for p in 0 .. K:
          for u in 0 .. 8:                          for u.b in 0 .. 8:
            A.packed[u] = A[u, p]         →           A.packed[u.b] = A.next[u.b]
          barrier                                   barrier
          … A.packed …                              for u.c in 0 .. 8: A.next[u.c] = where(p + 1 < K, A[u.c, p + 1], 0)
          barrier                                   … A.packed …
                                                    barrier

    So a thread waits for memory while it works on what it has.  The copy is a nest of loops of constant extents around one store, before a barrier in the body of the loop;
    what it reads, nothing inside the loop writes.  With ahead=0 it is read in the same iteration, all of it before the first of it is stored: so memory is waited for once.
    """
    loop = find(kernel, axis)
    if loop.kind != "serial" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"fetch: `{axis}` is no serial loop from 0 in steps of 1")
    barrier = next((k for k, s in enumerate(loop.body) if isinstance(s, Barrier)), None)
    if barrier is None or not buffers:
        raise StepError(f"fetch: nothing in `{axis}` waits for a copy")
    taken, local = names_taken(kernel), local_buffers(kernel)
    before: list[Stmt] = []
    behind: list[Stmt] = []
    body = list(loop.body)
    for name in buffers:
        k = next((k for k, s in enumerate(body[:barrier]) if isinstance(s, Loop) and written((s,)) == {name}), None)
        if k is None or sum(isinstance(s, Store) and s.buffer == name for s in statements(kernel.body)) != 1:
            raise StepError(f"fetch: no loop before the barrier of `{axis}` is the one that fills `{name}`")
        nest, store = _copy(name, body[k])
        if any(not e.buffers.isdisjoint(written(loop.body)) for e in expressions(store)):
            raise StepError(f"fetch: what `{name}` is filled from is written inside `{axis}`")
        dtype = local[name].dtype
        held = fresh(f"{name}.next", taken)
        # lanes are let through by one condition; others are asked one after the other
        chosen = unless if any(x.kind == "vector" for x in nest) else _where
        before.append(Alloc(Buffer(held, dtype, tuple(x.stop for x in nest), "register")))
        for block, at in ((before, ZERO), (behind, var(axis) + 1)) if ahead else ((before, var(axis)),):
            names = {var(x.axis): var(fresh(x.axis, taken)) for x in nest}
            there = substitute(store.value, {var(axis): at, **names})
            there = chosen(at.lt(loop.stop), there) if ahead else there
            block += nested([replace(x, axis=names[var(x.axis)].attr) for x in nest], (Store(held, tuple(names.values()), there),))
        body[k : k + 1] = nested(nest, (replace(store, value=load(held, dtype, *(var(x.axis) for x in nest))),))
    body[barrier + 1 : barrier + 1] = behind
    if not ahead:
        return replace_loop(kernel, axis, lambda x: (with_body(x, (*before, *body)),))
    return replace_loop(kernel, axis, lambda x: (*before, with_body(x, tuple(body))))


def _copy(name: str, s: Stmt) -> tuple[list[Loop], Store]:
    """The loops of a copy into a buffer, and its store.  StepError where it is another nest."""
    nest: list[Loop] = []
    while isinstance(s, Loop) and len(s.body) == 1 and s.start is ZERO and constant_extent(s) is not None:
        nest.append(s)
        s = s.body[0]
    if not isinstance(s, Store) or s.combiner:
        raise StepError(f"fetch: `{name}` is not filled by one store in loops of constant extents")
    return nest, s


def _where(condition: Expr, e: Expr) -> Expr:
    return where(condition, e, const(0, e.dtype))
