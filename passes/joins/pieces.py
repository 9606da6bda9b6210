"""Inside a block, what makes an operand of a contraction and the contraction go through its depth in pieces.

    for c in 0 .. 9·C: T[c, o] = …                             for t, o: D[t, o] = 0
    for c in 0 .. C: U[c, o] = f(T[9·c, o], …)                 for piece:
    for t, o: D[t, o] = Σ_c V[t, c] U[c, o]             →        for c in 0 .. 9·deep: T[c, o] = …
                                                                 for c in 0 .. deep: U[c, o] = f(T[9·c, o], …)
                                                                 for t, o: D[t, o] += Σ_c V[t, from + c] U[c, o]

However deep a contraction is, a block then holds the same of its operand, and each piece is multiplied while it is near.  A *maker* goes through the depth in one outermost loop, a multiple of it as long, and touches what is
cut at its own positions alone; what cannot be cut is made whole before.  The sum is added up in pieces, so not under --strict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir import polynomial as pl
from ...ir.bounds import Known, Range, bounds
from ...ir.expr import ONE, ZERO, Expr, ceildiv, const, minimum, var
from ...ir.kernel import Alloc, Block, Buffer, Let, Loop, Stmt, Store, map_expressions, statements, with_body
from ...ir.record import record, replace
from ...ir.renaming import Names, unique_locals
from ..schedule.roles import Contraction
from .blocks import substitute_around
from .rows import Rows

LEAST, MOST = 16, 256  # of a piece: sums come and go once for each, so short ones cost more than they save


@record
class Pieces:
    """Which kernels go through the depth in pieces, and what is cut: of each tensor the axis, and how many positions of it belong to one of the depth."""

    makers: Mapping[int, int]  # how many iterations of the outermost loop belong to one of the depth
    axes: Mapping[str, int]
    spans: Mapping[str, int]
    length: Expr
    depth: int = 0  # of a piece, at most

    def shape(self, b: Buffer, shape: tuple[Expr, ...], apart: bool = False) -> tuple[Expr, ...]:
        """The shape of a tensor of which a block holds one piece.  `apart`: planes do not all begin at one place of the first cache."""
        if b.name not in self.axes:
            return shape
        k = self.axes[b.name]
        extent = minimum(self.length, const(self.depth)) * self.spans[b.name]
        return (*shape[:k], extent + 1 if apart and k else extent, *shape[k + 1 :])


def pieces_of(
    kernels: Mapping[int, Rows], at: int, roles: Contraction, own: frozenset[str], known: Known, there: Callable[[Expr], Expr]
) -> Pieces | None:
    """How the kernels of a block, of which one is the contraction, may go through its depth; `own`: the tensors that a block keeps.  None where they do not."""
    product = _sum(kernels[at].inside(len(kernels[at].chain)))
    operands = [n for n in roles.column_operands if n in own]
    if product is None or len(operands) != 1 or len(roles.reduced) != 1 or roles.output not in own:
        return None
    axis, length = roles.reduced[0], there(product[1].stop)
    cut = _cut(kernels[at].accesses[operands[0]], axis, ())
    if cut is None or cut[1] != 1:
        return None
    axes, spans, makers = {operands[0]: cut[0]}, {operands[0]: 1}, dict[int, int]()
    waiting = [operands[0]]
    while waiting:
        name = waiting.pop()
        users = [k for k, r in kernels.items() if k not in (at, *makers) and r.accesses.get(name)]
        for k in users:
            found = _maker(kernels[k], axes, spans, length, known, there)
            if found is None or k > at:
                return None
            makers[k] = found
            for other in sorted(kernels[k].read & own - axes.keys()):
                outside = [r for j, r in kernels.items() if j >= at and r.accesses.get(other)]
                cut = _cut(kernels[k].accesses[other], kernels[k].chain[0].axis, kernels[k].body, known)
                if cut is not None and not outside:
                    axes[other], spans[other] = cut[0], cut[1] * found
                    waiting.append(other)
    written = {n for k in makers for n in kernels[k].written}
    return Pieces(makers, axes, spans, length) if makers and written == axes.keys() else None


def _sum(body: Block) -> tuple[Store, Loop, Store] | None:
    """What a scalar sum is: from zero, one loop, and the store of the sum itself."""
    match [s for s in body if not isinstance(s, Alloc)]:
        case [Store() as first, Loop(kind="reduce") as loop, Store(combiner="") as last]:
            inner = [s for s in statements(loop.body) if isinstance(s, Store)]
            zero = first.value.is_const and first.value.attr == 0
            same = all(s.buffer == first.buffer and s.combiner == "add" for s in inner)
            if zero and same and last.value.op == "load" and last.value.attr == first.buffer and last.value.dtype is first.value.dtype:
                return first, loop, last
        case _:
            pass
    return None


def _cut(accesses: list[tuple[Expr, ...]], axis: str, body: Block, known: Known | None = None) -> tuple[int, int] | None:
    """The one axis of a tensor that a loop goes along, and how many positions of it belong to one iteration: each touches its own alone."""
    ranges = {
        x.axis: Range(ZERO, x.stop - 1) for x in statements(body) if isinstance(x, Loop) and x.axis != axis and x.start is ZERO and x.step is ONE
    }
    inside = known.with_ranges(ranges) if known is not None else None
    found: set[tuple[int, int]] = set()
    for index in accesses:
        along = [k for k, e in enumerate(index) if axis in e.names]
        if len(along) != 1:
            return None
        coefficient, rest = pl.coefficient(pl.poly(index[along[0]]), var(axis))
        if not pl.is_constant(coefficient) or (span := int(pl.expr(coefficient).attr)) < 1 or any(axis in a.names for m in rest for a in m):
            return None
        if rest:
            least, most, _ = bounds(pl.expr(rest), inside) if inside is not None else (None, None, 0)
            if least is None or most is None or least < 0 or most >= span:
                return None
        found.add((along[0], span))
    return found.pop() if len(found) == 1 else None


def _maker(kernel: Rows, axes: Mapping[str, int], spans: Mapping[str, int], length: Expr, known: Known, there: Callable[[Expr], Expr]) -> int | None:
    """How many iterations of a kernel's outermost loop belong to one position of the depth; None where it is no maker."""
    plain = all(isinstance(s, (Alloc, Let, Loop, Store)) for s in statements(kernel.kernel.body))
    if not plain or len(kernel.kernel.body) != 1 or not kernel.chain or kernel.body[0] is not kernel.chain[0]:
        return None
    loop = kernel.chain[0]
    times, left = pl.divided(pl.poly(there(loop.stop)), pl.poly(length))
    if left or not pl.is_constant(times) or not times:
        return None
    each = int(pl.expr(times).attr)
    for name in axes:
        if kernel.accesses.get(name) and _cut(kernel.accesses[name], loop.axis, kernel.body, known) != (axes[name], spans[name] // each):
            return None
    return each


def in_pieces(parts: Mapping[int, Block], at: int, pieces: Pieces, own: Mapping[str, Buffer], names: Names) -> Block:
    """The statements of a block, of each kernel its own, with the makers and the contraction in one loop over pieces."""
    piece, start, deep = (names.fresh(n) for n in ("piece", "start", "deep"))
    cut = frozenset(own[n].name for n in pieces.axes)
    first = [s for k, body in parts.items() if k < at and k not in pieces.makers for s in body]
    last = [s for k, body in parts.items() if k > at for s in body]
    inside: list[Stmt] = [Let(start, var(piece) * pieces.depth), Let(deep, minimum(const(pieces.depth), pieces.length - var(start)))]
    for k, each in sorted(pieces.makers.items()):
        (loop,) = parts[k]
        assert isinstance(loop, Loop)
        body = _shifted(loop.body, loop.axis, var(start) * each, cut)
        inside.append(replace(loop, stop=var(deep) * each, body=body))

    def walk(block: Block, zero: bool) -> Block:
        found = _sum(block)
        if found is None:
            return tuple(with_body(s, walk(s.body, zero)) if isinstance(s, Loop) else s for s in block)
        _, loop, store = found
        if zero:
            return (replace(store, value=const(0, store.value.dtype)),)
        sums = replace(loop, stop=var(deep), body=_shifted(loop.body, loop.axis, var(start), cut))
        return tuple(sums if s is loop else replace(store, combiner="add") if s is store else s for s in block)

    zeros = unique_locals(walk(parts[at], True), names.fresh)
    body = (*inside, *walk(parts[at], False))
    return (*first, *zeros, Loop(piece, ZERO, ceildiv(pieces.length, pieces.depth), body, "serial"), *last)


def _shifted(body: Block, axis: str, by: Expr, cut: frozenset[str]) -> Block:
    """Statements of one iteration further on, but for what is cut: that is the piece's own."""
    moved = {var(axis): var(axis) + by}

    def expr(e: Expr) -> Expr:
        return substitute_around(e, moved, cut, lambda n: n)

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            index = s.index if s.buffer in cut else tuple(map(expr, s.index))
            return replace(s, index=index, value=expr(s.value))
        if isinstance(s, Loop):
            return replace(s, start=expr(s.start), stop=expr(s.stop), body=tuple(map(stmt, s.body)))
        return map_expressions((s,), expr)[0]

    return tuple(map(stmt, body))
