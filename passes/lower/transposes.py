"""Square blocks turned over in registers: what one loop would gather, lane by lane, is loaded along the loop around it.

                                                      array block: f32x16[16] register
                                                      array turned: f32x16[16] register
                                                      for k in 0 .. 16 unroll:
                                                        block[k] = vload.16 X[x + k * N]
                                                      for k in 0 .. 8 unroll:
                                                        turned[k * 2] = zip_low(block[k], block[k + 8])
                                                        turned[k * 2 + 1] = zip_high(block[k], block[k + 8])
    for i in 0 .. 16 unroll:                          … three times more, there and back
      Y[y + i * M] =                             →    for i in 0 .. 16 unroll:
          gather.16 X[x + i + ramp * N]                 Y[y + i * M] = block[i]

Zipping rows k and k + n/2 rotates the bits of (row, lane) by one; after log2 n times rows and lanes have changed places.  The loop has as many trips as the vector has
lanes, runs from 0 and holds no other; the gathered address moves by one element with the loop and by a fixed number of elements with the lane, and nothing in the loop
changes that or writes the buffer.  A load that may not be performed is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.dtypes import DType
from ...ir.expr import ONE, ZERO, Expr, const, load, var, vload, zip_halves
from ...ir.program import Array, Assign, Block, Define, For, If, Stmt, StoreTo, expressions, map_block, map_expressions, statements
from ...ir.walks import postorder, substitute
from .affine import slope
from .names import Names

MOST = 16  # rows: more fit in the registers of no machine


def transposes(body: Block, names: Names) -> Block:
    """The body with such blocks loaded along the other axis."""
    return map_block(body, lambda s: _turned(s, names) if isinstance(s, For) else None)


def _turned(loop: For, names: Names) -> Block | None:
    """The loop with every gather of a square block replaced, and before it the blocks; None where there is none."""
    if not (loop.start is ZERO and loop.step is ONE and loop.stop.is_const and loop.pragma in ("", "unroll")):
        return None
    lanes = loop.stop.attr
    if not 2 <= lanes <= MOST or lanes & (lanes - 1) or not any(n.op == "gather" for s in loop.body for n in postorder(*expressions(s))):
        return None
    if not all(isinstance(s, (Define, Assign, StoreTo, If)) for s in statements(loop.body)):
        return None
    i = var(loop.var)
    # what differs between the trips: the loop's variable, and what the body defines or changes
    inner = {loop.var, *(s.name for s in statements(loop.body) if isinstance(s, (Define, Assign)))}
    changed = {s.buffer for s in statements(loop.body) if isinstance(s, StoreTo)}

    def varies(e: Expr) -> bool:
        return not e.names.isdisjoint(inner) or not e.buffers.isdisjoint(changed)

    blocks: list[Stmt] = []
    found: dict[Expr, Expr] = {}
    for s in loop.body:
        for n in _performed(expressions(s)):
            if n in found or n.op != "gather" or n.dtype.lanes != lanes or n.attr in changed:
                continue
            base, growth = _strided(n.args[0])
            if base is None or growth is None or varies(growth) or slope(base, i, varies) is not ONE:
                continue
            block, filling = _block(n.attr, n.dtype, substitute(base, {i: ZERO}), growth, names)
            blocks += filling
            found[n] = load(block, n.dtype, i)
    if not found:
        return None
    body = map_expressions(loop.body, lambda e: substitute(e, found))
    return (*blocks, replace(loop, body=body, pragma="unroll"))


def _performed(roots: tuple[Expr, ...]) -> Iterator[Expr]:
    """The parts that are evaluated whatever the data: not what a `where` chooses between."""
    stack, seen = list(roots), set(roots)
    while stack:
        n = stack.pop()
        yield n
        fresh = [a for a in (n.args[:1] if n.op == "where" else n.args) if a not in seen]
        stack += fresh
        seen.update(fresh)


def _strided(addresses: Expr) -> tuple[Expr | None, Expr | None]:
    """The scalars b and g of `b + ramp * g`, as vectors of addresses are written."""
    if addresses.op == "add":
        base, steps = addresses.args
        if base.op == "broadcast" and steps.op == "mul" and steps.args[0].op == "broadcast" and steps.args[1].op == "ramp":
            return base.args[0], steps.args[0].args[0]
    return None, None


def _block(buffer: str, vector: DType, base: Expr, growth: Expr, names: Names) -> tuple[str, list[Stmt]]:
    """The name of an array of vectors that holds the block turned over, and the statements that fill it."""
    lanes = vector.lanes
    here, there = names.fresh("block"), names.fresh("turned")
    k = names.fresh("k")
    row, half = var(k), const(lanes // 2)
    first = StoreTo(here, row, vload(buffer, vector.element, lanes, base + row * growth))
    result: list[Stmt] = [Array(here, vector, lanes, "register"), Array(there, vector, lanes, "register")]
    result.append(For(k, ZERO, const(lanes), (first,), pragma="unroll"))
    for _ in range(lanes.bit_length() - 1):
        a, b = load(here, vector, row), load(here, vector, row + half)
        pair = (StoreTo(there, row * 2, zip_halves(a, b, high=False)), StoreTo(there, row * 2 + 1, zip_halves(a, b, high=True)))
        result.append(For(k, ZERO, half, pair, pragma="unroll"))
        here, there = there, here
    return here, result
