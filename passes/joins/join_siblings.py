"""Elementwise loops that stand one after the other inside a row, over the same positions, become one.

    for j in 0 .. N parallel:                   for j in 0 .. N parallel:
      D[r, j] = P[r, j] * (G[r, j] - s)    →      let v = P[r, j] * (G[r, j] - s)
    for k in 0 .. N parallel:                     D[r, j] = v
      parts[c, k] add= D[r, k]                    parts[c, j] add= v

What both read is loaded once, and what the first stores need not be loaded again, so it may go past the caches.

Two perfect nests of parallel loops of the same extents become one where the second reads something of the first, and what one writes and the other touches is touched at the iteration's own position in both.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.expr import ONE, Expr, load, var
from ...ir.kernel import Block, Kernel, Let, Loop, Stmt, Store, nested, perfect, statements, substitute_block, with_blocks, written
from ...ir.record import replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.statement import same
from ...ir.walks import postorder
from .join_loops import PerfectNest

MOST = 8  # buffers that one loop goes through side by side: each is a stream for the prefetchers of a machine


def with_joined_siblings(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """The kernel with such loops joined, inside other loops; `names` are taken elsewhere."""
    own = Names((*names, *defined(kernel.body)))
    body = [_inside(s, own) for s in kernel.body]
    return kernel if same(body, kernel.body) else replace(kernel, body=tuple(body))


def _inside(s: Stmt, names: Names) -> Stmt:
    def joined(block: Block) -> Block:
        result: list[Stmt] = []
        for t in block:
            t = _inside(t, names)
            one = _joined(result[-1], t, names) if result and isinstance(s, Loop) else None
            if one is None:
                result.append(t)
            else:
                result[-1] = one
        return block if same(result, block) else tuple(result)

    return with_blocks(s, joined)


def _nest(s: Stmt) -> PerfectNest | None:
    loops, block = perfect((s,), lambda x: x.kind == "parallel" and x.step is ONE)
    return PerfectNest(tuple(loops), block) if loops and all(isinstance(t, (Let, Store)) for t in block) else None


def _joined(a: Stmt, b: Stmt, names: Names) -> Stmt | None:
    """Both as one nest; None where they are no such pair."""
    first, second = _nest(a), _nest(b)
    if first is None or second is None or first.extents != second.extents:
        return None
    axes = [var(x.axis) for x in first.loops]
    body = substitute_block(unique_locals(second.body, names.fresh), {var(y.axis): x for x, y in zip(axes, second.loops, strict=True)})
    touched = [places(first.body), places(body)]
    shared = touched[0].keys() & touched[1].keys()
    if not shared or len(touched[0].keys() | touched[1].keys()) > MOST:
        return None
    if not any(at in touched[0][name] for name in shared for at in touched[1][name]):
        return None
    for name in shared & (written(first.body) | written(body)):
        at = {*touched[0][name], *touched[1][name]}
        if len(at) > 1 or not all(any(e is x for e in next(iter(at))) for x in axes):
            return None
    kept, known = named(first.body, names)
    return nested(first.loops, (*kept, *substitute_block(body, known)))[0]


def places(block: Block) -> dict[str, dict[tuple[Expr, ...], None]]:
    """Where each buffer is touched."""
    found: dict[str, dict[tuple[Expr, ...], None]] = {}
    for s in statements(block):
        for n in postorder(*s.expressions()):
            if n.op == "load":
                found.setdefault(n.attr, {})[n.args] = None
        if isinstance(s, Store):
            found.setdefault(s.buffer, {})[s.index] = None
    return found


def named(block: Block, names: Names) -> tuple[Block, dict[Expr, Expr]]:
    """The statements with a name for what each buffer is given, and the names for what a load would give after them."""
    stores = [s.buffer for s in block if isinstance(s, Store)]
    result: list[Stmt] = []
    known: dict[Expr, Expr] = {}
    for s in block:
        if isinstance(s, Store) and not s.combiner and stores.count(s.buffer) == 1:
            value = var(names.fresh("v"), s.value.dtype)
            result += [Let(value.attr, s.value), replace(s, value=value)]
            known[load(s.buffer, s.value.dtype, *s.index)] = value
        else:
            result.append(s)
    return tuple(result), known
