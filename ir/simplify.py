"""Simplification of integer index expressions and of conditions on them, exact for every value that `Known` admits.

Sums and products become canonical polynomials (`polynomial.py`); what is left is a table of named rules for each other operator, tried in order until
one applies.  Rules marked d > 0 ask for a proof of it.  All hold for floor division, also of negative numbers.

i64 expressions that hold loaded or computed *values* are only touched by what is true of wrapping arithmetic too (the ring laws); positions are exact.
Values of other dtypes are left alone, the positions inside them (the indices of a load, the condition of a where) are simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Final

from . import polynomial as pl
from .bounds import Known, Range, fact
from .conditions import BOOLEAN, CHAINS, compare, conjuncts, holds, parts_of
from .dtypes import INDEX, bool_
from .expr import FALSE, TRUE, ZERO, Expr, call, const, make
from .graph import Size
from .polynomial import Poly

KnownLike = Known | Mapping[str, "Range | tuple[Expr | int | None, Expr | int | None, int] | Size"]
_LINEAR: Final = frozenset({"add", "sub", "mul", "neg"})
_SHIFTS: Final = {"shift_left": "mul", "shift_right": "floordiv"}  # by a number that is known they are a product and a quotient
SHORT: Final = 32  # such a number


def simplify(e: Expr, known: KnownLike | None = None) -> Expr:
    """The simplest form that the rules give; the same object for expressions that they prove equal by normal form."""
    if not e.args:
        return e
    known = (known if isinstance(known, Known) else Known(known or {})).home(e)
    memo = known.memo
    found = memo.get(e)
    if found is not None:
        return found
    stack = [e]
    while stack:
        n = stack[-1]
        if n in memo:
            stack.pop()
            continue
        if known.outer is not None and known.inner.isdisjoint(n.names):
            memo[n] = simplify(n, known.outer)
            continue
        if n.dtype is not INDEX and n.dtype is not bool_ and n.op != "where":  # a value: what it is made of may change
            waiting = _unknown(n.args, memo)
            if waiting:
                stack += waiting
                continue
            operands = tuple([memo[a] for a in n.args])
            result = memo[n] = n if operands == n.args else make(n.op, n.dtype, operands, n.attr)
            memo.setdefault(result, result)
            continue
        terms = _terms(n)
        if n.canonical and terms is not None and _is_plain(terms):
            memo[n] = n
            continue
        args = tuple(parts_of(n.op, n)) if n.op in CHAINS and n.dtype is bool_ else n.args  # what stands in a chain is compared with all of it, once
        waiting = _unknown(args if terms is None else tuple(pl.atoms(terms)), memo)
        whole = pl.composed(terms, memo) if terms is not None and not waiting else None
        if whole is None and not waiting:
            waiting = _unknown(args, memo)
        if waiting:
            stack += waiting
            continue
        if whole is None:
            result = _step(n, tuple([memo[a] for a in args]), known)
        else:
            whole = regrouped(whole, known)
            result = n if n.canonical and whole is n.poly else pl.expr(whole)
        memo[n] = result
        memo.setdefault(result, result)
    return memo[e]


def _unknown(parts: tuple[Expr, ...], memo: dict[Expr, Expr]) -> list[Expr]:
    """What is not in the memo; leaves are as they are."""
    waiting: list[Expr] = []
    for a in parts:
        if a not in memo:
            if a.args:
                waiting.append(a)
            else:
                memo[a] = a
    return waiting


def _is_plain(p: Poly) -> bool:
    """Of leaves alone."""
    for m in p:
        for a in m:
            if a.args:
                return False
    return True


def _terms(n: Expr) -> Poly | None:
    """A sum or product of positions as a polynomial, so that the sums inside it need no form of their own; None for other expressions."""
    if n.dtype is not INDEX or n.op not in _LINEAR:
        return None
    p = pl.poly(n)
    for m in p:
        for a in m:
            if a.op in _LINEAR:  # a product that would have had too many terms
                return None
    return p


def as_known(known: KnownLike | None) -> Known:
    return known if isinstance(known, Known) else Known(known or {})


def assuming(known: Known, condition: Expr | None) -> Known:
    """Also the condition, where it is a conjunction of comparisons (other parts add nothing)."""
    if condition is None or condition is TRUE:
        return known
    found = known.assumed.get(condition)
    if found is None:
        parts = conjuncts(simplify(condition, known))
        zeros = tuple(c.args[0] for c in parts if c.op == "equal" and c.args[1] is ZERO and c.args[0].op == "mod")
        found = known.with_facts((f for c in parts for f in fact(c)), zeros)
        for x, d in (z.args for z in zeros):
            if x.op in ("size", "var") and d.is_const and d.attr > 0:
                found = found.with_multiple(x.attr, d.attr)
        known.assumed[condition] = found
    return found


def granting(known: Known, condition: Expr | None) -> Known:
    """The same without asking which of the comparisons are known, or follow from others."""
    if condition is None or condition is TRUE:
        return known
    return known.with_facts([f for c in conjuncts(condition) for f in fact(c)])


def prove(condition: Expr, known: KnownLike | None = None) -> bool:
    """The boolean expression holds for every admitted value.  False means that no proof was found."""
    return simplify(condition, known) is TRUE


def prove_equal(a: Expr, b: Expr, known: KnownLike | None = None) -> bool:
    known = as_known(known)
    return a is b or simplify(a, known) is simplify(b, known) or prove(a.eq(b), known)


def prove_le(a: Expr, b: Expr, known: KnownLike | None = None) -> bool:
    if a.is_const and b.is_const:
        return a.attr <= b.attr
    known = as_known(known)
    a, b = simplify(a, known), simplify(b, known)
    if not (a.is_position and b.is_position):
        return False
    return holds(pl.plus(pl.poly(b), pl.poly(a), -1), known.home(a.le(b)))


def _step(n: Expr, args: tuple[Expr, ...], known: Known) -> Expr:
    """One node whose operands are simplified."""
    if n.op == "where":
        return args[1] if args[0] is TRUE or args[1] is args[2] else args[2] if args[0] is FALSE else make("where", n.dtype, args)
    if n.dtype is INDEX and n.op in _LINEAR:
        made = pl.combined(n.op, [pl.poly(a) for a in args])
        return make(n.op, INDEX, args) if made is None else pl.expr(regrouped(made, known))
    if n.dtype is bool_ and n.op in BOOLEAN:
        return BOOLEAN[n.op](args, known)
    if not all(a.is_position for a in args):
        if n.dtype is INDEX and n.op in ("min", "max"):
            args = tuple(sorted(args, key=pl.key))  # as `extreme` does: one text for what a test asks and what a gather does
        return n if args == n.args else make(n.op, n.dtype, args, n.attr)
    if n.dtype is INDEX and n.op in ("floordiv", "mod"):
        x, d = (pl.poly(a) for a in args)
        return pl.expr(regrouped((divide if n.op == "floordiv" else remainder)(x, d, known), known))
    if n.dtype is INDEX and n.op in ("min", "max"):
        return extreme(n.op, args, known)
    if n.dtype is INDEX and n.op in _SHIFTS and args[1].is_const and 0 <= args[1].attr < SHORT:
        op = _SHIFTS[n.op]
        return _step(make(op, INDEX, args), (args[0], const(1 << args[1].attr)), known)
    if n.op in ("less_than", "less_equal", "equal", "not_equal") and args[0].dtype is INDEX:
        return compare(n.op, args[0], args[1], known)
    return n if args == n.args else make(n.op, n.dtype, args, n.attr)


# ---- sums: what a polynomial does not see


def regrouped(p: Poly, known: Known) -> Poly:
    """d·(x // d) → x where x % d is proven 0;   d·(x // d) + y % d → x where d divides x - y, also times a factor."""
    changed: Poly | None = p
    while changed is not None:
        p = changed
        changed = _regrouped_once(p, known)
    return p


def _regrouped_once(p: Poly, known: Known) -> Poly | None:
    for m in p:
        for a in m:
            if a.args and a.op in ("floordiv", "mod") and a.is_position:
                found = _regroup(p, m, a, known)
                if found is not None:
                    return found
    return None


def _regroup(p: Poly, m: pl.Monomial, a: Expr, known: Known) -> Poly | None:
    known = known.home(a)
    x, d = pl.poly(a.args[0]), pl.poly(a.args[1])
    if not d or (m.count(a) if len(d) == 1 else pl.degree(p, a)) != 1:
        return None
    if a.op == "mod" and len(p) < 2:
        return None
    # a divisor of one term stands in every term by itself, the terms of a longer one only together
    factor = {tuple([b for b in m if b is not a]): p[m]} if len(d) == 1 else pl.coefficient(p, a)[0]
    if a.op == "floordiv":
        q, r = pl.divided(factor, d)
        return None if r or not is_multiple(x, d, known) else pl.plus(pl.plus(p, pl.times(factor, pl.atom(a)), -1), pl.times(q, x))
    quotient = known.quotients.get(a)
    if quotient is None:
        quotient = known.quotients[a] = divide(x, d, known)
    # the remainder alone may have lost multiples of the divisor that the quotient still has, and remainders inside: (16·(i % 36) + s) % 3 is (i + s) % 3
    others = [b for b in pl.atoms(p) if b.op == "floordiv" and b.args[1] is a.args[1]]
    for dividend, q in ((x, quotient), *((pl.poly(b.args[0]), pl.atom(b)) for b in others)):
        whole = pl.times(pl.times(factor, d), q)
        if all(p.get(k) == c for k, c in whole.items()) and (dividend is x or _same_remainder(dividend, x, d, a, known)):
            return pl.plus(pl.plus(pl.plus(p, pl.times(factor, pl.atom(a)), -1), whole, -1), pl.times(factor, dividend))
    return None


def is_multiple(x: Poly, d: Poly, known: Known) -> bool:
    """x % d == 0 is known, for d other than 0."""
    if known.zeros and any(pl.poly(z.args[0]) == x and pl.poly(z.args[1]) == d for z in known.zeros):
        return True
    if not pl.is_constant(d):
        return not pl.divided(x, d)[1]
    size = abs(d.get((), 0))
    return size > 0 and known.multiple(x) % size == 0


# ---- floor division and modulus


def by_one(x: Poly, d: Poly, known: Known) -> Poly | None:
    """x // 1 → x"""
    return x if d == {(): 1} else None


def by_negative(x: Poly, d: Poly, known: Known) -> Poly | None:
    """x // d → -x // -d for a constant d < 0"""
    return divide(pl.scaled(x, -1), pl.scaled(d, -1), known) if pl.is_constant(d) and d.get((), 0) < 0 else None


def take_out(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(q·d + r) // d → q + r // d     (d > 0)"""
    q, r = pl.divided(x, d)
    return pl.plus(q, divide(r, d, known)) if q else None


def take_out_multiples(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(m + r) // d → m // d + r // d where d divides the terms m, known by the sizes' multiples     (d > 0)"""
    exact = {m: c for m, c in x.items() if m and is_multiple({m: c}, d, known)}
    if not exact or len(exact) == len(x):
        return None
    return pl.plus(divide(exact, d, known), divide(pl.plus(x, exact, -1), d, known))


def out_of_product(x: Poly, d: Poly, known: Known) -> Poly | None:
    """a·b // d → (a // d)·b for a constant d of which a is a multiple, so that what b counts can be seen"""
    if len(x) != 1 or not pl.is_constant(d) or d.get((), 0) < 2:
        return None
    ((m, c),) = x.items()
    for k, a in enumerate(m):
        if len(m) > 1 and is_multiple({(a,): 1}, d, known):
            return pl.times(pl.poly(call("floordiv", a, pl.expr(d))), {(*m[:k], *m[k + 1 :]): c})
    return None


def below_one(x: Poly, d: Poly, known: Known) -> Poly | None:
    """x // d → 0 for 0 <= x < d;   → -1 for -d <= x < 0     (d > 0)"""
    if known.nonnegative(x):
        return {} if known.positive(pl.plus(d, x, -1)) else None
    return pl.constant(-1) if known.positive(pl.scaled(x, -1)) and known.nonnegative(pl.plus(x, d)) else None


def by_factor(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(g·y + r) // (g·e) → y // e for 0 <= r < g     (d > 0, g > 0)"""
    found = _factored(x, d, known)
    return None if found is None else divide(found[1], found[2], known)


def nested(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(y // a + c) // d → (y + a·c) // (a·d) for a constant c     (d > 0, a > 0)"""
    inner = [m for m in x if m]
    if len(inner) != 1 or len(inner[0]) != 1 or x[inner[0]] != 1 or inner[0][0].op != "floordiv":
        return None
    y, a = (pl.poly(arg) for arg in inner[0][0].args)
    if not known.positive(a):
        return None
    return divide(pl.plus(y, pl.scaled(a, x.get((), 0))), pl.times(a, d), known)


def _factored(x: Poly, d: Poly, known: Known) -> tuple[Poly, Poly, Poly, Poly] | None:
    """(g, y, e, r) with x = g·y + r, d = g·e, g > 0 and 0 <= r < g; None where no factor g of d other than 1 does that."""
    if len(d) != 1:
        return None
    ((m, c),) = d.items()
    candidates: list[Poly] = [{(a,): 1} for a in dict.fromkeys(m)]
    numbers = {gcd(c, k) for n, k in x.items() if n} - {1}
    candidates += [pl.constant(g) for g in sorted(numbers, reverse=True)]
    for g in candidates:
        e, left = pl.divided(d, g)
        y, r = pl.divided(x, g)
        if left or not y or not known.positive(g):
            continue
        if known.nonnegative(r) and known.positive(pl.plus(g, r, -1)):
            return g, y, e, r
    return None


def _same_remainder(dividend: Poly, x: Poly, d: Poly, a: Expr, known: Known) -> bool:
    """Whether the remainder of a dividend is `a`, which is that of x."""
    return not pl.divided(pl.plus(dividend, x, -1), d)[1] or (known.positive(d) and remainder(dividend, d, known) == pl.atom(a))


def mod_by_one(x: Poly, d: Poly, known: Known) -> Poly | None:
    """x % 1 → 0"""
    return {} if d == {(): 1} else None


def mod_below(x: Poly, d: Poly, known: Known) -> Poly | None:
    """x % d → x for 0 <= x < d;   → x + d for -d <= x < 0     (d > 0)"""
    if known.nonnegative(x):
        return x if known.positive(pl.plus(d, x, -1)) else None
    return pl.plus(x, d) if known.positive(pl.scaled(x, -1)) and known.nonnegative(pl.plus(x, d)) else None


def drop_multiples(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(q·d + r) % d → r % d, also for terms that d divides by the sizes' multiples; coefficients are brought next to 0     (d > 0)"""
    r: Poly = pl.divided(x, d)[1]
    r = {m: c for m, c in r.items() if not m or not is_multiple({m: c}, d, known)}
    if pl.is_constant(d):
        whole = d[()]
        half = (whole - 1) // 2
        r = {m: (c + half) % whole - half if m else c for m, c in r.items()}
    return remainder(r, d, known) if r != x else None


def drop_inner_mod(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(k·(y % e) + r) % d → (k·y + r) % d where d divides k·e     (d > 0, e is not 0)"""
    for m, k in x.items():
        if len(m) == 1 and m[0].op == "mod":
            y, e = (pl.poly(arg) for arg in m[0].args)
            if known.positive(e) and not pl.divided(pl.scaled(e, k), d)[1]:
                return remainder(pl.plus(pl.plus(x, {m: k}, -1), pl.scaled(y, k)), d, known)
    return None


def mod_by_factor(x: Poly, d: Poly, known: Known) -> Poly | None:
    """(g·y + r) % (g·e) → g·(y % e) + r for 0 <= r < g     (d > 0, g > 0)"""
    found = _factored(x, d, known)
    if found is None:
        return None
    g, y, e, r = found
    return pl.plus(pl.times(g, remainder(y, e, known)), r)


Rule = Callable[[Poly, Poly, Known], Poly | None]
DIVISION_BY_ANY: Final[tuple[Rule, ...]] = (by_one, by_negative)
DIVISION: Final[tuple[Rule, ...]] = (take_out, take_out_multiples, out_of_product, below_one, by_factor, nested)
MODULUS: Final[tuple[Rule, ...]] = (mod_by_one, mod_below, drop_multiples, drop_inner_mod, mod_by_factor)


def divide(x: Poly, d: Poly, known: Known) -> Poly:
    """floor(x / d)"""
    for rule in DIVISION_BY_ANY:
        found = rule(x, d, known)
        if found is not None:
            return found
    if known.positive(d):
        if not x:
            return {}
        for rule in DIVISION:
            found = rule(x, d, known)
            if found is not None:
                return found
    return pl.poly(call("floordiv", pl.expr(x), pl.expr(d)))


def remainder(x: Poly, d: Poly, known: Known) -> Poly:
    """x - d · floor(x / d)"""
    if known.positive(d):
        if not x:
            return {}
        for rule in MODULUS:
            found = rule(x, d, known)
            if found is not None:
                return found
    return pl.poly(call("mod", pl.expr(x), pl.expr(d)))


# ---- minimum and maximum


def extreme(op: str, args: tuple[Expr, ...], known: Known) -> Expr:
    """Flattened, without the operands that another one is proven to beat, the others in a fixed order."""
    parts = list(dict.fromkeys(p for a in args for p in _flat(op, a)))
    if len(parts) > 1:
        polys = {p: pl.poly(p) for p in parts}
        values = {p: [point.at(polys[p]) for point in known.points] for p in parts}
        for p in list(parts):
            if any(q is not p and _exceeds(*((p, q) if op == "min" else (q, p)), polys, values, known) for q in parts):
                parts.remove(p)
    parts.sort(key=pl.key)
    result = parts[0]
    for p in parts[1:]:
        result = make(op, INDEX, (result, p))
    return result


def _exceeds(a: Expr, b: Expr, polys: dict[Expr, Poly], values: dict[Expr, list[int | None]], known: Known) -> bool:
    """a >= b is proven.  Where it is not so at a point, that is not tried."""
    for x, y in zip(values[a], values[b], strict=True):
        if x is not None and y is not None and x < y:
            return False
    return known.nonnegative(pl.plus(polys[a], polys[b], -1))


def _flat(op: str, e: Expr) -> list[Expr]:
    found: list[Expr] = []
    stack = [e]
    while stack:
        n = stack.pop()
        if n.op == op:
            stack.extend(reversed(n.args))
        else:
            found.append(n)
    return found
