"""Masked scores: an element does nothing to a reduction where its fill makes the body the combiner's identity, and tiles of nothing else are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING

from ...ir.dtypes import INDEX, bool_
from ...ir.expr import ZERO, Expr, maximum, minimum, var
from ...ir.graph import Node, View, postorder
from ...ir.polynomial import Poly, coefficient, constant, degree, expr, is_constant, plus, poly, scaled, times
from ...ir.primops import OPS
from ...ir.simplify import simplify
from ...ir.walks import postorder as subexpressions
from ..cascades.kept_terms import somewhere
from ..reading import reads_of
from ..walk import Walk

if TYPE_CHECKING:
    from .nest_body import Point
    from .nest_cascade import CascadeLoops

ALONG = var("%along")  # stands for the position along the axis of a cascade while accesses are looked at

INF = float("inf")
IDENTITY = {"add": 0.0, "max": -INF, "min": INF, "or": 0.0}

Interval = tuple[Expr | None, Expr | None]  # of positions along the axis, where its ends are known; behind the last
# What is known of a value: a number (of a condition True or False), or None.  Only what fills lead to: infinities, zeros and what is made of them.
Value = float | None
_MEANING: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.nan,
    "neg": lambda a: -a,
    "abs": lambda a: a if a > 0 else -a,
    "recip": lambda a: 1 / a if a else math.nan,
    "max": max,
    "min": min,
    "less_than": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
}


def bounds(c: CascadeLoops, extent: Expr) -> Walk:
    """From where to where along the axis there is anything: masked scores, which give every state what changes nothing, are left out where that is seen from the rows."""
    low, high = ZERO, extent
    for node, index in _masked(c) if c.blocked and c.reached is None else ():
        if not all(gives_nothing(state, node) and _rows_keep(state, node, c) for state in c.states):
            continue
        at = tuple(simplify(e, c.body.current.known) for e in index)
        for part in _positional(node.args[0]):
            condition = yield c.body._read(part, at, None)
            if any(v.names & condition.names for v in c.mixed_rows):  # rows that each tile is worked off for
                continue
            first, end = _between(condition)
            low = low if first is None else maximum(low, first)
            high = high if end is None else minimum(high, end)
    known = c.body.current.known
    return simplify(low, known), simplify(high, known)


def _between(condition: Expr) -> Interval:
    """From where to where along the axis a condition may hold: of what is joined by `and` the common part, of what is joined by `or` all from the first to the last."""
    found: dict[Expr, Interval] = {}
    for n in subexpressions(condition):
        if n.op == "bit_and" and n.dtype is bool_:
            low, high = zip(*(found[a] for a in n.args), strict=True)
            found[n] = (_all(maximum, low), _all(minimum, high))
        elif n.op == "bit_or" and n.dtype is bool_:
            low, high = zip(*(found[a] for a in n.args), strict=True)
            found[n] = (None if None in low else _all(minimum, low), None if None in high else _all(maximum, high))
        else:
            sides = [coefficient(p, ALONG) for p in _at_least_zero(n) if degree(p, ALONG) == 1]
            low = [expr(scaled(rest, -1)) for slope, rest in sides if slope == constant(1)]
            high = [expr(rest) + 1 for slope, rest in sides if slope == constant(-1)]
            found[n] = (_all(maximum, low), _all(minimum, high))
    return found[condition]


def _all(extreme: Callable[[Expr, Expr], Expr], ends: Iterable[Expr | None]) -> Expr | None:
    """The extreme of the ends that there are."""
    return reduce(extreme, [e for e in ends if e is not None]) if any(e is not None for e in ends) else None


def _at_least_zero(test: Expr) -> list[Poly]:
    """What is 0 or more where a comparison of positions holds.  |x| <= n says it of two sums; x // d <= n says where a block ends."""
    if test.op not in ("less_than", "less_equal", "equal") or test.args[0].dtype is not INDEX or not test.is_position:
        return []
    p = plus(poly(test.args[1]), poly(test.args[0]), -1)
    todo = {"less_than": [plus(p, constant(1), -1)], "less_equal": [p], "equal": [p, scaled(p, -1)]}[test.op]
    found: list[Poly] = []
    while todo:
        p = todo.pop()
        todo += (parts := _apart(p))
        found += () if parts else (p,)
    return found


