"""join: kernels → kernels.  Elementwise kernels over one domain become one, and hand values on in registers.

    kernel 0:                                kernel 0:
      for i in 0 .. N:                         for i in 0 .. N:
        M[i] = 0.9 * M[i] + 0.1 * G[i]           let m = 0.9 * M[i] + 0.1 * G[i]
    kernel 1:                          →         M[i] = m
      for i in 0 .. N:                           P[i] = P[i] - lr * m
        P[i] = P[i] - lr * M[i]

What two such kernels both touch is moved once, and what one hands to the other is not read again (nor stored, where it is a temporary that nobody else reads): they never move more bytes together than apart.

A kernel joins an earlier one where both are perfect nests of parallel loops over the same extents, around stores and lets; that store elements of one width; where whatever one of them writes is touched by both at
one position alone, which each point of the domain has for itself; and where it may run before the kernels between them, which write nothing that it touches and touch nothing that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import Expr, load, var
from ..ir.kernel import Block, Let, Loop, Module, Stmt, Store, nested, reads, written
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute
from .joins.rows import Rows, common_depth, joined, one_after_the_other, rows_of

MOST = 64  # statements of a joined body: more values than registers help nobody
STREAMS = 12  # tensors that one loop moves: prefetchers and write buffers follow no more


def join(ir: Module, target: Target, options: Options) -> Module:
    if len(ir.kernels) < 2:
        return ir
    kernels = joined(rows_of(ir), _together)
    if len(kernels) == len(ir.kernels):
        return ir
    numbered = tuple(replace(r.kernel, name=f"{ir.name}_{n}") for n, r in enumerate(kernels))
    return _without_unread(ir.with_kernels(numbered))


def _pointwise(r: Rows) -> bool:
    """Whether there are loops, and all that is inside them are stores and lets."""
    depth = len(r.chain)
    inside = all(isinstance(s, Let) or (isinstance(s, Store) and not s.combiner) for s in r.inside(depth))
    return depth > 0 and inside and not r.few and not r.kernel.schedule


def _together(a: Rows, b: Rows) -> Rows | None:
    """What the two do at each point, one after the other, what the second reads of the first handed on in registers."""
    buffers = {*a.kernel.buffers, *b.kernel.buffers}
    if not _pointwise(a) or not _pointwise(b) or len(buffers) > STREAMS or not {*a.kernel.buffers} & {*b.kernel.buffers}:
        return None
    depth = len(a.chain)
    bodies = (a.inside(depth), b.inside(len(b.chain)))
    if common_depth(a, b) != depth or len(b.chain) != depth or sum(map(len, bodies)) > MOST or _widths(bodies[0]) != _widths(bodies[1]):
        return None
    one = one_after_the_other(a, b, depth)
    if not _apart(one.inside(depth), a.written | b.written, one.chain):
        return None
    names = Names((*one.sizes, *one.buffers, *defined(one.kernel.body)))
    body = (*one.before, *nested(one.chain, _handed_on(one.inside(depth), names)))
    return replace(one, kernel=replace(one.kernel, body=body))


def _widths(body: Block) -> set[tuple[int, bool]]:
    """Of what is stored: one vector loop has one width, and bools are none."""
    return {(s.value.dtype.bits, s.value.dtype.kind == "bool") for s in body if isinstance(s, Store)}


def _apart(body: Block, changed: frozenset[str], loops: Iterable[Loop]) -> bool:
    """Whether every buffer that is written is touched at one position alone, and no other point of the domain touches that."""
    at: dict[str, set[tuple[Expr, ...]]] = {}
    for s in body:
        if isinstance(s, Store):
            at.setdefault(s.buffer, set()).add(s.index)
        for n in postorder(*s.expressions()):
            if n.op == "load":
                at.setdefault(n.attr, set()).add(n.args)
    axes = [var(x.axis) for x in loops]
    return all(len(at[b]) == 1 and all(next(iter(at[b])).count(v) == 1 for v in axes) for b in sorted(changed))


def _handed_on(body: Block, names: Names) -> Block:
    """What is loaded after it was stored is a name for what was stored."""
    loaded = {*reads(body)}
    known: dict[Expr, Expr] = {}
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, Let):
            result.append(Let(s.name, substitute(s.value, known)))
            continue
        assert isinstance(s, Store)
        value = substitute(s.value, known)
        again = load(s.buffer, value.dtype, *s.index)
        if again in loaded and value.args:
            name = names.fresh("t")
            result.append(Let(name, value))
            value = var(name, value.dtype)
        known[again] = value
        result.append(replace(s, value=value))
    return tuple(result)


def _without_unread(ir: Module) -> Module:
    """Temporaries that nobody reads any more are not stored either."""
    read = {n.attr for k in ir.kernels for n in reads(k.body)}
    dead = {t.name for t in ir.temps if t.name not in read}
    if not dead:
        return ir

    def without(block: Block) -> Block:
        kept: list[Stmt] = []
        for s in block:
            if isinstance(s, Loop):
                s = replace(s, body=without(s.body))
            if not (isinstance(s, Store) and s.buffer in dead):
                kept.append(s)
        return tuple(kept)

    rows = rows_of(ir)
    kernels = tuple(replace(r.kernel, body=without(r.kernel.body)) if dead & {*r.kernel.buffers} and _pointwise(r) else r.kernel for r in rows)
    dead -= {b for k in kernels for b in written(k.body)}
    return replace(ir, temps=tuple(t for t in ir.temps if t.name not in dead)).with_kernels(kernels)
