"""outline: program → program.  What iterations of a parallel loop do becomes a function, so that one thread can run the loop without starting a team.

                                                               static k_each(begin, end, …):
                                                                 for i in begin .. end:
    for i in 0 .. N parallel serial_if N < 1000:                   S(i)
      S(i)                                              →
                                                               if N < 1000:
                                                                 k_each(0, N, …)
                                                               else:
                                                                 for i, e in 0 .. N parallel: k_each(i, e, …)

A team of one costs half a microsecond with the OpenMP runtimes of gcc and clang, as much as a product of 32×32 matrices.  Late among passes: a function by itself would know
less of its sizes.  Each thread calls it once, so that what is the same in all iterations is found out once (the masks and strides of register tiles: 96 × 32 × 1 by 1 × 32 floats 1.7 times as fast in one thread;
a call for each tile of rows took 290 cycles, two threads 96³ floats 1.17 times as fast).
A few statements without a loop are written twice instead: a call for each vector would cost more than they do.  Loops that may fail, that share memory
allocated around them or that take part in a region stay as they are.

Where a loop stands for two, and its iterations ask for quotient and remainder alone, these are what the function takes; one thread runs the two loops, and each of a team those that it has a part of:

    for q in 0 .. N:            for x, e in 0 .. D * N parallel:
      k_each(q, 0, D, …)          for q in x // D .. ceildiv(e, D):
                                    k_each(q, max(x - q * D, 0), min(e - q * D, D), …)

(A product of 32×32 matrices behind an axis of batches, each of whose tiles found out by two divisions where it was: 1.1 times as fast.)
"""

from __future__ import annotations

from typing import Final

from ..ir.dtypes import INDEX
from ..ir.expr import FALSE, ONE, ZERO, Expr, ceildiv, floordiv, maximum, minimum, mod, product, size, var
from ..ir.positions import Known, is_natural, is_position, of_loop, of_value
from ..ir.program import (
    Array,
    Assign,
    Block,
    Call,
    Define,
    Fail,
    For,
    Function,
    If,
    Param,
    Prefetch,
    Program,
    Region,
    Scratch,
    Stmt,
    StoreTo,
    While,
    map_expressions,
    named,
    statements,
    with_blocks,
)
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitution
from .lower.names import Names

SHORT: Final = 8  # statements of an iteration that are written twice


def outline(program: Program, target: Target, options: Options) -> Program:
    """Every parallel loop with a condition for running it alone; the entry has none."""
    if target.gpu or not target.threads:
        return program
    inside = [s for f in program.functions for s in statements(f.body)]
    own = (s.var if isinstance(s, For) else s.name for s in inside if isinstance(s, (For, Define, Array)))
    names = Names([*own, *(s.name for s in program.sizes), *(s.name for s in program.ports), *(s.name for s in program.functions)])
    functions: list[Function] = []
    for f in program.functions:
        pieces: list[Function] = []
        values = {s.name: s.value for s in statements(f.body) if isinstance(s, Define) and not s.mutable and s.value is not None}
        body = _block(f.body, f, names, pieces, values, {})
        functions += [*pieces, replace(f, body=body)]
    return replace(program, functions=tuple(functions))


def _block(block: Block, f: Function, names: Names, pieces: list[Function], values: dict[str, Expr], known: dict[str, Known]) -> Block:
    """`known`: what is known of the variables so far, `values`: what the constant ones stand for; names are never declared again inside."""
    return tuple(t for s in block for t in _statement(s, f, names, pieces, values, known))


def _statement(s: Stmt, f: Function, names: Names, pieces: list[Function], values: dict[str, Expr], known: dict[str, Known]) -> Block:
    def of(e: Expr) -> Known:
        return known.get(e.attr, Known())

    if isinstance(s, For):
        known[s.var] = of_loop(s.start, s.step, of)
    elif isinstance(s, Define) and not s.mutable and s.value is not None:
        known[s.name] = of_value(s.value, of)
    match s:
        case For(pragma="parallel") if s.serial_if is not None and _short(s.body):
            loop = replace(s, serial_if=None)
            return _either(s.serial_if, (replace(loop, pragma=""),), loop)
        case For(pragma="parallel") if s.serial_if is not None and (piece := _piece(s, f, names, values, known)) is not None:
            function, alone, team = piece
            pieces.append(function)
            return _either(s.serial_if, alone, team)
        case For() | While() | If():
            return (with_blocks(s, lambda b: _block(b, f, names, pieces, values, known)),)
        case _:
            return (s,)


def _either(condition: Expr, alone: Block, team: For) -> Block:
    """As one thread runs it under the condition, which under those around may never hold, else as a team does."""
    return (team,) if condition is FALSE else (If(condition, alone, (team,)),)


def _short(block: Block) -> bool:
    """A few statements that run once, and hints."""
    inner = statements(block)
    return len(inner) <= SHORT and all(
        isinstance(s, (Define, Assign, StoreTo, Prefetch)) or (isinstance(s, If) and all(isinstance(t, Prefetch) for t in (*s.body, *s.orelse)))
        for s in inner
    )


