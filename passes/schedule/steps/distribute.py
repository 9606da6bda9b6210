"""Steps that make perfect nests of others: `expand` a scalar over the iterations that use it, then `fission` the loops around each statement; `sink` what is named between two loops."""

from __future__ import annotations

from ....ir.expr import ONE, ZERO, Expr, var
from ....ir.graph import Shape
from ....ir.kernel import Alloc, Block, Kernel, Let, Loop, Stmt, Store, statements, substitute_block, written
from ....ir.places import path_of
from ....ir.record import replace
from ....ir.renaming import at_places
from ....ir.walks import substitute
from ..affine import constant_extent, extent, minus, upper
from ..tree import Facts, StepError, around, find, fresh, names_taken, nest, rename, replace_at, replace_loop, touched


def expand(kernel: Kernel, facts: Facts, buffer: str, *axes: str, near: int = 0) -> Kernel:
    """A local buffer gets one copy for each iteration of the loops around it.

        for i in 0 .. 4:                  alloc acc: f32[4] register
          alloc acc: f32[] register       for i in 0 .. 4:
          acc[] = 0                  →      acc[i] = 0
          …                                 …

    `axes` are loops in steps of 1 around the `alloc`, with no other loop between.  Neither their extents nor the shape of the buffer depend on them; where an extent is not constant, the buffer is
    `private` instead of `register` or `stack`.  With near=1 the copies of an element lie side by side, as vectors along the loops want them: acc[k] is acc[k, i], not acc[i, k].
    """
    path = path_of(kernel, buffer)
    alloc = path[-1] if path else None
    if not isinstance(alloc, Alloc):
        raise StepError(f"expand: no local buffer `{buffer}`")
    enclosing = [s.axis for s in path if isinstance(s, Loop)]
    missing = [a for a in axes if a not in enclosing]
    if missing or not axes:
        raise StepError(
            f"expand: `{buffer}` is allocated inside {', '.join(enclosing) or 'no loop'}, not inside {', '.join(missing) or '(give axes)'}"
        )
    top, first = next((k, s.axis) for k, s in enumerate(path) if isinstance(s, Loop) and s.axis in axes)
    loops: dict[str, Loop] = {}
    for s in path[top:-1]:
        if isinstance(s, Loop):
            if s.axis not in axes:
                raise StepError(f"expand: `{s.axis}` stands between `{axes[0]}` and the buffer; expand over it too")
            loops[s.axis] = s
    shape: list[Expr] = []
    position: list[Expr] = []
    for axis in axes:
        loop = loops[axis]
        if loop.step is not ONE:
            raise StepError(f"expand: `{axis}` does not run in steps of 1")
        length = extent(loop)
        bound = upper(length, facts.known) if constant_extent(loop) is None else None
        if bound is None and length.names & set(loops):
            raise StepError(f"expand: the extent of `{axis}` depends on {', '.join(sorted(length.names & set(loops)))}")
        shape.append(length if bound is None else ZERO + bound)
        position.append(var(axis) if loop.start is ZERO else minus(var(axis), loop.start))
    old = alloc.buffer
    inside = sorted({n for e in old.shape for n in e.names} & set(loops))
    if inside:
        raise StepError(f"expand: the shape of `{buffer}` depends on {', '.join(inside)}")
    space = old.space if all(e.is_const for e in shape) or old.space not in ("register", "stack") else "private"
    new = replace(old, shape=(*old.shape, *shape) if near else (*shape, *old.shape), space=space)
    moved = tuple(position)
    changed = at_places(replace_at((path[top],), path[top:], ()), {buffer}, lambda _, index: (*index, *moved) if near else (*moved, *index))
    return replace_loop(kernel, first, lambda _: (Alloc(new), *changed))


def prefixed(block: Block, buffer: str, prefix: Shape) -> Block:
    """Every access of `buffer` with more leading indices."""
    return at_places(block, {buffer}, lambda _, index: (*prefix, *index))


def fission(kernel: Kernel, facts: Facts, *axes: str, around: tuple[str, ...] = (), stores: tuple[str, ...] = ()) -> Kernel:
    """The loops around each statement of their body, one after the other.

        for i in 0 .. N:          for i in 0 .. N:
          S                         S
          T                →      for i.b in 0 .. N:
                                    T

    `axes` are a perfect nest of parallel loops: no iteration needs what another does, so all of S may come before all of T.  A buffer that the body allocates and
    several parts use is expanded before; a `let` is repeated where it is used, unless it reads what the body writes after it: then it stays, and one part alone uses it.  With
    `around` or `stores`, only the statements that are the loops over these axes, or stores into these buffers, get loops of their own; what stands between them stays together.
    """
    loops = nest(kernel, axes)
    for loop in loops:
        if loop.kind != "parallel":
            raise StepError(f"fission: the iterations of `{loop.axis}` ({loop.kind}) are not known to be independent")
    body = parts_of(loops[-1].body, around, stores)
    if len(body) < 2:
        raise StepError(f"fission: `{axes[-1]}` holds one statement only")
    taken = names_taken(kernel)
    pieces: list[Stmt] = []
    for piece in body:
        names = {x.axis: fresh(x.axis, taken) for x in loops} if pieces else {}
        piece = rename(piece, names)
        for loop in reversed(loops):
            axis, start, stop = names.get(loop.axis, loop.axis), _renamed(loop.start, names), _renamed(loop.stop, names)
            piece = (Loop(axis, start, stop, piece, loop.kind, loop.step, loop.span),)
        pieces += piece
    return replace_loop(kernel, axes[0], lambda _: tuple(pieces))


