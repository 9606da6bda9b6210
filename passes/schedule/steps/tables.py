"""The step that computes once what several loops over one range each compute: `tabulate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....ir.bounds import Known
from ....ir.expr import ONE, ZERO, Expr, load, var
from ....ir.kernel import Alloc, Buffer, If, Kernel, Let, Loop, Stmt, Store, map_expressions, with_blocks, written
from ....ir.places import block_of
from ....ir.primops import OPS
from ....ir.record import replace
from ....ir.simplify import assuming, prove_equal
from ....ir.walks import postorder, substitute, substitution
from ...costs import IN_CACHE, TABLE, operation
from ..affine import inside, upper
from ..tree import Facts, StepError, around, fresh, loads_in, names_taken, replace_at

POSITION = var("%along")  # stands for the position along the range while values of several loops are compared


def tabulate(kernel: Kernel, facts: Facts, *axes: str) -> Kernel:
    """Compute the value that several loops over one range share in the first of them, which puts it in a table for the others.

                                                  alloc q.table: f32[8192] stack
        for q in 0 .. N reduce:                   for q in 0 .. N reduce:
          acc[] add= exp(X[i, q] - m[])             let q.v = exp(X[i, q] - m[])
        for j in 0 .. N parallel:           →       q.table[q] = q.v
          Y[i, j] = exp(X[i, j] - m[]) / acc[]      acc[] add= q.v
                                                  for j in 0 .. N parallel:
                                                    Y[i, j] = q.table[j] / acc[]

    `axes` are two loops or more of one block, which hold no other statements than stores and lets, over the same range from 0 whose length is known to be at most what a
    table may hold (`costs.TABLE`).  The value is the dearest that all of them compute, whatever their conditions, once for each position; nothing that it reads is written from the first loop to the last.
    Where the first loop does more than accumulate or store (it decides where, or chooses whether), or --strict forbids vectors of it, the table is filled by a loop of its own before it.
    """
    loops, path = _loops(kernel, axes)
    block = block_of(kernel, path)
    known = _known(facts, path)
    most = upper(loops[0].stop, known)
    shared = [v for v in _values(loops[0]) if all(v in set(_values(x)) for x in loops[1:])]
    if not shared:
        raise StepError(f"tabulate: {', '.join(axes)} share no value")
    value = max(shared, key=cost)  # of equals the first
    if most is None or most * value.dtype.bytes > TABLE:
        raise StepError(f"tabulate: a table over `{axes[0]}` may have more than {TABLE} bytes")
    first, last = (next(k for k, s in enumerate(block) if s is x) for x in (loops[0], loops[-1]))
    changed = written(block[first : last + 1]) & {n.attr for n in loads_in(value)}
    if changed:
        raise StepError(f"tabulate: {', '.join(f'`{b}`' for b in sorted(changed))} changes between the loops")
    taken = names_taken(kernel)
    table = Buffer(fresh(f"{axes[0]}.table", taken), value.dtype, (ZERO + most,), "stack", align=64)
    own = fresh(f"{axes[0]}.s", taken)
    filling = Loop(own, ZERO, loops[0].stop, (Store(table.name, (var(own),), substitute(value, {POSITION: var(own)})),), "parallel")
    alone = not _takes_along(loops[0], facts.strict)
    new: list[Stmt] = []
    for s in block:
        if s is loops[0]:
            new += [Alloc(table), *((filling,) if alone else ())]
        if any(s is x for x in loops):
            assert isinstance(s, Loop)
            at = var(s.axis)
            here = substitute(value, {POSITION: at})
            if s is loops[0] and not alone:
                name = fresh(f"{axes[0]}.v", taken)
                rest = map_expressions(s.body, substitution({here: var(name, table.dtype)}))
                s = replace(s, body=(Let(name, here), Store(table.name, (at,), var(name, table.dtype)), *rest))
            else:
                s = replace(s, body=map_expressions(s.body, substitution({here: load(table.name, table.dtype, at)})))
        new.append(s)
    if len(path) == 1:
        return kernel.with_body(tuple(new))
    return kernel.with_body(replace_at(kernel.body, path[:-1], (with_blocks(path[-2], lambda b: tuple(new) if b is block else b),)))


def candidates(kernel: Kernel) -> Iterator[tuple[str, ...]]:
    """Loops that share a value which is dearer than a store and loads in the first cache."""
    blocks = [kernel.body]
    while blocks:
        block = blocks.pop(0)
        blocks += [b for s in block for b in s.blocks()]
        users: dict[Expr, list[str]] = {}
        for s in block:
            if isinstance(s, Loop) and _plain(s):
                for v in dict.fromkeys(_values(s)):
                    users.setdefault(v, []).append(s.axis)
        worth = [v for v, axes in users.items() if len(axes) > 1 and (len(axes) - 1) * cost(v) > IN_CACHE * (len(axes) + 1)]
        if worth:
            yield tuple(users[max(worth, key=cost)])


def cost(e: Expr) -> float:
    """Of evaluating an expression, in units of `costs.py`."""
    seen, stack, found = {e}, [e], 0.0
    while stack:
        n = stack.pop()
        if n.op in OPS:
            found += operation(n.op)
        fresh_ = [a for a in n.args if a not in seen and n.op != "load"]
        seen.update(fresh_)
        stack += fresh_
    return found


def _plain(loop: Loop) -> bool:
    return loop.start is ZERO and loop.step is ONE and loop.kind in ("parallel", "reduce") and all(isinstance(s, (Store, Let)) for s in loop.body)


def _takes_along(loop: Loop, strict: bool) -> bool:
    """Whether vectors along a loop stay vectors where it also fills a table: it accumulates into single places or stores at its own positions, and no value is computed under a condition."""
    stores = [s for s in loop.body if isinstance(s, Store)]
    places = [loop.axis in {n for e in s.index for n in e.names} for s in stores]
    once = len({(s.buffer, s.index) for s in stores}) == len(stores)
    in_order = strict and any(
        s.value.dtype.is_float and s.combiner in ("add", "mul") for s in stores
    )  # element by element, which the values need not be
    chosen = any(n.op == "where" for s in loop.body for n in postorder(*s.expressions()))
    return (
        once
        and not in_order
        and not chosen
        and all(own != bool(s.combiner) and own == (loop.kind == "parallel") for s, own in zip(stores, places, strict=True))
    )


def _values(loop: Loop) -> list[Expr]:
    """What every iteration computes from floats in memory, outer values first, with `POSITION` for the loop's variable."""
    lets = {s.name for s in loop.body if isinstance(s, Let)}
    here = {var(loop.axis): POSITION}
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    for s in loop.body:
        stack = [s.value] if isinstance(s, (Store, Let)) else []
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if n.op in OPS and loop.axis in n.names and n.dtype.is_float and n.buffers and lets.isdisjoint(n.names):
                found.setdefault(substitute(n, here))
            if n.op in OPS:
                stack += n.args[:1] if n.op == "where" else n.args
    return list(found)


