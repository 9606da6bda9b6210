"""The steps that ask memory for the next piece before the current one is worked on: `fetch`, by way of registers, and `ring`, by copies that arrive on their own."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.expr import ONE, TRUE, ZERO, Expr, const, load, var, where
from ....ir.kernel import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    If,
    Kernel,
    Loop,
    Stmt,
    Store,
    map_block,
    map_expressions,
    nested,
    statements,
    with_body,
    written,
)
from ....ir.record import replace
from ....ir.renaming import at_places
from ....ir.walks import substitute
from ..affine import constant_extent
from ..tree import Facts, StepError, TooMuch, copy, find, fresh, local_buffers, names_taken, replace_loop, unless


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
        if any(not e.buffers.isdisjoint(written(loop.body)) for e in store.expressions()):
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


def ring(kernel: Kernel, facts: Facts, axis: str, *buffers: str, slots: int = 3, behind: int = 0) -> Kernel:
    """What each iteration of a serial loop copies into memory that threads share is on its way `slots - 1` iterations earlier, each time to the next of so many places.

        for p in 0 .. K:                          for s in 0 .. 2:
          for u in 0 .. 8:                          if s < K:
            A.packed[u] = A[u, p]                     for u.b in 0 .. 8: A.packed[s, u.b] = A[u.b, s] stream true
          barrier                         →       barrier
          … A.packed[…] …                         for p in 0 .. K:
          barrier                                   if p + 2 < K:
                                                      for u.c in 0 .. 8: A.packed[(p + 2) % 3, u.c] = A[u.c, p + 2] stream true
                                                    … A.packed[p % 3, …] …
                                                    barrier later 1

    No thread waits for memory, nor holds in registers what comes from there; and all wait for one another once an iteration: what is copied in one was last read in the one before.
    With behind=1 they begin behind what is done with the current piece, which then is under way itself (products of several warps).  The copies are all that stands before the first barrier, nests of loops of constant extents around one store of what lies elsewhere, or of zero; nothing inside the loop writes what they read.
    """
    loop = find(kernel, axis)
    if loop.kind != "serial" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"ring: `{axis}` is no serial loop from 0 in steps of 1")
    barrier = next((k for k, s in enumerate(loop.body) if isinstance(s, Barrier)), 0)
    copied, rest = loop.body[:barrier], loop.body[barrier + 1 : -1]
    if slots < 2 or len(copied) != len(buffers) or {b for s in copied for b in written((s,))} != set(buffers) or loop.body[-1] != Barrier():
        raise StepError(f"ring: the copies that are named are not all that stands before the first barrier of `{axis}`, or no barrier ends it")
    if any(isinstance(s, Barrier) for s in statements(rest)) or not written(rest).isdisjoint(buffers):
        raise StepError(f"ring: in `{axis}` something waits, or is stored into what is copied, behind the first barrier")
    taken, local = names_taken(kernel), local_buffers(kernel)
    for s in copied:
        inside = statements((s,))
        store = next(t for t in inside if isinstance(t, Store))
        if not all(t is store or isinstance(t, (If, Loop)) for t in inside) or store.combiner:
            raise StepError(f"ring: `{store.buffer}` is not filled by one store")
        held = local[store.buffer]
        if held.space != "shared" or sum(isinstance(s, Store) and s.buffer == held.name for s in statements(kernel.body)) != 1:
            raise StepError(f"ring: `{held.name}` is not shared by threads, or filled elsewhere too")
        if not _plain(store.value, held.dtype) or not store.value.buffers.isdisjoint(written(kernel.body)):
            raise StepError(f"ring: `{held.name}` is not filled with elements as they lie in memory that nothing writes")
        if bytes_of(held) * slots > facts.shared_bytes:
            raise TooMuch(f"ring: {slots} times {bytes_of(held)} bytes are more than a block's threads share")

    def begun(at: Expr, slot: Expr) -> Block:
        """The copies of one iteration, under names of their own."""
        there = map_expressions(copied, lambda e: substitute(e, {var(axis): at}))
        later = map_block(there, lambda s: (replace(s, index=(slot, *s.index), stream=TRUE),) if isinstance(s, Store) else None)
        return (If(at.lt(loop.stop), copy(later, taken)),)

    first = fresh(axis, taken)
    ahead = slots - 1
    own = at_places(rest, dict.fromkeys(buffers, ()), lambda name, index: (var(axis) % slots, *index))
    next_ = begun(var(axis) + ahead, (var(axis) + ahead) % slots)
    body = (*(own + next_ if behind else next_ + own), Barrier(slots - 2))
    before = Loop(first, ZERO, const(ahead), begun(var(first), var(first)))
    places = {name: _places(local[name], slots) for name in buffers}
    changed = replace_loop(kernel, axis, lambda x: (before, Barrier(), with_body(x, body)))
    return changed.with_body(
        map_block(changed.body, lambda s: (Alloc(places[s.buffer.name]),) if isinstance(s, Alloc) and s.buffer.name in places else None)
    )


def _places(held: Buffer, slots: int) -> Buffer:
    """So many of an array, each where the alignment of the first holds."""
    whole = max(held.align, held.dtype.bytes)
    apart = -(-bytes_of(held) // whole) * whole // held.dtype.bytes
    return replace(held, shape=(const(slots), *held.shape), strides=(const(apart), *held.steps))


def bytes_of(held: Buffer) -> int:
    """Bytes from the first element of an array to the last."""
    return (sum((n.attr - 1) * step.attr for n, step in zip(held.shape, held.steps, strict=True)) + 1) * held.dtype.bytes


def _plain(e: Expr, dtype: DType) -> bool:
    """Whether an element is one of memory, or zero where some condition does not hold."""
    if e.op == "where" and e.args[2].is_const and e.args[2].attr == 0:
        return _plain(e.args[1], dtype)
    return e.op == "load" and e.dtype is dtype


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
