"""Loops are split where a mask begins or ends, and where positions begin again from 0, so that inside each part there is neither.

    for i in 0 .. M + N parallel:                            for i in 0 .. M parallel:
      Y[i] = where(i < M, X[i], Z[i - M])            →         Y[i] = X[i]
                                                             for i1 in M .. M + N parallel:
                                                               Y[i1] = Z[i1 - M]

    for i in 0 .. M parallel:                                for i in 0 .. 1 parallel:
      Y[i] = X[(i - 1) % M]                          →         Y[i] = X[M - 1]
                                                             for i1 in 1 .. M parallel:
                                                               Y[i1] = X[i1 - 1]

Only in kernels without reductions: a contraction wants one nest, whose tails its schedule masks.  A cut is a bound of the loop's variable that a condition of a
`where` compares it with, or at which a remainder turns that it moves by one, free of other variables; more than MAX_PARTS parts are left to the mask.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bounds import Known
from ..ir.conditions import conjuncts
from ..ir.dtypes import INDEX
from ..ir.expr import ONE, ZERO, Expr, both, maximum, minimum, var
from ..ir.kernel import Alloc, Block, Loop, Stmt, expressions, map_expressions, statements
from ..ir.polynomial import coefficient, degree, expr, is_constant, poly, scaled
from ..ir.record import replace
from ..ir.renaming import unique_locals
from ..ir.simplify import assuming, prove_le, simplify
from ..ir.walks import postorder

MAX_PARTS = 9


def split_borders(block: Block, known: Known, fresh: Callable[[str], str]) -> Block:
    """`fresh` gives the names of the axes of further parts."""
    if any(isinstance(s, Alloc) or (isinstance(s, Loop) and s.kind != "parallel") for s in statements(block)):
        return block
    split = tuple(t for s in block for t in _split(s, known, fresh))
    return split if sum(isinstance(s, Loop) for s in statements(split)) <= MAX_PARTS * sum(isinstance(s, Loop) for s in statements(block)) else block


def _split(s: Stmt, known: Known, fresh: Callable[[str], str]) -> Block:
    if not isinstance(s, Loop) or s.step is not ONE or s.start is not ZERO:
        return (s,)
    cuts = _cuts(s, known)
    parts: list[Stmt] = []
    start = ZERO
    for at in (*cuts, s.stop):
        # an empty part may end before it starts; the next one starts where the last cut so far is
        stop = at if prove_le(at, s.stop, known) else simplify(minimum(at, s.stop), known)
        part: Stmt = replace(s, start=start, stop=stop)
        if parts:
            (part,) = unique_locals((part,), fresh)
        assert isinstance(part, Loop)
        v = part.axis
        inside = assuming(known.with_ranges({v: (start, stop - 1, 1)}), both(var(v).lt(stop), var(v).lt(s.stop)))
        body = map_expressions(part.body, lambda e, inside=inside: simplify(e, inside)) if cuts else part.body
        parts.append(replace(part, body=tuple(t for b in body for t in _split(b, inside, fresh))))
        start = at if prove_le(start, at, known) else simplify(maximum(start, at), known)
    return tuple(parts)


def _cuts(loop: Loop, known: Known) -> list[Expr]:
    """Positions inside the loop, in increasing order, at which some condition of a `where` turns."""
    extent = loop.stop
    found: list[Expr] = []
    for s in statements(loop.body):
        for n in postorder(*expressions(s)):
            if n.op == "where" and n.args[0].is_position:
                for c in conjuncts(n.args[0]):
                    at = _turning(c, var(loop.axis))
                    if at is not None:
                        found.append(simplify(at, known))
            elif n.op in ("mod", "floordiv") and n.dtype is INDEX:
                found += [simplify(at, known) for at in _wrapping(n, loop, known)]
    cuts: list[Expr] = []
    for at in dict.fromkeys(found):
        if prove_le(at, ZERO, known) or prove_le(extent, at, known):
            continue
        after = [c for c in cuts if prove_le(at, c, known)]
        cuts = [*(c for c in cuts if c not in after), at, *after]
    return cuts


def _wrapping(n: Expr, loop: Loop, known: Known) -> list[Expr]:
    """Where the position in `position % size` reaches 0 or the size, of a loop that passes each remainder about once."""
    position, size = n.args
    if not prove_le(loop.stop, size + 1, known):
        return []
    turns = [_turning(position.lt(end), var(loop.axis)) for end in (ZERO, size)]
    return [at for at in turns if at is not None]


def _turning(condition: Expr, v: Expr) -> Expr | None:
    """The least value of v on the other side:  v < e, e <= v → e;  v <= e, e < v → e + 1.  None where the condition is no plain bound of v."""
    if condition.op not in ("less_than", "less_equal") or condition.args[0].dtype is not INDEX:
        return None
    a, b = condition.args
    p = poly(b + a * -1)
    if degree(p, v) != 1:
        return None
    slope, rest = coefficient(p, v)
    if not is_constant(slope) or abs(slope[()]) != 1 or any(n.op == "var" for n in postorder(expr(rest))):
        return None
    # slope·v + rest >= 0 (or > 0)
    strict = 1 if condition.op == "less_than" else 0
    if slope[()] > 0:
        return expr(scaled(rest, -1)) + strict
    return expr(rest) + 1 - strict
