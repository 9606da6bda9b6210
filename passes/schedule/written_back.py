"""The step `write_back`: what a nest stores waits in a buffer of its own until the nest is done."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr, load, var
from ...ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, statements
from ...ir.record import replace
from ...ir.simplify import simplify
from ...ir.walks import substitute
from .affine import constant_extent, inside, stride
from .tree import Facts, StepError, around, find, fresh, names_taken, reads, replace_in, replace_loop, walk_paths


def write_back(kernel: Kernel, facts: Facts, buffer: str, *axes: str) -> Kernel:
    """What a nest stores is kept until the nest is done, and stored then.

        for j in 0 .. 16:                      alloc Y.kept: f32[16, 16] stack
          for i in 0 .. 16 parallel:           for j in 0 .. 16:
            s[i] = f(s[i], X[i, b + j])          for i in 0 .. 16 parallel:
            Y[i, b + j] = s[i]          →          s[i] = f(s[i], X[i, b + j])
                                                   Y.kept[j, i] = s[i]
                                               for j.b in 0 .. 16 parallel:
                                                 for i.b in 0 .. 16 parallel:
                                                   Y[i.b, b + j.b] = Y.kept[j.b, i.b]

    `axes` are the loops around the one statement of the nest that stores into the buffer, all of them, from 0 in steps of 1 and of constant extents; only conditions on sizes and on these axes stand between.  Each iteration stores elsewhere:
    each axis moves one position of the index, further than all those together that move it less.  The nest does not read the buffer, which outlives it, and writes nothing that the index reads.
    """
    top = find(kernel, axes[0])
    found = [(s, path) for s, path in walk_paths((top,)) if isinstance(s, Store) and s.buffer == buffer]
    inside_it = {s.buffer.name for s in statements((top,)) if isinstance(s, Alloc)}
    if buffer in inside_it or len(found) != 1 or found[0][0].combiner:
        raise StepError(f"write_back: `{axes[0]}` does not store into `{buffer}` once")
    store, path = found[0]
    loops = [s for s in path if isinstance(s, Loop)]
    if [x.axis for x in loops] != list(axes):
        raise StepError(f"write_back: the loops around what is stored are {', '.join(x.axis for x in loops)}")
    if any(x.start is not ZERO or x.step is not ONE or constant_extent(x) is None for x in loops):
        raise StepError(f"write_back: not all of {', '.join(axes)} have a constant extent, from 0 in steps of 1")
    if any(n.attr == buffer for n in reads((top,))):
        raise StepError(f"write_back: `{axes[0]}` reads `{buffer}`")
    own = {s.name for s in statements(top.body) if isinstance(s, Let)} | {x.axis for x in statements(top.body) if isinstance(x, Loop)}
    conditions = [s for s in path if isinstance(s, If)]
    if not all(isinstance(s, (Loop, If)) for s in path) or any(_under_else(path, s) for s in conditions):
        raise StepError(f"write_back: `{buffer}` is not stored in every iteration")
    asked = [*store.index, *(s.condition for s in conditions)]
    if any(e.buffers or e.names & (own - set(axes)) for e in asked):
        raise StepError(f"write_back: where `{buffer}` is stored is only known inside `{axes[0]}`")
    known = inside(around(kernel, axes[-1]), facts.known)
    _apart(buffer, [simplify(e, known) for e in store.index], loops)
    taken = names_taken(kernel)
    kept = Buffer(fresh(f"{buffer}.kept", taken), store.value.dtype, tuple(x.stop for x in loops), "stack", align=64)
    new: dict[Expr, Expr] = {var(x.axis): var(fresh(x.axis, taken)) for x in loops}
    moved = replace(store, index=tuple(substitute(e, new) for e in store.index), value=load(kept.name, kept.dtype, *new.values()))
    writing: Block = (moved,)
    for s in reversed(conditions):
        writing = (If(substitute(s.condition, new), writing),)
    for x in reversed(loops):
        writing = (Loop(new[var(x.axis)].attr, ZERO, x.stop, writing, "parallel"),)
    into = replace(store, buffer=kept.name, index=tuple(new), stream=None)
    return replace_loop(kernel, axes[0], lambda loop: (Alloc(kept), *replace_in((loop,), store, (into,)), *writing))


def _under_else(path: tuple[Stmt, ...], s: If) -> bool:
    """Whether what comes next on the path stands under the `else`."""
    rest = [*path[path.index(s) + 1 :]]
    return bool(rest) and any(t is rest[0] for t in s.orelse)


def _apart(buffer: str, index: list[Expr], loops: list[Loop]) -> None:
    """A StepError where two iterations might store at one place."""
    for x in loops:
        if sum(x.axis in e.names for e in index) != 1:
            raise StepError(f"write_back: iterations of `{x.axis}` may store into `{buffer}` at one place")
    for e in index:
        reach = 0  # of the axes that move less
        steps = sorted((abs(stride(e, x.axis) or 0), x.stop.attr, x.axis) for x in loops if x.axis in e.names)
        for step, count, axis in steps:
            if step <= reach:
                raise StepError(f"write_back: iterations of `{axis}` may store into `{buffer}` at one place")
            reach += step * (count - 1)
