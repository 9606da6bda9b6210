"""Loops are split where a mask begins or ends, and where positions begin again from 0, so that inside each part there is neither.

    for i in 0 .. M + N parallel:                            for i in 0 .. M parallel:
      Y[i] = where(i < M, X[i], Z[i - M])            →         Y[i] = X[i]
                                                             for i1 in M .. M + N parallel:
                                                               Y[i1] = Z[i1 - M]

    for i in 0 .. M parallel:                                for i in 0 .. 1 parallel:
      Y[i] = X[(i - 1) % M]                          →         Y[i] = X[M - 1]
                                                             for i1 in 1 .. M parallel:
                                                               Y[i1] = X[i1 - 1]

A short axis inside of others that is cut at each position is no loop any more: its positions are values of their row.

What only every other position reads, or every third, ends at no cut.  Where it may be read everywhere, it is, before the choice: so lanes side by side have one form.

    for i in 0 .. 2*M - 2 parallel:                          for i in 0 .. 2*M - 2 parallel:
      Y[i] = where(i % 2 <= 0, X[i//2], X[i//2 + 1])  →        let x = X[i//2]
                                                               let x1 = X[i//2 + 1]
                                                               Y[i] = where(i % 2 <= 0, x, x1)

Only in kernels without reductions: a contraction wants one nest, whose tails its schedule masks.  A cut is a bound of the loop's variable that a condition of a
`where` compares it with, or at which a remainder turns that it moves by one, free of other variables; more than MAX_PARTS parts are left to the mask, counted for each
part of an outermost loop of a known extent by itself: what is stacked of tensors that are each rolled another way has as many nests as tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.bounds import Known
from ...ir.conditions import conjuncts
from ...ir.dtypes import INDEX
from ...ir.expr import ONE, ZERO, Expr, both, in_range, maximum, minimum, var
from ...ir.graph import Shape
from ...ir.kernel import Alloc, Block, Let, Loop, Stmt, Store, map_expressions, statements, substitute_block
from ...ir.polynomial import coefficient, degree, expr, is_constant, poly, scaled
from ...ir.record import replace
from ...ir.renaming import unique_locals
from ...ir.simplify import assuming, prove, prove_le, simplify
from ...ir.walks import postorder, substitute

MAX_PARTS = 9


def split_borders(block: Block, known: Known, fresh: Callable[[str], str], shapes: Mapping[str, Shape]) -> Block:
    """`fresh` gives the names of the axes of further parts; `shapes` are those of the memory that is read."""
    if any(isinstance(s, Alloc) or (isinstance(s, Loop) and s.kind != "parallel") for s in statements(block)):
        return block
    split = [_split(s, known, fresh) for s in block]
    apart = [[(t,) for t in parts] if isinstance(s, Loop) and s.stop.is_const else [parts] for s, parts in zip(block, split, strict=True)]
    few = all(_loops(part) <= MAX_PARTS * _loops((s,)) for s, parts in zip(block, apart, strict=True) for part in parts)
    return _read_first(tuple(t for parts in split for t in parts) if few else block, known, fresh, shapes)


def _loops(block: Block) -> int:
    return sum(isinstance(s, Loop) for s in statements(block))


def _read_first(block: Block, known: Known, fresh: Callable[[str], str], shapes: Mapping[str, Shape], axis: str = "") -> Block:
    """What stands under a choice by remainders of the loop around, `axis`, and is inside its memory at every position, is read before it."""
    result: list[Stmt] = []
    for s in block:
        if isinstance(s, Loop):
            v = var(s.axis)
            inside = assuming(known.with_ranges({s.axis: (s.start, s.stop - 1, 1)}), both(v.lt(s.stop), s.start.le(v)))
            result.append(replace(s, body=_read_first(s.body, inside, fresh, shapes, s.axis)))
            continue
        if isinstance(s, (Let, Store)) and (
            found := [n for n in _chosen(s.value, axis) if n.attr in shapes and prove(in_range(n.args, shapes[n.attr]), known)]
        ):
            names = {n: fresh("x") for n in found}
            result += [Let(name, n) for n, name in names.items()]
            s = replace(s, value=substitute(s.value, {n: var(name, n.dtype) for n, name in names.items()}))
        result.append(s)
    return tuple(result)


def _chosen(value: Expr, axis: str) -> list[Expr]:
    """What is read at known positions on either side of a choice by remainders of this axis, each once."""
    found: dict[Expr, None] = {}
    for n in postorder(value):
        if n.op == "where" and n.args[0].is_position and any(m.op == "mod" and axis in m.names for m in postorder(n.args[0])):
            found.update((x, None) for x in postorder(*n.args[1:]) if x.op == "load" and all(e.is_position for e in x.args))
    return list(found)


def _split(s: Stmt, known: Known, fresh: Callable[[str], str], outermost: bool = True) -> Block:
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
        parts.append(replace(part, body=tuple(t for b in body for t in _split(b, inside, fresh, False))))
        start = at if prove_le(start, at, known) else simplify(maximum(start, at), known)
    if not outermost and all(isinstance(part, Loop) and part.start.is_const and part.stop is part.start + 1 for part in parts):
        return tuple(t for part in parts if isinstance(part, Loop) for t in substitute_block(part.body, {var(part.axis): part.start}))
    return tuple(parts)


def _cuts(loop: Loop, known: Known) -> list[Expr]:
    """Positions inside the loop, in increasing order, at which some condition of a `where` turns."""
    extent = loop.stop
    found: list[Expr] = []
    for s in statements(loop.body):
        for n in postorder(*s.expressions()):
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
