"""Steps that say how the iterations of a loop are run: unroll, vectorize, parallel, serial, bind; under which conditions: select; from which end: mirror, count_up.  Addressed and refused as in `loops.py`."""

from __future__ import annotations

from ....ir.expr import ONE, ZERO, const, load, make, maximum, var, where
from ....ir.kernel import Barrier, Block, If, Kernel, Let, Loop, Stmt, Store, map_block, map_expressions, statements, with_body
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import substitute
from ..affine import constant_extent, extent
from ..tree import Facts, StepError, around, find, fresh, index, local_buffers, names_taken, of_kind, replace_in, replace_loop
from .loops import at, parts_of, plain, split


def unroll(kernel: Kernel, facts: Facts, axis: str, factor: int = 0) -> Kernel:
    """Mark a loop of constant extent to be unrolled; with a factor, split it (tail=cut) and mark the inner part.

        for i in 0 .. 4:      →   for i in 0 .. 4 unroll:

    There is no barrier inside: it stands in plain loops only.
    """
    if factor:
        _, inner = parts_of(axis, names_taken(kernel))
        kernel, axis = split(kernel, facts, axis, factor, "cut"), inner
    path = around(kernel, axis)
    loop = plain(path[-1], "unroll")
    if constant_extent(loop) is None:
        raise StepError(f"unroll: the extent of `{axis}` is not constant; give a factor")
    for s in statements(loop.body):
        if isinstance(s, Barrier):
            raise StepError(f"unroll: there is a barrier inside `{axis}`")
    return of_kind(kernel, path, "unroll")


