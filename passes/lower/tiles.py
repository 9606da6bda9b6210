"""Loops of the kind `tile` become statements, and a thread says when it uses its tile registers.

for s in 0 .. n:                                                           multiply tile_bf16 32 by 32 into acc[0, 32] from A[a, 512, 16] and B[b, 512, 32] over n
  for i in 0 .. 32 tile:
    for j in 0 .. 32 tile:                                            →
      for k in 0 .. 16 tile:
        acc[i·32 + j] = ins.dot2_bf16(acc[i·32 + j], A[a + s·512 + i·16 + k], B[b + s·512 + k·32 + j])

Sums that are zeros right before it are none: it begins anew, in registers.
"""

from __future__ import annotations

from ...ir import polynomial as pl
from ...ir.errors import CompilerBug
from ...ir.expr import ONE, ZERO, Expr, const, var
from ...ir.instructions import TILES
from ...ir.program import Block, For, If, Multiply, Region, Stmt, StoreTo, Tiles, While, map_block, statements, with_blocks, with_body
from ...ir.record import replace
from ...ir.walks import substitute
from ..schedule.affine import minus
from .words import parts


def tiles(body: Block) -> Block:
    """The body without loops of the kind `tile`."""

    def one(s: Stmt) -> Block | None:
        if (
            isinstance(s, For)
            and s.pragma == "tile"
            and isinstance(s.body[0], For)
            and s.body[0].pragma == "tile"
            and isinstance(s.body[0].body[0], For)
        ):
            return (_product(s),)
        if isinstance(s, For) and s.pragma == "" and s.step is ONE and len(s.body) == 1 and isinstance(m := s.body[0], Multiply) and m.steps is ONE:
            return _repeated(s, m)
        return None

    return _anew(map_block(body, one))


def _anew(body: Block) -> Block:
    """The body without loops that clear sums right before a product; where that is made in one branch alone, the other clears them."""
    if not _used(body):
        return body
    result: list[Stmt] = []
    for s in body:
        s = with_blocks(s, _anew)
        m = s.body[0] if isinstance(s, If) and len(s.body) == 1 else s
        clearing = result[-1] if result else None
        if isinstance(m, Multiply) and not m.anew and isinstance(clearing, For) and _clears(clearing, m):
            result.pop()
            first = replace(m, anew=True)
            s = If(s.condition, (first,), (clearing, *s.orelse)) if isinstance(s, If) else first
        result.append(s)
    return tuple(result)


def _clears(rows: For, m: Multiply) -> bool:
    """Whether two loops store zeros where a product adds its sums, all of them and nowhere else."""
    columns, *others = rows.body
    if others or not isinstance(columns, For):
        return False
    s, *others = columns.body
    if others or not isinstance(s, StoreTo):
        return False
    whole = all(x.start is ZERO and x.step is ONE and x.stop.is_const and x.stop.attr == n for x, n in ((rows, m.rows), (columns, m.columns)))
    place = m.address + var(rows.var) * m.row + var(columns.var)
    return whole and s.buffer == m.buffer and s.value is const(0, s.value.dtype) and s.count is None and minus(s.address, place) is ZERO


def _product(rows: For) -> Multiply:
    """A nest over the rows, the columns and the words of one product."""
    nest = [rows]
    while isinstance(inner := nest[-1].body[0], For):
        nest.append(inner)
    i, j, k = (var(loop.var) for loop in nest)
    s = nest[-1].body[0]
    if not isinstance(s, StoreTo) or s.value.op != "ins":
        raise CompilerBug("lower", f"the tile over {rows.var} is no product")
    _, left, right = s.value.args
    turned = i.attr in right.names
    instruction = next(t.name for t in TILES.values() if t.dot.name == s.value.attr and (t.turned is turned or t.dot.left is t.dot.right))
    if turned:
        left, right = right, left
    start = dict.fromkeys((i, j, k), ZERO)

    def step(address: Expr, axis: Expr) -> Expr:
        return minus(substitute(address, {**start, axis: ONE}), substitute(address, start))

    def place(e: Expr, axis: Expr) -> tuple[str, Expr, Expr, Expr]:
        if e.op == "load":
            return e.attr, substitute(e.args[0], start), ZERO, step(e.args[0], axis)
        first, *others = parts(e)
        return first.attr, substitute(first.args[0], start), ZERO, _words(step(first.args[0], axis), len(others) + 1)

    result, row = substitute(s.address, start), step(s.address, i)
    neighbours = len(parts(left)) or 1
    return Multiply(
        instruction, nest[0].stop.attr, nest[1].stop.attr, s.buffer, result, row, place(left, i), place(right, k), ONE, neighbours=neighbours
    )


def _repeated(loop: For, m: Multiply) -> Block | None:
    """A product for each step of a loop along the reduction, as one; None where the loop goes on to other results."""
    at = var(loop.var)
    if loop.var in m.address.names:
        return None
    (a, left, _, far), (b, right, _, wide) = m.left, m.right
    moved = [minus(substitute(e, {at: at + 1}), e) for e in (left, right)]
    if any(loop.var in e.names for e in moved):
        return None
    moved[0] = _words(moved[0], m.neighbours)
    left, right = (substitute(e, {at: loop.start}) for e in (left, right))
    steps = minus(loop.stop, loop.start)
    return (replace(m, left=(a, left, moved[0], far), right=(b, right, moved[1], wide), steps=steps),)


def _words(distance: Expr, elements: int) -> Expr:
    """A distance that is a number of words, counted in elements, in words."""
    if any(c % elements for c in pl.poly(distance).values()):
        raise CompilerBug("lower", f"{distance!r} elements are no whole words")
    return pl.expr({monomial: c // elements for monomial, c in pl.poly(distance).items()})


def registers(body: Block) -> Block:
    """The body with tile registers taken around what uses them, by each thread for itself, as seldom as may be."""
    return body if not _used(body) else _around(body)


def _used(body: Block) -> bool:
    return any(isinstance(s, Multiply) for s in statements(body))


def _around(body: Block) -> Block:
    result: list[Stmt] = []
    for s in body:
        if not _used((s,)):
            result.append(s)
        elif isinstance(s, For) and s.pragma == "parallel":
            result.append(with_body(s, _taken(s.body)))
        elif isinstance(s, (If, Region)) or (isinstance(s, (For, While)) and _forks(s.body)):
            result.append(with_blocks(s, _around))
        else:
            result += _taken((s,))
    return tuple(result)


def _taken(body: Block) -> Block:
    return (Tiles(True), *body, Tiles(False))


def _forks(body: Block) -> bool:
    """Whether threads begin, meet or part inside."""
    return any(isinstance(s, Region) or (isinstance(s, For) and s.pragma in ("parallel", "workshare", "queue")) for s in statements(body))
