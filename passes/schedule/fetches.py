"""The step that asks memory for the next piece before the current one is worked on: `fetch`."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr, const, load, var, where
from ...ir.kernel import Alloc, Barrier, Block, Buffer, Kernel, Loop, Stmt, Store, expressions, statements, with_body, written
from ...ir.walks import substitute
from .affine import constant_extent
from .tree import Facts, StepError, find, fresh, less, local_buffers, names_taken, replace_loop


def fetch(kernel: Kernel, facts: Facts, axis: str, *buffers: str) -> Kernel:
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

    So a thread waits for memory while it works on what it has.  The copy is a loop of a constant extent with one store, before a barrier in the body of the loop;
    what it reads, nothing inside the loop writes.
    """
    loop = find(kernel, axis)
    if loop.kind != "serial" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"fetch: `{axis}` is no serial loop from 0 in steps of 1")
    barrier = next((k for k, s in enumerate(loop.body) if isinstance(s, Barrier)), None)
    if barrier is None or not buffers:
        raise StepError(f"fetch: nothing in `{axis}` waits for a copy")
    taken, local = names_taken(kernel), local_buffers(kernel)
    before: list[Stmt] = []
    ahead: list[Stmt] = []
    body = list(loop.body)
    for name in buffers:
        k = next((k for k, s in enumerate(body[:barrier]) if isinstance(s, Loop) and written((s,)) == {name}), None)
        if k is None or sum(isinstance(s, Store) and s.buffer == name for s in statements(kernel.body)) != 1:
            raise StepError(f"fetch: no loop before the barrier of `{axis}` is the one that fills `{name}`")
        copy = body[k]
        assert isinstance(copy, Loop)
        length, store = constant_extent(copy), copy.body[0]
        if length is None or copy.start is not ZERO or len(copy.body) != 1 or not isinstance(store, Store) or store.combiner:
            raise StepError(f"fetch: `{name}` is not filled by one store in a loop of a constant extent")
        if any(not e.buffers.isdisjoint(written(loop.body)) for e in expressions(store)):
            raise StepError(f"fetch: what `{name}` is filled from is written inside `{axis}`")
        dtype = local[name].dtype
        held = fresh(f"{name}.next", taken)
        before.append(Alloc(Buffer(held, dtype, (const(length),), "register")))
        before.append(_filled(copy, store, held, axis, ZERO, loop.stop, fresh(copy.axis, taken)))
        ahead.append(_filled(copy, store, held, axis, var(axis) + 1, loop.stop, fresh(copy.axis, taken)))
        body[k] = with_body(copy, (Store(name, store.index, load(held, dtype, var(copy.axis)), span=store.span),))
    body[barrier + 1 : barrier + 1] = ahead
    return replace_loop(kernel, axis, lambda x: (*before, with_body(x, tuple(body))))


def _filled(copy: Loop, store: Store, held: str, axis: str, at: Expr, stop: Expr, name: str) -> Stmt:
    """The values of the iteration `at`, where there is one, into registers."""
    value = substitute(store.value, {var(axis): at, var(copy.axis): var(name)})
    body: Block = (Store(held, (var(name),), where(less(at, stop), value, const(0, value.dtype))),)
    return Loop(name, copy.start, copy.stop, body, copy.kind)
