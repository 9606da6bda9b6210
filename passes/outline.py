"""outline: program → program.  What one iteration of a parallel loop does becomes a function, so that one thread can run the loop without starting a team.

                                                               static k_each(i, …):
    for i in 0 .. N parallel serial_if N < 1000:                 S(i)
      S(i)                                              →
                                                               if N < 1000:
                                                                 for i in 0 .. N: k_each(i, …)
                                                               else:
                                                                 for i in 0 .. N parallel: k_each(i, …)

A team of one costs half a microsecond with the OpenMP runtimes of gcc and clang, as much as a product of 32×32 matrices.  Last of all passes: a function by itself would know
less of its sizes.  A few statements without a loop are written twice instead: a call for each vector would cost more than they do.  Loops that may fail, that share memory
allocated around them or that take part in a region stay as they are.
"""

from __future__ import annotations

from ..ir.dtypes import INDEX
from ..ir.expr import Expr, size, var
from ..ir.positions import Known, of_loop, of_value
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
    expressions,
    named,
    statements,
    with_body,
)
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder
from .lower.names import Names

SHORT = 8  # statements of an iteration that are written twice


def outline(program: Program, target: Target, options: Options) -> Program:
    """Every parallel loop with a condition for running it alone; the entry has none."""
    if target.gpu or not target.threads:
        return program
    names = Names([s.name for s in (*program.sizes, *program.ports, *program.functions)])
    functions: list[Function] = []
    for f in program.functions:
        pieces: list[Function] = []
        body = _block(f.body, f, names, pieces, {})
        functions += [*pieces, replace(f, body=body)]
    return replace(program, functions=tuple(functions))


def _block(block: Block, f: Function, names: Names, pieces: list[Function], known: dict[str, Known]) -> Block:
    """`known`: what is known of the variables so far; names are never declared again inside."""
    return tuple(t for s in block for t in _statement(s, f, names, pieces, known))


def _statement(s: Stmt, f: Function, names: Names, pieces: list[Function], known: dict[str, Known]) -> Block:
    def of(e: Expr) -> Known:
        return known.get(e.attr, Known())

    if isinstance(s, For):
        known[s.var] = of_loop(s.start, s.step, of)
    elif isinstance(s, Define) and not s.mutable and s.value is not None:
        known[s.name] = of_value(s.value, of)
    match s:
        case For(pragma="parallel") if s.serial_if is not None and _short(s.body):
            loop = replace(s, serial_if=None)
            return (If(s.serial_if, (replace(loop, pragma=""),), (loop,)),)
        case For(pragma="parallel") if s.serial_if is not None and (piece := _piece(s, f, names, known)) is not None:
            pieces.append(piece)
            sizes = {n.attr for n in postorder(*(e for t in statements(s.body) for e in expressions(t))) if n.op == "size"}
            call = Call(piece.name, tuple(p.name if p.pointer else size(p.name) if p.name in sizes else var(p.name, p.dtype) for p in piece.params))
            loop = replace(s, body=(call,), serial_if=None)
            return (If(s.serial_if, (replace(loop, pragma=""),), (loop,)),)
        case For() | While():
            return (with_body(s, _block(s.body, f, names, pieces, known)),)
        case If():
            return (If(s.condition, _block(s.body, f, names, pieces, known), _block(s.orelse, f, names, pieces, known)),)
        case _:
            return (s,)


def _short(block: Block) -> bool:
    """A few statements that run once, and hints."""
    inner = list(statements(block))
    return len(inner) <= SHORT and all(
        isinstance(s, (Define, Assign, StoreTo, Prefetch)) or (isinstance(s, If) and all(isinstance(t, Prefetch) for t in (*s.body, *s.orelse)))
        for s in inner
    )


def _piece(loop: For, f: Function, names: Names, known: dict[str, Known]) -> Function | None:
    """One iteration as a function; None where it would need more than pointers, sizes and values."""
    inner = list(statements(loop.body))
    if any(isinstance(s, (Fail, Region, Scratch, Call)) for s in inner):
        return None
    own = {s.var if isinstance(s, For) else s.name for s in inner if isinstance(s, (For, Define, Array))}
    pointers = {p.name: p for p in f.params if p.pointer}
    nodes = postorder(*(e for s in inner for e in expressions(s)))
    buffers = {b for n in nodes for b in (*n.buffers, *((n.attr,) if n.op == "to_line" else ()))}.union(*map(named, inner))
    if not buffers - own <= pointers.keys() or any(isinstance(s, Assign) and s.name not in own for s in inner):
        return None
    values = {n.attr: n.dtype for n in nodes if n.op == "var" and n.attr not in own}
    values[loop.var] = INDEX
    sizes = dict.fromkeys(n.attr for n in nodes if n.op == "size")
    params = (
        *(p for name, p in pointers.items() if name in buffers),
        *(Param(name, INDEX) for name in sizes),
        *(Param(name, dtype, position=known.get(name, Known()).position, natural=known.get(name, Known()).natural) for name, dtype in values.items()),
    )
    return Function(names.fresh(f"{f.name}_each"), params, loop.body)
