"""Block and thread axes: the grid of a GPU function.

    for i.0 in 0 .. (M + 15)//16 block.x:            function …  grid (M + 15)//16, 1, 1  threads 16, 1, 1:
      for i.1 in 0 .. 16 thread.x:             →       for i_0 in 0 .. (M + 15)//16 block.x:
        …                                                for i_1 in 0 .. 16 thread.x:

The loops stay as the places where their variables are bound.  On another target they are plain loops, which a barrier inside them forbids.
"""

from __future__ import annotations

from ...ir import program as p
from ...ir.errors import CompilerBug
from ...ir.expr import ONE, ZERO, Expr, maximum, var
from ...ir.record import replace
from ...ir.walks import leaves, substitute
from .flatten import trips

BLOCKS, THREADS = ("block.x", "block.y", "block.z"), ("thread.x", "thread.y", "thread.z")


def grid(body: p.Block, gpu: bool) -> tuple[p.Block, tuple[Expr, ...], tuple[Expr, ...]]:
    """The body with its block and thread loops from 0 by 1, and the extents of grid and block in x, y, z; () and () where there is no GPU."""
    extents: dict[str, list[Expr]] = {}
    for s in p.statements(body):
        if isinstance(s, p.For) and s.pragma in BLOCKS + THREADS:
            extents.setdefault(s.pragma, []).append(trips(s.start, s.stop, s.step))
    if not gpu and not extents:
        return body, (), ()
    if not gpu:
        if any(
            isinstance(s, p.For) and s.pragma in THREADS and any(isinstance(t, p.Barrier) for t in p.statements(s.body)) for s in p.statements(body)
        ):
            raise CompilerBug("lower", "a barrier among threads needs a GPU")
        return p.map_block(body, lambda s: (replace(s, pragma=""),) if isinstance(s, p.For) and s.pragma in extents else None), (), ()

    named: dict[Expr, Expr] = {}  # what is named before the blocks begin is known at the launch
    for s in body:
        if isinstance(s, p.Define) and isinstance(s.value, Expr):
            named[var(s.name, s.dtype)] = substitute(s.value, named)
    whole = {pragma: _largest(pragma, [substitute(e, named) for e in found]) for pragma, found in extents.items()}

    def bind(s: p.Stmt) -> p.Block | None:
        if not isinstance(s, p.For) or s.pragma not in whole:
            return None
        count = trips(s.start, s.stop, s.step)
        inner = p.map_expressions(s.body, lambda e: substitute(e, {var(s.var): s.start + var(s.var) * s.step}))
        if substitute(count, named) is not whole[s.pragma]:
            inner = (p.If(var(s.var).lt(count), inner),)
        return (p.For(s.var, ZERO, count, inner, ONE, s.pragma),)

    body = p.map_block(body, bind)
    return body, tuple(whole.get(b, ONE) for b in BLOCKS), tuple(whole.get(t, ONE) for t in THREADS)


def _largest(pragma: str, extents: list[Expr]) -> Expr:
    result = extents[0]
    for e in extents[1:]:
        result = maximum(result, e)
    if leaves(result, "var") or (pragma in THREADS and not result.is_const):
        raise CompilerBug("lower", f"the extent {result!r} of {pragma} is not known at the launch")
    return result