def vectorize(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Run all iterations of a loop at once, one a lane.

        for j in 0 .. 32 parallel:    →   for j in 0 .. 32 vector:

    The loop is parallel or reduce, starts at 0, has a constant extent and holds only stores, lets and guards (`if` without `else`).  A reduction that is accumulated into one place is folded
    across the lanes, which --strict forbids for floats.
    """
    path = around(kernel, axis)
    loop = plain(path[-1], "vectorize")
    if loop.kind == "serial":
        raise StepError(f"vectorize: the iterations of `{axis}` are not known to be independent")
    if constant_extent(loop) is None or loop.start is not ZERO:
        raise StepError(f"vectorize: the extent of `{axis}` is not constant")
    for s in statements(loop.body):
        if not isinstance(s, (Store, Let, If)) or (isinstance(s, If) and s.orelse):
            raise StepError(f"vectorize: `{axis}` holds a {type(s).__name__.lower()}; only stores, lets and guards can be vectors")
        if not isinstance(s, Store) or s.combiner not in ("add", "mul") or not s.value.dtype.is_float:
            continue
        if facts.strict and loop.kind == "reduce" and not any(axis in e.names for e in s.index):
            raise StepError(f"vectorize: folding `{s.buffer}` across lanes changes the order of the sum, and --strict forbids it")
    return of_kind(kernel, path, "vector")


def parallel(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Give the iterations of a loop to the threads; parallel loops around and inside it are run serially.

        for i parallel:            for i parallel:
          for j parallel:    →       for j:
            S                          S

    The loop must be known to be parallel.
    """
    loop = find(kernel, axis)
    if loop.kind != "parallel":
        raise StepError(f"parallel: the iterations of `{axis}` are not known to be independent")
    kernel = replace_loop(kernel, axis, lambda x: (with_body(x, in_order(x.body)),))
    for s in around(kernel, axis)[:-1]:
        if isinstance(s, Loop) and s.kind == "parallel":
            current = find(kernel, s.axis)
            kernel = kernel.with_body(replace_in(kernel.body, current, (replace(current, kind="serial"),)))
    return kernel


def mirror(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Run a loop from its end.

        for j in 0 .. 16 parallel:     →     for j in 0 .. 16 parallel:
          Y[i, 15 - j] = X[j, i]               Y[i, j] = X[15 - j, i]

    The loop is parallel and starts at 0.  What descends along it ascends then, as vectors do.
    """
    loop = find(kernel, axis)
    if loop.kind != "parallel" or loop.start is not ZERO:
        raise StepError(f"mirror: `{axis}` is no parallel loop from 0")
    body = map_expressions(at(loop.body, (loop, loop.stop - 1 - var(axis))), lambda e: simplify(e, facts.known))
    return replace_loop(kernel, axis, lambda x: (with_body(x, body),))


def select(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """What a loop stores under a condition into local buffers is a choice between that and what is there.

        for i in 0 .. 16 parallel:              for i in 0 .. 16 parallel:
          if 1 < v[i]:                            let i.holds = 1 < v[i]
            n[i] = n[i] + 1             →         n[i] = where(i.holds, n[i] + 1, n[i])
            v[i] = 0                              v[i] = where(i.holds, 0, v[i])

    Each `if` of the loop's body that holds such stores and lets alone, and its `else`.  What is there is defined where the loop is.
    """
    loop = find(kernel, axis)
    local, taken = local_buffers(kernel), names_taken(kernel)
    body: list[Stmt] = []
    for s in loop.body:
        if not isinstance(s, If) or not all(isinstance(t, Let) or (isinstance(t, Store) and t.buffer in local) for t in (*s.body, *s.orelse)):
            body.append(s)
            continue
        holds = var(fresh(f"{axis}.holds", taken), s.condition.dtype)
        body.append(Let(holds.attr, s.condition))
        for k, t in enumerate((*s.body, *s.orelse)):
            if isinstance(t, Store):
                there = load(t.buffer, local[t.buffer].dtype, *t.index)
                value = make(t.combiner, there.dtype, (there, t.value)) if t.combiner else t.value
                t = replace(t, value=where(holds, value, there) if k < len(s.body) else where(holds, there, value), combiner="")
            elif isinstance(t, Let):  # neither is what it reads there where it is not wanted
                none = const(0, t.value.dtype)
                t = replace(t, value=where(holds, t.value, none) if k < len(s.body) else where(holds, none, t.value))
            body.append(t)
    if len(body) == len(loop.body):
        raise StepError(f"select: `{axis}` stores nothing into local buffers under a condition")
    return replace_loop(kernel, axis, lambda x: (with_body(x, tuple(body)),))


def count_up(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Let a loop that counts down count up, in the same order.

    for j in N - 1 .. -1 step -1:     →     for j in 0 .. N:
      S(j)                                    S(N - 1 - j)
    """
    loop = find(kernel, axis)
    if loop.step is not const(-1):
        raise StepError(f"count_up: `{axis}` does not run in steps of -1")
    count = simplify(maximum(ZERO, loop.start - loop.stop), facts.known)
    downwards = {var(axis): loop.start - var(axis)}
    body = map_expressions(loop.body, lambda e: simplify(substitute(e, downwards), facts.known) if axis in e.names else e)
    return replace_loop(kernel, axis, lambda x: (replace(x, start=ZERO, stop=count, step=ONE, body=body),))


def serial(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Run a loop in order.

        for i parallel:     →     for i:

    Nothing is claimed of it any more: no later step may run it otherwise.
    """
    path = around(kernel, axis)
    plain(path[-1], "serial")
    return of_kind(kernel, path, "serial")


def in_order(block: Block) -> Block:
    """One thread's: parallel loops inside are its own."""
    return map_block(block, lambda s: (replace(s, kind="serial"),) if isinstance(s, Loop) and s.kind == "parallel" else None)


def bind(kernel: Kernel, facts: Facts, axis: str, place: str) -> Kernel:
    """Map a parallel loop to the grid (`block.x|y|z`) or to the threads of a block (`thread.x|y|z`) of a GPU.

        for i.1 in 0 .. min(256, N - 256·i.0) parallel:     →     for i.1 in 0 .. 256 thread.x:
          S                                                         if i.1 < N - 256·i.0:
                                                                      S

    The loop is parallel and in steps of 1; a thread axis has a constant extent once its `min` is turned into a guard.  Every effect of the kernel is inside the
    loop, because what is outside is run by all threads.
    """
    if place not in tuple(f"{g}.{d}" for g in ("block", "thread") for d in "xyz"):
        raise StepError(f"bind: no place `{place}`")
    loop = plain(find(kernel, axis), "bind")
    if loop.kind != "parallel":
        raise StepError(f"bind: the iterations of `{axis}` are not known to be independent")
    local = local_buffers(kernel)
    inside = {id(s) for s in statements(loop.body)}
    if any(isinstance(s, Store) and s.buffer not in local and id(s) not in inside for s in statements(kernel.body)):
        raise StepError(f"bind: an effect outside `{axis}` would be repeated by every thread")
    length, body = extent(loop), at(loop.body, (loop, loop.start + index(loop)))
    if place.startswith("thread"):
        if length.op == "min" and any(a.is_const for a in length.args):
            k = 0 if length.args[0].is_const else 1
            body = (If(index(loop).lt(length.args[1 - k]), body),)
            length = length.args[k]
        if not length.is_const:
            raise StepError(f"bind: `{axis}` has no constant extent; split it first")
    return replace_loop(kernel, axis, lambda _: (Loop(axis, ZERO, length, body, place, span=loop.span),))
