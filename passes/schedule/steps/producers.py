"""The step that moves a producer to its consumer: `compute_at`."""

from __future__ import annotations

from ....ir.expr import ZERO, Expr, load, var
from ....ir.kernel import Alloc, Buffer, If, Kernel, Loop, Stmt, Store, map_expressions, perfect, statements, written
from ....ir.places import block_of, path_of
from ....ir.record import replace
from ....ir.walks import postorder, substitute
from ..tree import Facts, StepError, find, loads_in, local_buffers, path_to, replace_in, touched


def compute_at(kernel: Kernel, facts: Facts, buffer: str, axis: str) -> Kernel:
    """Compute each element of a local buffer in the iteration that uses it, instead of all of them before.

        alloc t: f32[N] private                for i in 0 .. N:
        for k in 0 .. N parallel:                alloc t: f32[] register
          t[k] = f(X[k])                 →       t[] = f(X[i])
        for i in 0 .. N:                         … t[] …
          … t[i] …

    The buffer is stored by one nest of parallel loops from 0, at the loops' own variables.  It is loaded nowhere but inside `axis`, always at one position that is
    known at the head of the axis' body, and never under a condition (the producer might read outside its buffers there).  Nothing that the producer reads is
    written by or before the consumer.
    """
    path = path_of(kernel, buffer)
    if not path or not isinstance(path[-1], Alloc):
        raise StepError(f"compute_at: no local buffer `{buffer}`")
    block = block_of(kernel, path)
    users = [s for s in block if buffer in touched((s,))]
    if len(users) != 2:
        raise StepError(f"compute_at: `{buffer}` is used by {len(users)} statements beside its `alloc`; a producer and a consumer are needed")
    producer, consumer = users
    variables, value = _produced(producer, buffer)
    loop = find(kernel, axis)
    if not path_to((consumer,), lambda s: s is loop):
        raise StepError(f"compute_at: `{axis}` is not the consumer of `{buffer}`")
    after = block[block.index(producer) + 1 :]
    clobbered = written(after) & {n.attr for n in loads_in(value)}
    if clobbered:
        raise StepError(f"compute_at: {', '.join(f'`{b}`' for b in sorted(clobbered))} changes before `{buffer}` is used")
    position = _used_at(consumer, loop, buffer)
    local = local_buffers(kernel)[buffer]
    element = substitute(value, dict(zip(variables, position, strict=True)))
    old = load(buffer, local.dtype, *position)
    new = load(buffer, local.dtype)
    body = map_expressions(loop.body, lambda e: substitute(e, {old: new}))
    moved = replace(loop, body=(Alloc(Buffer(buffer, local.dtype, (), "register")), Store(buffer, (), element), *body))
    changed = kernel.body
    for s, instead in ((path[-1], ()), (producer, ()), (loop, (moved,))):
        changed = replace_in(changed, s, instead)
    return kernel.with_body(changed)


def _produced(producer: Stmt, buffer: str) -> tuple[tuple[Expr, ...], Expr]:
    """The variables of the producer's nest, in the order of the buffer's axes, and the value it stores."""
    loops, body = perfect((producer,), lambda x: x.kind == "parallel" and x.start is ZERO)
    axes = {var(x.axis) for x in loops}
    s = body[0] if len(body) == 1 else None
    if not isinstance(s, Store) or s.buffer != buffer or s.combiner or set(s.index) != axes or len(s.index) != len(axes):
        raise StepError(f"compute_at: `{buffer}` is not made by a nest of parallel loops that stores each element once")
    return s.index, s.value


def _used_at(consumer: Stmt, loop: Loop, buffer: str) -> tuple[Expr, ...]:
    """The one position at which the consumer loads the buffer, unconditionally, inside the loop."""
    inside = {s.axis for s in statements(loop.body) if isinstance(s, Loop)}
    used = [n for s in statements((consumer,)) for n in loads_in(*s.expressions()) if n.attr == buffer]
    here = [n for s in statements(loop.body) for n in loads_in(*s.expressions()) if n.attr == buffer]
    if len(used) != len(here) or len(set(used)) != 1 or used[0].names & inside or any(n.attr == buffer for e in used[0].args for n in loads_in(e)):
        raise StepError(f"compute_at: `{buffer}` is not used at one position of `{loop.axis}` alone")
    for s in statements(loop.body):
        conditional = [b for b in (s.body, s.orelse) if buffer in touched(b)] if isinstance(s, If) else []
        chosen = [n for e in s.expressions() for n in postorder(e) if n.op == "where" and used[0] in postorder(*n.args[1:])]
        if conditional or chosen or (isinstance(s, Store) and s.buffer == buffer):
            raise StepError(f"compute_at: `{buffer}` is used under a condition, or written, inside `{loop.axis}`")
    return used[0].args
