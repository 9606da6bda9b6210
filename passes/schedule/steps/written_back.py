"""The step `write_back`: what a nest stores waits in a buffer of its own until the nest is done."""

from __future__ import annotations

from ....ir.expr import ONE, ZERO, Expr, both, load, var
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, statements
from ....ir.operator_kinds import ENDS
from ....ir.ranges import Range
from ....ir.record import replace
from ....ir.simplify import assuming, prove_le, simplify
from ....ir.walks import substitute
from ..affine import constant_extent, inside, stride
from ..tree import Facts, StepError, around, find, fresh, local_buffers, names_taken, reads, replace_in, replace_loop, walk_paths


def write_back(kernel: Kernel, facts: Facts, buffer: str, *axes: str, filled: int = 0) -> Kernel:
    """What a nest stores is kept until the nest is done, and stored then.

        for j in 0 .. 16:                      alloc Y.kept: f32[16, 16] stack
          for i in 0 .. 16 parallel:           for j in 0 .. 16:
            s[i] = f(s[i], X[i, b + j])          for i in 0 .. 16 parallel:
            Y[i, b + j] = s[i]          →          s[i] = f(s[i], X[i, b + j])
                                                   Y.kept[j, i] = s[i]
                                               for j.b in 0 .. 16 parallel:
                                                 for i.b in 0 .. 16 parallel:
                                                   Y[i.b, b + j.b] = Y.kept[j.b, i.b]

    `axes` are the loops around what the nest stores into the buffer, all of them, from 0 in steps of 1 and of constant extents; it is stored at one position.  Each iteration stores elsewhere: each axis moves one
    index, further than all those together that move it less.  The nest does not read the buffer, which outlives it, and writes nothing that the index reads.  Conditions on sizes and on these axes stand around what is stored in the end, too.
    With filled=1 there may be others: what is kept begins as what is there, which all of the positions are, and no other iteration of the parallel loops around stores there.
    """
    top = find(kernel, axes[0])
    found = [(s, path) for s, path in walk_paths((top,)) if isinstance(s, Store) and s.buffer == buffer]
    inside_it = {s.buffer.name for s in statements((top,)) if isinstance(s, Alloc)}
    if buffer in inside_it or not found or any(s.combiner or s.index != found[0][0].index for s, _ in found):
        raise StepError(f"write_back: `{axes[0]}` does not store into `{buffer}` at one position")
    store = found[0][0]
    loops = [s for s in found[0][1] if isinstance(s, Loop)]
    if any([s.axis for s in path if isinstance(s, Loop)] != list(axes) for _, path in found):
        raise StepError(f"write_back: the loops around what is stored are {', '.join(x.axis for x in loops)}")
    if any(x.start is not ZERO or x.step is not ONE or constant_extent(x) is None for x in loops):
        raise StepError(f"write_back: not all of {', '.join(axes)} have a constant extent, from 0 in steps of 1")
    if any(n.attr == buffer for n in reads((top,))):
        raise StepError(f"write_back: `{axes[0]}` reads `{buffer}`")
    own = {s.name for s in statements(top.body) if isinstance(s, Let)} | {x.axis for x in statements(top.body) if isinstance(x, Loop)}

    def outside(e: Expr) -> bool:
        return not e.buffers and not e.names & (own - set(axes)) and not e.kinds & ENDS

    if not all(map(outside, store.index)):
        raise StepError(f"write_back: where `{buffer}` is stored is only known inside `{axes[0]}`")
    conditions = [s for s in found[0][1] if isinstance(s, If) and outside(s.condition) and all(_under(s, path) for _, path in found)]
    always = any(all(isinstance(s, Loop) or any(s is c for c in conditions) for s in path) for _, path in found)
    known = inside(around(kernel, axes[-1]), facts.known)
    index = [simplify(e, known) for e in store.index]
    _apart(buffer, index, loops)
    if not always:
        if not filled:
            raise StepError(f"write_back: `{buffer}` is not stored in every iteration")
        _its_own(kernel, facts, buffer, axes, index, both(*(s.condition for s in conditions)))
    taken = names_taken(kernel)
    kept = Buffer(fresh(f"{buffer}.kept", taken), store.value.dtype, tuple(x.stop for x in loops), "stack", align=64)

    def copied(back: bool) -> Block:
        new: dict[Expr, Expr] = {var(x.axis): var(fresh(x.axis, taken)) for x in loops}
        there, own = tuple(substitute(e, new) for e in store.index), tuple(new.values())
        one = replace(store, index=there, value=load(kept.name, kept.dtype, *own))
        copying: Block = (one if back else Store(kept.name, own, load(buffer, kept.dtype, *there)),)
        for s in reversed(conditions):
            copying = (If(substitute(s.condition, new), copying),)
        for x in reversed(loops):
            copying = (Loop(new[var(x.axis)].attr, ZERO, x.stop, copying, "parallel"),)
        return copying

    before = () if always else copied(back=False)
    nest: Block = (top,)
    for s, _ in found:
        nest = replace_in(nest, s, (replace(s, buffer=kept.name, index=tuple(var(x.axis) for x in loops), stream=None),))
    return replace_loop(kernel, axes[0], lambda _: (Alloc(kept), *before, *nest, *copied(back=True)))


def _under(condition: If, path: tuple[Stmt, ...]) -> bool:
    """Whether the path goes through what stands where the condition holds."""
    k = next((k for k, s in enumerate(path) if s is condition), None)
    return k is not None and (k + 1 == len(path) or any(t is path[k + 1] for t in condition.body))


def _its_own(kernel: Kernel, facts: Facts, buffer: str, axes: tuple[str, ...], index: list[Expr], condition: Expr | None) -> None:
    """A StepError where a position may not be there, or another iteration of the loops around may store into it."""
    known = facts.known
    for s in around(kernel, axes[-1]):
        if isinstance(s, Loop) and s.step is ONE:
            known = known.with_ranges({s.axis: Range(s.start, simplify(s.stop, known) - 1)})
    known = assuming(known, condition)
    held = {**facts.buffers, **local_buffers(kernel)}[buffer]
    if not all(prove_le(ZERO, e, known) and prove_le(e, extent - 1, known) for e, extent in zip(index, held.shape, strict=True)):
        raise StepError(f"write_back: not all positions of `{buffer}` that may be stored are known to be there")
    names = {n for e in index for n in e.names}
    for s in around(kernel, axes[0]):
        if isinstance(s, Loop) and s.kind == "parallel" and s.axis not in names:
            raise StepError(f"write_back: iterations of `{s.axis}` may store into `{buffer}` at one place")


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
