"""Comparisons and logic: the boolean half of `simplify.py`.

A comparison of integers becomes terms on both sides of one relation, all with positive coefficients, divided by what is common; a conjunction loses what the
rest of it implies; a negation moves to the comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import polynomial as pl
from .bounds import Known, fact
from .dtypes import INDEX, bool_
from .expr import FALSE, TRUE, Expr, call, const, make
from .polynomial import Poly
from .walks import postorder


def compare(op: str, a: Expr, b: Expr, known: Known) -> Expr:
    """less_than, less_equal, equal or not_equal of two integer expressions."""
    p = pl.plus(pl.poly(b), pl.poly(a), -1)
    if op in ("equal", "not_equal"):
        return _equality(op, p, known)
    if op == "less_than":
        p = pl.shifted(p, -1)
    return at_least_zero(p, known)


def at_least_zero(p: Poly, known: Known) -> Expr:
    """p >= 0 as an expression."""
    p = pl.undivided(p)
    decided = known.decided(p)
    if decided is not None:
        return TRUE if decided else FALSE
    p = _without_rest(p, known)
    g = pl.content(p)
    p = {m: c // g for m, c in p.items()}
    offset = p.get((), 0)
    right: pl.Poly = {m: c for m, c in p.items() if c > 0 and m}
    left: pl.Poly = {m: -c for m, c in p.items() if c < 0 and m}
    if offset == -1 and left:
        return call("less_than", pl.expr(left), pl.expr(right))
    # the constant goes where it is positive, alone it stands on either side
    if offset > 0 or not right:
        right = pl.plus(right, pl.constant(offset))
    else:
        left = pl.plus(left, pl.constant(-offset))
    return call("less_equal", pl.expr(left), pl.expr(right))


def _without_rest(p: Poly, known: Known) -> Poly:
    """16·x + l >= 0 → x >= 0 where 0 <= l < 16: what only tells positions in one block of another."""
    small = [m for m, c in p.items() if m and -1 <= c <= 1]
    if len(small) != 1 or len(p) < 3 - (() not in p):
        return p
    blocks = {m: c for m, c in p.items() if m and m is not small[0]}
    g = pl.content(blocks)
    low, high = known.interval(pl.plus(p, blocks, -1)) if g > 1 else (None, None)
    if low is None or high is None or low // g != high // g:
        return p
    return pl.plus(blocks, pl.constant(low // g * g))


def holds(p: Poly, known: Known) -> bool:
    """Whether p >= 0 is proven, which is less to ask than what it is."""
    return known.nonnegative(pl.undivided(p))


def _equality(op: str, p: Poly, known: Known) -> Expr:
    same, other = (TRUE, FALSE) if op == "equal" else (FALSE, TRUE)
    if not p:
        return same
    if known.positive(p) or known.positive(pl.scaled(p, -1)):
        return other
    if known.nonnegative(p) and known.nonnegative(pl.scaled(p, -1)):
        return same
    varying = known.multiple({m: c for m, c in p.items() if m})
    offset = p.get((), 0)
    if varying == 0 or offset % varying:
        return other
    g = pl.content(p)  # divides `varying`, and so the offset
    p = {m: c // g for m, c in p.items()}
    if p[min(p, key=pl.order)] < 0:
        p = pl.scaled(p, -1)
    left = {m: c for m, c in p.items() if c > 0 and m}
    right = pl.scaled({m: c for m, c in p.items() if c < 0 or not m}, -1)
    return call(op, pl.expr(left), pl.expr(right))


# ---- logic


def conjuncts(e: Expr) -> list[Expr]:
    """The parts of a conjunction, each once."""
    return parts_of("bit_and", e)


def fixed_sizes(condition: Expr | None) -> dict[Expr, Expr]:
    """The sizes that a condition gives a value, and these values."""
    parts = conjuncts(condition) if condition is not None else []
    return {c.args[0]: c.args[1] for c in parts if c.op == "equal" and c.args[0].op == "size" and c.args[1].is_const}


def parts_of(op: str, e: Expr) -> list[Expr]:
    """The operands of a chain of one operator, each once."""
    found: dict[Expr, None] = {}
    stack = [e]
    while stack:
        n = stack.pop()
        if n.op == op and n.dtype is bool_:
            stack.extend(reversed(n.args))
        else:
            found[n] = None
    return list(found)


def conjunction(args: tuple[Expr, ...], known: Known) -> Expr:
    """a & true → a;   a & false → false;   a & not a → false;   a & b → a where a implies b;   a & b → false where a implies not b

    What shares no name with a part, and is bounded by nothing that it is bounded by (rows and columns of a tile), says nothing of it.
    """
    parts = [p for p in dict.fromkeys(q for a in args for q in conjuncts(a)) if p is not TRUE]
    facts = {p: fact(p) for p in parts} if len(parts) > 1 else {}
    if FALSE in parts or _contradictory(parts, facts, known):
        return FALSE
    kept = list(parts)
    reached = {p: known.reached(p.names) for p in facts}
    for p in parts:
        others = [f for q in kept if q is not p and not reached[p].isdisjoint(reached[q]) for f in facts[q]]
        judged = _open(_judged(p), others, known) if others else []
        stronger = known.with_facts(others) if judged else known
        for f, result in judged:
            if stronger.nonnegative(f):
                if result is FALSE:
                    return FALSE
                kept.remove(p)
                break
    return _chain("bit_and", kept) if kept else TRUE


def _open(judged: list[tuple[Poly, Expr]], facts: list[Poly], known: Known) -> list[tuple[Poly, Expr]]:
    """What no point with these facts refutes: only that is worth a scope of its own, in which it may be proven."""
    for point in known.points if judged else ():
        agrees = True
        for f in facts:
            value = point.at(f)
            agrees = agrees and value is not None and value >= 0
        if agrees:
            judged = [(f, result) for f, result in judged if (value := point.at(f)) is None or value >= 0]
    return judged


def _judged(p: Expr) -> list[tuple[Poly, Expr]]:
    """For an inequality f >= 0: f >= 0 makes it true, -f - 1 >= 0 false."""
    found = fact(p)
    if len(found) != 1:
        return []
    return [(found[0], TRUE), (pl.shifted(pl.scaled(found[0], -1), -1), FALSE)]


def disjunction(args: tuple[Expr, ...], known: Known) -> Expr:
    """a | false → a;   a | true → true;   a | not a → true;   n <= 64 | 64 <= n → true;   a | a & b → a;   a & b | a & not b → a"""
    parts = [p for p in dict.fromkeys(q for a in args for q in parts_of("bit_or", a)) if p is not FALSE]
    if 1 < len(parts) <= MOST_MERGED and any(p.op == "bit_and" for p in parts):
        parts = _merged(parts, known)
    facts = {p: fact(p) for p in parts} if len(parts) > 1 else {}
    if TRUE in parts or _contradictory(parts, facts, known) or _exhaustive(_said(facts)):
        return TRUE
    return _chain("bit_or", parts) if parts else FALSE


MOST_MERGED: Final = 8  # conjunctions that are compared with one another


def _merged(parts: list[Expr], known: Known) -> list[Expr]:
    """What is left of a disjunction of conjunctions when those that say more than another, and what two say between them, are one."""
    sets = [dict.fromkeys(conjuncts(p)) for p in parts]
    pairs = True
    while pairs:
        pairs = False
        for a, b in ((a, b) for k, a in enumerate(sets) for b in sets[k + 1 :]):
            only_a, only_b = [c for c in a if c not in b], [c for c in b if c not in a]
            opposite = len(only_a) == len(only_b) == 1 and only_a[0].op not in CHAINS and _opposite(only_a[0], known) is only_b[0]
            if not only_a or not only_b or opposite:
                sets = [s for s in sets if s is not a and s is not b] + [{c: None for c in a if c in b}]
                pairs = True
                break
    return [_chain("bit_and", list(s)) if s else TRUE for s in sets]


def _contradictory(parts: list[Expr], facts: dict[Expr, list[Poly]], known: Known) -> bool:
    """One of them is the negation of another; only those that are no conjunction or disjunction are looked at.  `facts`: what each of several says."""
    if len(parts) < 2:
        return False
    said = _said(facts)  # of f >= 0 the negation is -f - 1 >= 0
    if any(pl.plus(pl.constant(-1), f, -1) in said for f in said):
        return True
    return any(_opposite(p, known) in parts for p in parts if p.op not in ("bit_and", "bit_or") and len(facts[p]) != 1)


def _said(facts: dict[Expr, list[Poly]]) -> list[Poly]:
    return [found[0] for found in facts.values() if len(found) == 1]


def _exhaustive(said: list[Poly]) -> bool:
    """Where f < 0, g >= 0: two comparisons overlap or meet if f + g is a constant of -1 or more."""
    sums = (pl.plus(f, g, 1) for k, f in enumerate(said) for g in said[k + 1 :])
    return any(all(not m for m in s) and s.get((), 0) >= -1 for s in sums)


def _chain(op: str, parts: list[Expr]) -> Expr:
    result = parts[0]
    for p in parts[1:]:
        result = make(op, bool_, (result, p))
    return result


def negated(e: Expr, known: Known) -> Expr:
    """not (a < b) → b <= a for integers, and so on; of a conjunction or disjunction by De Morgan; else bit_not."""
    done: dict[Expr, Expr] = {}
    for n in postorder(e):
        if n.dtype is bool_:
            both = n.op in ("bit_and", "bit_or")
            done[n] = make("bit_or" if n.op == "bit_and" else "bit_and", bool_, tuple(done[a] for a in n.args)) if both else _opposite(n, known)
    return done[e]


def _opposite(e: Expr, known: Known) -> Expr:
    if e.is_const:
        return const(not e.attr, bool_)
    if e.op == "bit_not":
        return e.args[0]
    if e.op not in _OPPOSITE or (e.op.startswith("less") and not e.args[0].dtype.is_integer):
        return make("bit_not", bool_, (e,))
    opposite, swapped = _OPPOSITE[e.op]
    a, b = e.args[::-1] if swapped else e.args
    return compare(opposite, a, b, known) if a.dtype is INDEX and e.is_position else call(opposite, a, b)


_OPPOSITE: Final = {
    "less_than": ("less_equal", True),
    "less_equal": ("less_than", True),
    "equal": ("not_equal", False),
    "not_equal": ("equal", False),
}


def negation(args: tuple[Expr, ...], known: Known) -> Expr:
    return negated(args[0], known)


CHAINS: Final = frozenset({"bit_and", "bit_or"})  # of the operators below, those of many operands
BOOLEAN: Final[dict[str, Callable[[tuple[Expr, ...], Known], Expr]]] = {
    "bit_and": conjunction, "bit_or": disjunction, "bit_not": negation,
}  # fmt: skip
