"""The step that makes a long array of sums several short ones, each made by an iteration of its own: `portion`."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence, Set

from ....ir.conditions import conjuncts
from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, ceildiv, const, var
from ....ir.kernel import Alloc, Block, Check, If, Kernel, Loop, Stmt, Store, map_block, map_expressions, statements, with_body, written
from ....ir.places import path_of
from ....ir.record import replace
from ....ir.renaming import at_places
from ....ir.simplify import simplify
from ....ir.walks import substitute
from ..affine import inside
from ..tree import Facts, StepError, fresh, loads_in, local_buffers, names_taken, reads, replace_loop


def portion(kernel: Kernel, facts: Facts, length: int, *buffers: str) -> Kernel:
    """An iteration that keeps an array, or several of one length, does so for one portion after the other, each with all else that it does.

        for i in 0 .. M parallel:              for i in 0 .. M parallel:
          alloc a: f32[E] private                for i.n in 0 .. ceil(E / 64) parallel:
          for e in 0 .. E parallel:                alloc a: f32[64] private
            a[e] = 0                               for e in 0 .. 64 parallel:
          for p in …:                                a[e] = 0
            s = …                         →        for p in …:
            for e in 0 .. E parallel:                s = …
              a[e] = a[e] + s · V[p, e]              for e in 0 .. 64 parallel:
          for e in 0 .. E parallel:                    if 64·i.n + e < E: a[e] = a[e] + s · V[p, 64·i.n + e]
            O[i, e] = a[e]                         …

    So the array has a constant extent, which the threads of a GPU can hold in registers; what does not go along it (s) is computed for each portion.  The array's last axis is
    that of parallel loops wherever it is touched, all over it; what is stored elsewhere for others is stored with the first portion.
    """
    if not buffers or length < 1:
        raise StepError("portion: of which arrays?")
    found = [path_of(kernel, b) for b in buffers]
    allocs = [path[-1] for path in found if path and isinstance(path[-1], Alloc) and path[-1].buffer.shape]
    if len(allocs) != len(buffers):
        raise StepError(f"portion: no local arrays {', '.join(f'`{b}`' for b in buffers)}")
    path = found[0][:-1]
    row = path[-1] if path else None
    if not isinstance(row, Loop) or row.kind != "parallel" or any(p[-2] is not row for p in found):
        raise StepError(f"portion: {', '.join(f'`{b}`' for b in buffers)} are not allocated in one parallel loop")
    lengths = {a.buffer.shape[-1] for a in allocs}
    if len(lengths) > 1:
        raise StepError(f"portion: {', '.join(f'`{b}`' for b in buffers)} are not as long as one another")
    (whole,) = lengths
    own = local_buffers(kernel)
    along = {e for s in statements(row.body) for e in _last(s, buffers)}
    loops = [s for s in statements(row.body) if isinstance(s, Loop) and var(s.axis) in along]
    if along != {var(s.axis) for s in loops} or any(s.kind != "parallel" or s.start is not ZERO or s.step is not ONE for s in loops):
        raise StepError(f"portion: {', '.join(f'`{b}`' for b in buffers)} are not touched along parallel loops over their last axis alone")
    taken = names_taken(kernel)
    name = fresh(f"{row.axis}.n", taken)
    count = simplify(ceildiv(whole, length), facts.known)
    first = var(name) * length
    known = inside(path, facts.known).with_ranges({name: (ZERO, count - 1, 1)})
    axes = {s.axis: s for s in loops}

    bodies: dict[str, Block] = {}
    there: dict[str, Expr] = {}  # whether a position of a portion is one of the loop's
    for s in loops:
        at = var(s.axis)
        moved = map_expressions(s.body, lambda e, at=at: substitute(e, {at: first + at}))
        bodies[s.axis] = _local(moved, buffers, first + at, at)
        there[s.axis] = simplify((first + at).lt(s.stop), known.with_ranges({s.axis: (ZERO, const(length - 1), 1)}))
    over = {a for a, b in bodies.items() if there[a] is TRUE or _everywhere(b, facts, own.keys(), buffers, a)}
    while missing := {b for a in bodies.keys() - over for b in written(bodies[a]) & set(buffers)}:  # of these the end is not defined
        fewer = {a for a in over if there[a] is TRUE or missing.isdisjoint(n.attr for n in reads(bodies[a]))}
        if fewer == over:
            break
        over = fewer

    def change(s: Stmt) -> Block | None:
        if not isinstance(s, Loop) or s.axis not in axes:
            return None
        body, inside = bodies[s.axis], there[s.axis]
        if s.axis not in over:
            body = () if inside is FALSE else (If(inside, body),)
        return (replace(s, stop=const(length), body=body),)

    body = _once(map_block(row.body, change), axes.keys(), own.keys(), var(name).lt(1))
    body = tuple(Alloc(replace(s.buffer, shape=(*s.buffer.shape[:-1], const(length)))) if isinstance(s, Alloc) and s in allocs else s for s in body)
    return replace_loop(kernel, row.axis, lambda x: (with_body(x, (Loop(name, ZERO, count, body, "parallel", span=x.span),)),))


def _last(s: Stmt, buffers: Container[str]) -> list[Expr]:
    """The last indices at which a statement touches some arrays."""
    found = [n.args[-1] for n in loads_in(*s.expressions()) if n.attr in buffers]
    return [*found, s.index[-1]] if isinstance(s, Store) and s.buffer in buffers else found


def _local(block: Block, buffers: Collection[str], old: Expr, new: Expr) -> Block:
    """The arrays' own position again, where positions have been moved."""
    return at_places(block, buffers, lambda _, index: (*index[:-1], new) if index[-1] is old else index)


