"""The step that leaves out what a mask along a reduction makes nothing of: `confine`."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.bounds import fact
from ....ir.conditions import conjuncts
from ....ir.expr import ONE, TRUE, ZERO, Expr, const, floordiv, maximum, minimum, var
from ....ir.kernel import Kernel, Loop, Store, identity_of, map_expressions, statements
from ....ir.polynomial import expr, is_constant, linear
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import substitute
from ..affine import constant_extent, extreme, inside, minus
from ..tree import Facts, StepError, around, replace_loop, simple


def confine(kernel: Kernel, facts: Facts, depth: str) -> Kernel:
    """Run the loop over `depth` only where a mask of what it adds up may hold for some element of a tile.

        for i.0:                                                     for i.0:
          for p in 0 .. K:                                             for p in 0 .. min(K, 14·i.0 + 14):
            for i.1 in 0 .. 14:                               →          for i.1 in 0 .. 14:
              for j.1 in 0 .. 32:                                          for j.1 in 0 .. 32:
                acc[i.1, j.1] add= where(p <= 14·i.0 + i.1,                  acc[i.1, j.1] add= …
                                         A[14·i.0 + i.1, p], 0) * B[p, j.1]

    The loop is a reduction in steps of 1 that accumulates by one statement.  A mask is a condition on positions, linear in that of `depth`, beside which the term is what changes nothing: it stands around the term or
    around a factor of it, for a term whose weight is 0 may be dropped (under --strict it may not).  It moves with a loop around `depth` that is no reduction: other conditions are for the loop's own borders.
    """
    path = around(kernel, depth)
    loop = path[-1]
    stores = [s for s in statements((loop,)) if isinstance(s, Store)]
    if not isinstance(loop, Loop) or loop.kind != "reduce" or loop.step is not ONE or len(stores) != 1 or not stores[0].combiner:
        raise StepError(f"confine: `{depth}` is no reduction in steps of 1 that accumulates by one statement")
    (store,) = stores
    outside = {s.axis: s.kind not in ("reduce", "serial") for s in path[:-1] if isinstance(s, Loop)}
    inner = {s.axis: n - 1 for s in statements(loop.body) if isinstance(s, Loop) and s.start is ZERO and (n := constant_extent(s))}
    start, stop = loop.start, loop.stop
    done: dict[Expr, Expr] = {}
    for condition in _masks(store.value, identity_of(store.combiner, store.value.dtype), facts.strict):
        found = _ends(condition, depth, inner)
        for low, end in found:
            names = (low or end or ZERO).names
            if names <= outside.keys() | facts.sizes.keys() and any(outside.get(x) for x in names):
                start = start if low is None else maximum(start, low)
                stop = stop if end is None else minimum(stop, end)
                if len(found) == 1 and condition.names.isdisjoint(inner):
                    done[condition] = TRUE
    if start is loop.start and stop is loop.stop:
        raise StepError(f"confine: no mask of what `{depth}` adds up moves with a loop around it")
    known = inside(path[:-1], facts.known)
    body = map_expressions(loop.body, lambda e: simple(substitute(e, done))) if done else loop.body
    return replace_loop(kernel, depth, lambda x: (replace(x, start=simplify(start, known), stop=simplify(stop, known), body=body),))


def _masks(value: Expr, nothing: Expr, strict: bool) -> Iterator[Expr]:
    """Conditions without each of which a value is `nothing`; where rules are strict, 0 times a factor is what that makes of it."""
    stack = [value]
    while stack:
        n = stack.pop()
        if n.op == "where" and n.args[2].is_const and n.args[2].attr == nothing.attr:
            yield from conjuncts(n.args[0])
            stack.append(n.args[1])
        elif nothing.attr == 0 and n.op in (("neg", "cast") if strict else ("mul", "neg", "cast")):
            stack += n.args


def _ends(condition: Expr, depth: str, inner: dict[str, int]) -> list[tuple[Expr | None, Expr | None]]:
    """Where along the reduction a condition on positions may hold first, or no longer, for some iteration of the inner loops."""
    ends: list[tuple[Expr | None, Expr | None]] = []
    for p in fact(condition):
        found = linear(p, var(depth))
        if found is None or not is_constant(found[0]):
            continue
        slope, rest = found[0].get((), 0), expr(found[1])
        for axis in sorted(rest.names & inner.keys()):
            most = extreme(rest, axis, ZERO, const(inner[axis]), largest=True)
            if most is None:
                break
            rest = most
        if rest.buffers or not rest.names.isdisjoint({*inner, depth}):
            continue
        if slope > 0:
            ends.append((minus(ZERO, floordiv(rest, const(slope))), None))
        else:
            ends.append((None, floordiv(rest, const(-slope)) + 1))
    return ends