def sink(kernel: Kernel, facts: Facts, axis: str, inline: int = 0) -> Kernel:
    """What is named before a loop that is else alone in the loop around it is named inside, where it is needed first.

        for i in 0 .. N:            for i in 0 .. N:
          let t = 1 / s[i]            for j in 0 .. M:
          for j in 0 .. M:      →       …
            …                           let t = 1 / s[i]
            C[i, j] = … t               C[i, j] = … t

    No `let` is an extent of the loop or reads what the loop writes.  What stays the same in a loop is taken out of it again after the schedule.  With inline=1 it is written out
    where it is used, so that steps see what an operand is made of; other statements may stand beside the loop then.
    """
    loop = find(kernel, axis)
    path = around(kernel, axis)
    outer = path[-2] if len(path) > 1 else None
    if inline and isinstance(outer, Loop) and any(isinstance(s, Let) for s in outer.body):
        return replace_loop(kernel, outer.axis, lambda o: (replace(o, body=_inline_lets(o.body)),))
    if not isinstance(outer, Loop) or outer.body[-1] is not loop or len(outer.body) < 2 or not all(isinstance(s, Let) for s in outer.body[:-1]):
        raise StepError(f"sink: `{axis}` is not alone in a loop, after `let`s")
    names = {s.name for s in outer.body if isinstance(s, Let)}
    if names & (loop.start.names | loop.stop.names | loop.step.names):
        raise StepError(f"sink: the extent of `{axis}` is one of {', '.join(sorted(names))}")
    changed = {b for s in outer.body if isinstance(s, Let) for b in s.value.buffers} & written(loop.body)
    if changed:
        raise StepError(f"sink: `{axis}` writes {', '.join(sorted(changed))}, which is read before it")
    body = list(loop.body)
    for let in reversed([s for s in outer.body if isinstance(s, Let)]):
        first = next((k for k, s in enumerate(body) if any(let.name in e.names for t in statements((s,)) for e in t.expressions())), None)
        if first is not None:
            body.insert(first, let)
    return replace_loop(kernel, outer.axis, lambda o: (replace(o, body=(replace(loop, body=tuple(body)),)),))


def parts_of(block: Block, around: tuple[str, ...] = (), stores: tuple[str, ...] = ()) -> list[Block]:
    """The parts that `fission` makes of a body, each with the buffers that it alone uses.  StepError where a buffer is used by two."""
    flat = _inline_lets(block)
    parts: list[list[Stmt]] = []
    every, together = not (around or stores), False
    for s in flat:
        if isinstance(s, Alloc):
            continue
        alone = every or (isinstance(s, Loop) and s.axis in around) or (isinstance(s, Store) and s.buffer in stores)
        if alone or not together:
            parts.append([])
        parts[-1].append(s)
        together = not alone
    for s in reversed(flat):
        if isinstance(s, Alloc):
            users = [part for part in parts if s.buffer.name in touched(tuple(part))]
            if len(users) > 1 or every:
                raise StepError(f"fission: `{s.buffer.name}` is used by several parts; expand it first")
            if users:
                users[0].insert(0, s)
    for k, part in enumerate(parts):
        for s in part:
            if isinstance(s, Let) and any(
                s.name in e.names for other in (*parts[:k], *parts[k + 1 :]) for t in statements(tuple(other)) for e in t.expressions()
            ):
                raise StepError(f"fission: `{s.name}` reads what the body writes after it, and several parts use it")
    return [tuple(part) for part in parts]


def _renamed(e: Expr, names: dict[str, str]) -> Expr:
    return e if e.names.isdisjoint(names) else substitute(e, {var(a): var(b) for a, b in names.items()})


def _inline_lets(block: Block) -> Block:
    """The block without its own lets, their values in their uses; but with those that read what is written after them."""
    values: dict[Expr, Expr] = {}
    result: list[Stmt] = []
    for k, s in enumerate(block):
        if isinstance(s, Let):
            value = substitute(s.value, values)
            if value.buffers & written(block[k + 1 :]):
                result.append(replace(s, value=value))
            else:
                values[var(s.name, s.value.dtype)] = value
        else:
            result += substitute_block((s,), values)
    return tuple(result)