def _loops(kernel: Kernel, axes: Sequence[str]) -> tuple[list[Loop], tuple[Stmt, ...]]:
    """The loops in the order of their block, and the path to the first."""
    paths = [around(kernel, a) for a in axes]
    loops = [p[-1] for p in paths]
    if len(set(axes)) < 2 or any(len(p) != len(paths[0]) or any(a is not b for a, b in zip(p[:-1], paths[0][:-1], strict=True)) for p in paths):
        raise StepError("tabulate: two loops or more of one block are needed")
    block = block_of(kernel, paths[0])
    order = [next((k for k, s in enumerate(block) if s is x), -1) for x in loops]
    if -1 in order or order != sorted(order):
        raise StepError(f"tabulate: {', '.join(axes)} do not stand in this order in one block")
    found: list[Loop] = []
    for x in loops:
        assert isinstance(x, Loop)
        if not _plain(x):
            raise StepError(f"tabulate: `{x.axis}` is no plain loop from 0 in steps of 1")
        if not (found == [] or prove_equal(x.stop, found[0].stop)):
            raise StepError(f"tabulate: `{x.axis}` and `{found[0].axis}` differ in their range")
        found.append(x)
    return found, paths[0]


def _known(facts: Facts, path: Sequence[Stmt]) -> Known:
    """What is known of sizes and loops there, conditions that hold included."""
    known = inside(path[:-1], facts.known)
    for k, s in enumerate(path[:-1]):
        if isinstance(s, If) and any(t is path[k + 1] for t in s.body):
            known = assuming(known, s.condition)
    return known