def _apart(p: Poly) -> list[Poly]:
    """Sums without an absolute value, a largest or a quotient along the axis that are all 0 or more where p is; none where there is nothing of these."""
    for m, c in p.items():
        if len(m) != 1 or not m[0].names & ALONG.names:
            continue
        rest, args = plus(p, {m: c}, -1), [poly(a) for a in m[0].args]
        if c < 0 and m[0].op == "abs":
            return [plus(rest, args[0], c), plus(rest, args[0], -c)]
        if m[0].op == ("max" if c < 0 else "min"):
            return [plus(rest, a, c) for a in args]
        if m[0].op == "floordiv" and is_constant(args[1]) and args[1].get((), 0) > 0:
            # c · (x // d) <= n: x <= d · (n // c) + d - 1;   c · (x // d) >= -n: x >= -d · (n // c)
            most = times(poly(expr(rest) // abs(c)), args[1])
            return [plus(most, args[0])] if c > 0 else [plus(plus(most, constant(args[1][()] - 1)), args[0], -1)]
    return []


def _positional(condition: View) -> list[View]:
    """The conjuncts that are made of positions: others (a score above a threshold) say nothing of where tiles begin, and to compute them takes loops."""
    found: list[View] = []
    stack = [condition]
    while stack:
        view = stack.pop()
        if (view.node.op == "bit_and" or _in_turn(view.node)) and view.domain is None:
            stack.extend(reversed(view.operands[:2]))
        elif all(v.node.op in ("const", "iota") for v in reads_of(view)):
            found.append(view)
    return found


def _in_turn(node: Node) -> bool:
    """Whether a value is that of one condition where another holds, as loops ask them."""
    if node.op != "where" or node.args[2].domain is not None:
        return False
    other = node.args[2].node
    return other.op == "const" and other.attr.value is False


def _masked(c: CascadeLoops) -> list[tuple[Node, Point]]:
    """The choices, between a value and a constant, that what is kept for a tile is made of."""
    kept: set[Node] = set()
    for node, _ in c.wanted:
        kept.update(c.pointwise(node))
    every = dict.fromkeys((node, index) for k in range(len(c.states)) for node, index, fixed in c.reads(k) if fixed and node in kept)
    return [(n, index) for n, index in every if n.op == "where" and n.args[2].node.op == "const" and n.args[2].domain is None]


def gives_nothing(state: Node, masked: Node) -> bool:
    """Whether a reduction does not change where the `where` node `masked` is its fill.

    An exponential of -inf is 0, and so is a product with 0: a weight of 0 is dropped, whatever it weighs.  An infinity takes what is added to it for finite.  A loop may do anything.
    """
    if state.op == "nest":
        return False
    fill = masked.args[2].node.attr.value
    value: dict[Node, Value] = {}
    test = masked.args[0].node if masked.args[0].is_all(masked.shape) else None  # which does not hold
    for n in postorder(state.args[0].node):
        value[n] = fill if n is masked else 0.0 if n is test else _value(n, [value[a.node] if a.domain is None else None for a in n.args])
    result = value[state.args[0].node]
    return state.args[0].domain is None and result is not None and result == IDENTITY.get(state.attr.combiner)


def _rows_keep(state: Node, masked: Node, c: CascadeLoops) -> bool:
    """Whether the mask leaves something of every row that is reduced along another axis than that of the cascade.

    Of such a row that is masked whole, all weights are NaN, exp(-inf - max(-inf, ...)), also those in tiles where this cascade finds nothing but fills.  Of a row along its own axis no tile is
    left then, and its states say so.
    """
    for n in postorder(state.args[0].node):
        if n in c.states or n.op in OPS or n.op == "cascade":
            continue
        for arg in n.args:
            for view in _reached(arg, masked):
                test = masked.args[0].through(view.places)
                if n.op != "reduce" or view.domain is not None or not somewhere(n, (test,), c.body.current.known):
                    return False
    return True


def _reached(value: View, node: Node) -> list[View]:
    """Where a node is read by what is made of it pointwise, over the domain of the value's user; under a domain, if any stands on the way."""
    if all(n is not node for n in postorder(value.node)):
        return []
    found: list[View] = []
    stack = [value]
    seen: set[View] = set()
    while stack:
        view = stack.pop()
        if view in seen:
            continue
        seen.add(view)
        if view.node is node:
            found.append(view)
        elif view.node.op in OPS:
            for v in view.operands:
                stack.append(v if view.domain is None else View(v.node, v.index, view.domain, view.fill))
    return found


def _value(n: Node, args: list[Value]) -> Value:
    if n.op == "const":
        return n.attr.value
    if n.op not in OPS:
        return None
    if n.op == "cast":
        return args[0] if n.dtype.is_float else None
    if n.op == "where":
        if args[0] is None:
            return args[1] if args[1] == args[2] else None
        return args[1] if args[0] else args[2]
    if n.op in ("exp", "exp2"):
        return 0.0 if args[0] == -INF else 1.0 if args[0] == 0 else None
    if n.op == "mul" and 0 in args:
        return 0.0
    if n.op == "div" and args[0] == 0:
        return 0.0
    if n.op in ("add", "sub") and None in args and len({INF, -INF}.intersection(args)) == 1:
        known = args[0] if args[1] is None else args[1]
        return known if n.op == "add" or args[1] is None else -known  # type: ignore[operator]
    if None in args or n.op not in _MEANING:
        return None
    result = _MEANING[n.op](*args)
    return None if math.isnan(result) else result