def _everywhere(block: Block, facts: Facts, own: Set[str], portions: Container[str], axis: str) -> bool:
    """Whether this may run beyond the end of an axis: nobody sees what is stored, and positions along it are kept from running over but in the `portions`."""
    if any(
        isinstance(s, Check) or (isinstance(s, Store) and (s.buffer not in own or _along(s.buffer, s.index, portions, axis)))
        for s in statements(block)
    ):
        return False

    def inside(e: Expr, asked: frozenset[Expr]) -> bool:
        """Whether what is read is inside of its buffer wherever the conditions hold."""
        if e.op == "load" and e.attr in own and _along(e.attr, e.args, portions, axis):
            return False
        if e.op == "load" and e.attr not in own:
            ends = zip(e.args, facts.buffers[e.attr].shape, strict=True)
            if not all(axis not in x.names or x.lt(n) in asked or (x.op == "min" and (n - 1) in x.args) for x, n in ends):
                return False
        if e.op == "where":
            return inside(e.args[0], asked) and inside(e.args[1], asked.union(conjuncts(e.args[0]))) and inside(e.args[2], asked)
        return not e.buffers or all(inside(a, asked) for a in e.args)

    return all(inside(e, frozenset()) for s in statements(block) for e in s.expressions())


def _along(buffer: str, index: Sequence[Expr], portions: Container[str], axis: str) -> bool:
    """Whether another local array is touched at the axis."""
    return buffer not in portions and any(axis in e.names for e in index)


def _once(block: Block, axes: Set[str], own: Set[str], condition: Expr) -> Block:
    """What is stored for others outside of the loops over these axes, under a condition."""
    result: list[Stmt] = []
    for s in block:
        inside = list(statements((s,)))
        if isinstance(s, Loop) and s.axis in axes:
            result.append(s)
        elif any(isinstance(t, Loop) and t.axis in axes for t in inside):
            if not isinstance(s, Loop):
                raise StepError("portion: a condition stands around what goes along the array")
            result.append(with_body(s, _once(s.body, axes, own, condition)))
        elif any(isinstance(t, Check) or (isinstance(t, Store) and t.buffer not in own) for t in inside):
            result.append(If(condition, (s,)))
        else:
            result.append(s)
    return tuple(result)