def _piece(loop: For, f: Function, names: Names, values: dict[str, Expr], known: dict[str, Known]) -> tuple[Function, Block, For] | None:
    """Some iterations as a function, the loop as one thread runs it and as a team does; None where the function would need more than pointers, sizes and values."""
    within = statements(loop.body)
    if any(isinstance(s, (Fail, Region, Scratch, Call)) for s in within):
        return None
    outer, inner = "", loop
    roots = [e for s in within for e in s.expressions()]
    extents = _extents(loop, roots, values, known)
    if extents is not None:
        outer, part = (names.fresh(f"{loop.var}_{k}") for k in range(2))
        known.update(dict.fromkeys((outer, part), Known(position=True, natural=True)))
        positions = dict(zip(_parts(loop, extents[1]), (var(outer), var(part)), strict=True))
        inner = For(part, ZERO, extents[1], map_expressions(loop.body, substitution(positions)))
        within = statements(inner.body)
        roots = [e for s in within for e in s.expressions()]
    first, stop = names.fresh("begin"), names.fresh("end")
    known[first], known[stop] = known[inner.var], Known(position=is_position(inner.stop, lambda v: known.get(v.attr, Known())))
    body: Block = (For(inner.var, var(first), var(stop), inner.body, inner.step),)
    own = {inner.var, *(s.var if isinstance(s, For) else s.name for s in within if isinstance(s, (For, Define, Array)))}
    pointers = {p.name: p for p in f.params if p.pointer}
    roots = [*body[0].expressions(), *roots]
    nodes = postorder(*roots)
    buffers = {n.attr for n in nodes if n.op == "to_line"}.union(*[e.buffers for e in roots], *map(named, within))
    if not buffers - own <= pointers.keys() or any(isinstance(s, Assign) and s.name not in own for s in within):
        return None
    taken = {n.attr: n.dtype for n in nodes if n.op == "var" and n.attr not in own}
    sizes = dict.fromkeys(n.attr for n in nodes if n.op == "size")
    params = (
        *(p for name, p in pointers.items() if name in buffers),
        *(Param(name, INDEX) for name in sizes),
        *(Param(name, dtype, position=known.get(name, Known()).position, natural=known.get(name, Known()).natural) for name, dtype in taken.items()),
    )
    function = Function(names.fresh(f"{f.name}_each"), params, body)

    def call(at: dict[str, Expr]) -> Block:
        """The function for the iterations that begin and end there."""
        return (
            Call(
                function.name,
                tuple(p.name if p.pointer else size(p.name) if p.name in sizes else at.get(p.name, var(p.name, p.dtype)) for p in params),
            ),
        )

    alone = call({first: inner.start, stop: inner.stop})
    here = var(loop.var)
    if loop.step is not ONE:
        return function, alone, replace(loop, body=call({first: here, stop: here + 1}), serial_if=None)
    end = names.fresh("end")
    team = call({first: here + loop.start, stop: var(end) + loop.start})
    loop = loop if loop.start is ZERO else replace(loop, start=ZERO, stop=loop.stop - loop.start)
    if extents is not None:
        before = var(outer) * extents[1]
        alone = (For(outer, ZERO, extents[0], alone),)
        share = call({first: maximum(here - before, ZERO), stop: minimum(var(end) - before, extents[1])})
        final = names.fresh("last")
        team = (Define(final, INDEX, ceildiv(var(end), extents[1])), For(outer, floordiv(here, extents[1]), var(final), share))
    return function, alone, replace(loop, body=team, serial_if=None, end=end)


def _parts(loop: For, divisor: Expr) -> tuple[Expr, Expr]:
    return floordiv(var(loop.var), divisor), mod(var(loop.var), divisor)


def _extents(loop: For, roots: list[Expr], values: dict[str, Expr], known: dict[str, Known]) -> tuple[Expr, Expr] | None:
    """The two loops that a loop stands for, outer and inner, where all that is asked for are their positions; None where there are no such two."""
    x = var(loop.var)
    users = [n for n in postorder(*roots) if x in n.args]
    if not users or x in roots or loop.start is not ZERO or loop.step is not ONE:
        return None
    divisor = users[0].args[-1]
    if divisor.op != "var" or any(n not in _parts(loop, divisor) for n in users):
        return None
    factors = _factors(loop.stop, values)
    for d in _factors(divisor, values):
        if d not in factors:
            return None
        factors.remove(d)
    outer = product(factors)
    natural = all(is_natural(e, lambda v: known.get(v.attr, Known())) for e in (outer, divisor))
    return (outer, divisor) if natural else None


def _factors(e: Expr, values: dict[str, Expr]) -> list[Expr]:
    """What is multiplied, through the names of products."""
    while e.op == "var" and e.attr in values:
        e = values[e.attr]
    return [f for a in e.args for f in _factors(a, values)] if e.op == "mul" else [e]
