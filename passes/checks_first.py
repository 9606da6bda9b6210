"""kernels → kernels: positions that data decides are looked at in a kernel of their own, where a loop that has nothing to do with them stands around their check.

    for i in 0 .. H parallel:                                    alloc bad = 0
      for p in 0 .. P reduce:                                    if 0 < H:
        let at = I[p]                                              for p in 0 .. P reduce:
        check 0 <= at & at < N                            →          bad max= where(0 <= I[p] & I[p] < N, 0, 1)
        for d in 0 .. D reduce:                                  check bad == 0
          acc[] add= Q[i, d] * K[at, d]                          …
                                                                 for i: for p: let at = I[p]; for d: acc[] add= Q[i, d] * K[at, d]

A position that is clamped before it becomes an integer is outside at enormous sizes alone (`clamped.py`), so its check is behind a condition on them: then too the loops are vectors.
Each position is looked at once, by vectors, and the loops hold nothing any more that could leave them: they are tiles and vectors like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from ..ir.conditions import conjuncts
from ..ir.dtypes import i32
from ..ir.expr import TRUE, Expr, both, call, const, load, var, where
from ..ir.kernel import Alloc, Block, Buffer, Check, If, Kernel, Let, Loop, Module, Stmt, Store, statements, with_blocks, written
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import substitute


class _Found(NamedTuple):
    check: Check
    loops: tuple[Loop, ...]  # that its positions depend on, outermost first
    others: tuple[Loop, ...]  # the rest of those around it
    condition: Expr  # over the variables of the loops
    sizes: Expr | None  # under which the loops run at all, where a branch on sizes is around them
    rare: bool = False  # it holds whatever the data is, but for enormous sizes


def checks_first(ir: Module, target: Target, options: Options) -> Module:
    if target.gpu:  # there each thread skips what lies outside, and no kernel waits for another
        return ir
    kernels: list[Kernel] = []
    done: list[Kernel] = []  # of which nothing has been written since
    for kernel in ir.kernels:
        changed = written(kernel.body)
        found = [f for f in _checks(kernel.body, (), (), changed, None) if f.rare or f.others or any(x.kind == "reduce" for x in f.loops)]
        for f in _together(found):
            looked = _kernel(f, f"{kernel.name}_positions{len(kernels)}", kernel.buffers)
            if not any(k.body == looked.body for k in done):
                kernels.append(looked)
                done.append(looked)
        moved = {id(f.check) for f in found}
        kernels.append(replace(kernel, body=_without(kernel.body, moved)) if found else kernel)
        done = [k for k in done if changed.isdisjoint(b for s in statements(k.body) for e in s.expressions() for b in e.buffers)]
    return ir if len(kernels) == len(ir.kernels) else ir.with_kernels(tuple(kernels))


def _checks(block: Block, loops: tuple[Loop, ...], lets: tuple[Let, ...], changed: set[str], sizes: Expr | None) -> Iterator[_Found]:
    """Those of which every iteration of the loops around them is sure to come to, and which depend on nothing that the kernel writes."""
    for s in block:
        match s:
            case Let():
                lets = (*lets, s)
            case Loop():
                start, stop = (substitute(e, _values(lets)) for e in (s.start, s.stop))
                if not start.buffers and not stop.buffers:
                    yield from _checks(s.body, (*loops, replace(s, start=start, stop=stop)), lets, changed, sizes)
            case If() if not loops and not s.condition.buffers and s.condition.names.isdisjoint(x.name for x in lets):
                yield from _checks(s.body, loops, lets, changed, both(sizes, s.condition))
                yield from _checks(s.orelse, loops, lets, changed, both(sizes, call("bit_not", s.condition)))
            case Check():
                condition = substitute(s.condition, _values(lets))
                wanted: set[str] = set(condition.names)
                around = {x.axis for x in loops}
                for x in reversed(loops):
                    bounds = x.start.names | x.stop.names
                    if x.axis in wanted or bounds & around:  # whether it runs at all depends on the others: it is not for sizes alone to say
                        wanted |= {x.axis, *bounds}
                inside = tuple(x for x in loops if x.axis in wanted)
                named = wanted & {x.name for x in lets}
                if condition.buffers and condition.buffers.isdisjoint(changed) and not named:
                    others = tuple(x for x in loops if x.axis not in wanted)
                    sure = condition.args[0] if condition.op == "bit_or" else None
                    if sure is None or sure.buffers or not sure.names.isdisjoint(x.axis for x in loops):
                        yield _Found(s, inside, others, condition, sizes)
                    else:
                        yield _Found(s, inside, others, condition.args[1], both(sizes, call("bit_not", sure)), True)
            case _:
                pass


def _together(found: list[_Found]) -> list[_Found]:
    """Those that hold but for enormous sizes as one for all that ask about the same iterations: nobody waits for them, and they are hardly ever looked at."""
    groups: dict[object, list[_Found]] = {}
    for f in found:
        groups.setdefault((f.loops, f.others, f.check.code) if f.rare else len(groups), []).append(f)
    result: list[_Found] = []
    for first, *more in groups.values():
        condition = both(*dict.fromkeys(c for f in (first, *more) for c in conjuncts(f.condition)))
        sizes = (
            reduce(lambda a, b: call("bit_or", a, b), dict.fromkeys(f.sizes for f in (first, *more) if f.sizes is not None)) if more else first.sizes
        )
        result.append(first._replace(condition=condition or TRUE, sizes=sizes))
    return result


def _without(block: Block, moved: set[int]) -> Block:
    """The block without these checks; what only a loop behind one of them needs is named inside of that loop, where nests are perfect again."""
    body = tuple(with_blocks(s, lambda b: _without(b, moved)) for s in block if id(s) not in moved)
    *lets, last = body or (None,)
    if len(body) == len(block) or not isinstance(last, Loop) or not all(isinstance(s, Let) for s in lets):
        return body
    names = {s.name for s in lets if isinstance(s, Let)}
    return body if names & (last.start.names | last.stop.names) else (replace(last, body=(*(s for s in lets if s is not None), *last.body)),)


def _values(lets: tuple[Let, ...]) -> dict[Expr, Expr]:
    values: dict[Expr, Expr] = {}
    for s in lets:
        values[var(s.name, s.value.dtype)] = substitute(s.value, values)
    return values


def _kernel(f: _Found, name: str, buffers: tuple[str, ...]) -> Kernel:
    bad = Buffer("bad", i32, (), "register")
    places = {var(x.axis): var(f"p{k}") for k, x in enumerate(f.loops)}
    inner: Block = (Store(bad.name, (), where(substitute(f.condition, places), const(0, i32), const(1, i32)), "max", f.check.span),)
    for x in reversed(f.loops):
        start, stop = (substitute(e, places) for e in (x.start, x.stop))
        inner = (replace(x, axis=places[var(x.axis)].attr, start=start, stop=stop, body=inner, kind="reduce"),)
    runs = both(f.sizes, *(x.start.lt(x.stop) for x in f.others if not x.stop.is_const))
    body: list[Stmt] = [Alloc(bad), Store(bad.name, (), const(0, i32)), *(inner if runs is None else (If(runs, inner),))]
    body.append(Check(load(bad.name, i32).eq(const(0, i32)), f.check.code, f.check.span))
    return Kernel(name, buffers, tuple(body))  # those that it does not touch are taken off the list
