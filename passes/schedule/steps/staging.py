"""Steps that copy a piece nearer: `stage` for what a nest reads (packed panels), `spill` for a register tile that a nest reads or writes element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from ....ir.bounds import Known, Range, fact
from ....ir.conditions import conjuncts, holds
from ....ir.expr import ONE, ZERO, Expr, both, call, const, load, maximum, product, var, where
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Region, Stmt, Store, map_expressions, perfect, reads, statements, with_body
from ....ir.polynomial import poly
from ....ir.record import replace
from ....ir.renaming import rename_buffers
from ....ir.simplify import assuming, prove_le, simplify
from ....ir.walks import postorder, substitute
from ..affine import constant_extent, extreme, inside as inside_of, of_any_rest, upper, upper_of_rest
from ..tree import (
    Facts,
    StepError,
    around,
    find,
    fresh,
    loads_in,
    local_buffers,
    names_taken,
    path_to,
    replace_in,
    replace_loop,
    touched,
    walk_paths,
    written,
)

SPACES: Final = ("private", "shared", "stack", "register")


def stage(
    kernel: Kernel,
    facts: Facts,
    buffer: str,
    *axes: str,
    at: str = "",
    space: str = "private",
    order: tuple[str, ...] = (),
    name: str = "",
    align: int = 64,
    exact: tuple[str, ...] = (),
    spare: int = 0,
    pad: int = 0,
    plain: int = 0,
    several: int = 0,
    whole: tuple[str, ...] = (),
) -> Kernel:
    """Copy what a nest reads of a buffer, in the layout in which it reads it.

        for b:                                        for b:
          for i in 0 .. M:                              alloc A.packed: f32[512, M] private
            for p in 0 .. min(512, K - b):        →     for p.s in 0 .. min(512, K - b):
              … f(A[i, b + p]) …                          for i.s in 0 .. M:
                                                            A.packed[p.s, i.s] = f(A[i.s, b + p.s])
                                                        for i in 0 .. M:
                                                          for p in 0 .. min(512, K - b):
                                                            … A.packed[p, i] …

    `axes` are the loops over which the copy extends, in its memory order; `at` is the loop whose iterations each make a copy (none: once, before everything);
    `order` is the order of the copying loops, if another; behind each of the first axis `spare` elements are left free, behind each row along the last one `pad` (so that what threads store side by side, or read one below the other, lies in different banks
    of memory); the copy is as long as the `exact` ones are, others may have a constant bound.  What is staged is the largest subexpression that reads `buffer` and depends, inside `at`, on the axes
    alone: casts, guards of padded axes and any other pointwise prologue are done once, while copying; with plain=1 what has the type of the buffer alone; with several=1 the first of such subexpressions, of which there may be more.  The kernel does not write what is staged, unless that is
    written before, outside of the nest in front of which the copy stands, and is local, or `at` is a loop that does not write it; there is one such subexpression inside `at`, and all its uses are inside the axes; memory that all threads share is not allocated inside a region; the bounds of the axes depend on nothing inside `at` but on earlier axes, or are monotone in other
    loops: then the copy holds what any of their iterations reads; of an axis that starts elsewhere in each, all from 0, where that is there to be copied.  So it does
    where an axis moves with one of the `whole` ones, if all of that is there to be copied; then each element lies as though an axis began at 0, and what is read has no offset in its address.
    """
    if space not in SPACES:
        raise StepError(f"stage: no space `{space}`")
    scope = find(kernel, at).body if at else kernel.body
    if space == "shared" and at and any(isinstance(s, Region) for s in path_to(kernel.body, lambda s: isinstance(s, Loop) and s.axis == at)):
        raise StepError(f"stage: `{at}` is inside a region, where each thread would allocate memory that all share")
    order = order or axes
    if sorted(order) != sorted(axes):
        raise StepError(f"stage: order {', '.join(order)} is not an order of {', '.join(axes)}")
    held = {**facts.buffers, **local_buffers(kernel)}.get(buffer) if plain else None
    value, copied, top = staged_value(kernel, scope, buffer, axes, facts, lambda e: held is None or e.dtype is held.dtype, bool(several))
    user = next(s for s in statements((top,)) if any(value in postorder(e) for e in s.expressions() if buffer in e.buffers))
    taken = names_taken(kernel)
    new = {a: fresh(f"{a}.s", taken) for a in axes}
    inside = axes_inside(scope)
    named = {s.name for s in statements(scope) if isinstance(s, Let)}
    shape: list[Expr] = []
    around_copy = inside_of(around(kernel, at) if at else (), facts.known)
    first: dict[str, Expr] = {}
    reached: dict[str, Loop] = {}
    for a in axes:
        moving = _reached(kernel, _of_any_rest(find(kernel, a), inside, around_copy), inside - set(axes), facts)
        loop = _reached(kernel, moving, set(whole), facts)
        if loop is not moving and not _there(copied, kernel, user, facts, {a: Range(loop.start, loop.stop - 1)}, chosen=True):
            raise StepError(f"stage: not all that some iteration of `{a}` reads is there in every one of {', '.join(whole)}")
        if loop.start.names & inside and _there(copied, kernel, user, facts, {a: Range(ZERO, loop.stop - 1)}):
            loop = replace(loop, start=ZERO)  # more than is read
        if loop.start.names & inside or loop.step is not ONE or a not in inside:
            raise StepError(f"stage: `{a}` does not start at a position known outside in steps of 1, or is not inside `{at or 'the kernel'}`")
        if (loop.start.names | loop.stop.names) & named:
            raise StepError(f"stage: where `{a}` begins or ends is named inside `{at or 'the kernel'}`")
        first[a] = loop.start
        reached[a] = _from_zero(loop)
        loop = loop if whole else reached[a]
        bound = upper(loop.stop, facts.known) if constant_extent(loop) is None and a not in exact else None
        if bound is None and a not in exact and not loop.stop.names <= facts.sizes.keys():
            bound = upper_of_rest(loop.stop, facts.known)
        if space in ("stack", "register") and bound is None and not loop.stop.is_const:
            bound = upper(loop.stop, around_copy)
            if bound is None:
                raise StepError(f"stage: the extent of `{a}` is no number, which an array on the {space} wants")
        if bound is None and loop.stop.names & inside:
            raise StepError(f"stage: the extent of `{a}` is not known outside {', '.join(sorted(loop.stop.names & inside))}")
        shape.append(loop.stop if bound is None else ZERO + bound)
    packed = Buffer(fresh(name or f"{buffer}.packed", taken), value.dtype, tuple(shape), space, _strides(shape, spare, pad), align)
    to_new = {var(a): var(n) + first[a] for a, n in new.items()}
    lies = {a: first[a] if whole else ZERO for a in axes}  # where the first of the copy is
    copying: Block = (Store(packed.name, tuple(var(new[a]) + lies[a] for a in axes), substitute(copied, to_new)),)
    for place in range(len(order) - 1, -1, -1):
        loop = reached[order[place]]
        bad = loop.stop.names & (inside - set(order[:place]))
        if bad:
            raise StepError(f"stage: the extent of `{loop.axis}` depends on {', '.join(sorted(bad))}")
        copying = (Loop(new[loop.axis], ZERO, substitute(loop.stop, to_new), copying, "parallel"),)
    for s, outer in walk_paths((top,)):
        if not any(value in postorder(e) for e in s.expressions() if buffer in e.buffers):
            continue
        over = {x.axis for x in outer if isinstance(x, Loop)}
        if not set(axes) <= over:
            raise StepError(f"stage: what is staged is also read outside {', '.join(sorted(set(axes) - over))}")
    replacement = {value: load(packed.name, value.dtype, *(var(a) - first[a] + lies[a] for a in axes))}
    used = map_expressions((top,), lambda e: substitute(e, replacement) if buffer in e.buffers else e)
    changed = replace_in(scope, top, (Alloc(packed), *copying, *used))
    return replace_loop(kernel, at, lambda loop: (with_body(loop, changed),)) if at else kernel.with_body(changed)


def _strides(shape: Sequence[Expr], spare: int, pad: int) -> tuple[Expr, ...]:
    """In rows, with so many elements left free behind each of the outermost axis, and behind each row."""
    if not (spare or pad) or len(shape) < 2:
        return ()
    padded = (*shape[:-1], shape[-1] + pad)
    inner = [product(padded[k:]) for k in range(1, len(shape) + 1)]
    return (inner[0] + spare, *inner[1:])


def _from_zero(loop: Loop) -> Loop:
    """A loop of as many iterations that starts at 0."""
    return loop if loop.start is ZERO else replace(loop, start=ZERO, stop=maximum(loop.stop - loop.start, ZERO))


def _reached(kernel: Kernel, loop: Loop, others: set[str], facts: Facts) -> Loop:
    """A loop over all positions that it has for some iteration of the loops among `others` that its bounds depend on."""
    for outer in reversed(around(kernel, loop.axis)[:-1]):  # the ends of an inner one move with those around it
        if not isinstance(outer, Loop) or outer.axis not in (loop.start.names | loop.stop.names) & others or outer.step is not ONE:
            continue
        low, high = outer.start, outer.stop - 1
        start, stop = extreme(loop.start, outer.axis, low, high, largest=False), extreme(loop.stop, outer.axis, low, high, largest=True)
        if start is not None and stop is not None:
            loop = replace(loop, start=simplify(start, facts.known), stop=simplify(stop, facts.known))
    return loop


def _of_any_rest(loop: Loop, inside: set[str], known: Known) -> Loop:
    """A loop whose bounds move with what is left over of a division by a constant, x % 16 for an x that loops inside the nest decide, over all positions that it has for any of these rests."""
    return replace(loop, start=of_any_rest(loop.start, inside, known, largest=False), stop=of_any_rest(loop.stop, inside, known, largest=True))


def axes_inside(scope: Block) -> set[str]:
    return {s.axis for s in statements(scope) if isinstance(s, Loop)}


def staged_value(
    kernel: Kernel, scope: Block, buffer: str, axes: tuple[str, ...], facts: Facts, fits: Callable[[Expr], bool], several: bool = False
) -> tuple[Expr, Expr, Stmt]:
    """The largest subexpression to replace that `fits`, the value to copy (guarded as the subexpression is) and the statement of the scope that holds its use.

    What a `where` chooses that is copied where it is not chosen too must be there."""
    everywhere, local = written(kernel.body), set(local_buffers(kernel))
    if scope is not kernel.body:  # what a loop around the copy stores between one copy and the next is what the next one holds
        local |= everywhere - written(scope)
    if buffer in everywhere - local:
        raise StepError(f"stage: the kernel writes `{buffer}`")
    here = {s.name for s in scope if isinstance(s, Let)}  # there before the copy is made
    deeper = {s.name for s in statements(scope) if isinstance(s, Let)} - here
    inside = {*axes_inside(scope), *deeper} - set(axes)

    def movable(e: Expr) -> bool:
        return not e.names & inside and e.buffers.isdisjoint(changed)

    found: dict[Expr, tuple[Stmt, dict[Expr | None, None]]] = {}  # with the conditions under one of which it is used (None: always)
    for top in scope:
        changed = everywhere - (local - written((top,)) if buffer in local else set())
        for s, outer in walk_paths((top,)):
            if not any(buffer in e.buffers for e in s.expressions()):
                continue
            conditions = _conditions((*outer, s))
            if not set(axes) <= {x.axis for x in outer if isinstance(x, Loop)} or not all(map(movable, conditions)):
                continue
            stack = [(e, False) for e in s.expressions()]
            while stack:
                n, chosen = stack.pop()
                if buffer not in n.buffers:
                    continue
                if movable(n) and fits(n) and not (chosen and not _there(n, kernel, s, facts)):
                    found.setdefault(n, (top, {}))[1][both(*conditions)] = None
                else:
                    stack.extend((a, chosen or (n.op == "where" and k > 0)) for k, a in enumerate(n.args))
    if len(found) != 1 and not (found and several):
        raise StepError(f"stage: `{buffer}` is read in {len(found)} ways that depend on {', '.join(axes)} alone; one is needed")
    ((value, (top, used)), *_) = found.items()
    wanted = [c for c in used if c is not None]
    if len(wanted) < len(used) or any(call("bit_not", c) in used for c in wanted):
        return value, value, top
    return value, where(reduce(lambda a, b: call("bit_or", a, b), wanted), value, const(0, value.dtype)), top


def _there(e: Expr, kernel: Kernel, s: Stmt, facts: Facts, ranges: dict[str, Range] | None = None, chosen: bool = False) -> bool:
    """Whether everything that a value reads in a statement lies in its buffer wherever the loops are, those of `ranges` in these.  What a padded loop reads at the last element in place of those beyond the end lies in it.
    `chosen`: so does what is read only where a choice in the value allows it."""
    path = path_to(kernel.body, lambda t: t is s)
    known = assuming(inside_of(path, facts.known).with_ranges(ranges or {}), both(*_conditions(path)))

    def within(at: Expr, extent: Expr, known: Known) -> bool:
        if at.op == "min" and simplify(extent - 1) in at.args:
            return all(a is simplify(extent - 1) or prove_le(ZERO, a, known) for a in at.args)
        return prove_le(ZERO, at, known) and (holds(poly(extent - 1 - at), known) or prove_le(at, extent - 1, known))

    stack = [(e, known)]
    while stack:
        n, known = stack.pop()
        if n.op == "load" and (
            n.attr not in facts.buffers or not all(within(at, extent, known) for at, extent in zip(n.args, facts.buffers[n.attr].shape, strict=True))
        ):
            return False
        for k, a in enumerate(n.args):
            if a.buffers:
                asked = conjuncts(n.args[0]) if chosen and n.op == "where" and k == 1 else ()
                stack.append((a, known.with_facts([f for part in asked for f in fact(part)]) if asked else known))  # as they are written
    return True


def _conditions(path: tuple[Stmt, ...]) -> list[Expr]:
    """The conditions of the `if`s around the last statement of a path, negated where it stands in the other branch."""
    found = []
    for k, step in enumerate(path[:-1]):
        if isinstance(step, If):
            taken = any(t is path[k + 1] for t in step.body)
            found.append(step.condition if taken else call("bit_not", step.condition))
    return found


def spill(kernel: Kernel, facts: Facts, buffer: str, axis: str, turned: int = 0) -> Kernel:
    """Let one nest use a register tile through memory, so that it may index it by loops that are not unrolled.

        for i in 0 .. n:                         alloc acc.tile: f32[14, 32] stack
          for j in 0 .. m:                       for i.b in 0 .. 14 unroll:
            C[i, j] = acc[i, j]          →         for j.b in 0 .. 32 vector:
                                                     acc.tile[i.b, j.b] = acc[i.b, j.b]
                                                 for i in 0 .. n:
                                                   for j in 0 .. m:
                                                     C[i, j] = acc.tile[i, j]

    `axis` is the outermost loop of the nest; the buffer is local, of constant extents, allocated outside and wholly defined where the nest reads it.  What the nest writes is copied back after it (and
    what it may leave unwritten is copied in before).

        turned=16:                               alloc acc.tile: f32[16, 32] stack
                                                 …                                       as above, zeros in the last two rows
        for i in 0 .. 14:                        for j in 0 .. 32:
          for j in 0 .. 32:                        for i in 0 .. 16:
            if c:                        →           let v: f32 = acc.tile[i, j]
              C[j, i] = f(acc[i, j])                 if i < 14 & c:
                                                       C[j, i] = f(v)

    With `turned`, the two loops of the nest change places, and the inner one is rounded up to a multiple of that: what it does is only where it was.  The nest is perfect, of two
    parallel loops of constant extent, and only reads the tile, at the loops' own position.
    """
    local = local_buffers(kernel)
    if buffer not in local or not all(e.is_const for e in local[buffer].shape) or not local[buffer].shape:
        raise StepError(f"spill: `{buffer}` is no local buffer of constant extents")
    loop = find(kernel, axis)
    if path_to((loop,), lambda s: isinstance(s, Alloc) and s.buffer.name == buffer):
        raise StepError(f"spill: `{buffer}` is allocated inside `{axis}`")
    path = path_to(kernel.body, lambda s: s is loop)
    home = path_to(kernel.body, lambda s: isinstance(s, Alloc) and s.buffer.name == buffer)
    for s in path[len(home) - 1 : -1]:
        if isinstance(s, Loop) and s.kind not in ("serial", "reduce", "unroll"):
            raise StepError(f"spill: `{s.axis}` ({s.kind}) stands between `{buffer}` and `{axis}`: each iteration would copy the whole tile")
    if buffer not in touched((loop,)):
        raise StepError(f"spill: `{axis}` does not use `{buffer}`")
    taken = names_taken(kernel)
    old = local[buffer]
    tile = replace(old, name=fresh(f"{buffer}.tile", taken), space="stack", align=64)
    if turned:
        tile = replace(tile, shape=(const(-(-old.shape[0].attr // turned) * turned), *old.shape[1:]))
    names = _index_names(loop, buffer, len(old.shape), axis)

    def fill(target: str, source: str, start: Expr, stop: Expr) -> Block:
        own = [fresh(n, taken) for n in names]
        at = tuple(map(var, own))
        inner: Block = (Store(target, at, load(source, old.dtype, *at) if source else const(0, old.dtype)),)
        for k in range(len(own) - 1, 0, -1):
            inner = (Loop(own[k], ZERO, old.shape[k], inner, "parallel"),)
        return (Loop(own[0], start, stop, inner, "parallel"),)

    def move(target: str, source: str) -> Block:
        return fill(target, source, ZERO, old.shape[0])

    reads_it = any(buffer in e.buffers for s in statements((loop,)) for e in s.expressions()) or any(
        isinstance(s, Store) and s.buffer == buffer and s.combiner for s in statements((loop,))
    )
    writes_it = buffer in written((loop,))
    copied_in = reads_it or (writes_it and not _writes_all(loop, old))
    if copied_in and not _filled_before(kernel.body, path, old):
        raise StepError(f"spill: some of `{buffer}` may be undefined where `{axis}` begins")
    before = move(tile.name, buffer) if copied_in else ()
    if turned:
        if writes_it:
            raise StepError(f"spill: `{axis}` writes `{buffer}`, so it cannot be turned")
        rest = fill(tile.name, "", old.shape[0], tile.shape[0]) if old.shape[0] is not tile.shape[0] else ()
        return replace_loop(kernel, axis, lambda _: (Alloc(tile), *before, *rest, *_turned(loop, buffer, tile, taken)))
    body = rename_buffers((loop,), {buffer: tile.name})
    after = move(buffer, tile.name) if writes_it else ()
    return replace_loop(kernel, axis, lambda _: (Alloc(tile), *before, *body, *after))


def _turned(loop: Loop, buffer: str, tile: Buffer, taken: set[str]) -> Block:
    """The nest that reads a tile, its inner loop outside, its outer one as long as the tile."""
    inner = loop.body[0]
    if (
        not isinstance(inner, Loop)
        or len(loop.body) > 1
        or any(x.kind != "parallel" or constant_extent(x) is None or x.start is not ZERO for x in (loop, inner))
    ):
        raise StepError(f"spill: `{loop.axis}` is no nest of two parallel loops of constant extent that could be turned")
    own = load(buffer, tile.dtype, var(loop.axis), var(inner.axis))
    used = {n for n in reads(inner.body) if n.attr == buffer}
    if used != {own}:
        raise StepError(f"spill: `{loop.axis}` reads `{buffer}` at other positions than its own")
    v = fresh("v", taken)
    body = map_expressions(inner.body, lambda e: substitute(e, {own: var(v, tile.dtype)}))
    if loop.stop is not tile.shape[0]:
        guard = var(loop.axis).lt(loop.stop)
        first = body[0]
        body = (
            (If(both(guard, first.condition) or guard, first.body),)
            if len(body) == 1 and isinstance(first, If) and not first.orelse
            else (If(guard, body),)
        )
    turned = replace(loop, stop=tile.shape[0], body=(Let(v, load(tile.name, tile.dtype, *own.args)), *body))
    return (with_body(inner, (turned,)),)


def _index_names(loop: Loop, buffer: str, rank: int, axis: str) -> list[str]:
    """Names for the copying loops: those by which the nest indexes the buffer."""
    for s in statements((loop,)):
        indices = [n.args for n in loads_in(*s.expressions()) if n.attr == buffer]
        if isinstance(s, Store) and s.buffer == buffer:
            indices.append(s.index)
        for at in indices:
            return [e.attr if e.op == "var" else axis for e in at]
    return [axis] * rank


def _filled_before(block: Block, path: tuple[Stmt, ...], buffer: Buffer) -> bool:
    """Whether a statement before the last of the path (a sibling of it or of what encloses it) stores the whole buffer."""
    for step in path:
        for s in block:
            if s is step:
                break
            if _fills(s, buffer):
                return True
        block = next((b for b in step.blocks() if any(s is path[-1] for s in statements(b))), ())
    return False


def _fills(stmt: Stmt, buffer: Buffer) -> bool:
    if isinstance(stmt, If):
        return all(any(_fills(s, buffer) for s in b) for b in stmt.blocks())
    return isinstance(stmt, Loop) and _writes_all(stmt, buffer)


def _writes_all(loop: Loop, buffer: Buffer) -> bool:
    """Whether a perfect nest of full loops stores every element unconditionally."""
    loops, body = perfect((loop,))
    full = {var(x.axis): constant_extent(x) for x in loops if x.start is ZERO}
    for s in body:
        if not isinstance(s, Store) or s.buffer != buffer.name or s.combiner or len(set(s.index)) < len(s.index):
            continue
        if all(full.get(e) == n.attr for e, n in zip(s.index, buffer.shape, strict=True)):
            return True
    return False
