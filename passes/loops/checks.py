"""Checks of loops that stay loops are asked where what they ask about is decided, once.

    for n in 0 .. N:                          for n in 0 .. N:
      for d in 0 .. D:                          if 0 < D:
        check 0 <= I[n]                 →         check 0 <= I[n]
        E[I[n], d] add= G[n, d]                 for d in 0 .. D:
                                                  E[I[n], d] add= G[n, d]

A check leaves a loop when it stands before all that the body does, but for naming values, and asks neither about the loop's variable nor about anything that the loop changes; it is asked if the loop runs at all, before
anything of the loop is stored, as it was, and not again.  What is left can be vectors.  Checks that follow one another are asked as one.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby

from ...ir.bounds import Known
from ...ir.conditions import conjuncts, parts_of
from ...ir.dtypes import u64
from ...ir.expr import TRUE, ZERO, Expr, both, call
from ...ir.kernel import Alloc, Block, Check, If, Let, Loop, Nest, Stmt, map_block, with_blocks, written
from ...ir.record import replace
from ...ir.simplify import simplify
from ...ir.walks import leaves


def checks_outside(nest: Nest, known: Known) -> Nest:
    """The nest with its checks as far outside as they go; those that follow one another are one."""
    return checks_together(replace(nest, body=map_block(nest.body, lambda s: _loop(s, known) if isinstance(s, Loop) else None)))


def checks_together(nest: Nest) -> Nest:
    """The nest with checks that follow one another as one."""
    return replace(nest, body=_as_one(nest.body))


def _as_one(block: Block) -> Block:
    """Checks that follow one another as one, if they read no element: before that, others have to hold."""
    joined: list[Stmt] = []
    for together, group in groupby(
        block, lambda s: s.code if isinstance(s, Check) and not any(e.args for e in leaves(s.condition, "load")) else None
    ):
        if together is None:
            joined += [with_blocks(s, _as_one) for s in group]
            continue
        first, *more = (s for s in group if isinstance(s, Check))
        asked: dict[tuple[Expr, ...], dict[Expr, None]] = {}  # unless some of these hold: all of those
        for s in (first, *more):
            *unless, wanted = parts_of("bit_or", s.condition)
            asked.setdefault(tuple(unless), {}).update(dict.fromkeys(conjuncts(wanted)))
        for wanted in asked.values():  # what is smaller as an unsigned number is not negative
            unsigned = {c.args[0].args[0] for c in wanted if c.op == "less_than" and c.args[0].op == "cast" and c.args[0].dtype is u64}
            for c in [c for c in wanted if c.op == "less_equal" and c.args[0] is ZERO and c.args[1] in unsigned]:
                del wanted[c]
        whole = (reduce(lambda a, b: call("bit_or", a, b), (*unless, both(*wanted) or TRUE)) for unless, wanted in asked.items())
        joined.append(replace(first, condition=both(*whole) or TRUE) if more else first)
    return tuple(joined)


def _loop(loop: Loop, known: Known) -> Block:
    """The loop, behind the checks that leave it."""
    if not loop.step.is_const:
        return (loop,)
    leaving: list[Stmt] = []
    before: list[Let] = []  # they change nothing
    for s in loop.body:
        if isinstance(s, Check | If) and _leaves(s, loop, {x.name for x in before}):
            leaving.append(s)
        elif isinstance(s, Let):
            before.append(s)
        else:
            break
    if not leaving:
        return (loop,)
    runs = simplify(loop.start.lt(loop.stop) if loop.step.attr > 0 else loop.stop.lt(loop.start), known)
    asked = {s.condition for s in leaving if isinstance(s, Check)}
    rest = map_block(loop.body[len(leaving) + len(before) :], lambda s: () if isinstance(s, Check) and s.condition in asked else None)
    inside = replace(loop, body=(*before, *rest))
    return (*(leaving if runs is TRUE else (If(runs, tuple(leaving)),)), *((inside,) if inside.body else ()))


def _leaves(s: Stmt, loop: Loop, named: set[str]) -> bool:
    """A check, or an `if` around checks alone, of which no part depends on the loop or on what is `named` in it."""
    match s:
        case Check():
            return _fixed(s.condition, loop, named)
        case If(condition, body, ()):
            return _fixed(condition, loop, named) and bool(body) and all(isinstance(t, Check) and _leaves(t, loop, named) for t in body)
        case _:
            return False


def _fixed(condition: Expr, loop: Loop, named: set[str]) -> bool:
    return condition.names.isdisjoint({loop.axis, *named}) and not condition.buffers & _changed(loop)


def _changed(loop: Loop) -> frozenset[str]:
    own = {s.buffer.name for s in loop.body if isinstance(s, Alloc)}
    return frozenset(written(loop.body) | own)
